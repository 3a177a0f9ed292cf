//! What goes out: changes, events, states, acknowledgements.

use super::interest::Subscribed;
use super::neighbour::{ACK_WAITS, ASK_AFTER, ASK_EVERY, KEEP_ALIVE, Neighbour};
use super::wire::{Changes, Frame, Message};
use super::{Peer, PeerEvent};
use crate::game::Game;
use crate::outbox::{Link, Outbox};
use crate::session::write_message;
use foveate_sync::interest::Pivot;
use foveate_sync::{Budget, Observer, ObserverId, Pivots};
use foveate_wire::{Bytes, Metres, Micros, ObjectId, Radians, Tick, steps_to_angle};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rounds between two accounts of what can wait: links, and what was handed to us, of which its giver
/// has told already.
const ACCOUNT_EVERY: u32 = 30;
/// Rounds for which unused budget is kept.
const BURST: u32 = 8;
/// Of an uplink, this share is for states; the rest is for messages and the transport.
const FOR_STATES: f32 = 0.7;

impl<G: Game> Peer<G> {
    /// Tells everybody what they should know.
    pub(super) fn tell(&mut self, tick: Tick, now: Micros, out: &mut impl Outbox) {
        if tick.0.wrapping_add(self.me.0).is_multiple_of(ACCOUNT_EVERY) {
            self.tell_changes(out);
        } else if std::mem::take(&mut self.urgent) {
            let urgent = self.changes.take_objects();
            self.tell_all(urgent, out);
        }
        self.send_inquiries(out);
        self.tell_events();
        self.look_through_their_eyes();
        let Peer { stage, links, frame, .. } = self;
        let by_observer: BTreeMap<ObserverId, Link> =
            links.iter().filter_map(|(link, it)| Some((it.observer?, *link))).collect();
        stage.publisher.round(tick, now, |observer, packet| {
            let Some(link) = by_observer.get(&observer) else { return };
            let Some(neighbour) = links.get_mut(link) else { return };
            neighbour.write(packet, now, frame);
            out.datagram(*link, frame);
        });
        for (link, neighbour) in links.iter_mut().filter(|(_, it)| it.open) {
            if neighbour.owes > 0 {
                neighbour.owes += 1;
            }
            let due = neighbour.owes > ACK_WAITS
                || !neighbour.events.is_empty()
                || now - neighbour.spoke >= KEEP_ALIVE;
            let silent = now - neighbour.heard >= ASK_AFTER;
            neighbour.asks = silent && tick.0.is_multiple_of(ASK_EVERY);
            if due || neighbour.asks {
                neighbour.write(&[], now, frame);
                out.datagram(*link, frame);
            }
        }
    }

    /// Says once to all what changed.
    pub(super) fn tell_changes(&mut self, out: &mut impl Outbox) {
        self.urgent = false;
        let changes = std::mem::take(&mut self.changes);
        self.tell_all(changes, out);
    }

    fn tell_all(&self, changes: Changes, out: &mut impl Outbox) {
        if changes.is_empty() {
            return;
        }
        for part in changes.parts() {
            let bytes = write_message(&Message::Changes(part));
            let open = self.links.iter().filter(|(_, it)| it.open);
            open.for_each(|(link, _)| out.message(*link, &bytes));
        }
    }

    /// Gives each event to those who are near enough to notice it.
    fn tell_events(&mut self) {
        if self.happened.is_empty() {
            return;
        }
        let happened = std::mem::take(&mut self.happened);
        let places: Vec<_> =
            self.links.iter().map(|(link, it)| (*link, self.place_of(it.player))).collect();
        let here = self.here();
        for (spot, event) in &happened {
            if spot.reaches(here) {
                self.events.push_back(PeerEvent::Happened(event.clone()));
            }
            let Ok(bytes) = postcard::to_allocvec(event) else { continue };
            for (link, at) in &places {
                if at.is_some_and(|at| spot.reaches(at))
                    && let Some(neighbour) = self.links.get_mut(link)
                {
                    neighbour.notice(&bytes);
                }
            }
        }
        self.happened = happened;
    }

    /// A new neighbour is told from now on.
    pub(super) fn watch(&mut self, link: Link, now: Micros) {
        let (tick, Some(view)) = (self.tick_at(now), self.view(0)) else { return };
        let policy = Arc::new(Subscribed::new(view, 0, self.avatar, Default::default()));
        let observer = self.stage.publisher.add(Observer::new(policy, Pivots::Free(vec![]), tick));
        if let Some(neighbour) = self.links.get_mut(&link) {
            neighbour.observer = Some(observer);
        }
        self.share_uplink();
    }

    /// Each neighbour looks from where its avatar is known to be, by the view that it subscribed to.
    fn look_through_their_eyes(&mut self) {
        let stale: Vec<(Link, u8)> =
            self.links.iter().filter(|(_, it)| it.regrade).map(|(l, it)| (*l, it.view)).collect();
        for (link, which) in stale {
            let Some(view) = self.view(which) else { continue };
            let Some(it) = self.links.get_mut(&link) else { continue };
            it.regrade = false;
            let policy = Subscribed::new(view, it.class, self.avatar, it.kept.clone());
            let observer = it.observer.and_then(|id| self.stage.publisher.observer_mut(id));
            if let Some(observer) = observer {
                observer.set_policy(Arc::new(policy));
            }
        }
        let reach = self.fastest_avatar();
        let eyes: Vec<(ObserverId, Pivot)> =
            self.links.values().filter_map(|it| Some((it.observer?, self.eyes_of(it)?))).collect();
        for (observer, pivot) in eyes {
            if let Some(observer) = self.stage.publisher.observer_mut(observer) {
                observer.follow(Pivot { reach, ..pivot });
            }
        }
    }

    /// How fast avatars are at most, in units per second; 0 if the game does not say.
    pub(super) fn top_speed(&self) -> f32 {
        let kind = self.stage.game.schema().kind(self.avatar.kind());
        kind.map_or(0.0, |kind| kind.spec.max_speed)
    }

    fn fastest_avatar(&self) -> Metres {
        Metres((self.top_speed() * self.settings.rounds.length.as_secs() as f32).max(1e-3))
    }

    /// Where a neighbour looks from and to.
    fn eyes_of(&self, neighbour: &Neighbour) -> Option<Pivot> {
        let at = self.place_of(neighbour.player)?;
        let avatar = ObjectId::new(self.avatar.kind(), neighbour.player.0, 0);
        let angle = |lane: Option<(usize, u32)>, lanes: &[i32]| {
            Radians(lane.map_or(0.0, |(lane, steps)| steps_to_angle(lanes[lane], steps)))
        };
        let kind = self.stage.game.schema().kind(avatar.kind())?;
        let (yaw, pitch) = match self.stage.ghosts.lanes(avatar) {
            Some(lanes) => (angle(kind.yaw, lanes), angle(kind.pitch, lanes)),
            None => (Radians(0.0), Radians(0.0)),
        };
        Some(Pivot::looking(at, yaw, pitch))
    }

    /// The uplink is shared out by interest: whoever is near gets more.
    pub(super) fn share_uplink(&mut self) {
        let Some(uplink) = self.settings.uplink else { return };
        let here = self.here();
        let near = (self.sight() / 4.0).max(1e-3);
        let weight = |it: &Neighbour| {
            let at = self.place_of(it.player).unwrap_or(here);
            1.0 / (1.0 + crate::ghosts::apart(at, here) / near)
        };
        let weights: Vec<(Option<ObserverId>, f32)> =
            self.links.values().map(|it| (it.observer, weight(it))).collect();
        let all: f32 = weights.iter().map(|it| it.1).sum();
        let round = self.settings.rounds.length.as_secs() as f32;
        for (observer, weight) in weights {
            let bytes = uplink.0 as f32 * FOR_STATES * round * weight / all.max(1e-6);
            let budget = Budget::per_round(Bytes(bytes.max(4.0) as u32), BURST);
            if let Some(it) = observer.and_then(|id| self.stage.publisher.observer_mut(id)) {
                it.set_budget(budget);
            }
        }
    }
}

impl Neighbour {
    /// Puts a datagram together, with whatever else waits.
    fn write(&mut self, state: &[u8], now: Micros, out: &mut Vec<u8>) {
        out.clear();
        let ack = if self.owes > 0 { self.replicas.ack() } else { None };
        let room = foveate_wire::packet::MAX_PACKET.saturating_sub(state.len());
        let fits = self.events.len() <= room;
        let events = if fits { self.events.as_slice() } else { &[] };
        let asks = std::mem::take(&mut self.asks);
        Frame { ack, asks, events, state }.write(out);
        if fits {
            self.events.clear();
        }
        (self.owes, self.spoke) = (0, now);
    }
}

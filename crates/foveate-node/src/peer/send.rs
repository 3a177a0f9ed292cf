//! Sends changes, events, states and acknowledgements.

use super::interest::Subscribed;
use super::neighbour::{ACK_WAITS, ASK_AFTER, ASK_EVERY, KEEP_ALIVE, Neighbour};
use super::wire::{Changes, PeerDatagram, PeerMessage};
use super::{Peer, PeerEvent};
use crate::game::Game;
use crate::outbox::{Link, Outbox};
use crate::session::write_message;
use foveate_sync::{Observer, ObserverId, Pivots};
use foveate_wire::{Bytes, Micros, ObjectId, Tick};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rounds between two reports of changes that can wait: links, and objects received from an owner,
/// which has reported that already.
const ACCOUNT_EVERY: u32 = 30;
/// The share of the uplink for states; the rest is for messages and the transport.
const FOR_STATES: f32 = 0.7;

impl<G: Game> Peer<G> {
    /// Sends every neighbour what it should know.
    pub(super) fn send_updates(&mut self, tick: Tick, now: Micros, out: &mut impl Outbox) {
        if tick.0.wrapping_add(self.me.0).is_multiple_of(ACCOUNT_EVERY) {
            self.send_changes(out);
        } else if std::mem::take(&mut self.ownership.urgent) {
            let urgent = self.ownership.changes.take_objects();
            self.send_to_all(urgent, out);
        }
        self.send_inquiries(out);
        self.send_subscription(out);
        self.queue_events();
        self.update_viewpoints();
        self.update_gaze(tick);
        let Peer { simulation, links, scratch, .. } = self;
        let frame = &mut scratch.datagram;
        let by_observer: BTreeMap<ObserverId, Link> =
            links.iter().filter_map(|(link, it)| Some((it.observer?, *link))).collect();
        simulation.publisher.round(tick, now, |observer, packet| {
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
                || neighbour.gaze_now
                || now - neighbour.spoke >= KEEP_ALIVE;
            let silent = now - neighbour.heard >= ASK_AFTER;
            neighbour.asks = silent && tick.0.is_multiple_of(ASK_EVERY);
            if due || neighbour.asks {
                neighbour.write(&[], now, frame);
                out.datagram(*link, frame);
            }
        }
    }

    /// Sends this peer's view and pivot to all neighbours, if they changed.
    fn send_subscription(&mut self, out: &mut impl Outbox) {
        let allows = |id: &ObjectId| {
            self.simulation.game.may_watch(&self.simulation.world(), self.avatar, *id)
        };
        let watched = self.viewing.watched.filter(allows);
        self.viewing.resubscribe |= watched != self.viewing.watched;
        self.viewing.watched = watched;
        if !std::mem::take(&mut self.viewing.resubscribe) {
            return;
        }
        for (link, it) in self.links.iter().filter(|(_, it)| it.open) {
            out.message(*link, &write_message(&self.subscription(it.wanted_here)));
        }
    }

    /// Sends the changes since the last call to all neighbours.
    pub(super) fn send_changes(&mut self, out: &mut impl Outbox) {
        self.ownership.urgent = false;
        let changes = std::mem::take(&mut self.ownership.changes);
        self.send_to_all(changes, out);
    }

    fn send_to_all(&self, changes: Changes, out: &mut impl Outbox) {
        if changes.is_empty() {
            return;
        }
        for part in changes.parts() {
            let bytes = write_message(&PeerMessage::Changes(part));
            let open = self.links.iter().filter(|(_, it)| it.open);
            open.for_each(|(link, _)| out.message(*link, &bytes));
        }
    }

    /// Queues each event for the peers near enough to notice it.
    fn queue_events(&mut self) {
        if self.scratch.happened.is_empty() {
            return;
        }
        let happened = std::mem::take(&mut self.scratch.happened);
        let at = |it: &Neighbour| self.viewpoints_of(it).first().map(|eye| eye.1.at);
        let places: Vec<_> = self.links.iter().map(|(link, it)| (*link, at(it))).collect();
        let here = self.viewpoint();
        for (spot, event) in &happened {
            if spot.reaches(here) {
                self.events.push_back(PeerEvent::Happened(event.clone()));
            }
            let Ok(bytes) = postcard::to_allocvec(event) else { continue };
            for (link, at) in &places {
                if at.is_some_and(|at| spot.reaches(at))
                    && let Some(neighbour) = self.links.get_mut(link)
                {
                    let told = neighbour.notice(&bytes);
                    self.counts.events_dropped += u64::from(!told);
                }
            }
        }
        self.scratch.happened = happened;
    }

    /// Adds an observer for a new neighbour.
    pub(super) fn add_observer(&mut self, link: Link, now: Micros) {
        let (tick, Some(view)) = (self.tick_at(now), self.view(0)) else { return };
        let policy = Arc::new(Subscribed::new(view, self.avatar, Default::default()));
        let observer = self
            .simulation
            .publisher
            .add(Observer::new(policy, Pivots::Free(vec![]), tick).with_rules());
        if let Some(neighbour) = self.links.get_mut(&link) {
            neighbour.observer = Some(observer);
        }
        self.share_uplink();
    }

    /// The highest speed of avatars, in units per second; 0 if the game does not state it.
    pub(super) fn top_speed(&self) -> f32 {
        let kind = self.simulation.game.schema().kind(self.avatar.kind());
        kind.map_or(0.0, |kind| kind.spec.max_speed)
    }

    /// Divides the uplink by interest: nearer peers get more.
    pub(super) fn share_uplink(&mut self) {
        let Some(uplink) = self.settings.uplink else { return };
        let here = self.here();
        let near = (self.sight() / 4.0).max(1e-3);
        let weight = |it: &Neighbour| {
            let at = self.place_of(it.player).unwrap_or(here);
            1.0 / (1.0 + at.distance(here).0 / near)
        };
        let weights: Vec<f32> = self.links.values().map(weight).collect();
        let all: f32 = weights.iter().sum();
        let round = self.settings.rounds.length.as_secs() as f32;
        for (it, weight) in self.links.values_mut().zip(weights) {
            let bytes = uplink.0 as f32 * FOR_STATES * round * weight / all.max(1e-6);
            it.share = Some(Bytes(bytes.max(4.0) as u32));
            let observer = it.observer.and_then(|id| self.simulation.publisher.observer_mut(id));
            if let Some(observer) = observer {
                it.keep_within(observer);
            }
        }
    }
}

impl Neighbour {
    /// Writes a datagram with a state packet and everything else that waits.
    fn write(&mut self, state: &[u8], now: Micros, out: &mut Vec<u8>) {
        out.clear();
        let ack = if self.owes > 0 { self.replicas.ack() } else { None };
        let room = foveate_wire::packet::MAX_PACKET.saturating_sub(state.len());
        let fits = self.events.len() <= room;
        let events = if fits { self.events.as_slice() } else { &[] };
        let asks = std::mem::take(&mut self.asks);
        let gaze = self.stated.filter(|_| self.gaze_frames > 0).map(|stated| stated.1);
        (self.gaze_frames, self.gaze_now) = (self.gaze_frames.saturating_sub(1), false);
        PeerDatagram { ack, asks, gaze, events, state }.write(out);
        if fits {
            self.events.clear();
        }
        (self.owes, self.spoke) = (0, now);
    }
}

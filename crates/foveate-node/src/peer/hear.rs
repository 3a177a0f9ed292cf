//! What comes in: datagrams and messages, checked before anything is made of them.

use super::door::Hello;
use super::identity::Sealed;
use super::known::{Claim, Course};
use super::members::Learnt;
use super::neighbour::{ACK_WAITS, KEEP_ALIVE};
use super::wire::{Changes, Frame, MAX_INTRODUCED, Message, Named, player};
use super::{Fault, MAX_LINKS, Peer, PeerEvent, Phase};
use crate::game::{Game, Liveness, PlayerId, Tenure};
use crate::outbox::{Link, Outbox};
use crate::remote_objects::{apart, place_of};
use crate::session::read_message;
use foveate_sync::replica::{Change, ReceiveError};
use foveate_wire::{Epoch, Micros, Motion, ObjectId, Tick};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rounds by which a neighbour's clock may be ahead.
const MAX_AHEAD: u32 = 40;
/// Objects in one message of changes at most.
const MAX_CHANGES: usize = 4_096;
/// Between two calls to those who claim what is ours.
const DISPUTE_EVERY: Micros = Micros(500_000);
/// Events taken from one datagram at most.
const MAX_EVENTS: usize = 64;
/// A move may be this much longer than the kind's speed allows: rounding, and rounds that were skipped.
const SPEED_SLACK: f32 = 1.25;

impl<G: Game> Peer<G> {
    /// A datagram arrived.
    pub fn datagram(&mut self, link: Link, bytes: &[u8], now: Micros) {
        let Some(neighbour) = self.links.get_mut(&link) else { return };
        if !neighbour.patience.admits(now, bytes.len()) {
            return self.record_violation(link, Fault::Flooded, now);
        }
        if !neighbour.open || self.phase == Phase::Outside {
            return;
        }
        let Some(frame) = Frame::read(bytes) else {
            return self.record_violation(link, Fault::Malformed, now);
        };
        neighbour.heard = now;
        if frame.asks {
            neighbour.owes = neighbour.owes.max(ACK_WAITS);
        }
        if let (Some(ack), Some(observer)) = (frame.ack, neighbour.observer) {
            self.simulation.publisher.on_ack(observer, &ack, now);
        }
        self.hear_events(frame.events);
        if !frame.state.is_empty() {
            self.hear_states(link, frame.state, now);
        }
        if let Some(gaze) = frame.gaze {
            self.hear_gaze(link, gaze);
        }
    }

    fn hear_events(&mut self, mut bytes: &[u8]) {
        for _ in 0..MAX_EVENTS {
            let Ok((event, rest)) = postcard::take_from_bytes::<G::Event>(bytes) else { return };
            self.events.push_back(PeerEvent::Happened(event));
            if rest.is_empty() || rest.len() == bytes.len() {
                return;
            }
            bytes = rest;
        }
    }

    fn hear_states(&mut self, link: Link, packet: &[u8], now: Micros) {
        let here = self.tick_at(now);
        let latest = here.plus(MAX_AHEAD);
        let Some(neighbour) = self.links.get_mut(&link) else { return };
        let touched = &mut self.touched;
        touched.clear();
        let mut frozen = Vec::new();
        let received = neighbour.replicas.receive(packet, |change| match change {
            Change::Appeared(id) | Change::Updated(id) => touched.push((id, true)),
            Change::Gone(id) => touched.push((id, false)),
            Change::Frozen(id) => frozen.push(id),
        });
        // Worth an answer even if it came twice: the first one may have been lost.
        neighbour.owes = neighbour.owes.max(1);
        match received {
            Ok(tick) => {
                neighbour.hear_time(tick, here);
                if tick.is_after(latest) {
                    // Its clock was set wrongly, and it will notice; nothing is made of that meanwhile.
                    self.counts.refused[Fault::Malformed as usize] += 1;
                    return;
                }
            }
            Err(ReceiveError::Duplicate(_) | ReceiveError::TooOld(_)) => {
                return self.record_violation(link, Fault::Replayed, now);
            }
            Err(ReceiveError::Packet(_)) => {
                return self.record_violation(link, Fault::Malformed, now);
            }
        }
        for id in frozen {
            if self.known.get(id).is_some_and(|it| it.source == Some(link)) {
                self.simulation.ghosts.set_liveness(id, Liveness::Frozen);
            }
        }
        let touched = std::mem::take(&mut self.touched);
        for (id, there) in &touched {
            if *there {
                self.hear_state(link, *id, now);
            } else {
                self.hear_gone(link, *id);
            }
        }
        self.touched = touched;
    }

    /// A neighbour tells of an object: its own, or it lies.
    pub(super) fn hear_state(&mut self, link: Link, id: ObjectId, now: Micros) {
        let Some(neighbour) = self.links.get(&link) else { return };
        let Some(view) = neighbour.replicas.get(id) else { return };
        let ((owner, epoch), tick) = (view.owner(), view.tick());
        let claim = Claim { owner: PlayerId(owner.0), epoch };
        if claim.owner != neighbour.player {
            return self.record_violation(link, Fault::Forged, now);
        }
        if !self.hear_claim(link, id, claim, now) {
            return;
        }
        self.check_speed(link, id, claim, now);
        let Some(view) = self.links.get(&link).and_then(|it| it.replicas.get(id)) else { return };
        let fresh = self.known.get(id).is_none_or(|known| {
            known.claim != claim || known.source != Some(link) || tick.is_after(known.tick)
        });
        if !fresh {
            return;
        }
        let arrived = id == ObjectId::new(self.avatar.kind(), claim.owner.0, 0);
        if self.known.put(id, claim, (tick, Some(link)), now) {
            self.simulation.ghosts.put(id, view.lanes());
            let place = self.simulation.game.schema().kind(id.kind()).and_then(|kind| kind.place);
            if let (Some(place), Some(known)) = (place, self.known.get_mut(id)) {
                let mut from = [0; 3];
                from[..place.dims].copy_from_slice(&view.lanes()[place.at..place.at + place.dims]);
                let motion = if place.motion { view.motion() } else { Motion::default() };
                known.course = Course { from, motion };
            }
        } else {
            self.counts.full += 1;
        }
        if arrived && let Some(neighbour) = self.links.get_mut(&link) {
            neighbour.inside = true;
        }
    }

    /// Whether an object came from its last state to this one no faster than it can.
    fn check_speed(&mut self, link: Link, id: ObjectId, claim: Claim, now: Micros) {
        let known = self.known.get(id).filter(|it| it.claim == claim && it.source == Some(link));
        let Some(known) = known else { return };
        let Some(view) = self.links.get(&link).and_then(|it| it.replicas.get(id)) else { return };
        let schema = Arc::clone(self.simulation.game.schema());
        let Some(kind) = schema.kind(id.kind()).filter(|kind| kind.spec.max_speed > 0.0) else {
            return;
        };
        let (Some(place), Some(there)) = (kind.place, place_of(&schema, id.kind(), view.lanes()))
        else {
            return;
        };
        let Some(before) = self.simulation.ghosts.place(id) else { return };
        // The ghost was moved on to this peer's own round, which may lie after the new state's.
        let here = self.simulation.publisher.store.tick();
        let rounds = |later: Tick, earlier: Tick| {
            if later.is_after(earlier) { later.since(earlier) } else { 0 }
        };
        let rounds = rounds(view.tick(), known.tick) + rounds(here, known.tick);
        let seconds = (self.settings.rounds.length * rounds).as_secs() as f32;
        let allowed = kind.spec.max_speed * seconds * SPEED_SLACK + 4.0 * place.precision;
        if apart(before, there) > allowed {
            self.record_violation(link, Fault::TooFast, now);
        }
    }

    /// A neighbour tells of an object no more. If it is the owner, we need not keep it.
    fn hear_gone(&mut self, link: Link, id: ObjectId) {
        let Some(neighbour) = self.links.get(&link) else { return };
        // It may have come back under another alias.
        if neighbour.replicas.get(id).is_some() {
            return;
        }
        let owner = self.known.get(id).map(|known| known.claim.owner);
        if owner == Some(neighbour.player) {
            self.simulation.ghosts.remove(id);
            // Whose it is stays known, so that nobody else can claim it.
            if self.tenure(id) == Tenure::Fixed {
                self.known.remove(id);
            } else if let Some(known) = self.known.get_mut(id) {
                known.source = None;
            }
        }
    }

    /// A message arrived.
    pub fn message(&mut self, link: Link, bytes: &[u8], now: Micros, out: &mut impl Outbox) {
        let Some(neighbour) = self.links.get_mut(&link) else { return };
        if !neighbour.patience.admits(now, bytes.len()) {
            self.record_violation(link, Fault::Flooded, now);
            return self.ban_pending(now, out);
        }
        neighbour.heard = now;
        let open = neighbour.open;
        match read_message::<Message>(bytes) {
            Some(Message::Hello { versions, schema, digest, clock, inside }) => {
                self.greet(link, Hello { versions, schema, digest, clock, inside }, now, out);
            }
            // Somebody who is full says so, and whom else to try.
            Some(Message::Members(digests)) => self.hear_members(link, digests, now),
            Some(message) if open => self.hear_message(link, message, now, out),
            _ => self.record_violation(link, Fault::Malformed, now),
        }
        self.ban_pending(now, out);
    }

    fn hear_message(&mut self, link: Link, message: Message, now: Micros, out: &mut impl Outbox) {
        match message {
            Message::Time { echo, time } => self.set_clock(echo, time, now),
            Message::Subscribe { view, watched, wanted } => {
                if let Some(it) = self.links.get_mut(&link) {
                    it.regrade |= it.view != view;
                    (it.view, it.wanted_there) = (view, wanted);
                    it.watched = watched.map(Named::id);
                }
            }
            Message::Changes(changes) => self.hear_changes(link, &changes, now),
            Message::Give(transfer) => self.accept(link, &transfer, now, out),
            Message::Took(object, epoch) => self.delivered(link, object.id(), epoch, now),
            Message::Claimed(object, epoch, by) => {
                let claim = Claim { owner: player(by), epoch: Epoch(epoch) };
                self.hear_claimed(link, object.id(), claim, now, out);
            }
            Message::Ask(ask, hops) => self.hear_ask(link, ask, hops, now, out),
            Message::Done(asker, number) => self.hear_done(player(asker), number, out),
            Message::Bye { leaving } => self.hear_bye(link, leaving, now),
            Message::Sighted(players) => self.hear_sighted(link, &players, now, out),
            Message::Who(players) => self.tell_who(link, &players, now, out),
            Message::Hello { .. } | Message::Members(_) => {}
        }
    }

    fn hear_bye(&mut self, link: Link, leaving: bool, now: Micros) {
        let Some(player) = self.links.get(&link).map(|it| it.player) else { return };
        self.drop_link(link);
        self.events.push_back(PeerEvent::Parted(player, false));
        if leaving {
            self.members.forget(player);
            self.orphan(player, now);
            return;
        }
        self.release(player, now);
    }

    /// A link ended though both are well: what only came over it is not kept up any more.
    pub(super) fn release(&mut self, player: PlayerId, now: Micros) {
        if let Some(at) = self.place_of(player) {
            self.members.sight(player, at, self.time(now));
        }
        let theirs = self.known.iter().filter(|(_, known)| known.claim.owner == player);
        for id in theirs.map(|(id, _)| id).collect::<Vec<_>>() {
            // What was on its way to them may have been lost with the link: it comes back.
            if self.giving.get(&id).is_some_and(|giving| giving.to == player) {
                self.take_back(id, now);
                continue;
            }
            self.known.remove(id);
            self.simulation.ghosts.remove(id);
        }
    }

    fn hear_changes(&mut self, link: Link, changes: &Changes, now: Micros) {
        let Some(neighbour) = self.links.get_mut(&link) else { return };
        let from = neighbour.player;
        let lists = [changes.gained.len(), changes.gave.len(), changes.removed.len()];
        if changes.linked.len() > MAX_LINKS || lists.into_iter().any(|count| count > MAX_CHANGES) {
            return self.record_violation(link, Fault::Malformed, now);
        }
        changes.unlinked.iter().for_each(|it| _ = neighbour.linked.remove(&player(*it)));
        neighbour.linked.extend(changes.linked.iter().map(|it| player(*it)));
        while neighbour.linked.len() > MAX_LINKS {
            neighbour.linked.pop_last();
        }
        let tick = self.tick_at(now);
        for (object, epoch) in &changes.gained {
            let (id, claim) = (object.id(), Claim { owner: from, epoch: Epoch(*epoch) });
            if !self.hear_claim(link, id, claim, now) {
                continue;
            }
            match self.known.get_mut(id) {
                // The owner says that it is still its own: that is the answer to any doubt.
                Some(known) if known.claim == claim => (known.given, known.doubted) = (None, None),
                Some(known) => {
                    if known.claim.owner != from {
                        known.taken = Some(now);
                    }
                    (known.claim, known.orphan, known.doubted) = (claim, None, None);
                    (known.source, known.given, known.heard) = (None, None, now);
                }
                None => {
                    self.counts.full += u64::from(!self.known.put(id, claim, (tick, None), now))
                }
            }
        }
        for (object, epoch, to) in &changes.gave {
            let claim = Claim { owner: player(*to), epoch: Epoch(*epoch) };
            self.hear_gift(link, object.id(), claim, now);
        }
        for (object, epoch) in &changes.removed {
            self.hear_removed(link, object.id(), Epoch(*epoch), now);
        }
    }

    fn hear_members(&mut self, link: Link, digests: Vec<Sealed>, now: Micros) {
        if digests.len() > MAX_INTRODUCED {
            return self.record_violation(link, Fault::Malformed, now);
        }
        for sealed in digests {
            let banned = |sealed: &Sealed| {
                let digest = sealed.peek::<super::wire::Digest>();
                digest.is_some_and(|digest| self.banned.contains_key(&digest.key.player()))
            };
            if banned(&sealed) {
                continue;
            }
            let reader = self.reader(now);
            match self.members.learn(reader, sealed, Some(link), &*self.signer) {
                Ok(Learnt::News(player)) => {
                    // It has spoken since: a call that failed says nothing any more.
                    if self.calling.get(&player).is_some_and(|call| call.failed) {
                        self.calling.remove(&player);
                    }
                    self.accept_claim(link, player, now);
                }
                Ok(_) => {}
                Err(fault) => self.record_violation(link, fault, now),
            }
        }
    }

    /// What a digest says of ownership: after a partition this is how two owners hear of each other. Its
    /// author may be gone by now, so its word moves nothing: over a link it is clear who yields.
    fn accept_claim(&mut self, link: Link, player: PlayerId, now: Micros) {
        let Some(member) = self.members.get(player) else { return };
        let digest = member.digest.clone();
        if digest.gone && !self.by_player.contains_key(&player) {
            self.orphan(player, now);
        }
        let direct = self.by_player.contains_key(&player);
        for (object, epoch) in digest.owned.iter().filter(|_| !direct) {
            let (id, claim) = (object.id(), Claim { owner: player, epoch: Epoch(*epoch) });
            // One after the other: whoever is called tells of others.
            let may_call = now - self.disputed >= DISPUTE_EVERY;
            if may_call && self.contradicts(id, claim, digest.made_at()) {
                self.disputed = now;
                self.call(player, now);
            }
        }
        for (object, tick, lanes) in digest.boards.iter().filter(|_| !direct) {
            self.read_board((link, player), (object.id(), Tick(*tick)), lanes, now);
        }
    }

    /// Whether what somebody said at a moment of the world's time is at odds with our owning an object.
    /// A lower claim from before it was ours is not.
    fn contradicts(&self, id: ObjectId, claim: Claim, said: Micros) -> bool {
        let (Some(mine), Some(owned)) = (self.my_claim(id), self.owned.get(&id)) else {
            return false;
        };
        let since = self.time(owned.since);
        let at_odds = claim.beats(&mine) || said > since;
        self.tenure(id) != Tenure::Fixed && !claim.is_wild(&mine) && at_odds
    }

    /// The state of an object without a place, passed on from afar.
    fn read_board(
        &mut self,
        (via, by): (Link, PlayerId),
        (id, tick): (ObjectId, Tick),
        lanes: &[i32],
        now: Micros,
    ) {
        let schema = Arc::clone(self.simulation.game.schema());
        let Some(kind) = schema.kind(id.kind()) else { return };
        if kind.place.is_some() || kind.lane_count() != lanes.len() || id.origin() != 0 {
            return;
        }
        let epoch = Epoch(lanes[foveate_wire::schema::LANE_EPOCH] as u32);
        let claim = Claim { owner: by, epoch };
        if self.my_claim(id).is_some()
            || self.known.is_buried(id, epoch)
            || self.is_forged(id, claim, now)
        {
            return;
        }
        let newer = self.known.get(id).is_none_or(|known| {
            let beats = claim.beats(&known.claim) && !claim.is_wild(&known.claim);
            let follows = beats && self.may_follow(id, now);
            follows || (claim == known.claim && tick.is_after(known.tick))
        });
        if newer && self.known.put(id, claim, (tick, Some(via)), now) {
            self.simulation.ghosts.put(id, lanes);
        }
    }

    /// Ghosts that move are moved on to this round.
    pub(super) fn follow_ghosts(&mut self, tick: Tick, now: Micros) {
        let Peer { known, links, simulation, .. } = self;
        let silent: BTreeSet<Link> = links
            .iter()
            .filter(|(_, it)| now - it.heard >= KEEP_ALIVE + KEEP_ALIVE)
            .map(|(link, _)| *link)
            .collect();
        for (id, it) in known.iter() {
            let frozen = simulation.ghosts.liveness(id) == Liveness::Frozen;
            let silent = it.source.is_none_or(|link| silent.contains(&link));
            if !frozen {
                let liveness = if silent { Liveness::Lingering } else { Liveness::Live };
                simulation.ghosts.set_liveness(id, liveness);
            }
            // A frozen one stands where it was when it went out of view.
            if frozen || it.course.motion == Motion::default() {
                continue;
            }
            let rounds = if tick.is_after(it.tick) { tick.since(it.tick) } else { 0 };
            simulation.ghosts.shift(id, it.course.after(rounds, silent));
        }
    }
}

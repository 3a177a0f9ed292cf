//! Receives datagrams and messages, and checks them before use.

use super::identity::Sealed;
use super::members::Learned;
use super::membership::Hello;
use super::neighbour::{ACK_WAITS, KEEP_ALIVE};
use super::ownership::{GhostMotion, OwnerClaim};
use super::wire::{Changes, MAX_INTRODUCED, Named, PeerDatagram, PeerMessage, player};
use super::{Fault, MAX_LINKS, Peer, PeerEvent, Phase};
use crate::game::{Game, Liveness, PlayerId, Tenure};
use crate::limits::StateChange;
use crate::outbox::{Link, Outbox};
use crate::remote_objects::place_of;
use crate::session::read_message;
use foveate_sync::replica::{Change, ReceiveError};
use foveate_wire::{Epoch, Metres, Micros, Motion, ObjectId, Tick};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many rounds a neighbour's clock may be ahead.
pub(super) const MAX_AHEAD: u32 = 40;
/// The most objects in one message of changes.
const MAX_CHANGES: usize = 4_096;
/// Time between two dials of peers that claim objects of ours.
const DISPUTE_EVERY: Micros = Micros(500_000);
/// Time between two checks of the total change of a neighbour's own object.
const AUDIT_EVERY: Micros = Micros(2_000_000);
/// The most objects of one neighbour that are checked so.
const MAX_AUDITED: usize = 32;
/// The most events read from one datagram.
const MAX_EVENTS: usize = 64;
/// The factor by which a move may exceed the kind's speed: rounding, and rounds that were skipped.
const SPEED_SLACK: f32 = 1.25;

impl<G: Game> Peer<G> {
    /// A datagram arrived.
    pub fn datagram(&mut self, link: Link, bytes: &[u8], now: Micros) {
        if self.has_stalled(now) {
            return;
        }
        let Some(neighbour) = self.links.get_mut(&link) else { return };
        if !neighbour.patience.admits(now, bytes.len()) {
            return self.record_violation(link, Fault::Flooded, now);
        }
        if !neighbour.open || self.membership.phase == Phase::Outside {
            return;
        }
        let Some(frame) = PeerDatagram::read(bytes) else {
            return self.record_violation(link, Fault::Malformed, now);
        };
        neighbour.heard = now;
        if frame.asks {
            neighbour.owes = neighbour.owes.max(ACK_WAITS);
        }
        if let (Some(ack), Some(observer)) = (frame.ack, neighbour.observer) {
            self.simulation.publisher.on_ack(observer, &ack, now);
        }
        self.on_events(frame.events);
        if !frame.state.is_empty() {
            self.on_states(link, frame.state, now);
        }
        if let Some(gaze) = frame.gaze {
            self.on_gaze(link, gaze);
        }
    }

    fn on_events(&mut self, mut bytes: &[u8]) {
        for _ in 0..MAX_EVENTS {
            let Ok((event, rest)) = postcard::take_from_bytes::<G::Event>(bytes) else { return };
            self.events.push_back(PeerEvent::Happened(event));
            if rest.is_empty() || rest.len() == bytes.len() {
                return;
            }
            bytes = rest;
        }
    }

    fn on_states(&mut self, link: Link, packet: &[u8], now: Micros) {
        let here = self.tick_at(now);
        let latest = here.plus(MAX_AHEAD);
        let Some(neighbour) = self.links.get_mut(&link) else { return };
        let touched = &mut self.scratch.touched;
        touched.clear();
        let mut frozen = Vec::new();
        let received = neighbour.replicas.receive(packet, |change| match change {
            Change::Appeared(id) | Change::Updated(id) => touched.push((id, true)),
            Change::Gone(id) => touched.push((id, false)),
            Change::Frozen(id) => frozen.push(id),
        });
        // Acknowledge it even if it came twice: the first acknowledgement may have been lost.
        neighbour.owes = neighbour.owes.max(1);
        match received {
            Ok(tick) => {
                neighbour.record_lag(tick, here);
                if tick.is_after(latest) {
                    // Its clock or this one's is wrong, and will be adjusted; until then the packet
                    // is ignored.
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
            if self.ownership.ghost(id).is_some_and(|it| it.source == Some(link)) {
                self.simulation.ghosts.set_liveness(id, Liveness::Frozen);
            }
        }
        let touched = std::mem::take(&mut self.scratch.touched);
        for (id, there) in &touched {
            if *there {
                self.on_state(link, *id, now);
            } else {
                self.on_gone(link, *id);
            }
        }
        self.scratch.touched = touched;
    }

    /// A neighbour sent the state of an object, which must be its own.
    pub(super) fn on_state(&mut self, link: Link, id: ObjectId, now: Micros) {
        let Some(neighbour) = self.links.get(&link) else { return };
        let Some(view) = neighbour.replicas.get(id) else { return };
        let ((owner, epoch), tick) = (view.owner(), view.tick());
        let claim = OwnerClaim { owner: PlayerId(owner.0), epoch };
        if claim.owner != neighbour.player {
            return self.record_violation(link, Fault::Forged, now);
        }
        if !self.on_claim(link, id, claim, now) {
            return;
        }
        self.check_speed(link, id, claim, now);
        self.check_change(link, id, claim, now);
        let Some(view) = self.links.get(&link).and_then(|it| it.replicas.get(id)) else { return };
        let fresh = self.ownership.ghost(id).is_none_or(|known| {
            known.claim != claim || known.source != Some(link) || tick.is_after(known.tick)
        });
        if !fresh {
            return;
        }
        let arrived = id == ObjectId::new(self.avatar.kind(), claim.owner.0, 0);
        if self.ownership.put(id, claim, (tick, Some(link)), now) {
            self.simulation.ghosts.put(id, view.lanes());
            let place = self.simulation.game.schema().kind(id.kind()).and_then(|kind| kind.place);
            if let (Some(place), Some(known)) = (place, self.ownership.ghost_mut(id)) {
                let mut from = [0; 3];
                from[..place.dims].copy_from_slice(&view.lanes()[place.at..place.at + place.dims]);
                let motion = if place.motion { view.motion() } else { Motion::default() };
                known.motion = GhostMotion { from, motion };
            }
        } else {
            self.counts.full += 1;
        }
        if arrived && let Some(neighbour) = self.links.get_mut(&link) {
            neighbour.inside = true;
        }
    }

    /// Checks that an object moved from its last state to this one no faster than its kind allows.
    fn check_speed(&mut self, link: Link, id: ObjectId, claim: OwnerClaim, now: Micros) {
        let known =
            self.ownership.ghost(id).filter(|it| it.claim == claim && it.source == Some(link));
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
        // The copy was moved on to this peer's own round, which may be later than the new state's.
        let here = self.simulation.publisher.store.tick();
        let rounds = |later: Tick, earlier: Tick| {
            if later.is_after(earlier) { later.since(earlier) } else { 0 }
        };
        let rounds = rounds(view.tick(), known.tick) + rounds(here, known.tick);
        let seconds = (self.settings.rounds.length * rounds).as_secs() as f32;
        let allowed = kind.spec.max_speed * seconds * SPEED_SLACK + 4.0 * place.precision;
        if before.distance(there) > Metres(allowed) {
            self.record_violation(link, Fault::TooFast, now);
        }
    }

    /// Checks that the rules can have changed a player's own object from its last state to this
    /// one, and from its state of two seconds ago, because small illegal changes add up.
    fn check_change(&mut self, link: Link, id: ObjectId, claim: OwnerClaim, now: Micros) {
        let known = self.ownership.ghost(id).filter(|it| it.claim == claim);
        let known = known.filter(|it| it.source == Some(link) && self.tenure(id) == Tenure::Fixed);
        let (Some(known), Some(neighbour)) = (known, self.links.get_mut(&link)) else { return };
        let Some(view) = neighbour.replicas.get(id) else { return };
        let (tick, after) = (view.tick(), view.lanes());
        let before = self.simulation.ghosts.lanes(id);
        let Some(before) = before.filter(|_| tick.is_after(known.tick)) else { return };
        let game = &self.simulation.game;
        let is_lawful = |before: &[i32], since: Tick| {
            let change = StateChange::new(game.schema(), id, [before, after], tick.since(since));
            change.is_none_or(|change| game.is_lawful(&change))
        };
        let mut lawful = is_lawful(before, known.tick);
        let span = (AUDIT_EVERY.0 / self.settings.rounds.length.0) as u32;
        let has_room = neighbour.audited.len() < MAX_AUDITED;
        match neighbour.audited.get_mut(&id) {
            Some((since, lanes)) if tick.since(*since) >= span => {
                lawful &= is_lawful(lanes, *since);
                *since = tick;
                lanes.copy_from_slice(after);
            }
            Some(_) => {}
            None if has_room => {
                neighbour.audited.insert(id, (tick, after.to_vec()));
            }
            None => {}
        }
        if !lawful {
            self.record_violation(link, Fault::Cheated, now);
        }
    }

    /// A neighbour no longer sends an object. If it is the owner, we need not keep it.
    fn on_gone(&mut self, link: Link, id: ObjectId) {
        let Some(neighbour) = self.links.get(&link) else { return };
        // It may be sent again under another alias.
        if neighbour.replicas.get(id).is_some() {
            return;
        }
        let owner = self.ownership.ghost(id).map(|known| known.claim.owner);
        if owner == Some(neighbour.player) {
            self.simulation.ghosts.remove(id);
            // Its owner stays known, so that no other peer can claim it.
            if self.tenure(id) == Tenure::Fixed {
                self.ownership.remove(id);
            } else if let Some(known) = self.ownership.ghost_mut(id) {
                known.source = None;
            }
        }
    }

    /// A message arrived.
    pub fn message(&mut self, link: Link, bytes: &[u8], now: Micros, out: &mut impl Outbox) {
        if self.has_stalled(now) {
            return;
        }
        let Some(neighbour) = self.links.get_mut(&link) else { return };
        if !neighbour.patience.admits(now, bytes.len()) {
            self.record_violation(link, Fault::Flooded, now);
            return self.ban_pending(now, out);
        }
        neighbour.heard = now;
        let open = neighbour.open;
        match read_message::<PeerMessage>(bytes) {
            Some(PeerMessage::Hello { versions, schema, digest, clock, inside }) => {
                self.on_hello(link, Hello { versions, schema, digest, clock, inside }, now, out);
            }
            // A peer that is full says so, and names other peers to try.
            Some(PeerMessage::Members(digests)) => self.on_members(link, digests, now),
            Some(message) if open => self.on_message(link, message, now, out),
            _ => self.record_violation(link, Fault::Malformed, now),
        }
        self.ban_pending(now, out);
    }

    fn on_message(&mut self, link: Link, message: PeerMessage, now: Micros, out: &mut impl Outbox) {
        match message {
            PeerMessage::Time { echo, time } => self.set_clock(echo, time, now),
            PeerMessage::Subscribe { view, watched, wanted } => {
                if let Some(it) = self.links.get_mut(&link) {
                    it.regrade |= it.view != view;
                    (it.view, it.wanted_there) = (view, wanted);
                    it.watched = watched.map(Named::id);
                }
            }
            PeerMessage::Changes(changes) => self.on_changes(link, &changes, now),
            PeerMessage::Give(transfer) => self.on_give(link, &transfer, now, out),
            PeerMessage::Took(object, epoch) => self.on_took(link, object.id(), epoch, now),
            PeerMessage::Claimed(object, epoch, by) => {
                let claim = OwnerClaim { owner: player(by), epoch: Epoch(epoch) };
                self.on_claimed(link, object.id(), claim, now, out);
            }
            PeerMessage::Ask(ask, hops) => self.on_ask(link, ask, hops, now, out),
            PeerMessage::Done(asker, number) => self.on_done(player(asker), number, out),
            PeerMessage::Bye { leaving } => self.on_bye(link, leaving, now),
            PeerMessage::Sighted(players) => self.on_sighted(link, &players, now, out),
            PeerMessage::Who(players) => self.send_digests_of(link, &players, now, out),
            PeerMessage::Hello { .. } | PeerMessage::Members(_) => {}
        }
    }

    fn on_bye(&mut self, link: Link, leaving: bool, now: Micros) {
        let Some(player) = self.links.get(&link).map(|it| it.player) else { return };
        self.drop_link(link);
        self.events.push_back(PeerEvent::Parted(player, false));
        if leaving {
            self.membership.members.forget(player);
            self.orphan_objects_of(player, now);
            return;
        }
        self.forget_objects_of(player, now);
    }

    /// A link ended though both peers are well: forgets the objects that came only over it.
    pub(super) fn forget_objects_of(&mut self, player: PlayerId, now: Micros) {
        if let Some(at) = self.place_of(player) {
            self.membership.members.sight(player, at, self.time(now));
        }
        for id in self.ownership.ghosts_of(player) {
            // What was on its way to the peer may have been lost with the link: it comes back.
            if self.ownership.giving.get(&id).is_some_and(|giving| giving.to == player) {
                self.take_back(id, now);
                continue;
            }
            self.ownership.remove(id);
            self.simulation.ghosts.remove(id);
        }
    }

    fn on_changes(&mut self, link: Link, changes: &Changes, now: Micros) {
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
            let (id, claim) = (object.id(), OwnerClaim { owner: from, epoch: Epoch(*epoch) });
            if !self.on_claim(link, id, claim, now) {
                continue;
            }
            match self.ownership.ghost(id).map(|ghost| ghost.claim) {
                // The owner says that the object is still its own, which settles any doubt.
                Some(known) if known == claim => {
                    if self.ownership.doubt(id).is_some() {
                        self.ownership.settle(id);
                    }
                    if let Some(ghost) = self.ownership.ghost_mut(id) {
                        ghost.given = None;
                    }
                }
                Some(known) => {
                    let Some(ghost) = self.ownership.settle(id) else { continue };
                    if known.owner != from {
                        (ghost.taken, ghost.since) = (Some(now), now);
                    }
                    ghost.claim = claim;
                    (ghost.source, ghost.given, ghost.heard) = (None, None, now);
                }
                None => {
                    let is_put = self.ownership.put(id, claim, (tick, None), now);
                    self.counts.full += u64::from(!is_put);
                }
            }
        }
        for (object, epoch, to) in &changes.gave {
            let claim = OwnerClaim { owner: player(*to), epoch: Epoch(*epoch) };
            self.on_gift(link, object.id(), claim, now);
        }
        for (object, epoch) in &changes.removed {
            self.on_removed(link, object.id(), Epoch(*epoch), now);
        }
    }

    fn on_members(&mut self, link: Link, digests: Vec<Sealed>, now: Micros) {
        if digests.len() > MAX_INTRODUCED {
            return self.record_violation(link, Fault::Malformed, now);
        }
        for sealed in digests {
            let banned = |sealed: &Sealed| {
                let digest = sealed.peek::<super::wire::Digest>();
                digest.is_some_and(|digest| self.trust.is_banned(digest.key.player()))
            };
            if banned(&sealed) {
                continue;
            }
            let reader = self.reader(now);
            match self.membership.members.learn(reader, sealed, Some(link), &*self.signer) {
                Ok(Learned::News(player)) => {
                    // The peer is alive: a dial that failed no longer matters.
                    self.links.forget_failed_dial(player);
                    self.read_digest(link, player, now);
                }
                Ok(_) => {}
                Err(fault) => self.record_violation(link, fault, now),
            }
        }
    }

    /// Reads a digest's claims of ownership: after a partition this is how two owners learn of each
    /// other. Its author may be gone by now, so the digest changes nothing itself; a link to the
    /// author settles who yields.
    fn read_digest(&mut self, link: Link, player: PlayerId, now: Micros) {
        let Some(member) = self.membership.members.get(player) else { return };
        let digest = member.digest.clone();
        if digest.gone && !self.links.is_linked(player) {
            self.orphan_objects_of(player, now);
        }
        let direct = self.links.is_linked(player);
        for (object, epoch) in digest.owned.iter().filter(|_| !direct) {
            let (id, claim) = (object.id(), OwnerClaim { owner: player, epoch: Epoch(*epoch) });
            // One at a time: a peer that is dialled names others.
            let may_call = now - self.links.disputed >= DISPUTE_EVERY;
            if may_call && self.contradicts(id, claim, digest.made_at()) {
                self.links.disputed = now;
                self.dial_member(player, now);
            }
        }
        for (object, tick, lanes) in digest.boards.iter().filter(|_| !direct) {
            self.on_board((link, player), (object.id(), Tick(*tick)), lanes, now);
        }
    }

    /// Whether a peer's statement at a time of the world contradicts our ownership of an object. A
    /// lower claim from before the object was ours does not.
    fn contradicts(&self, id: ObjectId, claim: OwnerClaim, said: Micros) -> bool {
        let (Some(mine), Some(owned)) = (self.my_claim(id), self.ownership.owned(id)) else {
            return false;
        };
        let since = self.time(owned.since);
        let at_odds = claim.beats(&mine) || said > since;
        self.tenure(id) != Tenure::Fixed && !claim.is_wild(&mine) && at_odds
    }

    /// Handles the state of an object without a place, relayed from a peer that is no neighbour.
    fn on_board(
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
        let claim = OwnerClaim { owner: by, epoch };
        if self.my_claim(id).is_some()
            || self.ownership.is_removed(id, epoch)
            || self.is_forged(id, claim, now)
        {
            return;
        }
        let newer = self.ownership.ghost(id).is_none_or(|known| {
            let beats = claim.beats(&known.claim) && !claim.is_wild(&known.claim);
            let follows = beats && self.may_follow(id, now);
            follows || (claim == known.claim && tick.is_after(known.tick))
        });
        if newer && self.ownership.put(id, claim, (tick, Some(via)), now) {
            self.simulation.ghosts.put(id, lanes);
        }
    }

    /// Moves copies of moving objects on to this round.
    pub(super) fn follow_ghosts(&mut self, tick: Tick, now: Micros) {
        let Peer { ownership, links, simulation, .. } = self;
        let silent: BTreeSet<Link> = links
            .iter()
            .filter(|(_, it)| now - it.heard >= KEEP_ALIVE + KEEP_ALIVE)
            .map(|(link, _)| *link)
            .collect();
        for (id, it) in ownership.ghosts() {
            let frozen = simulation.ghosts.liveness(id) == Liveness::Frozen;
            let silent = it.source.is_none_or(|link| silent.contains(&link));
            if !frozen {
                let liveness = if silent { Liveness::Lingering } else { Liveness::Live };
                simulation.ghosts.set_liveness(id, liveness);
            }
            // A frozen one stays where it was when it left this peer's view.
            if frozen || it.motion.motion == Motion::default() {
                continue;
            }
            let rounds = if tick.is_after(it.tick) { tick.since(it.tick) } else { 0 };
            simulation.ghosts.shift(id, it.motion.after(rounds, silent));
        }
    }
}

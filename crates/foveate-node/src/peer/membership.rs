//! Membership: links made and lost, hellos, clocks, joining and leaving.

use super::identity::{Key, Sealed};
use super::interest::lot;
use super::members::{Learned, Members, Reader};
use super::neighbour::{GONE_AFTER, Neighbour};
use super::wire::{Digest, MAX_NAMED, PeerMessage};
use super::{Fault, MAX_LINKS, Peer, PeerEvent};
use crate::game::{Game, PlayerId};
use crate::outbox::{Link, Outbox};
use crate::session::{Refusal, VERSIONS, write_message};
use foveate_sync::StoreError;
use foveate_wire::Micros;
use std::sync::Arc;

/// Time between setting the clock and entering the world, in which the first states arrive.
const SETTLE: Micros = Micros(400_000);
/// How many peers a new one is introduced to: near its future place, and elsewhere.
const INTRODUCED: (usize, usize) = (8, 8);
/// Time after a stall before objects that no other peer owns are taken back.
const AFTER_STALL: Micros = Micros(3_000_000);
/// Time between two requests to a contact that has no room and names no other peer.
const ASK_AGAIN: Micros = Micros(1_000_000);

/// How far ahead of the clock a peer may create ids: what it can use at once when it enters. A peer
/// that restarts does not enter before this time has passed.
const IDS_AHEAD: Micros = Micros(SETTLE.0 / 2);

/// The number of the first id of a peer that enters at this time of the world: 488 numbers a
/// second, which repeat after 25 days.
pub(super) fn id_number(time: Micros) -> u64 {
    time.0 >> 11
}

/// Where a peer is in joining.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Outside,
    /// The clock is set; states of the world arrive until this time.
    Settling(Micros),
    Inside,
    Left,
}

/// Whether this peer is in the world, its clock, and the other peers.
pub(super) struct Membership {
    pub phase: Phase,
    /// The world's time minus the host's.
    pub offset: i64,
    /// The peer to join through: its key, its contact, and when it was last asked.
    pub contact: Option<(Key, Vec<u8>, Micros)>,
    /// The other peers, by their digests.
    pub members: Members,
    /// When the player entered the world, or continued after a stall.
    pub entered: Micros,
    /// When the last round was played.
    pub ticked: Option<Micros>,
    pub digest_at: Micros,
    /// Digests sent since the player entered: the first ones follow each other quickly.
    pub digests: u32,
    /// Bytes of gossip that may be sent; negative after a long digest.
    pub gossip_room: i64,
}

impl Membership {
    pub fn new(me: PlayerId) -> Membership {
        Membership {
            phase: Phase::Outside,
            offset: 0,
            contact: None,
            members: Members::new(me),
            entered: Micros::ZERO,
            ticked: None,
            digest_at: Micros::ZERO,
            digests: 0,
            gossip_room: 0,
        }
    }
}

/// Why a peer sends its digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Occasion {
    /// Periodically, to all neighbours.
    Usual,
    /// To a new neighbour, which learns by other messages what this peer owns.
    Hello,
    /// For the last time, on leaving.
    Leaving,
}

impl<G: Game> Peer<G> {
    /// Starts a new world with this peer as its only one.
    pub fn found(&mut self, now: Micros) -> Result<(), StoreError> {
        self.simulation.populate()?;
        self.membership.offset = 0;
        self.membership.phase = Phase::Settling(now);
        self.enter_world(now);
        Ok(())
    }

    /// Joins a world through a peer that is in it.
    pub fn join(&mut self, contact: Key, address: Vec<u8>, now: Micros) {
        self.membership.contact = Some((contact, address.clone(), now));
        self.dial(contact, address, now);
    }

    fn dial(&mut self, key: Key, address: Vec<u8>, now: Micros) {
        self.links.start_dial(key.player(), now);
        self.events.push_back(PeerEvent::Connect(key, address));
    }

    /// Dials a peer that is known by its digest.
    pub(super) fn dial_member(&mut self, player: PlayerId, now: Micros) {
        let contact = self.membership.members.get(player).map(|it| &it.digest);
        let contact = contact.map(|digest| (digest.key, digest.contact.clone()));
        if let Some((key, contact)) = contact.filter(|_| !self.links.is_dialling(player)) {
            self.dial(key, contact, now);
        }
    }

    /// The contact has no room or is not there: tries another peer that it named, or asks it again
    /// if it named none.
    pub(super) fn retry_join(&mut self, now: Micros) {
        self.links.expire_dials(now);
        if !self.links.is_empty() || self.links.dials() > 0 {
            return;
        }
        let other =
            self.membership.members.iter().min_by_key(|(player, _)| lot(now.0, player.0.into()));
        let other = other.map(|(_, it)| (it.digest.key, it.digest.contact.clone()));
        if let Some((key, contact)) = other {
            return self.dial(key, contact, now);
        }
        match self.membership.contact.clone() {
            Some((key, address, since)) if now - since >= ASK_AGAIN => self.join(key, address, now),
            _ => {}
        }
    }

    /// Leaves the world: hands over all objects that another peer may own, and says goodbye.
    pub fn leave(&mut self, now: Micros, out: &mut impl Outbox) {
        for id in self.owned_of_the_world() {
            if let Some(to) = self.most_interested(id, now, true) {
                self.give_object(id, to, now, out);
            }
        }
        self.send_changes(out);
        let last = self.seal_digest(now, Occasion::Leaving);
        for link in self.links.all() {
            out.message(link, &write_message(&PeerMessage::Members(vec![last.clone()])));
            out.message(link, &write_message(&PeerMessage::Bye { leaving: true }));
            out.close(link, Refusal::Closing);
        }
        self.links.clear();
        self.membership.phase = Phase::Left;
    }

    /// A link was made with the peer that has this key. `called`: this peer dialled.
    pub fn connected(
        &mut self,
        link: Link,
        (key, called): (Key, bool),
        now: Micros,
        out: &mut impl Outbox,
    ) {
        let player = key.player();
        self.links.end_dial(player);
        if self.membership.phase == Phase::Left {
            return out.close(link, Refusal::Closing);
        }
        if self.trust.is_banned(player) {
            return out.close(link, Refusal::Dishonest);
        }
        let known = self.membership.members.get(player);
        if player == self.me || known.is_some_and(|it| it.digest.key != key) {
            return out.close(link, Refusal::NameTaken);
        }
        let mut replaces = false;
        if let Some(old) = self.links.link_to(player) {
            // Both dialled at once: both ends keep the dial of the lower player. A peer that dials
            // again has lost its first link.
            let before = self.links.get(&old).is_some_and(|it| it.called);
            if before != called && called != (self.me < player) {
                return out.close(link, Refusal::NameTaken);
            }
            replaces = self.links.get(&old).is_some_and(|it| it.open || it.replaces);
            self.drop_link(old);
            out.close(old, Refusal::NameTaken);
        }
        if self.links.len() >= MAX_LINKS && !self.make_room_for(player, now, out) {
            self.counts.full += 1;
            let others = self.introductions(player);
            out.message(link, &write_message(&PeerMessage::Members(others)));
            return out.close(link, Refusal::Full);
        }
        let schema = Arc::clone(self.simulation.game.schema());
        let tick = self.tick_at(now);
        let neighbour = Neighbour::new((key, called), schema, tick, now);
        self.links.insert(link, Neighbour { replaces, ..neighbour });
        let hello = PeerMessage::Hello {
            versions: VERSIONS.to_vec(),
            schema: self.simulation.game.schema().hash(),
            digest: self.seal_digest(now, Occasion::Hello),
            clock: now.0,
            inside: self.membership.phase == Phase::Inside,
        };
        out.message(link, &write_message(&hello));
    }

    /// The digests to introduce a new peer with.
    fn introductions(&self, player: PlayerId) -> Vec<Sealed> {
        let near = self.place_of(player).unwrap_or_else(|| self.here());
        self.membership.members.introduce(player, (near, f32::MAX), &Default::default(), INTRODUCED)
    }

    /// A dial failed.
    pub fn unreachable(&mut self, key: Key, now: Micros) {
        // It is not repeated at once: the dial counts as open until its time is over, or there is
        // news.
        self.links.fail_dial(key.player(), now);
    }

    /// A link ended that this peer did not close.
    pub fn closed(&mut self, link: Link, now: Micros) {
        if self.has_stalled(now) {
            return self.drop_link(link);
        }
        let Some(neighbour) = self.links.get(&link) else { return };
        let (player, was_open) = (neighbour.player, neighbour.open || neighbour.replaces);
        self.drop_link(link);
        if was_open && !self.links.is_linked(player) {
            self.on_vanished(player, now);
        }
    }

    /// Removes a link, and nothing else.
    pub(super) fn drop_link(&mut self, link: Link) {
        let Some(neighbour) = self.links.remove(link) else { return };
        if let Some(observer) = neighbour.observer {
            self.simulation.publisher.remove(observer);
        }
        if neighbour.open {
            self.ownership.changes.unlink(neighbour.player);
        }
        self.ownership.drop_doubts_of(neighbour.player);
        let theirs = self.ownership.ghosts_mut().filter(|(_, ghost)| ghost.source == Some(link));
        theirs.for_each(|(_, ghost)| ghost.source = None);
    }

    /// A peer is gone: its own objects are removed, those of the world are taken over.
    pub(super) fn on_vanished(&mut self, player: PlayerId, now: Micros) {
        self.membership.members.vanished(player);
        self.events.push_back(PeerEvent::Parted(player, true));
        self.orphan_objects_of(player, now);
    }

    /// Whether this peer ran no round for so long that others believe it gone. Messages that waited
    /// in the meantime are not handled: the next round gives up all objects and closes the links
    /// they came on.
    pub(super) fn has_stalled(&self, now: Micros) -> bool {
        self.membership.ticked.is_some_and(|last| now - last >= GONE_AFTER)
    }

    /// After a stall other peers have taken over this peer's objects. So it gives them up, greets
    /// the others anew, and takes back what no other peer owns.
    pub(super) fn recover_from_stall(&mut self, now: Micros, out: &mut impl Outbox) {
        let stalled = self.has_stalled(now);
        self.membership.ticked = Some(now);
        let alone = self.links.is_empty() && self.ownership.ghosts().next().is_none();
        if !stalled || alone {
            return;
        }
        for link in self.links.all() {
            out.close(link, Refusal::Timeout);
            self.drop_link(link);
        }
        self.membership.entered = now;
        // Peers that seemed gone have only closed their links.
        for (id, ..) in self.ownership.orphans().collect::<Vec<_>>() {
            self.ownership.orphan(id, now + AFTER_STALL);
        }
        for id in self.owned_of_the_world() {
            let Some(claim) = self.my_claim(id) else { continue };
            self.release_object(id, claim, now);
            self.ownership.orphan(id, now + AFTER_STALL);
        }
    }

    /// Removes peers that timed out.
    pub(super) fn drop_silent(&mut self, now: Micros, out: &mut impl Outbox) {
        let silent = |it: &Neighbour| now - it.heard >= GONE_AFTER;
        let silent: Vec<Link> =
            self.links.iter().filter(|(_, it)| silent(it)).map(|(link, _)| *link).collect();
        for link in silent {
            self.closed(link, now);
            out.close(link, Refusal::Timeout);
        }
    }

    /// Bans cheating peers, and reports them.
    pub(super) fn ban_pending(&mut self, now: Micros, out: &mut impl Outbox) {
        for (link, fault) in self.trust.take_pending() {
            let Some(player) = self.links.get(&link).map(|it| it.player) else { continue };
            self.trust.ban(player, fault);
            self.closed(link, now);
            self.membership.members.forget(player);
            out.close(link, Refusal::Dishonest);
            self.events.push_back(PeerEvent::Verdict(player, fault));
        }
    }

    /// The time and place at which this peer reads digests.
    pub(super) fn reader(&self, now: Micros) -> Reader {
        let world = (self.membership.phase != Phase::Outside).then(|| self.time(now));
        Reader { now, world, here: self.here() }
    }

    /// This peer's digest, signed.
    pub(super) fn seal_digest(&self, now: Micros, occasion: Occasion) -> Sealed {
        let (whole, gone) = (occasion == Occasion::Usual, occasion == Occasion::Leaving);
        let store = &self.simulation.publisher.store;
        let worldly = || store.iter().filter(|(id, _)| id.origin() == 0 && whole);
        let boards = worldly().filter(|(_, slot)| store.kind(*slot).place.is_none());
        let owned = worldly().map(|(id, slot)| (id.into(), store.owner(slot).1.0));
        let digest = Digest {
            key: self.signer.key(),
            // Before the clock is set it could be years ahead of all later ones.
            number: if self.is_inside() || gone { Digest::number_at(self.time(now)) } else { 0 },
            at: self.here().0.map(|at| at.round() as i32),
            contact: self.settings.contact.clone(),
            owned: owned.take(MAX_NAMED).collect(),
            boards: boards
                .take(4)
                .map(|(id, slot)| (id.into(), store.tick().0, store.lanes(slot).to_vec()))
                .collect(),
            gone,
        };
        Sealed::new(&digest, &*self.signer)
    }

    /// A peer sent a hello.
    pub(super) fn on_hello(
        &mut self,
        link: Link,
        hello: Hello,
        now: Micros,
        out: &mut impl Outbox,
    ) {
        let Some(neighbour) = self.links.get(&link) else { return };
        let (key, player, open) = (neighbour.key, neighbour.player, neighbour.open);
        let refuse = |peer: &mut Peer<G>, why, out: &mut _| {
            peer.drop_link(link);
            Outbox::close(out, link, why);
        };
        if open {
            return self.record_violation(link, Fault::Malformed, now);
        }
        if !VERSIONS.iter().any(|version| hello.versions.contains(version)) {
            return refuse(self, Refusal::Version, out);
        }
        if self.simulation.game.schema().check_hash(hello.schema).is_err() {
            return refuse(self, Refusal::Schema, out);
        }
        let (reader, digest) = (self.reader(now), hello.digest);
        let own = digest.peek::<Digest>().is_some_and(|digest| digest.key == key);
        match self.membership.members.learn(reader, digest, None, &*self.signer) {
            Ok(Learned::NameTaken) => return refuse(self, Refusal::NameTaken, out),
            Ok(_) if own => {}
            _ => return refuse(self, Refusal::Malformed, out),
        }
        if let Some(neighbour) = self.links.get_mut(&link) {
            (neighbour.open, neighbour.inside) = (true, hello.inside);
            (neighbour.heard, neighbour.since) = (now, now);
        }
        if hello.inside {
            // The peer is not gone after all.
            for id in self.ownership.ghosts_of(player) {
                if self.ownership.is_orphan(id) {
                    self.ownership.settle(id);
                }
                // The peer may have restarted since: another that took the object over meanwhile is
                // honest.
                if let Some(ghost) = self.ownership.ghost_mut(id) {
                    ghost.taken = Some(now);
                }
            }
        } else {
            // A peer that restarts owns nothing.
            self.orphan_objects_of(player, now);
        }
        self.ownership.changes.link(player);
        self.events.push_back(PeerEvent::Met(player));
        if !hello.inside {
            let time = self.time(now).0;
            out.message(link, &write_message(&PeerMessage::Time { echo: hello.clock, time }));
        }
        self.send_all_changes(link, now, out);
        if !hello.inside {
            let others = self.introductions(player);
            out.message(link, &write_message(&PeerMessage::Members(others)));
        }
        self.add_observer(link, now);
    }

    /// Sends a new neighbour what all others know already.
    fn send_all_changes(&mut self, link: Link, now: Micros, out: &mut impl Outbox) {
        out.message(link, &write_message(&self.subscription(true)));
        for part in self.all_changes(now).parts() {
            out.message(link, &write_message(&PeerMessage::Changes(part)));
        }
    }

    /// Sets the world's clock by the answer of a peer that is in the world.
    pub(super) fn set_clock(&mut self, echo: u64, time: u64, now: Micros) {
        if self.membership.phase != Phase::Outside {
            return;
        }
        let trip = now.0.saturating_sub(echo);
        let there = time.saturating_add(trip / 2);
        self.membership.offset = there as i64 - now.0 as i64;
        self.membership.phase = Phase::Settling(now + SETTLE);
        // What is sent from now on refers to rounds near this one.
        let (tick, schema) = (self.tick_at(now), Arc::clone(self.simulation.game.schema()));
        for neighbour in self.links.values_mut() {
            neighbour.replicas = foveate_sync::ReplicaSet::new(Arc::clone(&schema), tick);
        }
    }

    /// Allows ids up to this time of the world, and no further, so that a later run of this player
    /// continues above them.
    pub(super) fn extend_ids(&mut self, now: Micros) {
        if self.is_inside() {
            self.simulation.ids.extend_to(id_number(self.time(now) + IDS_AHEAD));
        }
    }

    /// Enters the world once enough states have arrived.
    pub(super) fn enter_world(&mut self, now: Micros) {
        let Phase::Settling(until) = self.membership.phase else { return };
        if now < until {
            return;
        }
        let game = Arc::clone(&self.simulation.game);
        for spawn in game.welcome(&self.simulation.world(), self.me, &self.name) {
            self.counts.full += u64::from(self.simulation.spawn(self.me, &spawn).is_err());
        }
        self.membership.phase = Phase::Inside;
        (self.membership.entered, self.membership.digest_at, self.membership.digests) =
            (now, now, 0);
        self.asks.begin((self.time(now).0 / 1_000) as u32);
        // Above all numbers of this player's earlier runs, which used none from the future.
        self.simulation.ids.skip_to(id_number(self.time(now)));
        self.events.push_back(PeerEvent::Inside);
    }
}

/// The contents of a hello.
pub(super) struct Hello {
    pub versions: Vec<u8>,
    pub schema: u64,
    pub digest: Sealed,
    pub clock: u64,
    pub inside: bool,
}

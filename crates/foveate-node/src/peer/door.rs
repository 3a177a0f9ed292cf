//! Coming and going: links made and lost, hellos, clocks, joining and leaving.

use super::identity::{Key, Sealed};
use super::interest::lot;
use super::members::{Learnt, Reader};
use super::neighbour::{GONE_AFTER, Neighbour};
use super::wire::{Digest, MAX_NAMED, Message};
use super::{Fault, MAX_BANNED, MAX_LINKS, Peer, PeerEvent, Phase};
use crate::game::{Game, PlayerId, Tenure};
use crate::outbox::{Link, Outbox};
use crate::session::{Refusal, VERSIONS, write_message};
use foveate_sync::StoreError;
use foveate_wire::{Micros, ObjectId};
use std::sync::Arc;

/// After the clock is set, so long until the player comes in: the first states arrive meanwhile.
const SETTLE: Micros = Micros(400_000);
/// Whom a newcomer is introduced to: near where it will be, and elsewhere.
const INTRODUCED: (usize, usize) = (8, 8);
/// After a stall, so long until what nobody else has by then is taken up again.
const AFTER_STALL: Micros = Micros(3_000_000);
/// A link that was asked for and never came.
const CALL_FOR: Micros = Micros(5_000_000);
/// Between two calls to a contact that has no room and names nobody else.
const ASK_AGAIN: Micros = Micros(1_000_000);

/// Ids that a peer may create in advance of the clock: what it can use at once when it comes in. Whoever
/// begins anew is not inside before this has passed.
const IDS_AHEAD: Micros = Micros(SETTLE.0 / 2);

/// The number of the first id that a peer creates if it comes in at this moment of the world's time: 488
/// numbers a second, which repeat after 25 days.
pub(super) fn id_number(time: Micros) -> u64 {
    time.0 >> 11
}

/// A link that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    since: Micros,
    /// It could not be made.
    pub failed: bool,
}

impl Call {
    /// Whether it may be asked for again.
    pub fn is_over(&self, now: Micros) -> bool {
        now - self.since >= CALL_FOR
    }
}

/// When a peer speaks of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Occasion {
    /// Now and then, to whom it may concern.
    Usual,
    /// To a new neighbour, who is told by other means what it owns.
    Hello,
    /// For the last time.
    Leaving,
}

impl<G: Game> Peer<G> {
    /// Begins a new world, as the only one in it.
    pub fn found(&mut self, now: Micros) -> Result<(), StoreError> {
        self.simulation.populate()?;
        self.offset = 0;
        self.phase = Phase::Settling(now);
        self.come_in(now);
        Ok(())
    }

    /// Asks to be let in by somebody who is in the world.
    pub fn join(&mut self, contact: Key, address: Vec<u8>, now: Micros) {
        self.contact = Some((contact, address.clone(), now));
        self.dial(contact, address, now);
    }

    fn dial(&mut self, key: Key, address: Vec<u8>, now: Micros) {
        self.calling.insert(key.player(), Call { since: now, failed: false });
        self.events.push_back(PeerEvent::Connect(key, address));
    }

    /// Seeks a link with somebody of whom a digest told.
    pub(super) fn call(&mut self, player: PlayerId, now: Micros) {
        let contact = self.members.get(player).map(|it| &it.digest);
        let contact = contact.map(|digest| (digest.key, digest.contact.clone()));
        if let Some((key, contact)) = contact.filter(|_| !self.calling.contains_key(&player)) {
            self.dial(key, contact, now);
        }
    }

    /// The contact has no room or is not there: another peer of which it told may have. If it told of
    /// none, because it knew none by then, it is asked again.
    pub(super) fn try_elsewhere(&mut self, now: Micros) {
        self.calling.retain(|_, call| !call.is_over(now));
        if !self.links.is_empty() || !self.calling.is_empty() {
            return;
        }
        let other = self.members.iter().min_by_key(|(player, _)| lot(now.0, player.0.into()));
        let other = other.map(|(_, it)| (it.digest.key, it.digest.contact.clone()));
        if let Some((key, contact)) = other {
            return self.dial(key, contact, now);
        }
        match self.contact.clone() {
            Some((key, address, since)) if now - since >= ASK_AGAIN => self.join(key, address, now),
            _ => {}
        }
    }

    /// Leaves: hands everything over that somebody else may have, and says good-bye.
    pub fn leave(&mut self, now: Micros, out: &mut impl Outbox) {
        let worldly = self.owned.keys().filter(|id| self.tenure(**id) != Tenure::Fixed);
        for id in worldly.copied().collect::<Vec<ObjectId>>() {
            if let Some(to) = self.most_interested(id, now, true) {
                self.give(id, to, now, out);
            }
        }
        self.tell_changes(out);
        let last = self.seal_digest(now, Occasion::Leaving);
        for link in self.links.keys().copied().collect::<Vec<_>>() {
            out.message(link, &write_message(&Message::Members(vec![last.clone()])));
            out.message(link, &write_message(&Message::Bye { leaving: true }));
            out.close(link, Refusal::Closing);
        }
        self.links.clear();
        self.by_player.clear();
        self.phase = Phase::Left;
    }

    /// A link was made, with whoever has this key; `called`: because this peer asked for it.
    pub fn connected(
        &mut self,
        link: Link,
        (key, called): (Key, bool),
        now: Micros,
        out: &mut impl Outbox,
    ) {
        let player = key.player();
        self.calling.remove(&player);
        if self.phase == Phase::Left {
            return out.close(link, Refusal::Closing);
        }
        if self.banned.contains_key(&player) {
            return out.close(link, Refusal::Dishonest);
        }
        let known = self.members.get(player);
        if player == self.me || known.is_some_and(|it| it.digest.key != key) {
            return out.close(link, Refusal::NameTaken);
        }
        let mut replaces = false;
        if let Some(old) = self.by_player.get(&player).copied() {
            // Both called at once: both ends keep the call of the lower player. One who calls again has
            // lost the first link.
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
            out.message(link, &write_message(&Message::Members(others)));
            return out.close(link, Refusal::Full);
        }
        let schema = Arc::clone(self.simulation.game.schema());
        let tick = self.tick_at(now);
        let neighbour = Neighbour::new((key, called), schema, tick, now);
        self.links.insert(link, Neighbour { replaces, ..neighbour });
        self.by_player.insert(player, link);
        let hello = Message::Hello {
            versions: VERSIONS.to_vec(),
            schema: self.simulation.game.schema().hash(),
            digest: self.seal_digest(now, Occasion::Hello),
            clock: now.0,
            inside: self.phase == Phase::Inside,
        };
        out.message(link, &write_message(&hello));
    }

    /// Whom somebody should get to know.
    fn introductions(&self, player: PlayerId) -> Vec<Sealed> {
        let near = self.place_of(player).unwrap_or_else(|| self.here());
        self.members.introduce(player, (near, f32::MAX), &Default::default(), INTRODUCED)
    }

    /// A link that was asked for could not be made.
    pub fn unreachable(&mut self, key: Key, now: Micros) {
        // Not tried again at once: the call counts as open until its time is over, or there is news.
        self.calling.insert(key.player(), Call { since: now, failed: true });
    }

    /// A link ended that this peer did not close.
    pub fn closed(&mut self, link: Link, now: Micros) {
        let Some(neighbour) = self.links.get(&link) else { return };
        let (player, was_open) = (neighbour.player, neighbour.open || neighbour.replaces);
        self.drop_link(link);
        if was_open && !self.by_player.contains_key(&player) {
            self.orphan_objects_of(player, now);
        }
    }

    /// Forgets a link, and nothing else.
    pub(super) fn drop_link(&mut self, link: Link) {
        let Some(neighbour) = self.links.remove(&link) else { return };
        if self.by_player.get(&neighbour.player) == Some(&link) {
            self.by_player.remove(&neighbour.player);
        }
        if let Some(observer) = neighbour.observer {
            self.simulation.publisher.remove(observer);
        }
        if neighbour.open {
            self.changes.unlink(neighbour.player);
        }
        for (_, known) in self.known.iter_mut().filter(|(_, known)| known.source == Some(link)) {
            known.source = None;
        }
    }

    /// Somebody is gone: what was theirs alone goes, what is the world's is taken over.
    pub(super) fn orphan_objects_of(&mut self, player: PlayerId, now: Micros) {
        self.members.vanished(player);
        self.events.push_back(PeerEvent::Parted(player, true));
        self.orphan(player, now);
    }

    /// Whoever stalled for so long, or slept, was taken for gone, and others have what it had. So it
    /// lets go of that, meets them anew, and takes up again what nobody has.
    pub(super) fn recover(&mut self, now: Micros, out: &mut impl Outbox) {
        let stalled = self.ticked.is_some_and(|last| now - last >= GONE_AFTER);
        self.ticked = Some(now);
        let alone = self.links.is_empty() && self.known.iter().next().is_none();
        if !stalled || alone {
            return;
        }
        for link in self.links.keys().copied().collect::<Vec<_>>() {
            out.close(link, Refusal::Deaf);
            self.drop_link(link);
        }
        self.came_in = now;
        // Those who seemed gone only closed their links.
        for (_, known) in self.known.iter_mut().filter(|(_, known)| known.orphan.is_some()) {
            known.orphan = Some(now + AFTER_STALL);
        }
        let worldly = self.owned.keys().filter(|id| self.tenure(**id) != Tenure::Fixed);
        for id in worldly.copied().collect::<Vec<ObjectId>>() {
            let Some(claim) = self.my_claim(id) else { continue };
            self.let_go(id, claim, now);
            if let Some(known) = self.known.get_mut(id) {
                known.orphan = Some(now + AFTER_STALL);
            }
        }
    }

    /// Those who have been silent for too long are gone.
    pub(super) fn notice_silence(&mut self, now: Micros, out: &mut impl Outbox) {
        let silent = |it: &Neighbour| now - it.heard >= GONE_AFTER;
        let silent: Vec<Link> =
            self.links.iter().filter(|(_, it)| silent(it)).map(|(link, _)| *link).collect();
        for link in silent {
            self.closed(link, now);
            out.close(link, Refusal::Deaf);
        }
    }

    /// Liars go, and are named.
    pub(super) fn ban_pending(&mut self, now: Micros, out: &mut impl Outbox) {
        for (link, fault) in std::mem::take(&mut self.pending_bans) {
            let Some(player) = self.links.get(&link).map(|it| it.player) else { continue };
            if self.banned.len() < MAX_BANNED {
                self.banned.insert(player, fault);
            }
            self.closed(link, now);
            self.members.forget(player);
            out.close(link, Refusal::Dishonest);
            self.events.push_back(PeerEvent::Verdict(player, fault));
        }
    }

    /// Digests are read here and now.
    pub(super) fn reader(&self, now: Micros) -> Reader {
        let world = (self.phase != Phase::Outside).then(|| self.time(now));
        Reader { now, world, here: self.here() }
    }

    /// What this peer says of itself.
    pub(super) fn seal_digest(&self, now: Micros, occasion: Occasion) -> Sealed {
        let (whole, gone) = (occasion == Occasion::Usual, occasion == Occasion::Leaving);
        let store = &self.simulation.publisher.store;
        let worldly = || store.iter().filter(|(id, _)| id.origin() == 0 && whole);
        let boards = worldly().filter(|(_, slot)| store.kind(*slot).place.is_none());
        let owned = worldly().map(|(id, slot)| (id.into(), store.owner(slot).1.0));
        let digest = Digest {
            key: self.signer.key(),
            // Before the clock is set it could lie years ahead of all that are to follow.
            number: if self.is_inside() || gone { Digest::number_at(self.time(now)) } else { 0 },
            at: self.here().map(|at| at.round() as i32),
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

    /// Somebody says hello.
    pub(super) fn greet(&mut self, link: Link, hello: Hello, now: Micros, out: &mut impl Outbox) {
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
        match self.members.learn(reader, digest, None, &*self.signer) {
            Ok(Learnt::NameTaken) => return refuse(self, Refusal::NameTaken, out),
            Ok(_) if own => {}
            _ => return refuse(self, Refusal::Malformed, out),
        }
        if let Some(neighbour) = self.links.get_mut(&link) {
            (neighbour.open, neighbour.inside) = (true, hello.inside);
            (neighbour.heard, neighbour.since) = (now, now);
        }
        if hello.inside {
            // They are not gone after all.
            for (_, known) in self.known.iter_mut().filter(|(_, it)| it.claim.owner == player) {
                known.orphan = None;
                // They may have begun anew since: a peer that took it over meanwhile is honest.
                known.taken = Some(now);
            }
        } else {
            // Whoever begins anew has nothing.
            self.orphan(player, now);
        }
        self.changes.link(player);
        self.events.push_back(PeerEvent::Met(player));
        if !hello.inside {
            let time = self.time(now).0;
            out.message(link, &write_message(&Message::Time { echo: hello.clock, time }));
        }
        self.open_up(link, now, out);
        if !hello.inside {
            let others = self.introductions(player);
            out.message(link, &write_message(&Message::Members(others)));
        }
        self.watch(link, now);
    }

    /// Tells a new neighbour what all others know already.
    fn open_up(&mut self, link: Link, now: Micros, out: &mut impl Outbox) {
        out.message(link, &write_message(&self.subscription(true)));
        for part in self.all_changes(now).parts() {
            out.message(link, &write_message(&Message::Changes(part)));
        }
    }

    /// The world's time, as somebody who is in it knows it.
    pub(super) fn set_clock(&mut self, echo: u64, time: u64, now: Micros) {
        if self.phase != Phase::Outside {
            return;
        }
        let trip = now.0.saturating_sub(echo);
        let there = time.saturating_add(trip / 2);
        self.offset = there as i64 - now.0 as i64;
        self.phase = Phase::Settling(now + SETTLE);
        // What is told from now on refers to rounds near this one.
        let (tick, schema) = (self.tick_at(now), Arc::clone(self.simulation.game.schema()));
        for neighbour in self.links.values_mut() {
            neighbour.replicas = foveate_sync::ReplicaSet::new(Arc::clone(&schema), tick);
        }
    }

    /// Ids can be created up to this moment of the world's time, and no further, so that a later run of
    /// this player's goes on above them.
    pub(super) fn allow_ids(&mut self, now: Micros) {
        if self.is_inside() {
            self.simulation.ids.extend_to(id_number(self.time(now) + IDS_AHEAD));
        }
    }

    /// The player comes in, as soon as there is enough to see.
    pub(super) fn come_in(&mut self, now: Micros) {
        let Phase::Settling(until) = self.phase else { return };
        if now < until {
            return;
        }
        let game = Arc::clone(&self.simulation.game);
        for spawn in game.welcome(&self.simulation.world(), self.me, &self.name) {
            self.counts.full += u64::from(self.simulation.spawn(self.me, &spawn).is_err());
        }
        self.phase = Phase::Inside;
        (self.came_in, self.digest_at, self.digests) = (now, now, 0);
        self.asks.begin((self.time(now).0 / 1_000) as u32);
        // Above all numbers of this player's earlier runs, which used none from the future.
        self.simulation.ids.skip_to(id_number(self.time(now)));
        self.events.push_back(PeerEvent::Inside);
    }
}

/// What a hello says.
pub(super) struct Hello {
    pub versions: Vec<u8>,
    pub schema: u64,
    pub digest: Sealed,
    pub clock: u64,
    pub inside: bool,
}

//! Who owns what: handed to whoever clearly cares more, taken over from those who are gone, yielded to
//! claims that prevail.
//!
//! An object is in exactly one of these places at a peer: in the store (it is the owner), among the
//! ghosts (somebody else is), or not known.

use super::door::id_number;
use super::interest::keepers;
use super::known::{Claim, Doubt, MAX_DONE};
use super::neighbour::{KEEP_ALIVE, Neighbour};
use super::wire::{Changes, Message, Named, Transfer};
use super::{Fault, Peer};
use crate::game::{Game, PlayerId, Tenure};
use crate::outbox::{Link, Outbox};
use crate::remote_objects::apart;
use crate::session::write_message;
use foveate_wire::schema::{LANE_EPOCH, LANE_OWNER};
use foveate_wire::{Epoch, Metres, Micros, ObjectId, Tick};
use std::collections::VecDeque;

/// Rounds between two looks at who cares more.
const HAND_EVERY: u32 = 4;
/// Objects handed over in one look at most: nobody is swamped.
const MAX_GIVEN: usize = 8;
/// An object stays with an owner at least this long.
const HELD_FOR: Micros = Micros(1_000_000);
/// Of those who could take over, each waits this much longer than the one who cares more,
const RANK_WAIT: Micros = Micros(120_000);
/// up to this rank: so everything has an owner within half a second of its owner's being missed.
const MAX_RANK: u32 = 4;
/// What was taken over may have been taken over by somebody else as well; after this it is clear who has it.
const CLEAR_AFTER: Micros = Micros(3_000_000);

/// What was handed over and not confirmed is handed over again after this.
const GIVE_AGAIN: Micros = Micros(1_000_000);
/// In place of an epoch: what was given is not taken.
const NOT_TAKEN: u32 = u32::MAX;
/// Between two answers, or two questions, about claims on one object.
const ASSERT_EVERY: Micros = Micros(1_000_000);

/// Gifts that were refused and are looked at again, at most,
const MAX_HELD: usize = 64;
/// and for how long.
const HOLD: Micros = Micros(5_000_000);

/// By so much a creator's clock may be ahead.
const MAX_CLOCK_ERROR: Micros = Micros(2_000_000);

/// How an object became a peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acquired {
    /// It was made here.
    Made,
    /// Its owner handed it over.
    Given(PlayerId),
    /// Its owner was gone.
    TakenOver,
    /// It was handed over and came back.
    Returned,
}

impl Acquired {
    /// How long it stays at least. What somebody did not take is in dispute: until that is over they would
    /// not take it again, and all would hear each time that it went and came back.
    fn held_for(self) -> Micros {
        if self == Acquired::Returned { CLEAR_AFTER } else { HELD_FOR }
    }
}

/// An object that this peer owns.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub since: Micros,
    /// How it came here.
    by: Acquired,
    /// When others were last told so,
    asserted: Micros,
    /// and who has to be told once more.
    disputed: Option<Claim>,
    /// What was asked of it and done.
    pub done: VecDeque<(u32, u32)>,
}

impl Owned {
    fn new(now: Micros, by: Acquired) -> Owned {
        Owned { since: now, by, asserted: now, disputed: None, done: VecDeque::new() }
    }
}

/// An object on its way to somebody who has not said yet that it arrived.
#[derive(Clone, Debug)]
pub(super) struct Giving {
    pub to: PlayerId,
    since: Micros,
    pub transfer: Transfer,
}

/// A gift that was refused, because its giver did not own it as far as was known.
#[derive(Clone, Debug)]
pub(super) struct HeldGift {
    giver: PlayerId,
    since: Micros,
    transfer: Transfer,
}

impl<G: Game> Peer<G> {
    /// This peer's claim on an object that it owns.
    pub(super) fn my_claim(&self, id: ObjectId) -> Option<Claim> {
        let store = &self.simulation.publisher.store;
        let slot = store.find(id)?;
        Some(Claim { owner: self.me, epoch: store.owner(slot).1 })
    }

    /// Everything that a new neighbour must know.
    pub(super) fn all_changes(&self, now: Micros) -> Changes {
        let store = &self.simulation.publisher.store;
        let worldly = store.iter().filter(|(id, _)| self.tenure(*id) != Tenure::Fixed);
        Changes {
            linked: self.open_players().map(|player| player.0).collect(),
            gained: worldly.map(|(id, slot)| (id.into(), store.owner(slot).1.0)).collect(),
            removed: self.known.removed_lately(now).map(|(id, it)| (id.into(), it.0)).collect(),
            ..Changes::default()
        }
    }

    /// After the rules: what came into being and what is no more.
    pub(super) fn account(&mut self, now: Micros) {
        let Peer { simulation, owned, changes, urgent, .. } = self;
        let store = &simulation.publisher.store;
        if store.len() == owned.len() && store.iter().all(|(id, _)| owned.contains_key(&id)) {
            return;
        }
        for (id, slot) in store.iter().filter(|(id, _)| !owned.contains_key(id)) {
            if simulation.game.tenure(id) != Tenure::Fixed {
                changes.gain(id, store.owner(slot).1);
                *urgent = true;
            }
        }
        let gone: Vec<ObjectId> =
            owned.keys().filter(|id| store.find(**id).is_none()).copied().collect();
        let new: Vec<ObjectId> =
            store.iter().map(|it| it.0).filter(|id| !owned.contains_key(id)).collect();
        for id in new {
            self.owned.insert(id, Owned::new(now, Acquired::Made));
        }
        for id in gone {
            self.owned.remove(&id);
            // Whatever its epoch was, no later one is honest.
            self.known.mark_removed(id, Epoch(u32::MAX), now);
            self.changes.remove(id);
            self.urgent = true;
        }
    }

    /// Hands objects to those who clearly care more.
    pub(super) fn hand_over(&mut self, now: Micros, tick: Tick, out: &mut impl Outbox) {
        if !tick.0.wrapping_add(self.me.0).is_multiple_of(HAND_EVERY) {
            return;
        }
        let ripe = |(id, owned): (&ObjectId, &Owned)| {
            let may =
                self.tenure(*id) == Tenure::ByInterest && now - owned.since >= owned.by.held_for();
            may.then(|| Some((*id, self.most_interested(*id, now, false)?))).flatten()
        };
        let given: Vec<_> = self.owned.iter().filter_map(ripe).take(MAX_GIVEN).collect();
        for (id, to) in given {
            self.give(id, to, now, out);
        }
    }

    /// The neighbour who cares most for an object of ours: clearly more than we do, or any at all.
    pub(super) fn most_interested(
        &self,
        id: ObjectId,
        now: Micros,
        anybody: bool,
    ) -> Option<PlayerId> {
        let store = &self.simulation.publisher.store;
        let slot = store.find(id)?;
        let there = store.kind(slot).place.map(|_| store.position(slot));
        let mine = match there {
            // Something without a place stays where it is.
            None if !anybody => return None,
            _ => self.interest(self.me, there),
        };
        let able = |player: &PlayerId| {
            let link = self.by_player.get(player).and_then(|link| self.links.get(link));
            link.is_some_and(|it| it.is_live(now) && it.inside && it.observer.is_some())
        };
        let others = self.by_player.keys().copied().filter(able);
        let keen = others.map(|player| (self.interest(player, there), player));
        let (most, player) = keen.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
        (anybody || self.settings.interest.clearly_more(most, mine)).then_some(player)
    }

    /// How much somebody cares for a place.
    fn interest(&self, player: PlayerId, there: Option<[f32; 3]>) -> f32 {
        let here = self.place_of(player);
        let away = here.zip(there).map_or(f32::MAX, |(a, b)| apart(a, b));
        self.settings.interest.interest(Metres(away), self.weight(player))
    }

    /// How much more a player's interest counts than that of others. Names are too short to be trusted:
    /// the whole key counts.
    pub(super) fn weight(&self, player: PlayerId) -> f32 {
        if self.trusted.is_empty() {
            return 1.0;
        }
        let link = self.by_player.get(&player).and_then(|link| self.links.get(link));
        let key = match player == self.me {
            true => Some(self.signer.key()),
            false => link.map(|it| it.key).or_else(|| Some(self.members.get(player)?.digest.key)),
        };
        key.and_then(|key| self.trusted.get(&key)).copied().unwrap_or(1.0)
    }

    /// Hands an object over: it is somebody else's from now on.
    pub(super) fn give(&mut self, id: ObjectId, to: PlayerId, now: Micros, out: &mut impl Outbox) {
        let (Some(claim), Some(link)) = (self.my_claim(id), self.by_player.get(&to).copied())
        else {
            return;
        };
        let claim = claim.next(to);
        let done = self.owned.get(&id).map(|owned| owned.done.iter().copied().collect());
        let Some(lanes) = self.let_go(id, claim, now) else { return };
        let (object, epoch) = (Named::from(id), claim.epoch.0);
        let transfer = Transfer { object, epoch, lanes, done: done.unwrap_or_default() };
        out.message(link, &write_message(&Message::Give(transfer.clone())));
        self.giving.insert(id, Giving { to, since: now, transfer });
        self.changes.give(id, claim);
        self.urgent = true;
        self.counts.given += 1;
        if let Some(neighbour) = self.links.get_mut(&link) {
            neighbour.spoke = now;
        }
    }

    /// An object of ours is somebody else's: it goes on as a ghost.
    pub(super) fn let_go(&mut self, id: ObjectId, claim: Claim, now: Micros) -> Option<Vec<i32>> {
        let store = &mut self.simulation.publisher.store;
        let slot = store.find(id)?;
        let mut lanes = store.lanes(slot).to_vec();
        lanes[LANE_OWNER] = claim.owner.0 as i32;
        lanes[LANE_EPOCH] = claim.epoch.0 as i32;
        let tick = store.tick();
        store.remove(slot).ok()?;
        self.owned.remove(&id);
        self.known.put(id, claim, (tick, None), now);
        self.simulation.ghosts.put(id, &lanes);
        Some(lanes)
    }

    /// An object becomes ours.
    fn take(&mut self, id: ObjectId, epoch: Epoch, lanes: &[i32], now: Micros) -> bool {
        let mut lanes = lanes.to_vec();
        if lanes.len() <= LANE_EPOCH {
            return false;
        }
        lanes[LANE_EPOCH] = epoch.0 as i32;
        if self.simulation.restore(id, &lanes).is_err() {
            self.counts.full += 1;
            return false;
        }
        self.known.remove(id);
        self.simulation.ghosts.remove(id);
        self.owned.insert(id, Owned::new(now, Acquired::TakenOver));
        self.changes.gain(id, epoch);
        true
    }

    /// Somebody hands an object to us.
    pub(super) fn accept(
        &mut self,
        link: Link,
        transfer: &Transfer,
        now: Micros,
        out: &mut impl Outbox,
    ) {
        let (id, epoch) = (transfer.object.id(), Epoch(transfer.epoch));
        let Some(giver) = self.links.get(&link).map(|it| it.player) else { return };
        let claim = Claim { owner: self.me, epoch };
        let lanes = self.simulation.game.schema().kind(id.kind()).map(|kind| kind.lane_count());
        let before = Claim { owner: giver, epoch: Epoch(epoch.0.saturating_sub(1)) };
        let forged = epoch == Epoch(0) || self.is_forged(id, before, now);
        if forged || self.tenure(id) == Tenure::Fixed || lanes != Some(transfer.lanes.len()) {
            return self.record_violation(link, Fault::Forged, now);
        }
        let known = self.claim_on(id);
        let wild = known.is_some_and(|known| claim.is_wild(&known));
        let refused = !self.may_give(giver, id, claim, now);
        if refused && let Some(known) = known {
            // As far as is known it is not theirs to give: they may have it back. What is known may be
            // out of date.
            self.counts.doubted += 1;
            self.inquire(known.owner, id, before, now);
            if !wild && self.held.len() < MAX_HELD {
                self.held.insert(id, HeldGift { giver, since: now, transfer: transfer.clone() });
            }
        }
        let mine = self.my_claim(id);
        if mine.is_some_and(|mine| epoch > mine.epoch) && !wild {
            // It was taken over here at the same time: others hear of this epoch.
            self.say_ours(id, epoch);
        }
        let here = mine.is_some() || self.known.is_buried(id, epoch);
        let taken = here || (!refused && self.take_gift(giver, transfer, now));
        let answer = if taken { transfer.epoch } else { NOT_TAKEN };
        out.message(link, &write_message(&Message::Took(transfer.object, answer)));
    }

    /// Whether an object is somebody's to give, as far as is known.
    fn may_give(&self, giver: PlayerId, id: ObjectId, claim: Claim, now: Micros) -> bool {
        let Some(known) = self.claim_on(id) else { return true };
        let stale = !claim.beats(&known) && known.owner != self.me;
        let foreign = known.owner != giver && known.owner != self.me;
        !(stale || claim.is_wild(&known) || (foreign && !self.may_follow(id, now)))
    }

    fn take_gift(&mut self, giver: PlayerId, transfer: &Transfer, now: Micros) -> bool {
        let id = transfer.object.id();
        let taken = self.take(id, Epoch(transfer.epoch), &transfer.lanes, now);
        if taken {
            let done = transfer.done.iter().copied().take(MAX_DONE).collect();
            self.owned.insert(id, Owned { done, ..Owned::new(now, Acquired::Given(giver)) });
        }
        taken
    }

    /// A gift that was refused while its giver left is taken after all, once it is known that it was theirs
    /// to give, or when the owner that was known says that it is ours at this epoch: nobody else has it.
    fn take_held(&mut self, id: ObjectId, confirmed: Option<Epoch>, now: Micros) {
        let Some(gift) = self.held.get(&id).filter(|it| !self.by_player.contains_key(&it.giver))
        else {
            return;
        };
        let claim = Claim { owner: self.me, epoch: Epoch(gift.transfer.epoch) };
        let is_said = confirmed == Some(claim.epoch);
        if (is_said || self.may_give(gift.giver, id, claim, now))
            && self.my_claim(id).is_none()
            && !self.known.is_buried(id, claim.epoch)
            && let Some(gift) = self.held.remove(&id)
            && self.take_gift(gift.giver, &gift.transfer, now)
        {
            self.urgent = true;
        }
    }

    /// Looks again at gifts that were refused.
    pub(super) fn look_at_held(&mut self, now: Micros) {
        for id in self.held.keys().copied().collect::<Vec<_>>() {
            self.take_held(id, None, now);
        }
        let by_player = &self.by_player;
        self.held.retain(|_, it| now - it.since < HOLD && !by_player.contains_key(&it.giver));
    }

    /// Hands over again what may have been lost with an earlier link; what cannot be delivered comes back.
    pub(super) fn give_again(&mut self, now: Micros, out: &mut impl Outbox) {
        let late = self.giving.iter().filter(|(_, it)| now - it.since >= GIVE_AGAIN);
        let late: Vec<(ObjectId, Giving)> = late.map(|(id, it)| (*id, it.clone())).collect();
        for (id, giving) in late {
            match self.by_player.get(&giving.to) {
                Some(link) => out.message(*link, &write_message(&Message::Give(giving.transfer))),
                None => self.take_back(id, now),
            }
        }
    }

    /// What was handed over was not taken: it is ours again.
    pub(super) fn take_back(&mut self, id: ObjectId, now: Micros) {
        let Some(giving) = self.giving.remove(&id) else { return };
        let given = Claim { owner: giving.to, epoch: Epoch(giving.transfer.epoch) };
        if self.known.get(id).is_some_and(|known| known.claim == given) {
            let epoch = given.next(self.me).epoch;
            self.take(id, epoch, &giving.transfer.lanes, now);
            if let Some(owned) = self.owned.get_mut(&id) {
                owned.by = Acquired::Returned;
            }
            self.urgent = true;
        }
    }

    /// Whether something is on its way to somebody.
    pub(super) fn is_giving_to(&self, player: PlayerId) -> bool {
        self.giving.values().any(|giving| giving.to == player)
    }

    /// What was handed over has arrived, or comes back.
    pub(super) fn delivered(&mut self, link: Link, id: ObjectId, epoch: u32, now: Micros) {
        let player = self.links.get(&link).map(|it| it.player);
        let Some(giving) = self.giving.get(&id).filter(|it| Some(it.to) == player) else { return };
        if giving.transfer.epoch != epoch && epoch != NOT_TAKEN {
            return;
        }
        if epoch == NOT_TAKEN {
            self.take_back(id, now);
        } else {
            self.giving.remove(&id);
        }
    }

    /// What belonged to somebody who is gone.
    pub(super) fn orphan(&mut self, player: PlayerId, now: Micros) {
        let theirs = self.known.iter().filter(|(_, known)| known.claim.owner == player);
        let theirs: Vec<ObjectId> = theirs.map(|(id, _)| id).collect();
        for id in theirs {
            if self.tenure(id) == Tenure::Fixed {
                self.known.remove(id);
                self.simulation.ghosts.remove(id);
                continue;
            }
            let doubted = self.known.get_mut(id).and_then(|known| known.doubted.take());
            let taken = doubted.filter(|it| self.by_player.contains_key(&it.claim.owner));
            if let Some(Doubt { removed: true, .. }) = taken {
                self.believe_removed(id, Epoch(u32::MAX), now);
            } else if let (Some(doubt), Some(known)) = (taken, self.known.get_mut(id)) {
                // Somebody noticed earlier than we did, and has it by now.
                (known.claim, known.source, known.given) = (doubt.claim, None, None);
                (known.heard, known.taken) = (now, Some(now));
                self.giving.remove(&id);
            } else if self.giving.get(&id).is_some_and(|giving| giving.to == player) {
                // They may never have got it: nobody is more entitled to it.
                self.take_back(id, now);
            } else {
                let rank = self.rank(id, player, now);
                if let Some(known) = self.known.get_mut(id) {
                    known.orphan = Some(now + RANK_WAIT * rank);
                }
            }
        }
    }

    /// How many come before this peer in taking an object over: those who are there, have it as far as
    /// can be known, and care more.
    fn rank(&self, id: ObjectId, gone: PlayerId, now: Micros) -> u32 {
        let there = self.simulation.ghosts.place(id);
        let sight = self.views.values().map(|view| view.reach().0).fold(0.0, f32::max);
        let theirs = self.links.values().filter(|it| it.linked.contains(&gone));
        let candidates = theirs.clone().map(|it| it.player).chain([self.me]);
        let keepers = keepers(id, candidates, self.settings.copies);
        let mine = (self.interest(self.me, there), self.me);
        let before = |player: PlayerId| {
            let other = (self.interest(player, there), player);
            other.0 > mine.0 || (other.0 == mine.0 && other.1 < mine.1)
        };
        let sees = |player: PlayerId| {
            self.place_of(player).zip(there).is_some_and(|(a, b)| apart(a, b) <= sight)
        };
        let ahead = theirs.filter(|it| it.is_live(now) && now - it.heard < Micros(1_000_000));
        let ahead = ahead.map(|it| it.player);
        let ahead = ahead.filter(|it| before(*it) && (keepers.contains(it) || sees(*it)));
        (ahead.count() as u32).min(MAX_RANK)
    }

    /// Takes over what has been without an owner for long enough.
    pub(super) fn take_over(&mut self, now: Micros) {
        let due = |known: &super::known::Known| known.orphan.is_some_and(|at| at <= now);
        let due: Vec<(ObjectId, Claim)> =
            self.known.iter().filter(|(_, it)| due(it)).map(|(id, it)| (id, it.claim)).collect();
        for (id, claim) in due {
            let lanes = self.simulation.ghosts.lanes(id).map(<[i32]>::to_vec);
            let Some(lanes) = lanes else {
                self.known.remove(id);
                continue;
            };
            if self.take(id, claim.next(self.me).epoch, &lanes, now) {
                self.counts.taken_over += 1;
                self.urgent = true;
            }
        }
    }

    /// Somebody claims an object. True: as far as is known, it is theirs.
    pub(super) fn hear_claim(
        &mut self,
        link: Link,
        id: ObjectId,
        claim: Claim,
        now: Micros,
    ) -> bool {
        let foreign = self.tenure(id) == Tenure::Fixed && id.origin() != claim.owner.0;
        if foreign || self.is_forged(id, claim, now) {
            self.record_violation(link, Fault::Forged, now);
            return false;
        }
        if self.known.is_buried(id, claim.epoch) {
            return false;
        }
        if let Some(mine) = self.my_claim(id) {
            self.rival((link, id), claim, mine, now);
            return false;
        }
        let Some(known) = self.known.get(id) else { return true };
        if claim == known.claim {
            return true;
        }
        if claim.owner == known.claim.owner && claim.beats(&known.claim) {
            // The owner's answer to whoever claimed it without having been given it. But whoever gave it
            // had it back if it was not taken.
            let honest = |doubted: &Claim| known.given == Some(doubted.owner);
            // Two may have taken it over at the same time from one who is gone.
            let is_race = |at: Micros| known.taken.is_some_and(|taken| at - taken < CLEAR_AFTER);
            let usurps = |it: &Doubt| {
                claim.beats(&it.claim) && !honest(&it.claim) && !is_race(it.since) && !it.removed
            };
            if let Some(doubt) = known.doubted.filter(usurps) {
                self.convict(doubt.claim.owner, claim.owner, now);
            }
            return true;
        }
        let best = known.claim;
        if claim.is_wild(&best) {
            return false;
        }
        let mute = known.source.is_none() && now - known.heard >= ASSERT_EVERY;
        if !claim.beats(&best) {
            // They may not have heard of the better claim, though they had the time to; and where its
            // maker does not tell of the object, that one may have it no more.
            let met = self.links.get(&link).map_or(now, |it| it.since);
            if mute {
                self.inquire(best.owner, id, claim, now);
            } else if now - met >= CLEAR_AFTER {
                self.inquire(claim.owner, id, best, now);
            }
            return false;
        }
        if self.may_follow(id, now) {
            return true;
        }
        self.counts.doubted += 1;
        let Some(known) = self.known.get_mut(id) else { return false };
        // Most doubts end by themselves: the owner has heard the claim, too, and is about to answer. The
        // others are asked about.
        // Of two claims in doubt the one counts that prevails over the other.
        if known.doubted.is_none_or(|doubt| claim.beats(&doubt.claim)) {
            known.doubted = Some(Doubt { claim, since: now, removed: false });
        }
        false
    }

    /// Asks owners about claims on their objects that have been in doubt for a while: the claimant may not say
    /// it again, and the owner may have begun anew and have nothing.
    pub(super) fn ask_about_doubts(&mut self, now: Micros) {
        for (id, owner, claim) in self.known.doubtful(now, ASSERT_EVERY) {
            self.inquire(owner, id, claim, now);
        }
    }

    /// Whether no honest peer can claim an object at this epoch: only its creator is the first owner of an
    /// object that was created while the game ran, and no id is from the future.
    pub(super) fn is_forged(&self, id: ObjectId, claim: Claim, now: Micros) -> bool {
        let Some(number) = id.number() else { return false };
        let is_first = claim.epoch == Epoch(0);
        let latest = id_number(self.time(now) + MAX_CLOCK_ERROR) as u32;
        // The shorter way round: numbers repeat after weeks.
        let ahead = number.wrapping_sub(latest) << (32 - ObjectId::NUMBER_BITS);
        (is_first && id.creator() != claim.owner.0) || (ahead as i32) > 0
    }

    /// Tells one who has an object, as far as is known or as they say, of somebody else's claim on it.
    fn inquire(&mut self, of: PlayerId, id: ObjectId, claim: Claim, now: Micros) {
        let Some(known) = self.known.get_mut(id) else { return };
        if now - known.asked >= ASSERT_EVERY {
            known.asked = now;
            self.inquiries.push((of, id, claim));
        }
    }

    /// Sends what is to be asked of owners, and how to reach whom it is about.
    pub(super) fn send_inquiries(&mut self, out: &mut impl Outbox) {
        for (owner, id, claim) in std::mem::take(&mut self.inquiries) {
            let Some(link) = self.by_player.get(&owner).copied() else { continue };
            let met = |it: &Neighbour| it.linked.contains(&claim.owner);
            let strange = self.links.get(&link).is_some_and(|it| !met(it));
            if let Some(sealed) = self.members.sealed(claim.owner).filter(|_| strange) {
                let digest = vec![sealed.clone()];
                self.pay_for(&digest);
                out.message(link, &write_message(&Message::Members(digest)));
            }
            let claimed = Message::Claimed(id.into(), claim.epoch.0, claim.owner.0);
            out.message(link, &write_message(&claimed));
        }
    }

    /// A neighbour asks whether what it takes for ours is somebody else's. Its word alone moves
    /// nothing: whoever claims it has to say so here.
    pub(super) fn hear_claimed(
        &mut self,
        link: Link,
        id: ObjectId,
        claim: Claim,
        now: Micros,
        out: &mut impl Outbox,
    ) {
        let Some(mine) = self.my_claim(id) else {
            let known = self.known.get(id).map(|known| known.claim);
            let best = known.filter(|known| known.beats(&claim)).unwrap_or(claim);
            let mut answer = Changes::default();
            match self.known.is_buried(id, best.epoch) {
                true => answer.remove(id),
                false => answer.give(id, best),
            }
            return out.message(link, &write_message(&Message::Changes(answer)));
        };
        if claim.owner == self.me {
            return;
        }
        let claimant = self.by_player.get(&claim.owner).and_then(|link| self.links.get(link));
        if claimant.is_none() && !self.calling.contains_key(&claim.owner) {
            return self.call(claim.owner, now);
        }
        let wrong = claimant.is_some_and(|it| self.is_surely_ours(id, it, now));
        if !claim.beats(&mine) || wrong {
            self.assert(id, claim, now);
        }
        if !claim.beats(&mine) {
            self.tell_ours(id, link, out);
        }
    }

    /// Says that an object is ours, at an epoch that ends the matter for whoever is honest. All others know
    /// it, unless the epoch has to rise: so one whose claim is lower is told alone, at the next look.
    fn assert(&mut self, id: ObjectId, claim: Claim, now: Micros) {
        let (Some(mine), Some(owned)) = (self.my_claim(id), self.owned.get_mut(&id)) else {
            return;
        };
        if claim.is_wild(&mine) {
            return;
        }
        if now - owned.asserted < ASSERT_EVERY || !claim.beats(&mine) {
            owned.disputed = Some(claim);
            return;
        }
        (owned.asserted, owned.disputed) = (now, None);
        self.say_ours(id, claim.next(self.me).epoch);
    }

    /// Says so to those who came while all others had just been told, or knew.
    pub(super) fn assert_again(&mut self, now: Micros, out: &mut impl Outbox) {
        let disputed = |(id, owned): (&ObjectId, &mut Owned)| Some((*id, owned.disputed.take()?));
        let disputed: Vec<(ObjectId, Claim)> = self.owned.iter_mut().filter_map(disputed).collect();
        for (id, claim) in disputed {
            let Some(mine) = self.my_claim(id) else { continue };
            if claim.beats(&mine) {
                self.assert(id, claim, now);
            } else if let Some(link) = self.by_player.get(&claim.owner) {
                self.tell_ours(id, *link, out);
            }
        }
    }

    /// Says to one neighbour that an object is ours.
    fn tell_ours(&self, id: ObjectId, link: Link, out: &mut impl Outbox) {
        let Some(mine) = self.my_claim(id) else { return };
        let mut ours = Changes::default();
        ours.gain(id, mine.epoch);
        out.message(link, &write_message(&Message::Changes(ours)));
    }

    /// An object of ours is ours at this epoch.
    fn say_ours(&mut self, id: ObjectId, epoch: Epoch) {
        let store = &mut self.simulation.publisher.store;
        if let Some(slot) = store.find(id) {
            let mut lanes = store.lanes(slot).to_vec();
            lanes[LANE_EPOCH] = epoch.0 as i32;
            if store.set_lanes(slot, &lanes).is_ok() {
                self.changes.gain(id, epoch);
                self.urgent = true;
            }
        }
    }

    /// Whether a neighbour who has heard from us all the time knows that an object is ours.
    fn is_surely_ours(&self, id: ObjectId, neighbour: &Neighbour, now: Micros) -> bool {
        let Some(owned) = self.owned.get(&id) else { return false };
        // For a while it can have come by it honestly: by having taken the one for gone who had it
        // before. If that one was there all the time, and still is, it has told them.
        let is_there = |player: &PlayerId| {
            let link = self.by_player.get(player).and_then(|link| self.links.get(link));
            link.is_some_and(|it| it.is_settled(now) && it.heard >= owned.since + KEEP_ALIVE)
        };
        let had_word = match owned.by {
            Acquired::Made => true,
            Acquired::Given(giver) => {
                giver == neighbour.player || neighbour.linked.contains(&giver) && is_there(&giver)
            }
            Acquired::TakenOver | Acquired::Returned => false,
        };
        neighbour.is_settled(now) && (had_word || now - owned.since >= CLEAR_AFTER)
    }

    /// Somebody claimed what its owner says is not theirs. Those who have not known each other for long
    /// may have been apart; and whoever has no link with the owner may have taken it for gone, or for a
    /// liar.
    fn convict(&mut self, player: PlayerId, owner: PlayerId, now: Micros) {
        let link = self.by_player.get(&player).copied();
        let knew = |link: &Link| {
            let it = self.links.get(link);
            it.is_some_and(|it| it.is_settled(now) && it.linked.contains(&owner))
        };
        if let Some(link) = link.filter(knew) {
            self.record_violation(link, Fault::Usurped, now);
        }
    }

    /// Whether a new owner of an object may be believed without a word of the old one: because that one
    /// is not there to say it.
    pub(super) fn may_follow(&self, id: ObjectId, now: Micros) -> bool {
        let known = self.known.get(id).filter(|known| known.orphan.is_none());
        let link = known.and_then(|known| self.by_player.get(&known.claim.owner));
        link.and_then(|link| self.links.get(link)).is_none_or(|it| !it.is_live(now))
    }

    /// Somebody claims what is ours. After a crash or a partition the better claim prevails. But whoever
    /// has heard from us all the time cannot have taken us for gone.
    fn rival(&mut self, (link, id): (Link, ObjectId), claim: Claim, mine: Claim, now: Micros) {
        if !claim.beats(&mine) {
            // They cannot have heard of ours.
            return self.assert(id, claim, now);
        }
        let neighbour = self.links.get(&link);
        if !neighbour.is_some_and(|it| self.is_surely_ours(id, it, now)) {
            return self.yield_to(id, claim, now);
        }
        self.record_violation(link, Fault::Usurped, now);
        self.assert(id, claim, now);
    }

    /// A better claim than ours on an object.
    pub(super) fn yield_to(&mut self, id: ObjectId, claim: Claim, now: Micros) {
        if self.let_go(id, claim, now).is_some() {
            self.counts.yielded += 1;
            self.changes.give(id, claim);
            self.urgent = true;
        }
    }

    /// A neighbour says that an object is no more. It is believed if the object was its own, or if it may
    /// as well have taken it over: the owner is not there, or we have just taken it over ourselves.
    pub(super) fn hear_removed(&mut self, link: Link, id: ObjectId, epoch: Epoch, now: Micros) {
        let Some(neighbour) = self.links.get(&link) else { return };
        if self.tenure(id) == Tenure::Fixed {
            if self.known.get(id).is_some_and(|it| it.claim.owner == neighbour.player) {
                self.known.remove(id);
                self.simulation.ghosts.remove(id);
            }
            return;
        }
        if let Some(owned) = self.owned.get(&id) {
            let taken = matches!(owned.by, Acquired::TakenOver | Acquired::Returned);
            let slot = self.simulation.publisher.store.find(id);
            if let Some(slot) = slot.filter(|_| taken && now - owned.since < CLEAR_AFTER)
                && self.simulation.publisher.store.remove(slot).is_ok()
            {
                self.owned.remove(&id);
                self.known.mark_removed(id, epoch, now);
                self.changes.remove(id);
                self.urgent = true;
            }
            return;
        }
        let player = neighbour.player;
        let owner = self.known.get(id).map(|known| known.claim.owner);
        if owner == Some(player) || self.may_follow(id, now) {
            return self.believe_removed(id, epoch, now);
        }
        let Some(known) = self.known.get_mut(id) else { return };
        let before = known.doubted.filter(|doubt| doubt.claim.owner == player);
        let (claim, since) =
            before.map_or((known.claim.next(player), now), |it| (it.claim, it.since));
        known.doubted = Some(Doubt { claim, since, removed: true });
    }

    fn believe_removed(&mut self, id: ObjectId, epoch: Epoch, now: Micros) {
        self.known.mark_removed(id, epoch, now);
        self.simulation.ghosts.remove(id);
        self.giving.remove(&id);
    }

    /// An owner says that an object is somebody else's now.
    pub(super) fn hear_gift(&mut self, link: Link, id: ObjectId, claim: Claim, now: Micros) {
        let giver = self.links.get(&link).map(|it| it.player);
        let Some(known) = self.known.get_mut(id) else { return };
        if claim.owner == self.me {
            // What this peer did not take it does not have, unless it was refused for want of this word.
            if Some(known.claim.owner) == giver {
                self.take_held(id, Some(claim.epoch), now);
            }
            return;
        }
        if let Some(doubt) = known.doubted.as_mut().filter(|it| Some(it.claim.owner) == giver)
            && claim.beats(&doubt.claim)
        {
            doubt.claim = claim;
        }
        // Whoever does not tell of it any more may say that it is anybody's.
        let mute = known.source.is_none() && Some(claim.owner) != giver;
        if Some(known.claim.owner) == giver && (mute || claim.beats(&known.claim)) {
            if known.doubted.is_some_and(|doubt| doubt.removed && doubt.claim.owner == claim.owner)
            {
                return self.believe_removed(id, Epoch(u32::MAX), now);
            }
            (known.claim, known.doubted, known.orphan) = (claim, None, None);
            (known.source, known.given, known.heard) = (None, giver, now);
            known.taken = None;
        }
    }
}

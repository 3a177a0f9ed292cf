//! Objects that change hands: created and removed by rules, handed to the peer that clearly cares more.
//!
//! An object is in exactly one of these places at a peer: in the store (it is the owner), among the
//! ghosts (another peer is), or not known.

use super::ownership::{MAX_DONE, OwnerClaim};
use super::wire::{Changes, Named, PeerMessage, Transfer};
use super::{Fault, Peer};
use crate::game::{Game, PlayerId, Tenure};
use crate::outbox::{Link, Outbox};
use crate::remote_objects::apart;
use crate::session::write_message;
use foveate_wire::schema::{LANE_EPOCH, LANE_OWNER};
use foveate_wire::{Epoch, Metres, Micros, ObjectId, Tick};
use std::collections::VecDeque;

/// Rounds between two looks at which peer cares more.
const HAND_EVERY: u32 = 4;
/// Objects handed over in one look at most: no peer is swamped.
const MAX_GIVEN: usize = 8;
/// An object stays with an owner at least this long.
const HELD_FOR: Micros = Micros(1_000_000);
/// What was taken over may have been taken over by another peer as well; after this it is clear which has it.
pub(super) const CLEAR_AFTER: Micros = Micros(3_000_000);
/// What was handed over and not confirmed is handed over again after this.
const GIVE_AGAIN: Micros = Micros(1_000_000);
/// In place of an epoch: what was given is not taken.
const NOT_TAKEN: u32 = u32::MAX;
/// Gifts that were refused and are looked at again, at most,
const MAX_HELD: usize = 64;
/// and for how long.
const HOLD: Micros = Micros(5_000_000);

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
    /// How long it stays at least. What a peer did not take is in dispute: until that is over they would
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
    pub by: Acquired,
    /// When others were last told so,
    pub asserted: Micros,
    /// and which claim has to be answered once more.
    pub disputed: Option<OwnerClaim>,
    /// What was asked of it and done.
    pub done: VecDeque<(u32, u32)>,
}

impl Owned {
    /// An object that was created here.
    pub fn made(now: Micros) -> Owned {
        Owned::new(now, Acquired::Made)
    }

    fn new(now: Micros, by: Acquired) -> Owned {
        Owned { since: now, by, asserted: now, disputed: None, done: VecDeque::new() }
    }
}

/// An object on its way to a peer that has not said yet that it arrived.
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
    pub(super) fn my_claim(&self, id: ObjectId) -> Option<OwnerClaim> {
        let store = &self.simulation.publisher.store;
        let slot = store.find(id)?;
        Some(OwnerClaim { owner: self.me, epoch: store.owner(slot).1 })
    }

    /// Everything that a new neighbour must know.
    pub(super) fn all_changes(&self, now: Micros) -> Changes {
        let store = &self.simulation.publisher.store;
        let worldly = store.iter().filter(|(id, _)| self.tenure(*id) != Tenure::Fixed);
        Changes {
            linked: self.open_players().map(|player| player.0).collect(),
            gained: worldly.map(|(id, slot)| (id.into(), store.owner(slot).1.0)).collect(),
            removed: self.ownership.removed_lately(now).map(|(id, it)| (id.into(), it.0)).collect(),
            ..Changes::default()
        }
    }

    /// After the rules: what came into being and what is no more.
    pub(super) fn track_objects(&mut self, now: Micros) {
        let Peer { simulation, ownership, .. } = self;
        let store = &simulation.publisher.store;
        let is_same = store.len() == ownership.owned_count();
        if is_same && store.iter().all(|(id, _)| ownership.owns(id)) {
            return;
        }
        let gone = ownership.all_owned().map(|(id, _)| id).filter(|id| store.find(*id).is_none());
        let gone: Vec<ObjectId> = gone.collect();
        for (id, slot) in store.iter() {
            if ownership.owns(id) {
                continue;
            }
            if simulation.game.tenure(id) != Tenure::Fixed {
                ownership.changes.gain(id, store.owner(slot).1);
                ownership.urgent = true;
            }
            ownership.own(id, Owned::made(now));
        }
        for id in gone {
            // Whatever its epoch was, no later one is honest.
            ownership.mark_removed(id, Epoch(u32::MAX), now);
            ownership.changes.remove(id);
            ownership.urgent = true;
        }
    }

    /// The objects of the world that this peer owns: others may have them.
    pub(super) fn owned_of_the_world(&self) -> Vec<ObjectId> {
        let all = self.ownership.all_owned().map(|(id, _)| id);
        all.filter(|id| self.tenure(*id) != Tenure::Fixed).collect()
    }

    /// Hands objects to peers that clearly care more.
    pub(super) fn hand_over(&mut self, now: Micros, tick: Tick, out: &mut impl Outbox) {
        if !tick.0.wrapping_add(self.me.0).is_multiple_of(HAND_EVERY) {
            return;
        }
        let ripe = |(id, owned): (ObjectId, &Owned)| {
            let may =
                self.tenure(id) == Tenure::ByInterest && now - owned.since >= owned.by.held_for();
            may.then(|| Some((id, self.most_interested(id, now, false)?))).flatten()
        };
        let given: Vec<_> = self.ownership.all_owned().filter_map(ripe).take(MAX_GIVEN).collect();
        for (id, to) in given {
            self.give_object(id, to, now, out);
        }
    }

    /// The most interested neighbour for an object of ours: clearly more than we do, or any at all.
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
            let link = self.links.of(*player);
            link.is_some_and(|it| it.is_live(now) && it.inside && it.observer.is_some())
        };
        let others = self.links.players().filter(able);
        let keen = others.map(|player| (self.interest(player, there), player));
        let (most, player) = keen.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
        (anybody || self.settings.interest.clearly_more(most, mine)).then_some(player)
    }

    /// How much a peer cares for a place.
    pub(super) fn interest(&self, player: PlayerId, there: Option<[f32; 3]>) -> f32 {
        let here = self.place_of(player);
        let away = here.zip(there).map_or(f32::MAX, |(a, b)| apart(a, b));
        self.settings.interest.interest(Metres(away), self.weight(player))
    }

    /// How much more a player's interest counts than that of others. Names are too short to be trusted:
    /// the whole key counts.
    pub(super) fn weight(&self, player: PlayerId) -> f32 {
        if self.trust.trusts_all_equally() {
            return 1.0;
        }
        let link = self.links.of(player);
        let key = match player == self.me {
            true => Some(self.signer.key()),
            false => {
                let members = &self.membership.members;
                link.map(|it| it.key).or_else(|| Some(members.get(player)?.digest.key))
            }
        };
        key.map_or(1.0, |key| self.trust.weight(&key))
    }

    /// Hands an object over: it is another peer's from now on.
    pub(super) fn give_object(
        &mut self,
        id: ObjectId,
        to: PlayerId,
        now: Micros,
        out: &mut impl Outbox,
    ) {
        let (Some(claim), Some(link)) = (self.my_claim(id), self.links.link_to(to)) else {
            return;
        };
        let claim = claim.next(to);
        let done = self.ownership.owned(id).map(|owned| owned.done.iter().copied().collect());
        let Some(lanes) = self.release_object(id, claim, now) else { return };
        let (object, epoch) = (Named::from(id), claim.epoch.0);
        let transfer = Transfer { object, epoch, lanes, done: done.unwrap_or_default() };
        out.message(link, &write_message(&PeerMessage::Give(transfer.clone())));
        self.ownership.giving.insert(id, Giving { to, since: now, transfer });
        self.ownership.changes.give(id, claim);
        self.ownership.urgent = true;
        self.counts.given += 1;
        if let Some(neighbour) = self.links.get_mut(&link) {
            neighbour.spoke = now;
        }
    }

    /// An object of ours is another peer's: it goes on as a ghost.
    pub(super) fn release_object(
        &mut self,
        id: ObjectId,
        claim: OwnerClaim,
        now: Micros,
    ) -> Option<Vec<i32>> {
        let store = &mut self.simulation.publisher.store;
        let slot = store.find(id)?;
        let mut lanes = store.lanes(slot).to_vec();
        lanes[LANE_OWNER] = claim.owner.0 as i32;
        lanes[LANE_EPOCH] = claim.epoch.0 as i32;
        let tick = store.tick();
        store.remove(slot).ok()?;
        self.ownership.remove(id);
        self.ownership.put(id, claim, (tick, None), now);
        self.simulation.ghosts.put(id, &lanes);
        Some(lanes)
    }

    /// An object becomes ours.
    pub(super) fn take_object(
        &mut self,
        id: ObjectId,
        epoch: Epoch,
        lanes: &[i32],
        now: Micros,
    ) -> bool {
        let mut lanes = lanes.to_vec();
        if lanes.len() <= LANE_EPOCH {
            return false;
        }
        lanes[LANE_EPOCH] = epoch.0 as i32;
        if self.simulation.restore(id, &lanes).is_err() {
            self.counts.full += 1;
            return false;
        }
        self.simulation.ghosts.remove(id);
        self.ownership.own(id, Owned::new(now, Acquired::TakenOver));
        self.ownership.changes.gain(id, epoch);
        true
    }

    /// A peer hands an object to us.
    pub(super) fn on_give(
        &mut self,
        link: Link,
        transfer: &Transfer,
        now: Micros,
        out: &mut impl Outbox,
    ) {
        let (id, epoch) = (transfer.object.id(), Epoch(transfer.epoch));
        let Some(giver) = self.links.get(&link).map(|it| it.player) else { return };
        let claim = OwnerClaim { owner: self.me, epoch };
        let lanes = self.simulation.game.schema().kind(id.kind()).map(|kind| kind.lane_count());
        let before = OwnerClaim { owner: giver, epoch: Epoch(epoch.0.saturating_sub(1)) };
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
            self.ask_owner(known.owner, id, before, now);
            if !wild && self.ownership.held.len() < MAX_HELD {
                self.ownership
                    .held
                    .insert(id, HeldGift { giver, since: now, transfer: transfer.clone() });
            }
        }
        let mine = self.my_claim(id);
        if mine.is_some_and(|mine| epoch > mine.epoch) && !wild {
            // It was taken over here at the same time: others hear of this epoch.
            self.raise_epoch(id, epoch);
        }
        let here = mine.is_some() || self.ownership.is_removed(id, epoch);
        let taken = here || (!refused && self.take_gift(giver, transfer, now));
        let answer = if taken { transfer.epoch } else { NOT_TAKEN };
        out.message(link, &write_message(&PeerMessage::Took(transfer.object, answer)));
    }

    /// Whether an object is a peer's to give, as far as is known.
    fn may_give(&self, giver: PlayerId, id: ObjectId, claim: OwnerClaim, now: Micros) -> bool {
        let Some(known) = self.claim_on(id) else { return true };
        let stale = !claim.beats(&known) && known.owner != self.me;
        let foreign = known.owner != giver && known.owner != self.me;
        !(stale || claim.is_wild(&known) || (foreign && !self.may_follow(id, now)))
    }

    fn take_gift(&mut self, giver: PlayerId, transfer: &Transfer, now: Micros) -> bool {
        let id = transfer.object.id();
        let taken = self.take_object(id, Epoch(transfer.epoch), &transfer.lanes, now);
        if taken {
            let done = transfer.done.iter().copied().take(MAX_DONE).collect();
            let owned = Owned { done, ..Owned::new(now, Acquired::Given(giver)) };
            self.ownership.own(id, owned);
        }
        taken
    }

    /// A gift that was refused while its giver left is taken after all, once it is known that it was theirs
    /// to give, or when the owner that was known says that it is ours at this epoch: no other peer has it.
    pub(super) fn take_held(&mut self, id: ObjectId, confirmed: Option<Epoch>, now: Micros) {
        let gift = self.ownership.held.get(&id).filter(|it| !self.links.is_linked(it.giver));
        let Some(gift) = gift else { return };
        let claim = OwnerClaim { owner: self.me, epoch: Epoch(gift.transfer.epoch) };
        let is_said = confirmed == Some(claim.epoch);
        if (is_said || self.may_give(gift.giver, id, claim, now))
            && self.my_claim(id).is_none()
            && !self.ownership.is_removed(id, claim.epoch)
            && let Some(gift) = self.ownership.held.remove(&id)
            && self.take_gift(gift.giver, &gift.transfer, now)
        {
            self.ownership.urgent = true;
        }
    }

    /// Looks again at gifts that were refused.
    pub(super) fn retry_held(&mut self, now: Micros) {
        for id in self.ownership.held.keys().copied().collect::<Vec<_>>() {
            self.take_held(id, None, now);
        }
        let Peer { ownership, links, .. } = self;
        ownership.held.retain(|_, it| now - it.since < HOLD && !links.is_linked(it.giver));
    }

    /// Hands over again what may have been lost with an earlier link; what cannot be delivered comes back.
    pub(super) fn give_again(&mut self, now: Micros, out: &mut impl Outbox) {
        let late = self.ownership.giving.iter().filter(|(_, it)| now - it.since >= GIVE_AGAIN);
        let late: Vec<(ObjectId, Giving)> = late.map(|(id, it)| (*id, it.clone())).collect();
        for (id, giving) in late {
            match self.links.link_to(giving.to) {
                Some(link) => {
                    out.message(link, &write_message(&PeerMessage::Give(giving.transfer)))
                }
                None => self.take_back(id, now),
            }
        }
    }

    /// What was handed over was not taken: it is ours again.
    pub(super) fn take_back(&mut self, id: ObjectId, now: Micros) {
        let Some(giving) = self.ownership.giving.remove(&id) else { return };
        let given = OwnerClaim { owner: giving.to, epoch: Epoch(giving.transfer.epoch) };
        if self.ownership.ghost(id).is_some_and(|ghost| ghost.claim == given) {
            let epoch = given.next(self.me).epoch;
            self.take_object(id, epoch, &giving.transfer.lanes, now);
            if let Some(owned) = self.ownership.owned_mut(id) {
                owned.by = Acquired::Returned;
            }
            self.ownership.urgent = true;
        }
    }

    /// Whether something is on its way to a peer.
    pub(super) fn is_giving_to(&self, player: PlayerId) -> bool {
        self.ownership.giving.values().any(|giving| giving.to == player)
    }

    /// What was handed over has arrived, or comes back.
    pub(super) fn on_took(&mut self, link: Link, id: ObjectId, epoch: u32, now: Micros) {
        let player = self.links.get(&link).map(|it| it.player);
        let Some(giving) = self.ownership.giving.get(&id).filter(|it| Some(it.to) == player) else {
            return;
        };
        if giving.transfer.epoch != epoch && epoch != NOT_TAKEN {
            return;
        }
        if epoch == NOT_TAKEN {
            self.take_back(id, now);
        } else {
            self.ownership.giving.remove(&id);
        }
    }
}

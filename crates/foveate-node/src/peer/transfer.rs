//! Objects that change owners: created and removed by rules, handed to a clearly more interested
//! peer.
//!
//! At a peer, an object is in exactly one of these places: in the store (it is the owner), among
//! the copies of remote objects (another peer is), or not known.

use super::ownership::{MAX_DONE, OwnerClaim};
use super::wire::{Changes, Named, PeerMessage, Transfer};
use super::{Fault, Peer};
use crate::game::{Game, PlayerId, Tenure};
use crate::outbox::{Link, Outbox};
use crate::session::write_message;
use foveate_wire::schema::{LANE_EPOCH, LANE_OWNER};
use foveate_wire::{Epoch, Metres, Micros, ObjectId, Position, Tick};
use std::collections::VecDeque;

/// Rounds between two checks of which peer is most interested.
const HAND_EVERY: u32 = 4;
/// The most objects handed over in one check, so that no peer is flooded.
const MAX_GIVEN: usize = 8;
/// The least time that an object stays with an owner.
const HELD_FOR: Micros = Micros(1_000_000);
/// Two peers may take over the same object; after this time it is clear which one has it.
pub(super) const CLEAR_AFTER: Micros = Micros(3_000_000);
/// An object handed over without confirmation is handed over again after this time.
const GIVE_AGAIN: Micros = Micros(1_000_000);
/// Sent instead of an epoch: the object was not accepted.
const NOT_TAKEN: u32 = u32::MAX;
/// The most refused gifts that are kept to be checked again.
const MAX_HELD: usize = 64;
/// How long a refused gift is kept.
const HOLD: Micros = Micros(5_000_000);

/// How a peer became an object's owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acquired {
    /// It was created here.
    Made,
    /// Its owner handed it over.
    Given(PlayerId),
    /// Its owner was gone.
    TakenOver,
    /// It was handed over and came back.
    Returned,
}

impl Acquired {
    /// The least time that it stays. An object that a peer did not accept is in dispute: until that
    /// is over the peer would refuse it again, and all peers would be told of every attempt.
    fn held_for(self) -> Micros {
        if self == Acquired::Returned { CLEAR_AFTER } else { HELD_FOR }
    }
}

/// An object that this peer owns.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub since: Micros,
    pub by: Acquired,
    /// When this peer last asserted its ownership.
    pub asserted: Micros,
    /// A rival claim that must be answered once more.
    pub disputed: Option<OwnerClaim>,
    /// Requests that were carried out: requester and number.
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

/// An object handed to a peer that has not confirmed it yet.
#[derive(Clone, Debug)]
pub(super) struct Giving {
    pub to: PlayerId,
    since: Micros,
    pub transfer: Transfer,
}

/// A gift that was refused, because as far as was known the giver did not own the object.
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

    /// All changes that a new neighbour must know.
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

    /// Notes the objects that rules created and removed.
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
            // No claim at any epoch is honest from now on.
            ownership.mark_removed(id, Epoch(u32::MAX), now);
            ownership.changes.remove(id);
            ownership.urgent = true;
        }
    }

    /// The world's objects that this peer owns, which other peers may own instead.
    pub(super) fn owned_of_the_world(&self) -> Vec<ObjectId> {
        let all = self.ownership.all_owned().map(|(id, _)| id);
        all.filter(|id| self.tenure(*id) != Tenure::Fixed).collect()
    }

    /// Hands objects over to peers that are clearly more interested.
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

    /// The most interested neighbour for an object of ours: clearly more than we are, or any if
    /// `any_peer`.
    pub(super) fn most_interested(
        &self,
        id: ObjectId,
        now: Micros,
        any_peer: bool,
    ) -> Option<PlayerId> {
        let store = &self.simulation.publisher.store;
        let slot = store.find(id)?;
        let there = store.kind(slot).place.map(|_| store.position(slot));
        let mine = match there {
            // An object without a place stays where it is.
            None if !any_peer => return None,
            _ => self.interest(self.me, there),
        };
        let able = |player: &PlayerId| {
            let link = self.links.of(*player);
            link.is_some_and(|it| it.is_live(now) && it.inside && it.observer.is_some())
        };
        let others = self.links.players().filter(able);
        let keen = others.map(|player| (self.interest(player, there), player));
        let (most, player) = keen.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
        (any_peer || self.settings.interest.clearly_more(most, mine)).then_some(player)
    }

    /// A player's interest in a place.
    pub(super) fn interest(&self, player: PlayerId, there: Option<Position>) -> f32 {
        let here = self.place_of(player);
        let away = here.zip(there).map_or(Metres(f32::MAX), |(a, b)| a.distance(b));
        self.settings.interest.interest(away, self.weight(player))
    }

    /// The weight of a player's interest. Player numbers are too short to be trusted: the whole key
    /// counts.
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

    /// Hands an object over: another peer owns it from now on.
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

    /// Gives up an object to another peer, and keeps a copy.
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

    /// Makes an object ours.
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
            // As far as is known the object is not the giver's: return it. What is known may be out
            // of date.
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
            // It was taken over here at the same time: announce this epoch.
            self.raise_epoch(id, epoch);
        }
        let here = mine.is_some() || self.ownership.is_removed(id, epoch);
        let taken = here || (!refused && self.take_gift(giver, transfer, now));
        let answer = if taken { transfer.epoch } else { NOT_TAKEN };
        out.message(link, &write_message(&PeerMessage::Took(transfer.object, answer)));
    }

    /// Whether a peer owns the object that it gives, as far as is known.
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

    /// Accepts a gift after all that was refused while its giver left: once the giver is known to
    /// have owned it, or the known owner says that it is ours at this epoch. No other peer has it.
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

    /// Checks refused gifts again.
    pub(super) fn retry_held(&mut self, now: Micros) {
        for id in self.ownership.held.keys().copied().collect::<Vec<_>>() {
            self.take_held(id, None, now);
        }
        let Peer { ownership, links, .. } = self;
        ownership.held.retain(|_, it| now - it.since < HOLD && !links.is_linked(it.giver));
    }

    /// Repeats gifts that may have been lost with an earlier link; those that cannot be delivered
    /// come back.
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

    /// Takes back an object that was not accepted.
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

    /// Whether an object is on its way to a peer.
    pub(super) fn is_giving_to(&self, player: PlayerId) -> bool {
        self.ownership.giving.values().any(|giving| giving.to == player)
    }

    /// A receiver confirmed an object, or did not accept it.
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

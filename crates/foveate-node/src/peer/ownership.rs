//! What a peer knows of ownership: its own objects, those of others, and removed ones.
//!
//! **Claims are ordered**: the higher epoch wins, and of equal epochs the lower owner. So if two
//! peers own one object after a crash or a partition, both know without a message which of them
//! yields, and all others agree.

use super::transfer::{Giving, HeldGift, Owned};
use super::wire::Changes;
use crate::game::PlayerId;
use crate::outbox::Link;
use foveate_wire::predict::HORIZON;
use foveate_wire::{Epoch, Micros, Motion, ObjectId, Tick};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// The most objects of others that a peer knows.
pub const MAX_KNOWN: usize = 4_096;
/// How many rounds a copy moves on after its owner falls silent.
const MAX_GLIDE: u32 = 2 * HORIZON;
/// No honest claim is further ahead of what is known than this many epochs.
const MAX_AHEAD: u32 = 10_000;
/// An object without states for this long is forgotten: its new owner keeps it elsewhere.
const FORGET_AFTER: Micros = Micros(10_000_000);
/// The same for objects that are relayed.
const FORGET_RELAYED: Micros = Micros(40_000_000);
/// The most removed objects that are remembered.
const MAX_REMOVED: usize = 4_096;
/// How many of these are sent to a new neighbour.
const TOLD_REMOVED: usize = 512;
/// Only removals younger than this are sent to a new neighbour. Longer than a copy outlives its
/// owner's silence.
const TOLD_FOR: Micros = Micros(20_000_000);
/// The most carried-out requests that an object remembers.
pub const MAX_DONE: usize = 64;

/// The statement that a peer owns an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerClaim {
    pub owner: PlayerId,
    /// How often the object had changed owners by then.
    pub epoch: Epoch,
}

impl OwnerClaim {
    /// Whether this claim prevails over another.
    pub fn beats(&self, other: &OwnerClaim) -> bool {
        (self.epoch, Reverse(self.owner)) > (other.epoch, Reverse(other.owner))
    }

    /// Whether this claim is further ahead of what is known than an honest one can be.
    pub fn is_wild(&self, known: &OwnerClaim) -> bool {
        self.epoch.0 > known.epoch.0.saturating_add(MAX_AHEAD)
    }

    /// The next claim after this one, by another owner.
    pub fn next(&self, owner: PlayerId) -> OwnerClaim {
        OwnerClaim { owner, epoch: Epoch(self.epoch.0.saturating_add(1)) }
    }
}

/// How a copy moves on between two states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GhostMotion {
    /// The place of the last state, in steps.
    pub from: [i32; 3],
    /// The motion of the last state.
    pub motion: Motion,
}

impl GhostMotion {
    /// The place this many rounds later. While the owner sends, this is the shared prediction.
    /// After the owner falls silent, copies move on at all peers until one takes over; if each
    /// stopped a horizon after its own last state, they would differ.
    pub fn after(&self, rounds: u32, silent: bool) -> [i32; 3] {
        let mut left = rounds.min(if silent { MAX_GLIDE } else { HORIZON });
        let mut at = self.from;
        while left > 0 {
            let way = self.motion.way(left);
            at = [0, 1, 2].map(|axis| at[axis].wrapping_add(way[axis]));
            left -= left.min(HORIZON);
        }
        at
    }
}

/// A claim that beats the known owner's, by a peer to which the owner did not give the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doubt {
    pub claim: OwnerClaim,
    /// The peer that claimed the object itself: another may only be named as its receiver.
    pub by: PlayerId,
    /// When the claim first arrived.
    pub since: Micros,
    /// The claimant says that the object was removed; it is, if the claim turns out to be right.
    pub removed: bool,
}

/// Another peer's object: its owner, and how the copy moves if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct GhostState {
    pub claim: OwnerClaim,
    /// The round of its newest state.
    pub tick: Tick,
    /// The link that its states come from; `None` before the new owner's first one.
    pub source: Option<Link>,
    /// The peer that says it gave the object to the owner, until the owner confirms that. The owner
    /// may not have accepted it.
    pub given: Option<PlayerId>,
    /// When the owner took it over from one that was gone, without that one's word: another peer
    /// may have done so at the same time.
    pub taken: Option<Micros>,
    /// When this owner became known.
    pub since: Micros,
    /// When the owner was last asked about it.
    pub asked: Micros,
    /// When a state or claim of it last arrived.
    pub heard: Micros,
    pub motion: GhostMotion,
}

/// The states of an object at a peer, as in the diagram in `ARCHITECTURE.md`.
#[derive(Clone, Debug)]
pub(super) enum ObjectState {
    /// This peer owns it; it is in the store.
    Owned(Owned),
    /// Another peer owns it.
    Ghost(GhostState),
    /// Its owner is gone. This peer takes it over at this time, unless another does so first.
    Orphan(GhostState, Micros),
    /// A peer other than its owner claims it, and the owner has to settle that.
    Doubted(GhostState, Doubt),
}

impl ObjectState {
    fn ghost(&self) -> Option<&GhostState> {
        match self {
            ObjectState::Owned(_) => None,
            ObjectState::Ghost(ghost)
            | ObjectState::Orphan(ghost, _)
            | ObjectState::Doubted(ghost, _) => Some(ghost),
        }
    }

    fn ghost_mut(&mut self) -> Option<&mut GhostState> {
        match self {
            ObjectState::Owned(_) => None,
            ObjectState::Ghost(ghost)
            | ObjectState::Orphan(ghost, _)
            | ObjectState::Doubted(ghost, _) => Some(ghost),
        }
    }
}

/// Removed objects, and the epochs up to which claims on them are void.
#[derive(Debug, Default)]
struct Removals {
    epochs: BTreeMap<ObjectId, Epoch>,
    order: VecDeque<(ObjectId, Micros)>,
}

/// The owner of each object, transfers under way, and the changes to send to neighbours.
#[derive(Default)]
pub(super) struct Ownership {
    objects: BTreeMap<ObjectId, ObjectState>,
    /// The number of objects that this peer owns.
    owned: usize,
    removals: Removals,
    /// Objects on their way to their new owners.
    pub giving: BTreeMap<ObjectId, Giving>,
    /// Gifts that were refused, and may be accepted later.
    pub held: BTreeMap<ObjectId, HeldGift>,
    /// Changes that were not sent to neighbours yet.
    pub changes: Changes,
    /// Whether a neighbour could go wrong unless the changes are sent in this round.
    pub urgent: bool,
    /// Questions to send: the owner to ask, the object, the claim.
    pub inquiries: Vec<(PlayerId, ObjectId, OwnerClaim)>,
}

impl Ownership {
    /// An object that this peer owns.
    pub fn owned(&self, id: ObjectId) -> Option<&Owned> {
        match self.objects.get(&id)? {
            ObjectState::Owned(owned) => Some(owned),
            _ => None,
        }
    }

    pub fn owned_mut(&mut self, id: ObjectId) -> Option<&mut Owned> {
        match self.objects.get_mut(&id)? {
            ObjectState::Owned(owned) => Some(owned),
            _ => None,
        }
    }

    pub fn owns(&self, id: ObjectId) -> bool {
        self.owned(id).is_some()
    }

    pub fn owned_count(&self) -> usize {
        self.owned
    }

    pub fn all_owned(&self) -> impl Iterator<Item = (ObjectId, &Owned)> {
        self.objects.iter().filter_map(|(id, state)| match state {
            ObjectState::Owned(owned) => Some((*id, owned)),
            _ => None,
        })
    }

    pub fn all_owned_mut(&mut self) -> impl Iterator<Item = (ObjectId, &mut Owned)> {
        self.objects.iter_mut().filter_map(|(id, state)| match state {
            ObjectState::Owned(owned) => Some((*id, owned)),
            _ => None,
        })
    }

    /// Another peer's object.
    pub fn ghost(&self, id: ObjectId) -> Option<&GhostState> {
        self.objects.get(&id).and_then(ObjectState::ghost)
    }

    pub fn ghost_mut(&mut self, id: ObjectId) -> Option<&mut GhostState> {
        self.objects.get_mut(&id).and_then(ObjectState::ghost_mut)
    }

    pub fn ghosts(&self) -> impl Iterator<Item = (ObjectId, &GhostState)> {
        self.objects.iter().filter_map(|(id, state)| Some((*id, state.ghost()?)))
    }

    pub fn ghosts_mut(&mut self) -> impl Iterator<Item = (ObjectId, &mut GhostState)> {
        self.objects.iter_mut().filter_map(|(id, state)| Some((*id, state.ghost_mut()?)))
    }

    /// The objects of a peer.
    pub fn ghosts_of(&self, player: PlayerId) -> Vec<ObjectId> {
        self.ghosts().filter(|(_, ghost)| ghost.claim.owner == player).map(|(id, _)| id).collect()
    }

    /// The doubted claim on an object.
    pub fn doubt(&self, id: ObjectId) -> Option<Doubt> {
        match self.objects.get(&id)? {
            ObjectState::Doubted(_, doubt) => Some(*doubt),
            _ => None,
        }
    }

    pub fn is_orphan(&self, id: ObjectId) -> bool {
        matches!(self.objects.get(&id), Some(ObjectState::Orphan(..)))
    }

    /// Orphans, with the times at which this peer takes them over.
    pub fn orphans(&self) -> impl Iterator<Item = (ObjectId, OwnerClaim, Micros)> {
        self.objects.iter().filter_map(|(id, state)| match state {
            ObjectState::Orphan(ghost, at) => Some((*id, ghost.claim, *at)),
            _ => None,
        })
    }

    /// Makes an object this peer's.
    pub fn own(&mut self, id: ObjectId, owned: Owned) {
        self.insert(id, ObjectState::Owned(owned));
    }

    /// Makes an object an orphan that this peer takes over at this time.
    pub fn orphan(&mut self, id: ObjectId, at: Micros) {
        if let Some(ghost) = self.ghost(id).copied() {
            self.insert(id, ObjectState::Orphan(ghost, at));
        }
    }

    /// Doubts a claim on an object, unless it is an orphan.
    pub fn doubt_claim(&mut self, id: ObjectId, doubt: Doubt) {
        if let Some(ghost) = self.ghost(id).copied().filter(|_| !self.is_orphan(id)) {
            self.insert(id, ObjectState::Doubted(ghost, doubt));
        }
    }

    /// Drops the doubts about a peer's claims when its link ends: it repeats those that it still
    /// holds, and a peer that restarted holds none.
    pub fn drop_doubts_of(&mut self, player: PlayerId) {
        for state in self.objects.values_mut() {
            if let ObjectState::Doubted(ghost, doubt) = state
                && doubt.claim.owner == player
                && !doubt.removed
            {
                *state = ObjectState::Ghost(*ghost);
            }
        }
    }

    /// Ends the orphaned or doubted state of another peer's object.
    pub fn settle(&mut self, id: ObjectId) -> Option<&mut GhostState> {
        let ghost = self.ghost(id).copied()?;
        self.insert(id, ObjectState::Ghost(ghost));
        self.ghost_mut(id)
    }

    fn insert(&mut self, id: ObjectId, state: ObjectState) {
        self.owned += usize::from(matches!(state, ObjectState::Owned(_)));
        let before = self.objects.insert(id, state);
        self.owned -= usize::from(matches!(before, Some(ObjectState::Owned(_))));
    }

    /// Forgets an object.
    pub fn remove(&mut self, id: ObjectId) {
        let before = self.objects.remove(&id);
        self.owned -= usize::from(matches!(before, Some(ObjectState::Owned(_))));
    }

    /// Notes an object of another peer, whose state of this tick came over this link. False if
    /// there is no room for one more.
    pub fn put(
        &mut self,
        id: ObjectId,
        claim: OwnerClaim,
        (tick, source): (Tick, Option<Link>),
        heard: Micros,
    ) -> bool {
        let before = self.ghost(id);
        if before.is_none() && self.objects.len() - self.owned >= MAX_KNOWN {
            return false;
        }
        let asked = before.map_or(Micros::ZERO, |ghost| ghost.asked);
        let taken = before.and_then(|ghost| match ghost.claim.owner == claim.owner {
            true => ghost.taken,
            false => Some(heard),
        });
        let same = before.filter(|ghost| ghost.claim.owner == claim.owner);
        let since = same.map_or(heard, |ghost| ghost.since);
        let (given, motion) = (None, GhostMotion::default());
        let ghost = GhostState { claim, tick, source, given, taken, since, asked, heard, motion };
        self.insert(id, ObjectState::Ghost(ghost));
        true
    }

    /// Objects not heard of for long that no peer sends, or that are relayed from an owner that is
    /// no neighbour. Relayed states are rare, so those objects are kept longer.
    pub fn unheard(&self, now: Micros, is_open: impl Fn(PlayerId) -> bool) -> Vec<ObjectId> {
        let idle = |ghost: &GhostState| {
            let passed_on = ghost.source.is_some() && !is_open(ghost.claim.owner);
            let patience = if passed_on { FORGET_RELAYED } else { FORGET_AFTER };
            (ghost.source.is_none() || passed_on) && now - ghost.heard >= patience
        };
        let ghosts = self.ghosts().filter(|(id, ghost)| !self.is_orphan(*id) && idle(ghost));
        ghosts.map(|(id, _)| id).collect()
    }

    /// Objects whose owner must be asked about a claim that has been in doubt for `patience`.
    pub fn doubtful(&self, now: Micros, patience: Micros) -> Vec<(ObjectId, PlayerId, OwnerClaim)> {
        let of = |(id, state): (&ObjectId, &ObjectState)| match state {
            ObjectState::Doubted(ghost, doubt) if now - doubt.since >= patience => {
                Some((*id, ghost.claim.owner, doubt.claim))
            }
            _ => None,
        };
        self.objects.iter().filter_map(of).collect()
    }

    /// Notes that an object was removed.
    pub fn mark_removed(&mut self, id: ObjectId, epoch: Epoch, now: Micros) {
        self.remove(id);
        let Removals { epochs, order } = &mut self.removals;
        if epochs.insert(id, epoch).is_none() {
            order.push_back((id, now));
            if order.len() > MAX_REMOVED
                && let Some((oldest, _)) = order.pop_front()
            {
                epochs.remove(&oldest);
            }
        }
    }

    /// Recently removed objects, with the epochs up to which claims on them are void, for a new
    /// neighbour that may not know.
    pub fn removed_lately(&self, now: Micros) -> impl Iterator<Item = (ObjectId, Epoch)> + '_ {
        let late = self.removals.order.iter().rev().take(TOLD_REMOVED);
        let late = late.take_while(move |(_, at)| now - *at < TOLD_FOR);
        late.filter_map(|(id, _)| Some((*id, *self.removals.epochs.get(id)?)))
    }

    /// Whether a claim is on an object that was removed since.
    pub fn is_removed(&self, id: ObjectId, epoch: Epoch) -> bool {
        self.removals.epochs.get(&id).is_some_and(|removed| epoch <= *removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_claims_exactly_one_prevails() {
        let claim = |epoch, owner| OwnerClaim { owner: PlayerId(owner), epoch: Epoch(epoch) };
        let all = [claim(1, 1), claim(1, 2), claim(2, 2), claim(2, 1), claim(3, 9)];
        for a in &all {
            for b in &all {
                assert_eq!(a != b, a.beats(b) ^ b.beats(a), "{a:?} {b:?}");
            }
        }
        assert!(claim(2, 9).beats(&claim(1, 1)) && claim(2, 1).beats(&claim(2, 2)));
        assert!(claim(1, 1).next(PlayerId(7)).beats(&claim(1, 0)));
    }

    #[test]
    fn a_ghost_goes_on_as_predicted_and_further_only_when_its_owner_is_silent() {
        let motion = Motion { moved: [7, -3, 0], ticks: 2 };
        let ghost = GhostMotion { from: [100, 100, 0], motion };
        let predicted = |rounds| [0, 1, 2].map(|axis| ghost.from[axis] + motion.way(rounds)[axis]);
        for rounds in 0..40 {
            assert_eq!(ghost.after(rounds, false), predicted(rounds));
        }
        assert_eq!(ghost.after(HORIZON, true), predicted(HORIZON));
        assert_eq!(ghost.after(40, true), [240, 40, 0]);
        assert_eq!(ghost.after(u32::MAX, true), ghost.after(MAX_GLIDE, true));
    }

    #[test]
    fn what_was_removed_does_not_come_back_unless_it_changed_hands_since() {
        let mut known = Ownership::default();
        known.mark_removed(ObjectId(1), Epoch(4), Micros::ZERO);
        assert!(
            known.is_removed(ObjectId(1), Epoch(4)) && !known.is_removed(ObjectId(1), Epoch(5))
        );
        let late = Micros(30_000_000);
        (2..2 + MAX_REMOVED as u64).for_each(|id| known.mark_removed(ObjectId(id), Epoch(0), late));
        assert!(!known.is_removed(ObjectId(1), Epoch(0)), "memory is bounded");
    }

    #[test]
    fn an_object_goes_through_every_state_of_the_diagram() {
        let (mut known, id) = (Ownership::default(), ObjectId(1));
        let claim = |owner| OwnerClaim { owner: PlayerId(owner), epoch: Epoch(1) };
        let doubt = Doubt { claim: claim(1), by: PlayerId(1), since: Micros::ZERO, removed: false };
        known.own(id, Owned::made(Micros::ZERO));
        assert!(known.owns(id) && known.ghost(id).is_none() && known.owned_count() == 1);
        known.remove(id);
        assert!(known.put(id, claim(2), (Tick(1), None), Micros::ZERO));
        assert!(!known.owns(id) && known.ghost(id).is_some() && known.owned_count() == 0);
        known.doubt_claim(id, doubt);
        assert_eq!(known.doubt(id), Some(doubt));
        assert_eq!(known.doubtful(Micros(5), Micros(5)), [(id, PlayerId(2), claim(1))]);
        known.orphan(id, Micros(9));
        assert!(known.is_orphan(id) && known.doubt(id).is_none(), "no owner is left to ask");
        known.doubt_claim(id, doubt);
        assert_eq!(known.orphans().collect::<Vec<_>>(), [(id, claim(2), Micros(9))]);
        assert!(known.settle(id).is_some() && !known.is_orphan(id));
        known.own(id, Owned::made(Micros::ZERO));
        assert!(known.owned_count() == 1 && known.ghosts().next().is_none());
        known.mark_removed(id, Epoch(3), Micros::ZERO);
        assert!(!known.owns(id) && known.is_removed(id, Epoch(3)) && known.owned_count() == 0);
    }
}

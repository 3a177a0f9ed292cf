//! What a peer knows of objects that others own: whose they are, and since when.
//!
//! **Claims are ordered**: the higher epoch wins, and of equal epochs the lower owner. So two who own
//! one object after a crash or a partition need no talk to find out who yields, and all others find the
//! same.

use crate::game::PlayerId;
use crate::outbox::Link;
use foveate_wire::predict::HORIZON;
use foveate_wire::{Epoch, Micros, Motion, ObjectId, Tick};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// Objects of others that a peer keeps at most.
pub const MAX_KNOWN: usize = 4_096;
/// Rounds that a ghost goes on for without its owner.
const MAX_GLIDE: u32 = 2 * HORIZON;
/// No honest claim is further ahead than this of what is known.
const MAX_AHEAD: u32 = 10_000;
/// An object that nobody tells of is forgotten after this: its new owner keeps it elsewhere.
const FORGET_AFTER: Micros = Micros(10_000_000);
/// The same of what others pass on.
const FORGET_RELAYED: Micros = Micros(40_000_000);
/// Objects that are no more which are remembered.
const MAX_REMOVED: usize = 4_096;
/// Of these, so many are told to a new neighbour,
const TOLD_REMOVED: usize = 512;
/// if it was within this. Longer than a ghost outlives its owner's silence.
const TOLD_FOR: Micros = Micros(20_000_000);
/// Answers to askers that an object remembers.
pub const MAX_DONE: usize = 64;

/// Somebody says that an object is theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Whose.
    pub owner: PlayerId,
    /// How often it had changed hands by then.
    pub epoch: Epoch,
}

impl Claim {
    /// Whether it prevails over another.
    pub fn beats(&self, other: &Claim) -> bool {
        (self.epoch, Reverse(self.owner)) > (other.epoch, Reverse(other.owner))
    }

    /// Whether it is further ahead of what is known than an honest one can be.
    pub fn is_wild(&self, known: &Claim) -> bool {
        self.epoch.0 > known.epoch.0.saturating_add(MAX_AHEAD)
    }

    /// The next one after it, by somebody else.
    pub fn next(&self, owner: PlayerId) -> Claim {
        Claim { owner, epoch: Epoch(self.epoch.0.saturating_add(1)) }
    }
}

/// How a ghost moves on between two states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Course {
    /// Where the last state put it, in steps.
    pub from: [i32; 3],
    /// How it came there.
    pub motion: Motion,
}

impl Course {
    /// Where it is so many rounds later. As long as its owner speaks that is the shared prediction.
    /// When the owner falls silent, ghosts go on together until somebody takes over: those who stood
    /// still, each a horizon after its own last state, would disagree.
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

/// A claim that would prevail over the known owner's, by a peer that the owner did not give the object to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doubt {
    /// The claim.
    pub claim: Claim,
    /// When it was first heard.
    pub since: Micros,
    /// The claimant says that the object was removed: so it is, once the claim is found to be right.
    pub removed: bool,
}

/// Somebody else's object: who has it, and its ghost's course if there is a ghost.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Whose it is.
    pub claim: Claim,
    /// Its newest state's round.
    pub tick: Tick,
    /// Where its states come from; none before the new owner's first one.
    pub source: Option<Link>,
    /// Who says that its owner was given it, until that one says so itself. It may not have taken it.
    pub given: Option<PlayerId>,
    /// When its owner took it over without a word of the one before, who was gone: another may have done
    /// so at the same time.
    pub taken: Option<Micros>,
    /// A claim that would prevail, but whose maker has no right to it as far as is known.
    pub doubted: Option<Doubt>,
    /// When somebody was last asked about it.
    pub asked: Micros,
    /// Its owner is gone; when it is to be taken over here.
    pub orphan: Option<Micros>,
    /// When something was last heard of it.
    pub heard: Micros,
    /// How its ghost moves on.
    pub course: Course,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct KnownObjects {
    by_id: BTreeMap<ObjectId, Known>,
    removed: BTreeMap<ObjectId, Epoch>,
    removed_order: VecDeque<(ObjectId, Micros)>,
}

impl KnownObjects {
    pub fn get(&self, id: ObjectId) -> Option<&Known> {
        self.by_id.get(&id)
    }

    pub fn get_mut(&mut self, id: ObjectId) -> Option<&mut Known> {
        self.by_id.get_mut(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &Known)> {
        self.by_id.iter().map(|(id, known)| (*id, known))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ObjectId, &mut Known)> {
        self.by_id.iter_mut().map(|(id, known)| (*id, known))
    }

    /// False if there is no room for one more.
    pub fn put(
        &mut self,
        id: ObjectId,
        claim: Claim,
        (tick, source): (Tick, Option<Link>),
        heard: Micros,
    ) -> bool {
        if self.by_id.len() >= MAX_KNOWN && !self.by_id.contains_key(&id) {
            return false;
        }
        let (given, doubted, orphan, course) = (None, None, None, Course::default());
        let before = self.by_id.get(&id);
        let asked = before.map_or(Micros::ZERO, |known| known.asked);
        let taken = before.and_then(|known| match known.claim.owner == claim.owner {
            true => known.taken,
            false => Some(heard),
        });
        let known =
            Known { claim, tick, source, given, taken, doubted, asked, orphan, heard, course };
        self.by_id.insert(id, known);
        true
    }

    /// Those of which nobody tells any more, and for whom nobody else is awaited. What others pass on
    /// from an owner who is no neighbour comes seldom.
    pub fn forsaken(&self, now: Micros, is_open: impl Fn(PlayerId) -> bool) -> Vec<ObjectId> {
        let idle = |known: &Known| {
            let passed_on = known.source.is_some() && !is_open(known.claim.owner);
            let patience = if passed_on { FORGET_RELAYED } else { FORGET_AFTER };
            (known.source.is_none() || passed_on)
                && known.orphan.is_none()
                && now - known.heard >= patience
        };
        self.by_id.iter().filter(|(_, known)| idle(known)).map(|(id, _)| *id).collect()
    }

    /// Objects whose owner has to be asked about a claim that is doubted for so long.
    pub fn doubtful(&self, now: Micros, patience: Micros) -> Vec<(ObjectId, PlayerId, Claim)> {
        let old = |doubt: &Doubt| now - doubt.since >= patience;
        let of = |(id, known): (&ObjectId, &Known)| {
            Some((*id, known.claim.owner, known.doubted.filter(old)?.claim))
        };
        self.by_id.iter().filter_map(of).collect()
    }

    pub fn remove(&mut self, id: ObjectId) -> Option<Known> {
        self.by_id.remove(&id)
    }

    /// An object is no more.
    pub fn mark_removed(&mut self, id: ObjectId, epoch: Epoch, now: Micros) {
        self.by_id.remove(&id);
        if self.removed.insert(id, epoch).is_none() {
            self.removed_order.push_back((id, now));
            if self.removed_order.len() > MAX_REMOVED
                && let Some((oldest, _)) = self.removed_order.pop_front()
            {
                self.removed.remove(&oldest);
            }
        }
    }

    /// Objects that were removed of late, and the epochs up to which they stay so: a new neighbour may not
    /// have heard of it.
    pub fn removed_lately(&self, now: Micros) -> impl Iterator<Item = (ObjectId, Epoch)> + '_ {
        let late = self.removed_order.iter().rev().take(TOLD_REMOVED);
        let late = late.take_while(move |(_, at)| now - *at < TOLD_FOR);
        late.filter_map(|(id, _)| Some((*id, *self.removed.get(id)?)))
    }

    /// Whether a claim is about an object that was removed since.
    pub fn is_buried(&self, id: ObjectId, epoch: Epoch) -> bool {
        self.removed.get(&id).is_some_and(|removed| epoch <= *removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_claims_exactly_one_prevails() {
        let claim = |epoch, owner| Claim { owner: PlayerId(owner), epoch: Epoch(epoch) };
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
        let course = Course { from: [100, 100, 0], motion };
        let predicted = |rounds| [0, 1, 2].map(|axis| course.from[axis] + motion.way(rounds)[axis]);
        for rounds in 0..40 {
            assert_eq!(course.after(rounds, false), predicted(rounds));
        }
        assert_eq!(course.after(HORIZON, true), predicted(HORIZON));
        assert_eq!(course.after(40, true), [240, 40, 0]);
        assert_eq!(course.after(u32::MAX, true), course.after(MAX_GLIDE, true));
    }

    #[test]
    fn what_was_removed_does_not_come_back_unless_it_changed_hands_since() {
        let mut known = KnownObjects::default();
        known.mark_removed(ObjectId(1), Epoch(4), Micros::ZERO);
        assert!(known.is_buried(ObjectId(1), Epoch(4)) && !known.is_buried(ObjectId(1), Epoch(5)));
        let late = Micros(30_000_000);
        (2..2 + MAX_REMOVED as u64).for_each(|id| known.mark_removed(ObjectId(id), Epoch(0), late));
        assert!(!known.is_buried(ObjectId(1), Epoch(0)), "memory is bounded");
    }
}

//! Ids for objects that are created while the game runs.
//!
//! An id contains the node that created the object and a number that this node has never used
//! before, so that no two nodes, and no two runs of one node, create the same id. The node decides
//! where the numbers come from: a server reserves them in its storage, a peer derives them from the
//! world's clock.

use crate::game::PlayerId;
use foveate_wire::{KindId, ObjectId};
use std::ops::Range;

/// Allocates ids from a range of numbers that no other run of the node uses.
#[derive(Clone, Debug)]
pub struct IdAllocator {
    /// The number of this node; `None` for the only server of a world.
    creator: Option<PlayerId>,
    numbers: Range<u64>,
}

impl IdAllocator {
    /// For the only server of a world. Numbers for the world's objects may have 54 bits: the high
    /// ones are stored in place of the creator. For players' objects the low 30 bits are used,
    /// which repeat after 2³⁰ creations.
    pub fn for_server(numbers: Range<u64>) -> IdAllocator {
        IdAllocator { creator: None, numbers }
    }

    /// For one of several nodes, which creates objects of the world and of its own player. It
    /// starts without numbers; see [`extend_to`](IdAllocator::extend_to).
    pub fn for_node(creator: PlayerId) -> IdAllocator {
        IdAllocator { creator: Some(creator), numbers: 0..0 }
    }

    /// The number of the next object.
    pub fn next(&self) -> u64 {
        self.numbers.start
    }

    /// Numbers that are left.
    pub fn left(&self) -> u64 {
        self.numbers.end.saturating_sub(self.numbers.start)
    }

    /// Skips the numbers below `first`, which an earlier run used.
    pub fn skip_to(&mut self, first: u64) {
        self.numbers.start = self.numbers.start.max(first);
    }

    /// Allows the numbers below `end`.
    pub fn extend_to(&mut self, end: u64) {
        self.numbers.end = self.numbers.end.max(end);
    }

    /// A new id for an object of this player, or of the world if `origin` is 0. `None` if no number
    /// is left, or if only another node may create objects for this player.
    pub fn allocate(&mut self, kind: KindId, origin: PlayerId) -> Option<ObjectId> {
        let foreign = |creator: PlayerId| origin.0 != 0 && origin != creator;
        if self.left() == 0 || self.creator.is_some_and(foreign) {
            return None;
        }
        let number = self.numbers.start;
        self.numbers.start += 1;
        let high = (number >> ObjectId::NUMBER_BITS) as u32;
        Some(match origin.0 {
            0 => {
                let creator = self.creator.map_or(high, |creator| creator.0);
                ObjectId::minted_for_world(kind, creator, number as u32)
            }
            player => ObjectId::minted_for_player(kind, player, number as u32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_nodes_and_no_two_runs_create_one_id() {
        let kind = KindId(1);
        let mut all = BTreeSet::new();
        let mut count = 0;
        for node in 1..=5 {
            for run in [0u64, 4_000] {
                let mut ids = IdAllocator::for_node(PlayerId(node));
                ids.skip_to(run);
                ids.extend_to(run + 100);
                for origin in [PlayerId(0), PlayerId(node)] {
                    all.extend((0..40).filter_map(|_| ids.allocate(kind, origin)));
                    count += 40;
                }
            }
        }
        assert_eq!(all.len(), count);
    }

    #[test]
    fn without_numbers_or_for_another_player_there_is_no_id() {
        let mut ids = IdAllocator::for_node(PlayerId(3));
        assert_eq!(ids.allocate(KindId(0), PlayerId(0)), None, "no numbers yet");
        ids.extend_to(2);
        assert_eq!(ids.allocate(KindId(0), PlayerId(4)), None, "only player 4's node may");
        assert!((0..2).all(|_| ids.allocate(KindId(0), PlayerId(3)).is_some()));
        assert_eq!((ids.allocate(KindId(0), PlayerId(0)), ids.left()), (None, 0));
    }

    #[test]
    fn a_servers_numbers_go_on_into_the_creators_bits() {
        let last = (1 << ObjectId::NUMBER_BITS) - 1;
        let mut ids = IdAllocator::for_server(last..last + 3);
        let made: Vec<_> = (0..3).filter_map(|_| ids.allocate(KindId(7), PlayerId(0))).collect();
        assert_eq!(made.iter().map(|id| id.creator()).collect::<Vec<_>>(), [0, 1, 1]);
        assert_eq!(
            made.iter().filter_map(|id| id.number()).collect::<Vec<_>>(),
            [last as u32, 0, 1]
        );
        assert!(made.iter().all(|id| id.origin() == 0), "the world's");
    }
}

//! Random numbers for rules: a keyed hash of the decision, not a stream with a position.
//!
//! Rules may run again (a client's prediction) or elsewhere (a peer that takes an object over), so
//! a number depends only on the seed, the object, the tick, the step and the number of earlier
//! calls in that step.

use foveate_wire::{ObjectId, Tick};
use siphasher::sip::SipHasher13;
use std::fmt;
use std::hash::Hasher;

/// The seed of a world's random numbers: 128 bits that players must not know, because future
/// numbers follow from them.
///
/// The hosts on real links draw one from the system. [`WorldSeed::default`] is all zeros, which makes lab
/// runs and tests reproducible.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct WorldSeed(pub [u8; 16]);

impl WorldSeed {
    /// The seed of clients' predictions. It differs from the server's, which clients must not know.
    pub const PREDICTION: WorldSeed = WorldSeed(*b"client's own one");
}

/// Hides the secret.
impl fmt::Debug for WorldSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorldSeed(..)")
    }
}

/// The random numbers of one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dice {
    seed: WorldSeed,
    id: ObjectId,
    tick: Tick,
    turn: u32,
    calls: u32,
}

impl Dice {
    pub fn new(seed: WorldSeed, id: ObjectId, tick: Tick, turn: u32) -> Dice {
        Dice { seed, id, tick, turn, calls: 0 }
    }

    /// The next 64 bits.
    pub fn roll(&mut self) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.seed.0);
        hasher.write_u64(self.id.0);
        hasher.write_u64(u64::from(self.tick.0) << 32 | u64::from(self.turn));
        hasher.write_u64(u64::from(self.calls));
        self.calls = self.calls.wrapping_add(1);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn rolls(seed: u8, id: u64, tick: u32, turn: u32) -> Vec<u64> {
        let mut dice = Dice::new(WorldSeed([seed; 16]), ObjectId(id), Tick(tick), turn);
        (0..4).map(|_| dice.roll()).collect()
    }

    #[test]
    fn numbers_depend_on_seed_object_tick_turn_and_call_and_on_nothing_else() {
        assert_eq!(rolls(1, 2, 3, 4), rolls(1, 2, 3, 4));
        let mut all = BTreeSet::new();
        let turns = [(1, 2, 3, 4), (9, 2, 3, 4), (1, 9, 3, 4), (1, 2, 9, 4), (1, 2, 3, 9)];
        for (seed, id, tick, turn) in turns {
            all.extend(rolls(seed, id, tick, turn));
        }
        assert_eq!(all.len(), 20, "every roll differs");
    }

    #[test]
    fn a_seed_is_not_printed() {
        assert_eq!(format!("{:?}", WorldSeed([7; 16])), "WorldSeed(..)");
    }
}

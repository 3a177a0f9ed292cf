//! What the ledger knows of players: which region hosts their session, or what they left.
//!
//! A player's number follows from the name: the first number after the name's hash whose record is free or has this
//! name. Records are never removed, so that every server that looks for a name comes by the same numbers. A name thus has one
//! number and one record, and whatever is decided about a player is an append to that record which names the last
//! one: no player is in twice.

use super::layout::RegionId;
use super::ledger::Subject;
use crate::game::PlayerId;
use foveate_wire::ObjectId;
use serde::{Deserialize, Serialize};

/// Numbers that are tried for a name.
pub const MAX_PROBES: u32 = 64;

/// An object that a player left, or comes back with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeptObject {
    /// The object.
    pub object: u64,
    /// How often it had changed regions.
    pub epoch: u32,
    /// Its lanes.
    pub lanes: Vec<i32>,
}

/// Where a player is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum PlayerPlace {
    /// A region's owner hosts the session.
    Hosted {
        /// The region.
        region: RegionId,
        /// What the player comes back with, until the region's log has it.
        kept: Vec<KeptObject>,
    },
    /// The player has left.
    Away {
        /// Where the avatar was.
        at: [f32; 2],
        /// What they left.
        kept: Vec<KeptObject>,
    },
}

/// What `player` subjects hold; the newest entry counts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlayerRecord {
    /// The player's name.
    pub name: String,
    /// The session epoch: one more with each change of the place.
    pub epoch: u32,
    /// The wire version that the client speaks.
    pub version: u8,
    /// Where the player is.
    pub place: PlayerPlace,
}

impl PlayerRecord {
    /// The region that hosts the session.
    pub fn host(&self) -> Option<RegionId> {
        match self.place {
            PlayerPlace::Hosted { region, .. } => Some(region),
            PlayerPlace::Away { .. } => None,
        }
    }
}

/// The number that a name has if `probe` others were taken.
pub fn player_number(name: &str, probe: u32) -> PlayerId {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let numbers = u64::from(ObjectId::MAX_CREATOR);
    PlayerId(1 + ((hash >> 20) % numbers + u64::from(probe)) as u32 % ObjectId::MAX_CREATOR)
}

/// The subject of a player's record.
pub fn subject(player: PlayerId) -> Subject {
    Subject::Player(player.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_name_has_the_same_numbers_everywhere_and_none_twice() {
        let numbers: BTreeSet<_> =
            (0..MAX_PROBES).map(|probe| player_number("ada", probe)).collect();
        assert_eq!(numbers.len(), MAX_PROBES as usize);
        assert!(numbers.iter().all(|it| (1..=ObjectId::MAX_CREATOR).contains(&it.0)));
        assert_ne!(player_number("ada", 0), player_number("bob", 0));
    }
}

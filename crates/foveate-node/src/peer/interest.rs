//! A peer's interest in an object, and the grade that a neighbour gets.

use crate::game::PlayerId;
use foveate_sync::interest::{Floors, Grade, Policy, Sight};
use foveate_wire::{Metres, Micros, ObjectId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How interested a peer is in an object. **Others** must be able to compute it from what they know
/// anyway.
pub trait Interest: Send + Sync {
    /// The interest of a peer at this distance from the object; a higher number is more interest.
    /// `weight` is how much more this peer's interest counts than others': 1, or as set by
    /// [`Peer::trust`](super::Peer::trust).
    fn interest(&self, distance: Metres, weight: f32) -> f32;

    /// Whether one interest is so much greater than another that the object should change owners.
    fn clearly_more(&self, theirs: f32, mine: f32) -> bool;
}

/// Interest by nearness: minus the distance divided by the weight.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Nearness {
    /// A peer must be nearer than this share of the owner's distance, less the margin.
    pub share: f32,
    /// Subtracted from that distance, so that small differences change nothing.
    pub margin: Metres,
}

impl Nearness {
    /// Suits a game in which players see this far.
    pub fn for_view(view: Metres) -> Nearness {
        Nearness { share: 0.7, margin: Metres(0.05 * view.0) }
    }
}

impl Interest for Nearness {
    fn interest(&self, distance: Metres, weight: f32) -> f32 {
        -distance.0 / weight
    }

    fn clearly_more(&self, theirs: f32, mine: f32) -> bool {
        -theirs < self.share * -mine - self.margin.0
    }
}

/// θ of objects that a peer only keeps as a copy for others.
pub const CHECKPOINT_AGE: Micros = Micros(2_000_000);
/// θ of an avatar that is out of view, for peers that have a link to its player.
pub const FAR_AGE: Micros = Micros(1_000_000);
/// The error allowed in a kept copy, as a share of the view's reach.
const KEPT_FLOOR: f32 = 0.05;

/// What one neighbour is sent: what its view grades, the sender's avatar, and copies that it keeps.
pub struct Subscribed {
    view: Arc<dyn Policy>,
    avatar: ObjectId,
    kept: BTreeSet<ObjectId>,
    reach: f32,
}

impl Subscribed {
    /// What a neighbour with this view is sent by the player of this avatar.
    pub fn new(view: Arc<dyn Policy>, avatar: ObjectId, kept: BTreeSet<ObjectId>) -> Subscribed {
        let reach = view.reach().0;
        Subscribed { view, avatar, kept, reach }
    }

    fn beyond(&self, sight: &Sight, max_age: Micros) -> Grade {
        let floor = self.view.floors().map_or(0.0, |floors| floors.place.0) * sight.distance.0;
        let reach = if self.reach.is_finite() { self.reach } else { 0.0 };
        Grade {
            max_age,
            max_missed: u32::MAX,
            max_error: Metres::UNBOUNDED,
            floor: Metres(floor.max(KEPT_FLOOR * reach)),
            facing: 1.0,
            weight: 0.05,
            class: foveate_sync::interest::CLASSES as u8 - 1,
            outlook: None,
        }
    }
}

impl Policy for Subscribed {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        match self.view.grade(sight) {
            Some(grade) => Some(grade),
            None if sight.object == self.avatar => Some(self.beyond(sight, FAR_AGE)),
            None if self.kept.contains(&sight.object) => Some(self.beyond(sight, CHECKPOINT_AGE)),
            None => None,
        }
    }

    fn floors(&self) -> Option<Floors> {
        self.view.floors()
    }
}

/// A pseudorandom number of two names, equal on every node. It decides which peer keeps which
/// object and which peers link at random, so that all nodes compute the same.
pub fn lot(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_add(0xd1b5_4a32_d192_ed03);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The neighbours of a peer that keep copies of an object for it: every peer computes the same
/// answer.
pub fn keepers(
    object: ObjectId,
    neighbours: impl IntoIterator<Item = PlayerId>,
    copies: usize,
) -> Vec<PlayerId> {
    let mut drawn: Vec<_> =
        neighbours.into_iter().map(|it| (lot(object.0, it.0.into()), it)).collect();
    drawn.sort_unstable();
    drawn.truncate(copies);
    drawn.into_iter().map(|(_, it)| it).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_equal_interest_changes_nothing_and_trust_counts_as_nearness() {
        let near = Nearness::for_view(Metres(100.0));
        let of = |distance, weight| near.interest(Metres(distance), weight);
        assert!(!near.clearly_more(of(40.0, 1.0), of(50.0, 1.0)));
        assert!(!near.clearly_more(of(2.0, 1.0), of(8.0, 1.0)), "by less than the margin");
        assert!(near.clearly_more(of(20.0, 1.0), of(50.0, 1.0)));
        assert!(near.clearly_more(of(80.0, 4.0), of(50.0, 1.0)));
    }

    #[test]
    fn keepers_are_few_steady_and_spread() {
        let all = || (1..=24).map(PlayerId);
        let mut load = [0; 25];
        for serial in 0..1_000 {
            let object = ObjectId(serial);
            let keepers = keepers(object, all(), 6);
            assert_eq!(keepers.len(), 6);
            let without = super::keepers(object, all().filter(|it| *it != keepers[0]), 6);
            assert_eq!(without[..5], keepers[1..], "a peer that leaves moves no other");
            keepers.iter().for_each(|it| load[it.0 as usize] += 1);
        }
        assert!(load[1..].iter().all(|count| (190..310).contains(count)), "{load:?}");
    }
}

//! The shared predictor: where both ends assume an object to be between two updates.
//!
//! Integers only, so that the sender's reference replica and the observer's are the same to the bit.
//!
//! A velocity is never sent. An update is coded against a state that the observer has; both ends
//! know the way from there to the new place and the time it took, which are the new state's motion
//! (`docs/adr/0003-velocity-is-derived.md`).

use crate::schema::PlaceLanes;

/// Replicas continue their motion for at most this many rounds and then wait, so that a broken link
/// does not send them out of the map.
pub const HORIZON: u32 = 40;

/// How a replica moved from its baseline to its own place. Zero for a state that was sent whole, or
/// after a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Motion {
    /// Steps moved.
    pub moved: [i32; 3],
    /// The rounds that it took; 0 counts as 1.
    pub ticks: u32,
}

/// Longer spans count as this long, so that products stay below 2⁵³.
const LONGEST: u32 = 1 << 16;

impl Motion {
    /// The motion between two places.
    pub fn between(from: [i32; 3], to: [i32; 3], ticks: u32) -> Motion {
        Motion { moved: [0, 1, 2].map(|axis| to[axis].wrapping_sub(from[axis])), ticks }
    }

    /// The way in `rounds`, at most the horizon: moved · rounds / ticks, to the nearest step,
    /// halves rounded up.
    #[inline]
    pub fn way(&self, rounds: u32) -> [i32; 3] {
        if self.moved == [0; 3] {
            return [0; 3];
        }
        let (rounds, ticks) = (rounds.min(HORIZON), self.ticks.clamp(1, LONGEST));
        if ticks == 1 {
            return self.moved.map(|m| m.wrapping_mul(rounds as i32));
        }
        let (rounds, ticks) = (i64::from(rounds), i64::from(ticks));
        self.moved.map(|m| {
            let twice = 2 * i64::from(m) * rounds + ticks;
            // Narrower integers take a fraction of the time, and usually suffice.
            match i32::try_from(twice) {
                Ok(twice) => twice.div_euclid(2 * ticks as i32),
                Err(_) => twice.div_euclid(2 * ticks) as i32,
            }
        })
    }

    pub(crate) fn span(&self) -> u32 {
        self.ticks.clamp(1, LONGEST)
    }
}

/// The place in up to three coordinates, `rounds` after the state in `lanes` with this motion.
#[inline]
pub fn place(place: &PlaceLanes, lanes: &[i32], motion: &Motion, rounds: u32) -> [i32; 3] {
    let (at, way) = (place.coordinates(lanes), way(place, motion, rounds));
    [0, 1, 2].map(|axis| at[axis].wrapping_add(way[axis]))
}

/// The way that a replica continues in `rounds`.
#[inline]
pub fn way(place: &PlaceLanes, motion: &Motion, rounds: u32) -> [i32; 3] {
    if place.motion { motion.way(rounds) } else { [0; 3] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_exact_and_stops_at_the_horizon() {
        let motion = Motion { moved: [10, -10, 1], ticks: 4 };
        assert_eq!(motion.way(2), [5, -5, 1], "halves go up");
        assert_eq!(motion.way(3), [8, -7, 1]);
        assert_eq!(motion.way(HORIZON), motion.way(HORIZON + 50));
        let extreme = Motion { moved: [i32::MAX, i32::MIN, 0], ticks: 0 };
        extreme.way(u32::MAX);
    }
}

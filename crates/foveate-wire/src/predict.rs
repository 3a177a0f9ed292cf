//! The shared predictor: what both ends believe about an object between two updates.
//!
//! Integers only, so that the sender's reference replica and the observer's are the same to the bit.

use crate::schema::PlaceLanes;

/// Replicas move on along their velocity for at most this many rounds; then they wait.
/// Beyond it a straight line is a guess that hurts more than it helps, and a dead link must not
/// send replicas out of the map.
pub const HORIZON: u32 = 20;

/// One coordinate of the place, `rounds` after the state in `lanes`.
#[inline]
pub fn coordinate(place: &PlaceLanes, lanes: &[i32], axis: usize, rounds: u32) -> i32 {
    let here = lanes[place.at + axis];
    if place.motion == 0 {
        return here;
    }
    let velocity = lanes[place.at + place.dims + axis];
    along(here, velocity.wrapping_mul(place.motion), rounds)
}

/// `here` moved by `step` a round, within the [`HORIZON`].
#[inline]
pub fn along(here: i32, step: i32, rounds: u32) -> i32 {
    here.wrapping_add(step.wrapping_mul(rounds.min(HORIZON) as i32))
}

/// The place in up to three coordinates, `rounds` after the state in `lanes`.
#[inline]
pub fn place(place: &PlaceLanes, lanes: &[i32], rounds: u32) -> [i32; 3] {
    let mut out = [0; 3];
    for (axis, out) in out.iter_mut().enumerate().take(place.dims) {
        *out = coordinate(place, lanes, axis, rounds);
    }
    out
}

/// The velocity lane for a change of `delta` steps within one round, to the nearest multiple.
#[inline]
pub fn velocity(delta: i32, motion: i32) -> i32 {
    let half = motion / 2;
    if delta >= 0 { delta.saturating_add(half) / motion } else { delta.saturating_sub(half) / motion }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn velocity_rounds_symmetrically() {
        assert_eq!([-7, -6, -5, -2, -1, 0, 1, 2, 5, 6, 7].map(|d| velocity(d, 4)), [
            -2, -2, -1, -1, 0, 0, 0, 1, 1, 2, 2
        ]);
        assert_eq!(velocity(i32::MAX, 4), i32::MAX / 4);
        assert_eq!([-2, 3].map(|d| velocity(d, 1)), [-2, 3]);
    }

    #[test]
    fn prediction_stops_at_the_horizon() {
        assert_eq!(along(10, 3, 2), 16);
        assert_eq!(along(10, 3, HORIZON), along(10, 3, HORIZON + 50));
    }
}

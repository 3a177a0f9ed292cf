//! How far a replica is from the truth, and whether that counts as a difference.

use crate::interest::Grade;
use foveate_wire::{Base, FlooredLane, Kind, predict};

/// The outcome of a comparison.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Deviation {
    /// How far the place is off, in world units.
    pub error: f32,
    /// ν′: the largest error that the grade allows: ν, the floor or the precision.
    pub allowed: f32,
    /// Some field deviates by more than its floor.
    pub differs: bool,
}

/// A state that is to be predicted: its lanes, how it got there, and how many rounds ago.
pub type Predicted<'a> = Base<'a>;

/// Compares a state, predicted to now, with the truth `now`.
pub fn deviation(kind: &Kind, state: &Predicted<'_>, now: &[i32], grade: &Grade) -> Deviation {
    let (place, then) = (place_error(kind, state, now), state.lanes);
    let floor = floor(kind, grade);
    let strict = |(lane, strict): (usize, &bool)| *strict && then[lane] != now[lane];
    let differs = place > floor
        || kind.strict.iter().enumerate().any(strict)
        || turned(kind, then, now, grade.facing, 1.0);
    Deviation { error: place, allowed: grade.max_error.0.max(floor), differs }
}

fn place_error(kind: &Kind, state: &Predicted<'_>, now: &[i32]) -> f32 {
    let Some(place) = &kind.place else { return 0.0 };
    let at = predict::place(place, state.lanes, &state.motion, state.age);
    let now = place.coordinates(now);
    let off = |axis: usize| now[axis].wrapping_sub(at[axis]) as f32;
    (off(0) * off(0) + off(1) * off(1) + off(2) * off(2)).sqrt() * place.precision
}

/// Deviations of place up to this are no difference.
#[inline]
pub(crate) fn floor(kind: &Kind, grade: &Grade) -> f32 {
    kind.place.as_ref().map_or(0.0, |place| grade.floor.0.max(place.precision))
}

/// Whether a field with a floor deviates by more than its share of it: `facing` for facings,
/// `other` for the rest.
#[inline]
pub(crate) fn turned(kind: &Kind, then: &[i32], now: &[i32], facing: f32, other: f32) -> bool {
    kind.floored.iter().any(|floored| {
        let FlooredLane { lane, modulus, floor_steps, facing: is_facing } = *floored;
        let off = now[lane].wrapping_sub(then[lane]).unsigned_abs();
        let off = if modulus > 0 { off.min(modulus.wrapping_sub(off)) } else { off };
        let share = if is_facing { facing } else { other };
        off as f32 > floor_steps as f32 * share
    })
}

/// Whether a facing deviates by more than its share of its floor.
pub(crate) fn facing_turned(kind: &Kind, then: &[i32], now: &[i32], share: f32) -> bool {
    turned(kind, then, now, share, f32::INFINITY)
        || [kind.yaw, kind.pitch].into_iter().flatten().any(|(lane, _)| {
            // A facing without a floor is always sent.
            then[lane] != now[lane] && kind.floored.iter().all(|floored| floored.lane != lane)
        })
}

//! How far a replica is from the truth, and whether that counts as a difference.

use crate::interest::Grade;
use foveate_wire::{FlooredLane, Kind, predict};

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

/// Compares the state `then`, predicted `rounds` on, with the truth `now`.
pub fn deviation(kind: &Kind, then: &[i32], rounds: u32, now: &[i32], grade: &Grade) -> Deviation {
    let place = place_error(kind, then, rounds, now);
    let floor = floor(kind, grade);
    let strict = |(lane, strict): (usize, &bool)| *strict && then[lane] != now[lane];
    let differs = place > floor
        || kind.strict.iter().enumerate().any(strict)
        || turned(kind, then, now, grade.facing);
    Deviation { error: place, allowed: grade.max_error.0.max(floor), differs }
}

fn place_error(kind: &Kind, then: &[i32], rounds: u32, now: &[i32]) -> f32 {
    let Some(place) = &kind.place else { return 0.0 };
    let at = predict::place(place, then, rounds);
    let off = |axis: usize| now[place.at + axis].wrapping_sub(at[axis]) as f32;
    (0..place.dims).map(|axis| off(axis) * off(axis)).sum::<f32>().sqrt() * place.precision
}

/// Deviations of place up to this are no difference.
#[inline]
pub(crate) fn floor(kind: &Kind, grade: &Grade) -> f32 {
    kind.place.as_ref().map_or(0.0, |place| grade.floor.0.max(place.precision))
}

/// Whether a field with a floor deviates by more than it.
#[inline]
pub(crate) fn turned(kind: &Kind, then: &[i32], now: &[i32], facing: f32) -> bool {
    kind.floored.iter().any(|floored| {
        let FlooredLane { lane, modulus, floor_steps, facing: is_facing } = *floored;
        let off = now[lane].wrapping_sub(then[lane]).unsigned_abs();
        let off = if modulus > 0 { off.min(modulus.wrapping_sub(off)) } else { off };
        let share = if is_facing { facing } else { 1.0 };
        off as f32 > floor_steps as f32 * share
    })
}

//! How far a replica is from the object's true state, and whether that is a difference.

use crate::interest::Grade;
use foveate_wire::{Access, Baseline, FlooredLane, Kind, Metres, Motion, predict};

/// The result of a comparison.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Deviation {
    /// The error of the place.
    pub error: Metres,
    /// ν′: the largest error that the grade allows: ν, the floor or the precision.
    pub allowed: Metres,
    /// Whether some field deviates by more than its floor.
    pub differs: bool,
}

/// A state to predict: its lanes, its motion, and its age in rounds.
pub type Predicted<'a> = Baseline<'a>;

/// Compares a state, predicted to now, with the true state `now`.
pub fn deviation(kind: &Kind, state: &Predicted<'_>, now: &[i32], grade: &Grade) -> Deviation {
    let (place, then) = (place_error(kind, state, now), state.lanes);
    let floor = floor(kind, grade);
    let differs = place > floor
        || others_changed(kind, then, now, Access::Rival)
        || turned(kind, &kind.facing(then), &kind.facing(now), grade.facing);
    Deviation { error: place, allowed: grade.max_error.max(floor), differs }
}

fn place_error(kind: &Kind, state: &Predicted<'_>, now: &[i32]) -> Metres {
    let Some(place) = &kind.place else { return Metres::ZERO };
    let at = predict::place(place, state.lanes, &state.motion, state.age);
    let now = place.coordinates(now);
    let off = |axis: usize| now[axis].wrapping_sub(at[axis]) as f32;
    Metres((off(0) * off(0) + off(1) * off(1) + off(2) * off(2)).sqrt() * place.precision)
}

/// How far a replica with this motion moves in a round.
#[inline]
pub(crate) fn speed(precision: f32, motion: &Motion) -> Metres {
    let square: f32 = motion.moved.iter().map(|steps| (*steps as f32).powi(2)).sum();
    Metres(square.sqrt() * precision / motion.ticks.max(1) as f32)
}

/// Deviations of place up to this are not a difference.
#[inline]
pub(crate) fn floor(kind: &Kind, grade: &Grade) -> Metres {
    kind.place.as_ref().map_or(Metres::ZERO, |place| grade.floor.max(Metres(place.precision)))
}

/// Whether yaw or pitch deviates by more than this share of its floor.
#[inline]
pub(crate) fn turned(kind: &Kind, then: &[i32; 2], now: &[i32; 2], share: f32) -> bool {
    let off = |which: usize| {
        let (off, turn) = (now[which].wrapping_sub(then[which]), &kind.turns[which]);
        // Usually one of the two has not changed at all.
        off != 0 && {
            let off = off.unsigned_abs().min(turn.whole.wrapping_sub(off.unsigned_abs()));
            off as f32 > turn.floor as f32 * share
        }
    };
    off(0) || off(1)
}

/// Whether a lane other than place and facing, that the observer may see, deviates by more than its
/// floor.
pub(crate) fn others_changed(kind: &Kind, then: &[i32], now: &[i32], access: Access) -> bool {
    let own = access == Access::Own;
    let strict = |lane: &usize| {
        let (then, now) = (then[*lane], now[*lane]);
        kind.strict[*lane]
            && then != now
            && kind.told(access, *lane, then) != kind.told(access, *lane, now)
    };
    let floored = |floored: &FlooredLane| {
        let FlooredLane { lane, modulus, floor_steps, facing } = *floored;
        let off = now[lane].wrapping_sub(then[lane]).unsigned_abs();
        let off = if modulus > 0 { off.min(modulus.wrapping_sub(off)) } else { off };
        !facing && off > floor_steps && (own || !kind.own.contains(&lane))
    };
    let told = if own { &kind.others } else { &kind.shared };
    told.iter().any(strict) || kind.floored.iter().any(floored)
}

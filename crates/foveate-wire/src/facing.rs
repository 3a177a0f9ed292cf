//! Context models for facings: sent only if wrong, as a turn from the baseline's.

use crate::coder::Coder;
use crate::number::{SIGNS, STEPS, Slots, TREES, length, ulength, value};
use crate::place::{AGES, PLACE_CONTEXTS, age_class};

/// Classes of the distance of a place from its prediction: exact, up to 15 steps, more.
const MISSES: usize = 3;
/// Classes of a turn in yaw, which are contexts for pitch.
const TURNS: usize = 4;
/// An expected length that spreads the lengths 0..=9 over the relative classes, for values without
/// a better guess.
pub(crate) const ABSOLUTE: usize = 6;

const FACING: usize = PLACE_CONTEXTS;
const YAW_LEN: usize = FACING + AGES * MISSES;
const YAW_SIGN: usize = YAW_LEN + MISSES * STEPS;
const YAW_TREE: usize = YAW_SIGN + SIGNS;
const PITCH_LEN: usize = YAW_TREE + TREES;
const PITCH_SIGN: usize = PITCH_LEN + TURNS * STEPS;
const PITCH_TREE: usize = PITCH_SIGN + SIGNS;
/// The start of the next family of contexts.
pub(crate) const FACING_END: usize = PITCH_TREE + TREES;

/// The largest distance class of a place from its prediction; also the class of a whole state.
pub(crate) const FAR: usize = MISSES - 1;

/// The distance class of a residual.
pub(crate) fn miss_class(residual: [i32; 3]) -> usize {
    // All bits combined are as long as the longest.
    match ulength(residual.iter().fold(0, |bits, part| bits | part.unsigned_abs())) {
        0 => 0,
        1..=4 => 1,
        _ => FAR,
    }
}

/// Codes a turn in yaw and pitch; [0, 0] is cheap.
pub(crate) fn code_facing<C: Coder>(c: &mut C, age: u32, miss: usize, turn: [i32; 2]) -> [i32; 2] {
    if !c.bit(FACING + age_class(age) * MISSES + miss, turn != [0, 0]) {
        return [0, 0];
    }
    let slots = Slots {
        len: YAW_LEN + miss * STEPS,
        sign: YAW_SIGN,
        tree: YAW_TREE,
        expect: ABSOLUTE,
        pivot: 3,
    };
    let yaw = value(c, &slots, turn[0]);
    let class = match length(yaw) {
        0 => 0,
        1..=2 => 1,
        3..=4 => 2,
        _ => 3,
    };
    let len = PITCH_LEN + class * STEPS;
    let slots = Slots { len, sign: PITCH_SIGN, tree: PITCH_TREE, expect: ABSOLUTE, pivot: 1 };
    [yaw, value(c, &slots, turn[1])]
}

#[cfg(test)]
pub(crate) mod tests;

//! The table of contexts: where each family of probabilities begins.

use crate::place::{self, Slots};

/// Contexts of one plain number.
const NUMBER: usize = 16 + 10 + 13 * 7;
/// Fields with a context of their own; later ones share the last.
pub(crate) const FIELDS: usize = 16;

/// The place jumped, by age class.
pub(crate) const JUMP: usize = place::END;
/// A whole state is in motion.
pub(crate) const MOVING: usize = JUMP + place::AGES;
/// A velocity of a whole state.
pub(crate) const SPEED: usize = MOVING + 1;
/// Any field without a special meaning changed: in an update, in a whole state.
pub(crate) const OTHERS: usize = SPEED + NUMBER;
/// A field changed: in an update, in a whole state.
pub(crate) const FIELD: usize = OTHERS + 2;
/// A change of a plain number.
pub(crate) const STEP: usize = FIELD + 2 * FIELDS;
/// Four bytes of text changed.
pub(crate) const WORD: usize = STEP + NUMBER;
/// Another record follows: first, second, later.
pub(crate) const MORE: usize = WORD + 1;
/// What a record is: not an update; not a whole state; gone rather than frozen.
pub(crate) const OPERATION: usize = MORE + 3;
/// How far the alias lies above the one before.
pub(crate) const GAP: usize = OPERATION + 3;
/// How old the baseline is.
pub(crate) const AGE: usize = GAP + NUMBER;
/// The origin and serial of an object's name.
pub(crate) const NAME: usize = AGE + NUMBER;
/// How many contexts there are.
pub const COUNT: usize = NAME + 2 * NUMBER;

/// The contexts of the plain number at `at`.
pub(crate) fn number(at: usize) -> Slots {
    Slots { len: at, sign: at + 16, tree: at + 26, rel: 0 }
}

/// The contexts of the `nth` number of a group.
pub(crate) fn nth(at: usize, nth: usize) -> usize {
    at + nth * NUMBER
}

//! The table of contexts after those of places and facings: where each family begins.

use crate::facing::{ABSOLUTE, FACING_END};
use crate::number::{SIGNS, STEPS, Slots, TREES};

/// Contexts of one plain number.
const NUMBER: usize = STEPS + SIGNS + TREES;
/// Fields with a context of their own; later ones share the last.
pub(crate) const FIELDS: usize = 16;

/// Another record follows: after none, one, more.
pub(crate) const MORE: usize = FACING_END;
/// How far the alias lies above the one before.
pub(crate) const GAP: usize = MORE + 3;
/// How old the baseline is.
pub(crate) const AGE: usize = GAP + NUMBER;
/// What a record is: not an update; not a whole state; gone rather than frozen.
pub(crate) const OPERATION: usize = AGE + NUMBER;
/// Any field without a special meaning changed: in an update, in a whole state.
pub(crate) const OTHERS: usize = OPERATION + 3;
/// A field changed: in an update, in a whole state.
pub(crate) const FIELD: usize = OTHERS + 2;
/// A change of a plain number: in an update, in a whole state.
pub(crate) const STEP: usize = FIELD + 2 * FIELDS;
/// Four bytes of text changed.
pub(crate) const WORD: usize = STEP + 2 * NUMBER;
/// The origin and the serial of an object's name.
pub(crate) const NAME: usize = WORD + 1;
/// How many contexts there are: the length of a trained table.
pub const CONTEXTS: usize = NAME + 2 * NUMBER;

const _: () = assert!(CONTEXTS <= crate::coder::ROOM);

/// The contexts of the `nth` plain number of the family at `at`.
pub(crate) fn number(at: usize, nth: usize) -> Slots {
    let len = at + nth * NUMBER;
    Slots { len, sign: len + STEPS, tree: len + STEPS + SIGNS, expect: ABSOLUTE, pivot: 1 }
}

/// Those of a count: an unsigned plain number, which is seldom small.
pub(crate) fn counted(at: usize, nth: usize) -> Slots {
    Slots { pivot: 3, ..number(at, nth) }
}

#[cfg(test)]
mod tests;

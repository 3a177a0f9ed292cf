//! The contexts after those of places and facings: where each family starts.

use crate::facing::{ABSOLUTE, FACING_END};
use crate::number::{SIGNS, STEPS, Slots, TREES};

/// Contexts of one plain number.
const NUMBER: usize = STEPS + SIGNS + TREES;
/// Fields with their own context; later ones share the last.
pub(crate) const FIELDS: usize = 16;

/// Whether another record follows, after none, one, or more.
pub(crate) const MORE: usize = FACING_END;
/// The gap to the alias before.
pub(crate) const GAP: usize = MORE + 3;
/// The age of the baseline.
pub(crate) const AGE: usize = GAP + NUMBER;
/// The operation of a record: not an update; not a whole state; gone rather than frozen.
pub(crate) const OPERATION: usize = AGE + NUMBER;
/// Whether any field without a special role changed: in an update, in a whole state.
pub(crate) const OTHERS: usize = OPERATION + 3;
/// Whether a field changed: in an update, in a whole state.
pub(crate) const FIELD: usize = OTHERS + 2;
/// The change of a plain number: in an update, in a whole state.
pub(crate) const STEP: usize = FIELD + 2 * FIELDS;
/// Whether four bytes of text changed.
pub(crate) const WORD: usize = STEP + 2 * NUMBER;
/// The origin and the serial of an object's id.
pub(crate) const NAME: usize = WORD + 1;
/// The number of contexts: the length of a trained table.
pub const CONTEXTS: usize = NAME + 2 * NUMBER;

const _: () = assert!(CONTEXTS <= crate::coder::ROOM);

/// The contexts of the `nth` plain number of the family at `at`.
pub(crate) fn number(at: usize, nth: usize) -> Slots {
    let len = at + nth * NUMBER;
    Slots { len, sign: len + STEPS, tree: len + STEPS + SIGNS, expect: ABSOLUTE, pivot: 1 }
}

/// The same for a count: an unsigned number that is rarely small.
pub(crate) fn counted(at: usize, nth: usize) -> Slots {
    Slots { pivot: 3, ..number(at, nth) }
}

#[cfg(test)]
mod tests;

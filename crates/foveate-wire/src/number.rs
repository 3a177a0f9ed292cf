//! The binary form of one signed value, from which everything else in the codec is built.
//!
//! A value is written as its bit length (0 for the value 0, else ⌊log2 |v|⌋ + 1, so 0 ..= 32), the sign (1 =
//! negative), up to three modelled bits below the leading one, most significant first, and the rest raw.
//!
//! The length is coded by bits "longer than n?", first at a pivot; if yes, for rising n until one says no (or n is
//! 32); if no, for falling n until one says yes (or n is 0).
//!
//! Contexts of the length bits and of the sign depend on the length *relative to an expected length*, and on the
//! first few absolute lengths, where rounding noise lives.

use crate::coder::Coder;

/// Modelled bits below the leading one.
const MODELLED: u32 = 3;
/// Contexts of one mantissa tree.
const TREE: usize = (1 << MODELLED) - 1;
/// From this length on a tree is whole; shorter lengths have fewer bits below the leading one.
const WHOLE: usize = MODELLED as usize + 1;
/// Lengths with a tree of their own; longer ones share the last.
const TREE_LENS: usize = 11;
/// Relative lengths: 6 or more below the expected one … 3 or more above.
const NEAR: usize = 10;
/// The absolute lengths 0 and 1 are separate from the others. They have fewer relative classes,
/// because neither can be far above the expected length.
const FROM_ONE: usize = 7;
const FROM_TWO: usize = FROM_ONE + 8;

/// Contexts of one set of length bits.
pub(crate) const STEPS: usize = FROM_TWO + NEAR;
/// Contexts of one set of signs.
pub(crate) const SIGNS: usize = NEAR;
/// Contexts of one set of mantissa trees.
pub(crate) const TREES: usize = tree_at(TREE_LENS);

/// The contexts of one value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    /// Start of [`STEPS`] contexts.
    pub len: usize,
    /// Start of [`SIGNS`] contexts.
    pub sign: usize,
    /// Start of [`TREES`] contexts.
    pub tree: usize,
    /// Expected bit length.
    pub expect: usize,
    /// The length at which the unary code starts: the nearer to the usual length, the fewer
    /// decisions.
    pub pivot: usize,
}

/// Bit length.
pub(crate) fn ulength(v: u32) -> usize {
    (32 - v.leading_zeros()) as usize
}

/// Bit length of |v|.
pub(crate) fn length(v: i32) -> usize {
    ulength(v.unsigned_abs())
}

/// Class of a length relative to the expected one: 6 if equal.
#[inline]
const fn near(expect: usize, n: usize) -> usize {
    let above = (n + 6).saturating_sub(expect);
    if above < NEAR { above } else { NEAR - 1 }
}

/// The number of lengths and of expected lengths in [`STEP_AT`]; a power of two, so that no index
/// needs a bounds check.
const LENGTHS: usize = 64;

/// For an expected length and a length `n`: which of the [`STEPS`] contexts codes whether a value
/// is longer than `n`.
const STEP_AT: [[u8; LENGTHS]; LENGTHS] = {
    let mut table = [[0; LENGTHS]; LENGTHS];
    let mut expect = 0;
    while expect < LENGTHS {
        let mut n = 0;
        while n < LENGTHS {
            let from = match n {
                0 => 0,
                1 => FROM_ONE,
                _ => FROM_TWO,
            };
            table[expect][n] = (from + near(expect, n)) as u8;
            n += 1;
        }
        expect += 1;
    }
    table
};

/// Where the tree of a length starts: length two has one bit below the leading one, length three
/// has two.
const fn tree_at(n: usize) -> usize {
    match n {
        0..=2 => 0,
        3 => 1,
        _ => 4 + (n - WHOLE) * TREE,
    }
}

/// Codes any `i32`.
#[inline(always)]
pub(crate) fn value<C: Coder>(c: &mut C, s: &Slots, v: i32) -> i32 {
    let mut at = c.interval();
    let n = code_length(c, &mut at, s, length(v));
    let mut coded = 0;
    if n > 0 {
        let sign = s.sign + near(s.expect, n);
        c.touch(sign, sign);
        let negative = c.bit_at(&mut at, sign, v < 0);
        let magnitude = code_below(c, &mut at, s, n, v.unsigned_abs());
        coded = if negative { magnitude.wrapping_neg() as i32 } else { magnitude as i32 };
    }
    c.set_interval(at);
    coded
}

/// Codes an unsigned value. Inlined, because its contexts are constants at every call.
#[inline(always)]
pub(crate) fn count<C: Coder>(c: &mut C, s: &Slots, v: u32) -> u32 {
    let mut at = c.interval();
    let coded = match code_length(c, &mut at, s, ulength(v)) {
        0 => 0,
        n => code_below(c, &mut at, s, n, v),
    };
    c.set_interval(at);
    coded
}

/// Codes a bit length: first whether it is above the pivot, then in unary away from it, up or down.
#[inline(always)]
fn code_length<C: Coder>(c: &mut C, at: &mut C::Interval, s: &Slots, len: usize) -> usize {
    let step = &STEP_AT[s.expect % LENGTHS];
    c.touch(s.len, s.len + STEPS - 1);
    let mut say = |n: usize, yes| c.bit_at(at, s.len + usize::from(step[n % LENGTHS]), yes);
    let mut n = s.pivot.min(31);
    if !C::READS {
        // An encoder knows the answers, which are equal bits in a row; that is faster than deciding
        // on each.
        if len > n {
            (n..len).for_each(|n| _ = say(n, true));
            if len < 32 {
                say(len, false);
            }
        } else {
            (len..=n).rev().for_each(|n| _ = say(n, false));
            if len > 0 {
                say(len - 1, true);
            }
        }
        return len;
    }
    let mut longer = |n: usize| say(n, false);
    if longer(n) {
        n += 1;
        while n < 32 && longer(n) {
            n += 1;
        }
    } else {
        while n > 0 && !longer(n - 1) {
            n -= 1;
        }
    }
    n
}

/// Codes the bits below the leading one of a magnitude of `n` ≥ 1 bits; returns the whole
/// magnitude.
#[inline(always)]
fn code_below<C: Coder>(
    c: &mut C,
    at: &mut C::Interval,
    s: &Slots,
    n: usize,
    magnitude: u32,
) -> u32 {
    let below = n as u32 - 1;
    let tree = s.tree + tree_at(n.min(TREE_LENS - 1));
    c.touch(tree, tree + TREE - 1);
    // The bits still to code, from the highest of the word down.
    let (mut prefix, mut left) = (1, (magnitude << 1) << (31 - below));
    for _ in 0..below.min(MODELLED) {
        let bit = c.bit_at(at, tree + prefix - 1, left >> 31 == 1);
        prefix = prefix << 1 | usize::from(bit);
        left <<= 1;
    }
    let rest = below - below.min(MODELLED);
    if rest == 0 {
        return prefix as u32;
    }
    let low = c.raw_at(at, rest, magnitude & ((1 << rest) - 1));
    (prefix as u32) << rest | low
}

#[cfg(test)]
pub(crate) mod tests;

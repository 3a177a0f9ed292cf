//! Binary adaptive range coder whose models restart from a trained state in every packet.
//!
//! Everything is `u32` arithmetic, so that a TypeScript port is bit exact with `>>> 0` and products below 2^53.
//!
//! **Interval.** `range` starts at 2^32 − 1, `low` at 0. A modelled bit with probability `p` (15 bits, of the bit
//! being 0) splits the range at `bound = (range >> 15) * p`: bit 0 keeps `[low, low + bound)`, bit 1 keeps the rest.
//! Then, while `range < 2^24`, the top byte of `low` goes out and both shift left by 8.
//!
//! **Carry.** `low` may overflow 32 bits; before the next byte goes out, the carry is added to those already
//! written, walking back over 0xFF.
//!
//! **End.** The decoder reads zeros past the end, so the encoder writes the fewest bytes that name a value in the
//! interval (always at most one) and then drops trailing zero bytes. The length of the coded part must be known
//! from outside (here: it is the rest of the packet).

/// Bits of precision of a probability.
pub const PROB_BITS: u32 = 15;
/// The probability one, exclusive: valid probabilities are `PROB_MIN ..= PROB_ONE - PROB_MIN`.
pub const PROB_ONE: u16 = 1 << PROB_BITS;
/// The smallest probability in a trained table. Adaptation stops at 15, where a sixteenth of the
/// distance is less than a step. So a surprise costs at most 12 bits.
pub const PROB_MIN: u16 = 32;
/// Renormalise below this range.
const TOP: u32 = 1 << 24;
/// Most raw bits that one coding step may carry: `range >> 16` stays positive.
const RAW_STEP: u32 = 16;

/// One function body writes, reads and measures: the encoder codes `bit` and returns it; the
/// decoder ignores `bit` and returns the bit read; a counter records and returns it. So a body must
/// depend only on the *returned* values and on what both sides know.
pub trait Coder {
    /// Whether values come from outside; only then must they be stored.
    const READS: bool;
    /// The state that changes with every bit. A run of bits takes it out and puts it back, so that
    /// it stays in registers meanwhile.
    type Interval: Copy;
    /// Takes the state out.
    fn interval(&self) -> Self::Interval;
    /// Puts the state back.
    fn set_interval(&mut self, at: Self::Interval);
    /// Announces that bits will be coded in some of the contexts from `first` to `last`, at most 64
    /// in all.
    fn touch(&mut self, first: usize, last: usize);
    /// Codes one bit of a run in context `ctx`, which must have been announced by `touch`.
    fn bit_at(&mut self, at: &mut Self::Interval, ctx: usize, bit: bool) -> bool;
    /// Codes the low `n` bits (n ≤ 32) of `value` in a run, equiprobable, most significant part first.
    fn raw_at(&mut self, at: &mut Self::Interval, n: u32, value: u32) -> u32;

    /// Codes one bit in context `ctx`.
    #[inline(always)]
    fn bit(&mut self, ctx: usize, bit: bool) -> bool {
        self.touch(ctx, ctx);
        let mut at = self.interval();
        let bit = self.bit_at(&mut at, ctx, bit);
        self.set_interval(at);
        bit
    }

    /// Codes the low `n` bits (n ≤ 32) of `value`, equiprobable, most significant part first.
    fn raw(&mut self, n: u32, value: u32) -> u32 {
        let mut at = self.interval();
        let value = self.raw_at(&mut at, n, value);
        self.set_interval(at);
        value
    }
}

/// Adaptive probabilities, restarted from a trained state for each packet.
#[derive(Clone, Debug)]
pub struct Models {
    /// Current probabilities of bit 0.
    p: Box<[u16; ROOM]>,
    /// The trained state.
    init: Box<[u16; ROOM]>,
    /// A bit for each block of contexts that changed since the restart.
    touched: u64,
}

/// Contexts in a block, so that a word has a bit for each block.
const BLOCK: usize = ROOM / 64;

/// The most contexts of a table; a power of two, so that no index needs a bounds check.
pub(crate) const ROOM: usize = 4096;

impl Models {
    /// Models that start from `init`. Missing entries are even and entries out of range are
    /// clamped, so that every table is safe.
    pub fn new(init: &[u16]) -> Models {
        let entry = |at: usize| init.get(at).copied().unwrap_or(PROB_ONE / 2);
        let init =
            Box::new(std::array::from_fn(|at| entry(at).clamp(PROB_MIN, PROB_ONE - PROB_MIN)));
        Models { p: init.clone(), init, touched: 0 }
    }

    /// Models in the trained state, which is the same at both ends.
    pub fn trained() -> Models {
        let table: Vec<u16> =
            TRAINED.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        Models::new(&table)
    }

    /// Restores the trained state, block by block, because a packet of few records changes few
    /// blocks.
    pub(crate) fn restart(&mut self) {
        let (now, trained) = (self.p.as_chunks_mut::<BLOCK>().0, self.init.as_chunks::<BLOCK>().0);
        while self.touched != 0 {
            let block = self.touched.trailing_zeros() as usize % 64;
            now[block] = trained[block];
            self.touched &= self.touched - 1;
        }
    }

    /// Probability of bit 0 in `ctx`.
    pub(crate) fn get(&self, ctx: usize) -> u32 {
        u32::from(self.p[ctx % ROOM])
    }

    /// Moves the probability of `ctx` towards `bit`.
    pub(crate) fn adapt(&mut self, ctx: usize, bit: bool) {
        self.touched |= block(ctx);
        let p = &mut self.p[ctx % ROOM];
        *p = adapted(*p, bit);
    }
}

/// The bit of a context's block.
#[inline(always)]
fn block(ctx: usize) -> u64 {
    1 << (ctx / BLOCK % 64)
}

/// The trained table, by `foveate lab codec --write-table`.
const TRAINED: &[u8] = include_bytes!("trained.bin");

/// Adaptation shift: each bit moves its probability by 1/2^RATE of the distance.
pub const RATE: u32 = 4;

/// The probability after a bit. No context ever becomes certain, because the step reaches zero
/// first, so the cost of a surprise is bounded.
#[inline(always)]
pub fn adapted(p: u16, bit: bool) -> u16 {
    let p = i32::from(p);
    // One shift for both directions. It rounds down, so that the lowest probability is 15 above
    // zero.
    let end = if bit { (1 << RATE) - 1 } else { i32::from(PROB_ONE) };
    (p + ((end - p) >> RATE)) as u16
}

/// Appends coded bytes to the caller's buffer.
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    p: &'a mut [u16; ROOM],
    touched: &'a mut u64,
    /// Where the coded part starts: the carry never walks back past it.
    start: usize,
    at: Writing,
}

/// The state of an encoder that changes with every bit.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    /// The 33rd bit is a carry that has not been added yet.
    low: u64,
    range: u32,
}

impl<'a> Encoder<'a> {
    /// Starts a packet's coded part at the end of `out`; restarts the models.
    pub fn new(out: &'a mut Vec<u8>, models: &'a mut Models) -> Self {
        models.restart();
        let start = out.len();
        let Models { p, touched, .. } = models;
        Self { out, p, touched, start, at: Writing { low: 0, range: u32::MAX } }
    }

    /// Bytes written so far in the coded part, without the end (at most one more, plus up to three in `low`).
    pub fn written(&self) -> usize {
        self.out.len() - self.start
    }

    /// Bits written so far, rounded; for measuring only. Over many differences of two such values
    /// the rounding cancels out.
    pub fn bits(&self) -> u32 {
        self.written() as u32 * 8 + self.at.range.leading_zeros()
    }

    /// Writes the bytes for which a range below [`TOP`] leaves no room; returns low end and range.
    /// It takes values, in a function of its own, so that the coding of bits stays in registers.
    #[cold]
    #[inline(never)]
    fn renormalised(&mut self, mut low: u64, mut range: u32) -> (u64, u32) {
        if low > u64::from(u32::MAX) {
            // Add the carry to the bytes already written.
            for byte in self.out[self.start..].iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    break;
                }
            }
        }
        while range < TOP {
            self.out.push((low >> 24) as u8);
            low = u64::from((low as u32) << 8);
            range <<= 8;
        }
        (low, range)
    }

    /// Ends the coded part with the shortest bytes inside the interval, trailing zeros dropped.
    pub fn finish(mut self) {
        // range ≥ 2^24, so some multiple of 2^24 lies in [low, low + range).
        if self.at.low > 0 {
            self.renormalised(self.at.low + u64::from(TOP - 1), TOP - 1);
        }
        while self.out.len() > self.start && self.out.last() == Some(&0) {
            self.out.pop();
        }
    }
}

impl Coder for Encoder<'_> {
    const READS: bool = false;
    type Interval = Writing;

    #[inline(always)]
    fn interval(&self) -> Writing {
        self.at
    }

    #[inline(always)]
    fn set_interval(&mut self, at: Writing) {
        self.at = at;
    }

    #[inline(always)]
    fn touch(&mut self, first: usize, last: usize) {
        *self.touched |= block(first) | block(last);
    }

    /// Without a branch on the bit, which would be mispredicted too often.
    #[inline(always)]
    fn bit_at(&mut self, at: &mut Writing, ctx: usize, bit: bool) -> bool {
        debug_assert!(*self.touched & block(ctx) != 0);
        let p = &mut self.p[ctx % ROOM];
        let bound = (at.range >> PROB_BITS) * u32::from(*p);
        *p = adapted(*p, bit);
        at.low += u64::from(if bit { bound } else { 0 });
        at.range = if bit { at.range - bound } else { bound };
        if at.range < TOP {
            (at.low, at.range) = self.renormalised(at.low, at.range);
        }
        bit
    }

    #[inline(always)]
    fn raw_at(&mut self, at: &mut Writing, n: u32, value: u32) -> u32 {
        let mut left = n;
        while left > 0 {
            let step = left.min(RAW_STEP);
            left -= step;
            at.range >>= step;
            at.low += u64::from(((value >> left) & ((1 << step) - 1)) * at.range);
            if at.range < TOP {
                (at.low, at.range) = self.renormalised(at.low, at.range);
            }
        }
        value
    }
}

/// Reads what an [`Encoder`] wrote. Any bytes decode to some bits, without a panic.
pub struct Decoder<'a> {
    input: &'a [u8],
    p: &'a mut [u16; ROOM],
    touched: &'a mut u64,
    at: Reading,
}

/// The state of a decoder that changes with every bit.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Next byte to read.
    next: usize,
    /// The value read, relative to the low end of the interval.
    code: u32,
    range: u32,
}

impl Reading {
    #[inline(always)]
    fn shift(&mut self, input: &[u8]) {
        let byte = input.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        self.code = self.code << 8 | u32::from(byte);
        self.range <<= 8;
    }
}

impl<'a> Decoder<'a> {
    /// Reads `input` from its start to its end; restarts the models.
    pub fn new(input: &'a [u8], models: &'a mut Models) -> Self {
        models.restart();
        let mut at = Reading { next: 0, code: 0, range: 0 };
        (0..4).for_each(|_| at.shift(input));
        let Models { p, touched, .. } = models;
        at.range = u32::MAX;
        Self { input, p, touched, at }
    }
}

impl Coder for Decoder<'_> {
    const READS: bool = true;
    type Interval = Reading;

    #[inline(always)]
    fn interval(&self) -> Reading {
        self.at
    }

    #[inline(always)]
    fn set_interval(&mut self, at: Reading) {
        self.at = at;
    }

    #[inline(always)]
    fn touch(&mut self, first: usize, last: usize) {
        *self.touched |= block(first) | block(last);
    }

    #[inline(always)]
    fn bit_at(&mut self, at: &mut Reading, ctx: usize, _: bool) -> bool {
        debug_assert!(*self.touched & block(ctx) != 0);
        let p = &mut self.p[ctx % ROOM];
        let bound = (at.range >> PROB_BITS) * u32::from(*p);
        let bit = at.code >= bound;
        *p = adapted(*p, bit);
        at.code -= if bit { bound } else { 0 };
        at.range = if bit { at.range - bound } else { bound };
        while at.range < TOP {
            at.shift(self.input);
        }
        bit
    }

    #[inline(always)]
    fn raw_at(&mut self, at: &mut Reading, n: u32, _: u32) -> u32 {
        let mut left = n;
        let mut value = 0u32;
        while left > 0 {
            let step = left.min(RAW_STEP);
            left -= step;
            at.range >>= step;
            // Invalid bytes may lie above the interval: clamp to the largest value.
            let part = (at.code / at.range).min((1 << step) - 1);
            at.code = at.code.wrapping_sub(part * at.range);
            while at.range < TOP {
                at.shift(self.input);
            }
            value = value << (step % 32) | part;
        }
        value
    }
}

#[cfg(test)]
mod tests;

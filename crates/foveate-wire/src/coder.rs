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
/// Smallest probability that a trained table may have. Adaptation goes no further than 15: there a sixteenth of
/// the way is less than a step. So a surprise costs at most 12 bits.
pub const PROB_MIN: u16 = 32;
/// Renormalise below this range.
const TOP: u32 = 1 << 24;
/// Most raw bits that one coding step may carry: `range >> 16` stays positive.
const RAW_STEP: u32 = 16;

/// One body of code writes, reads, and measures: the encoder codes `bit` and returns it; the decoder ignores `bit`
/// and returns what was written; a counter records and returns it. A body must therefore depend on nothing but
/// the *returned* values and on what both sides know.
pub trait Coder {
    /// Codes one bit in context `ctx`.
    fn bit(&mut self, ctx: usize, bit: bool) -> bool;
    /// Codes the low `n` bits (n ≤ 32) of `value`, equiprobable, most significant part first.
    fn raw(&mut self, n: u32, value: u32) -> u32;
}

/// Adaptive probabilities, restarted from a trained state for each packet.
#[derive(Clone, Debug)]
pub struct Models {
    /// Current probabilities of bit 0.
    p: Box<[u16; ROOM]>,
    /// The trained state.
    init: Box<[u16; ROOM]>,
    /// A bit for each block of contexts that has been adapted since the restart.
    touched: u64,
}

/// Contexts in a block: so many that a word has a bit for each block.
const BLOCK: usize = ROOM / 64;

/// Contexts that a table has room for; a power of two, so that no index needs a check.
pub(crate) const ROOM: usize = 4096;

impl Models {
    /// Models that start from `init`; missing entries are even, entries out of range are clamped, so
    /// that any table is safe.
    pub fn new(init: &[u16]) -> Models {
        let entry = |at: usize| init.get(at).copied().unwrap_or(PROB_ONE / 2);
        let init =
            Box::new(std::array::from_fn(|at| entry(at).clamp(PROB_MIN, PROB_ONE - PROB_MIN)));
        Models { p: init.clone(), init, touched: 0 }
    }

    /// Models in the trained state that both ends ship with.
    pub fn trained() -> Models {
        let table: Vec<u16> =
            TRAINED.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        Models::new(&table)
    }

    /// Back to the trained state, block by block: a packet of few records touches few.
    pub(crate) fn restart(&mut self) {
        let (now, trained) = (self.p.as_chunks_mut::<BLOCK>().0, self.init.as_chunks::<BLOCK>().0);
        while self.touched != 0 {
            let block = self.touched.trailing_zeros() as usize % 64;
            now[block] = trained[block];
            self.touched &= self.touched - 1;
        }
    }

    /// Probability of bit 0 in `ctx`.
    #[inline]
    pub(crate) fn get(&self, ctx: usize) -> u32 {
        u32::from(self.p[ctx % ROOM])
    }

    /// Moves the probability of `ctx` towards the bit seen.
    #[inline(always)]
    pub(crate) fn adapt(&mut self, ctx: usize, bit: bool) {
        self.touched |= 1 << (ctx / BLOCK % 64);
        let p = &mut self.p[ctx % ROOM];
        *p = adapted(*p, bit);
    }
}

/// The trained table, by `foveate lab codec --write-table`.
const TRAINED: &[u8] = include_bytes!("trained.bin");

/// Adaptation shift: each bit moves its probability by 1/2^RATE of the distance.
pub const RATE: u32 = 4;

/// The probability after a bit. No context ever becomes certain, because the step ends at zero first:
/// the price of a surprise stays bounded.
#[inline(always)]
pub fn adapted(p: u16, bit: bool) -> u16 {
    let (down, up) = (p - (p >> RATE), p + ((PROB_ONE - p) >> RATE));
    if bit { down } else { up }
}

/// Appends coded bytes to the caller's buffer.
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    models: &'a mut Models,
    /// Where the coded part starts: the carry never walks back past it.
    start: usize,
    /// The 33rd bit is a carry that has not been added yet.
    low: u64,
    range: u32,
}

impl<'a> Encoder<'a> {
    /// Starts a packet's coded part at the end of `out`; restarts the models.
    pub fn new(out: &'a mut Vec<u8>, models: &'a mut Models) -> Self {
        models.restart();
        let start = out.len();
        Self { out, models, start, low: 0, range: u32::MAX }
    }

    /// Bytes written so far in the coded part, without the end (at most one more, plus up to three in `low`).
    pub fn written(&self) -> usize {
        self.out.len() - self.start
    }

    /// Bits written so far, rounded; for measuring only. Over many differences of two such figures
    /// the rounding cancels out.
    pub fn bits(&self) -> u32 {
        self.written() as u32 * 8 + self.range.leading_zeros()
    }

    /// Adds the carry to the bytes already written. Rare.
    #[cold]
    fn carry(&mut self) {
        self.low &= u64::from(u32::MAX);
        for byte in self.out[self.start..].iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                return;
            }
        }
    }

    #[inline(always)]
    fn renormalise(&mut self) {
        while self.range < TOP {
            self.shift();
        }
    }

    #[inline]
    fn shift(&mut self) {
        if self.low > u64::from(u32::MAX) {
            self.carry();
        }
        self.out.push((self.low >> 24) as u8);
        self.low = u64::from((self.low as u32) << 8);
        self.range <<= 8;
    }

    /// Ends the coded part with the shortest bytes inside the interval, trailing zeros dropped.
    pub fn finish(mut self) {
        // range >= 2^24, so some multiple of 2^24 lies in [low, low + range).
        if self.low > 0 {
            self.low += u64::from(TOP - 1);
            self.shift();
        }
        while self.out.len() > self.start && self.out.last() == Some(&0) {
            self.out.pop();
        }
    }
}

impl Coder for Encoder<'_> {
    /// Without a branch on the bit: it is a surprise too often to be foreseen.
    #[inline(always)]
    fn bit(&mut self, ctx: usize, bit: bool) -> bool {
        let bound = (self.range >> PROB_BITS) * self.models.get(ctx);
        let (low, high) = (bound, self.range - bound);
        self.low += u64::from(if bit { bound } else { 0 });
        self.range = if bit { high } else { low };
        self.models.adapt(ctx, bit);
        self.renormalise();
        bit
    }

    fn raw(&mut self, n: u32, value: u32) -> u32 {
        let mut left = n;
        while left > 0 {
            let step = left.min(RAW_STEP);
            left -= step;
            self.range >>= step;
            self.low += u64::from(((value >> left) & ((1 << step) - 1)) * self.range);
            self.renormalise();
        }
        value
    }
}

/// Reads what an [`Encoder`] wrote. Total: any bytes give some bits, never a panic.
pub struct Decoder<'a> {
    input: &'a [u8],
    models: &'a mut Models,
    /// Next byte to read.
    at: usize,
    /// The value read, relative to the interval's low end.
    code: u32,
    range: u32,
}

impl<'a> Decoder<'a> {
    /// Reads `input` from its start to its end; restarts the models.
    pub fn new(input: &'a [u8], models: &'a mut Models) -> Self {
        models.restart();
        let mut decoder = Self { input, models, at: 0, code: 0, range: u32::MAX };
        for _ in 0..4 {
            decoder.code = decoder.code << 8 | decoder.next_byte();
        }
        decoder
    }

    #[inline]
    fn next_byte(&mut self) -> u32 {
        let byte = self.input.get(self.at).copied().unwrap_or(0);
        self.at = self.at.saturating_add(1);
        u32::from(byte)
    }

    #[inline]
    fn renormalise(&mut self) {
        while self.range < TOP {
            self.code = self.code << 8 | self.next_byte();
            self.range <<= 8;
        }
    }
}

impl Coder for Decoder<'_> {
    #[inline]
    fn bit(&mut self, ctx: usize, _: bool) -> bool {
        let bound = (self.range >> PROB_BITS) * self.models.get(ctx);
        let bit = self.code >= bound;
        if bit {
            self.code -= bound;
            self.range -= bound;
        } else {
            self.range = bound;
        }
        self.models.adapt(ctx, bit);
        self.renormalise();
        bit
    }

    fn raw(&mut self, n: u32, _: u32) -> u32 {
        let mut left = n;
        let mut value = 0u32;
        while left > 0 {
            let step = left.min(RAW_STEP);
            left -= step;
            self.range >>= step;
            // Bytes from elsewhere may lie above the interval: the largest value stands for them.
            let part = (self.code / self.range).min((1 << step) - 1);
            self.code = self.code.wrapping_sub(part * self.range);
            self.renormalise();
            value = value << (step % 32) | part;
        }
        value
    }
}

#[cfg(test)]
mod tests;

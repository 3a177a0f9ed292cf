//! Coders that write nothing: one counts the bits in each context, to train tables; one adds up the
//! cost of bits. Both run the code that writes packets.

use crate::coder::{Coder, Models, PROB_BITS, PROB_MIN, PROB_ONE};
use crate::contexts::CONTEXTS;
use crate::facing::FACING_END;
use crate::place::PLACE_CONTEXTS;

/// Counts the bits in each context.
#[derive(Clone, Debug)]
pub struct Trainer {
    counts: Vec<[f64; 2]>,
}

/// Each context starts with half a zero and half a one: unused ones stay even, rare ones
/// reasonable.
const PRIOR: f64 = 0.5;

impl Default for Trainer {
    fn default() -> Trainer {
        Trainer { counts: vec![[0.0; 2]; CONTEXTS] }
    }
}

impl Trainer {
    /// Adds another trainer's counts, weighted.
    pub fn add(&mut self, other: &Trainer, weight: f64) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            mine[0] += theirs[0] * weight;
            mine[1] += theirs[1] * weight;
        }
    }

    /// The total number of bits.
    pub fn total(&self) -> f64 {
        self.counts.iter().map(|[zeros, ones]| zeros + ones).sum()
    }

    /// Counts a bit.
    pub fn see(&mut self, ctx: usize, bit: bool) {
        self.counts[ctx][usize::from(bit)] += 1.0;
    }

    /// The trained table: the probability of a zero in each context.
    pub fn table(&self) -> Vec<u16> {
        let one = f64::from(PROB_ONE);
        let share = |[zeros, ones]: &[f64; 2]| (zeros + PRIOR) / (zeros + ones + 2.0 * PRIOR);
        let entry = |counts: &[f64; 2]| (share(counts) * one).round() as u16;
        self.counts.iter().map(|c| entry(c).clamp(PROB_MIN, PROB_ONE - PROB_MIN)).collect()
    }
}

impl Coder for &mut Trainer {
    const READS: bool = false;
    type Interval = ();

    fn interval(&self) {}

    fn set_interval(&mut self, (): ()) {}

    fn touch(&mut self, _: usize, _: usize) {}

    fn bit_at(&mut self, (): &mut (), ctx: usize, bit: bool) -> bool {
        self.see(ctx, bit);
        bit
    }

    fn raw_at(&mut self, (): &mut (), _: u32, value: u32) -> u32 {
        value
    }
}

/// Bits by kind of content.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// Bits of places, jumps included.
    pub place: f64,
    /// Bits of facings.
    pub facing: f64,
    /// Bits of everything else: aliases, ages, other fields.
    pub rest: f64,
}

/// Adds up the cost of bits under models that adapt and restart like an encoder's.
#[derive(Debug)]
pub struct Meter<'a> {
    models: &'a mut Models,
    cost: Cost,
    /// Raw bits count for the context before them.
    last: usize,
}

impl<'a> Meter<'a> {
    /// Begins a packet.
    pub fn new(models: &'a mut Models) -> Meter<'a> {
        models.restart();
        Meter { models, cost: Cost::default(), last: CONTEXTS }
    }

    /// The sums.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    fn add(&mut self, bits: f64) {
        let family = match self.last {
            0..PLACE_CONTEXTS => &mut self.cost.place,
            PLACE_CONTEXTS..FACING_END => &mut self.cost.facing,
            _ => &mut self.cost.rest,
        };
        *family += bits;
    }
}

impl Coder for Meter<'_> {
    const READS: bool = false;
    type Interval = ();

    fn interval(&self) {}

    fn set_interval(&mut self, (): ()) {}

    fn touch(&mut self, _: usize, _: usize) {}

    fn bit_at(&mut self, (): &mut (), ctx: usize, bit: bool) -> bool {
        self.last = ctx;
        let zero = f64::from(self.models.get(ctx)) / f64::from(1u32 << PROB_BITS);
        self.add(-(if bit { 1.0 - zero } else { zero }).log2());
        self.models.adapt(ctx, bit);
        bit
    }

    fn raw_at(&mut self, (): &mut (), n: u32, value: u32) -> u32 {
        self.add(f64::from(n));
        value
    }
}

/// Reads with one coder, and lets a trainer count what it reads.
pub struct Seen<'a, C>(pub C, pub &'a mut Trainer);

impl<C: Coder> Coder for Seen<'_, C> {
    const READS: bool = C::READS;
    type Interval = C::Interval;

    fn interval(&self) -> C::Interval {
        self.0.interval()
    }

    fn set_interval(&mut self, at: C::Interval) {
        self.0.set_interval(at);
    }

    fn touch(&mut self, first: usize, last: usize) {
        self.0.touch(first, last);
    }

    fn bit_at(&mut self, at: &mut C::Interval, ctx: usize, bit: bool) -> bool {
        let bit = self.0.bit_at(at, ctx, bit);
        self.1.see(ctx, bit);
        bit
    }

    fn raw_at(&mut self, at: &mut C::Interval, n: u32, value: u32) -> u32 {
        self.0.raw_at(at, n, value)
    }
}

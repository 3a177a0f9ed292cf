//! The coder returns what was written, restarts its models, and ends within a byte.

use super::*;
use crate::contexts::CONTEXTS;

#[test]
fn raw_bits_of_every_width_return() {
    let low = |n: u32| (0xDEAD_BEEF_u64 & ((1 << n) - 1)) as u32;
    let (mut models, mut out) = (Models::trained(), Vec::new());
    let mut encoder = Encoder::new(&mut out, &mut models);
    for n in 0..=32 {
        assert_eq!(encoder.raw(n, low(n)), low(n));
    }
    encoder.finish();
    let mut decoder = Decoder::new(&out, &mut models);
    for n in 0..=32 {
        assert_eq!(decoder.raw(n, 0), low(n), "{n} bits");
    }
}

/// Codes `steps` decisions, modelled and raw, generated from a seed; returns the results. A reader
/// is passed the opposite bits: its results must come from the bytes alone.
fn story(c: &mut impl Coder, seed: u64, steps: usize, writing: bool) -> Vec<u32> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let decide = |_| {
        let (ctx, n, value) = (rng.usize(..CONTEXTS), rng.u32(0..=32), rng.u32(..));
        let skewed = (rng.u32(..50) == 0) == writing;
        let value = if writing { value } else { !value };
        match rng.u32(..4) {
            0 if n < 32 => c.raw(n, value & ((1 << n) - 1)),
            0 => c.raw(32, value),
            // Many in few contexts: probabilities reach their limits, and carries run far.
            1 => u32::from(c.bit(ctx % 3, skewed)),
            _ => u32::from(c.bit(ctx, value & 1 == 1)),
        }
    };
    (0..steps).map(decide).collect()
}

#[test]
fn any_mix_of_bits_returns_and_leaves_the_bytes_before_it_alone() {
    let (mut writing, mut reading) = (Models::trained(), Models::trained());
    for seed in 0..400 {
        let steps = fastrand::Rng::with_seed(seed).usize(..3_000);
        let mut out = vec![0xFF; 3];
        let mut encoder = Encoder::new(&mut out, &mut writing);
        let wrote = story(&mut encoder, seed, steps, true);
        encoder.finish();
        assert_eq!(out[..3], [0xFF; 3], "seed {seed}: a carry must not leave the coded part");
        let read = story(&mut Decoder::new(&out[3..], &mut reading), seed, steps, false);
        assert_eq!(wrote, read, "seed {seed}");
    }
}

#[test]
fn models_restart_however_much_they_learned() {
    let fresh = Models::trained();
    let mut models = Models::trained();
    for bits in [1, 1_000, 5 * CONTEXTS] {
        for at in 0..bits {
            models.adapt(at % CONTEXTS, at.is_multiple_of(3));
        }
        assert_ne!(models.p, fresh.p);
        models.restart();
        assert_eq!(models.p, fresh.p, "after {bits} bits");
    }
}

#[test]
fn probabilities_stay_within_their_bounds() {
    for start in [PROB_MIN, PROB_ONE / 2, PROB_ONE - PROB_MIN] {
        for bit in [false, true] {
            let end = (0..2_000).fold(start, |p, _| adapted(p, bit));
            assert!((15..=PROB_ONE - 15).contains(&end));
            assert!(if bit { end < PROB_MIN } else { end > PROB_ONE - PROB_MIN });
        }
    }
    let odd = Models::new(&[0, u16::MAX]);
    assert_eq!((odd.get(0), odd.get(1)), (u32::from(PROB_MIN), u32::from(PROB_ONE - PROB_MIN)));
    assert_eq!(odd.get(2), u32::from(PROB_ONE / 2), "missing entries are even");
}

#[test]
fn the_trained_table_has_one_entry_for_each_context() {
    assert_eq!(TRAINED.len(), 2 * CONTEXTS);
    let valid = PROB_MIN..=PROB_ONE - PROB_MIN;
    let entries = TRAINED.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    assert!(entries.into_iter().all(|entry| valid.contains(&entry)));
}

#[test]
fn the_end_costs_at_most_a_byte() {
    let (mut models, mut out) = (Models::trained(), Vec::new());
    Encoder::new(&mut out, &mut models).finish();
    assert!(out.is_empty(), "nothing coded, nothing written");
    for seed in 0..2_000 {
        out.clear();
        let mut encoder = Encoder::new(&mut out, &mut models);
        story(&mut encoder, seed, seed as usize % 60, true);
        let (written, bits) = (encoder.written(), encoder.bits());
        encoder.finish();
        assert!(out.len() <= written + 1, "seed {seed}");
        assert!(out.len() as u32 * 8 <= bits + 8, "seed {seed}: {} bytes, {bits} bits", out.len());
    }
}

#[test]
fn any_bytes_give_some_bits() {
    let mut models = Models::trained();
    for seed in 0..500 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bytes: Vec<u8> = (0..rng.usize(..200)).map(|_| rng.u8(..)).collect();
        if rng.u32(..4) == 0 {
            // The highest value lies above every interval.
            bytes.fill(0xFF);
        }
        story(&mut Decoder::new(&bytes, &mut models), seed, 2_000, false);
    }
}

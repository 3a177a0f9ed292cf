//! Every number survives coding, whatever length is expected.

use super::*;
use crate::coder::{Decoder, Encoder, Models};

/// Any `i32`, all magnitudes equally likely, including the extremes.
pub(crate) fn any(rng: &mut fastrand::Rng) -> i32 {
    match rng.u32(..40) {
        0 => i32::MIN,
        1 => i32::MAX,
        2 => 0,
        n => rng.i32(..) >> (n % 32),
    }
}

#[test]
fn values_of_every_magnitude_return() {
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut models, mut out) = (Models::trained(), vec![1, 2, 3]);
    let slots = |expect, pivot| Slots { len: 0, sign: STEPS, tree: STEPS + SIGNS, expect, pivot };
    let values: Vec<(Slots, i32)> =
        (0..20_000).map(|_| (slots(rng.usize(..40), rng.usize(..40)), any(&mut rng))).collect();
    let mut encoder = Encoder::new(&mut out, &mut models);
    for (slots, v) in &values {
        assert_eq!(value(&mut encoder, slots, *v), *v);
        assert_eq!(count(&mut encoder, slots, *v as u32), *v as u32);
    }
    encoder.finish();
    assert_eq!(out[..3], [1, 2, 3], "a carry must not leave the coded part");
    let mut decoder = Decoder::new(&out[3..], &mut models);
    for (slots, v) in &values {
        assert_eq!(value(&mut decoder, slots, 0), *v);
        assert_eq!(count(&mut decoder, slots, 0), *v as u32);
    }
}

#[test]
fn lengths_and_classes_are_as_documented() {
    assert_eq!([0, 1, -1, 2, 3, 4, i32::MAX, i32::MIN].map(length), [0, 1, 1, 2, 2, 3, 31, 32]);
    assert_eq!([0, 1, u32::MAX].map(ulength), [0, 1, 32]);
    assert_eq!((near(5, 5), near(20, 0), near(0, 32)), (6, 0, NEAR - 1));
}

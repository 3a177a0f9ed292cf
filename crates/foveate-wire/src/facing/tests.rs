//! Turns survive coding, and a facing without a turn is cheap.

use super::*;
use crate::coder::{Decoder, Encoder, Models};
use crate::number::tests::any;

/// The start of each family of contexts, to be compared with `docs/WIRE.md`.
pub(crate) const FAMILIES: &[(&str, usize)] = &[
    ("FACING", FACING),
    ("YAW_LEN", YAW_LEN),
    ("YAW_SIGN", YAW_SIGN),
    ("YAW_TREE", YAW_TREE),
    ("PITCH_LEN", PITCH_LEN),
    ("PITCH_SIGN", PITCH_SIGN),
    ("PITCH_TREE", PITCH_TREE),
];

#[test]
fn turns_return_in_every_context() {
    let mut rng = fastrand::Rng::with_seed(8);
    let mut models = Models::trained();
    for _ in 0..5_000 {
        let (age, miss) = (rng.u32(..40), rng.usize(..MISSES));
        let turn = if rng.bool() { [0, 0] } else { [any(&mut rng), any(&mut rng)] };
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out, &mut models);
        code_facing(&mut encoder, age, miss, turn);
        encoder.finish();
        let mut decoder = Decoder::new(&out, &mut models);
        assert_eq!(code_facing(&mut decoder, age, miss, [0, 0]), turn);
    }
}

#[test]
fn misses_fall_into_three_classes() {
    assert_eq!([[0, 0, 0], [0, -15, 3], [16, 0, 0]].map(miss_class), [0, 1, FAR]);
}

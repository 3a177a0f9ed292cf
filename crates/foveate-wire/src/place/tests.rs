//! Places survive coding for any baseline, and frames lose nothing.

use super::*;
use crate::coder::{Decoder, Encoder, Models};
use crate::number::tests::any;

/// The start of each family of contexts, to be compared with `docs/WIRE.md`.
pub(crate) const FAMILIES: &[(&str, usize)] = &[
    ("JUMP", JUMP),
    ("J_LEN", J_LEN),
    ("J_SIGN", J_SIGN),
    ("J_TREE", J_TREE),
    ("WIDE", WIDE),
    ("Z_SAME", Z_SAME),
    ("Z_STAY", Z_STAY),
    ("Z_FALL", Z_FALL),
    ("Z_LEN", Z_LEN),
    ("Z_SIGN", Z_SIGN),
    ("Z_TREE", Z_TREE),
    ("H_SAME", H_SAME),
    ("H_STOP", H_STOP),
    ("A_LEN", A_LEN),
    ("A_SIGN", A_SIGN),
    ("A_TREE", A_TREE),
    ("B_LEN", B_LEN),
    ("B_SIGN", B_SIGN),
    ("B_TREE", B_TREE),
];

fn three(rng: &mut fastrand::Rng) -> [i32; 3] {
    [any(rng), any(rng), any(rng)]
}

fn known(rng: &mut fastrand::Rng) -> Known {
    let motion = Motion { moved: three(rng), ticks: any(rng) as u32 };
    Known::new(three(rng), &motion, any(rng) as u32)
}

#[test]
fn frames_are_exactly_invertible() {
    let mut rng = fastrand::Rng::with_seed(2);
    for _ in 0..100_000 {
        let frame = Frame::new(three(&mut rng));
        let r = [any(&mut rng), any(&mut rng)];
        assert_eq!(frame.leave(frame.enter(r)), r);
        assert_eq!(frame.enter(frame.leave(r)), r);
    }
}

#[test]
fn a_way_lies_along_its_own_frame() {
    for way in [[1000, 0, 0], [0, -1000, 0], [707, 707, 0], [-300, 954, 7], [-600, -800, 0]] {
        let frame = Frame::new(way);
        let [along, across] = frame.enter([way[0], way[1]]);
        assert!((along - frame.length as i32).abs() <= 2 && across.abs() <= 2, "{way:?}");
    }
}

#[test]
fn places_return_for_any_baseline() {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut models = Models::trained();
    for _ in 0..20_000 {
        let (k, fall) = (known(&mut rng), if rng.bool() { 16 } else { 0 });
        let terrain = Terrain { fall, low: [-32_768; 3], width: [16; 3] };
        let (place, jump) = (three(&mut rng), rng.u32(..4) == 0);
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out, &mut models);
        code_place(&mut encoder, &terrain, &mut Fall::new(fall), &k, place, jump);
        encoder.finish();
        let mut decoder = Decoder::new(&out, &mut models);
        let read = code_place(&mut decoder, &terrain, &mut Fall::new(fall), &k, [0; 3], false);
        assert_eq!(read, (place, jump));
    }
}

#[test]
fn any_terrain_is_safe() {
    let mut rng = fastrand::Rng::with_seed(6);
    let mut models = Models::trained();
    for _ in 0..5_000 {
        let width = [0; 3].map(|_| rng.u32(..40));
        let terrain = Terrain { fall: any(&mut rng), low: three(&mut rng), width };
        let (k, place, jump) = (known(&mut rng), three(&mut rng), rng.bool());
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out, &mut models);
        let mut fall = Fall::new(terrain.fall);
        let wrote = code_place(&mut encoder, &terrain, &mut fall, &k, place, jump);
        encoder.finish();
        assert_eq!(wrote, (place, jump));
    }
}

#[test]
fn a_fall_is_learnt_from_two_equal_ones() {
    let still = |age| Known::new([0; 3], &Motion::default(), age);
    // A fall by g leaves −g · age · (age + ticks) / 2; `ticks` counts as 1 for a state that stood.
    let (k, mut fall) = (still(3), Fall::new(0));
    assert_eq!(fall.residual(&k), None);
    fall.learn(&k, -96);
    assert_eq!(fall.residual(&k), None, "one may be a stair");
    fall.learn(&still(1), -16);
    assert_eq!(fall.residual(&k), Some(-96));
    fall.learn(&still(1), -40);
    fall.learn(&still(1), -40);
    assert_eq!(fall.residual(&still(1)), Some(-40), "the newest pair counts");
    let mut given = Fall::new(16);
    given.learn(&k, -5);
    given.learn(&k, -5);
    assert_eq!(given.residual(&k), Some(-96), "the schema's value is kept");
}

#[test]
fn frames_in_doubles_are_those_of_integers() {
    let mut rng = fastrand::Rng::with_seed(9);
    for round in 0..400_000 {
        let part = |rng: &mut fastrand::Rng| match round % 4 {
            0 => rng.i32(-300..=300),
            1 => FARTHEST - rng.i32(0..4),
            _ => any(rng),
        };
        let way = [part(&mut rng), part(&mut rng), 0];
        let [x, y] = [0, 1].map(|k| i64::from(way[k].clamp(-FARTHEST, FARTHEST)).abs());
        let (a, b) = (x.max(y), x.min(y));
        let length = (a * a + b * b).isqrt();
        let frame = Frame::new(way);
        let shares =
            if length == 0 { [0, 0] } else { [b * 4096 / (length + a), b * 4096 / length] };
        let found = [frame.half, frame.sine].map(i64::from);
        assert_eq!((i64::from(frame.length), found), (length, shares), "{way:?}");
    }
}

//! Vectors of the coder itself and of single numbers.

use super::hex;
use crate::coder::{Coder, Decoder, Encoder, Models};
use crate::contexts::{self, CONTEXTS};
use crate::fuzz::Chance;
use crate::number::{Slots, count, value};
use serde_json::{Value, json};

/// One step of a coder.
#[derive(Clone, Copy)]
enum Step {
    Bit(usize, bool),
    Raw(u32, u32),
}

pub(super) fn coder() -> Vec<Value> {
    let widths = (0..=32).map(|n| Step::Raw(n, low(n, 0xDEAD_BEEF)));
    // The likelier bit of a settled context, then the other: a surprise, and a long carry.
    let settled = |bit: bool| (0..200).map(move |at| Step::Bit(1, bit ^ (at % 67 == 66)));
    let mut chance = Chance(1);
    let mut any = move |_| match chance.any() % 4 {
        0 => {
            let n = chance.any().unsigned_abs() % 33;
            Step::Raw(n, low(n, chance.any() as u32))
        }
        _ => Step::Bit(chance.any().unsigned_abs() as usize % CONTEXTS, chance.any() & 1 == 1),
    };
    vec![
        coded("nothing", &[]),
        coded("one zero", &[Step::Bit(0, false)]),
        coded("one one", &[Step::Bit(0, true)]),
        coded("raw bits of every width", &widths.collect::<Vec<_>>()),
        coded("ones in one context", &settled(true).collect::<Vec<_>>()),
        coded("zeros in one context", &settled(false).collect::<Vec<_>>()),
        coded("all ones, raw", &[Step::Raw(32, u32::MAX); 12]),
        coded("a mix", &(0..400).map(&mut any).collect::<Vec<_>>()),
        coded("another mix", &(0..1_500).map(any).collect::<Vec<_>>()),
    ]
}

/// The low `n` bits.
fn low(n: u32, value: u32) -> u32 {
    if n < 32 { value & ((1 << n) - 1) } else { value }
}

fn run(c: &mut impl Coder, steps: &[Step]) -> Vec<u32> {
    let take = |step: &Step| match *step {
        Step::Bit(ctx, bit) => u32::from(c.bit(ctx, bit)),
        Step::Raw(n, value) => c.raw(n, value),
    };
    steps.iter().map(take).collect()
}

fn coded(name: &str, steps: &[Step]) -> Value {
    let (mut models, mut out) = (Models::trained(), Vec::new());
    let mut encoder = Encoder::new(&mut out, &mut models);
    let wrote = run(&mut encoder, steps);
    encoder.finish();
    assert_eq!(run(&mut Decoder::new(&out, &mut models), steps), wrote, "{name}");
    let shown = |step: &Step| match *step {
        Step::Bit(ctx, bit) => json!(["bit", ctx, u32::from(bit)]),
        Step::Raw(n, value) => json!(["raw", n, value]),
    };
    let steps: Vec<Value> = steps.iter().map(shown).collect();
    json!({ "name": name, "steps": steps, "bytes": hex(&out) })
}

pub(super) fn numbers() -> Vec<Value> {
    let plain = |family| contexts::number(family, 0);
    let counted = |family| contexts::counted(family, 0);
    let edges = [0, 1, -1, 2, -2, 7, 8, -8, 127, -128, 1_023, 1_024, i32::MAX, i32::MIN];
    let mut chance = Chance(2);
    let mut any = |n: usize| -> Vec<i32> { (0..n).map(|_| chance.any()).collect() };
    let mut cases = vec![
        number("edges as steps", &plain(contexts::STEP), &edges, true),
        number("edges as ages", &counted(contexts::AGE), &edges, false),
        number("steps", &plain(contexts::STEP), &any(60), true),
        number("gaps", &counted(contexts::GAP), &any(60), false),
    ];
    for (expect, pivot) in [(0, 0), (3, 0), (6, 3), (12, 7), (31, 28), (32, 40)] {
        let slots = Slots { expect, pivot, ..plain(contexts::STEP) };
        let name = format!("expected {expect}, from {pivot}");
        cases.push(number(&name, &slots, &[&edges[..], &any(30)].concat(), true));
    }
    cases
}

fn number(name: &str, slots: &Slots, values: &[i32], signed: bool) -> Value {
    let (mut models, mut out) = (Models::trained(), Vec::new());
    let mut encoder = Encoder::new(&mut out, &mut models);
    for v in values {
        code(&mut encoder, slots, *v, signed);
    }
    encoder.finish();
    let mut decoder = Decoder::new(&out, &mut models);
    let read: Vec<i32> = values.iter().map(|_| code(&mut decoder, slots, 0, signed)).collect();
    assert_eq!(read, values, "{name}");
    let shown: Vec<i64> =
        values.iter().map(|v| if signed { i64::from(*v) } else { i64::from(*v as u32) }).collect();
    let Slots { len, sign, tree, expect, pivot } = *slots;
    json!({
        "name": name, "signed": signed, "len": len, "sign": sign, "tree": tree, "expect": expect,
        "pivot": pivot, "values": shown, "bytes": hex(&out),
    })
}

fn code(c: &mut impl Coder, slots: &Slots, v: i32, signed: bool) -> i32 {
    if signed { value(c, slots, v) } else { count(c, slots, v as u32) as i32 }
}

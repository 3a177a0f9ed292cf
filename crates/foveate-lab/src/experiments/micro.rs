//! The cost of single steps: grading a pair, encoding an update, decoding one.

use super::{ExperimentError, LabHost};
use crate::avatar::AvatarSpec;
use crate::movement::{Crowd, Movement};
use crate::output::{Align, Table};
use crate::training::lanes_of;
use foveate_sync::interest::{Policy, Sight, presets};
use foveate_sync::{Predicted, deviation};
use foveate_wire::packet::{PacketReader, PacketWriter, StateHeader, States, open_state};
use foveate_wire::{
    Alias, Baseline, KindId, Metres, Micros, Models, Motion, ObjectId, Position, Schema, Tick,
};
use std::sync::Arc;

const PAIRS: usize = 1_000;
const REPEATS: usize = 40;
/// Updates in a packet.
const BATCH: usize = 20;
const AGE: u32 = 4;

/// Two states of all avatars of a crowd, some rounds apart.
struct Sample {
    schema: Arc<Schema>,
    then: Vec<Vec<i32>>,
    now: Vec<Vec<i32>>,
}

impl Sample {
    fn new(seed: u64) -> Result<Sample, ExperimentError> {
        let mut crowd = Crowd::new(PAIRS, 20.0, seed);
        let avatar = AvatarSpec::of(&crowd, 1.0 / 64.0);
        let schema = avatar.schema()?;
        let kind = schema.kinds()[0].clone();
        let lanes = |crowd: &Crowd| {
            let pose = |at: usize| crowd.pose(at).unwrap_or_default();
            (0..PAIRS).map(|at| lanes_of(&kind, pose(at))).collect::<Vec<_>>()
        };
        (0..50).for_each(|_| assert!(crowd.step()));
        let then = lanes(&crowd);
        (0..AGE).for_each(|_| assert!(crowd.step()));
        let now = lanes(&crowd);
        Ok(Sample { schema, then, now })
    }
}

impl States for Sample {
    fn state_at(&self, alias: Alias, _: Tick) -> Option<(KindId, &[i32], Motion)> {
        let lanes = self.then.get(usize::from(alias.0))?;
        Some((KindId(0), lanes, Motion::default()))
    }
}

fn sights() -> Vec<Sight> {
    let sight = |at: usize| Sight {
        distance: Metres(1.0 + (at % 120) as f32),
        cos_angle: ((at * 37) % 200) as f32 / 100.0 - 1.0,
        from: Position::default(),
        to: Position([at as f32, 0.0, 0.0]),
        pivot: None,
        object: ObjectId::new(KindId(0), 0, at as u32),
        kind: KindId(0),
        same_team: false,
        interaction: 0.0,
        tick: Tick(1),
        now: Micros(1),
    };
    (0..PAIRS).map(sight).collect()
}

/// Nanoseconds per item; `run` handles `count` items.
fn each(meter: &dyn LabHost, count: usize, mut run: impl FnMut()) -> f64 {
    run();
    let start = meter.now_ns();
    (0..REPEATS).for_each(|_| run());
    (meter.now_ns() - start) as f64 / (REPEATS * count) as f64
}

/// A table of the cost of single steps on this machine.
pub fn table(seed: u64, meter: &dyn LabHost) -> Result<Table, ExperimentError> {
    let sample = Sample::new(seed)?;
    let kind = &sample.schema.kinds()[0];
    let policy: Arc<dyn Policy> = presets::normal(24.0, 48.0).build()?;
    let sights = sights();
    let grade = each(meter, PAIRS, || {
        for sight in &sights {
            std::hint::black_box(policy.grade(sight));
        }
    });
    let granted: Vec<_> = sights.iter().filter_map(|sight| policy.grade(sight)).collect();
    let due = each(meter, granted.len(), || {
        for (at, grade) in granted.iter().enumerate() {
            let motion = Motion { moved: [3, 5, 1], ticks: 2 };
            let state = Predicted { lanes: &sample.then[at], motion, age: AGE };
            std::hint::black_box(deviation(kind, &state, &sample.now[at], grade));
        }
    });
    let (mut models, mut bytes, mut now) = (Models::trained(), Vec::new(), sample.now.clone());
    let mut write = |bytes: &mut Vec<u8>, first: usize| {
        bytes.clear();
        let header = StateHeader { seq: 0, tick: Tick(AGE) };
        let mut writer = PacketWriter::new(bytes, &mut models, header);
        for (at, now) in now.iter_mut().enumerate().skip(first).take(BATCH) {
            let base = Baseline { lanes: &sample.then[at], motion: Motion::default(), age: AGE };
            writer.update(Alias(at as u16), kind, &base, now);
        }
        writer.finish();
    };
    let encode = each(meter, PAIRS, || {
        (0..PAIRS).step_by(BATCH).for_each(|first| write(&mut bytes, first));
    });
    let mut packets = vec![Vec::new(); PAIRS / BATCH];
    for (at, packet) in packets.iter_mut().enumerate() {
        write(packet, at * BATCH);
    }
    let (mut models, mut lanes) = (Models::trained(), Vec::new());
    let decode = each(meter, PAIRS, || {
        for packet in &packets {
            let Ok((header, body)) = open_state(packet, Tick(AGE)) else { continue };
            let mut reader = PacketReader::new(header, body, &mut models);
            lanes.clear();
            while let Ok(Some(record)) = reader.next(&sample.schema, &sample, &mut lanes) {
                std::hint::black_box(record);
            }
        }
    });
    let columns = [("step", Align::Left), ("ns each", Align::Right)];
    let mut table = Table::new(columns).caption("Single steps");
    let rows = [
        ("grade a pair (VFC, normal view)", grade),
        ("compare a replica with the truth", due),
        ("encode an update", encode),
        ("decode an update", decode),
    ];
    for (step, ns) in rows {
        table.row([step.to_owned(), format!("{ns:.1}")]);
    }
    Ok(table)
}

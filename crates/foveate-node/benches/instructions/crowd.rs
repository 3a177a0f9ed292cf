//! The pipeline and the codec: a crowd in which every walker is an observer, and the replicas of some.

use crate::Measure;
use crate::mailbox::Mailbox;
use crate::walker::{BenchWalker, ROUND_MS, Strides, schema, view};
use foveate_sync::{Observer, ObserverId, Pivots, Publisher, ReplicaSet, Rounds, Slot};
use foveate_wire::packet::{Ack, MAX_PACKET, PacketWriter, StateHeader};
use foveate_wire::{
    Alias, Baseline, KindId, Micros, Models, Motion, ObjectId, OwnerId, Pose, PoseBaseline,
    Replicate, Tick,
};
use std::hint::black_box;

const WALKERS: usize = 200;
/// Rounds before measuring, until all nearby objects are known and room for the busiest observer is
/// allocated.
const WARM_UP: u32 = 400;
const MEASURED: usize = 16;
/// Updates in one packet of the encoder.
const BATCH: usize = 20;
/// Rounds between a state and its baseline.
const AGE: u32 = 4;

struct Crowd {
    publisher: Publisher,
    slots: Vec<Slot>,
    walkers: Vec<BenchWalker>,
    strides: Strides,
    replicas: Vec<ReplicaSet>,
    acks: Vec<Option<Ack>>,
    /// What the newest round sent to each observer.
    packets: Mailbox,
    tick: u32,
}

impl Crowd {
    fn new() -> Crowd {
        let schema = schema();
        let rounds = Rounds::every(Micros::from_millis(ROUND_MS));
        let mut publisher = Publisher::new(schema.clone(), rounds);
        let policy = view().build().expect("the view is valid");
        let walkers: Vec<_> = (0..WALKERS).map(|nth| BenchWalker::new(nth, WALKERS)).collect();
        let mut slots = Vec::new();
        for (nth, walker) in walkers.iter().enumerate() {
            let id = ObjectId::new(KindId(0), 0, nth as u32);
            let slot = publisher.store.create(id, OwnerId(0), walker).expect("ids differ");
            let observer = Observer::new(policy.clone(), Pivots::Object(slot), Tick(0));
            publisher.add(observer.without_own_objects());
            slots.push(slot);
        }
        Crowd {
            publisher,
            slots,
            walkers,
            strides: Strides::new(WALKERS, 1),
            replicas: (0..WALKERS).map(|_| ReplicaSet::new(schema.clone(), Tick(0))).collect(),
            acks: vec![None; WALKERS],
            packets: Mailbox::new(),
            tick: 0,
        }
    }

    fn now(&self) -> Micros {
        Micros::from_millis(ROUND_MS) * self.tick
    }

    /// Moves the walkers, and delivers acknowledgements that are one round old.
    fn prepare(&mut self) {
        self.tick += 1;
        let now = self.now();
        let Crowd { publisher, slots, walkers, strides, replicas, acks, .. } = self;
        for ((walker, stride), slot) in walkers.iter_mut().zip(strides.step()).zip(slots) {
            walker.walk(*stride);
            publisher.store.set(*slot, walker).expect("the slot is in use");
        }
        for (nth, (ack, replicas)) in acks.iter_mut().zip(replicas).enumerate() {
            if let Some(ack) = std::mem::replace(ack, replicas.ack()) {
                publisher.on_ack(ObserverId(nth as u32), &ack, now);
            }
        }
    }

    fn round(&mut self) {
        let (tick, now) = (Tick(self.tick), self.now());
        let Crowd { publisher, packets, .. } = self;
        packets.clear();
        publisher.round(tick, now, |id, bytes| packets.push(u64::from(id.0), bytes, false));
    }

    fn receive(&mut self) {
        for (to, bytes) in self.packets.datagrams() {
            let heard = self.replicas[to as usize].receive(bytes, |change| {
                black_box(change);
            });
            assert!(heard.is_ok(), "a packet of the pipeline was refused: {heard:?}");
        }
    }
}

/// A round of the publisher in steady state, and the receivers' work on its packets.
pub fn pipeline() {
    let mut crowd = Crowd::new();
    for _ in 0..WARM_UP {
        crowd.prepare();
        crowd.round();
        crowd.receive();
    }
    let mut round = Measure::default();
    for _ in 0..MEASURED {
        crowd.prepare();
        round.add(1, || crowd.round());
        crowd.receive();
    }
    round.finish("pipeline-round");
    let mut receive = Measure::default();
    for _ in 0..MEASURED {
        crowd.prepare();
        crowd.round();
        receive.add(crowd.packets.datagrams().count(), || crowd.receive());
    }
    receive.finish("apply-packet");
}

/// Packets of twenty updates each, coded against states of a few rounds before.
pub fn encode() {
    let (schema, mut strides) = (schema(), Strides::new(WALKERS, 2));
    let kind = &schema.kinds()[0];
    let mut walkers: Vec<_> = (0..WALKERS).map(|nth| BenchWalker::new(nth, WALKERS)).collect();
    let mut states = || {
        for _ in 0..AGE {
            walkers
                .iter_mut()
                .zip(strides.step())
                .for_each(|(walker, stride)| walker.walk(*stride));
        }
        let mut lanes = vec![vec![0; kind.lane_count()]; WALKERS];
        walkers.iter().zip(&mut lanes).for_each(|(walker, lanes)| walker.put(kind, lanes));
        lanes
    };
    let (before, then, mut now) = (states(), states(), states());
    let place = kind.place.expect("walkers have a place");
    let motion = |at: usize| {
        let (from, to) = (place.coordinates(&before[at]), place.coordinates(&then[at]));
        Motion { moved: [0, 1, 2].map(|axis| to[axis] - from[axis]), ticks: AGE }
    };
    let motions: Vec<_> = (0..WALKERS).map(motion).collect();
    let (mut models, mut bytes) = (Models::trained(), Vec::with_capacity(MAX_PACKET));
    let mut encode = Measure::default();
    encode.add(MEASURED * WALKERS / BATCH, || {
        for first in (0..MEASURED).flat_map(|_| (0..WALKERS).step_by(BATCH)) {
            bytes.clear();
            let header = StateHeader { seq: 0, tick: Tick(3 * AGE) };
            let mut writer = PacketWriter::new(&mut bytes, &mut models, header);
            for (at, now) in now.iter_mut().enumerate().skip(first).take(BATCH) {
                let (alias, then, motion) = (Alias(at as u16), &then[at], motions[at]);
                // Like the pipeline: whole lanes only if more than the pose changed.
                if then.last() == now.last() {
                    let [pose, to] = [then, &*now].map(|lanes| Pose::of(kind, lanes));
                    let from = PoseBaseline { pose, motion, age: AGE };
                    writer.update_pose(alias, kind, &from, to);
                } else {
                    writer.update(alias, kind, &Baseline { lanes: then, motion, age: AGE }, now);
                }
            }
            writer.finish();
            black_box(&bytes);
        }
    });
    encode.finish("encode-packet");
}

//! The bytes sent do not depend on the number of threads, while objects appear, jump and vanish,
//! observers join and leave, packets are lost, and grades give way.

use foveate_sync::interest::{Policy, Strain, presets};
use foveate_sync::metrics::Counters;
use foveate_sync::pipeline::Strained;
use foveate_sync::{Observer, ObserverId, Pivots, Publisher, Rounds, Slot, Threads};
use foveate_wire::packet::Ack;
use foveate_wire::{KindId, Micros, ObjectId, OwnerId, Replicate, Schema, Tick};
use std::sync::Arc;

const ROUND: Micros = Micros(50_000);
/// Enough for several parts, the last one short.
const OBSERVERS: usize = 330;
const OBJECTS: usize = 400;
const TICKS: u32 = 100;
const SIDE: f32 = 500.0;

#[derive(Clone, PartialEq, Debug, Replicate)]
#[replicate(max_speed = 40.0)]
struct Walker {
    #[replicate(place, motion, precision = 0.125, extent = 2048.0)]
    pos: [f32; 2],
    #[replicate(yaw, steps = 240, floor_degrees = 15.0)]
    yaw: f32,
}

/// The results of a run.
#[derive(PartialEq, Debug)]
struct Sent {
    packets: Vec<(ObserverId, Vec<u8>)>,
    totals: Counters,
    strained: Strained,
}

struct Crowd {
    publisher: Publisher,
    rng: fastrand::Rng,
    objects: Vec<(Slot, Walker)>,
    observers: Vec<ObserverId>,
    serial: u32,
    policy: Arc<dyn Policy>,
    sent: Vec<(ObserverId, Vec<u8>)>,
}

impl Crowd {
    fn new(seed: u64) -> Crowd {
        let schema = Schema::new(vec![Walker::spec()]).unwrap();
        let mut view = presets::normal(24.0, 48.0);
        view.zones[2] = 120.0;
        let mut crowd = Crowd {
            publisher: Publisher::new(Arc::new(schema), Rounds::every(ROUND)),
            rng: fastrand::Rng::with_seed(seed),
            objects: Vec::new(),
            observers: Vec::new(),
            serial: 0,
            policy: view.build().unwrap(),
            sent: Vec::new(),
        };
        (0..OBJECTS).for_each(|_| crowd.create());
        (0..OBSERVERS).for_each(|nth| crowd.observe(nth));
        crowd
    }

    fn create(&mut self) {
        self.serial += 1;
        let pos = [self.rng.f32() * SIDE, self.rng.f32() * SIDE];
        let walker = Walker { pos, yaw: 0.0 };
        let id = ObjectId::new(KindId(0), 1, self.serial);
        self.objects.push((self.publisher.store.create(id, OwnerId(1), &walker).unwrap(), walker));
    }

    fn observe(&mut self, from: usize) {
        let tick = self.publisher.store.tick();
        let pivots = Pivots::Object(self.objects[from].0);
        let observer = Observer::new(Arc::clone(&self.policy), pivots, tick);
        self.observers.push(self.publisher.add(observer));
    }

    fn change(&mut self) {
        for (slot, walker) in &mut self.objects {
            walker.pos[0] += self.rng.f32() * 2.0 - 1.0;
            walker.yaw = (walker.yaw + 0.1) % 3.0;
            if self.rng.u32(..300) == 0 {
                walker.pos[1] = self.rng.f32() * SIDE;
            }
            self.publisher.store.set(*slot, walker).unwrap();
        }
        // An observer whose pivot was removed has no pivots from then on.
        if self.rng.u32(..3) == 0 {
            let (gone, _) = self.objects.swap_remove(self.rng.usize(..self.objects.len()));
            self.publisher.store.remove(gone).unwrap();
            self.create();
        }
        if self.rng.u32(..4) == 0 {
            let gone = self.observers.swap_remove(self.rng.usize(..self.observers.len()));
            self.publisher.remove(gone);
            let from = self.rng.usize(..self.objects.len());
            self.observe(from);
        }
    }

    fn round(&mut self, tick: u32) {
        let now = ROUND * tick;
        self.publisher.set_strain(Strain::new(if (60..90).contains(&tick) { 4.0 } else { 0.0 }));
        let before = self.sent.len();
        let sent = &mut self.sent;
        self.publisher.round(Tick(tick), now, |to, packet| sent.push((to, packet.to_vec())));
        for (to, packet) in &self.sent[before..] {
            if self.rng.u32(..10) > 0 {
                let newest = u16::from_le_bytes([packet[1], packet[2]]);
                self.publisher.on_ack(*to, &Ack { newest, before: 0 }, now);
            }
        }
    }
}

fn run(threads: impl Fn(u32) -> Threads) -> Sent {
    let mut crowd = Crowd::new(7);
    for tick in 1..=TICKS {
        crowd.publisher.set_threads(threads(tick));
        crowd.change();
        crowd.round(tick);
    }
    let (totals, strained) = (crowd.publisher.ever(), crowd.publisher.strained());
    Sent { packets: crowd.sent, totals, strained }
}

#[test]
fn the_same_bytes_leave_in_the_same_order_for_any_number_of_threads() {
    let one = run(|_| Threads::default());
    assert!(one.packets.len() > 10_000 && one.totals.notices > 100 && one.strained.grades > 1_000);
    let pools = [2, 8].map(|count| Threads::new(count).unwrap());
    for pool in &pools {
        assert!(run(|_| pool.clone()) == one, "{} threads send something else", pool.count());
    }
    let changing = run(|tick| pools[tick as usize % pools.len()].clone());
    assert!(changing == one, "with another number of threads in each round something else is sent");
}

//! A replica converges after any loss pattern once the link works again.

mod common;

use common::{Avatar, World};
use foveate_sync::Slot;
use foveate_sync::interest::{Policy, presets};
use foveate_sync::replica::Life;
use foveate_wire::ObjectId;
use proptest::prelude::*;
use std::sync::Arc;

/// Rounds over a good link that are enough to converge.
const SETTLED: u32 = 60;

fn policies() -> Vec<Arc<dyn Policy>> {
    let views = [
        presets::broadcast(),
        presets::normal(60.0, 120.0),
        presets::vfc(40.0, 80.0),
        presets::circle(150.0),
        presets::a3(150.0, 100),
    ];
    views.iter().map(|view| view.build().unwrap()).collect()
}

/// The history of one world, generated from a seed.
struct Story {
    rng: fastrand::Rng,
    world: World,
    slots: Vec<(Slot, Avatar, [f32; 2])>,
    /// Ids of removed objects, some of which are used again.
    removed: Vec<ObjectId>,
    births: u32,
}

impl Story {
    fn new(seed: u64, policy: usize) -> Story {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut world = World::new();
        let mut slots = Vec::new();
        for _ in 0..rng.usize(2..9) {
            let avatar = Avatar::at(rng.f32() * 200.0, rng.f32() * 200.0);
            slots.push((world.create(&avatar), avatar, [0.0; 2]));
        }
        let eyes = slots[0].0;
        world.observe(eyes, policies()[policy].clone());
        Story { rng, world, slots, removed: Vec::new(), births: 0 }
    }

    /// Objects walk, turn, get hurt, jump, stop, appear and vanish.
    fn live(&mut self, birth: bool) {
        let rng = &mut self.rng;
        for (slot, avatar, velocity) in &mut self.slots {
            match rng.u32(0..40) {
                0..3 => *velocity = [rng.f32() * 3.0 - 1.5, rng.f32() * 3.0 - 1.5],
                3..6 => *velocity = [0.0; 2],
                6 => avatar.pos = [rng.f32() * 200.0, rng.f32() * 200.0, rng.f32() * 30.0],
                7..9 => avatar.yaw = rng.f32() * 6.0,
                9 => avatar.health = rng.u8(..),
                _ => {}
            }
            avatar.pos[0] += velocity[0];
            avatar.pos[1] += velocity[1];
            self.world.publisher.store.set(*slot, avatar).unwrap();
        }
        if birth && rng.u32(0..30) == 0 && self.slots.len() > 2 {
            let (slot, ..) = self.slots.swap_remove(1 + rng.usize(0..self.slots.len() - 1));
            self.removed.push(self.world.publisher.store.id(slot));
            self.world.publisher.store.remove(slot).unwrap();
        }
        if birth && rng.u32(0..30) == 0 {
            let avatar = Avatar::at(rng.f32() * 200.0, rng.f32() * 200.0);
            // Every second one under the id of a removed one.
            self.births += 1;
            let name = if self.births.is_multiple_of(2) { self.removed.pop() } else { None };
            let slot = match name {
                Some(id) => self.world.create_as(id, &avatar),
                None => self.world.create(&avatar),
            };
            self.slots.push((slot, avatar, [0.0; 2]));
        }
    }

    fn run(&mut self, rounds: u32, loss: f32) {
        for _ in 0..rounds {
            self.live(true);
            let mut rng = self.rng.fork();
            // Bursts, reordering and duplicates together.
            let mut burst = 0;
            self.world.round(&mut |_| {
                if burst > 0 || rng.f32() < loss {
                    burst = if burst > 0 { burst - 1 } else { rng.u32(0..3) };
                    return vec![];
                }
                let copies = if rng.u32(0..8) == 0 { 2 } else { 1 };
                (0..copies).map(|_| rng.u32(0..5)).collect()
            });
        }
    }

    /// All objects stop, and the last packets before that are lost.
    fn stop_and_lose_the_last(&mut self) {
        for (_, _, velocity) in &mut self.slots {
            *velocity = [0.0; 2];
        }
        for (slot, avatar, _) in &mut self.slots {
            avatar.pos[0] += 1.7;
            avatar.health = avatar.health.wrapping_add(1);
            self.world.publisher.store.set(*slot, avatar).unwrap();
        }
        self.world.round(&mut |_| vec![]);
        self.world.round(&mut |_| vec![]);
    }

    /// The differences between the truth and the observer's replicas, in words.
    fn wrong(&self) -> Vec<String> {
        let store = &self.world.publisher.store;
        let mut wrong = Vec::new();
        for (slot, ..) in &self.slots[1..] {
            let id = store.id(*slot);
            let wanted = self.world.publisher.grade_of(self.world.seats[0].0, *slot).is_some();
            if wanted && self.world.seats[0].1.get(id).is_none_or(|view| view.life() != Life::Live)
            {
                wrong.push(format!("{id:?} is of interest, but not live"));
            }
        }
        for view in self.world.seats[0].1.iter() {
            let Some(slot) = store.find(view.id()) else {
                wrong.push(format!("{:?} was removed, but is still {:?}", view.id(), view.life()));
                continue;
            };
            // Out of interest it is frozen; near its edge A³ allows a difference to last for
            // minutes.
            let grade = self.world.publisher.grade_of(self.world.seats[0].0, slot);
            let patience = common::ROUND * (SETTLED / 2);
            if view.life() != Life::Live || grade.is_none_or(|(grade, _)| grade.max_age > patience)
            {
                continue;
            }
            let truth: Avatar = store.get(slot).unwrap();
            let eyes = store.position(self.slots[0].0).0;
            let distance = gap(eyes, truth.pos);
            let floor = 0.126f32.max(0.25f32.to_radians() * distance) + 0.01;
            let at = view.predicted(foveate_wire::Tick(self.world.tick)).unwrap().0;
            if gap(at, truth.pos) > floor {
                wrong.push(format!("{:?} at {at:?}, really {:?}", view.id(), truth.pos));
            }
            let believed: Avatar = view.value().unwrap();
            if believed.health != truth.health {
                wrong.push(format!(
                    "{:?} health {} not {}",
                    view.id(),
                    believed.health,
                    truth.health
                ));
            }
            let turn = (believed.yaw - truth.yaw).rem_euclid(std::f32::consts::TAU);
            if turn.min(std::f32::consts::TAU - turn) > 16.6f32.to_radians() {
                wrong.push(format!("{:?} yaw {} not {}", view.id(), believed.yaw, truth.yaw));
            }
        }
        wrong
    }
}

fn gap(a: [f32; 3], b: [f32; 3]) -> f32 {
    (0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f32>().sqrt()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn replicas_converge_after_any_loss(
        seed: u64,
        policy in 0usize..5,
        loss in 0.0f32..1.0,
        rounds in 1u32..200,
    ) {
        let mut story = Story::new(seed, policy);
        story.run(rounds, loss);
        story.stop_and_lose_the_last();
        story.world.settle(SETTLED);
        prop_assert!(story.wrong().is_empty(), "{:#?}", story.wrong());
    }
}

#[test]
fn replica_converges_after_lost_final_update() {
    for policy in 0..5 {
        let mut world = World::new();
        let (eyes, other) =
            (world.create(&Avatar::at(0.0, 0.0)), world.create(&Avatar::at(20.0, 0.0)));
        let seat = world.observe(eyes, policies()[policy].clone());
        world.settle(20);
        for step in 1..=10 {
            world.publisher.store.set(other, &Avatar::at(20.0 + step as f32, 0.0)).unwrap();
            world.settle(1);
        }
        let last = Avatar { health: 7, ..Avatar::at(35.0, 3.0) };
        world.publisher.store.set(other, &last).unwrap();
        world.round(&mut |_| vec![]);
        assert_ne!(world.believed(seat, other).unwrap().health, 7, "the last update was lost");
        world.settle(40);
        assert_eq!(world.believed(seat, other), Some(last));
    }
}

/// A packet has 16 bits of its tick: the observer must not lose count while nothing is sent.
#[test]
fn a_world_that_stood_still_for_hours_goes_on() {
    for silence in [4_000, 32_700, 33_000, 60_000, 70_000] {
        let mut world = World::new();
        let (eyes, other) =
            (world.create(&Avatar::at(0.0, 0.0)), world.create(&Avatar::at(20.0, 0.0)));
        let seat = world.observe(eyes, policies()[0].clone());
        world.settle(20);
        let before = world.publisher.totals().packets;
        world.settle(silence);
        assert!(world.publisher.totals().packets - before <= u64::from(silence / 4_000));
        let hurt = Avatar { health: 7, ..Avatar::at(21.0, 0.0) };
        world.publisher.store.set(other, &hurt).unwrap();
        world.settle(10);
        assert_eq!(world.believed(seat, other), Some(hurt), "after {silence} rounds");
    }
}

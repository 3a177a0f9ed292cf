//! Fields that only those are told who look from the object.

use foveate_sync::interest::presets;
use foveate_sync::{Observer, ObserverId, Pivots, Publisher, ReplicaSet, Rounds, Slot};
use foveate_wire::{KindId, Micros, ObjectId, OwnerId, Replicate, Schema, Tick};
use std::sync::Arc;

#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 40.0)]
struct Gambler {
    #[replicate(place, motion)]
    pos: [f32; 2],
    #[replicate(own)]
    cards: u32,
    stake: u8,
}

struct Table {
    publisher: Publisher,
    seats: Vec<(ObserverId, ReplicaSet)>,
    slots: Vec<Slot>,
    round: u32,
    rng: fastrand::Rng,
    loss: f64,
}

impl Table {
    fn new(seed: u64) -> Table {
        let schema = Arc::new(Schema::new(vec![Gambler::spec()]).unwrap());
        let mut publisher = Publisher::new(schema.clone(), Rounds::every(Micros(50_000)));
        let (mut seats, mut slots) = (Vec::new(), Vec::new());
        for n in 0..3 {
            let gambler = Gambler { pos: [n as f32, 0.0], cards: 100 + n, stake: 1 };
            let id = ObjectId::new(KindId(0), 0, n);
            let slot = publisher.store.create(id, OwnerId(0), &gambler).unwrap();
            let view = presets::circle(50.0).build().unwrap();
            let seat = publisher.add(Observer::new(view, Pivots::Object(slot), Tick(0)));
            seats.push((seat, ReplicaSet::new(schema.clone(), Tick(0))));
            slots.push(slot);
        }
        let rng = fastrand::Rng::with_seed(seed);
        Table { publisher, seats, slots, round: 0, rng, loss: 0.0 }
    }

    fn play(&mut self, rounds: u32) {
        for _ in 0..rounds {
            self.round += 1;
            let now = Micros(50_000) * self.round;
            let mut sent = Vec::new();
            self.publisher
                .round(Tick(self.round), now, |to, bytes| sent.push((to, bytes.to_vec())));
            for (to, bytes) in sent {
                let lost = self.rng.f64() < self.loss;
                let Some((id, replicas)) = self.seats.iter_mut().find(|(id, _)| *id == to) else {
                    continue;
                };
                if !lost {
                    replicas.receive(&bytes, |_| {}).unwrap();
                    self.publisher.on_ack(*id, &replicas.ack().unwrap(), now);
                }
            }
        }
    }

    fn seen(&self, seat: usize, of: usize) -> Gambler {
        let id = self.publisher.store.id(self.slots[of]);
        self.seats[seat].1.get(id).unwrap().value().unwrap()
    }

    fn set(&mut self, of: usize, change: impl Fn(&mut Gambler)) {
        let mut gambler: Gambler = self.publisher.store.get(self.slots[of]).unwrap();
        change(&mut gambler);
        self.publisher.store.set(self.slots[of], &gambler).unwrap();
    }
}

#[test]
fn only_the_own_player_reads_them_whatever_is_lost() {
    for seed in 0..50 {
        let mut table = Table::new(seed);
        table.loss = 0.3;
        for round in 0..200 {
            table.set(0, |gambler| gambler.cards += 1);
            if round % 7 == 0 {
                table.set(1, |gambler| gambler.stake += 1);
                table.set(0, |gambler| gambler.pos[0] += 1.0);
            }
            table.play(1);
        }
        table.loss = 0.0;
        table.play(40);
        for (seat, of) in [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)] {
            let truth: Gambler = table.publisher.store.get(table.slots[of]).unwrap();
            let cards = if seat == of { truth.cards } else { 0 };
            assert_eq!(table.seen(seat, of), Gambler { cards, ..truth }, "seed {seed} {seat} {of}");
        }
    }
}

#[test]
fn a_change_of_them_alone_costs_others_nothing() {
    let mut table = Table::new(1);
    table.play(20);
    let bytes = |table: &Table, seat: usize| {
        table.publisher.observer(table.seats[seat].0).unwrap().counters().bytes
    };
    let before = [bytes(&table, 0), bytes(&table, 1)];
    for _ in 0..50 {
        table.set(0, |gambler| gambler.cards += 1);
        table.play(1);
    }
    assert!(bytes(&table, 0) > before[0] + 100);
    assert_eq!(bytes(&table, 1), before[1]);
}

#[test]
fn who_looks_through_other_eyes_reads_what_they_read() {
    let mut table = Table::new(2);
    table.play(20);
    assert_eq!(table.seen(0, 2).cards, 0);
    let (id, slot) = (table.seats[0].0, table.slots[2]);
    table.publisher.observer_mut(id).unwrap().set_pivots(Pivots::Object(slot));
    table.play(5);
    assert_eq!((table.seen(0, 2).cards, table.seen(0, 0).cards), (102, 0), "and not their own");
}

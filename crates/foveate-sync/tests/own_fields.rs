//! Fields that are only sent to observers with the object as a pivot, and fields that other teams
//! receive less exactly.

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
    #[replicate(max = 100, coarse = 25)]
    chips: u8,
    #[replicate(team)]
    signal: u8,
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
            let (pos, cards) = ([n as f32, 0.0], 100 + n);
            let gambler = Gambler { pos, cards, stake: 1, chips: 60, signal: 3 };
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

    /// What a seat should know of a gambler now.
    fn told(&self, seat: usize, of: usize) -> Gambler {
        let store = &self.publisher.store;
        let truth: Gambler = store.get(self.slots[of]).unwrap();
        if seat == of {
            return truth;
        }
        let team = self.publisher.observer(self.seats[seat].0).unwrap().team();
        let is_mate = team != 0 && team == store.team(self.slots[of]);
        let chips = if is_mate { truth.chips } else { truth.chips.div_ceil(25) * 25 };
        let signal = if is_mate { truth.signal } else { 0 };
        Gambler { cards: 0, chips, signal, ..truth }
    }

    /// Puts a gambler and its seat into a team.
    fn join(&mut self, who: usize, team: u8) {
        self.publisher.store.set_team(self.slots[who], team).unwrap();
        self.publisher.observer_mut(self.seats[who].0).unwrap().set_team(team);
    }

    fn set(&mut self, of: usize, change: impl Fn(&mut Gambler)) {
        let mut gambler: Gambler = self.publisher.store.get(self.slots[of]).unwrap();
        change(&mut gambler);
        self.publisher.store.set(self.slots[of], &gambler).unwrap();
    }
}

#[test]
fn only_the_own_player_receives_them_under_any_loss() {
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
            assert_eq!(table.seen(seat, of), table.told(seat, of), "seed {seed} {seat} {of}");
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
fn an_observer_with_another_pivot_receives_that_objects_fields() {
    let mut table = Table::new(2);
    table.play(20);
    assert_eq!(table.seen(0, 2).cards, 0);
    let (id, slot) = (table.seats[0].0, table.slots[2]);
    table.publisher.observer_mut(id).unwrap().set_pivots(Pivots::Object(slot));
    table.play(5);
    assert_eq!((table.seen(0, 2).cards, table.seen(0, 0).cards), (102, 0), "and not their own");
}

#[test]
fn other_teams_receive_coarse_values_and_no_secrets_under_any_loss_and_change_of_teams() {
    for seed in 0..50 {
        let mut table = Table::new(seed);
        table.loss = 0.3;
        table.join(0, 1);
        table.join(1, 1);
        table.join(2, 2);
        for round in 0..240u32 {
            table.set(0, |gambler| gambler.chips = (gambler.chips + 7) % 101);
            table.set(1, |gambler| gambler.signal = (round / 3 % 9) as u8);
            match round {
                80 => table.join(1, 2),
                160 => table.join(0, 0),
                _ => {}
            }
            table.play(1);
            // Nothing is ever sent that should not be; what a team mate received stays known.
            let there = |seat: usize, of: usize| {
                let id = table.publisher.store.id(table.slots[of]);
                table.seats[seat].1.get(id).and_then(|view| view.value::<Gambler>())
            };
            assert!(there(2, 0).is_none_or(|it| it.chips % 25 == 0), "seed {seed} round {round}");
            assert!(round >= 80 || there(2, 1).is_none_or(|it| it.signal == 0));
        }
        table.loss = 0.0;
        table.play(40);
        for (seat, of) in (0..9).map(|n| (n / 3, n % 3)) {
            assert_eq!(table.seen(seat, of), table.told(seat, of), "seed {seed} {seat} {of}");
        }
        assert_eq!(table.seen(2, 1).signal, table.told(1, 1).signal, "they are mates now");
        assert_eq!(table.seen(0, 1).signal, 0, "and these are not");
    }
}

#[test]
fn a_change_within_a_coarse_step_costs_rivals_nothing_and_mates_receive_it() {
    let mut table = Table::new(3);
    table.join(0, 1);
    table.join(1, 1);
    table.join(2, 2);
    table.play(20);
    let bytes = |table: &Table, seat: usize| {
        table.publisher.observer(table.seats[seat].0).unwrap().counters().bytes
    };
    let before = [bytes(&table, 1), bytes(&table, 2)];
    for chips in 51..75 {
        table.set(0, |gambler| gambler.chips = chips);
        table.play(1);
    }
    assert!(bytes(&table, 1) > before[0] + 50);
    assert_eq!(bytes(&table, 2), before[1]);
    assert_eq!((table.seen(1, 0).chips, table.seen(2, 0).chips), (74, 75));
}

#[test]
fn a_node_that_runs_rules_receives_what_a_mate_does() {
    let mut table = Table::new(4);
    table.join(0, 1);
    table.play(1);
    let schema = table.seats[0].1.schema().clone();
    let view = presets::circle(50.0).build().unwrap();
    let eyes = Pivots::Object(table.slots[1]);
    let seat = table.publisher.add(Observer::new(view, eyes, Tick(0)).with_rules());
    table.seats.push((seat, ReplicaSet::new(schema, Tick(0))));
    table.play(10);
    let seen = table.seen(3, 0);
    assert_eq!((seen.cards, seen.chips, seen.signal), (0, 60, 3));
}

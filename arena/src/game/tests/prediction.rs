//! A client reruns its avatar's steps, and is never corrected.

use super::*;
use crate::movement::FULL_INPUT;
use foveate_node::game::{Effects, Scene};
use foveate_sync::{Observer, Pivots, ReplicaSet};
use foveate_wire::{Metres, Micros, Position};

/// The least that a client knows: its own avatar.
struct Alone<'a>(&'a Schema);

impl Scene for Alone<'_> {
    fn schema(&self) -> &Schema {
        self.0
    }
    fn read(&self, _: ObjectId, _: Option<Tick>, _: &mut [i32]) -> bool {
        false
    }
    fn near(&self, _: Position, _: Metres, _: &mut Vec<ObjectId>) {}
    fn of_kind(&self, _: KindId, _: &mut Vec<ObjectId>) {}
}

/// One step, as a client reruns it: its effects are dropped.
fn rerun(arena: &Arena, lanes: &mut [i32], tick: Tick, given: &[Controls]) {
    let (alone, mut effects) = (Alone(arena.schema()), Effects::default());
    let kind = arena.schema().kind(AVATAR).unwrap();
    let world = World::new(&alone, tick);
    arena.step(&mut StepContext::new(Avatar::of(1), kind, lanes, world, &mut effects), given);
}

/// A world of one team, in which only inputs move avatars.
fn peaceful(players: u32, rng: &mut Rng) -> Practice {
    let setup = Setup { units: 0, bases: 0, items: 0, ..Setup::for_players(100, 4) };
    let mut practice = Practice::new(setup, 0).unwrap();
    let graph = practice.simulation.game.map().graph().clone();
    for player in 1..=players {
        let node = graph.node_at_share(rng.f64());
        spawn(&mut practice, player, &Avatar::at(Place::near(graph.node(node).place), 1));
    }
    practice
}

/// Keys that are held for a while, as players do; late inputs come in pairs, lost ones not at all.
fn random(rng: &mut Rng, seen: Tick) -> Vec<Controls> {
    let mut held = Rng::with_seed(u64::from(seen.0 / 9) * 31 + rng.u64(0..2));
    let key = |rng: &mut Rng| [-FULL_INPUT, 0, 60, FULL_INPUT][rng.usize(0..4)];
    let walk = ArenaInput { forward: key(&mut held), strafe: key(&mut held), yaw: rng.u16(..) };
    let count = [0, 1, 1, 1, 2][rng.usize(0..5)];
    let hands = [Hands::Blaster, Hands::Scatter, Hands::Lance, Hands::Unit(0)];
    let hands = hands[held.usize(0..4)];
    (0..count).map(|_| Controls { walk, fire: rng.bool().then_some(seen.0), hands }).collect()
}

#[test]
fn a_rerun_of_a_step_gives_the_owners_lanes() {
    let mut rng = Rng::with_seed(11);
    let mut practice = peaceful(40, &mut rng);
    let arena = Arc::clone(&practice.simulation.game);
    for _ in 0..400 {
        let now = practice.tick();
        let mut predicted = Vec::new();
        for id in (1..=40).map(Avatar::of) {
            let store = &practice.simulation.publisher.store;
            let mut lanes = store.committed(store.find(id).unwrap()).unwrap().to_vec();
            let given = random(&mut rng, now);
            rerun(&arena, &mut lanes, now.plus(1), &given);
            given.iter().for_each(|input| assert!(practice.simulation.input(id, *input)));
            predicted.push((id, lanes));
        }
        practice.step();
        for (id, lanes) in predicted {
            let store = &practice.simulation.publisher.store;
            assert_eq!(store.lanes(store.find(id).unwrap()), lanes);
        }
    }
}

#[test]
fn a_client_predicts_exactly_from_what_came_over_the_wire() {
    let mut rng = Rng::with_seed(3);
    let mut practice = peaceful(20, &mut rng);
    let arena = Arc::clone(&practice.simulation.game);
    let publisher = &mut practice.simulation.publisher;
    let me = publisher.store.find(Avatar::of(1)).unwrap();
    let view = arena.view(0).unwrap().build_in(&GameViews(&*arena)).unwrap();
    let start = publisher.store.tick();
    let observer = publisher.add(Observer::new(view, Pivots::Object(me), start));
    let mut client = ReplicaSet::new(Arc::clone(arena.schema()), start);
    let mut given: Vec<(Tick, Vec<Controls>)> = Vec::new();
    let mut oldest = 0;
    for tick in (1..600).map(|ticks| start.plus(ticks)) {
        for player in 1..=20 {
            let inputs = random(&mut rng, tick.minus(1));
            inputs
                .iter()
                .for_each(|input| assert!(practice.simulation.input(Avatar::of(player), *input)));
            if player == 1 {
                given.push((tick, inputs));
            }
        }
        practice.simulation.step(tick, |_, _| {});
        let now = Micros(50_000) * tick.0;
        practice.simulation.publisher.round(tick, now, |_, bytes| {
            // One packet in three is lost.
            if !tick.0.is_multiple_of(3) {
                client.receive(bytes, |_| {}).unwrap();
            }
        });
        client
            .ack()
            .iter()
            .for_each(|ack| practice.simulation.publisher.on_ack(observer, ack, now));
        let Some(replica) = client.get(Avatar::of(1)) else { continue };
        let mut lanes = replica.lanes().to_vec();
        for (tick, inputs) in given.iter().filter(|(tick, _)| tick.is_after(replica.tick())) {
            rerun(&arena, &mut lanes, *tick, inputs);
        }
        oldest = oldest.max(tick.since(replica.tick()));
        assert_eq!(practice.simulation.publisher.store.lanes(me), lanes, "at {tick:?}");
    }
    assert!(oldest > 1, "some of it was predicted");
}

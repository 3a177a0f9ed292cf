//! What rules are given: the objects of the world by type and by place, and random numbers.

use foveate_node::game::{Effects, Game, PlayerId, Requester, Scene, Spawn, StepContext, World};
use foveate_node::{Simulation, WorldSeed};
use foveate_sync::Rounds;
use foveate_sync::interest::{View, presets};
use foveate_wire::{Micros, ObjectId, Replicate, Schema, Tick};
use std::sync::Arc;

#[derive(Replicate, Clone, PartialEq, Debug)]
struct Walker {
    #[replicate(place)]
    pos: [f32; 2],
}

/// Stores the numbers that it draws, in its step and in up to three actions.
#[derive(Replicate, Clone, Copy, PartialEq, Debug, Default)]
struct Die {
    #[replicate(place)]
    pos: [f32; 2],
    stepped: u32,
    acted: u8,
    first: u32,
    second: u32,
    third: u32,
}

const SIDES: u32 = 1 << 20;

struct Table(Arc<Schema>);

impl Game for Table {
    type Input = ();
    type Action = ();
    type Event = ();

    fn schema(&self) -> &Arc<Schema> {
        &self.0
    }

    fn populate(&self) -> Vec<Spawn> {
        Spawn::each(&self.0, [0.0, 3.0, 4.0].map(|x| Die { pos: [x, 0.0], ..Die::default() }))
    }

    fn welcome(&self, _: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        Spawn::each(&self.0, [Walker { pos: [player.0 as f32, 1.0] }])
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, _: &[()]) {
        let Some(mut die) = turn.get::<Die>() else { return };
        die.stepped = turn.random_below(SIDES);
        turn.set(&die);
    }

    fn act(&self, turn: &mut StepContext<'_, Self>, (): &(), _: Requester) {
        let Some(mut die) = turn.get::<Die>() else { return };
        let drawn = [&mut die.first, &mut die.second, &mut die.third];
        *drawn[usize::from(die.acted)] = turn.random_below(SIDES);
        die.acted += 1;
        turn.set(&die);
    }

    fn view(&self, _: u8) -> Option<View> {
        Some(presets::broadcast())
    }
}

fn simulation(seed: u8) -> Simulation<Table> {
    let schema = Schema::of::<(Walker, Die)>().unwrap();
    let rounds = Rounds::every(Micros::from_millis(50));
    let mut simulation = Simulation::new(Arc::new(Table(schema)), rounds);
    simulation.seed = WorldSeed([seed; 16]);
    simulation.populate().unwrap();
    let welcome = simulation.game.welcome(&simulation.world(), PlayerId(7), "ada");
    simulation.spawn(PlayerId(7), &welcome[0]).unwrap();
    step(&mut simulation, 1);
    simulation
}

fn step(simulation: &mut Simulation<Table>, tick: u32) {
    simulation.step(Tick(tick), |_, ()| {});
    simulation.publisher.round(Tick(tick), Micros(u64::from(tick) * 50_000), |_, _| {});
}

fn dice(simulation: &Simulation<Table>) -> Vec<(ObjectId, Die)> {
    simulation.world().iter::<Die>().collect()
}

#[test]
fn a_world_is_read_by_type_and_by_place() {
    let simulation = simulation(1);
    let world = simulation.world();
    let xs: Vec<f32> = world.iter::<Die>().map(|(_, die)| die.pos[0]).collect();
    assert_eq!(xs, [0.0, 3.0, 4.0], "all of one type, in the order of their ids");
    let (id, walker) = world.iter::<Walker>().next().unwrap();
    assert_eq!((id, walker.pos), (simulation.game.avatar_of(PlayerId(7)), [7.0, 1.0]));
    let near = |radius| world.iter_near::<Die>([0.0, 0.0], radius).count();
    assert_eq!([near(2.9), near(3.0), near(3.9), near(100.0)], [1, 2, 2, 3]);
    assert_eq!(world.iter_near::<Die>([0.0, 0.0, 3.0], 3.0).count(), 1, "three coordinates");
    assert_eq!(world.near([7.0, 1.0], 0.5), [id]);
}

#[test]
fn rules_draw_the_same_numbers_from_the_same_seed_only() {
    assert_eq!(dice(&simulation(1)), dice(&simulation(1)));
    let drawn = |seed| dice(&simulation(seed)).iter().map(|it| it.1.stepped).collect::<Vec<_>>();
    let (one, other) = (drawn(1), drawn(2));
    assert!(one.iter().zip(&other).all(|(a, b)| a != b), "{one:?} and {other:?}");
    assert!(one[0] != one[1] && one[1] != one[2], "objects draw apart: {one:?}");
    let mut later = simulation(1);
    step(&mut later, 2);
    assert_ne!(dice(&later)[0].1.stepped, one[0], "and ticks do");
}

#[test]
fn actions_of_one_tick_draw_different_numbers_and_leave_the_step_its_own() {
    let (mut asked, mut alone) = (simulation(1), simulation(1));
    let die = dice(&asked)[0].0;
    for _ in 0..3 {
        assert!(asked.ask(die, (), Requester::Player(PlayerId(7), Tick(1))));
    }
    step(&mut asked, 2);
    step(&mut alone, 2);
    let Die { stepped, first, second, third, acted, .. } = dice(&asked)[0].1;
    assert_eq!((stepped, acted), (dice(&alone)[0].1.stepped, 3));
    assert!(first != second && second != third && first != third && first != stepped);
}

#[test]
fn a_prediction_draws_from_a_seed_of_its_own() {
    let simulation = simulation(1);
    let (id, _) = dice(&simulation)[0];
    let kind = simulation.schema().kind(id.kind()).unwrap();
    let mut lanes = vec![0; kind.lane_count()];
    let (mut effects, world) = (Effects::<Table>::default(), World::new(&simulation, Tick(1)));
    let mut predicted = StepContext::new(id, kind, &mut lanes, world, &mut effects);
    let drawn: Vec<u32> = (0..4).map(|_| predicted.random_below(SIDES)).collect();
    assert!(!drawn.contains(&dice(&simulation)[0].1.stepped), "{drawn:?}");
}

#[test]
fn random_numbers_fill_their_range_evenly_and_stay_within() {
    let simulation = simulation(1);
    let (id, _) = dice(&simulation)[0];
    let kind = simulation.schema().kind(id.kind()).unwrap();
    let mut lanes = vec![0; kind.lane_count()];
    let (mut effects, world) = (Effects::<Table>::default(), World::new(&simulation, Tick(1)));
    let mut turn = StepContext::new(id, kind, &mut lanes, world, &mut effects);
    let mut sides = [0u32; 6];
    for _ in 0..6_000 {
        sides[turn.random_below(6) as usize] += 1;
        assert!((0.0..1.0).contains(&turn.random()));
    }
    assert!(sides.iter().all(|count| (800..1_200).contains(count)), "{sides:?}");
    assert_eq!((turn.random_below(0), turn.random_below(1)), (0, 0));
}

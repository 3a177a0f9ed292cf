//! Watches bots play: how lively a match is, and what it costs.
//!
//! `cargo run --release -p foveate-arena --example watch -- [bots] [minutes] [seed]`

use foveate_arena::game::kinds::{Avatar, Base, Match};
use foveate_arena::game::{Event, kinds};
use foveate_arena::{Arena, Fighter, Setup, Skill};
use foveate_node::game::{Brain, By, Game, PlayerId};
use foveate_node::{Stage, game::World};
use foveate_sync::Rounds;
use foveate_wire::{Micros, ObjectId, Tick};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What was counted.
#[derive(Default)]
struct Tally {
    shots: u32,
    hits: u32,
    kills: u32,
    captures: u32,
    taken: u32,
    rounds: u32,
    moving: u32,
    alive: u32,
    at_base: u32,
    samples: u32,
    longest_stand: u32,
}

impl Tally {
    fn count(&mut self, event: &Event) {
        match event {
            Event::Shot { hit, .. } => {
                self.shots += 1;
                self.hits += u32::from(*hit);
            }
            Event::Died { .. } => self.kills += 1,
            Event::Captured { .. } => self.captures += 1,
            Event::Taken { .. } => self.taken += 1,
            Event::Won { .. } => self.rounds += 1,
            _ => {}
        }
    }

    fn look(&mut self, world: &World<'_>, stands: &mut [(foveate_arena::Point, u32)]) {
        let bases: Vec<Base> =
            world.of_kind(kinds::BASE).iter().filter_map(|id| world.get(*id)).collect();
        for id in world.of_kind(kinds::AVATAR) {
            let Some(avatar) = world.get::<Avatar>(id) else { continue };
            let (spot, since) = &mut stands[id.origin() as usize - 1];
            *since += 1;
            if spot.distance(avatar.point()) > 2.0 || !avatar.is_alive() {
                (*spot, *since) = (avatar.point(), 0);
            }
            self.longest_stand = self.longest_stand.max(*since);
            self.samples += 1;
            self.alive += u32::from(avatar.is_alive());
            self.moving += u32::from(avatar.is_alive() && avatar.vx.hypot(avatar.vy) > 0.1);
            let near = |base: &Base| kinds::point(base.pos).distance(avatar.point()) < 6.0;
            self.at_base += u32::from(avatar.is_alive() && bases.iter().any(near));
        }
    }
}

// The only clock in the arena: it times, and decides nothing.
#[allow(clippy::disallowed_methods)]
fn timed<T>(total: &mut Duration, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = run();
    *total += start.elapsed();
    value
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>());
    let bots = numbers.next().transpose()?.unwrap_or(60) as usize;
    let minutes = numbers.next().transpose()?.unwrap_or(5) as u32;
    let seed = numbers.next().transpose()?.unwrap_or(1);
    let arena = Arc::new(Arena::new(Setup::for_players(bots, seed))?);
    let mut stage = Stage::new(Arc::clone(&arena), Rounds::every(Micros::from_millis(50)));
    stage.populate()?;
    let mut fighters = Vec::new();
    for index in 0..bots {
        let player = PlayerId(index as u32 + 1);
        for spawn in arena.welcome(&stage.world(), player, "") {
            stage.spawn(player, &spawn)?;
        }
        fighters.push(Fighter::new(Arc::clone(&arena), Skill::mixed(index), seed, index as u64));
    }
    let mut tally = Tally::default();
    let mut stands = vec![(foveate_arena::Point::new(0.0, 0.0), 0); bots];
    let (mut thinking, mut stepping) = (Duration::ZERO, Duration::ZERO);
    let ticks = minutes * 60 * 20;
    for tick in (1..=ticks).map(Tick) {
        let mut inputs = Vec::new();
        let mut asked: Vec<(ObjectId, _, By)> = Vec::new();
        timed(&mut thinking, || {
            let world = stage.world();
            let mut actions = Vec::new();
            for (index, fighter) in fighters.iter_mut().enumerate() {
                let player = PlayerId(index as u32 + 1);
                let me = Avatar::of(player.0);
                inputs.push((me, fighter.think(&world, me, &mut actions)));
                let by = By::Player(player, world.tick());
                asked.extend(actions.drain(..).map(|(object, action)| (object, action, by)));
            }
        });
        timed(&mut stepping, || {
            inputs.iter().for_each(|(me, input)| assert!(stage.input(*me, *input)));
            asked.iter().for_each(|(id, action, by)| assert!(stage.ask(*id, *action, *by)));
            stage.step(tick, |_, event| tally.count(&event));
        });
        stage.publisher.round(tick, Micros::from_millis(50) * tick.0, |_, _| {});
        tally.look(&stage.world(), &mut stands);
    }
    let per_minute = |count: u32| f64::from(count) / f64::from(minutes);
    let share = |part: u32, whole: u32| 100.0 * f64::from(part) / f64::from(whole.max(1));
    println!("{bots} bots, {minutes} min, side {}", arena.map().side());
    println!(
        "kills {:.1}/min, captures {:.1}/min",
        per_minute(tally.kills),
        per_minute(tally.captures)
    );
    println!("items {:.1}/min, rounds won {}", per_minute(tally.taken), tally.rounds);
    println!(
        "shots {:.0}/min, {:.0} % hit",
        per_minute(tally.shots),
        share(tally.hits, tally.shots)
    );
    println!(
        "alive {:.0} %, moving {:.0} % of that, at a base {:.0} %, longest stand {:.1} s",
        share(tally.alive, tally.samples),
        share(tally.moving, tally.alive),
        share(tally.at_base, tally.alive),
        f64::from(tally.longest_stand) / 20.0,
    );
    let each = |total: Duration| total.as_secs_f64() * 1e6 / f64::from(ticks) / bots as f64;
    println!("think {:.2} µs, step {:.2} µs per bot and tick", each(thinking), each(stepping));
    println!("{:?}", stage.world().get::<Match>(Match::ID));
    Ok(())
}

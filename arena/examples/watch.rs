//! Watches bots play: how lively a match is.
//!
//! `cargo run --release -p foveate-arena --example watch -- [bots] [minutes] [seed]`

use foveate_arena::game::Event;
use foveate_arena::game::kinds::{self, Avatar, Base, Match};
use foveate_arena::{Point, Practice, Setup};
use foveate_node::game::World;

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
            Event::Shot { hits, .. } => {
                self.shots += 1;
                self.hits += u32::from(*hits > 0);
            }
            Event::Died { .. } => self.kills += 1,
            Event::Captured { .. } => self.captures += 1,
            Event::Taken { .. } => self.taken += 1,
            Event::Won { .. } => self.rounds += 1,
            _ => {}
        }
    }

    fn look(&mut self, world: &World<'_>, stands: &mut [(Point, u32)]) {
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>());
    let bots = numbers.next().transpose()?.unwrap_or(60) as usize;
    let minutes = numbers.next().transpose()?.unwrap_or(5) as u32;
    let seed = numbers.next().transpose()?.unwrap_or(1);
    let mut practice = Practice::new(Setup::for_players(bots, seed), bots)?;
    let mut tally = Tally::default();
    let mut stands = vec![(Point::new(0.0, 0.0), 0); bots];
    let ticks = minutes * 60 * 20;
    for _ in 0..ticks {
        practice.think();
        practice.step().iter().for_each(|(_, event)| tally.count(event));
        tally.look(&practice.stage.world(), &mut stands);
    }
    let per_minute = |count: u32| f64::from(count) / f64::from(minutes);
    let share = |part: u32, whole: u32| 100.0 * f64::from(part) / f64::from(whole.max(1));
    println!("{bots} bots, {minutes} min, side {}", practice.stage.game.map().side());
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
    println!("{:?}", practice.stage.world().get::<Match>(Match::ID));
    Ok(())
}

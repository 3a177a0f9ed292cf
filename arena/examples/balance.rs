//! Measures how bots play rounds; `docs/ARENA.md` quotes the table.
//!
//! `cargo run --release -p foveate-arena --example balance -- [bots] [seeds]`

use foveate_arena::game::ArenaEvent;
use foveate_arena::game::kinds::{self, Avatar, Match, RoundPhase, TeamBase, Weapon};
use foveate_arena::{Arena, Point, Practice, Setup, Skill, Yaw};
use foveate_node::game::World;
use foveate_wire::ObjectId;

const WEAPONS: [Weapon; 4] = [Weapon::Blaster, Weapon::Scatter, Weapon::Lance, Weapon::Dart];
const SKILLS: [Skill; 3] = [Skill::Novice, Skill::Regular, Skill::Expert];
/// The number of directions in which cover is searched for, and how near, in units.
const AROUND: (u16, f64) = (32, 20.0);

/// Counts for one weapon.
#[derive(Clone, Copy, Default)]
struct Arm {
    shots: u32,
    hits: u32,
    stopped: u32,
    kills: u32,
    distance: f64,
    held: u32,
}

/// Counts over all rounds.
#[derive(Default)]
struct Tally {
    arms: [Arm; 4],
    ticks: u32,
    wins: [u32; 3],
    margins: Vec<f64>,
    lead_changes: u32,
    first_fights: Vec<f64>,
    captures: u32,
    taken: u32,
    downed: u32,
    points: u32,
    alive: u32,
    moving: u32,
    at_base: u32,
    samples: u32,
    longest_stand: u32,
    cover: (u32, u32),
    /// Kills and deaths by skill.
    skills: [(u32, u32); 3],
}

/// State during one round.
struct Round {
    leader: u8,
    fought: Vec<bool>,
    stands: Vec<(Point, u32)>,
}

impl Tally {
    fn count(&mut self, event: &ArenaEvent, world: &World<'_>) {
        match event {
            ArenaEvent::Shot { weapon, length, hits, .. } => {
                let arm = &mut self.arms[*weapon as usize];
                arm.shots += 1;
                arm.hits += u32::from(*hits > 0);
                let full = (weapon.make().reach * 4.0) as u8;
                arm.stopped += u32::from(*hits == 0 && *length < full);
            }
            ArenaEvent::Died { player, by, weapon } => {
                let at = |player: &u32| world.get::<Avatar>(Avatar::of(*player)).map(|a| a.point());
                let arm = &mut self.arms[*weapon as usize];
                arm.kills += 1;
                arm.distance += at(player).zip(at(by)).map_or(0.0, |(a, b)| a.distance(b));
            }
            ArenaEvent::Captured { .. } => self.captures += 1,
            ArenaEvent::Taken { .. } => self.taken += 1,
            ArenaEvent::Downed { .. } => self.downed += 1,
            _ => {}
        }
    }

    fn look(&mut self, world: &World<'_>, round: &mut Round) {
        let bases: Vec<TeamBase> = world.iter::<TeamBase>().map(|(_, base)| base).collect();
        for (id, avatar) in world.iter::<Avatar>() {
            let (spot, since) = &mut round.stands[id.origin() as usize - 1];
            *since += 1;
            if spot.distance(avatar.point()) > 2.0 || !avatar.is_alive() {
                (*spot, *since) = (avatar.point(), 0);
            }
            self.longest_stand = self.longest_stand.max(*since);
            self.samples += 1;
            if !avatar.is_alive() {
                continue;
            }
            self.alive += 1;
            self.arms[avatar.weapon as usize].held += 1;
            self.moving += u32::from(avatar.vx.hypot(avatar.vy) > 0.1);
            let near = |base: &TeamBase| kinds::point(base.pos).distance(avatar.point()) < 6.0;
            self.at_base += u32::from(bases.iter().any(near));
            let fought = &mut round.fought[id.origin() as usize - 1];
            if avatar.health < kinds::HEALTH && !*fought {
                *fought = true;
                self.first_fights.push(f64::from(world.tick().0) / 20.0);
            }
        }
    }

    /// Counts the lines from bases that end at a wall nearby.
    fn look_for_cover(&mut self, arena: &Arena, world: &World<'_>) {
        for (_, base) in world.iter::<TeamBase>() {
            let at = kinds::point(base.pos);
            for step in 0..AROUND.0 {
                let yaw = Yaw(step * (u16::MAX / AROUND.0)).radians();
                let end = Point::new(at.x + yaw.cos() * AROUND.1, at.y + yaw.sin() * AROUND.1);
                self.cover.0 += u32::from(!arena.map().line_of_sight(at, end));
                self.cover.1 += 1;
            }
        }
    }

    /// Plays one round of one seed.
    fn play(&mut self, bots: usize, seed: u64) -> Result<(), Box<dyn std::error::Error>> {
        let mut practice = Practice::new(Setup::for_players(bots, seed), bots)?;
        let stands = vec![(Point::new(0.0, 0.0), 0); bots];
        let mut round = Round { leader: 0, fought: vec![false; bots], stands };
        let contest = loop {
            practice.think();
            let events = practice.step().to_vec();
            let world = practice.simulation.world();
            events.iter().for_each(|(_, event)| self.count(event, &world));
            let contest = world.get::<Match>(Match::ID).ok_or("there is no match")?;
            if contest.phase == RoundPhase::Break {
                break contest;
            }
            self.look(&world, &mut round);
            let leader = match contest.first.cmp(&contest.second) {
                std::cmp::Ordering::Greater => 1,
                std::cmp::Ordering::Less => 2,
                std::cmp::Ordering::Equal => round.leader,
            };
            self.lead_changes += u32::from(round.leader != 0 && leader != round.leader);
            round.leader = leader;
            if world.tick().0.is_multiple_of(100) {
                self.look_for_cover(&practice.simulation.game, &world);
            }
        };
        self.ticks += practice.tick().0;
        self.wins[usize::from(contest.winner)] += 1;
        let (first, second) = (f64::from(contest.first), f64::from(contest.second));
        self.margins.push((first - second).abs() / first.max(second).max(1.0));
        self.points += u32::from(contest.first) + u32::from(contest.second);
        self.count_skills(&practice.simulation.world(), bots);
        Ok(())
    }

    fn count_skills(&mut self, world: &World<'_>, bots: usize) {
        for index in 0..bots {
            let id: ObjectId = Avatar::of(index as u32 + 1);
            let at = SKILLS.iter().position(|skill| *skill == Skill::mixed(index));
            if let (Some(avatar), Some(at)) = (world.get::<Avatar>(id), at) {
                self.skills[at].0 += u32::from(avatar.kills);
                self.skills[at].1 += u32::from(avatar.deaths);
            }
        }
    }

    fn print(&self, bots: usize, seeds: u64) {
        let minutes = f64::from(self.ticks) / 1_200.0;
        let share = |part: u32, whole: u32| 100.0 * f64::from(part) / f64::from(whole.max(1));
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
        println!("{bots} bots, {seeds} seeds, a round each, {minutes:.1} minutes in all\n");
        println!("| weapon | kills/min | distance of kills | held | shots that hit | stopped |");
        println!("| --- | --- | --- | --- | --- | --- |");
        for (weapon, arm) in WEAPONS.iter().zip(&self.arms) {
            // A unit's player may be anywhere.
            let far = match weapon {
                Weapon::Dart => "–".into(),
                _ => format!("{:.1}", arm.distance / f64::from(arm.kills.max(1))),
            };
            println!(
                "| {} | {:.1} | {far} | {:.0} % | {:.0} % | {:.0} % |",
                format!("{weapon:?}").to_lowercase(),
                f64::from(arm.kills) / minutes,
                share(arm.held, self.alive),
                share(arm.hits, arm.shots),
                share(arm.stopped, arm.shots),
            );
        }
        let kills: u32 = self.arms.iter().map(|arm| arm.kills).sum();
        let per_round = |count: u32| f64::from(count) / seeds as f64;
        println!("\n| of a round | |\n| --- | --- |");
        println!("| length | {:.0} s |", minutes * 60.0 / seeds as f64);
        println!("| won by team 1, team 2, neither | {:?} |", [1, 2, 0].map(|at| self.wins[at]));
        println!("| points by kills | {:.0} % |", share(kills, self.points));
        println!("| margin, of the winner's points | {:.0} % |", 100.0 * mean(&self.margins));
        println!("| changes of the lead | {:.1} |", per_round(self.lead_changes));
        println!("| captures | {:.1} |", per_round(self.captures));
        println!("| items taken | {:.1} |", per_round(self.taken));
        println!("| units shot down | {:.1} |", per_round(self.downed));
        println!("| a bot's first wound after | {:.1} s |", mean(&self.first_fights));
        println!("| alive | {:.0} % |", share(self.alive, self.samples));
        println!("| of these: moving | {:.0} % |", share(self.moving, self.alive));
        println!("| of these: at a base | {:.0} % |", share(self.at_base, self.alive));
        println!("| longest stand | {:.1} s |", f64::from(self.longest_stand) / 20.0);
        let (walls, lines) = self.cover;
        println!("| cover within {} of a base | {:.0} % |", AROUND.1, share(walls, lines));
        println!("\n| skill | kills for a death |\n| --- | --- |");
        for (skill, (kills, deaths)) in SKILLS.iter().zip(&self.skills) {
            let name = format!("{skill:?}").to_lowercase();
            println!("| {name} | {:.2} |", f64::from(*kills) / f64::from((*deaths).max(1)));
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>());
    let bots = numbers.next().transpose()?.unwrap_or(60) as usize;
    let seeds = numbers.next().transpose()?.unwrap_or(20);
    let mut tally = Tally::default();
    (1..=seeds).try_for_each(|seed| tally.play(bots, seed))?;
    tally.print(bots, seeds);
    Ok(())
}

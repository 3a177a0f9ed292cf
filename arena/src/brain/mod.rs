//! Bots that play: they take bases, find items, send units, and shoot at enemies in sight.
//!
//! A [`Fighter`] decides from a [`World`] alone, which may be a client's replicas: it knows what a
//! player would know, with the same errors. Its own state is a plan, an aim and its random numbers.
//! Expensive work is done rarely, and by different bots in different ticks: plans every few
//! seconds, searches for enemies a few times a second. Each tick only steers and aims.

mod aim;
mod plan;
mod skill;

use crate::game::kinds::{Avatar, Weapon, ticks_left};
use crate::game::{Action, Arena, Controls, weapon};
use crate::geometry::{Point, Vector};
use crate::movement::{ArenaInput, FULL_INPUT};
use crate::trig::Yaw;
use aim::{Aim, Foe};
use fastrand::Rng;
use foveate_node::game::{Brain, World};
use foveate_wire::ObjectId;
use plan::Plan;
pub use skill::Skill;
use skill::{Talent, Temper};
use std::sync::Arc;

/// The time between two orders to a unit.
const ORDER: DrawnTime = DrawnTime { least_ms: 10_000, more_ms: 20_000 };
/// How long a fighter follows its way or dodges.
const DODGE: DrawnTime = DrawnTime { least_ms: 400, more_ms: 900 };
/// A bot slower than this, in units per tick, stands still.
const STANDING: f32 = 0.05;
/// A bot that stands still for this many ticks although it wants to move is stuck.
const STUCK_TICKS: u32 = 8;
/// How long a stuck bot moves in a random direction.
const ESCAPE: DrawnTime = DrawnTime { least_ms: 300, more_ms: 500 };
/// A bot whose weapon is not ready for longer than this hides, if its skill includes that; in
/// milliseconds.
const HIDE_MS: u32 = 400;
/// The time between two choices of a weapon, in milliseconds.
const JUDGE_MS: u32 = 500;
/// A bot with this much health is well.
const WELL: u8 = 70;
/// How far to the side it searches for cover, in units.
const ASIDE: f64 = 4.0;
/// Distances to an enemy, in units: with a scatter it comes nearer than the first; a hunter comes
/// nearer than the second; with a lance it stays beyond the third.
const DISTANCES: (f64, f64, f64) = (5.0, 16.0, 18.0);

/// A time that is drawn anew whenever it is needed.
#[derive(Clone, Copy)]
struct DrawnTime {
    least_ms: u32,
    /// The most that is added.
    more_ms: u32,
}

impl DrawnTime {
    fn ticks(self, arena: &Arena, rng: &mut Rng) -> u32 {
        arena.ticks(self.least_ms + rng.u32(0..=self.more_ms))
    }
}

/// What a bot decides from in one tick.
struct Situation<'a> {
    arena: &'a Arena,
    world: World<'a>,
    /// The bot's avatar.
    id: ObjectId,
    me: &'a Avatar,
    /// The bot's age in ticks.
    age: u32,
}

/// A bot of the arena.
#[derive(Debug)]
pub struct Fighter {
    arena: Arc<Arena>,
    rng: Rng,
    talent: Talent,
    temper: Temper,
    plan: Plan,
    aim: Aim,
    /// Its direction, finer than the replicated one.
    yaw: Yaw,
    /// When it last decided whether to dodge, how, and until when.
    dodge: Dodge,
    /// The weapon that it wants to hold.
    weapon: Weapon,
    /// When it next chooses a weapon.
    judges: u32,
    /// Whether it has left a fight since it was last well.
    fled: bool,
    /// Ticks in which it wanted to move and did not.
    stuck: u32,
    /// The direction of the escape from where it was stuck, and until when.
    escape: (Yaw, u32),
    /// When it next orders its unit.
    order: u32,
    /// Ticks since its creation, which schedule everything else.
    age: u32,
}

#[derive(Clone, Copy, Default, Debug)]
struct Dodge {
    until: u32,
    /// To the left of the enemy, to the right, or not at all.
    side: i32,
}

impl Fighter {
    /// The bot with this number under a seed.
    pub fn new(arena: Arc<Arena>, skill: Skill, seed: u64, index: u64) -> Fighter {
        let mut mixer = Rng::with_seed(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut rng = Rng::with_seed(mixer.u64(..));
        let age = rng.u32(0..1_000);
        Fighter {
            talent: skill.talent(),
            temper: Temper::drawn(&mut rng),
            plan: Plan::default(),
            aim: Aim::default(),
            yaw: Yaw(rng.u16(..)),
            dodge: Dodge::default(),
            weapon: [Weapon::Blaster, Weapon::Scatter, Weapon::Lance][rng.usize(0..3)],
            judges: 0,
            fled: false,
            stuck: 0,
            escape: (Yaw(0), 0),
            order: age + rng.u32(0..=arena.ticks(ORDER.least_ms)),
            age,
            rng,
            arena,
        }
    }

    /// The direction to walk: along the plan, or around the enemy.
    fn heading(&mut self, me: &Avatar, foe: Option<Foe>, waits: u32) -> Option<Yaw> {
        if self.age < self.escape.1 {
            return Some(self.escape.0);
        }
        let along = self.plan.next(me.point()).map(|to| direction(me.point(), to));
        // A retreating bot only looks back.
        let runs = along.is_some() && self.plan.is_retreat();
        let Some(foe) = foe.filter(|foe| foe.in_sight && !runs) else { return along };
        if self.age >= self.dodge.until {
            self.dodge.until = self.age + DODGE.ticks(&self.arena, &mut self.rng);
            self.dodge.side = self.side(me, &foe, waits);
        }
        if self.dodge.side == 0 {
            return along;
        }
        let nearer = match me.weapon {
            Weapon::Scatter => foe.distance > DISTANCES.0,
            _ => self.temper == Temper::Hunts && foe.distance > DISTANCES.1,
        };
        let away = me.weapon == Weapon::Lance && foe.distance < DISTANCES.2;
        let turn = if away { 24_576 } else { 16_384 - i32::from(nearer) * 8_192 };
        Some(direction(me.point(), foe.at).turned(self.dodge.side * turn))
    }

    /// The side to dodge to: behind a wall if there is time, else a random one.
    fn side(&mut self, me: &Avatar, foe: &Foe, waits: u32) -> i32 {
        if self.talent.hides && waits > self.arena.ticks(HIDE_MS) {
            let (here, towards) = (me.point(), foe.at - me.point());
            let across = Vector::new(-towards.y, towards.x) * (ASIDE / foe.distance);
            let hidden = |side: &i32| {
                let there = here + across * f64::from(*side);
                !self.arena.map().line_of_sight(foe.at, there)
                    && self.arena.map().is_walkable(here, there)
            };
            if let Some(side) = [1, -1].into_iter().find(hidden) {
                return side;
            }
        }
        let sides = match self.temper {
            Temper::Captures => [-1, 0, 1, 0],
            Temper::Hunts => [-1, 1, -1, 1],
        };
        sides[self.rng.usize(0..4)]
    }

    /// Chooses the weapon for the distance when it is time to; leaves the fight when hurt.
    fn judge(&mut self, now: &Situation<'_>, foe: Option<Foe>) {
        self.fled &= now.me.health < WELL;
        let Some(foe) = foe else { return };
        let better = foe.weapon(self.weapon);
        if better != self.weapon && self.age >= self.judges {
            self.judges = self.age + self.arena.ticks(JUDGE_MS);
            if self.rng.u32(0..10) < self.talent.picks {
                self.weapon = better;
            }
        }
        if now.me.health <= self.talent.retreats && !self.fled {
            self.fled = true;
            self.plan.retreat(now, foe.at, &mut self.rng);
        }
    }

    /// Notices when the bot wants to move and does not: at a wall that the plan ignores, or a
    /// corner.
    fn notice_walls(&mut self, me: &Avatar, wants: bool) {
        let stands = me.vx.abs() < STANDING && me.vy.abs() < STANDING;
        self.stuck = if wants && stands { self.stuck + 1 } else { 0 };
        if self.stuck >= STUCK_TICKS {
            self.stuck = 0;
            self.escape =
                (Yaw(self.rng.u16(..)), self.age + ESCAPE.ticks(&self.arena, &mut self.rng));
            self.plan.give_up();
        }
    }

    fn turned_towards(&mut self, wanted: Yaw) -> Yaw {
        let fastest = self.talent.turn / self.arena.setup().rate.hz() as i32;
        let turn = self.yaw.turn_to(wanted);
        // Half of the rest in each tick: fast, without a jerk at the end.
        let turn = if turn.abs() < 256 { turn } else { turn / 2 };
        self.yaw = self.yaw.turned(turn.clamp(-fastest, fastest));
        self.yaw
    }

    fn order_unit(&mut self, me: ObjectId, actions: &mut Vec<(ObjectId, Action)>) {
        if self.age < self.order || self.arena.setup().units == 0 {
            return;
        }
        self.order = self.age + ORDER.ticks(&self.arena, &mut self.rng);
        let unit = Arena::unit(me.origin(), self.rng.u32(0..self.arena.setup().units));
        let order = match self.plan.goal() {
            // Hunters like company now and then.
            _ if self.temper == Temper::Hunts && self.rng.usize(0..3) == 0 => Action::Follow,
            Some(goal) => Action::Order { target: self.arena.node_near(goal).0 as u16 },
            None => return,
        };
        actions.push((unit, order));
    }
}

impl Brain<Arena> for Fighter {
    fn think(
        &mut self,
        world: &World<'_>,
        me: ObjectId,
        actions: &mut Vec<(ObjectId, Action)>,
    ) -> Controls {
        self.age += 1;
        let walk = ArenaInput { yaw: self.yaw.0, ..ArenaInput::default() };
        let idle = Controls { walk, fire: None, hands: self.weapon.into() };
        let Some(avatar) = world.get::<Avatar>(me).filter(Avatar::is_alive) else {
            (self.plan, self.aim, self.fled) = (Plan::default(), Aim::default(), false);
            return idle;
        };
        let arena = Arc::clone(&self.arena);
        let now = Situation { arena: &arena, world: *world, id: me, me: &avatar, age: self.age };
        self.plan.follow(&now, &mut self.rng, actions);
        self.order_unit(me, actions);
        let talent = self.talent;
        let foe = self.aim.follow(&now, talent, &mut self.rng);
        self.judge(&now, foe);
        let longest = arena.ticks(weapon::LONGEST_MS);
        let waits = ticks_left(avatar.ready, world.tick().plus(1), longest);
        let heading = self.heading(&avatar, foe, waits);
        let wanted = foe.map(|foe| foe.direction).or(heading).unwrap_or(self.yaw);
        let yaw = self.turned_towards(wanted);
        self.notice_walls(&avatar, heading.is_some());
        let push = |share: i32| ((share * i32::from(FULL_INPUT)) >> 16) as i8;
        let (forward, strafe) = heading.map_or((0, 0), |heading| {
            let across = Yaw(heading.0.wrapping_sub(yaw.0));
            (push(across.cos()), push(across.sin()))
        });
        let walk = ArenaInput {
            forward: forward.max(-FULL_INPUT),
            strafe: strafe.max(-FULL_INPUT),
            yaw: yaw.0,
        };
        let on_target = foe.is_some_and(|foe| foe.is_in_sights(avatar.weapon, yaw));
        let fires = waits == 0 && on_target && avatar.weapon == self.weapon;
        Controls { walk, fire: fires.then_some(world.tick().0), hands: self.weapon.into() }
    }
}

/// The direction from one point to another.
fn direction(from: Point, to: Point) -> Yaw {
    let steps = |v: f64| (v * 256.0) as i64;
    Yaw::of(steps(to.x - from.x), steps(to.y - from.y))
}

#[cfg(test)]
mod tests;

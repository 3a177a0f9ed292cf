//! Bots that play: they take bases, find items, send units, and shoot at whom they see.
//!
//! A [`Fighter`] decides from a [`World`] alone, which may be a client's replicas: it knows what a
//! player would know, and is as wrong as they would be. Of its own it has a plan, an aim and its
//! random numbers. All that costs time is done rarely, and by different bots in different ticks:
//! plans every few seconds, looking around a few times a second. What is left for each tick is
//! steering and aiming.

mod aim;
mod plan;

use crate::game::kinds::{Avatar, ticks_left};
use crate::game::{Action, Arena, Controls, Hands, weapon};
use crate::geometry::Point;
use crate::movement::{FULL_INPUT, Input};
use crate::trig::Yaw;
use aim::Aim;
use fastrand::Rng;
use foveate_node::game::{Brain, World};
use foveate_wire::ObjectId;
use plan::Plan;
use std::sync::Arc;

/// The time between two orders to a unit, in milliseconds: the least, and what may be added.
const ORDER_MS: (u32, u32) = (10_000, 20_000);
/// For how long a fighter follows its way or dodges, in milliseconds: the least, and more.
const DODGE_MS: (u32, u32) = (400, 900);
/// Slower than this, in units per tick, is standing; so many ticks of it while it wants to move is
/// being stuck.
const STANDING: f32 = 0.05;
const STUCK_TICKS: u32 = 8;

/// How well a bot plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skill {
    /// Slow to see, slow to turn, wide of the mark.
    Novice,
    /// In between.
    Regular,
    /// Quick, and mostly on target.
    Expert,
}

/// A skill in numbers.
#[derive(Clone, Copy, Debug)]
struct Talent {
    /// How far off it aims at most, in [`Yaw`] steps.
    error: i32,
    /// From seeing an enemy to the first shot, in milliseconds.
    reaction_ms: u32,
    /// The fastest turn, in [`Yaw`] steps per second.
    turn: i32,
}

impl Skill {
    /// Skills in turn: one expert and one novice for every two in between.
    pub fn mixed(index: usize) -> Skill {
        [Skill::Regular, Skill::Expert, Skill::Regular, Skill::Novice][index % 4]
    }

    fn talent(self) -> Talent {
        match self {
            Skill::Novice => Talent { error: 3_200, reaction_ms: 600, turn: 32_768 },
            Skill::Regular => Talent { error: 2_200, reaction_ms: 350, turn: 65_536 },
            Skill::Expert => Talent { error: 1_200, reaction_ms: 200, turn: 98_304 },
        }
    }
}

/// A bot of the arena.
#[derive(Debug)]
pub struct Fighter {
    arena: Arc<Arena>,
    rng: Rng,
    talent: Talent,
    plan: Plan,
    aim: Aim,
    /// Where it looks: finer than what is replicated.
    yaw: Yaw,
    /// When it last decided whether to dodge, how, and until when.
    dodge: Dodge,
    /// Ticks in which it wanted to move and did not.
    stuck: u32,
    /// When it orders its unit next.
    order: u32,
    /// Ticks that it has thought for; tells when what is due.
    age: u32,
}

#[derive(Clone, Copy, Default, Debug)]
struct Dodge {
    until: u32,
    /// To the left of the enemy, to the right, or not at all.
    side: i32,
}

impl Fighter {
    /// The bot with this number of a seed.
    pub fn new(arena: Arc<Arena>, skill: Skill, seed: u64, index: u64) -> Fighter {
        let mut mixer = Rng::with_seed(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut rng = Rng::with_seed(mixer.u64(..));
        let age = rng.u32(0..1_000);
        Fighter {
            talent: skill.talent(),
            plan: Plan::default(),
            aim: Aim::default(),
            yaw: Yaw(rng.u16(..)),
            dodge: Dodge::default(),
            stuck: 0,
            order: age + rng.u32(0..=arena.ticks(ORDER_MS.0)),
            age,
            rng,
            arena,
        }
    }

    fn span(&mut self, (least, more): (u32, u32)) -> u32 {
        self.arena.ticks(least + self.rng.u32(0..=more))
    }

    /// Which way to go: along the plan, or across the enemy's sight.
    fn heading(&mut self, me: &Avatar, foe: Option<Point>) -> Option<Yaw> {
        let along = self.plan.next(me.point()).map(|to| direction(me.point(), to));
        let Some(foe) = foe else { return along };
        if self.age >= self.dodge.until {
            self.dodge.until = self.age + self.span(DODGE_MS);
            self.dodge.side = [-1, 0, 1][self.rng.usize(0..3)];
        }
        let across = direction(me.point(), foe).turned(self.dodge.side * 16_384);
        if self.dodge.side == 0 { along } else { Some(across) }
    }

    /// Whether it pushes and does not move: a wall that the plan knows nothing of, or a corner.
    fn notice_walls(&mut self, me: &Avatar, wants: bool) {
        let stands = me.vx.abs() < STANDING && me.vy.abs() < STANDING;
        self.stuck = if wants && stands { self.stuck + 1 } else { 0 };
        if self.stuck >= STUCK_TICKS {
            self.stuck = 0;
            self.dodge.side = -self.dodge.side;
            self.plan.give_up();
        }
    }

    fn turned_towards(&mut self, wanted: Yaw) -> Yaw {
        let fastest = self.talent.turn / self.arena.setup().rate.hz() as i32;
        let turn = self.yaw.turn_to(wanted);
        // Half of what is left in a tick: swift, without a jerk at the end.
        let turn = if turn.abs() < 256 { turn } else { turn / 2 };
        self.yaw = self.yaw.turned(turn.clamp(-fastest, fastest));
        self.yaw
    }

    fn order_unit(&mut self, me: ObjectId, actions: &mut Vec<(ObjectId, Action)>) {
        if self.age < self.order || self.arena.setup().units == 0 {
            return;
        }
        self.order = self.age + self.span(ORDER_MS);
        if let Some(goal) = self.plan.goal() {
            let unit = Arena::unit(me.origin(), self.rng.u32(0..self.arena.setup().units));
            let target = self.arena.node_near(goal).0 as u16;
            actions.push((unit, Action::Order { target }));
        }
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
        let walk = Input { yaw: self.yaw.0, ..Input::default() };
        let idle = Controls { walk, ..Controls::default() };
        let Some(avatar) = world.get::<Avatar>(me).filter(Avatar::is_alive) else {
            (self.plan, self.aim) = (Plan::default(), Aim::default());
            return idle;
        };
        let arena = Arc::clone(&self.arena);
        self.plan.follow(&arena, world, (me, &avatar), (&mut self.rng, self.age), actions);
        self.order_unit(me, actions);
        let talent = self.talent;
        let foe = self.aim.follow(&arena, world, &avatar, (talent, &mut self.rng, self.age));
        let heading = self.heading(&avatar, foe.map(|foe| foe.at));
        let wanted = foe.map(|foe| foe.direction).or(heading).unwrap_or(self.yaw);
        let yaw = self.turned_towards(wanted);
        self.notice_walls(&avatar, heading.is_some());
        let push = |share: i32| ((share * i32::from(FULL_INPUT)) >> 16) as i8;
        let (forward, strafe) = heading.map_or((0, 0), |heading| {
            let across = Yaw(heading.0.wrapping_sub(yaw.0));
            (push(across.cos()), push(across.sin()))
        });
        let walk = Input {
            forward: forward.max(-FULL_INPUT),
            strafe: strafe.max(-FULL_INPUT),
            yaw: yaw.0,
        };
        let cooldown = arena.ticks(weapon::LONGEST_MS);
        let ready = ticks_left(avatar.ready, world.tick().plus(1), cooldown) == 0;
        let on_target = foe.is_some_and(|foe| foe.is_in_sights(yaw));
        Controls {
            walk,
            fire: (ready && on_target).then_some(world.tick().0),
            hands: Hands::Blaster,
        }
    }
}

/// The direction from one point to another.
fn direction(from: Point, to: Point) -> Yaw {
    let steps = |v: f64| (v * 256.0) as i64;
    Yaw::of(steps(to.x - from.x), steps(to.y - from.y))
}

#[cfg(test)]
mod tests;

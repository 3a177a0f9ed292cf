//! Whom a bot shoots at, and how well it aims.

use super::{Talent, direction};
use crate::game::Arena;
use crate::game::kinds::{AVATAR, Avatar, Weapon, spot};
use crate::game::weapon::TARGET_RADIUS;
use crate::geometry::Point;
use crate::trig::Yaw;
use fastrand::Rng;
use foveate_node::game::World;
use foveate_wire::ObjectId;

/// Ticks between two looks around, and between two looks whether the enemy is still in sight.
const LOOK_TICKS: u32 = 8;
const SIGHT_TICKS: u32 = 4;
/// Ticks for which a hand is as unsteady as it is.
const STEADY_TICKS: u32 = 7;
/// Enemies that are looked at, the nearest first.
const CANDIDATES: usize = 3;
/// The share of the range within which a bot opens fire.
const OPENS: f64 = 0.8;
const RANGE: f64 = Weapon::Blaster.make().reach;

#[derive(Default, Debug)]
pub(super) struct Aim {
    enemy: Option<ObjectId>,
    in_sight: bool,
    /// From when on it has its finger on the trigger.
    fires_from: u32,
    /// How far off it aims at present, in thousandths of its error.
    off: i32,
}

/// An enemy that the bot aims at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foe {
    /// Where it is.
    pub at: Point,
    /// Where the bot means to aim.
    pub direction: Yaw,
    /// How far from there a shot still hits, as the bot believes.
    width: i32,
    fires: bool,
}

impl Foe {
    pub fn is_in_sights(&self, yaw: Yaw) -> bool {
        self.fires && yaw.turn_to(self.direction).abs() <= self.width
    }
}

impl Aim {
    pub fn follow(
        &mut self,
        arena: &Arena,
        world: &World<'_>,
        me: &Avatar,
        (talent, rng, age): (Talent, &mut Rng, u32),
    ) -> Option<Foe> {
        if age.is_multiple_of(LOOK_TICKS) {
            let seen = self.look(arena, world, me);
            if seen != self.enemy {
                self.fires_from = age + arena.ticks(talent.reaction_ms);
            }
            (self.enemy, self.in_sight) = (seen, seen.is_some());
        }
        let other = world.get::<Avatar>(self.enemy?).filter(|other| is_target(me, other));
        let Some(other) = other else {
            self.enemy = None;
            return None;
        };
        if age.is_multiple_of(SIGHT_TICKS) {
            self.in_sight = arena.map().line_of_sight(me.point(), other.point());
        }
        if age.is_multiple_of(STEADY_TICKS) {
            self.off = rng.i32(-1_000..=1_000);
        }
        let distance = me.point().distance(other.point()).max(1.0);
        // Who runs is harder to hit: standing, the error is half of what it is at full speed.
        let speed = other.vx.abs().max(other.vy.abs()) * arena.setup().rate.hz() as f32 / 10.0;
        let error = talent.error * (500 + (speed.min(1.0) * 500.0) as i32) / 1_000;
        let wanted = direction(me.point(), other.point()).turned(self.off * error / 1_000);
        // 10,430 steps are one radian.
        let width = (TARGET_RADIUS / distance * 10_430.0 * 0.7) as i32;
        let fires = self.in_sight && age >= self.fires_from && distance <= RANGE * OPENS;
        Some(Foe { at: other.point(), direction: wanted, width, fires })
    }

    /// The nearest enemy in sight; the present one, if it is hardly farther.
    fn look(&self, arena: &Arena, world: &World<'_>, me: &Avatar) -> Option<ObjectId> {
        let here = me.point();
        let mut near = [(f64::INFINITY, ObjectId(0)); CANDIDATES];
        for id in world.near(spot(here), (RANGE * OPENS) as f32) {
            let other = (id.kind() == AVATAR).then(|| world.get::<Avatar>(id)).flatten();
            let Some(other) = other.filter(|other| is_target(me, other)) else { continue };
            let far = here.distance(other.point()) * if self.enemy == Some(id) { 0.7 } else { 1.0 };
            if far < near[CANDIDATES - 1].0 {
                let place = near.partition_point(|(nearer, _)| *nearer <= far);
                near[place..].rotate_right(1);
                near[place] = (far, id);
            }
        }
        let in_sight = |(far, id): &&(f64, ObjectId)| {
            let other = far.is_finite().then(|| world.get::<Avatar>(*id)).flatten();
            other.is_some_and(|other| arena.map().line_of_sight(here, other.point()))
        };
        near.iter().find(in_sight).map(|(_, id)| *id)
    }
}

fn is_target(me: &Avatar, other: &Avatar) -> bool {
    other.is_alive() && other.team != me.team
}

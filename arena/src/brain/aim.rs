//! A bot's choice of enemy and weapon, and its accuracy.

use super::skill::Talent;
use super::{Situation, direction};
use crate::game::Arena;
use crate::game::kinds::{AVATAR, Avatar, UNIT, Unit, Weapon, point, spot};
use crate::game::weapon::TARGET_RADIUS;
use crate::geometry::{Point, Vector};
use crate::trig::Yaw;
use fastrand::Rng;
use foveate_node::game::World;
use foveate_wire::ObjectId;

/// Ticks between two searches for enemies.
const LOOK_TICKS: u32 = 8;
/// Ticks between two checks that the enemy is still in sight.
const SIGHT_TICKS: u32 = 4;
/// Ticks after which the error of the aim changes.
const STEADY_TICKS: u32 = 7;
/// How many enemies are checked, the nearest first.
const CANDIDATES: usize = 3;
/// The share of its weapon's range within which a bot opens fire.
const OPENS: f64 = 0.9;
/// A unit is worth a shot like an avatar this many times as far away.
const UNITS: f64 = 3.0;
/// A scatter is best up to the first distance, a lance from the second on.
const BEST: (f64, f64) = (9.0, 26.0);
/// A bot keeps either of them for this much longer.
const KEEPS: f64 = 4.0;
/// The time in which the aim settles, in milliseconds.
const SETTLE_MS: u32 = 1_500;
/// The share of the error that is left then, in thousandths.
const SETTLED: u32 = 450;

#[derive(Default, Debug)]
pub(super) struct Aim {
    enemy: Option<ObjectId>,
    in_sight: bool,
    /// The age at which it began to aim at this enemy.
    since: u32,
    /// The current error of the aim, in thousandths of the largest.
    off: i32,
    /// The enemy's place in the last tick.
    last: Option<Point>,
    /// The enemy's movement, estimated from its places, because bots are sent no more than players.
    moves: Vector,
}

/// An enemy that the bot aims at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foe {
    /// The enemy's place and distance.
    pub at: Point,
    pub distance: f64,
    /// The direction of the aim.
    pub direction: Yaw,
    /// Whether the bot sees the enemy.
    pub in_sight: bool,
    /// Whether the bot is ready to fire.
    fires: bool,
}

impl Foe {
    /// Whether the bot expects a shot in this direction to hit.
    pub fn is_in_sights(&self, weapon: Weapon, yaw: Yaw) -> bool {
        let make = weapon.make();
        let wide = TARGET_RADIUS / self.distance * 0.7 + make.spread;
        // 10,430 steps are one radian.
        let width = (wide * 10_430.0) as i32;
        let near = self.distance <= make.reach * OPENS;
        near && self.fires && yaw.turn_to(self.direction).abs() <= width
    }

    /// The weapon for this distance.
    pub fn weapon(&self, now: Weapon) -> Weapon {
        let keeps = |weapon: Weapon| if now == weapon { KEEPS } else { 0.0 };
        if self.distance < BEST.0 + keeps(Weapon::Scatter) {
            Weapon::Scatter
        } else if self.distance > BEST.1 - keeps(Weapon::Lance) {
            Weapon::Lance
        } else {
            Weapon::Blaster
        }
    }
}

impl Aim {
    pub fn follow(&mut self, now: &Situation<'_>, talent: Talent, rng: &mut Rng) -> Option<Foe> {
        let Situation { arena, world, me, age, .. } = *now;
        if age.is_multiple_of(LOOK_TICKS) {
            let seen = self.look(now, talent.sees);
            if seen != self.enemy {
                (self.since, self.last, self.moves) = (age, None, Vector::new(0.0, 0.0));
            }
            (self.enemy, self.in_sight) = (seen, seen.is_some());
        }
        let Some(at) = self.enemy.and_then(|id| target(&world, me, id)) else {
            self.enemy = None;
            return None;
        };
        if age.is_multiple_of(SIGHT_TICKS) {
            self.in_sight = arena.map().line_of_sight(me.point(), at);
        }
        if age.is_multiple_of(STEADY_TICKS) {
            self.off = rng.i32(-1_000..=1_000);
        }
        if let Some(last) = self.last.replace(at) {
            self.moves = (self.moves + (at - last)) * 0.5;
        }
        let distance = me.point().distance(at).max(1.0);
        let aimed_at = at + self.moves * (f64::from(talent.lead) / 1_000.0);
        let error = self.error(arena, talent, age);
        let wanted = direction(me.point(), aimed_at).turned(self.off * error / 1_000);
        let reacted = age >= self.since + arena.ticks(talent.reaction_ms);
        let (in_sight, fires) = (self.in_sight, self.in_sight && reacted);
        Some(Foe { at, distance, direction: wanted, in_sight, fires })
    }

    /// The largest error of the aim: running targets are harder to hit, and the aim settles over
    /// time.
    fn error(&self, arena: &Arena, talent: Talent, age: u32) -> i32 {
        let hz = f64::from(arena.setup().rate.hz());
        let speed = self.moves.dot(self.moves).sqrt() * hz / 10.0;
        let running = 500 + (speed.min(1.0) * 500.0) as i32;
        let span = arena.ticks(SETTLE_MS).max(1);
        let passed = age.saturating_sub(self.since).min(span);
        let steady = (1_000 - (1_000 - SETTLED) * passed / span) as i32;
        talent.error * running / 1_000 * steady / 1_000
    }

    /// The nearest enemy in sight; the current one, if it is hardly farther.
    fn look(&self, now: &Situation<'_>, radius: f64) -> Option<ObjectId> {
        let Situation { arena, world, me, .. } = *now;
        let here = me.point();
        let mut near = [(f64::INFINITY, ObjectId(0), here); CANDIDATES];
        for id in world.near(spot(here), radius as f32) {
            let Some(at) = target(&world, me, id) else { continue };
            let dull = if id.kind() == UNIT { UNITS } else { 1.0 };
            let far = here.distance(at) * dull * if self.enemy == Some(id) { 0.7 } else { 1.0 };
            if far < near[CANDIDATES - 1].0 {
                let place = near.partition_point(|(nearer, _, _)| *nearer <= far);
                near[place..].rotate_right(1);
                near[place] = (far, id, at);
            }
        }
        let mut found = near.iter().take_while(|(far, _, _)| *far <= radius);
        found.find(|(_, _, at)| arena.map().line_of_sight(here, *at)).map(|(_, id, _)| *id)
    }
}

/// The place of an object if it is a target: an enemy's avatar, or an enemy's unit that stands.
fn target(world: &World<'_>, me: &Avatar, id: ObjectId) -> Option<Point> {
    match id.kind() {
        AVATAR => {
            let other = world.get::<Avatar>(id)?;
            (other.is_alive() && other.team != me.team).then(|| other.point())
        }
        UNIT => {
            let other = world.get::<Unit>(id)?;
            let stands = other.health > 0 && !other.walks();
            (stands && other.team != me.team).then(|| point(other.pos))
        }
        _ => None,
    }
}

//! The rules of weapons: range, damage, and what a shot hits.
//!
//! A shot is traced in the step of its shooter, through the world as the shooter's player saw it,
//! up to the first wall. Each enemy on the line is sent a hit, which its own rule applies.

use super::avatar::NOTICED;
use super::kinds::{AVATAR, Avatar, Charm, ITEM, Item, UNIT, Unit, Weapon, spot};
use super::{Action, Arena, ArenaEvent, unit};
use crate::geometry::{Point, Vector};
use crate::trig::{ONE, Yaw};
use foveate_node::game::{EventArea, StepContext, World};
use foveate_wire::{ObjectId, Tick};

/// How near to the centre of an avatar or unit a shot must pass: their radius.
pub const TARGET_RADIUS: f64 = crate::map::AVATAR_RADIUS;
/// How far back a shooter's view may be, in milliseconds. Players on a slower link must aim ahead;
/// otherwise they would hit avatars that have been behind a wall for long.
pub const LAG_MS: u32 = 500;
/// The time to change the weapon, in milliseconds.
pub const CHANGE_MS: u32 = 300;
/// The longest cooldown, in milliseconds: the farthest ahead that a weapon's readiness can be.
pub const LONGEST_MS: u32 = 1_600;
/// The longest range of all weapons, in units. A shot's length in quarters of a unit must fit a
/// byte.
pub const FARTHEST: f64 = 60.0;
/// The damage of the holder of a blade, in eighths.
const BLADE: u32 = 13;

/// A weapon in numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Make {
    /// The range, in units.
    pub reach: f64,
    /// The damage of a hit: point-blank, and at full range. In between it falls linearly.
    pub damage: (u8, u8),
    /// Time between two shots, in milliseconds.
    pub cooldown_ms: u32,
    /// How much the cone widens to each side per unit of length; 0 for a line, which ends at the
    /// first enemy.
    pub spread: f64,
}

impl Weapon {
    pub const fn make(self) -> Make {
        match self {
            Weapon::Blaster => {
                Make { reach: 36.0, damage: (18, 10), cooldown_ms: 400, spread: 0.0 }
            }
            Weapon::Scatter => {
                Make { reach: 14.0, damage: (38, 8), cooldown_ms: 750, spread: 0.15 }
            }
            Weapon::Lance => {
                Make { reach: FARTHEST, damage: (46, 34), cooldown_ms: LONGEST_MS, spread: 0.0 }
            }
            Weapon::Dart => Make { reach: 20.0, damage: (8, 4), cooldown_ms: 500, spread: 0.0 },
        }
    }
}

impl Make {
    /// The greatest damage of a hit, point-blank and with a blade.
    pub fn most_damage(&self) -> u32 {
        u32::from(self.damage.0) * BLADE / 8
    }

    /// The damage of a hit at a distance.
    pub fn damage_at(&self, distance: f64) -> u8 {
        let (near, far) = (f64::from(self.damage.0), f64::from(self.damage.1));
        (near + (far - near) * (distance / self.reach).clamp(0.0, 1.0)).round() as u8
    }
}

/// The shooter, its place, and its weapon.
pub(super) struct Shooter {
    pub from: Point,
    pub team: u8,
    pub weapon: Weapon,
}

/// A hit as its victim learns of it.
pub(super) struct Hit {
    pub damage: u8,
    pub weapon: Weapon,
    /// The attacker: an avatar or a unit.
    pub by: ObjectId,
}

/// Fires one shot: each enemy on the line, as the shooter saw it, is sent a hit.
pub(super) fn shoot(
    arena: &Arena,
    turn: &mut StepContext<'_, Arena>,
    by: &Shooter,
    yaw: Yaw,
    seen: Tick,
) {
    let share = |v: i32| f64::from(v) / f64::from(ONE);
    let along = Vector::new(share(yaw.cos()), share(yaw.sin()));
    let (make, from) = (by.weapon.make(), by.from);
    let reach = make.reach * arena.map.free_share(from, from + along * make.reach);
    let line = Line { from, along, reach, make };
    let mut met = line.enemies(arena, &turn.world(), by.team, seen);
    if make.spread == 0.0 {
        met.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        met.truncate(1);
    }
    let length =
        if make.spread == 0.0 { met.first().map_or(reach, |(far, _)| *far) } else { reach };
    let id = turn.id();
    let shot = ArenaEvent::Shot {
        player: id.origin(),
        unit: if id.kind() == UNIT { id.serial().min(255) as u8 } else { 0 },
        weapon: by.weapon,
        yaw: yaw.0 / 64,
        length: (length * 4.0).round() as u8,
        hits: met.len().min(255) as u8,
    };
    let to = spot(from + along * length);
    turn.event(EventArea::Segment { from: spot(from), to, radius: NOTICED }, shot);
    if met.is_empty() {
        return;
    }
    let blade = id.kind() == AVATAR && holds(&turn.world(), id, from, Charm::Blade);
    for (distance, victim) in met {
        let damage = make.damage_at(distance);
        let damage = if blade { (u32::from(damage) * BLADE / 8).min(255) as u8 } else { damage };
        turn.ask(victim, Action::Hit { damage, weapon: by.weapon });
    }
}

/// Whether an avatar has an item of this sort. A held item was moved to its holder recently, so
/// only the surroundings are searched.
pub(super) fn holds(world: &World<'_>, id: ObjectId, at: Point, charm: Charm) -> bool {
    let has = |item: &Item| item.holder == id.origin() && item.charm == charm;
    let near = world.near(spot(at), super::item::STRAYS as f32);
    let mut items = near.into_iter().filter(|id| id.kind() == ITEM);
    items.any(|id| world.get::<Item>(id).as_ref().is_some_and(has))
}

/// The line of a shot, up to the first wall.
struct Line {
    from: Point,
    along: Vector,
    reach: f64,
    make: Make,
}

impl Line {
    /// The enemies on the line as the shooter saw them, with their distances.
    fn enemies(
        &self,
        arena: &Arena,
        world: &World<'_>,
        team: u8,
        seen: Tick,
    ) -> Vec<(f64, ObjectId)> {
        let limit = arena.ticks(LAG_MS);
        let back_then = world.as_seen(seen, limit);
        let earliest = world.tick().minus(limit);
        let then = if earliest.is_after(seen) { earliest } else { seen };
        // Neighbours are searched by their current written places; units on their way are
        // elsewhere.
        let middle = self.from + self.along * (self.reach / 2.0);
        let radius = self.reach / 2.0 + TARGET_RADIUS + unit::STRAYS;
        let mut met = Vec::new();
        for id in world.near(spot(middle), radius as f32) {
            let (there, is_there_still) = match id.kind() {
                AVATAR => {
                    let there = back_then.get::<Avatar>(id);
                    let there = there.filter(|other| other.is_alive() && other.team != team);
                    let Some(there) = there else { continue };
                    (there.point(), world.get::<Avatar>(id).is_some_and(|now| now.is_alive()))
                }
                UNIT => {
                    let there = back_then.get::<Unit>(id);
                    let there = there.filter(|other| other.health > 0 && other.team != team);
                    let Some(there) = there else { continue };
                    let now = world.get::<Unit>(id);
                    (unit::place_at(arena, &there, then).0, now.is_some_and(|now| now.health > 0))
                }
                _ => continue,
            };
            let distance = self.meets(arena, there).filter(|_| is_there_still);
            met.extend(distance.map(|distance| (distance, id)));
        }
        met
    }

    /// How far along the line it meets a body at `at`.
    fn meets(&self, arena: &Arena, at: Point) -> Option<f64> {
        let off = at - self.from;
        let (ahead, off_axis) = (off.dot(self.along), off.cross(self.along).abs());
        if ahead <= 0.0 {
            return None;
        }
        if self.make.spread > 0.0 {
            let entry = (off.dot(off).sqrt() - TARGET_RADIUS).max(0.0);
            let inside = off_axis <= TARGET_RADIUS + ahead * self.make.spread;
            let meets = inside && entry <= self.make.reach;
            return (meets && arena.map.line_of_sight(self.from, at)).then_some(entry);
        }
        let half = TARGET_RADIUS * TARGET_RADIUS - off_axis * off_axis;
        (half >= 0.0).then(|| (ahead - half.sqrt()).max(0.0)).filter(|entry| *entry <= self.reach)
    }
}

const _: () = assert!(FARTHEST * 4.0 <= 255.0);

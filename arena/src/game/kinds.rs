//! The kinds of objects in the arena.
//!
//! Times are ticks, not counters, because a state that does not change is not sent. Only the low 16
//! bits are stored, see `ticks_left`.

use crate::fixed::{Place, SUBUNITS, Velocity};
use crate::geometry::Point;
use crate::movement::Body;
use crate::trig::Yaw;
use foveate_wire::{KindId, ObjectId, Replicate, Tick};
use serde::{Deserialize, Serialize};

/// The kind of [`Avatar`]s.
pub const AVATAR: KindId = KindId(0);
/// The kind of [`TeamBase`]s.
pub const BASE: KindId = KindId(1);
/// The kind of [`Item`]s.
pub const ITEM: KindId = KindId(2);
/// The kind of [`Unit`]s.
pub const UNIT: KindId = KindId(3);
/// The kind of the [`Match`].
pub const MATCH: KindId = KindId(4);

/// Full health.
pub const HEALTH: u8 = 100;
/// A unit's full health.
pub const UNIT_HEALTH: u8 = 60;
/// The progress at which a base belongs to a team; negative for team 1.
pub const TAKEN: i8 = 100;

/// Steps of [`Velocity`] in one of an avatar's replicated velocity. Coarser than the movement's
/// own, because every update contains it; at 128 Hz an avatar still gains almost four of them in a
/// tick.
const VELOCITY_STEP: i32 = 64;
/// Parts of a turn in an avatar's replicated yaw.
const YAW_STEPS: i32 = 1024;

/// The weapons. Their reach and damage are in [`weapon`](super::weapon).
#[derive(Replicate, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Weapon {
    /// Medium in everything.
    Blaster,
    /// Strong at short range, against all enemies in a cone.
    Scatter,
    /// Long range, high damage, slow.
    Lance,
    /// The weapon of units; avatars never hold it.
    Dart,
}

/// A player's avatar: exactly everything that its next step depends on.
#[derive(Replicate, Clone, Copy, PartialEq, Debug)]
#[replicate(max_speed = 11.0)]
pub struct Avatar {
    /// The centre, with the precision of movement.
    #[replicate(place, motion, precision = 1.0 / 256.0, extent = 4096.0)]
    pub pos: [f32; 2],
    #[replicate(yaw, steps = 1024)]
    pub yaw: f32,
    /// Units per tick eastward. Only sent to its own player; others predict from the place.
    #[replicate(own, precision = 1.0 / 1024.0, min = -1.0, max = 1.0)]
    pub vx: f32,
    /// Units per tick northward.
    #[replicate(own, precision = 1.0 / 1024.0, min = -1.0, max = 1.0)]
    pub vy: f32,
    /// 0: dead. Enemies are told quarters.
    #[replicate(max = 100, coarse = 25)]
    pub health: u8,
    /// 1 or 2.
    #[replicate(max = 2)]
    pub team: u8,
    /// When the weapon is ready again; for a dead avatar, when it respawns.
    #[replicate(own)]
    pub ready: u16,
    /// What the avatar holds. Enemies learn it when it fires.
    #[replicate(team)]
    pub weapon: Weapon,
    /// Points in this round.
    pub score: u16,
    /// All its kills, over all rounds.
    pub kills: u16,
    /// All its deaths, over all rounds.
    pub deaths: u16,
    /// The round that it plays in.
    pub round: u16,
}

impl Avatar {
    /// A new avatar of a team.
    pub fn at(place: Place, team: u8) -> Avatar {
        let mut avatar = Avatar {
            pos: [0.0; 2],
            yaw: 0.0,
            vx: 0.0,
            vy: 0.0,
            health: HEALTH,
            team,
            ready: 0,
            weapon: Weapon::Blaster,
            score: 0,
            kills: 0,
            deaths: 0,
            round: 0,
        };
        avatar.set_body(Body::at(place));
        avatar
    }

    pub fn is_alive(&self) -> bool {
        self.health > 0
    }

    /// The avatar of a player.
    pub fn of(player: u32) -> ObjectId {
        ObjectId::new(AVATAR, player, 0)
    }

    pub fn point(&self) -> Point {
        point(self.pos)
    }

    /// The exact input of [`step`](crate::movement::step).
    pub fn body(&self) -> Body {
        let velocity = |v: f32| (v * 65_536.0) as i32;
        let turn = f64::from(self.yaw) / std::f64::consts::TAU;
        let yaw = (turn * f64::from(YAW_STEPS)).round() as i32 * (65_536 / YAW_STEPS);
        Body {
            place: place(self.pos),
            velocity: Velocity { x: velocity(self.vx), y: velocity(self.vy) },
            yaw: Yaw(yaw as u16),
        }
    }

    /// Stores the result of [`step`](crate::movement::step). Velocity is quantised here and not
    /// when it is sent, so that owner and client continue from the same value.
    pub fn set_body(&mut self, body: Body) {
        let velocity = |v: i32| (v / VELOCITY_STEP * VELOCITY_STEP) as f32 / 65_536.0;
        self.pos = position(body.place);
        self.yaw = body.yaw.radians() as f32;
        (self.vx, self.vy) = (velocity(body.velocity.x), velocity(body.velocity.y));
    }
}

/// A base that teams fight for. It wanders along the graph of ways.
#[derive(Replicate, Clone, Copy, PartialEq, Debug)]
#[replicate(name = "base", max_speed = 2.0)]
pub struct TeamBase {
    #[replicate(place, motion, precision = 1.0 / 256.0, extent = 4096.0)]
    pub pos: [f32; 2],
    /// The team that has it; 0 for none.
    #[replicate(max = 2)]
    pub team: u8,
    /// Progress of taking it: negative for team 1, positive for team 2.
    #[replicate(min = -100, max = 100)]
    pub progress: i8,
    /// The node that it comes from.
    pub from: u16,
    /// The node that it goes to.
    pub to: u16,
    /// The round that the base belongs to.
    pub round: u16,
}

/// The effect of an item for its holder.
#[derive(Replicate, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Charm {
    /// Shots do more damage.
    Blade,
    /// Hits do less damage.
    Shield,
}

/// An object that one avatar at a time may hold. The holder is stored only here.
#[derive(Replicate, Clone, Copy, PartialEq, Debug)]
#[replicate(max_speed = 11.0)]
pub struct Item {
    /// Where it lies; while it is held, where its holder was recently.
    #[replicate(place, precision = 1.0 / 64.0, extent = 4096.0)]
    pub pos: [f32; 2],
    pub charm: Charm,
    /// The player that holds it; 0 for none.
    pub holder: u32,
    /// When it leaves its holder.
    pub until: u16,
    /// The round that the item belongs to.
    pub round: u16,
}

/// A unit's task.
#[derive(Replicate, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Duty {
    /// Stands still and hurts nearby enemies; its player may steer it.
    Guard,
    /// Goes to its target, to guard there.
    March,
    /// Stands near its player's avatar, and follows when that is far away.
    Follow,
    /// Follows its player's avatar.
    Join,
    /// Was shot down, and will return to its player's avatar.
    Down,
}

/// A player's helper. It walks by a way that every node computes alike, so its place is only sent
/// where it stands, where it set out, and every few seconds on its way.
#[derive(Replicate, Clone, Copy, PartialEq, Debug)]
pub struct Unit {
    /// Where it stands, or set out.
    #[replicate(place, precision = 1.0 / 256.0, extent = 4096.0)]
    pub pos: [f32; 2],
    /// Its player's team.
    #[replicate(max = 2)]
    pub team: u8,
    pub duty: Duty,
    /// 0: down.
    #[replicate(max = 60)]
    pub health: u8,
    /// The node that it goes to.
    pub target: u16,
    /// The tick at which it set out, last fired while steered, or was shot down.
    pub since: u32,
}

impl Unit {
    /// A new unit, on guard.
    pub fn at(place: Place, team: u8) -> Unit {
        let (pos, health) = (position(place), UNIT_HEALTH);
        Unit { pos, team, duty: Duty::Guard, health, target: 0, since: 0 }
    }

    /// Whether it is on its way; then `pos` is where it set out.
    pub fn walks(&self) -> bool {
        matches!(self.duty, Duty::March | Duty::Join)
    }
}

/// The phase of a match.
#[derive(Replicate, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RoundPhase {
    /// A round is played.
    Play,
    /// Between two rounds: nothing counts, and avatars are not hurt.
    Break,
}

/// The score, and when the round ends. It has no place, so all players receive it.
#[derive(Replicate, Clone, Copy, PartialEq, Debug)]
pub struct Match {
    /// The number of the round.
    pub round: u16,
    /// Points of team 1.
    pub first: u16,
    /// Points of team 2.
    pub second: u16,
    /// The team that won the last round; 0 for none.
    #[replicate(max = 2)]
    pub winner: u8,
    /// The tick at which the phase ends.
    pub ends: u32,
    pub phase: RoundPhase,
}

impl Match {
    /// The first object of every world.
    pub const ID: ObjectId = ObjectId::new(MATCH, 0, 0);
}

/// A replicated place as the movement uses it.
pub fn place(pos: [f32; 2]) -> Place {
    let steps = |v: f32| (v * SUBUNITS as f32).round() as i32;
    Place { x: steps(pos[0]), y: steps(pos[1]) }
}

/// A place as it is replicated; exact for all places of a map.
pub fn position(place: Place) -> [f32; 2] {
    [place.x as f32 / SUBUNITS as f32, place.y as f32 / SUBUNITS as f32]
}

/// A replicated place in world units.
pub fn point(pos: [f32; 2]) -> Point {
    Point::new(f64::from(pos[0]), f64::from(pos[1]))
}

/// A point as the engine uses it.
pub(crate) fn spot(at: Point) -> [f32; 3] {
    [at.x as f32, at.y as f32, 0.0]
}

/// The tick `ticks` from now, as it is replicated.
pub(crate) fn ticks_ahead(now: Tick, ticks: u32) -> u16 {
    now.plus(ticks).0 as u16
}

/// Ticks until a replicated time that was at most `most` ahead; 0 if it has passed. A time further
/// ahead was set before the low bits wrapped or the server restarted, and has passed as well.
pub(crate) fn ticks_left(until: u16, now: Tick, most: u32) -> u32 {
    let left = u32::from(until.wrapping_sub(now.0 as u16));
    if left <= most { left } else { 0 }
}

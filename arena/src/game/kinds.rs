//! What the arena's objects are made of.
//!
//! Times are ticks, never counters: a state that does not change is not told again. They keep only
//! the low 16 bits, see `ticks_left`.

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
/// A base is somebody's when its progress is at this, on their side.
pub const TAKEN: i8 = 100;

/// Steps of [`Velocity`] in one of an avatar's replicated velocity. Coarser than the movement's own,
/// because every update carries it; at 128 Hz an avatar still gains almost four of them in a tick.
const VELOCITY_STEP: i32 = 64;
/// Parts of a turn in which avatars tell where they face.
const YAW_STEPS: i32 = 1024;

/// What shots are fired with. Reach and damage are in [`weapon`](super::weapon).
#[derive(Replicate, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Weapon {
    /// Middling in all.
    Blaster,
    /// Strong near by, on all enemies in a cone.
    Scatter,
    /// Carries far, hits hard, and takes its time.
    Lance,
    /// What units have; no avatar holds it.
    Dart,
}

/// A player's avatar: everything that its next step depends on, exactly.
#[derive(Replicate, Clone, Copy, PartialEq, Debug)]
#[replicate(max_speed = 11.0)]
pub struct Avatar {
    /// Its centre. The precision is the movement's own.
    #[replicate(place, motion, precision = 1.0 / 256.0, extent = 4096.0)]
    pub pos: [f32; 2],
    /// Where it faces.
    #[replicate(yaw, steps = 1024)]
    pub yaw: f32,
    /// Units per tick eastward. Others see the place; only its own player needs this.
    #[replicate(own, precision = 1.0 / 1024.0, min = -1.0, max = 1.0)]
    pub vx: f32,
    /// Units per tick northward.
    #[replicate(own, precision = 1.0 / 1024.0, min = -1.0, max = 1.0)]
    pub vy: f32,
    /// 0: it is dead. Enemies are told quarters.
    #[replicate(max = 100, coarse = 25)]
    pub health: u8,
    /// 1 or 2.
    #[replicate(max = 2)]
    pub team: u8,
    /// When its weapon is ready again; of a dead one, when it comes back.
    #[replicate(own)]
    pub ready: u16,
    /// What it has in its hands. Enemies learn that when it fires.
    #[replicate(team)]
    pub weapon: Weapon,
    /// Points in this round.
    pub score: u16,
    /// Whom it killed, ever.
    pub kills: u16,
    /// How often it died, ever.
    pub deaths: u16,
    /// The round that it plays in.
    pub round: u16,
}

impl Avatar {
    /// A fresh avatar of a team.
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

    /// Whether it takes part.
    pub fn is_alive(&self) -> bool {
        self.health > 0
    }

    /// The player's avatar.
    pub fn of(player: u32) -> ObjectId {
        ObjectId::new(AVATAR, player, 0)
    }

    pub fn point(&self) -> Point {
        point(self.pos)
    }

    /// What [`step`](crate::movement::step) takes, exactly.
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

    /// Takes over what [`step`](crate::movement::step) gave. Velocity is cut to what is replicated,
    /// here and not on the way out: owner and client go on from the same value.
    pub fn set_body(&mut self, body: Body) {
        let velocity = |v: i32| (v / VELOCITY_STEP * VELOCITY_STEP) as f32 / 65_536.0;
        self.pos = position(body.place);
        self.yaw = body.yaw.radians() as f32;
        (self.vx, self.vy) = (velocity(body.velocity.x), velocity(body.velocity.y));
    }
}

/// A place that teams fight for. It wanders along the graph of ways.
#[derive(Replicate, Clone, Copy, PartialEq, Debug)]
#[replicate(name = "base", max_speed = 2.0)]
pub struct TeamBase {
    /// Its centre.
    #[replicate(place, motion, precision = 1.0 / 256.0, extent = 4096.0)]
    pub pos: [f32; 2],
    /// Whose it is; 0 for nobody's.
    #[replicate(max = 2)]
    pub team: u8,
    /// How far it is taken: negative by team 1, positive by team 2.
    #[replicate(min = -100, max = 100)]
    pub progress: i8,
    /// The node that it comes from.
    pub from: u16,
    /// The node that it goes to.
    pub to: u16,
    /// The round that it counts in.
    pub round: u16,
}

/// What an item does for its holder.
#[derive(Replicate, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Charm {
    /// Shots do more damage.
    Blade,
    /// Hits do less damage.
    Shield,
}

/// Something that one avatar at a time may hold. Only the item knows who does.
#[derive(Replicate, Clone, Copy, PartialEq, Debug)]
#[replicate(max_speed = 11.0)]
pub struct Item {
    /// Where it lies; while it is held, where its holder was of late.
    #[replicate(place, precision = 1.0 / 64.0, extent = 4096.0)]
    pub pos: [f32; 2],
    /// What it does.
    pub charm: Charm,
    /// The player who has it; 0 for nobody.
    pub holder: u32,
    /// When it leaves its holder.
    pub until: u16,
    /// The round that it lies in.
    pub round: u16,
}

/// What a unit is about.
#[derive(Replicate, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Duty {
    /// It stands, and hurts enemies who come near; its player may steer it.
    Guard,
    /// It goes to its target, to stand on guard there.
    March,
    /// It stands near its player's avatar, and goes after it when that is far.
    Follow,
    /// It goes after its player's avatar.
    Join,
    /// It was shot down, and comes back to its player's avatar.
    Down,
}

/// A player's helper. It goes where it is told, by the one way that everybody can work out: its
/// place is told where it stands, where it set out, and every few seconds on its way.
#[derive(Replicate, Clone, Copy, PartialEq, Debug)]
pub struct Unit {
    /// Where it stands, or set out.
    #[replicate(place, precision = 1.0 / 256.0, extent = 4096.0)]
    pub pos: [f32; 2],
    /// Its player's team.
    #[replicate(max = 2)]
    pub team: u8,
    /// What it is about.
    pub duty: Duty,
    /// 0: it is down.
    #[replicate(max = 60)]
    pub health: u8,
    /// The node that it goes to.
    pub target: u16,
    /// The tick at which it set out, last fired by hand, or was shot down.
    pub since: u32,
}

impl Unit {
    /// A fresh unit, on guard.
    pub fn at(place: Place, team: u8) -> Unit {
        let (pos, health) = (position(place), UNIT_HEALTH);
        Unit { pos, team, duty: Duty::Guard, health, target: 0, since: 0 }
    }

    /// Whether it is on its way: then `pos` is where it set out.
    pub fn walks(&self) -> bool {
        matches!(self.duty, Duty::March | Duty::Join)
    }
}

/// What a match is at.
#[derive(Replicate, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RoundPhase {
    /// A round is played.
    Play,
    /// A round is over, and the next has not begun: nothing counts, nobody is hurt.
    Break,
}

/// The score, and when the round ends. It has no place: everybody is told.
#[derive(Replicate, Clone, Copy, PartialEq, Debug)]
pub struct Match {
    /// The number of the round.
    pub round: u16,
    /// Points of team 1.
    pub first: u16,
    /// Points of team 2.
    pub second: u16,
    /// Who won the last round; 0 for nobody.
    #[replicate(max = 2)]
    pub winner: u8,
    /// The tick at which the phase ends.
    pub ends: u32,
    /// Whether a round is played.
    pub phase: RoundPhase,
}

impl Match {
    /// Where it is found: it is the first object of every world.
    pub const ID: ObjectId = ObjectId::new(MATCH, 0, 0);
}

/// A replicated place as the movement has it.
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

/// Where a point lies for the engine.
pub(crate) fn spot(at: Point) -> [f32; 3] {
    [at.x as f32, at.y as f32, 0.0]
}

/// A time from now, as it is replicated.
pub(crate) fn ticks_ahead(now: Tick, ticks: u32) -> u16 {
    now.plus(ticks).0 as u16
}

/// Ticks until a time that was at most `most` ahead; 0 when it is over. What is further ahead was
/// set long ago, before the low bits wrapped or the server restarted, and is over, too.
pub(crate) fn ticks_left(until: u16, now: Tick, most: u32) -> u32 {
    let left = u32::from(until.wrapping_sub(now.0 as u16));
    if left <= most { left } else { 0 }
}

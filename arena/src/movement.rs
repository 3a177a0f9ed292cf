//! The movement of an avatar in one tick, in integers.
//!
//! The server runs [`step`] and its result is the truth; the client, which is in another language,
//! reruns it to predict its own avatar. Both must agree to the last bit, hence:
//!
//! - No floats. Places are in 1/256 unit, velocities in 1/65,536 unit per tick, angles in 1/65,536
//!   turn.
//! - **Every intermediate value stays below 2^53**, so that a JavaScript number holds it exactly. With
//!   places up to 2^20, normals up to 2^13, velocities and sines up to 2^16, inputs up to 2^7 and
//!   obstacles up to 2^13 wide, the largest values are: velocity × (input · sines) < 2^41; normal ·
//!   place < 2^35; normal × depth < 2^42; depth × length < 2^42; normal × (velocity · normal) < 2^44;
//!   the comparison of two entry shares < 2^46.
//! - `/` rounds towards zero (`Math.trunc`), `rounded` to the nearest (`Math.floor` of the sum),
//!   `isqrt` down (`Math.floor(Math.sqrt(n))`, exact below 2^52).
//!
//! A step is: turn, approach the wanted velocity, move, slide along walls in the way.

use crate::collision::{CollisionMap, RADIUS, Wall};
use crate::error::ArenaError;
use crate::fixed::{Place, Velocity};
use crate::trig::{ONE, Yaw};
use serde::{Deserialize, Serialize};

/// The speed of a running avatar, in world units per second.
pub const MAX_SPEED: i64 = 10;
/// Acceleration towards the wanted velocity, in units per second²: full speed after 1/6 s.
pub const ACCELERATION: i64 = 60;
/// Deceleration without input, in units per second²: an avatar slides for 1.25 units.
pub const FRICTION: i64 = 40;

/// The input that asks for full speed.
pub const FULL_INPUT: i8 = 127;

/// The most walls that one step may slide along. Passages are wider than an avatar, so that it
/// touches one or two; an avatar that meets more in a tick stays where it was.
const MAX_SLIDES: usize = 4;

/// Velocity steps in one place step.
const VELOCITY_PER_PLACE: i64 = 256;
/// Velocity steps in one world unit.
const VELOCITY_PER_UNIT: i64 = 65_536;

/// Ticks per second, within the range for which movement is sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickRate(u16);

impl TickRate {
    /// 20 Hz, a tick of 50 ms: Silac's frame.
    pub const DEFAULT: TickRate = TickRate(20);
    /// At 10 Hz a step at full speed is as long as an avatar's radius. Longer ones could jump
    /// across the corner of a wall.
    pub const MIN: TickRate = TickRate(10);
    /// At 128 Hz a step at full speed is 20/256 unit; shorter ones would round directions visibly.
    pub const MAX: TickRate = TickRate(128);

    /// This many ticks per second, from [`TickRate::MIN`] to [`TickRate::MAX`].
    pub fn new(hz: u32) -> Result<Self, ArenaError> {
        let (min, max) = (u32::from(Self::MIN.0), u32::from(Self::MAX.0));
        match u16::try_from(hz) {
            Ok(rate) if (min..=max).contains(&hz) => Ok(Self(rate)),
            _ => Err(ArenaError::TickRate { got: hz, min, max }),
        }
    }

    /// Ticks per second.
    pub fn hz(self) -> u32 {
        u32::from(self.0)
    }
}

/// The speed of an avatar, in velocity steps (1/65,536 unit per tick).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AvatarSpeed {
    max_speed: i64,
    acceleration: i64,
    friction: i64,
}

impl AvatarSpeed {
    /// [`MAX_SPEED`], [`ACCELERATION`] and [`FRICTION`] at a tick rate.
    pub fn at(rate: TickRate) -> Self {
        let hz = i64::from(rate.hz());
        Self {
            max_speed: MAX_SPEED * VELOCITY_PER_UNIT / hz,
            acceleration: ACCELERATION * VELOCITY_PER_UNIT / (hz * hz),
            friction: FRICTION * VELOCITY_PER_UNIT / (hz * hz),
        }
    }

    /// The speed that no avatar exceeds, in 1/65,536 unit per tick.
    pub fn max_speed(&self) -> i64 {
        self.max_speed
    }
}

/// A player's input in one tick. Any value is allowed, and none makes an avatar faster than
/// [`AvatarSpeed::max_speed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ArenaInput {
    /// Along the facing: 127 is full speed, negative is backwards.
    pub forward: i8,
    /// Across the facing: positive is towards `yaw` + a quarter turn.
    pub strafe: i8,
    /// Where the avatar faces from this tick on.
    pub yaw: u16,
}

/// An avatar's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Body {
    /// Its centre.
    pub place: Place,
    /// Its velocity; after a step along a wall, the part that the wall leaves.
    pub velocity: Velocity,
    /// Where it faces.
    pub yaw: Yaw,
}

impl Body {
    /// A body at rest.
    pub fn at(place: Place) -> Self {
        Self { place, ..Self::default() }
    }
}

/// A body, one tick later. A free body ([`CollisionMap::is_free`]) stays free. Any other is
/// corrected: moved onto the map, slowed to the largest speed, and moved out of an obstacle by the
/// nearest wall.
///
/// ```
/// use foveate_arena::{ArenaMap, Body, CollisionMap, ArenaInput, Place, TickRate, step};
///
/// let map = CollisionMap::new(&ArenaMap::generate(1, 64.0, 0), TickRate::DEFAULT);
/// let start = Body::at(Place { x: 8_192, y: 8_192 });
/// let east = ArenaInput { forward: 127, strafe: 0, yaw: 0 };
/// let body = (0..20).fold(start, |body, _| step(&map, body, east));
/// assert_eq!(body.place.y, 8_192);
/// assert!(body.place.x > 8_192 + 9 * 256);
/// ```
pub fn step(map: &CollisionMap, body: Body, input: ArenaInput) -> Body {
    let pace = map.pace();
    let yaw = Yaw(input.yaw);
    let body = sound(map, body);
    let wish = wished_velocity(pace, input);
    let is_idle = wish == (Velocity { x: 0, y: 0 });
    let change = if is_idle { pace.friction } else { pace.acceleration };
    let velocity = approach(body.velocity, wish, change);
    let velocity = limited(i64::from(velocity.x), i64::from(velocity.y), pace.max_speed);
    let (place, velocity) = slide(map, body.place, velocity);
    Body { place, velocity, yaw }
}

/// The body within the bounds that the arithmetic relies on. Changes nothing in a body from
/// [`step`].
fn sound(map: &CollisionMap, body: Body) -> Body {
    let fastest = map.pace().max_speed as i32;
    let velocity = Velocity {
        x: body.velocity.x.clamp(-fastest, fastest),
        y: body.velocity.y.clamp(-fastest, fastest),
    };
    Body { place: map.inside_border(body.place), velocity, yaw: body.yaw }
}

/// The velocity that an input asks for. Both keys together are no faster than one.
fn wished_velocity(pace: &AvatarSpeed, input: ArenaInput) -> Velocity {
    let full = i64::from(FULL_INPUT);
    let keys = limited(i64::from(input.forward), i64::from(input.strafe), full);
    let (forward, strafe) = (i64::from(keys.x), i64::from(keys.y));
    let yaw = Yaw(input.yaw);
    let (sin, cos) = (i64::from(yaw.sin()), i64::from(yaw.cos()));
    let scale = full * i64::from(ONE);
    Velocity {
        x: (pace.max_speed * (forward * cos - strafe * sin) / scale) as i32,
        y: (pace.max_speed * (forward * sin + strafe * cos) / scale) as i32,
    }
}

/// The vector (x, y), shortened to at most `length`.
fn limited(x: i64, y: i64, length: i64) -> Velocity {
    let squared = x * x + y * y;
    if squared <= length * length {
        return Velocity { x: x as i32, y: y as i32 };
    }
    // One more than the root, rounded down, exceeds the length, so that the result is never too
    // long.
    let actual = squared.isqrt() + 1;
    Velocity { x: (x * length / actual) as i32, y: (y * length / actual) as i32 }
}

/// `from`, changed towards `to` by at most `change`.
fn approach(from: Velocity, to: Velocity, change: i64) -> Velocity {
    let (dx, dy) = (i64::from(to.x) - i64::from(from.x), i64::from(to.y) - i64::from(from.y));
    let delta = limited(dx, dy, change);
    Velocity { x: from.x + delta.x, y: from.y + delta.y }
}

/// Moves a place by a velocity, along the walls in the way, and returns the place with the rest of
/// the velocity.
///
/// Each wall that is entered moves the goal back onto it at a right angle, which *is* sliding, and
/// never lengthens the step, because the start is outside of the wall. Only the goal is tested: a
/// step is shorter than the avatar's radius, so none leads across an obstacle.
fn slide(map: &CollisionMap, from: Place, mut velocity: Velocity) -> (Place, Velocity) {
    let moved = |at: i32, by: i32| at + rounded(i64::from(by), VELOCITY_PER_PLACE) as i32;
    let wished = Place { x: moved(from.x, velocity.x), y: moved(from.y, velocity.y) };
    let mut goal = map.inside_border(wished);
    if goal.x != wished.x {
        velocity.x = 0;
    }
    if goal.y != wished.y {
        velocity.y = 0;
    }
    for _ in 0..MAX_SLIDES {
        let Some(walls) = map.obstacle_at(goal) else {
            return (goal, velocity);
        };
        let wall = entered(walls, from, goal);
        goal = map.inside_border(pushed_out(wall, goal));
        velocity = along(wall, velocity);
    }
    if map.obstacle_at(goal).is_none() {
        return (goal, velocity);
    }
    (from, Velocity::default())
}

/// The wall through which the way from `from` leads to `goal`, which is inside: of the walls that
/// `from` is outside of, the one crossed last. If `from` is inside as well, the nearest wall.
fn entered(walls: &[Wall], from: Place, goal: Place) -> &Wall {
    let mut best = &walls[0];
    // Share of the way at which `best` is crossed, as a fraction.
    let mut crossed: Option<(i64, i64)> = None;
    for wall in walls {
        let (before, after) = (wall.outside_by(from), wall.outside_by(goal));
        if before < 0 {
            continue;
        }
        let way = before - after;
        if crossed.is_none_or(|(b, w)| before * w > b * way) {
            (best, crossed) = (wall, Some((before, way)));
        }
    }
    if crossed.is_some() {
        return best;
    }
    for wall in walls {
        // Depths are negative: the nearest wall has the greatest.
        if wall.outside_by(goal) * best.length > best.outside_by(goal) * wall.length {
            best = wall;
        }
    }
    best
}

/// The place on or just outside of the wall that is nearest to `place`. Each component is rounded
/// away from the obstacle, so that the result is certainly outside.
fn pushed_out(wall: &Wall, place: Place) -> Place {
    let squared = wall.nx * wall.nx + wall.ny * wall.ny;
    let depth = -wall.outside_by(place);
    let away = |n: i64| {
        let magnitude = (n.abs() * depth + squared - 1) / squared;
        (n.signum() * magnitude) as i32
    };
    Place { x: place.x + away(wall.nx), y: place.y + away(wall.ny) }
}

/// The part of a velocity that a wall leaves: along the wall, and away from it.
fn along(wall: &Wall, velocity: Velocity) -> Velocity {
    let into = wall.nx * i64::from(velocity.x) + wall.ny * i64::from(velocity.y);
    if into >= 0 {
        return velocity;
    }
    let squared = wall.nx * wall.nx + wall.ny * wall.ny;
    Velocity {
        x: velocity.x - (wall.nx * into / squared) as i32,
        y: velocity.y - (wall.ny * into / squared) as i32,
    }
}

/// `n / d`, rounded to the nearest integer, halves up.
fn rounded(n: i64, d: i64) -> i64 {
    (n + d / 2).div_euclid(d)
}

/// The longest step of a tick at this speed, in 1/256 unit: the speed, and the roundings of the
/// move and of every wall on the way.
pub fn longest_step(pace: &AvatarSpeed) -> i64 {
    pace.max_speed / VELOCITY_PER_PLACE + 2 + 2 * MAX_SLIDES as i64
}

const _: () = {
    // A step at the lowest tick rate must not be longer than an avatar's radius (see `slide`).
    assert!(MAX_SPEED * 256 / TickRate::MIN.0 as i64 <= RADIUS as i64);
};

#[cfg(test)]
#[path = "movement_tests.rs"]
mod tests;

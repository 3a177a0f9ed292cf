//! The rules of units: go to a target, guard, follow, and be steered.
//!
//! While a unit walks, its state hardly changes: every node that knows the map and the order
//! computes its place ([`Arena::unit_at`]). The place is written when the unit stops (at its
//! target, or at an enemy in its way) and every few seconds, because interest depends on the
//! written place.

use super::avatar::{self, NOTICED};
use super::kinds::{AVATAR, Avatar, Duty, UNIT_HEALTH, Unit, Weapon, place, point, position, spot};
use super::weapon::{self, Hit, Shooter};
use super::{Action, Arena, ArenaEvent};
use crate::fixed::{Place, Velocity};
use crate::geometry::Point;
use crate::movement::{self, ArenaInput, Body, FULL_INPUT};
use crate::trig::{ONE, Yaw};
use foveate_node::game::{EventArea, Requester, StepContext};
use foveate_wire::{ObjectId, Tick};

/// How fast units go by themselves, in units per second.
pub const SPEED: f64 = 5.0;
/// An enemy this near stops a unit on its way.
pub const COLLISION: f64 = 2.0;
/// A unit that stands hurts enemies this near.
pub const GUARD: f64 = 8.0;
/// The damage to them.
pub const DAMAGE: u8 = 4;
/// How long a unit that was shot down is away, in milliseconds.
pub const AWAY_MS: u32 = 15_000;
/// A unit that follows sets out when its player's avatar is farther away than this.
pub const FOLLOWS: f64 = 10.0;
/// The time between two checks of the surroundings, in milliseconds: on the way, and standing.
const LOOK_MS: (u32, u32) = (250, 1_000);
/// The time on the way after which the unit writes its place, in milliseconds. Each time costs a
/// search for the rest of its way, here and at all receivers.
const TELLS_MS: u32 = 5_000;
/// A unit is rarely farther than this from its written place, in units.
pub(super) const STRAYS: f64 = SPEED * ((TELLS_MS + LOOK_MS.0) as f64 / 1_000.0 + 0.1);

pub(super) fn step(arena: &Arena, turn: &mut StepContext<'_, Arena>) {
    let id = turn.id();
    // Staggered, so that units of different players check their surroundings in different ticks.
    let phase = turn.tick().plus(id.serial().wrapping_add(id.origin().wrapping_mul(7))).0;
    let Some(mut unit) = turn.get::<Unit>() else { return };
    let look = if unit.walks() { LOOK_MS.0 } else { LOOK_MS.1 };
    if !phase.is_multiple_of(arena.ticks(look).max(1)) {
        return;
    }
    match unit.duty {
        Duty::March | Duty::Join => walk(arena, turn, &mut unit),
        Duty::Down => come_back(arena, turn, &mut unit),
        Duty::Follow => {
            follow(arena, turn, &mut unit);
            guard(arena, turn, &unit);
        }
        Duty::Guard => guard(arena, turn, &unit),
    }
    turn.set(&unit);
}

pub(super) fn act(
    arena: &Arena,
    turn: &mut StepContext<'_, Arena>,
    action: &Action,
    by: Requester,
) {
    let Some(mut unit) = turn.get::<Unit>() else { return };
    let own = turn.id().origin();
    match (action, by) {
        (Action::Hit { damage, weapon }, Requester::Object(by)) => {
            take_hit(arena, turn, &mut unit, Hit { damage: *damage, weapon: *weapon, by });
        }
        (Action::Steer { walk, fire }, Requester::Object(by)) if by == Avatar::of(own) => {
            steer(arena, turn, &mut unit, *walk, *fire);
        }
        (order, Requester::Player(player, _)) if player.0 == own && unit.duty != Duty::Down => {
            let (duty, target) = match order {
                Action::Order { target } => (Duty::March, *target),
                Action::Follow => (Duty::Follow, unit.target),
                Action::Stay => (Duty::Guard, unit.target),
                _ => return,
            };
            if usize::from(target) >= arena.map.graph().node_count() {
                return;
            }
            stop(arena, turn.tick(), &mut unit);
            (unit.duty, unit.target, unit.since) = (duty, target, turn.tick().0);
        }
        _ => return,
    }
    turn.set(&unit);
}

/// Where a unit is at a tick, and whether it has arrived.
pub(super) fn place_at(arena: &Arena, unit: &Unit, tick: Tick) -> (Point, bool) {
    if !unit.walks() {
        return (point(unit.pos), true);
    }
    let walked = f64::from(passed(unit, tick)) * SPEED / f64::from(arena.setup.rate.hz());
    // If it was ordered several times in one tick, it does not search ways that it will not walk.
    match walked > 0.0 {
        true => arena.ways.to_node(unit.pos, unit.target).after(walked),
        false => (point(unit.pos), false),
    }
}

/// Ticks since it set out, fired or was shot down. A later tick than now comes from before a
/// restart of the server.
fn passed(unit: &Unit, tick: Tick) -> u32 {
    if Tick(unit.since).is_after(tick) { 0 } else { tick.since(Tick(unit.since)) }
}

/// Writes the current place as its own; the caller sets the duty.
fn stop(arena: &Arena, now: Tick, unit: &mut Unit) {
    if unit.walks() {
        unit.pos = position(Place::near(place_at(arena, unit, now).0));
    }
}

fn walk(arena: &Arena, turn: &StepContext<'_, Arena>, unit: &mut Unit) {
    let now = turn.tick();
    let (here, arrived) = place_at(arena, unit, now);
    if arrived || enemy_near(arena, turn, unit, here, COLLISION).is_some() {
        unit.pos = position(Place::near(here));
        unit.duty = if unit.duty == Duty::Join { Duty::Follow } else { Duty::Guard };
    } else if passed(unit, now) >= arena.ticks(TELLS_MS) {
        tell(arena, turn, unit, here);
    }
}

/// Sets out again from where it is, unless the way from there is longer: it never turns back.
fn tell(arena: &Arena, turn: &StepContext<'_, Arena>, unit: &mut Unit, here: Point) {
    let pos = position(Place::near(here));
    let left = |pos: [f32; 2]| arena.ways.to_node(pos, unit.target).length();
    let walked = f64::from(passed(unit, turn.tick())) * SPEED / f64::from(arena.setup.rate.hz());
    if left(pos) <= left(unit.pos) - walked + 1.0 {
        (unit.pos, unit.since) = (pos, turn.tick().0);
        if unit.duty == Duty::Join {
            go_after(arena, turn, unit);
        }
    }
}

/// Sets out to the player's avatar, if that is far away.
fn follow(arena: &Arena, turn: &StepContext<'_, Arena>, unit: &mut Unit) {
    if go_after(arena, turn, unit).is_some_and(|far| far > FOLLOWS) {
        (unit.duty, unit.since) = (Duty::Join, turn.tick().0);
    }
}

/// Makes the player's avatar its target, and returns the distance.
fn go_after(arena: &Arena, turn: &StepContext<'_, Arena>, unit: &mut Unit) -> Option<f64> {
    let world = turn.world().with_frozen();
    let avatar = world.get::<Avatar>(Avatar::of(turn.id().origin()))?;
    let far = avatar.point().distance(point(unit.pos));
    if avatar.is_alive() && far > FOLLOWS {
        unit.target = arena.node_near(avatar.point()).0 as u16;
    }
    avatar.is_alive().then_some(far)
}

fn come_back(arena: &Arena, turn: &StepContext<'_, Arena>, unit: &mut Unit) {
    let world = turn.world().with_frozen();
    let avatar = world.get::<Avatar>(Avatar::of(turn.id().origin()));
    let Some(avatar) = avatar.filter(Avatar::is_alive) else { return };
    // A restarted server counts its ticks from 0: a unit that was shot down before is back.
    let fell_ahead = Tick(unit.since).is_after(turn.tick());
    if fell_ahead || passed(unit, turn.tick()) >= arena.ticks(AWAY_MS) {
        (unit.pos, unit.duty, unit.health) = (avatar.pos, Duty::Follow, UNIT_HEALTH);
        unit.team = avatar.team;
    }
}

/// One tick under its player's control: it walks as fast as avatars, without their momentum, and
/// fires.
fn steer(
    arena: &Arena,
    turn: &mut StepContext<'_, Arena>,
    unit: &mut Unit,
    walk: ArenaInput,
    fire: Option<u32>,
) {
    let now = turn.tick();
    if unit.duty == Duty::Down {
        return;
    }
    stop(arena, now, unit);
    unit.duty = Duty::Guard;
    let body = Body { velocity: wished(arena, walk), ..Body::at(place(unit.pos)) };
    unit.pos = position(movement::step(&arena.collision, body, walk).place);
    let cooldown = arena.ticks(Weapon::Dart.make().cooldown_ms);
    let Some(seen) = fire.filter(|_| passed(unit, now) >= cooldown) else { return };
    unit.since = now.0;
    let (from, team) = (point(unit.pos), unit.team);
    let shooter = Shooter { from, team, weapon: Weapon::Dart };
    weapon::shoot(arena, turn, &shooter, Yaw(walk.yaw), Tick(seen));
}

/// The velocity that an input asks for; the step limits it.
fn wished(arena: &Arena, walk: ArenaInput) -> Velocity {
    let (sin, cos) = (i64::from(Yaw(walk.yaw).sin()), i64::from(Yaw(walk.yaw).cos()));
    let (forward, strafe) = (i64::from(walk.forward), i64::from(walk.strafe));
    let scale = i64::from(FULL_INPUT) * i64::from(ONE);
    let part = |share: i64| (arena.collision.pace().max_speed() * share / scale) as i32;
    Velocity { x: part(forward * cos - strafe * sin), y: part(forward * sin + strafe * cos) }
}

fn take_hit(arena: &Arena, turn: &mut StepContext<'_, Arena>, unit: &mut Unit, hit: Hit) {
    let Hit { damage, by, .. } = hit;
    let counts = avatar::enemy(&turn.world(), unit.team, by).is_some() && unit.health > 0;
    if !counts {
        return;
    }
    unit.health = unit.health.saturating_sub(damage);
    if unit.health > 0 {
        return;
    }
    stop(arena, turn.tick(), unit);
    (unit.duty, unit.since) = (Duty::Down, turn.tick().0);
    let (player, which) = (turn.id().origin(), turn.id().serial().saturating_sub(1));
    let downed = ArenaEvent::Downed { player, unit: which.min(255) as u8, by: by.origin() };
    turn.event(EventArea::Point { at: spot(point(unit.pos)), radius: NOTICED }, downed);
}

fn guard(arena: &Arena, turn: &mut StepContext<'_, Arena>, unit: &Unit) {
    let here = point(unit.pos);
    let Some((id, enemy)) = enemy_near(arena, turn, unit, here, GUARD) else { return };
    let line = EventArea::Segment { from: spot(here), to: spot(enemy.point()), radius: NOTICED };
    let off = Place::near(enemy.point());
    let from = place(unit.pos);
    let yaw = Yaw::of(i64::from(off.x - from.x), i64::from(off.y - from.y));
    let shot = ArenaEvent::Shot {
        player: turn.id().origin(),
        unit: turn.id().serial().min(255) as u8,
        weapon: Weapon::Dart,
        yaw: yaw.0 / 64,
        length: (here.distance(enemy.point()) * 4.0).round() as u8,
        hits: 1,
    };
    turn.event(line, shot);
    turn.ask(id, Action::Hit { damage: DAMAGE, weapon: Weapon::Dart });
}

fn enemy_near(
    arena: &Arena,
    turn: &StepContext<'_, Arena>,
    unit: &Unit,
    here: Point,
    radius: f64,
) -> Option<(ObjectId, Avatar)> {
    let world = turn.world();
    let avatars = world.near(spot(here), radius as f32).into_iter();
    let avatars = avatars.filter(|id| id.kind() == AVATAR);
    let mut avatars = avatars.filter_map(|id| Some((id, world.get::<Avatar>(id)?)));
    avatars.find(|(_, other)| {
        other.is_alive() && other.team != unit.team && arena.map.line_of_sight(here, other.point())
    })
}

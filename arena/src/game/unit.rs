//! What units do: go where they are told, and guard where they stand.
//!
//! While a unit goes, its state does not change: whoever knows the map and the order knows where it
//! is ([`Arena::unit_at`]). Its place is written only when it stops: at its target, or at an enemy
//! who is in the way.

use super::avatar::NOTICED;
use super::kinds::{AVATAR, Avatar, Unit, point, position, spot};
use super::{Action, Arena, Event};
use crate::fixed::Place;
use crate::geometry::Point;
use foveate_node::game::{By, PlayerId, Spot, Turn};
use foveate_wire::Tick;

/// How fast units go, in units per second.
pub const SPEED: f64 = 5.0;
/// An enemy who is this near stops a unit on its way.
pub const COLLISION: f64 = 2.0;
/// A unit that stands hurts enemies this near.
pub const GUARD: f64 = 8.0;
/// What it costs them.
pub const DAMAGE: u8 = 4;
/// The time between two looks around, in milliseconds: on the way, and on guard.
const LOOK_MS: (u32, u32) = (250, 1_000);

pub(super) fn step(arena: &Arena, turn: &mut Turn<'_, Arena>) {
    let id = turn.id();
    // Staggered: units of different players look around in different ticks.
    let phase = turn.tick().plus(id.serial().wrapping_add(id.origin().wrapping_mul(7))).0;
    let Some(mut unit) = turn.get::<Unit>() else { return };
    let look = if unit.walks { LOOK_MS.0 } else { LOOK_MS.1 };
    if !phase.is_multiple_of(arena.ticks(look).max(1)) {
        return;
    }
    if !unit.walks {
        return guard(arena, turn, &unit);
    }
    let (here, arrived) = place_at(arena, &unit, turn.tick());
    if arrived || enemy_near(arena, turn, &unit, here, COLLISION).is_some() {
        unit.pos = position(Place::near(here));
        unit.walks = false;
        turn.set(&unit);
    }
}

pub(super) fn act(arena: &Arena, turn: &mut Turn<'_, Arena>, action: &Action, by: By) {
    let (Some(mut unit), Action::Order { target }) = (turn.get::<Unit>(), action) else { return };
    let is_own = matches!(by, By::Player(PlayerId(player), _) if player == turn.id().origin());
    if !is_own || usize::from(*target) >= arena.map.graph().node_count() {
        return;
    }
    if unit.walks {
        unit.pos = position(Place::near(place_at(arena, &unit, turn.tick()).0));
    }
    (unit.target, unit.since, unit.walks) = (*target, turn.tick().0, true);
    turn.set(&unit);
}

/// Where a unit is at a tick, and whether it has arrived.
pub(super) fn place_at(arena: &Arena, unit: &Unit, tick: Tick) -> (Point, bool) {
    if !unit.walks {
        return (point(unit.pos), true);
    }
    let ticks = tick.since(Tick(unit.since));
    // A tick before the order, or so long after it that a server must have started anew.
    let ticks = if Tick(unit.since).is_after(tick) { 0 } else { ticks };
    let walked = f64::from(ticks) * SPEED / f64::from(arena.setup.rate.hz());
    arena.ways.to_node(unit.pos, unit.target).after(walked)
}

fn guard(arena: &Arena, turn: &mut Turn<'_, Arena>, unit: &Unit) {
    let here = point(unit.pos);
    let Some((id, enemy)) = enemy_near(arena, turn, unit, here, GUARD) else { return };
    let line = Spot::Segment { from: spot(here), to: spot(enemy.point()), radius: NOTICED };
    turn.event(line, Event::Shot { player: turn.id().origin(), hit: true });
    turn.ask(id, Action::Hit { damage: DAMAGE });
}

fn enemy_near(
    arena: &Arena,
    turn: &Turn<'_, Arena>,
    unit: &Unit,
    here: Point,
    radius: f64,
) -> Option<(foveate_wire::ObjectId, Avatar)> {
    let world = turn.world();
    let avatars = world.near(spot(here), radius as f32).into_iter();
    let avatars = avatars.filter(|id| id.kind() == AVATAR);
    let mut avatars = avatars.filter_map(|id| Some((id, world.get::<Avatar>(id)?)));
    avatars.find(|(_, other)| {
        other.is_alive() && other.team != unit.team && arena.map.line_of_sight(here, other.point())
    })
}

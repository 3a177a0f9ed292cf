//! The rules of bases: wander, be taken, heal.

use super::avatar::NOTICED;
use super::kinds::{
    AVATAR, Avatar, HEALTH, Match, RoundPhase, TAKEN, TeamBase, place, position, spot,
};
use super::{Action, Arena, ArenaEvent};
use crate::fixed::{Place, SUBUNITS};
use crate::graph::NodeIx;
use foveate_node::game::{EventArea, StepContext};
use foveate_wire::ObjectId;

/// An avatar this near to a base's centre helps to take it.
pub const RADIUS: f64 = 6.0;
/// How fast a base wanders, in units per second.
pub const SPEED: f64 = 1.0;
/// The time between two counts of the avatars at the base, in milliseconds.
pub const COUNT_MS: u32 = 200;
/// Health that a base gives its team's avatars there, and how many counts pass between two times.
pub const HEALS: (u8, u32) = (6, 5);
/// Progress per count for each avatar of the majority: a single avatar needs 10 s.
const PROGRESS: i32 = 2;
/// A larger majority is no faster.
const CROWD: i32 = 3;

pub(super) fn step(arena: &Arena, turn: &mut StepContext<'_, Arena>) {
    let Some(mut base) = turn.get::<TeamBase>() else { return };
    wander(arena, &mut base, turn.id());
    let (at, every) = (turn.tick().plus(turn.id().serial()).0, arena.ticks(COUNT_MS).max(1));
    if at.is_multiple_of(every) {
        match turn.world().get::<Match>(Match::ID) {
            Some(contest) if contest.round != base.round => {
                (base.round, base.team, base.progress) = (contest.round, 0, 0);
            }
            Some(contest) if contest.phase == RoundPhase::Break => {}
            _ => count(turn, &mut base, (at / every).is_multiple_of(HEALS.1)),
        }
    }
    turn.set(&base);
}

/// Moves one tick towards the next node; there, draws the next way.
fn wander(arena: &Arena, base: &mut TeamBase, id: ObjectId) {
    let graph = arena.map.graph();
    let to = NodeIx(u32::from(base.to).min(graph.node_count() as u32 - 1));
    let (from, goal) = (place(base.pos), Place::near(graph.node(to).place));
    let (dx, dy) = (i64::from(goal.x - from.x), i64::from(goal.y - from.y));
    let left = (dx * dx + dy * dy).isqrt();
    let step = (SPEED * f64::from(SUBUNITS)) as i64 / i64::from(arena.setup.rate.hz());
    if left > step {
        let toward = |from: i32, by: i64| from + (by * step / left) as i32;
        base.pos = position(Place { x: toward(from.x, dx), y: toward(from.y, dy) });
        return;
    }
    base.pos = position(goal);
    let back = base.from;
    let ways = || graph.neighbours(to).map(|(node, _)| node.0 as u16).filter(|node| *node != back);
    // Drawn from the node and the one before, so that replicas can predict it.
    let mut rng = arena.chance(id, foveate_wire::Tick(to.0 << 16 | u32::from(back)));
    let next = match ways().count() {
        0 => Some(back),
        count => ways().nth(rng.usize(0..count)),
    };
    (base.from, base.to) = (base.to, next.unwrap_or(back));
}

/// The larger team at the base takes it, step by step. The base also heals its own team.
fn count(turn: &mut StepContext<'_, Arena>, base: &mut TeamBase, heals: bool) {
    let mut there: Vec<(ObjectId, u8)> = Vec::new();
    for id in turn.world().near(spot(super::kinds::point(base.pos)), RADIUS as f32) {
        let avatar = (id.kind() == AVATAR).then(|| turn.world().get::<Avatar>(id)).flatten();
        let Some(avatar) = avatar.filter(Avatar::is_alive) else { continue };
        there.push((id, avatar.team));
        if heals && avatar.team == base.team && avatar.health < HEALTH {
            turn.ask(id, Action::Heal { health: HEALS.0 });
        }
    }
    let of = |team: u8| there.iter().filter(|(_, other)| *other == team).count() as i32;
    let more = (of(2) - of(1)).clamp(-CROWD, CROWD);
    let before = i32::from(base.progress);
    let after = match more {
        // No avatar contests it: it falls back to its team.
        0 if there.is_empty() => before + (settled(base.team) - before).signum(),
        more => before + more * PROGRESS,
    };
    base.progress = after.clamp(-i32::from(TAKEN), i32::from(TAKEN)) as i8;
    let taker = match base.progress {
        TAKEN => 2,
        progress if progress == -TAKEN => 1,
        // Half-way, the team loses it.
        progress if i32::from(progress) * settled(base.team) < 0 => 0,
        _ => base.team,
    };
    if taker != base.team {
        base.team = taker;
        let event =
            if taker == 0 { ArenaEvent::Lost } else { ArenaEvent::Captured { team: taker } };
        let at = spot(super::kinds::point(base.pos));
        turn.event(EventArea::Point { at, radius: NOTICED }, event);
        for (id, _) in there.iter().filter(|(_, team)| *team == taker) {
            turn.ask(*id, Action::Captured);
        }
    }
}

/// The progress of a base that belongs to a team.
fn settled(team: u8) -> i32 {
    i32::from(TAKEN) * [0, -1, 1][usize::from(team.min(2))]
}

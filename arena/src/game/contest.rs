//! What the match does: keep the score, and end rounds.

use super::kinds::{AVATAR, BASE, Base, Match, spot};
use super::{Action, Arena, Event};
use crate::geometry::Point;
use foveate_node::game::{By, Spot, Turn};
use foveate_wire::Tick;

/// The time in which a base earns its team a point, in milliseconds.
pub const EARN_MS: u32 = 2_000;

pub(super) fn step(arena: &Arena, turn: &mut Turn<'_, Arena>) {
    let Some(mut contest) = turn.get::<Match>() else { return };
    let now = turn.tick();
    if now.0.is_multiple_of(arena.ticks(EARN_MS).max(1)) {
        for id in turn.world().of_kind(BASE) {
            let team = turn.world().get::<Base>(id).map_or(0, |base| base.team);
            earn(&mut contest, team);
        }
    }
    let left = Tick(contest.ends).since(now);
    let most = arena.setup.round_seconds.saturating_mul(arena.setup.rate.hz());
    let limit = arena.setup.score_limit;
    if left == 0 || contest.first >= limit || contest.second >= limit {
        let winner = match contest.first.cmp(&contest.second) {
            std::cmp::Ordering::Greater => 1,
            std::cmp::Ordering::Less => 2,
            std::cmp::Ordering::Equal => 0,
        };
        let round = contest.round.wrapping_add(1);
        contest = Match { round, first: 0, second: 0, winner, ends: now.plus(most).0 };
        let (side, half) = (arena.map.side(), arena.map.side() / 2.0);
        let everywhere = Spot::Point { at: spot(Point::new(half, half)), radius: side as f32 };
        turn.event(everywhere, Event::Won { team: winner });
    } else if left > most {
        // A new world, or one that was restored at another tick.
        contest.ends = now.plus(most).0;
    }
    turn.set(&contest);
}

pub(super) fn act(turn: &mut Turn<'_, Arena>, action: &Action, by: By) {
    let (Some(mut contest), Action::Point { team }) = (turn.get::<Match>(), action) else { return };
    if matches!(by, By::Object(id) if id.kind() == AVATAR) {
        earn(&mut contest, *team);
        turn.set(&contest);
    }
}

fn earn(contest: &mut Match, team: u8) {
    match team {
        1 => contest.first = contest.first.saturating_add(1),
        2 => contest.second = contest.second.saturating_add(1),
        _ => {}
    }
}

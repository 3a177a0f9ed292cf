//! The rules of the match: keep the score, end rounds, and start the next one after a break.

use super::kinds::{AVATAR, Avatar, Match, RoundPhase, TeamBase, spot};
use super::{Action, Arena, ArenaEvent};
use crate::geometry::Point;
use foveate_node::game::{EventArea, Requester, StepContext};
use foveate_wire::Tick;

/// The time in which a base earns its team a point, in milliseconds.
pub const EARN_MS: u32 = 2_000;
/// A team that is behind by more than the score limit divided by this earns [`CATCH_UP`] points
/// with each base, so that a round stays open for long.
pub const BEHIND: u16 = 20;
/// See [`BEHIND`].
pub const CATCH_UP: u16 = 2;
/// A phase that should have ended within this many seconds ends now: its last tick may have been
/// skipped while the match changed peers or its owner stalled.
const LATE: u32 = 10;

pub(super) fn step(arena: &Arena, turn: &mut StepContext<'_, Arena>) {
    let Some(mut contest) = turn.get::<Match>() else { return };
    let (now, setup) = (turn.tick(), &arena.setup);
    let plays = contest.phase == RoundPhase::Play;
    if plays && now.0.is_multiple_of(arena.ticks(EARN_MS).max(1)) {
        let behind = behind(&contest, setup.score_limit);
        // Bases out of this node's view count as they were last seen.
        for (_, TeamBase { team, .. }) in turn.world().with_frozen().iter::<TeamBase>() {
            earn(&mut contest, team, if team == behind { CATCH_UP } else { 1 });
        }
    }
    let ticks = |seconds: u32| seconds.saturating_mul(setup.rate.hz());
    let (round, pause) = (ticks(setup.round_seconds), ticks(setup.break_seconds));
    let (left, late) = (Tick(contest.ends).since(now), now.since(Tick(contest.ends)));
    let is_over = late <= ticks(LATE);
    let won = plays && contest.first.max(contest.second) >= setup.score_limit;
    if plays && (is_over || won) {
        contest.winner = leader(&contest);
        (contest.phase, contest.ends) = (RoundPhase::Break, now.plus(pause).0);
        turn.event(everywhere(arena), ArenaEvent::Won { team: contest.winner });
    } else if !is_over && left > if plays { round } else { pause } {
        // A new world, or one that was restored at another tick.
        contest.ends = now.plus(if plays { round } else { pause }).0;
    }
    let is_over = now.since(Tick(contest.ends)) <= ticks(LATE);
    if contest.phase == RoundPhase::Break && is_over {
        let (number, winner) = (contest.round.wrapping_add(1), contest.winner);
        let ends = now.plus(round).0;
        contest =
            Match { round: number, first: 0, second: 0, winner, ends, phase: RoundPhase::Play };
        turn.event(everywhere(arena), ArenaEvent::Began { round: number });
    }
    turn.set(&contest);
}

/// The team so far behind that its bases earn more; 0 for neither.
fn behind(contest: &Match, limit: u16) -> u8 {
    let lags = contest.first.abs_diff(contest.second) > limit / BEHIND;
    if lags { 3 - leader(contest) } else { 0 }
}

/// The team with more points; 0 for neither.
fn leader(contest: &Match) -> u8 {
    match contest.first.cmp(&contest.second) {
        std::cmp::Ordering::Greater => 1,
        std::cmp::Ordering::Less => 2,
        std::cmp::Ordering::Equal => 0,
    }
}

fn everywhere(arena: &Arena) -> EventArea {
    let (side, half) = (arena.map.side(), arena.map.side() / 2.0);
    EventArea::Point { at: spot(Point::new(half, half)), radius: side as f32 }
}

pub(super) fn act(turn: &mut StepContext<'_, Arena>, action: &Action, by: Requester) {
    let (Some(mut contest), Action::Point { team }) = (turn.get::<Match>(), action) else { return };
    let Requester::Object(by) = by else { return };
    // A dead avatar requests the point for the other team, and cannot do so for its own.
    let own = turn.world().with_frozen().get::<Avatar>(by).map(|avatar| avatar.team);
    let by_rule = by.kind() == AVATAR && own != Some(*team);
    if by_rule && contest.phase == RoundPhase::Play {
        earn(&mut contest, *team, 1);
        turn.set(&contest);
    }
}

fn earn(contest: &mut Match, team: u8, points: u16) {
    match team {
        1 => contest.first = contest.first.saturating_add(points),
        2 => contest.second = contest.second.saturating_add(points),
        _ => {}
    }
}

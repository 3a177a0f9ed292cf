//! The first look at every pair, in every round: most replicas are right, and nothing has to be done.
//!
//! A pair whose replica is within the strictest floors that its policy has is not due, whatever its
//! grade. Finding that out takes two distances and a few comparisons on what lies side by side in
//! memory; only the others are graded (`docs/adr/0004-look-at-every-pair-cheaply.md`).

use super::grade::{LEAST_WAY, Nearest, nearest};
use crate::deviation;
use crate::interest::Pivot;
use crate::schedule::{Mode, NextCheck, Observer, PairState, Tallies};
use crate::store::{ObjectState, Store};
use foveate_wire::{Kind, Metres, Position, Tick, predict};

/// What stays the same for all pairs of an observer in a round.
struct Quiet {
    tick: Tick,
    reach_square: f32,
    /// Floors of place per unit of distance, and of facings as a share of the schema's.
    angle: f32,
    facing: f32,
    /// How far the fastest pivot moves in a round.
    slack: Metres,
}

/// What a first look tells.
enum Seen {
    /// The replica is surely right: for how many rounds it may be left alone. It may be right without
    /// being surely so.
    Right(u8),
    /// It may differ, but is surely not due, for so many rounds.
    Waits(u32),
    /// It has to be graded.
    Unsure,
}

/// Fills `attention` with the pairs that need more than a look; counts the others as kept.
pub(super) fn pass(
    observer: &mut Observer,
    store: &Store,
    awake: &[u32],
    attention: &mut Vec<u32>,
) {
    attention.clear();
    let tick = store.tick();
    let floors = observer.policy.floors().filter(|_| !observer.pivots.is_empty());
    let Some(floors) = floors else {
        attention.extend(0..observer.pair_states.len() as u32);
        return;
    };
    let (reach, angle, facing) = (observer.policy.reach().0, floors.place.0, floors.facing);
    let slack = observer.pivot_reach();
    let quiet = Quiet { tick, reach_square: reach * reach, angle, facing, slack };
    let kinds = store.schema().kinds();
    debug_assert_eq!(observer.tallies.counts(), Tallies::of(&observer.next_checks).counts());
    let (mut right, classes) = (observer.tallies.counts(), observer.tallies.classes());
    let Observer { next_checks, pair_states, pivots, counters, phase, .. } = observer;
    // Taken apart here, not for every pair.
    let (pivots, hot, phase) = (&pivots[..], &store.hot[..], *phase);
    let (next_checks, pair_states) = (&mut next_checks[..], &mut pair_states[..]);
    for at in awake {
        let (gate, wake) = (&mut pair_states[*at as usize], &mut next_checks[*at as usize]);
        let seen = match wake.mode {
            Mode::Watched | Mode::Special => Seen::Unsure,
            Mode::Right | Mode::Wrong => {
                let hot = &hot[wake.slot.at()];
                quiet.look(gate, hot, &kinds[usize::from(hot.kind.0)], pivots)
            }
        };
        match seen {
            Seen::Right(rest) => {
                wake.set_within(tick, rest, phase);
                if wake.mode == Mode::Wrong {
                    wake.mode = Mode::Right;
                    gate.clear_difference();
                }
            }
            Seen::Waits(rounds) => {
                let since = wake.unseen_since(tick, gate.rest);
                let since = gate.reference.map_or(since, |it| it.differs_since(since, tick));
                gate.note_difference(since);
                wake.mode = Mode::Wrong;
                wake.set(tick.plus(rounds));
            }
            Seen::Unsure => {
                right[wake.class()] -= u16::from(wake.tally & NextCheck::KNOWN != 0);
                attention.push(*at);
            }
        }
    }
    for (samples, right) in counters.samples.iter_mut().zip(&right[..classes]) {
        *samples += u64::from(*right);
    }
}

/// Fills `awake` with the pairs whose time has come.
#[inline]
pub(super) fn find_awake(next_checks: &[NextCheck], tick: Tick, awake: &mut Vec<u32>) {
    awake.resize(next_checks.len(), 0);
    let mut found = 0;
    for (at, wake) in next_checks.iter().enumerate() {
        // Without a branch: it cannot be predicted which pairs are awake.
        awake[found] = at as u32;
        found += usize::from(!wake.is_after(tick));
    }
    awake.truncate(found);
}

impl Quiet {
    #[inline(always)]
    fn look(&self, gate: &PairState, hot: &ObjectState, kind: &Kind, pivots: &[Pivot]) -> Seen {
        let Some(replica) = gate.reference.as_ref().filter(|_| hot.alive) else {
            return Seen::Unsure;
        };
        let others = if gate.own() { hot.head.wrapping_sub(1) } else { hot.others };
        let others_moved = (others.wrapping_sub(replica.push) as i32) > 0;
        let Some(place) = &kind.place else {
            // Without a place every state counts: only a replica of the newest one is right.
            let newest =
                gate.rest != 0 && !others_moved && hot.head.wrapping_sub(replica.push) == 1;
            return if newest { Seen::Right(1) } else { Seen::Unsure };
        };
        let square = nearest_square(pivots, hot.pos);
        let distance = Metres(square.sqrt());
        let beyond = distance > gate.edge;
        if square > self.reach_square || (gate.rest != 1 && !beyond) {
            return Seen::Unsure;
        }
        // In parts of a step, as many as the motion has rounds: so nothing has to be divided.
        let parts = replica.motion.ticks.max(1) as f32;
        let age = self.tick.since(replica.tick);
        let rounds = age.min(predict::HORIZON) as f32;
        let off = |axis: usize| {
            let off = hot.place[axis].wrapping_sub(replica.at[axis]) as f32;
            off * parts - replica.motion.moved[axis] as f32 * rounds
        };
        let off = off(0) * off(0) + off(1) * off(1) + off(2) * off(2);
        let off = off * (place.precision * place.precision);
        // The replica's line is rounded to whole steps on each axis: allow for it.
        let within = |bound: f32| {
            let bound = larger(bound - place.precision, 0.0) * parts;
            off <= bound * bound
        };
        if within(distance.0 * self.angle) && !others_moved {
            let facing = if gate.plain() && beyond { 1.0 } else { self.facing };
            if !deviation::turned(kind, &replica.facing, &hot.facing, facing) {
                return Seen::Right(gate.rest);
            }
        }
        let (calm, leeway) = (u32::from(gate.patience.calm), gate.patience.leeway());
        if !beyond || age >= calm || !within(distance.0 * leeway) {
            return Seen::Unsure;
        }
        if let Some(cosine) = gate.patience.off_axis() {
            // A head is turned at any moment.
            let off_axis = nearest(pivots, hot.pos).is_some_and(|Nearest { pivot, .. }| {
                let ahead = |axis: usize| (hot.pos[axis] - pivot.at[axis]) * pivot.facing[axis];
                ahead(0) + ahead(1) + ahead(2) < cosine * distance.0
            });
            return if off_axis { Seen::Waits(1) } else { Seen::Unsure };
        }
        if gate.rest == 1 {
            return Seen::Waits(1);
        }
        let left = (calm - age).min(u32::from(gate.rest));
        let error = Metres(off.sqrt() / parts + place.precision);
        let unseen = SeenError { error, distance }.rounds_within(leeway, hot, self.slack);
        Seen::Waits(left.min((unseen.max(0.0) as u32).saturating_add(1)))
    }
}

/// How far a replica is off, seen from the nearest pivot.
#[derive(Clone, Copy)]
pub(super) struct SeenError {
    pub error: Metres,
    /// From the pivot to the object.
    pub distance: Metres,
}

impl SeenError {
    /// Rounds for which the replica stays off by less than a share of the distance, if it and its object part at full
    /// speed each while object and pivot come nearer at theirs. Rarely needed: inlined, it would take registers from the
    /// look at every pair.
    #[inline(never)]
    pub fn rounds_within(self, share: f32, hot: &ObjectState, slack: Metres) -> f32 {
        if share.is_infinite() {
            return f32::INFINITY;
        }
        let lost = hot.reach * 2.0 + (hot.reach + slack) * share;
        (self.distance * share - self.error) / lost.max(LEAST_WAY)
    }
}

/// The larger of two numbers. Unlike [`f32::max`] it does not care for what is not a number, and is one instruction.
#[inline(always)]
pub(super) fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The smaller of two numbers, likewise.
#[inline(always)]
pub(super) fn smaller(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[inline(always)]
fn nearest_square(pivots: &[Pivot], pos: Position) -> f32 {
    let square = |pivot: &Pivot| pos.square_distance(pivot.at);
    match pivots {
        [pivot] => square(pivot),
        pivots => pivots.iter().map(square).fold(f32::INFINITY, smaller),
    }
}

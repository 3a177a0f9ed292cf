//! The first look at every pair, in every round: most replicas are right, and nothing has to be done.
//!
//! A pair whose replica is within the strictest floors that its policy has is not due, whatever its
//! grade. Finding that out takes two distances and a few comparisons on what lies side by side in
//! memory; only the others are graded (`docs/adr/0004-look-at-every-pair-cheaply.md`).

use super::due::EXPIRES;
use crate::interest::{CLASSES, Pivot};
use crate::schedule::{Gate, Mode, Observer};
use crate::store::{Hot, Store};
use foveate_wire::{Kind, Tick, predict};

/// What stays the same for all pairs of an observer in a round.
struct Quiet {
    tick: Tick,
    reach_square: f32,
    /// Floors of place per unit of distance, and of facings as a share of the schema's.
    angle: f32,
    facing: f32,
}

/// Fills `attention` with the pairs that need more than a look; counts the others as kept.
pub(super) fn pass(observer: &mut Observer, store: &Store, attention: &mut Vec<u32>) {
    attention.clear();
    let tick = store.tick();
    let floors = observer.policy.floors().filter(|_| !observer.pivots.is_empty());
    let Some(floors) = floors else {
        attention.extend(0..observer.gates.len() as u32);
        return;
    };
    let reach = observer.policy.reach().0;
    let quiet =
        Quiet { tick, reach_square: reach * reach, angle: floors.place.0, facing: floors.facing };
    let kinds = store.schema().kinds();
    let mut right = [0u64; CLASSES];
    for (at, gate) in observer.gates.iter_mut().enumerate() {
        let counted = usize::from(gate.class);
        if gate.look_at.is_after(tick) {
            right[counted] += u64::from(gate.mode != Mode::Watched);
            continue;
        }
        let calm = match gate.mode {
            Mode::Watched | Mode::Special => false,
            Mode::Right | Mode::Wrong => {
                let hot = &store.hot[gate.slot.at()];
                let kind = &kinds[usize::from(hot.kind.0)];
                quiet.is_right(gate, hot, kind, &observer.pivots)
            }
        };
        if !calm {
            attention.push(at as u32);
            continue;
        }
        right[counted] += 1;
        if gate.mode == Mode::Wrong {
            gate.mode = Mode::Right;
            observer.pairs[at].since = None;
        }
    }
    for (class, right) in right.into_iter().enumerate() {
        observer.counters.samples[class] += right;
        observer.counters.kept[class] += right;
    }
}

impl Quiet {
    /// Whether the replica is surely right. A no may still turn out to be a yes.
    #[inline]
    fn is_right(&self, gate: &mut Gate, hot: &Hot, kind: &Kind, pivots: &[Pivot]) -> bool {
        let since = hot.head.wrapping_sub(gate.push);
        if since > EXPIRES || (hot.others.wrapping_sub(gate.push) as i32) > 0 || !hot.alive {
            return false;
        }
        let Some(place) = &kind.place else { return since == 1 };
        let square = nearest_square(pivots, hot.pos);
        if square > self.reach_square {
            return false;
        }
        let age = self.tick.since(gate.tick).min(predict::HORIZON) as f32;
        let off = |axis: usize| {
            hot.place[axis].wrapping_sub(gate.at[axis]) as f32 - gate.step[axis] * age
        };
        let off = off(0) * off(0) + off(1) * off(1) + off(2) * off(2);
        // The replica's line is rounded to whole steps on each axis: allow for it.
        let distance = square.sqrt();
        let floor = (distance * self.angle / place.precision).max(1.0) - 1.0;
        let right = off <= floor * floor && self.faces(gate, hot, kind);
        let rest = if right && distance > gate.edge { u32::from(gate.rest) } else { 1 };
        gate.look_at = self.tick.plus(rest);
        right
    }

    #[inline]
    fn faces(&self, gate: &Gate, hot: &Hot, kind: &Kind) -> bool {
        gate.facing == hot.facing
            || kind.floored.iter().filter(|floored| floored.facing).all(|floored| {
                let pitch = kind.pitch.is_some_and(|(lane, _)| lane == floored.lane);
                let which = usize::from(pitch);
                let off = hot.facing[which].wrapping_sub(gate.facing[which]).unsigned_abs();
                let off = off.min(floored.modulus.wrapping_sub(off));
                off as f32 <= floored.floor_steps as f32 * self.facing
            }) && kind.facings_have_floors
    }
}

#[inline]
fn nearest_square(pivots: &[Pivot], pos: [f32; 3]) -> f32 {
    let square = |pivot: &Pivot| {
        let off = |axis: usize| pos[axis] - pivot.at[axis];
        off(0) * off(0) + off(1) * off(1) + off(2) * off(2)
    };
    let (first, rest) = (square(&pivots[0]), &pivots[1..]);
    rest.iter().map(square).fold(first, f32::min)
}

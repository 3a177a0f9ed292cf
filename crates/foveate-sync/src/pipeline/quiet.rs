//! The first look at every pair, in every round: most replicas are right, and nothing has to be done.
//!
//! A pair whose replica is within the strictest floors that its policy has is not due, whatever its
//! grade. Finding that out takes two distances and a few comparisons on what lies side by side in
//! memory; only the others are graded (`docs/adr/0004-look-at-every-pair-cheaply.md`).

use super::due::EXPIRES;
use crate::deviation;
use crate::interest::{CLASSES, Pivot};
use crate::schedule::{Gate, Mode, Observer, Wake};
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
    let mut right = [0u32; 2 * CLASSES];
    let Observer { wakes, gates, pairs, pivots, counters, .. } = observer;
    for (at, wake) in wakes.iter_mut().enumerate() {
        let counted = &mut right[usize::from(wake.tally) % (2 * CLASSES)];
        if wake.at.is_after(tick) {
            *counted += 1;
            continue;
        }
        let gate = &mut gates[at];
        let rest = match gate.mode {
            Mode::Watched | Mode::Special => None,
            Mode::Right | Mode::Wrong => {
                let hot = &store.hot[gate.slot.at()];
                quiet.rest(gate, hot, &kinds[usize::from(hot.kind.0)], pivots)
            }
        };
        let Some(rest) = rest else {
            attention.push(at as u32);
            continue;
        };
        *counted += 1;
        wake.at = tick.plus(rest);
        if gate.mode == Mode::Wrong {
            gate.mode = Mode::Right;
            pairs[at].since = None;
        }
    }
    let known = &right[usize::from(Wake::KNOWN)..];
    for (class, right) in known.iter().enumerate().filter(|(_, right)| **right > 0) {
        counters.samples[class] += u64::from(*right);
        counters.kept[class] += u64::from(*right);
    }
}

impl Quiet {
    /// If the replica is surely right: for how many rounds it may be left alone. It may be right
    /// without being surely so.
    #[inline(always)]
    fn rest(&self, gate: &Gate, hot: &Hot, kind: &Kind, pivots: &[Pivot]) -> Option<u32> {
        let since = hot.head.wrapping_sub(gate.push);
        let others = if gate.own { hot.head.wrapping_sub(1) } else { hot.others };
        if since > EXPIRES || (others.wrapping_sub(gate.push) as i32) > 0 || !hot.alive {
            return None;
        }
        let Some(place) = &kind.place else { return (since == 1).then_some(1) };
        let square = nearest_square(pivots, hot.pos);
        let age = self.tick.since(gate.tick).min(predict::HORIZON) as f32;
        let off = |axis: usize| {
            hot.place[axis].wrapping_sub(gate.at[axis]) as f32 - gate.step[axis] * age
        };
        let off = off(0) * off(0) + off(1) * off(1) + off(2) * off(2);
        // The replica's line is rounded to whole steps on each axis: allow for it.
        let distance = square.sqrt();
        let floor = (distance * self.angle - place.precision).max(0.0) / place.precision;
        let right = square <= self.reach_square
            && off <= floor * floor
            && !deviation::turned(kind, &gate.facing, &hot.facing, self.facing);
        right.then_some(if distance > gate.edge { u32::from(gate.rest) } else { 1 })
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

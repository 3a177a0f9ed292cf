//! The first look at every pair, in every round: most replicas are right, and nothing has to be done.
//!
//! A pair whose replica is within the strictest floors that its policy has is not due, whatever its
//! grade. Finding that out takes two distances and a few comparisons on what lies side by side in
//! memory; only the others are graded (`docs/adr/0004-look-at-every-pair-cheaply.md`).

use crate::deviation;
use crate::interest::Pivot;
use crate::schedule::{Gate, Mode, Observer, Tallies, Wake};
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
        attention.extend(0..observer.gates.len() as u32);
        return;
    };
    let (reach, angle, facing) = (observer.policy.reach().0, floors.place.0, floors.facing);
    let quiet = Quiet { tick, reach_square: reach * reach, angle, facing };
    let kinds = store.schema().kinds();
    debug_assert_eq!(observer.tallies, Tallies::of(&observer.wakes));
    let mut right = observer.tallies.counts();
    let Observer { wakes, gates, pivots, counters, phase, .. } = observer;
    for at in awake {
        let (gate, wake) = (&mut gates[*at as usize], &mut wakes[*at as usize]);
        let rest = match wake.mode {
            Mode::Watched | Mode::Special => None,
            Mode::Right | Mode::Wrong => {
                let hot = &store.hot[gate.slot.at()];
                quiet.rest(gate, hot, &kinds[usize::from(hot.kind.0)], pivots)
            }
        };
        let Some(rest) = rest else {
            right[wake.class()] -= u32::from(wake.tally & Wake::KNOWN != 0);
            attention.push(*at);
            continue;
        };
        wake.set_within(tick, rest, *phase);
        if wake.mode == Mode::Wrong {
            wake.mode = Mode::Right;
            gate.clear_difference();
        }
    }
    for (class, right) in right.iter().enumerate().filter(|(_, right)| **right > 0) {
        counters.samples[class] += u64::from(*right);
        counters.kept[class] += u64::from(*right);
    }
}

/// Fills `awake` with the pairs whose time has come.
#[inline]
pub(super) fn find_awake(wakes: &[Wake], tick: Tick, awake: &mut Vec<u32>) {
    awake.resize(wakes.len(), 0);
    let mut found = 0;
    for (at, wake) in wakes.iter().enumerate() {
        // Without a branch: whose time has come cannot be foreseen.
        awake[found] = at as u32;
        found += usize::from(!wake.is_after(tick));
    }
    awake.truncate(found);
}

impl Quiet {
    /// If the replica is surely right: for how many rounds it may be left alone. It may be right
    /// without being surely so.
    #[inline(always)]
    fn rest(&self, gate: &Gate, hot: &Hot, kind: &Kind, pivots: &[Pivot]) -> Option<u8> {
        let replica = gate.reference.as_ref()?;
        let others = if gate.own { hot.head.wrapping_sub(1) } else { hot.others };
        if (others.wrapping_sub(replica.push) as i32) > 0 || !hot.alive {
            return None;
        }
        let Some(place) = &kind.place else {
            // Without a place every state counts: right is who has the newest.
            return (hot.head.wrapping_sub(replica.push) == 1).then_some(1);
        };
        let square = nearest_square(pivots, hot.pos);
        let distance = square.sqrt();
        let plain = gate.plain && distance > gate.edge;
        let facing = if plain { 1.0 } else { self.facing };
        if square > self.reach_square
            || deviation::turned(kind, &replica.facing, &hot.facing, facing)
        {
            return None;
        }
        // In parts of a step, as many as the motion has rounds: so nothing has to be divided.
        let parts = replica.motion.ticks.max(1) as f32;
        let age = self.tick.since(replica.tick).min(predict::HORIZON) as f32;
        let off = |axis: usize| {
            let off = hot.place[axis].wrapping_sub(replica.at[axis]) as f32;
            off * parts - replica.motion.moved[axis] as f32 * age
        };
        let off = off(0) * off(0) + off(1) * off(1) + off(2) * off(2);
        // The replica's line is rounded to whole steps on each axis: allow for it.
        let floor = (distance * self.angle - place.precision).max(0.0) * parts;
        let right = off * (place.precision * place.precision) <= floor * floor;
        right.then(|| gate.rest_at(distance))
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

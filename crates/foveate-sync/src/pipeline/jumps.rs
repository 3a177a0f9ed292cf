//! Objects that came from elsewhere: created, teleported, or on another side now.
//!
//! Neighbourhoods are looked up rarely, because objects move no faster than their kind can. An object that does is
//! looked at apart, by observers near one of the two ends of its jump only.

use super::grade::{MARGIN, nearest};
use super::{RoundInputs, Scratch};
use crate::interest::Pivot;
use crate::schedule::{NextCheck, Observer, Pair, PairState, push_tight};
use crate::store::{Jump, Store};
use foveate_wire::{Metres, Position};
use std::ops::Range;

/// The jumps of a round, in the order of both their ends along the first axis.
#[derive(Default)]
pub(super) struct Jumps {
    /// A coordinate and a jump. Those of objects without a place come first.
    ends: Vec<(f32, u32)>,
}

impl Jumps {
    /// Sorts the round's jumps.
    pub(super) fn sort(&mut self, store: &Store) {
        self.ends.clear();
        // In steps: a round with a few more than ever before need not allocate.
        self.ends.reserve((2 * store.jumped.len()).next_multiple_of(1_024));
        for (at, Jump { slot, from }) in store.jumped.iter().enumerate() {
            let hot = &store.hot[slot.at()];
            let at = at as u32;
            match hot.placed {
                true => self.ends.extend([(hot.pos[0], at), (from[0], at)]),
                false => self.ends.push((f32::NEG_INFINITY, at)),
            }
        }
        self.ends.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    }

    /// Those of objects without a place.
    fn placeless(&self) -> Range<usize> {
        0..self.ends.partition_point(|(x, _)| *x == f32::NEG_INFINITY)
    }

    /// Those that may begin or end within `reach` of a pivot.
    fn around(&self, pivot: &Pivot, reach: Metres) -> Range<usize> {
        let first = self.ends.partition_point(|(x, _)| *x < pivot.at[0] - reach.0);
        let count = self.ends[first..].partition_point(|(x, _)| *x <= pivot.at[0] + reach.0);
        first..first + count
    }
}

/// Objects that jumped into the neighbourhood become pairs; those that jumped within it or out of it
/// are looked at. No other object has to be.
pub(super) fn meet_jumped(observer: &mut Observer, round: &RoundInputs<'_>, scratch: &mut Scratch) {
    let RoundInputs { store, jumps, .. } = *round;
    if store.jumped.is_empty() {
        return;
    }
    let reach = observer.policy.reach() * (1.0 + MARGIN);
    let near = |pivots: &[Pivot], pos: Position| {
        !reach.0.is_finite() || nearest(pivots, pos).is_some_and(|it| it.is_within(reach))
    };
    let (tick, before) = (store.tick(), observer.pair_states.len());
    let Observer { pairs, pair_states, next_checks, pivots, .. } = observer;
    let (sought, found) = (scratch.next_search(), scratch.next_search());
    let Scratch { met, .. } = scratch;
    let ranges = || {
        let around = pivots.iter().map(|pivot| jumps.around(pivot, reach));
        std::iter::once(jumps.placeless()).chain(around)
    };
    let jumped = || ranges().flat_map(|range| &jumps.ends[range]);
    let mut any = false;
    for (_, at) in jumped() {
        let Jump { slot, from } = &store.jumped[*at as usize];
        let hot = &store.hot[slot.at()];
        if !hot.placed || near(pivots, hot.pos) || near(pivots, *from) {
            met[slot.at()] = sought;
            any = true;
        }
    }
    if !any {
        return;
    }
    for (at, wake) in next_checks.iter_mut().enumerate() {
        let met = &mut met[wake.slot.at()];
        if *met == sought {
            *met = found;
            wake.set(tick);
            pair_states[at].grade_anew();
        }
    }
    for (_, at) in jumped() {
        let slot = store.jumped[*at as usize].slot;
        let (met, hot) = (&mut met[slot.at()], &store.hot[slot.at()]);
        if *met == sought && (!hot.placed || near(pivots, hot.pos)) {
            *met = found;
            push_tight(pairs, Pair::watch(tick));
            push_tight(pair_states, PairState::new(tick));
            push_tight(next_checks, NextCheck::new(slot, tick));
        }
    }
    next_checks[before..].iter().for_each(|wake| store.pin(wake.slot));
}

//! Due: which graded pairs have to be sent now, and how urgent each is.

use super::{RoundInputs, Rounds, Turn};
use crate::deviation;
use crate::interest::Grade;
use crate::schedule::{DuePair, DueReason, Graded, Mode, Observer, PairState};
use crate::store::{HISTORY, Slot, Store};
use foveate_wire::{Metres, Micros, Tick, predict};

/// A state that is needed from the history and this close to leaving it is sent again before it does.
const EXPIRES: u32 = HISTORY - 8;
/// Errors and missed changes count for at most this much urgency, so that one object that jumped
/// far does not hold up all others; age counts without limit, so that no pair waits for ever.
const URGENCY_CAP: f32 = 8.0;
/// The most that one pair presses for a packet under strain: that of a replica which is missing. A packet is for
/// several pairs that are wrong rather than for one that is far off.
const MAX_PRESS: f32 = 4.0;
/// An error of zero is taken for this one, so that nothing is divided by zero.
const LEAST_ERROR: Metres = Metres(f32::MIN_POSITIVE);

impl RoundInputs<'_> {
    /// Turns `turn.graded` into `turn.due`; counts samples, as if everything due were sent.
    pub(super) fn due(&self, turn: &mut Turn, observer: &mut Observer) {
        let RoundInputs { store, rounds, .. } = *self;
        let tick = store.tick();
        turn.due.clear();
        observer.counters.looked += turn.graded.len() as u64;
        for graded in &turn.graded {
            let at = graded.pair as usize;
            let (gate, wake) = (&mut observer.pair_states[at], &mut observer.next_checks[at]);
            let class = wake.class();
            observer.counters.samples[class] += 1;
            let forced = wake.mode == Mode::Special && observer.pairs[at].forced;
            let state = Judged::of(store, wake.slot, gate, graded, forced);
            if state.known && !forced {
                wake.mode = if state.differs { Mode::Wrong } else { Mode::Right };
                wake.set(tick.plus(1));
            }
            let verdict = state.verdict(gate, &graded.grade, rounds, tick);
            let Some((fired, urgency)) = verdict else {
                if let Some(patience) = graded.patience {
                    gate.patience = patience;
                }
                continue;
            };
            let kept = state.within(gate, &graded.grade, rounds, tick);
            let (pair, rest, facing) = (graded.pair, graded.rest, graded.grade.facing);
            // Its own object is predicted by the observer, and corrected a few rounds later.
            let near = !gate.own() && graded.factor <= 1.0;
            let press = if near { state.press() } else { 0.0 };
            turn.due.push(DuePair { pair, urgency, fired, facing, rest, kept, press });
        }
        if !turn.leaving.is_empty() {
            self.due_leaving(turn, observer);
        }
    }

    /// Adds those of `turn.leaving` whose replica differs. They stay due until they are sent or the replica is
    /// frozen, and are no samples: nothing bounds a replica that is out of interest.
    #[cold]
    fn due_leaving(&self, turn: &mut Turn, observer: &mut Observer) {
        let store = self.store;
        let tick = store.tick();
        for graded in &turn.leaving {
            let at = graded.pair as usize;
            let (gate, wake) = (&mut observer.pair_states[at], &mut observer.next_checks[at]);
            // The observer may not know of the object at all.
            if gate.reference.is_none() {
                continue;
            }
            let differs = Judged::of(store, wake.slot, gate, graded, false).differs;
            gate.clear_difference();
            let forced = &mut observer.pairs[at].forced;
            *forced |= differs;
            if *forced {
                wake.set(tick.plus(1));
                let (pair, rest, facing) = (graded.pair, graded.rest, graded.grade.facing);
                let (urgency, fired, kept) = (URGENCY_CAP, DueReason::Error, true);
                turn.due.push(DuePair { pair, urgency, fired, facing, rest, kept, press: 0.0 });
            }
        }
    }
}

/// How far a pair's reference replica is from the truth.
struct Judged {
    /// There is a reference replica at all.
    known: bool,
    /// The state is sent whether it differs or not.
    forced: bool,
    /// A field deviates by more than its floor.
    differs: bool,
    /// The state is about to leave the history.
    expiring: bool,
    /// How far the place is off.
    error: Metres,
    /// How far the place may be off without being sent.
    floor: Metres,
    /// ν′: the largest of ν, the floor and the precision.
    allowed: Metres,
    /// Changes since the reference.
    missed: u32,
}

impl Judged {
    #[inline]
    fn of(
        store: &Store,
        slot: Slot,
        gate: &mut PairState,
        graded: &Graded,
        forced: bool,
    ) -> Judged {
        let (tick, hot, grade) = (store.tick(), &store.hot[slot.at()], &graded.grade);
        let kind = &store.schema().kinds()[usize::from(hot.kind.0)];
        let mut judged = Judged {
            known: false,
            forced,
            differs: true,
            expiring: false,
            error: Metres::ZERO,
            floor: Metres::ZERO,
            allowed: Metres::ZERO,
            missed: 0,
        };
        let Some(reference) = gate.reference.filter(|reference| reference.is_held(hot)) else {
            gate.note_difference(tick);
            return judged;
        };
        let floor = deviation::floor(kind, grade);
        if let Some(place) = &kind.place {
            let way = predict::way(place, &reference.motion, tick.since(reference.tick));
            let at = |axis: usize| reference.at[axis].wrapping_add(way[axis]);
            let off = |axis: usize| hot.place[axis].wrapping_sub(at(axis)) as f32;
            let square = off(0) * off(0) + off(1) * off(1) + off(2) * off(2);
            judged.error = Metres(square.sqrt() * place.precision);
        }
        judged.known = true;
        judged.floor = floor;
        judged.missed = hot.head.wrapping_sub(reference.push).wrapping_sub(1);
        judged.expiring = judged.missed >= EXPIRES && reference.others_moved_on(hot);
        judged.allowed = grade.max_error.max(floor);
        judged.differs = judged.error > floor
            || kind.tells_apart(reference.access, gate.access())
            || (judged.missed > 0 && {
                (reference.others_moved_on(hot)
                    && deviation::others_changed(
                        kind,
                        store.pushed(hot, kind.lane_count(), reference.push),
                        store.lanes(slot),
                        gate.access(),
                    ))
                    || deviation::turned(kind, &reference.facing, &hot.facing, grade.facing)
            });
        if judged.differs {
            gate.note_difference(reference.differs_since(graded.since, tick));
        } else {
            gate.clear_difference();
        }
        judged
    }

    /// How much a near pair presses for a packet under strain.
    fn press(&self) -> f32 {
        match self.known {
            true => (self.error / self.floor.max(LEAST_ERROR)).clamp(1.0, MAX_PRESS),
            false => MAX_PRESS,
        }
    }

    /// Which bound fires, and how urgent the pair is.
    #[inline]
    fn verdict(
        &self,
        gate: &PairState,
        grade: &Grade,
        rounds: Rounds,
        tick: Tick,
    ) -> Option<(DueReason, f32)> {
        let span = grade.max_age.max(rounds.length);
        let Some(reference) = gate.reference.as_ref().filter(|_| self.known) else {
            // A replica that is missing is the worst: it begins ahead, and its weight fades half as fast.
            let waited = rounds.length * gate.since().map_or(0, |since| tick.since(since));
            let urgency = 1.0 + waited.0 as f32 / span.0 as f32;
            return Some((DueReason::New, urgency * grade.weight.sqrt()));
        };
        let fired = if self.forced {
            DueReason::New
        } else if self.differs && rounds.length * tick.since(reference.tick) >= grade.max_age {
            DueReason::Age
        } else if self.differs && self.missed >= grade.max_missed {
            DueReason::Missed
        } else if self.differs && self.error >= self.allowed {
            DueReason::Error
        } else if self.expiring {
            DueReason::Refresh
        } else {
            return None;
        };
        // Waiting counts from when the difference arose: a replica that was right for long is not
        // more urgent for it.
        let waited = rounds.length * gate.since().map_or(0, |since| tick.since(since) + 1);
        let by_age = waited.0 as f32 / span.0 as f32;
        let by_error = self.error / self.allowed.max(LEAST_ERROR);
        let by_missed = self.missed as f32 / grade.max_missed as f32;
        let urgency = by_age.max(by_error.min(URGENCY_CAP)).max(by_missed.min(URGENCY_CAP));
        // An update now takes a quarter of what the whole state will take when it has expired.
        let urgency = if self.expiring { f32::MAX } else { urgency * grade.weight };
        let least = if self.forced { URGENCY_CAP * grade.weight } else { 0.0 };
        Some((fired, urgency.max(least)))
    }

    /// Whether the bounds are kept if nothing is sent now.
    fn within(&self, gate: &PairState, grade: &Grade, rounds: Rounds, tick: Tick) -> bool {
        let age = gate.since().map_or(Micros::ZERO, |since| rounds.length * tick.since(since));
        self.known
            && (!self.differs
                || (age <= grade.max_age.max(rounds.length)
                    && self.missed <= grade.max_missed
                    && self.error <= self.allowed))
    }
}

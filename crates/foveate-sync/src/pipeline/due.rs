//! Due: which graded pairs have to be sent now, and how urgent each is.

use super::{Publisher, Rounds};
use crate::deviation;
use crate::interest::Grade;
use crate::schedule::{Bound, Fired, Graded, Observer, Pair};
use crate::store::{HISTORY, Hot, Store};
use foveate_wire::{Kind, Micros, Tick, predict};

/// A state this close to leaving the history is sent again before it does.
const EXPIRES: u32 = HISTORY - 8;
/// Errors and missed changes count for at most this much urgency, so that one object that jumped
/// far does not hold up all others; age counts without limit, so that nobody waits for ever.
const URGENCY_CAP: f32 = 8.0;
/// Rounds that a pair may be left alone, at most.
const MAX_REST: f32 = 32.0;

impl Publisher {
    /// Turns `scratch.graded` into `scratch.due`; counts samples, as if everything due were sent.
    pub(super) fn due(&mut self, observer: &mut Observer) {
        let Publisher { store, scratch, rounds, .. } = self;
        let tick = store.tick();
        scratch.due.clear();
        for graded in &scratch.graded {
            let pair = &mut observer.pairs[graded.pair as usize];
            let class = usize::from(pair.class);
            observer.counters.samples[class] += 1;
            observer.counters.kept[class] += 1;
            let hot = &store.hot[pair.slot.at()];
            let kind = &store.schema().kinds()[usize::from(hot.kind.0)];
            let state = Judged::of(pair, hot, (store, kind), &graded.grade, tick);
            let Some((fired, urgency)) = state.verdict(pair, &graded.grade, *rounds, tick) else {
                state.rest(pair, graded, hot, *rounds, tick);
                continue;
            };
            let kept = state.within(pair, &graded.grade, *rounds, tick);
            scratch.due.push(Bound { pair: graded.pair, urgency, fired, kept });
        }
    }
}

/// How far a pair's reference replica is from the truth.
struct Judged {
    /// There is a reference replica at all.
    known: bool,
    /// A field deviates by more than its floor.
    differs: bool,
    /// The state is about to leave the history.
    expiring: bool,
    /// How far the place is off, in world units.
    error: f32,
    /// ν′: the largest of ν, the floor and the precision.
    allowed: f32,
    /// Changes since the reference.
    missed: u32,
    /// How much faster than the speed limit the error can grow, in world units per round.
    drift: f32,
}

impl Judged {
    #[inline]
    fn of(
        pair: &mut Pair,
        hot: &Hot,
        (store, kind): (&Store, &Kind),
        grade: &Grade,
        tick: Tick,
    ) -> Judged {
        let mut judged = Judged {
            known: false,
            differs: true,
            expiring: false,
            error: 0.0,
            allowed: 0.0,
            missed: 0,
            drift: 0.0,
        };
        let Some(reference) = pair.reference.filter(|reference| reference.is_held(hot)) else {
            return judged;
        };
        let lanes = store.pushed(hot, kind.lane_count(), reference.push);
        let floor = deviation::floor(kind, grade);
        if let Some(place) = &kind.place {
            let at = predict::place(place, lanes, tick.since(reference.tick));
            let off = |axis: usize| hot.place[axis].wrapping_sub(at[axis]) as f32;
            let square = off(0) * off(0) + off(1) * off(1) + off(2) * off(2);
            judged.error = square.sqrt() * place.precision;
            if place.motion > 0 {
                judged.drift = drift(&lanes[place.at + place.dims..][..place.dims])
                    * (place.motion as f32 * place.precision);
            }
        }
        judged.known = true;
        judged.missed = hot.head.wrapping_sub(reference.push).wrapping_sub(1);
        judged.expiring = judged.missed >= EXPIRES;
        judged.allowed = grade.max_error.0.max(floor);
        let strict = (hot.strict.wrapping_sub(reference.push) as i32) > 0;
        judged.differs = strict
            || judged.error > floor
            || (judged.missed > 0 && deviation::turned(kind, lanes, store.head(hot, kind), grade.facing));
        pair.since = if judged.differs { pair.since.or(Some(tick)) } else { None };
        judged
    }

    /// Which bound fires, and how urgent the pair is.
    #[inline]
    fn verdict(&self, pair: &Pair, grade: &Grade, rounds: Rounds, tick: Tick) -> Option<(Fired, f32)> {
        let Some(reference) = pair.reference.filter(|_| self.known) else {
            // The first state of an object is worth a lot, but less than a pair left waiting.
            return Some((Fired::New, URGENCY_CAP * grade.weight));
        };
        let age = rounds.length * tick.since(reference.tick);
        let span = grade.max_age.max(rounds.length);
        let by_age = age.0 as f32 / span.0 as f32;
        let by_error = self.error / self.allowed.max(f32::MIN_POSITIVE);
        let by_missed = self.missed as f32 / grade.max_missed as f32;
        let urgency = by_age.max(by_error.min(URGENCY_CAP)).max(by_missed.min(URGENCY_CAP));
        let urgency = urgency * grade.weight;
        if pair.forced {
            return Some((Fired::New, urgency.max(URGENCY_CAP * grade.weight)));
        }
        if self.differs {
            if age >= grade.max_age {
                return Some((Fired::Age, urgency));
            } else if self.missed >= grade.max_missed {
                return Some((Fired::Missed, urgency));
            } else if self.error >= self.allowed {
                return Some((Fired::Error, urgency));
            }
        }
        self.expiring.then_some((Fired::Refresh, urgency))
    }

    /// Whether the bounds are kept if nothing is sent now.
    fn within(&self, pair: &Pair, grade: &Grade, rounds: Rounds, tick: Tick) -> bool {
        let age = pair.since.map_or(Micros::ZERO, |since| rounds.length * tick.since(since));
        self.known
            && (!self.differs
                || (age <= grade.max_age.max(rounds.length)
                    && self.missed <= grade.max_missed
                    && self.error <= self.allowed))
    }

    /// A pair that is not due is left alone until the earliest round in which it could be: its
    /// difference is old enough, or the error could have grown to the bound, or the grade could
    /// have become stricter.
    #[inline]
    fn rest(&self, pair: &mut Pair, graded: &Graded, hot: &Hot, rounds: Rounds, tick: Tick) {
        pair.check_at = tick.plus(1);
        let (grade, Some(reference)) = (&graded.grade, pair.reference) else { return };
        if grade.steady.0 <= 0.0 || grade.max_missed != u32::MAX {
            return;
        }
        // The bound and the floor shrink as the object comes nearer; half of the way is safe.
        let growth = 2.0 * (hot.reach + self.drift) + 1e-6;
        let by_error = (self.allowed - self.error) / growth;
        let by_grade = grade.steady.0.min(0.5 * graded.distance) / growth;
        let left = (grade.max_age.0 / rounds.length.0) as f32 - tick.since(reference.tick) as f32;
        let rest = left.min(by_error).min(by_grade).min(MAX_REST);
        if rest > 1.0 {
            pair.check_at = tick.plus(rest as u32);
        }
    }
}

/// The length of a velocity, in the units of its lanes.
#[inline]
fn drift(velocity: &[i32]) -> f32 {
    velocity.iter().map(|v| *v as f32 * *v as f32).sum::<f32>().sqrt()
}

//! Due: which graded pairs have to be sent now, and how urgent each is.

use super::{Publisher, Rounds};
use crate::deviation;
use crate::interest::Grade;
use crate::schedule::{Bound, Fired, Graded, Observer, Pair, Reference};
use crate::store::{COURSE_STEPS, COURSE_TURN, Course, HISTORY, Hot, Store};
use foveate_wire::{Kind, Micros, Motion, PlaceLanes, Tick, predict};

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
        let slack = observer.pivot_reach();
        scratch.due.clear();
        for graded in &scratch.graded {
            let pair = &mut observer.pairs[graded.pair as usize];
            let gate = &mut observer.gates[graded.pair as usize];
            let class = usize::from(gate.class);
            observer.counters.samples[class] += 1;
            observer.counters.kept[class] += 1;
            let hot = &store.hot[pair.slot.at()];
            let kind = &store.schema().kinds()[usize::from(hot.kind.0)];
            let state = Judged::of(pair, hot, (store, kind), &graded.grade, tick);
            let Some((fired, urgency)) = state.verdict(pair, &graded.grade, *rounds, tick) else {
                let look = Rest { store, kind, hot, rounds: *rounds, tick, slack };
                gate.check_at = tick.plus(look.rounds(&state, pair, graded));
                continue;
            };
            let kept = state.within(pair, &graded.grade, *rounds, tick);
            let facing = graded.grade.facing;
            scratch.due.push(Bound { pair: graded.pair, urgency, fired, facing, kept });
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
    /// Errors up to this are no difference.
    floor: f32,
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
            floor: 0.0,
        };
        let Some(reference) = pair.reference.filter(|reference| reference.is_held(hot)) else {
            return judged;
        };
        let lanes = store.pushed(hot, kind.lane_count(), reference.push);
        let floor = deviation::floor(kind, grade);
        if let Some(place) = &kind.place {
            let at = predict::place(place, lanes, &reference.motion, tick.since(reference.tick));
            let off = |axis: usize| hot.place[axis].wrapping_sub(at[axis]) as f32;
            let square = off(0) * off(0) + off(1) * off(1) + off(2) * off(2);
            judged.error = square.sqrt() * place.precision;
        }
        judged.known = true;
        judged.floor = floor;
        judged.missed = hot.head.wrapping_sub(reference.push).wrapping_sub(1);
        judged.expiring = judged.missed >= EXPIRES
            || hot.head.wrapping_sub(reference.facing) > EXPIRES;
        judged.allowed = grade.max_error.0.max(floor);
        let strict = (hot.strict.wrapping_sub(reference.push) as i32) > 0;
        judged.differs = strict
            || judged.error > floor
            || (judged.missed > 0 && {
                let faced = store.pushed(hot, kind.lane_count(), reference.facing);
                deviation::turned(kind, faced, store.head(hot, kind), grade.facing, 1.0)
            });
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
}

/// How long a pair that is not due may be left alone.
struct Rest<'a> {
    store: &'a Store,
    kind: &'a Kind,
    hot: &'a Hot,
    rounds: Rounds,
    tick: Tick,
    /// World units that the observer's fastest pivot moves in a round.
    slack: f32,
}

impl Rest<'_> {
    /// Rounds in which the pair cannot become due, as long as its object keeps its course: then the
    /// replica's line and the object's are known, and so is how fast they part.
    #[inline]
    fn rounds(&self, state: &Judged, pair: &Pair, graded: &Graded) -> u32 {
        let (Some(promise), Some(reference)) = (&graded.grade.promise, &pair.reference) else {
            return 1;
        };
        let Some(place) = self.kind.place.as_ref().filter(|_| graded.distance > 0.0) else { return 1 };
        let then = self.store.pushed(self.hot, self.kind.lane_count(), reference.push);
        let course = &self.store.courses[pair.slot.at()];
        if !state.differs && !self.faces_along(reference, course, graded.grade.facing) {
            return 1;
        }
        let age = self.tick.since(reference.tick);
        let (gap, rate) = self.parting(place, (then, &reference.motion), age, course);
        let bound = if state.differs { promise.max_error.0.max(state.floor) } else { state.floor };
        let bound = bound / place.precision;
        // As the object comes nearer, its floor and its bound shrink with the distance.
        let closing = (self.hot.reach + self.slack) / graded.distance;
        let mut rest = (bound - COURSE_STEPS - gap) / (rate + bound * closing + 1e-6);
        rest = rest.min(promise.steady.0 / (closing * graded.distance + 1e-6));
        if state.differs {
            if graded.grade.max_missed != u32::MAX {
                return 1;
            }
            rest = rest.min((promise.max_age.0 / self.rounds.length.0) as f32 - age as f32);
        }
        if place.motion && age < predict::HORIZON {
            rest = rest.min((predict::HORIZON - age) as f32);
        }
        let faced = self.hot.head.wrapping_sub(reference.facing);
        let held = EXPIRES.saturating_sub(state.missed.max(faced)) as f32;
        (rest.min(MAX_REST).min(held) as u32).max(1)
    }

    /// Whether the object's facing cannot leave the floor around the replica's without leaving its
    /// course.
    fn faces_along(&self, reference: &Reference, course: &Course, facing: f32) -> bool {
        if self.kind.floored.is_empty() {
            return true;
        }
        let held = self.hot.head.wrapping_sub(course.push) <= HISTORY;
        held && {
            let lanes = self.kind.lane_count();
            let began = self.store.pushed(self.hot, lanes, course.push);
            let then = self.store.pushed(self.hot, lanes, reference.facing);
            let shares = (facing - COURSE_TURN, 1.0 - COURSE_TURN);
            !deviation::turned(self.kind, then, began, shares.0, shares.1)
        }
    }

    /// How far the object's line is from the replica's now, and how fast they part, in steps.
    #[inline]
    fn parting(
        &self,
        place: &PlaceLanes,
        (then, motion): (&[i32], &Motion),
        age: u32,
        course: &Course,
    ) -> (f32, f32) {
        let along = self.tick.since(course.since) as f32;
        let replica = predict::place(place, then, motion, age);
        let moving = place.motion && age < predict::HORIZON;
        let pace = if moving { 1.0 / motion.ticks.max(1) as f32 } else { 0.0 };
        let (mut gap, mut rate) = (0.0, 0.0);
        for axis in 0..3 {
            let line = course.at[axis].wrapping_sub(replica[axis]) as f32;
            let line = line + course.step[axis] * along;
            let part = course.step[axis] - motion.moved[axis] as f32 * pace;
            gap += line * line;
            rate += part * part;
        }
        (gap.sqrt(), rate.sqrt())
    }
}

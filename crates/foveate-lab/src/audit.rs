//! The auditor compares replicas with the true state and finds out why they differ.
//!
//! Each round, after the server has sent: `Audit::truth` records the true state, `Audit::sent` what was sent, and
//! `Audit::sample` compares one observer's replica of one object. It sees everything and changes nothing.

mod coherence;
mod findings;
mod sender;

pub use coherence::{CoherenceSpec, SessionCoherence};
pub use findings::{Bin, Broken, Causes, Findings};
pub use sender::{SenderAudit, SenderFindings};

use coherence::Moment;
use foveate_sync::interest::Grade;
use foveate_sync::metrics::Counters;
use foveate_sync::replica::ReplicaView;
use foveate_sync::{Deviation, Predicted, deviation};
use foveate_wire::{Kind, Metres, Micros, Schema, Tick};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rounds of true states that are kept, to find out when a difference arose.
const MEMORY: usize = 128;
/// Sends of a pair that are kept.
const SENDS: usize = 64;

#[derive(Clone, Default)]
struct PairAudit {
    /// The round of the replica's state at the last sample.
    state: Option<Tick>,
    /// When the replica began to differ.
    since: Option<Tick>,
    /// When the object came into interest, while the observer has no replica of it.
    wanted: Option<Tick>,
    /// The longest duration of the observer's present difference, as a multiple of θ′.
    peak: f64,
    /// The same for the sender's reference replica.
    sender_peak: f64,
    /// The sender's wait, with each round divided by the θ′ that held in it.
    accrued: f64,
    /// When states were sent, and whether the packet was lost.
    sends: VecDeque<(Tick, bool)>,
}

/// A replica's newest state, ready to be predicted to `now`.
fn predicted<'a>(replica: &'a ReplicaView<'_>, now: Tick) -> Predicted<'a> {
    let (lanes, motion) = (replica.lanes(), replica.motion());
    Predicted { lanes, motion, age: now.since(replica.tick()) }
}

/// An observer and an object that it should know, as indices of movers.
#[derive(Clone, Copy)]
pub(crate) struct WatchedPair {
    pub watcher: usize,
    pub object: usize,
}

/// One pair in one round.
pub(crate) struct Sample<'a> {
    pub pair: WatchedPair,
    pub grade: Grade,
    pub distance: Metres,
    /// The object's true place.
    pub truth: [f32; 3],
    pub replica: Option<ReplicaView<'a>>,
    /// Since when the sender's reference replica has differed.
    pub waiting: Option<Tick>,
    pub now: Tick,
}

/// A mover's past: its lanes in the last rounds, and the rounds in which they changed.
#[derive(Clone, Default)]
struct Truth {
    rounds: VecDeque<(Tick, Vec<i32>)>,
    changes: VecDeque<Tick>,
}

impl Truth {
    fn note(&mut self, tick: Tick, lanes: &[i32]) {
        if self.rounds.back().is_none_or(|(_, last)| last != lanes) {
            if self.changes.len() == MEMORY {
                self.changes.pop_front();
            }
            self.changes.push_back(tick);
        }
        let full = self.rounds.len() == MEMORY;
        let spare = if full { self.rounds.pop_front() } else { None };
        let mut row = spare.map(|(_, row)| row).unwrap_or_default();
        row.clear();
        row.extend_from_slice(lanes);
        self.rounds.push_back((tick, row));
    }

    /// Changes after a round: the first one, and their number.
    fn changes_after(&self, state: Tick) -> (Option<Tick>, u32) {
        let later = self.changes.iter().rev().take_while(|tick| tick.is_after(state));
        later.fold((None, 0), |(_, count), tick| (Some(*tick), count + 1))
    }
}

/// Collects [`Findings`] without changing what it observes.
pub struct Audit {
    kind: Arc<Schema>,
    round: Micros,
    count: usize,
    pairs: Vec<PairAudit>,
    truths: Vec<Truth>,
    bin_width: f32,
    moment: Option<Moment>,
    found: Findings,
    /// The source's counters when the findings began.
    before: Counters,
}

impl Audit {
    pub(crate) fn new(count: usize, schema: &Arc<Schema>, round: Micros) -> Audit {
        Audit {
            kind: Arc::clone(schema),
            round,
            count,
            pairs: vec![PairAudit::default(); count * count],
            truths: vec![Truth::default(); count],
            bin_width: f32::INFINITY,
            moment: None,
            found: Findings::default(),
            before: Counters::default(),
        }
    }

    /// Starts the findings now. The state of pairs is kept. `counted` holds the source's counters so far.
    pub(crate) fn begin(&mut self, counted: Counters) {
        let bins = vec![Bin::default(); self.found.by_distance.len()];
        let longest_first_wait = self.found.longest_first_wait;
        self.found = Findings { by_distance: bins, longest_first_wait, ..Findings::default() };
        self.before = counted;
    }

    /// Also collects findings by distance, in `count` bins of this width.
    pub(crate) fn set_bins(&mut self, width: Metres, count: usize) {
        self.bin_width = width.0.max(1e-3);
        self.found.by_distance = vec![Bin::default(); count];
    }

    /// Also measures coherence.
    pub(crate) fn set_coherence(&mut self, spec: CoherenceSpec) {
        self.moment = Some(Moment::new(spec, self.count));
    }

    fn kind(&self) -> &Kind {
        &self.kind.kinds()[0]
    }

    /// Forgets the state of a mover that has left.
    pub(crate) fn forget(&mut self, at: usize) {
        self.truths[at] = Truth::default();
        for other in 0..self.count {
            for index in [at * self.count + other, other * self.count + at] {
                let gone = std::mem::take(&mut self.pairs[index]);
                self.found.end_wait(gone.peak);
                self.found.end_sender_wait(gone.sender_peak);
            }
        }
    }

    pub(crate) fn left(&mut self, counters: &Counters, up_bytes: u64, malformed: u64) {
        self.found.counters.add(counters);
        self.found.up_bytes += up_bytes;
        self.found.malformed += malformed;
    }

    /// Counts a round with `present` observers. `updates` is the number of updates that the game received; without the
    /// library it would send each to all others.
    pub(crate) fn count_round(&mut self, present: u64, updates: u64) {
        self.found.rounds += 1;
        self.found.observer_rounds += present;
        self.found.updates += updates;
        self.found.relayed += updates * present.saturating_sub(1);
    }

    pub(crate) fn truth(&mut self, at: usize, tick: Tick, lanes: &[i32]) {
        self.truths[at].note(tick, lanes);
    }

    pub(crate) fn sent(&mut self, pair: WatchedPair, sent: Tick, now: Tick, lost: bool) {
        if sent == now {
            let index = self.index(pair);
            let sends = &mut self.pairs[index].sends;
            if sends.len() == SENDS {
                sends.pop_front();
            }
            sends.push_back((now, lost));
        }
    }

    fn index(&self, pair: WatchedPair) -> usize {
        pair.watcher * self.count + pair.object
    }

    /// The first round in which the replica's state differed from the true one.
    fn arose(&self, object: usize, replica: &ReplicaView<'_>, grade: &Grade) -> Option<Tick> {
        let (kind, state) = (self.kind(), replica.tick());
        let later = self.truths[object].rounds.iter().filter(|(tick, _)| tick.is_after(state));
        let mut since = None;
        for (tick, truth) in later {
            let differs = deviation(kind, &predicted(replica, *tick), truth, grade).differs;
            since = if differs { since.or(Some(*tick)) } else { None };
        }
        since
    }

    pub(crate) fn sample(&mut self, sample: &Sample<'_>) {
        let index = self.index(sample.pair);
        self.found.samples += 1;
        self.sender_waits(index, sample);
        match &sample.replica {
            Some(replica) => self.compare(index, sample, replica),
            None => self.missing(index, sample),
        }
    }

    /// Handles an observer that has no replica of an object in its interest.
    fn missing(&mut self, index: usize, sample: &Sample<'_>) {
        let wanted = *self.pairs[index].wanted.get_or_insert(sample.now);
        let waited = self.round * sample.now.since(wanted);
        self.found.longest_first_wait = self.found.longest_first_wait.max(waited);
        if let Some(bin) = self.found.bin(sample.distance, self.bin_width) {
            bin.missing += 1;
        }
        let cause = self.cause(index, None);
        self.found.blame(sample.grade.class, Broken::Unknown, cause);
        if let Some(moment) = &mut self.moment {
            moment.lacks(sample.pair, sample.distance, waited);
        }
    }

    fn compare(&mut self, index: usize, sample: &Sample<'_>, replica: &ReplicaView<'_>) {
        let Sample { pair: WatchedPair { object, .. }, grade, now, .. } = *sample;
        let state = replica.tick();
        let Some((_, lanes)) = self.truths[object].rounds.back() else { return };
        let found = deviation(self.kind(), &predicted(replica, now), lanes, &grade);
        let since = if !found.differs {
            None
        } else if self.pairs[index].state == Some(state) {
            self.pairs[index].since.or(Some(now))
        } else {
            self.arose(object, replica, &grade).or(Some(now))
        };
        let (first_missed, missed) = self.truths[object].changes_after(state);
        self.observer_waits(index, since, sample);
        let pair = &mut self.pairs[index];
        (pair.since, pair.state, pair.wanted) = (since, Some(state), None);
        self.measure(replica, sample, since);
        match self.broken(&found, since.map(|since| now.since(since)), missed, &grade) {
            None => self.found.kept += 1,
            Some(broken) => {
                let cause = self.cause(index, Some(state));
                self.found.blame(grade.class, broken, cause);
            }
        }
        if let Some(moment) = &mut self.moment {
            let behind = first_missed.map(|first| self.round * now.since(first));
            let at = replica.predicted(now).unwrap_or_default().0;
            let known = moment.known(sample.distance, behind);
            moment.holds(sample.pair, at, known, found.differs);
        }
    }

    /// The bound that is broken, if any.
    fn broken(
        &self,
        found: &Deviation,
        lasts: Option<u32>,
        missed: u32,
        grade: &Grade,
    ) -> Option<Broken> {
        let age = self.round * lasts?;
        if age > self.span(grade) {
            return Some(Broken::Age);
        }
        if missed > grade.max_missed {
            return Some(Broken::Missed);
        }
        (found.error > found.allowed).then_some(Broken::Error)
    }

    /// θ′ of a grade.
    fn span(&self, grade: &Grade) -> Micros {
        grade.max_age.max(self.round)
    }

    /// Duration of a difference, as a multiple of θ′.
    fn multiple(&self, since: Tick, sample: &Sample<'_>) -> f64 {
        let (age, span) = (self.round * sample.now.since(since), self.span(&sample.grade));
        if span == Micros::UNBOUNDED { 0.0 } else { age.0 as f64 / span.0 as f64 }
    }

    /// Tracks the observer's difference. It ends when there is none any more, or when another one took its place.
    fn observer_waits(&mut self, index: usize, since: Option<Tick>, sample: &Sample<'_>) {
        let wait = since.map_or(0.0, |since| self.multiple(since, sample));
        let pair = &mut self.pairs[index];
        if pair.since != since {
            self.found.end_wait(std::mem::take(&mut pair.peak));
        }
        pair.peak = pair.peak.max(wait);
        self.found.longest_wait = self.found.longest_wait.max(wait);
    }

    fn sender_waits(&mut self, index: usize, sample: &Sample<'_>) {
        let wait = sample.waiting.map_or(0.0, |since| self.multiple(since, sample));
        let span = self.span(&sample.grade);
        let pair = &mut self.pairs[index];
        if wait == 0.0 {
            self.found.end_sender_wait(std::mem::take(&mut pair.sender_peak));
            pair.accrued = 0.0;
        } else {
            pair.accrued += self.round.0 as f64 / span.0 as f64;
        }
        pair.sender_peak = pair.sender_peak.max(wait);
        self.found.longest_sender_wait = self.found.longest_sender_wait.max(wait);
        self.found.longest_accrued = self.found.longest_accrued.max(pair.accrued);
    }

    fn measure(&mut self, replica: &ReplicaView<'_>, sample: &Sample<'_>, since: Option<Tick>) {
        let Sample { grade, distance, truth, now, .. } = *sample;
        let at = replica.predicted(now).unwrap_or_default().0;
        let error = (0..3).map(|i| f64::from(at[i] - truth[i]).powi(2)).sum::<f64>().sqrt();
        let degrees = error.atan2(f64::from(distance.0).max(1e-9)).to_degrees();
        self.found.degrees.add(degrees);
        self.found.degrees_by_class[usize::from(grade.class)].add(degrees);
        let (round, span) = (self.round, self.span(&grade));
        if let Some(bin) = self.found.bin(distance, self.bin_width) {
            let lasting = |from: Tick| (round * now.since(from)).as_secs();
            bin.error.add(error);
            bin.degrees.add(degrees);
            bin.staleness.add(since.map_or(0.0, |_| lasting(replica.tick())));
            bin.waiting.add(since.map_or(0.0, lasting));
            bin.differing += u64::from(since.is_some());
            if span != Micros::UNBOUNDED {
                bin.bound.add(span.as_secs());
            }
        }
    }

    /// Why a replica is not newer: a later packet was lost, later packets are still under way, or none was sent.
    fn cause(&self, index: usize, state: Option<Tick>) -> fn(&mut Causes) -> &mut u64 {
        let sends = self.pairs[index].sends.iter();
        let later: Vec<_> =
            sends.filter(|(sent, _)| state.is_none_or(|state| sent.is_after(state))).collect();
        if later.iter().any(|(_, lost)| *lost) {
            |causes| &mut causes.loss
        } else if !later.is_empty() {
            |causes| &mut causes.latency
        } else {
            |causes| &mut causes.budget
        }
    }

    /// Ends a round, after all samples; `places` has each mover's place.
    pub(crate) fn close_round(&mut self, tick: Tick, places: &[Option<[f32; 3]>]) {
        if let Some(moment) = &mut self.moment {
            moment.close(tick, places, &mut self.found.coherence);
        }
    }

    /// Ends the waits that are still open and returns the findings.
    pub(crate) fn findings(mut self) -> Findings {
        for pair in std::mem::take(&mut self.pairs) {
            self.found.end_wait(pair.peak);
            self.found.end_sender_wait(pair.sender_peak);
        }
        self.found.count_from(&self.before);
        self.found
    }
}

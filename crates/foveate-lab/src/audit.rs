//! The auditor: compares replicas with the truth, and says why they differ.

use foveate_sync::interest::{CLASSES, Grade};
use foveate_sync::metrics::{Counters, Spread};
use foveate_sync::replica::View;
use foveate_sync::{Deviation, Predicted, deviation};
use foveate_wire::{Kind, Metres, Micros, ObjectId, Schema, Tick};
use std::collections::VecDeque;
use std::sync::Arc;

/// Why an observer's replica was out of its bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Causes {
    /// The update was under way.
    pub latency: u64,
    /// The update, or one before it, was lost.
    pub loss: u64,
    /// The update was not sent, because the budget had no room.
    pub budget: u64,
}

/// What the auditor found.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The source's counters over all observers.
    pub counters: Counters,
    /// Rounds.
    pub rounds: u64,
    /// (observer, round) samples: how long observers were there in all.
    pub observer_rounds: u64,
    /// (observer, other) pairs that everyone-to-everyone would have sent.
    pub all_pairs: u64,
    /// Bytes of acknowledgements.
    pub up_bytes: u64,
    /// (pair, round) samples in interest.
    pub samples: u64,
    /// Those in which the observer's replica was within its bounds.
    pub kept: u64,
    /// Why the others were not.
    pub causes: Causes,
    /// Error in degrees as seen from the pivot.
    pub degrees: Spread,
    /// The same by class of grade.
    pub degrees_by_class: Vec<Spread>,
    /// By distance, in bins of equal width.
    pub by_distance: Vec<Bin>,
    /// The longest that a pair's difference lasted, as a multiple of its θ′.
    pub longest_wait: f64,
}

/// What was found at one distance.
#[derive(Clone, Debug, Default)]
pub struct Bin {
    /// Error in world units.
    pub error: Spread,
    /// Age of the replica's state in seconds, while it differs.
    pub staleness: Spread,
}

impl Findings {
    /// `bounds_kept`, as observed.
    pub fn bounds_observed(&self) -> f64 {
        if self.samples == 0 { 1.0 } else { self.kept as f64 / self.samples as f64 }
    }

    /// Updates that everyone-to-everyone takes for each that was sent.
    pub fn fewer_updates(&self) -> f64 {
        self.all_pairs as f64 / (self.counters.updates + self.counters.full).max(1) as f64
    }

    /// Bytes that everyone-to-everyone takes at `each` per update, for each that was sent.
    pub fn fewer_bytes(&self, each: f64) -> f64 {
        self.all_pairs as f64 * each / self.counters.bytes.max(1) as f64
    }

    /// Bytes per observer and second.
    pub fn bytes_per_second(&self, round: Micros) -> f64 {
        self.counters.bytes as f64 / (self.observer_rounds as f64 * round.as_secs())
    }
}

/// Rounds of truth that are remembered, to find out when a difference arose.
const MEMORY: usize = 128;
/// Sends of a pair that are remembered.
const SENDS: usize = 64;
/// Bins of distance.
pub const BINS: usize = 12;

#[derive(Clone, Default)]
struct PairAudit {
    /// The round of the replica's state when last looked at.
    state: Option<Tick>,
    /// When the replica began to differ.
    since: Option<Tick>,
    /// When it was sent, and whether that was lost.
    sends: VecDeque<(Tick, bool)>,
}

/// A replica's newest state, to be predicted to a round.
fn predicted<'a>(replica: &'a View<'_>, now: Tick) -> Predicted<'a> {
    let (lanes, motion) = (replica.lanes(), replica.motion());
    Predicted { lanes, motion, age: now.since(replica.tick()) }
}

/// Looks on, knows everything, touches nothing.
pub struct Audit {
    kind: Arc<Schema>,
    round: Micros,
    count: usize,
    pairs: Vec<PairAudit>,
    /// For each mover: its lanes in the last rounds.
    truths: Vec<VecDeque<(Tick, Vec<i32>)>>,
    /// How often each mover has joined.
    joined: Vec<u32>,
    widest: f32,
    found: Findings,
}

impl Audit {
    /// Serials count a mover's joins in steps of this.
    pub(crate) const GENERATION: usize = 1 << 16;

    pub(crate) fn new(count: usize, schema: &Arc<Schema>, round: Micros) -> Audit {
        let found = Findings {
            counters: Counters::default(),
            rounds: 0,
            observer_rounds: 0,
            all_pairs: 0,
            up_bytes: 0,
            samples: 0,
            kept: 0,
            causes: Causes::default(),
            degrees: Spread::default(),
            degrees_by_class: vec![Spread::default(); CLASSES],
            by_distance: vec![Bin::default(); BINS],
            longest_wait: 0.0,
        };
        Audit {
            kind: Arc::clone(schema),
            round,
            count,
            pairs: vec![PairAudit::default(); count * count],
            truths: vec![VecDeque::new(); count],
            joined: vec![0; count],
            widest: 1.0,
            found,
        }
    }

    /// Distances are counted in bins up to this.
    pub fn set_widest(&mut self, widest: Metres) {
        self.widest = widest.0.max(1e-3);
    }

    fn kind(&self) -> &Kind {
        &self.kind.kinds()[0]
    }

    /// A new name for a mover that joins.
    pub(crate) fn name(&mut self, at: usize) -> ObjectId {
        self.joined[at] += 1;
        let serial = self.joined[at] as usize * Audit::GENERATION + at;
        ObjectId::new(crate::session::KIND, 0, serial as u32)
    }

    /// A mover has left: what was known of it is void.
    pub(crate) fn forget(&mut self, at: usize) {
        self.truths[at].clear();
        for other in 0..self.count {
            self.pairs[at * self.count + other] = PairAudit::default();
            self.pairs[other * self.count + at] = PairAudit::default();
        }
    }

    pub(crate) fn left(&mut self, counters: &Counters, up_bytes: u64) {
        self.found.counters.add(counters);
        self.found.up_bytes += up_bytes;
    }

    pub(crate) fn count_round(&mut self, present: u64) {
        self.found.rounds += 1;
        self.found.observer_rounds += present;
        self.found.all_pairs += present * present.saturating_sub(1);
    }

    pub(crate) fn truth(&mut self, at: usize, tick: Tick, lanes: &[i32]) {
        let truths = &mut self.truths[at];
        let mut row = if truths.len() == MEMORY {
            truths.pop_front().map(|(_, row)| row).unwrap_or_default()
        } else {
            Vec::new()
        };
        row.clear();
        row.extend_from_slice(lanes);
        truths.push_back((tick, row));
    }

    pub(crate) fn sent(&mut self, (watcher, object): (usize, usize), sent: Tick, now: Tick, lost: bool) {
        if sent == now {
            let sends = &mut self.pairs[watcher * self.count + object].sends;
            if sends.len() == SENDS {
                sends.pop_front();
            }
            sends.push_back((now, lost));
        }
    }

    /// When the state of `tick` began to differ from the truth.
    fn arose(&self, object: usize, replica: &View<'_>, grade: &Grade) -> Option<Tick> {
        let (kind, state) = (self.kind(), replica.tick());
        let later = self.truths[object].iter().filter(|(tick, _)| tick.is_after(state));
        let mut since = None;
        for (tick, truth) in later {
            let differs = deviation(kind, &predicted(replica, *tick), truth, grade).differs;
            since = if differs { since.or(Some(*tick)) } else { None };
        }
        since
    }

    pub(crate) fn sample(
        &mut self,
        (watcher, object): (usize, usize),
        (grade, distance): (Grade, Metres),
        truth: [f32; 3],
        replica: Option<View<'_>>,
        now: Tick,
    ) {
        let index = watcher * self.count + object;
        self.found.samples += 1;
        let Some(replica) = replica else {
            let cause = self.cause(index, None);
            self.blame(cause);
            return;
        };
        let state = replica.tick();
        let Some((_, lanes)) = self.truths[object].back() else { return };
        let found = deviation(self.kind(), &predicted(&replica, now), lanes, &grade);
        let since = if !found.differs {
            None
        } else if self.pairs[index].state == Some(state) {
            self.pairs[index].since.or(Some(now))
        } else {
            self.arose(object, &replica, &grade).or(Some(now))
        };
        self.pairs[index].since = since;
        self.pairs[index].state = Some(state);
        self.measure(&replica, (grade, distance), truth, found.differs.then_some(state), now);
        if self.within(&found, since, &grade, now) {
            self.found.kept += 1;
        } else {
            let cause = self.cause(index, Some(state));
            self.blame(cause);
        }
    }

    fn within(&mut self, found: &Deviation, since: Option<Tick>, grade: &Grade, now: Tick) -> bool {
        let Some(since) = since else { return true };
        let (age, span) = (self.round * now.since(since), grade.max_age.max(self.round));
        if span != Micros::UNBOUNDED {
            let wait = age.0 as f64 / span.0 as f64;
            self.found.longest_wait = self.found.longest_wait.max(wait);
        }
        age <= span && found.error <= found.allowed
    }

    fn measure(
        &mut self,
        replica: &View<'_>,
        (grade, distance): (Grade, Metres),
        truth: [f32; 3],
        differing: Option<Tick>,
        now: Tick,
    ) {
        let at = replica.predicted(now).unwrap_or_default();
        let error = (0..3).map(|i| f64::from(at[i] - truth[i]).powi(2)).sum::<f64>().sqrt();
        let degrees = error.atan2(f64::from(distance.0).max(1e-9)).to_degrees();
        self.found.degrees.add(degrees);
        self.found.degrees_by_class[usize::from(grade.class)].add(degrees);
        let bin = (distance.0 / self.widest * BINS as f32) as usize;
        if let Some(bin) = self.found.by_distance.get_mut(bin) {
            bin.error.add(error);
            let stale = differing.map_or(0.0, |state| (self.round * now.since(state)).as_secs());
            bin.staleness.add(stale);
        }
    }

    /// Why a replica is not newer: of what was sent after it, something was lost, or it is all
    /// still under way; or nothing was sent.
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

    fn blame(&mut self, cause: fn(&mut Causes) -> &mut u64) {
        *cause(&mut self.found.causes) += 1;
    }

    pub(crate) fn findings(self) -> Findings {
        self.found
    }
}

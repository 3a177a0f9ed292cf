//! The auditor's results.

use super::{SenderFindings, SessionCoherence};
use foveate_sync::interest::CLASSES;
use foveate_sync::metrics::{Counters, Spread};
use foveate_wire::{Metres, Micros};

/// Why an observer's replica was out of its bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Causes {
    /// The update was under way.
    pub latency: u64,
    /// The update, or one before it, was lost.
    pub loss: u64,
    /// The update was not sent: with a budget, because there was no room; without one this must not happen.
    pub budget: u64,
}

impl Causes {
    /// The sum of all causes.
    pub fn total(&self) -> u64 {
        self.latency + self.loss + self.budget
    }

    pub fn add(&mut self, other: Causes) {
        self.latency += other.latency;
        self.loss += other.loss;
        self.budget += other.budget;
    }
}

/// The broken bound of an observer's replica; the first one, if there are several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// There is no replica of an object in interest.
    Unknown = 0,
    /// θ: the difference has lasted too long.
    Age = 1,
    /// σ: too many changes were missed.
    Missed = 2,
    /// ν: the replica is too far from the true place.
    Error = 3,
}

impl Broken {
    pub const ALL: [Broken; 4] = [Broken::Unknown, Broken::Age, Broken::Missed, Broken::Error];

    /// The bound's name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Broken::Unknown => "unknown",
            Broken::Age => "age",
            Broken::Missed => "missed",
            Broken::Error => "error",
        }
    }
}

/// Results at one distance.
#[derive(Clone, Debug, Default)]
pub struct Bin {
    /// Error in world units.
    pub error: Spread,
    /// Error in degrees as seen from the pivot.
    pub degrees: Spread,
    /// Age of the replica's state in seconds while it differs; zero otherwise.
    pub staleness: Spread,
    /// Time since the present difference arose, in seconds; zero without one.
    pub waiting: Spread,
    /// θ′ in seconds, if there is one.
    pub bound: Spread,
    /// Samples in which the replica differed.
    pub differing: u64,
    /// Samples without a replica, which none of the above includes.
    pub missing: u64,
}

impl Bin {
    fn merge(&mut self, other: &Bin) {
        self.error.merge(&other.error);
        self.degrees.merge(&other.degrees);
        self.staleness.merge(&other.staleness);
        self.waiting.merge(&other.waiting);
        self.bound.merge(&other.bound);
        self.differing += other.differing;
        self.missing += other.missing;
    }
}

/// The auditor's results for one run.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The source's counters over all observers.
    pub counters: Counters,
    pub rounds: u64,
    /// (observer, round) samples: the total time of all observers, in rounds.
    pub observer_rounds: u64,
    /// Updates that the game received: those of a recording, otherwise one per avatar and round.
    pub updates: u64,
    /// Updates that the game would have sent without the library: each one to all others present.
    pub relayed: u64,
    /// Bytes of acknowledgements.
    pub up_bytes: u64,
    /// Packets that were not applied.
    pub malformed: u64,
    /// The results of the sender's auditor.
    pub sender: SenderFindings,
    /// (pair, round) samples in interest.
    pub samples: u64,
    /// Those in which the observer's replica was within its bounds.
    pub kept: u64,
    /// Why the others were not.
    pub causes: Causes,
    /// Causes by class of grade and by [`Broken`] bound.
    pub violations: Vec<[Causes; 4]>,
    /// Error in degrees as seen from the pivot.
    pub degrees: Spread,
    /// Error in degrees, by class of grade.
    pub degrees_by_class: Vec<Spread>,
    /// By distance, in bins of equal width; empty unless requested.
    pub by_distance: Vec<Bin>,
    /// The longest duration of each difference for the observer, as a multiple of its θ′.
    pub waits: Spread,
    /// The largest of `waits`.
    pub longest_wait: f64,
    /// The same for the sender's reference replica: how long a pair waited to be sent.
    pub sender_waits: Spread,
    /// The largest of `sender_waits`.
    pub longest_sender_wait: f64,
    /// The longest wait at the sender, with each round divided by the θ′ that held in it.
    pub longest_accrued: f64,
    /// The longest time that an observer had no replica of an object in its interest.
    pub longest_first_wait: Micros,
    /// How much observers disagree; empty unless requested.
    pub coherence: SessionCoherence,
}

impl Default for Findings {
    fn default() -> Findings {
        Findings {
            counters: Counters::default(),
            rounds: 0,
            observer_rounds: 0,
            updates: 0,
            relayed: 0,
            up_bytes: 0,
            malformed: 0,
            sender: SenderFindings::default(),
            samples: 0,
            kept: 0,
            causes: Causes::default(),
            violations: vec![Default::default(); CLASSES],
            degrees: Spread::default(),
            degrees_by_class: vec![Spread::default(); CLASSES],
            by_distance: Vec::new(),
            waits: Spread::default(),
            longest_wait: 0.0,
            sender_waits: Spread::default(),
            longest_sender_wait: 0.0,
            longest_accrued: 0.0,
            longest_first_wait: Micros::ZERO,
            coherence: SessionCoherence::default(),
        }
    }
}

impl Findings {
    /// `bounds_kept` as observed.
    pub fn bounds_observed(&self) -> f64 {
        if self.samples == 0 { 1.0 } else { self.kept as f64 / self.samples as f64 }
    }

    /// `bounds_kept` as audited: packets are decoded as they leave the sender, and compared with the true state.
    pub fn bounds_audited(&self) -> f64 {
        self.sender.kept()
    }

    /// Updates that the game would have sent, divided by those that were sent.
    pub fn fewer_updates(&self) -> f64 {
        self.relayed as f64 / (self.counters.updates + self.counters.full).max(1) as f64
    }

    /// Bytes that the game would have sent at `each` bytes per update, divided by those that were sent.
    pub fn fewer_bytes(&self, each: f64) -> f64 {
        self.relayed as f64 * each / self.counters.bytes.max(1) as f64
    }

    /// Bytes per observer and second.
    pub fn bytes_per_second(&self, round: Micros) -> f64 {
        self.bytes_per_round() / round.as_secs()
    }

    /// Bytes per observer and round.
    pub fn bytes_per_round(&self) -> f64 {
        self.counters.bytes as f64 / self.observer_rounds.max(1) as f64
    }

    /// Adds the results of another run of the same kind.
    pub fn merge(&mut self, other: &Findings) {
        self.counters.add(&other.counters);
        self.rounds += other.rounds;
        self.observer_rounds += other.observer_rounds;
        self.updates += other.updates;
        self.relayed += other.relayed;
        self.sender.merge(&other.sender);
        self.up_bytes += other.up_bytes;
        self.malformed += other.malformed;
        self.samples += other.samples;
        self.kept += other.kept;
        self.causes.add(other.causes);
        for (mine, theirs) in self.violations.iter_mut().zip(&other.violations) {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| mine.add(*theirs));
        }
        self.degrees.merge(&other.degrees);
        for (mine, theirs) in self.degrees_by_class.iter_mut().zip(&other.degrees_by_class) {
            mine.merge(theirs);
        }
        self.by_distance
            .resize(self.by_distance.len().max(other.by_distance.len()), Bin::default());
        for (mine, theirs) in self.by_distance.iter_mut().zip(&other.by_distance) {
            mine.merge(theirs);
        }
        self.waits.merge(&other.waits);
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.sender_waits.merge(&other.sender_waits);
        self.longest_sender_wait = self.longest_sender_wait.max(other.longest_sender_wait);
        self.longest_accrued = self.longest_accrued.max(other.longest_accrued);
        self.longest_first_wait = self.longest_first_wait.max(other.longest_first_wait);
        self.coherence.merge(&other.coherence);
    }

    /// Subtracts what had been counted before the findings began.
    pub(super) fn count_from(&mut self, before: &Counters) {
        let counters = &mut self.counters;
        counters.packets -= before.packets;
        counters.bytes -= before.bytes;
        counters.updates -= before.updates;
        counters.full -= before.full;
        counters.postponed -= before.postponed;
        for class in 0..CLASSES {
            counters.samples[class] -= before.samples[class];
            counters.broken[class] -= before.broken[class];
        }
    }

    pub(super) fn bin(&mut self, distance: Metres, width: f32) -> Option<&mut Bin> {
        self.by_distance.get_mut((distance.0 / width) as usize)
    }

    pub(super) fn blame(&mut self, class: u8, broken: Broken, cause: fn(&mut Causes) -> &mut u64) {
        *cause(&mut self.causes) += 1;
        *cause(&mut self.violations[usize::from(class)][broken as usize]) += 1;
    }

    pub(super) fn end_wait(&mut self, peak: f64) {
        if peak > 0.0 {
            self.waits.add(peak);
        }
    }

    pub(super) fn end_sender_wait(&mut self, peak: f64) {
        if peak > 0.0 {
            self.sender_waits.add(peak);
        }
    }
}

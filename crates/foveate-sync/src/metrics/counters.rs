//! Counters of the pipeline.

use crate::interest::CLASSES;
use crate::schedule::DueReason;

/// Counters of one observer, or sums over many. Fields that every round counts are next to each
/// other.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[repr(C)]
pub struct Counters {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, including our headers.
    pub bytes: u64,
    /// The bits of these bytes by stream.
    pub bits: Streams,
    /// Updates of objects that the observer knows.
    pub updates: u64,
    /// First states, and states for which there was no acknowledged baseline.
    pub full: u64,
    /// Notices that a replica is frozen or gone.
    pub notices: u64,
    /// Due pairs that exceeded the budget.
    pub postponed: u64,
    /// (pair, round) samples that had to be checked; the others could not have become due.
    pub looked: u64,
    /// Which bound made pairs due, by [`DueReason`].
    pub fired: [u64; 5],
    /// (pair, round) samples by class of grade.
    pub samples: [u64; CLASSES],
    /// Those samples in which a bound was not kept after the round's sends.
    pub broken: [u64; CLASSES],
}

/// Bits by kind of content.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Streams {
    /// Packet headers and ends.
    pub header: f64,
    /// First states.
    pub full: f64,
    /// Updates.
    pub state: f64,
    /// Notices: frozen, gone.
    pub control: f64,
}

impl Counters {
    /// `bounds_kept`, as scheduled: the share of (pair, round) samples in which the sender's
    /// reference replica was within its bounds; 1 without samples. This is the scheduler's own
    /// account: it is below 1 only if something due had to wait.
    pub fn bounds_scheduled(&self) -> f64 {
        let (samples, broken) = (self.samples.iter().sum::<u64>(), self.broken.iter().sum::<u64>());
        if samples == 0 { 1.0 } else { (samples - broken) as f64 / samples as f64 }
    }

    pub(crate) fn fire(&mut self, fired: DueReason) {
        self.fired[fired as usize] += 1;
    }

    /// Adds another observer's counters.
    pub fn add(&mut self, other: &Counters) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.bits.header += other.bits.header;
        self.bits.full += other.bits.full;
        self.bits.state += other.bits.state;
        self.bits.control += other.bits.control;
        self.updates += other.updates;
        self.full += other.full;
        self.notices += other.notices;
        self.postponed += other.postponed;
        self.looked += other.looked;
        let sum = |mine: &mut [u64], theirs: &[u64]| {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        };
        sum(&mut self.fired, &other.fired);
        sum(&mut self.samples, &other.samples);
        sum(&mut self.broken, &other.broken);
    }
}

/// The stages of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipelineStage {
    /// Changes are pushed as states.
    Collect,
    /// Objects are sorted by place.
    Index,
    /// Acknowledgements and losses are processed.
    Ack,
    /// Pairs are found, checked and, where needed, graded.
    Grade,
    /// Graded pairs are compared with their bounds.
    Due,
    /// Due pairs are chosen, encoded and packed.
    Encode,
    /// Everything from acknowledgements to packets, on several threads: the stages overlap and
    /// cannot be timed separately.
    Turns,
    /// The packets of several threads are sent, in the order of the observers.
    Send,
}

/// Observes a round from outside, because the engine itself has no clock.
pub trait Probe {
    /// A stage begins, and the one before has ended.
    fn enter(&mut self, stage: PipelineStage);
    /// The round has ended.
    fn leave(&mut self);
}

/// Observes nothing.
impl Probe for () {
    fn enter(&mut self, _: PipelineStage) {}
    fn leave(&mut self) {}
}

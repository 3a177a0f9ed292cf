//! The virtual network: links with latency, jitter, loss, rate limits, reordering and duplicates.
//!
//! Seeded and deterministic: the same seed gives the same fates to the same packets.

use foveate_wire::Micros;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// How long packets take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Latency {
    /// Always the same.
    Constant(Micros),
    /// Evenly spread between two values.
    Uniform(Micros, Micros),
    /// Bell-shaped: mean and standard deviation, cut off at zero and at twice the mean.
    Normal(Micros, Micros),
    /// Long-tailed: median, and the factor that one standard deviation stands for.
    LogNormal(Micros, f64),
}

/// Which packets are lost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Loss {
    /// None.
    None,
    /// Each with the same probability, independently.
    Bernoulli(f64),
    /// In bursts (Gilbert–Elliott): overall share and mean length of a burst in packets.
    Bursty {
        /// Share of packets lost in the long run.
        share: f64,
        /// Mean number of packets lost in a row.
        burst: f64,
    },
}

impl Loss {
    /// Whether the next packet is lost; `in_burst` is the link's memory.
    pub(crate) fn loses(&self, rng: &mut fastrand::Rng, in_burst: &mut bool) -> bool {
        match *self {
            Loss::None => false,
            Loss::Bernoulli(share) => rng.f64() < share,
            Loss::Bursty { share, burst } => {
                let leave = 1.0 / burst.max(1.0);
                let enter = leave * share / (1.0 - share).max(1e-9);
                let change = if *in_burst { leave } else { enter };
                if rng.f64() < change {
                    *in_burst = !*in_burst;
                }
                *in_burst
            }
        }
    }
}

/// A rate limit with a queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    /// Bytes per second that leave the queue.
    pub bytes_per_second: f64,
    /// Bytes that the queue holds; more is dropped.
    pub queue: u64,
}

/// What a link does to packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkSpec {
    /// How long packets take.
    pub latency: Latency,
    /// Which are lost.
    pub loss: Loss,
    /// How many per second fit.
    pub rate: Option<Rate>,
    /// Share of packets that are delayed by one more latency, and so overtaken.
    pub reorder: f64,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Bytes around each packet that the rate limit counts too.
    pub overhead: u32,
}

impl LinkSpec {
    /// No delay, no loss.
    pub const PERFECT: LinkSpec = LinkSpec {
        latency: Latency::Constant(Micros::ZERO),
        loss: Loss::None,
        rate: None,
        reorder: 0.0,
        duplicate: 0.0,
        overhead: 0,
    };

    /// A constant delay, nothing else.
    pub fn delayed(latency: Micros) -> LinkSpec {
        LinkSpec { latency: Latency::Constant(latency), ..LinkSpec::PERFECT }
    }
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It arrives at this time, the first copy at least.
    Arrives(Micros),
    /// The link lost it.
    Lost,
    /// The queue had no room for it.
    Dropped,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Link {
    spec: LinkSpec,
    rng: fastrand::Rng,
    in_burst: bool,
    /// When the queue will be empty.
    busy_until: Micros,
}

impl Link {
    /// A link with a seed of its own.
    pub fn new(spec: LinkSpec, seed: u64) -> Link {
        let rng = fastrand::Rng::with_seed(seed);
        Link { spec, rng, in_burst: false, busy_until: Micros::ZERO }
    }

    /// What the link does.
    pub fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// Replaces what the link does from now on: a cut, a recovery.
    pub fn set(&mut self, spec: LinkSpec) {
        self.spec = spec;
    }

    fn sample(&mut self) -> Micros {
        let bell = |rng: &mut fastrand::Rng| (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        match self.spec.latency {
            Latency::Constant(latency) => latency,
            Latency::Uniform(low, high) => Micros(self.rng.u64(low.0..=high.0.max(low.0))),
            Latency::Normal(mean, deviation) => {
                let value = mean.0 as f64 + deviation.0 as f64 * bell(&mut self.rng);
                Micros(value.clamp(0.0, 2.0 * mean.0 as f64) as u64)
            }
            Latency::LogNormal(median, factor) => {
                Micros((median.0 as f64 * factor.powf(bell(&mut self.rng))) as u64)
            }
        }
    }

    /// When the last byte has left, or nothing where the queue is full.
    fn queue(&mut self, now: Micros, bytes: usize) -> Option<Micros> {
        let Some(rate) = self.spec.rate else { return Some(now) };
        let start = self.busy_until.max(now);
        let waiting = (start - now).as_secs() * rate.bytes_per_second;
        let size = (bytes as u64 + u64::from(self.spec.overhead)) as f64;
        if waiting + size > rate.queue as f64 {
            return None;
        }
        self.busy_until = start + Micros::from_secs(size / rate.bytes_per_second);
        Some(self.busy_until)
    }

    /// Decides what becomes of a packet; calls `arrive` for each copy.
    pub fn carry(&mut self, now: Micros, bytes: usize, mut arrive: impl FnMut(Micros)) -> Fate {
        let Some(left) = self.queue(now, bytes) else { return Fate::Dropped };
        if self.spec.loss.loses(&mut self.rng, &mut self.in_burst) {
            return Fate::Lost;
        }
        let mut latency = self.sample();
        if self.spec.reorder > 0.0 && self.rng.f64() < self.spec.reorder {
            latency = latency + self.sample();
        }
        arrive(left + latency);
        if self.spec.duplicate > 0.0 && self.rng.f64() < self.spec.duplicate {
            let again = self.sample();
            arrive(left + latency + again);
        }
        Fate::Arrives(left + latency)
    }
}

/// Things that will happen, in the order of time; ties in the order in which they were planned.
#[derive(Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Planned<T>>,
    planned: u64,
}

#[derive(Debug)]
struct Planned<T> {
    at: Micros,
    number: u64,
    item: T,
}

impl<T> Ord for Planned<T> {
    /// The heap yields its greatest: the earliest must be that.
    fn cmp(&self, other: &Planned<T>) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<T> PartialOrd for Planned<T> {
    fn partial_cmp(&self, other: &Planned<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Planned<T> {
    fn eq(&self, other: &Planned<T>) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Planned<T> {}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda { heap: BinaryHeap::new(), planned: 0 }
    }
}

impl<T> Agenda<T> {
    /// Plans something.
    pub fn plan(&mut self, at: Micros, item: T) {
        self.heap.push(Planned { at, number: self.planned, item });
        self.planned += 1;
    }

    /// The next thing that happens by `until`.
    pub fn next(&mut self, until: Micros) -> Option<(Micros, T)> {
        self.heap.peek().filter(|next| next.at <= until)?;
        self.heap.pop().map(|next| (next.at, next.item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(spec: LinkSpec, packets: usize) -> Vec<Fate> {
        let mut link = Link::new(spec, 7);
        let at = |n: usize| Micros::from_millis(n as u64 * 10);
        (0..packets).map(|n| link.carry(at(n), 100, |_| {})).collect()
    }

    #[test]
    fn bursty_loss_has_the_share_and_the_length_it_was_told() {
        let loss = Loss::Bursty { share: 0.05, burst: 4.0 };
        let fates = fates(LinkSpec { loss, ..LinkSpec::PERFECT }, 200_000);
        let lost = fates.iter().filter(|fate| **fate == Fate::Lost).count();
        let bursts = fates.windows(2).filter(|w| w[0] != Fate::Lost && w[1] == Fate::Lost).count();
        assert!((lost as f64 / 200_000.0 - 0.05).abs() < 0.005, "{lost}");
        assert!((lost as f64 / bursts as f64 - 4.0).abs() < 0.4);
    }

    #[test]
    fn a_full_queue_drops_and_a_waiting_packet_is_late() {
        let rate = Some(Rate { bytes_per_second: 5_000.0, queue: 1_000 });
        let fates = fates(LinkSpec { rate, ..LinkSpec::PERFECT }, 100);
        assert_eq!(fates[0], Fate::Arrives(Micros::from_millis(20)));
        assert_eq!(fates[1], Fate::Arrives(Micros::from_millis(40)));
        let dropped = fates.iter().filter(|fate| **fate == Fate::Dropped).count();
        assert!((30..60).contains(&dropped), "{dropped}");
    }

    #[test]
    fn latencies_have_the_moments_they_were_told() {
        let (mean, deviation) = (Micros::from_millis(80), Micros::from_millis(20));
        let latency = Latency::Normal(mean, deviation);
        let mut link = Link::new(LinkSpec { latency, ..LinkSpec::PERFECT }, 3);
        let samples: Vec<f64> = (0..20_000).map(|_| link.sample().as_millis()).collect();
        let mean = samples.iter().sum::<f64>() / 20_000.0;
        let variance = samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!((mean - 80.0).abs() < 1.0 && (variance.sqrt() - 20.0).abs() < 1.0);
    }

    #[test]
    fn things_happen_in_the_order_of_time_then_of_planning() {
        let mut agenda = Agenda::default();
        for (at, item) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b'), (9, 'e')] {
            agenda.plan(Micros(at), item);
        }
        let order: Vec<char> = std::iter::from_fn(|| agenda.next(Micros(8))).map(|x| x.1).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
        assert_eq!(agenda.next(Micros(9)), Some((Micros(9), 'e')));
    }

    #[test]
    fn the_same_seed_gives_the_same_fates() {
        let spec = LinkSpec {
            latency: Latency::LogNormal(Micros::from_millis(30), 1.4),
            loss: Loss::Bernoulli(0.1),
            reorder: 0.1,
            duplicate: 0.1,
            ..LinkSpec::PERFECT
        };
        assert_eq!(fates(spec, 1_000), fates(spec, 1_000));
    }
}

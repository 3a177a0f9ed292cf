//! What a network does to packets: latency, jitter, loss, rate limits, reordering and duplicates.
//!
//! Without IO and without a clock: the virtual network and the conditioner of real links use the
//! same model. It is deterministic: the same seed treats the same packets in the same way.

use foveate_wire::Micros;

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
    None,
    /// Each with the same probability, independently.
    Bernoulli(f64),
    /// In bursts (Gilbert–Elliott).
    Bursty {
        /// Share of packets lost in the long run.
        share: f64,
        /// Mean number of packets lost in a row.
        burst: f64,
    },
}

impl Latency {
    /// The mean or median.
    pub fn typical(&self) -> Micros {
        match *self {
            Latency::Constant(at) | Latency::Normal(at, _) | Latency::LogNormal(at, _) => at,
            Latency::Uniform(low, high) => Micros(low.0 + (high - low).0 / 2),
        }
    }
}

impl Loss {
    /// Loses this share of all packets, in bursts of `burst` on average; independently if that is 1
    /// or less.
    pub fn share_in_bursts(share: f64, burst: f64) -> Loss {
        match (share > 0.0, burst > 1.0) {
            (false, _) => Loss::None,
            (true, false) => Loss::Bernoulli(share),
            (true, true) => Loss::Bursty { share, burst },
        }
    }

    /// Whether the next packet is lost. `in_burst` is the state of the link.
    pub fn loses(&self, rng: &mut fastrand::Rng, in_burst: &mut bool) -> bool {
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
    pub latency: Latency,
    pub loss: Loss,
    /// The rate limit; `None` for no limit.
    pub rate: Option<Rate>,
    /// Share of packets that are delayed by one more latency, so that later packets overtake them.
    pub reorder: f64,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Bytes per packet that the rate limit counts on top, such as headers.
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

    /// A delay of at least `delay`, up to `jitter` more, evenly spread, so that packets overtake
    /// each other. Nothing else.
    pub fn jittered(delay: Micros, jitter: Micros) -> LinkSpec {
        let latency = match jitter {
            Micros::ZERO => Latency::Constant(delay),
            jitter => Latency::Uniform(delay, delay + jitter),
        };
        LinkSpec { latency, ..LinkSpec::PERFECT }
    }

    /// A constant delay, nothing else.
    pub fn delayed(latency: Micros) -> LinkSpec {
        LinkSpec { latency: Latency::Constant(latency), ..LinkSpec::PERFECT }
    }
}

impl Default for LinkSpec {
    fn default() -> LinkSpec {
        LinkSpec::PERFECT
    }
}

/// What happens to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It arrives; the time is the first copy's.
    Arrives(Micros),
    /// The link lost it.
    Lost,
    /// The queue had no room for it.
    Dropped,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct LinkModel {
    spec: LinkSpec,
    rng: fastrand::Rng,
    in_burst: bool,
    /// When the queue is empty again.
    busy_until: Micros,
}

impl LinkModel {
    /// A link with its own seed.
    pub fn new(spec: LinkSpec, seed: u64) -> LinkModel {
        let rng = fastrand::Rng::with_seed(seed);
        LinkModel { spec, rng, in_burst: false, busy_until: Micros::ZERO }
    }

    pub fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// Replaces the specification from now on, as for a cut or a recovery.
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

    /// When the packet's last byte leaves the queue; `None` if the queue is full.
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

    /// Decides what happens to a packet, and calls `arrive` with the time of each copy.
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

    /// When a part of a stream arrives: delayed like a packet, but neither lost nor dropped. The
    /// caller keeps the parts in order.
    pub fn carry_reliably(&mut self, now: Micros, bytes: usize) -> Micros {
        let left = self.queue(now, bytes).unwrap_or(self.busy_until.max(now));
        left + self.sample()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(spec: LinkSpec, packets: usize) -> Vec<Fate> {
        let mut link = LinkModel::new(spec, 7);
        let at = |n: usize| Micros::from_millis(n as u64 * 10);
        (0..packets).map(|n| link.carry(at(n), 100, |_| {})).collect()
    }

    #[test]
    fn bursty_loss_has_the_share_and_the_length_specified() {
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
    fn latencies_have_the_moments_specified() {
        let (mean, deviation) = (Micros::from_millis(80), Micros::from_millis(20));
        let latency = Latency::Normal(mean, deviation);
        let mut link = LinkModel::new(LinkSpec { latency, ..LinkSpec::PERFECT }, 3);
        let samples: Vec<f64> = (0..20_000).map(|_| link.sample().as_millis()).collect();
        let mean = samples.iter().sum::<f64>() / 20_000.0;
        let variance = samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!((mean - 80.0).abs() < 1.0 && (variance.sqrt() - 20.0).abs() < 1.0);
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

    #[test]
    fn independent_loss_has_its_share_and_no_bursts() {
        let spec = LinkSpec { loss: Loss::Bernoulli(0.1), ..LinkSpec::PERFECT };
        let fates = fates(spec, 50_000);
        let lost = fates.iter().filter(|fate| **fate == Fate::Lost).count();
        let bursts = fates.windows(2).filter(|w| w[0] != Fate::Lost && w[1] == Fate::Lost).count();
        assert!((lost as f64 / 50_000.0 - 0.1).abs() < 0.01, "{lost}");
        assert!((lost as f64 / bursts as f64 - 1.0 / 0.9).abs() < 0.05);
    }
}

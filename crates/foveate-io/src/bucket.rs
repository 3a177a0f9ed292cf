//! A token bucket in integers, so that the same times give the same answers.

use foveate_wire::Micros;

/// Fractions of a token that are counted, so that slow rates lose nothing to rounding.
const PARTS: u64 = 1_000_000;

/// The rate and the capacity of a token bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateLimit {
    /// Tokens added per second.
    pub per_second: u32,
    /// The capacity: how many can be taken at once after a pause.
    pub burst: u32,
}

impl RateLimit {
    /// A rate whose burst is one second's tokens.
    pub const fn per_second(tokens: u32) -> RateLimit {
        RateLimit { per_second: tokens, burst: tokens }
    }

    /// The rate and the burst, both multiplied.
    pub const fn times(self, factor: u32) -> RateLimit {
        RateLimit {
            per_second: self.per_second.saturating_mul(factor),
            burst: self.burst.saturating_mul(factor),
        }
    }
}

/// A token bucket; it starts full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    parts: u64,
    filled: Micros,
}

impl Bucket {
    pub(crate) fn full(rate: RateLimit, now: Micros) -> Bucket {
        Bucket { parts: u64::from(rate.burst) * PARTS, filled: now }
    }

    /// Takes `tokens` if that many are available, otherwise none.
    pub(crate) fn take(&mut self, rate: RateLimit, now: Micros, tokens: u32) -> bool {
        self.fill(rate, now);
        match self.parts.checked_sub(u64::from(tokens) * PARTS) {
            Some(left) => {
                self.parts = left;
                true
            }
            None => false,
        }
    }

    /// Number of tokens available.
    pub(crate) fn tokens(&mut self, rate: RateLimit, now: Micros) -> u32 {
        self.fill(rate, now);
        u32::try_from(self.parts / PARTS).unwrap_or(u32::MAX)
    }

    /// Whether the bucket is full, so that nothing was taken recently.
    pub(crate) fn is_full(&mut self, rate: RateLimit, now: Micros) -> bool {
        self.fill(rate, now);
        self.parts == u64::from(rate.burst) * PARTS
    }

    fn fill(&mut self, rate: RateLimit, now: Micros) {
        // One token per second is one part per microsecond.
        let came = (now - self.filled).0.saturating_mul(u64::from(rate.per_second));
        self.parts = self.parts.saturating_add(came).min(u64::from(rate.burst) * PARTS);
        self.filled = self.filled.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_then_its_rate() {
        let rate = RateLimit { per_second: 10, burst: 3 };
        let mut bucket = Bucket::full(rate, Micros::ZERO);
        let at_once = (0..10).filter(|_| bucket.take(rate, Micros::ZERO, 1)).count();
        assert_eq!(at_once, 3);
        let later = (1..=1_000).filter(|ms| bucket.take(rate, Micros::from_millis(*ms), 1)).count();
        assert_eq!(later, 10);
    }

    #[test]
    fn taking_too_many_takes_none() {
        let rate = RateLimit::per_second(5);
        let mut bucket = Bucket::full(rate, Micros::ZERO);
        assert!(!bucket.take(rate, Micros::ZERO, 6));
        assert!(bucket.is_full(rate, Micros::ZERO));
        assert!(bucket.take(rate, Micros::ZERO, 5));
    }

    #[test]
    fn time_that_runs_backwards_adds_no_tokens() {
        let rate = RateLimit::per_second(1);
        let mut bucket = Bucket::full(rate, Micros::from_millis(5_000));
        assert!(bucket.take(rate, Micros::from_millis(5_000), 1));
        assert!(!bucket.take(rate, Micros::ZERO, 1));
        assert!(!bucket.take(rate, Micros::from_millis(5_999), 1));
        assert!(bucket.take(rate, Micros::from_millis(6_000), 1));
    }
}

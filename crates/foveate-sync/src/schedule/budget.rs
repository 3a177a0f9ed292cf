//! Bytes per observer and round: a token bucket.

use foveate_wire::Bytes;

/// A token bucket. Without a rate everything fits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Budget {
    rate: Option<f32>,
    burst: f32,
    tokens: f32,
}

impl Budget {
    /// No limit.
    pub const UNLIMITED: Budget = Budget { rate: None, burst: 0.0, tokens: 0.0 };

    /// `rate` bytes each round; what is not used is kept for up to `rounds` rounds.
    pub fn per_round(rate: Bytes, rounds: u32) -> Budget {
        let rate = rate.0 as f32;
        Budget { rate: Some(rate), burst: rate * rounds.max(1) as f32, tokens: rate }
    }

    /// Another rate from now on, or none: what was saved or overspent so far stays.
    pub(crate) fn set_rate(&mut self, rate: Option<Bytes>, rounds: u32) {
        let Some(rate) = rate else {
            *self = Budget::UNLIMITED;
            return;
        };
        let fresh = Budget::per_round(rate, rounds);
        let tokens = if self.rate.is_some() { self.tokens.min(fresh.burst) } else { fresh.tokens };
        *self = Budget { tokens, ..fresh };
    }

    /// A new round begins.
    pub(crate) fn refill(&mut self) {
        if let Some(rate) = self.rate {
            self.tokens = (self.tokens + rate).min(self.burst);
        }
    }

    /// Bytes that may be spent now; `None`: any number.
    pub(crate) fn left(&self) -> Option<f32> {
        self.rate.map(|_| self.tokens.max(0.0))
    }

    /// Whether more is there in the next round than now.
    pub(crate) fn saves(&self) -> bool {
        self.tokens < self.burst
    }

    /// What was really spent; more than was left becomes debt.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.tokens -= bytes as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_tokens_are_kept_up_to_the_burst_and_debt_is_paid_back() {
        let mut budget = Budget::per_round(Bytes(100), 3);
        (0..9).for_each(|_| budget.refill());
        assert_eq!(budget.left(), Some(300.0));
        budget.spend(450);
        assert_eq!(budget.left(), Some(0.0));
        budget.refill();
        assert_eq!(budget.left(), Some(0.0), "still in debt");
        budget.refill();
        assert_eq!(budget.left(), Some(50.0));
        budget.spend(150);
        budget.set_rate(Some(Bytes(60)), 2);
        assert_eq!(budget.left(), Some(0.0), "another rate does not cancel the debt");
        (0..9).for_each(|_| budget.refill());
        assert_eq!(budget.left(), Some(120.0));
        budget.set_rate(None, 2);
        assert_eq!(budget.left(), None);
        let mut free = Budget::UNLIMITED;
        free.refill();
        free.spend(1 << 20);
        assert_eq!(free.left(), None);
    }
}

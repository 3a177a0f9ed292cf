//! Used connect tokens.

use super::{TokenId, UnixTime};
use std::collections::BTreeSet;

/// The most used tokens remembered; while all of them are valid, no others are accepted.
pub const MAX_REMEMBERED: usize = 1 << 16;

/// Remembers each used token until it expires, even if the clock jumps.
///
/// A clock that jumps ahead makes tokens expire early, and they are forgotten. When the clock is
/// set back, these tokens would be valid and unused again. So the latest expiry among forgotten
/// tokens is kept, and tokens that expire no later are treated as expired: see
/// [`UsedTokens::horizon`].
#[derive(Clone, Debug, Default)]
pub struct UsedTokens {
    used: BTreeSet<TokenId>,
    /// The same, by expiry.
    expiring: BTreeSet<(UnixTime, TokenId)>,
    horizon: UnixTime,
}

impl UsedTokens {
    /// Marks a token as used; false if there is no room.
    pub fn insert(&mut self, id: TokenId, until: UnixTime) -> bool {
        let room = self.used.len() < MAX_REMEMBERED || self.used.contains(&id);
        if room && self.used.insert(id) {
            self.expiring.insert((until, id));
        }
        room
    }

    /// Makes a token unused again, because the join did not happen.
    pub fn remove(&mut self, id: TokenId, until: UnixTime) {
        if self.expiring.remove(&(until, id)) {
            self.used.remove(&id);
        }
    }

    /// Whether a token was used.
    pub fn contains(&self, id: &TokenId) -> bool {
        self.used.contains(id)
    }

    /// Tokens that expire at or before this time are rejected: some of them were used and
    /// forgotten.
    pub fn horizon(&self) -> UnixTime {
        self.horizon
    }

    /// Raises the [`horizon`](UsedTokens::horizon) to that of an earlier run.
    pub fn raise_horizon(&mut self, horizon: UnixTime) {
        self.horizon = self.horizon.max(horizon);
    }

    /// Forgets the tokens that have expired.
    pub fn forget_expired(&mut self, now: UnixTime) {
        while let Some((until, id)) = self.expiring.first().copied().filter(|(at, _)| *at <= now) {
            self.expiring.remove(&(until, id));
            self.used.remove(&id);
            self.raise_horizon(until);
        }
    }

    pub fn len(&self) -> usize {
        self.used.len()
    }

    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_ahead_and_back_makes_no_used_token_new() {
        let mut used = UsedTokens::default();
        assert!(used.insert([1; 16], UnixTime(60)) && used.insert([2; 16], UnixTime(90)));
        used.forget_expired(UnixTime(1_000_000));
        assert!(used.is_empty());
        assert_eq!(used.horizon(), UnixTime(90), "not the wrong clock's time");
    }

    #[test]
    fn a_token_that_was_not_used_after_all_is_as_good_as_before() {
        let mut used = UsedTokens::default();
        used.insert([1; 16], UnixTime(60));
        used.remove([1; 16], UnixTime(60));
        assert!(!used.contains(&[1; 16]) && used.is_empty());
        used.forget_expired(UnixTime(100));
        assert_eq!(used.horizon(), UnixTime(0));
    }
}

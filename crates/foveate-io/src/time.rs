//! The time of the day, for what outlives a process: tokens, last visits.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since the first of January 1970, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct UnixTime(pub u64);

impl UnixTime {
    /// What the system's clock says; a clock before 1970 counts as 1970.
    pub fn now() -> UnixTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        UnixTime(since.map_or(0, |since| since.as_secs()))
    }

    /// So much later.
    pub fn plus(self, span: Duration) -> UnixTime {
        UnixTime(self.0.saturating_add(span.as_secs()))
    }
}

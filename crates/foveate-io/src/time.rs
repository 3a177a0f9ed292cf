//! The time of day, for tokens and last visits; and a clock that goes on while the machine sleeps, for games that do,
//! too.

pub use foveate_node::UnixTime;

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time since an arbitrary start, including the machine's sleep.
#[cfg(target_os = "linux")]
pub(crate) fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Time since an arbitrary start. Where the system's clock stops while the machine sleeps, this one does, too.
#[cfg(not(target_os = "linux"))]
pub(crate) fn since_boot() -> Duration {
    monotonic()
}

/// Time since an arbitrary start, without the machine's sleep.
pub(crate) fn monotonic() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// The system's time of day; times before 1970 count as 1970.
pub fn unix_now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime(since.map_or(0, |since| since.as_secs()))
}

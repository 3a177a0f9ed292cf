//! The time of the day, for what outlives a process: tokens, last visits. And a clock that goes on while
//! the machine sleeps, for games that go on as well.

pub use foveate_node::UnixTime;

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time since some moment, the machine's sleep included.
#[cfg(target_os = "linux")]
pub(crate) fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Time since some moment; where the system's clock stands still while the machine sleeps, so does this one.
#[cfg(not(target_os = "linux"))]
pub(crate) fn since_boot() -> Duration {
    monotonic()
}

/// Time since some moment, the machine's sleep left out.
pub(crate) fn monotonic() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// What the system's clock says; a clock before 1970 counts as 1970.
pub fn unix_now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime(since.map_or(0, |since| since.as_secs()))
}

//! This process's use of the machine.

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Processor time of all threads so far.
pub fn processor_time() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// Processor time of this thread so far.
pub fn thread_time() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(which: ClockId) -> Duration {
    let spent = clock_gettime(which);
    Duration::new(spent.tv_sec.try_into().unwrap_or(0), spent.tv_nsec.try_into().unwrap_or(0))
}

/// Resident memory in KiB; zero where the system does not report it.
pub fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0.0)
}

/// Keeps this process on one processor; false if the system refuses.
pub fn pin(processor: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).is_ok()
}

/// The value below which a share of the values lies, after sorting them; zero for none.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    values.get(at).copied().unwrap_or(0.0)
}

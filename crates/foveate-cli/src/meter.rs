//! A real clock and a counter of allocations, for experiments that measure this machine.

use foveate_lab::experiments::scale::Meter;
use std::time::Instant;

/// Counts from when it was made.
pub struct RealMeter(Instant);

impl Default for RealMeter {
    fn default() -> RealMeter {
        RealMeter(Instant::now())
    }
}

impl Meter for RealMeter {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn allocations(&self, run: &mut dyn FnMut()) -> u64 {
        allocation_counter::measure(run).count_total
    }
}

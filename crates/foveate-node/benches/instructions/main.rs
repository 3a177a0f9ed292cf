//! The cost of the core in instructions and allocations: the program behind `cargo xtask bench
//! core`.
//!
//! Each measure prepares a seeded world, lets it settle, and passes the measured work to
//! [`Measure::add`]. Callgrind collects inside [`measured`] only, and [`dump_counts`] makes it
//! write its counts to a file and reset them. For each measure the program prints a line with name,
//! repetitions and allocations; the files are in the order of the lines.
//!
//! It has no clock, and all randomness comes from seeds. Without callgrind it only counts
//! allocations.

mod crowd;
mod mailbox;
mod town;
mod walker;

use std::hint::black_box;

/// One line of the result.
#[derive(Default)]
pub struct Measure {
    times: usize,
    allocations: u64,
}

impl Measure {
    /// Counts `run`, which does the work `times` times.
    pub fn add(&mut self, times: usize, mut run: impl FnMut()) {
        self.times += times;
        self.allocations += allocation_counter::measure(|| measured(&mut run)).count_total;
    }

    /// Ends the measure and prints its line.
    pub fn finish(self, name: &str) {
        dump_counts();
        println!("{name} {} {}", self.times, self.allocations);
    }
}

/// The function in which callgrind collects; `xtask/src/bench.rs` refers to it and to the next one
/// by name.
#[inline(never)]
fn measured(run: &mut dyn FnMut()) {
    run();
    // This keeps the call from becoming a jump, after which callgrind would not see the return.
    black_box(());
}

#[inline(never)]
fn dump_counts() {
    black_box(());
}

fn main() {
    crowd::pipeline();
    crowd::encode();
    town::sessions();
}

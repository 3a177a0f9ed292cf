//! What the core costs, in instructions and allocations: the program behind `cargo xtask bench core`.
//!
//! Each measure prepares a seeded world, lets it settle, and passes the work whose cost is wanted to
//! [`Measure::add`]. Callgrind collects inside [`measured`] only, and [`dump_counts`] makes it write what it has
//! to a file and start at zero again. For each measure the program prints a line: name, how often the work was
//! done, allocations; the files are in the order of the lines.
//!
//! There is no clock in it, and no randomness but from seeds. Without callgrind it counts allocations only.

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

/// The region in which callgrind collects; `xtask/src/bench.rs` knows it and the next function by their names.
#[inline(never)]
fn measured(run: &mut dyn FnMut()) {
    run();
    // What follows the call keeps it from becoming a jump, after which callgrind would not see the return.
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

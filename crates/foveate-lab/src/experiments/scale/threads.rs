//! The gain from several threads in a round: in the same world, rounds with one thread and with several alternate.
//!
//! What is sent does not depend on the number of threads, so two successive rounds have the same work to do, and the
//! machine's other load affects both alike.

use super::{Bench, StageTimes};
use crate::experiments::LabHost;
use crate::movement::Movement;
use crate::output::{Table, Verdict};
use foveate_sync::Threads;
use foveate_sync::metrics::PipelineStage;
use serde::Serialize;

/// Rounds with each number of threads.
const COMPARED: usize = 40;

/// One line of the comparison.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadsRow {
    workload: &'static str,
    n: usize,
    threads: usize,
    /// The fastest tick on one thread, in milliseconds of wall-clock time.
    one_best_ms: f64,
    /// The median tick on one thread.
    one_ms: f64,
    /// The fastest tick on several threads.
    many_best_ms: f64,
    /// The median tick on several threads.
    many_ms: f64,
    /// Milliseconds of processor time with one thread.
    one_cpu_ms: f64,
    /// Milliseconds of processor time of all threads.
    many_cpu_ms: f64,
    /// Milliseconds of what one thread does while the others wait: acknowledgements, writing, collecting, indexing,
    /// sending.
    serial_ms: f64,
    /// `serial_ms` as a share of a tick on one thread.
    serial_share: f64,
    allocs: f64,
}

impl ThreadsRow {
    /// Speed-up of the best tick.
    fn speed_up(&self) -> f64 {
        self.one_best_ms / self.many_best_ms
    }

    /// Players.
    pub fn players(&self) -> usize {
        self.n
    }

    /// The claim: nine tenths of the possible speed-up. It is a time, so it is reported only.
    pub fn verdict(&self) -> Verdict {
        let text =
            format!("{} of {}: times faster on {} threads", self.workload, self.n, self.threads);
        let aim = 0.9 * self.threads as f64;
        Verdict::at_least(text, self.speed_up(), aim, "×").reported_only(true)
    }

    /// The largest possible speed-up with this many threads, by Amdahl's law.
    fn at_most(&self, threads: f64) -> f64 {
        1.0 / (self.serial_share + (1.0 - self.serial_share) / threads)
    }
}

/// Times of rounds with one number of threads.
#[derive(Default)]
struct Times {
    wall: Vec<f64>,
    cpu: Vec<f64>,
    serial: Vec<f64>,
}

impl Times {
    fn best(values: &[f64]) -> f64 {
        values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn median(values: &mut [f64]) -> f64 {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    }
}

/// Compares one thread with several. The world must have settled.
pub fn compare<M: Movement>(
    workload: &'static str,
    bench: &mut Bench<M>,
    threads: &Threads,
    meter: &dyn LabHost,
) -> ThreadsRow {
    let pools = [Threads::default(), threads.clone()];
    let (mut times, mut allocs) = ([Times::default(), Times::default()], 0);
    for round in 0..2 * COMPARED {
        bench.publisher.set_threads(pools[round % 2].clone());
        bench.simulate();
        let mut stages = StageTimes { meter, at: None, ns: [0; 8] };
        let (start, cpu) = (meter.now_ns(), meter.cpu_ns());
        let counted = meter.allocations(&mut || bench.full_round(&mut stages));
        let (wall, cpu) = ((meter.now_ns() - start) as f64, (meter.cpu_ns() - cpu) as f64);
        let shared = [PipelineStage::Ack, PipelineStage::Grade, PipelineStage::Due];
        let shared = shared.into_iter().chain([PipelineStage::Encode, PipelineStage::Turns]);
        let shared = shared.map(|stage| stages.ns[stage as usize]).sum::<u64>() as f64;
        let times = &mut times[round % 2];
        // The first rounds allocate memory for each thread.
        if round >= 8 {
            times.wall.push(wall / 1e6);
            times.cpu.push(cpu / 1e6);
            times.serial.push((wall - shared) / 1e6);
            allocs += if round % 2 == 1 { counted } else { 0 };
        }
    }
    bench.publisher.set_threads(Threads::default());
    let [one, many] = &mut times;
    let serial_ms = Times::best(&many.serial);
    let one_best_ms = Times::best(&one.wall);
    ThreadsRow {
        workload,
        n: bench.slots.len(),
        threads: threads.count(),
        one_best_ms,
        one_ms: Times::median(&mut one.wall),
        many_best_ms: Times::best(&many.wall),
        many_ms: Times::median(&mut many.wall),
        one_cpu_ms: Times::median(&mut one.cpu),
        many_cpu_ms: Times::median(&mut many.cpu),
        serial_ms,
        serial_share: (serial_ms / one_best_ms).min(1.0),
        allocs: allocs as f64 / many.wall.len().max(1) as f64,
    }
}

/// The comparisons as a table.
pub fn table(rows: &[ThreadsRow]) -> Table {
    let caption = "The same rounds on one thread and on several, in turn; milliseconds per tick";
    let ms = |value: f64| format!("{value:.2}");
    let times = |value: f64| format!("{value:.2}×");
    Table::of(rows)
        .left("workload", |row| row.workload.to_owned())
        .right("N", |row| row.n.to_string())
        .right("threads", |row| row.threads.to_string())
        .right("one thread, best ms", |row| ms(row.one_best_ms))
        .right("median", |row| ms(row.one_ms))
        .right("CPU ms", |row| ms(row.one_cpu_ms))
        .right("several, best ms", |row| ms(row.many_best_ms))
        .right("median", |row| ms(row.many_ms))
        .right("CPU ms", |row| ms(row.many_cpu_ms))
        .right("faster, best", |row| times(row.speed_up()))
        .right("median", |row| times(row.one_ms / row.many_ms))
        .right("serial ms", |row| ms(row.serial_ms))
        .right("share", |row| format!("{:.1} %", 100.0 * row.serial_share))
        .right("at most on 8", |row| times(row.at_most(8.0)))
        .right("on 32", |row| times(row.at_most(32.0)))
        .right("allocs", |row| format!("{:.2}", row.allocs))
        .caption(caption)
}

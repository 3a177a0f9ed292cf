//! The experiments. Each runs and returns rows for programs, and tables and a report for people.
//!
//! To add one, add a file here and a line in [`ALL`]; the commands, the smoke test and the docs list it from there.

pub mod a3;
pub mod bounds;
pub mod chaos;
pub mod codec;
pub mod events;
pub mod mesh;
mod micro;
pub mod ownership;
pub mod peers;
mod registry;
mod rivals;
pub mod scale;
pub mod vfc;

pub use registry::{Experiment, LabHost, LabRequest, RunOptions, WalledWorld};

use crate::movement::PlaybackError;
use crate::output::{ExperimentResult, OutputError, Table};
use crate::report::Report;
use crate::trace::TraceError;
use foveate_sync::interest::ViewError;
use foveate_wire::SchemaError;
use thiserror::Error;

/// The experiments of this crate, by name.
pub const ALL: &[&dyn Experiment] = &[
    &a3::A3Experiment,
    &bounds::BoundsExperiment,
    &chaos::ChaosExperiment,
    &codec::CodecExperiment,
    &events::EventsExperiment,
    &mesh::MeshExperiment,
    &ownership::OwnershipExperiment,
    &peers::PeersExperiment,
    &scale::ScaleExperiment,
    &vfc::VfcExperiment,
];

/// The results of an experiment.
pub struct Done {
    /// Rows for programs.
    pub outcome: ExperimentResult,
    /// Tables for people.
    pub tables: Vec<Table>,
    /// Remarks to print below the tables.
    pub notes: Vec<String>,
    /// The HTML report.
    pub report: Report,
}

/// Why an experiment could not run.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// The trace is not usable.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace cannot be played.
    #[error(transparent)]
    Playback(#[from] PlaybackError),
    /// The world does not fit a schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    View(#[from] ViewError),
    /// The rows could not be serialised.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// An option has a value that the experiment cannot use.
    #[error("{0}")]
    Usage(String),
}

/// A recording's name: its file name without the extensions.
pub fn trace_name(path: &std::path::Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.trim_end_matches(".gz").trim_end_matches(".csv").to_owned()
}

/// Runs jobs on all cores; results are in the order of the jobs.
pub fn in_parallel<J: Sync, R: Send>(jobs: &[J], run: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let worker = || {
            let mut mine = Vec::new();
            loop {
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(job) = jobs.get(at) else { return mine };
                mine.push((at, run(job)));
            }
        };
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        // A panic must be passed on: without it, results after the missing one would be taken for those of other jobs.
        let joined = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.flat_map(|done| done.unwrap_or_else(|why| std::panic::resume_unwind(why))).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::in_parallel;

    #[test]
    fn results_come_in_the_order_of_their_jobs() {
        let jobs: Vec<u32> = (0..100).collect();
        assert_eq!(in_parallel(&jobs, |job| job * 2), Vec::from_iter((0..100).map(|job| job * 2)));
    }

    #[test]
    #[should_panic(expected = "of no use")]
    fn a_job_that_panics_is_not_left_out() {
        in_parallel(&[1, 2, 3], |job| assert!(*job != 2, "of no use"));
    }
}

//! The experiments: each runs, and leaves rows for programs and tables and a report for people.
//!
//! A new one is a file here and a line in [`ALL`]; commands, smoke test and docs follow from that.

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

/// What an experiment leaves.
pub struct Done {
    /// Rows for programs.
    pub outcome: ExperimentResult,
    /// Tables for people.
    pub tables: Vec<Table>,
    /// Remarks to be printed below the tables.
    pub notes: Vec<String>,
    /// The page.
    pub report: Report,
}

/// An experiment that could not be done.
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
    /// A view is not usable.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The rows could not be put together.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// An option with a value that the experiment cannot use.
    #[error("{0}")]
    Usage(String),
}

/// A recording's name: its file's, without the endings.
pub fn trace_name(path: &std::path::Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.trim_end_matches(".gz").trim_end_matches(".csv").to_owned()
}

/// Runs jobs on all cores; results in the order of the jobs.
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
        // A job that panics must not leave a hole: the results after it would be taken for others'.
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

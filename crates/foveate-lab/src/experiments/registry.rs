//! How an experiment presents itself: name, options, run. The program joins the lists of all crates that have
//! experiments ([`super::ALL`] is this one's) and makes its commands, the smoke test and the list in the docs of them.

use super::{Done, ExperimentError};
use crate::movement::Movement;
use clap::{ArgMatches, Command, FromArgMatches};
use foveate_sync::interest::Visibility;
use std::sync::Arc;

/// An experiment in virtual time. To add one: a file with a type that implements this, and its line in [`super::ALL`].
pub trait Experiment: Sync {
    /// One lower-case word: the command, the file of its report, `experiment` in its JSON.
    fn name(&self) -> &'static str;

    /// What it shows, in one line without a full stop.
    fn about(&self) -> &'static str;

    /// Adds the options that only this experiment has: `Args::augment_args` of a struct that derives `clap::Args`.
    /// Read them in [`Self::run`] with [`LabRequest::arguments`].
    fn options(&self, command: Command) -> Command {
        command
    }

    /// Arguments without which the command line is not complete, such as a recording in `traces/`; for the smoke
    /// test.
    fn sample_arguments(&self) -> &'static [&'static str] {
        &[]
    }

    /// Measures and describes. Rows, verdicts and the report carry [`Self::name`].
    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError>;
}

/// The options that every experiment has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunOptions {
    /// The RNG seed: the same seed gives the same bytes.
    pub seed: u64,
    /// A short run that shows that everything works; its figures are not for quoting.
    pub quick: bool,
}

/// One run of an experiment, as asked for.
#[derive(Clone, Copy)]
pub struct LabRequest<'a> {
    /// The options that every experiment has.
    pub options: RunOptions,
    /// The parsed command line, with the experiment's own options.
    pub matches: &'a ArgMatches,
    /// Game and clock.
    pub host: &'a dyn LabHost,
}

impl LabRequest<'_> {
    /// The experiment's own options, as it declared them in [`Experiment::options`].
    pub fn arguments<T: FromArgMatches>(&self) -> Result<T, ExperimentError> {
        T::from_arg_matches(self.matches).map_err(|error| ExperimentError::Usage(error.to_string()))
    }
}

/// What only a program has: a game that moves avatars, a clock, a counter of allocations.
pub trait LabHost: Sync {
    /// The game's world of a seed, with walls.
    fn walled_world(&self, seed: u64) -> WalledWorld;

    /// So many avatars that walk about a square map of this side.
    fn walkers(&self, seed: u64, count: usize, side: f32) -> Box<dyn Movement>;

    /// Nanoseconds since some moment.
    fn now_ns(&self) -> u64;

    /// Nanoseconds of processor time that all threads of the program have used.
    fn cpu_ns(&self) -> u64;

    /// Runs something and counts the allocations of this thread.
    fn allocations(&self, run: &mut dyn FnMut()) -> u64;
}

/// A world in which walls hide avatars from each other.
pub struct WalledWorld {
    /// The avatars.
    pub movement: Box<dyn Movement>,
    /// Which of them can see which.
    pub sight: Arc<dyn Visibility>,
}

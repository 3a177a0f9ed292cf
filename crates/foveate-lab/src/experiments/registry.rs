//! The interface of an experiment: name, options, run. The program joins the lists of all crates with experiments
//! ([`super::ALL`] is this crate's); commands, the smoke test and the list in the docs come from that.

use super::{Done, ExperimentError};
use crate::movement::Movement;
use clap::{ArgMatches, Command, FromArgMatches};
use foveate_sync::interest::Visibility;
use std::sync::Arc;

/// An experiment in virtual time. To add one, implement this for a type in a new file, and add it to [`super::ALL`].
pub trait Experiment: Sync {
    /// One lower-case word: the command's name, the file name of its report, and `experiment` in its JSON.
    fn name(&self) -> &'static str;

    /// One line without a full stop that says what it shows.
    fn about(&self) -> &'static str;

    /// Adds the options that only this experiment has, with `Args::augment_args` of a struct that derives `clap::Args`.
    /// Read them in [`Self::run`] with [`LabRequest::arguments`].
    fn options(&self, command: Command) -> Command {
        command
    }

    /// Arguments that the smoke test passes because the experiment requires them, such as a recording in `traces/`.
    fn sample_arguments(&self) -> &'static [&'static str] {
        &[]
    }

    /// Runs the experiment. Rows, verdicts and the report carry [`Self::name`].
    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError>;
}

/// The options that every experiment has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunOptions {
    /// The RNG seed: the same seed gives the same bytes.
    pub seed: u64,
    /// A short run that shows that everything works; its figures are not meant to be quoted.
    pub quick: bool,
}

/// A request to run an experiment.
#[derive(Clone, Copy)]
pub struct LabRequest<'a> {
    /// The options that every experiment has.
    pub options: RunOptions,
    /// The parsed command line, with the experiment's own options.
    pub matches: &'a ArgMatches,
    /// The program's game, clock and counters.
    pub host: &'a dyn LabHost,
}

impl LabRequest<'_> {
    /// The experiment's own options, as it declared them in [`Experiment::options`].
    pub fn arguments<T: FromArgMatches>(&self) -> Result<T, ExperimentError> {
        T::from_arg_matches(self.matches).map_err(|error| ExperimentError::Usage(error.to_string()))
    }
}

/// What only a program can provide: a game that moves avatars, clocks, and a counter of allocations.
pub trait LabHost: Sync {
    /// The game's world with walls for a seed.
    fn walled_world(&self, seed: u64) -> WalledWorld;

    /// Movement of `count` avatars on a square map of this side.
    fn walkers(&self, seed: u64, count: usize, side: f32) -> Box<dyn Movement>;

    /// Nanoseconds since an arbitrary start.
    fn now_ns(&self) -> u64;

    /// Processor time of all threads of the program, in nanoseconds.
    fn cpu_ns(&self) -> u64;

    /// Runs a function and counts this thread's allocations.
    fn allocations(&self, run: &mut dyn FnMut()) -> u64;
}

/// A world in which walls hide avatars from each other.
pub struct WalledWorld {
    /// The avatars.
    pub movement: Box<dyn Movement>,
    /// Which avatars can see which.
    pub sight: Arc<dyn Visibility>,
}

//! `foveate lab chaos`: sessions of the shipped server, clients and storage logic while machines, disks, clocks and
//! links fail, and hostile clients join in.
//!
//! The seed determines a run: [`run`] with the same [`ChaosSpec`] sends the same bytes. A run goes through all pairs
//! of an [`InjectedFault`] and a [`SessionState`]: it brings a client into the state, injects the fault, and goes on.
//! A [`Checker`] records what players did and what the disk acknowledged, and checks after every step:
//!
//! - **one session**: no player has two sessions or two open links at the server;
//! - **nothing lost**: after a crash everything that the disk acknowledged is still stored; a working disk
//!   acknowledges every change within a second; a player who rejoins has the state with which they left;
//! - **items conserved**: there is exactly one item of each label, even if a process crashes while one is recast;
//! - **tokens once**: no token admits a player twice, across restarts and clock jumps;
//! - **names are numbers**: each name keeps its number;
//! - **sessions end with a reason**: an honest client is refused only for a reason that fits the injected faults, and
//!   is back in the game after they ended;
//! - **bounded**: the number of players stays within its limit;
//! - **replicas converge**: at rest every client has the same objects as the server.
//!
//! A [`Flaw`] plants a bug that the checker must find.

mod actors;
mod check;
mod disk;
mod faults;
mod market;
mod peers;
#[cfg(test)]
mod tests;
mod world;

pub use actors::Mischief;
pub use check::{Checker, Violation};
pub use faults::{Coverage, InjectedFault, SessionState};
pub use market::Market;
pub use peers::{PeerChaosReport, PeerFault, PeerState, run_peers};
pub use world::{ChaosWorld, Counts};

use foveate_wire::{Micros, SchemaError};

/// A planted bug, to test the checker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// The storage admits the player first, and writes the token with the next transaction.
    TokenAfterReply,
    /// A resumed session keeps its old link open.
    OldLinkStaysOpen,
    /// Every fourth transaction is acknowledged before it is synced.
    SkippedSync,
    /// A known name is admitted under a second number.
    AdmittedTwice,
    /// The objects of a leaving player are not passed to the storage.
    LostLeave,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Flaw; 5] = [
        Flaw::TokenAfterReply,
        Flaw::OldLinkStaysOpen,
        Flaw::SkippedSync,
        Flaw::AdmittedTwice,
        Flaw::LostLeave,
    ];
}

/// The options of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChaosSpec {
    /// RNG seed.
    pub seed: u64,
    /// Virtual duration.
    pub time: Micros,
    /// The number of honest clients, or of peers.
    pub clients: usize,
    /// The number of hostile clients.
    pub hostile: usize,
    /// The planted bug, if any.
    pub flaw: Option<Flaw>,
}

impl ChaosSpec {
    /// Twelve honest clients, of which at least eight are in the game on average, and two hostile ones.
    pub fn new(seed: u64, time: Micros) -> ChaosSpec {
        ChaosSpec { seed, time, clients: 12, hostile: 2, flaw: None }
    }

    /// Eight peers.
    pub fn among_peers(seed: u64, time: Micros) -> ChaosSpec {
        ChaosSpec { clients: 8, hostile: 0, ..ChaosSpec::new(seed, time) }
    }
}

/// The results of a run.
#[derive(Debug)]
pub struct ChaosReport {
    /// How often each fault was injected in each state.
    pub coverage: Coverage,
    /// Invariants that did not hold; the run ends at the first.
    pub violations: Vec<Violation>,
    /// Counters.
    pub counts: Counts,
    /// A hash of all sent bytes, equal for two runs of one spec.
    pub digest: u64,
}

/// Runs for the spec's duration, or to the first violation.
pub fn run(spec: ChaosSpec) -> Result<ChaosReport, SchemaError> {
    let mut world = ChaosWorld::new(spec)?;
    let mut coverage = Coverage::default();
    faults::drive(&mut world, &mut coverage, spec.time);
    Ok(world.finish(coverage))
}

//! `foveate lab chaos`: sessions of the shipped server, clients and storage logic while machines, disks, clocks and
//! links fail, and hostile clients join in.
//!
//! One seed decides a run: [`run`] with the same [`ChaosSpec`] does the same to the byte. A run goes through
//! [`InjectedFault`] × [`SessionState`]: it brings a client into the state, injects the fault, and goes on. A
//! [`Checker`] knows what players did and what the disk acknowledged, and compares after every step:
//!
//! - **one session**: no player is in twice, and a player has one open link at the server;
//! - **nothing lost**: after a crash everything is there that the disk acknowledged, and the disk acknowledges within
//!   a second what happened, while it works; a player who left and comes back finds what they left;
//! - **items conserved**: there is exactly one item of each label, whoever crashes while one is recast;
//! - **tokens once**: no token lets a player in twice, through restarts and clocks that jump;
//! - **names are numbers**: a name has one number for good;
//! - **sessions end with a reason**: an honest client is refused only for reasons that fit what happened, and is in
//!   again when everything works;
//! - **bounded**: players, links that wait and open questions stay within their limits;
//! - **replicas converge**: when everything rests, every client knows what the server knows.
//!
//! [`Flaw`]s plant bugs that the checker must find.

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

/// A bug that is planted, to see that it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// The storage answers, and writes the token with the next transaction.
    TokenAfterReply,
    /// A resumed session leaves its old link open.
    OldLinkStaysOpen,
    /// Every fourth transaction is acknowledged before it is synced.
    SkippedSync,
    /// A known name is let in under a second number.
    AdmittedTwice,
    /// What a leaving player had is not handed to the storage.
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

/// What one run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChaosSpec {
    /// RNG seed.
    pub seed: u64,
    /// How long it goes on.
    pub time: Micros,
    /// Honest clients, or peers.
    pub clients: usize,
    /// Hostile ones.
    pub hostile: usize,
    /// A planted bug.
    pub flaw: Option<Flaw>,
}

impl ChaosSpec {
    /// Twelve honest clients, of which eight or more are in on average, and two hostile ones.
    pub fn new(seed: u64, time: Micros) -> ChaosSpec {
        ChaosSpec { seed, time, clients: 12, hostile: 2, flaw: None }
    }

    /// Eight peers.
    pub fn among_peers(seed: u64, time: Micros) -> ChaosSpec {
        ChaosSpec { clients: 8, hostile: 0, ..ChaosSpec::new(seed, time) }
    }
}

/// What a run found.
#[derive(Debug)]
pub struct ChaosReport {
    /// How often each fault hit each state.
    pub coverage: Coverage,
    /// Invariants that did not hold; the run ends at the first.
    pub violations: Vec<Violation>,
    /// What happened.
    pub counts: Counts,
    /// A hash of all that was sent: two runs that agree in it are the same.
    pub digest: u64,
}

/// Runs for the spec's time, or to the first violation.
pub fn run(spec: ChaosSpec) -> Result<ChaosReport, SchemaError> {
    let mut world = ChaosWorld::new(spec)?;
    let mut coverage = Coverage::default();
    faults::drive(&mut world, &mut coverage, spec.time);
    Ok(world.finish(coverage))
}

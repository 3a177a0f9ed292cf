//! Silac's gossip, to compare with: nothing that ships is built on it.
//!
//! [`node`] is the protocol without IO, after its source; [`SilacHost`] runs it on a UDP socket (`foveate peer --gossip
//! silac`), [`experiment`] in virtual time (`foveate lab silac`). It refuses to improve on its source: our own peers
//! are `foveate_node::peer`. The crate uses public interfaces of the others only.

pub mod experiment;
mod host;
pub mod node;

pub use host::{MAX_EVENTS, SilacHost};
pub use node::*;

/// The experiments of this crate.
pub const ALL: &[&dyn foveate_lab::experiments::Experiment] = &[&experiment::SilacExperiment];

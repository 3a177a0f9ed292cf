//! Silac's gossip, for comparison. Nothing that ships depends on it.
//!
//! [`node`] is the protocol without IO, as its source describes it. [`SilacHost`] runs it on a UDP socket (`foveate
//! peer --gossip silac`), [`experiment`] in virtual time (`foveate lab silac`). The crate does not improve on its
//! source: Foveate's own peers are `foveate_node::peer`. It uses only public interfaces of the other crates.

pub mod experiment;
mod host;
pub mod node;

pub use host::{MAX_EVENTS, SilacHost};
pub use node::*;

pub const ALL: &[&dyn foveate_lab::experiments::Experiment] = &[&experiment::SilacExperiment];

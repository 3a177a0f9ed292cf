//! Counters of the engine, and the literature's measures of how wrong replicas are and what they
//! cost.

mod coherence;
mod counters;
mod silac;
mod spread;

pub use coherence::{Area, SeenObject, agreement, delta_object, delta_player};
pub use counters::{Counters, PipelineStage, Probe};
pub use silac::{Inconsistency, KnownReplica, inc, inj};
pub use spread::Spread;

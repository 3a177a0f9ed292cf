//! Values ⇄ bytes: what two ends of a link must agree on, and nothing else.
//!
//! The path of a value: struct → [`Replicate::put`] → lanes (integers) → residuals against a state
//! that the receiver acknowledged, predicted to now → bits of an adaptive range coder → packet; and
//! back.
//!
//! This crate keeps no state between packets, does no IO, reads no clock, uses no randomness, and
//! never panics or loops without a bound, whatever the bytes. `docs/WIRE.md` describes its format.

mod coder;
mod contexts;
pub mod derive;
mod facing;
pub mod fuzz;
#[cfg(test)]
mod golden;
mod id;
pub mod measure;
mod number;
pub mod packet;
mod place;
pub mod predict;
mod record;
pub mod schema;
mod units;
mod value;

pub use coder::{Coder, Decoder, Encoder, Models};
pub use contexts::CONTEXTS;
pub use foveate_derive::Replicate;
pub use id::{Alias, Epoch, KindId, ObjectId, OwnerId};
pub use predict::Motion;
pub use record::{Baseline, Pose, PoseBaseline};
pub use schema::{
    Access, Disclosure, FieldSpec, FieldType, FlooredLane, Kind, KindList, KindSpec, PlaceLanes,
    Role, Schema, SchemaError, SchemaMismatch,
};
pub use units::{Bytes, Metres, Micros, Position, Radians, Tick};
pub use value::{
    Field, List, Replicate, angle_to_steps, field_lanes, field_lanes_mut, steps_to_angle,
};

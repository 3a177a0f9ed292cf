//! Errors of the arena.

use foveate_sync::StoreError;
use foveate_wire::SchemaError;
use thiserror::Error;

/// Why the arena refused a request. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ArenaError {
    /// The tick rate is outside the range for which movement is sound.
    #[error("tick rate {got} Hz is outside {min}..={max} Hz")]
    TickRate {
        got: u32,
        /// The lowest rate: below it an avatar could step across a corner in one tick.
        min: u32,
        /// The highest rate: above it speeds are too coarse in fixed point.
        max: u32,
    },
    /// The kinds of the game do not form a schema, which is a bug in the arena.
    #[error("cannot build the schema of the arena: {0}")]
    Schema(#[from] SchemaError),
    /// The store has no room for an object, or has it already.
    #[error("cannot change the world of the arena: {0}")]
    Store(#[from] StoreError),
}

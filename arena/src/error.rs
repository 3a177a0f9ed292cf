//! What the arena refuses, and why.

use foveate_sync::StoreError;
use foveate_wire::SchemaError;
use thiserror::Error;

/// A request that the arena could not fulfil. Nothing has changed when one is returned.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ArenaError {
    /// The caller asked for a tick rate outside the range for which movement is sound.
    #[error("tick rate {got} Hz is outside {min}..={max} Hz")]
    TickRate {
        /// What was asked for.
        got: u32,
        /// The lowest rate: below it an avatar could step across a corner in one tick.
        min: u32,
        /// The highest rate: above it speeds are too coarse in fixed point.
        max: u32,
    },
    /// The caller gave a list of weights that does not have one entry for every node.
    #[error("{got} weights for {nodes} nodes")]
    WeightCount {
        /// Entries given.
        got: usize,
        /// Nodes of the graph.
        nodes: usize,
    },
    /// A weight is negative, infinite or not a number, or all of them are zero.
    #[error("weights must be finite, not negative, and not all zero (entry {index})")]
    WeightValue {
        /// The first offending entry, or 0 where all are zero.
        index: usize,
    },
    /// The kinds of the game do not make a schema: a bug of the arena's.
    #[error("the arena's schema: {0}")]
    Schema(#[from] SchemaError),
    /// The store has no room for an object, or has it already.
    #[error("the arena's world: {0}")]
    Store(#[from] StoreError),
}

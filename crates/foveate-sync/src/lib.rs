//! Replication without IO: what to send to which observer, how exactly, and how the receiver
//! applies it.
//!
//! The path of a change: [`Store`] → [`index`] → [`interest`] (a policy grades each pair) →
//! [`schedule`] (bounds, budget, what is in flight) → [`pipeline`] (encode, pack) → packet; at the
//! other end [`replica`] → what a game shows. [`pipeline`] contains the list of stages.
//!
//! This crate has no sockets, no clock and no random numbers: time is an argument, and the same
//! types run in the lab and in production.

mod deviation;
pub mod index;
pub mod interest;
pub mod metrics;
pub mod pipeline;
pub mod replica;
pub mod schedule;
pub mod store;
mod threads;

pub use deviation::{Deviation, Predicted, deviation};
pub use pipeline::{Publisher, Rounds};
pub use replica::ReplicaSet;
pub use schedule::{Budget, Observer, ObserverId, Pivots};
pub use store::{Slot, Store, StoreError};
pub use threads::{MAX_THREADS, Threads, ThreadsError};

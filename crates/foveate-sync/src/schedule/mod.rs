//! What one observer knows, is owed and was sent: pairs, bounds, budget, packets in flight.

mod budget;
mod observer;
mod pair;
mod sent;

pub use budget::Budget;
pub(crate) use observer::{DuePair, Graded};
pub use observer::{MAX_INTERACTIONS, MAX_PAIRS, Observer, ObserverId, Pivots};
pub use pair::DueReason;
pub(crate) use pair::{
    Mode, NextCheck, Notice, Pair, PairState, Patience, Reference, Tallies, push_tight,
};
pub use sent::{MAX_IN_FLIGHT, SentPackets};
pub(crate) use sent::{SentKind, SentRecord};

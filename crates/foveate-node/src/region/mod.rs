//! A world on many servers.
pub mod bus;
pub mod clock;
pub mod layout;
pub mod lease;
pub mod ledger;
pub mod log;

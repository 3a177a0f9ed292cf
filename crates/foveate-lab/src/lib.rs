//! The laboratory: the very nodes that ship, in virtual time and on a virtual network.
//!
//! Seeded and deterministic: the same seed gives the same bytes. A datum's way: [`movement`] → a
//! [`session`] (source, links of [`net`], viewers) → the auditor, who knows the truth → an
//! experiment's rows → [`output`] for programs, [`report`] for people.
//!
//! The lab opens no socket and knows no game: movement is brought to it.

pub mod audit;
pub mod avatar;
pub mod chaos;
pub mod experiments;
pub mod mesh;
pub mod movement;
pub mod net;
pub mod network;
pub mod output;
pub mod peers;
pub mod report;
pub mod session;
pub mod sighted;
pub mod trace;
pub mod training;

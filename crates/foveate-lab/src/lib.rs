//! The laboratory: the nodes that ship, in virtual time on a virtual network.
//!
//! Runs are deterministic: the same seed gives the same bytes. The path of a datum: [`movement`] → a [`session`]
//! (server, links of [`net`], clients) → the auditor, which knows the true state → an experiment's rows → [`output`]
//! for programs, [`report`] for people.
//!
//! The lab opens no socket and depends on no game: callers provide movement.

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

//! The README and every chapter of the book that has Rust code; `crates/foveate/tests/documents.rs` checks that
//! none is missing.

#[doc = include_str!("../../../README.md")]
mod readme {}
#[doc = include_str!("../../../docs/GETTING_STARTED.md")]
mod getting_started {}
#[doc = include_str!("../../../docs/FIRST_GAME.md")]
mod first_game {}
#[doc = include_str!("../../../docs/VIEWS.md")]
mod views {}
#[doc = include_str!("../../../docs/SERVER.md")]
mod server {}
#[doc = include_str!("../../../docs/PEER_TO_PEER.md")]
mod peer_to_peer {}

//! Servers and clients of [`foveate_node`] on real links, so that a program only needs its game.
//!
//! A host owns a node and its endpoint, answers the node's requests, and runs both with a [`Driver`], the loop that
//! runs any node. It starts no thread: call [`ServerHost::step`] or [`ClientsHost::step`] in a loop, or, in a loop that
//! waits by itself, [`ServerHost::poll_step`] or [`ClientsHost::poll_step`].

mod accounts;
mod ahead;
mod client;
mod clients;
mod driver;
mod observers;
#[cfg(feature = "peer")]
mod peer;
#[cfg(feature = "peer")]
mod peer_builder;
mod server;
mod server_builder;
mod session_end;

pub use accounts::Accounts;
pub use client::{ClientBuilder, ClientError, ClientHost};
pub use clients::{ClientsHost, HostedClient};
pub use driver::{Driver, EndpointOutbox, HostClock, NodeHost, StepTimings};
pub use observers::MAX_OBSERVER_EVENTS;
pub(crate) use observers::Observers;
#[cfg(feature = "peer")]
pub use peer::PeerHost;
#[cfg(feature = "peer")]
pub use peer_builder::{PeerAddress, PeerAddressError, PeerBuilder};
pub use server::{AllowAll, Authenticator, Kept, LoginReply, ServerHost};
pub use server_builder::{ServerBuilder, StartError, threads};
pub use session_end::{EndCause, SessionEnd};

use std::collections::VecDeque;

use foveate_node::{Link, WorldSeed};
use ring::rand::SecureRandom;

use crate::slots::LinkId;

/// Close codes of refusals start here: the refusal's index in [`Refusal::ALL`](foveate_node::session::Refusal::ALL) is
/// added.
pub const REFUSED: u32 = 256;

/// Events that a host keeps until its program drains them; older ones are dropped.
pub const MAX_HAPPENED: usize = 4_096;

/// Appends an event, and drops the oldest beyond `limit`.
pub(crate) fn remember<T>(happened: &mut VecDeque<T>, item: T, limit: usize) {
    if happened.len() >= limit {
        happened.pop_front();
    }
    happened.push_back(item);
}

/// 128 random bits from the system.
pub(crate) fn secret() -> [u8; 16] {
    let mut bytes = [0; 16];
    // Without randomness from the system QUIC would not have started either.
    ring::rand::SystemRandom::new().fill(&mut bytes).unwrap_or(());
    bytes
}

/// The seed of the rules, which players must not know.
pub(crate) fn secret_seed() -> WorldSeed {
    WorldSeed(secret())
}

/// An endpoint's link as a node's.
pub(crate) fn name(link: LinkId) -> Link {
    Link(link.to_bits())
}

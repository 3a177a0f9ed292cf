//! Nodes as state machines: `handle(now, input)` in, `poll()` out, drained before the next input.
//!
//! A [`Game`] is rules. A [`Simulation`] runs them on the objects that a node owns. A [`Server`] is a simulation
//! with players: they join, resume and leave, give inputs, and are told; a [`Client`] is one of
//! them, and foresees its own avatar. [`session`] is what the two say to each other. Without a server
//! there are [`peer`]s; on many servers there are [`region`]s. All of them are a [`Node`].
//!
//! The very same types run in the lab's virtual network and on sockets. They open no socket, ask for
//! no clock and draw no random number but from a seed.

mod bytes;
pub mod client;
pub mod fuzz;
pub mod game;
mod ids;
pub mod limits;
pub mod link_model;
pub mod lobby;
pub mod node;
pub mod outbox;
pub mod peer;
pub mod persistence;
mod random;
pub mod region;
mod remote_objects;
pub mod server;
pub mod session;
pub mod sessions;
mod simulation;

pub use client::Client;
pub use game::Game;
pub use ids::IdAllocator;
pub use node::{Node, NodeInput};
pub use outbox::{Link, Outbox};
pub use peer::Peer;
pub use persistence::UnixTime;
pub use random::WorldSeed;
pub use region::RegionServer;
pub use remote_objects::RemoteObjects;
pub use server::Server;
pub use sessions::PlayerSessions;
pub use simulation::{MAX_ACTIONS, MAX_INPUTS, MAX_SPAWNS, Simulation};

use foveate_wire::Micros;

/// What a node wants done. Drain it with `poll` after every `handle`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output<To, Happened> {
    /// Send these bytes.
    Transmit(To, Vec<u8>),
    /// Something happened that the game may care for.
    Event(Happened),
    /// Call `handle` again by then, even if nothing arrives.
    WakeAt(Micros),
}

//! Nodes as state machines: `handle(now, input)` in, `poll()` out, drained before the next input.
//!
//! A [`Game`] is a set of rules. A [`Simulation`] runs them on the objects that a node owns. A
//! [`Server`] is a simulation with players, which join, resume and leave, send inputs and receive
//! state. A [`Client`] is one player, and predicts its own avatar. [`session`] holds the messages
//! between the two. A game without a server runs on [`peer`]s, a world on many servers on
//! [`region`]s. All of them are a [`Node`].
//!
//! The same types run in the lab's virtual network and on sockets. They open no socket, read no
//! clock, and take all randomness from a seed.

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

/// What a node asks of its host. Drain it with `poll` after every `handle`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output<To, Happened> {
    /// Send these bytes to this receiver.
    Transmit(To, Vec<u8>),
    /// Report this to the game.
    Event(Happened),
    /// Call `handle` again by then, even if nothing arrives.
    WakeAt(Micros),
}

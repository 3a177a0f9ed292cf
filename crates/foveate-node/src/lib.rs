//! Nodes as state machines: `handle(now, input)` in, `poll()` out, drained before the next input.
//!
//! A [`Game`] is rules. A [`Simulation`] runs them on the objects that a node owns. A [`Server`] is a simulation
//! with players: they join, resume and leave, give inputs, and are told; a [`Client`] is one of
//! them, and foresees its own avatar. [`session`] is what the two say to each other. Without a game
//! there is one link: a [`Source`] tells its observers, a [`Viewer`] is told, and acknowledges.
//! Without a server there are [`peer`]s.
//!
//! The very same types run in the lab's virtual network and on sockets. They open no socket, ask for
//! no clock and draw no random number but from a seed.
//!
//! ```
//! use foveate_node::{Output, Source, SourceInput, Viewer, ViewerInput};
//! use foveate_sync::interest::presets;
//! use foveate_sync::{Observer, Pivots, Rounds};
//! use foveate_wire::{KindId, Micros, ObjectId, OwnerId, Replicate, Schema, Tick};
//! use std::sync::Arc;
//!
//! # mod foveate { pub use foveate_wire as wire; }
//! #[derive(Replicate)]
//! struct Flag { #[replicate(place)] pos: [f32; 2], held: bool }
//!
//! let schema = Arc::new(Schema::new(vec![Flag::spec()])?);
//! let mut source = Source::new(schema.clone(), Rounds::every(Micros::from_millis(50)));
//! let id = ObjectId::new(KindId(0), 0, 1);
//! source.publisher.store.create(id, OwnerId(0), &Flag { pos: [3.0, 4.0], held: true })?;
//! let all = presets::broadcast().build()?;
//! let eyes = foveate_sync::interest::Pivot::looking([0.0; 3], Default::default(), Default::default());
//! source.publisher.add(Observer::new(all, Pivots::Free(vec![eyes]), Tick(0)));
//!
//! let mut viewer = Viewer::new(schema, Tick(0));
//! source.handle(Micros(50_000), SourceInput::Round(Tick(1)));
//! while let Some(Output::Transmit(_, bytes)) = source.poll() {
//!     viewer.handle(Micros(60_000), ViewerInput::Datagram(&bytes));
//! }
//! assert!(viewer.replicas.get(id).unwrap().value::<Flag>().unwrap().held);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
pub mod client;
pub mod game;
mod ids;
pub mod lobby;
pub mod node;
pub mod outbox;
pub mod peer;
pub mod persistence;
mod remote_objects;
pub mod server;
pub mod session;
mod simulation;
mod source;
mod viewer;

pub use client::Client;
pub use game::Game;
pub use ids::IdAllocator;
pub use node::{Node, NodeInput};
pub use outbox::{Link, Outbox};
pub use peer::Peer;
pub use persistence::UnixTime;
pub use remote_objects::RemoteObjects;
pub use server::Server;
pub use simulation::{MAX_ACTIONS, MAX_INPUTS, MAX_SPAWNS, Simulation};
pub use source::{Source, SourceInput};
pub use viewer::{Event, Refused, Viewer, ViewerInput};

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

//! Foveated networking for multiplayer games.
//!
//! What a player looks at is exact; what is far away or behind is looser, within bounds that are
//! stated, enforced and measured. This crate is the façade: it re-exports what a program needs, and
//! has no code of its own.
//!
//! A program implements [`Game`](node::Game) and runs it:
//!
//! | feature | adds | begin with |
//! | --- | --- | --- |
//! | none | objects, policies, scheduler, replicas, and the state machines; no socket, no clock | [`node`], [`sync`] |
//! | `server` | `Server`: a server on QUIC | `Server::bind(game, "127.0.0.1:4433")` |
//! | `client` | `Client`: a player at a server | `Client::connect(game, "play.example.org:4433", "ada", trust)` |
//! | `peer` | `Peer`: a player in a game without a server | `Peer::builder(game, "ada").found("127.0.0.1:0")` |
//! | `web` | browsers at a server | `Server::builder(game).web(address, pages)` |
//! | `storage` | a world and players that outlive a restart | `Server::builder(game).storage("world.db")` |
//!
//! The examples `hello_server`, `hello_client`, `hello_peer` and `hello_policy` are whole programs.
//! Without features the same game runs without IO, in virtual time:
//!
//! ```
//! use foveate::prelude::*;
//!
//! #[derive(Replicate)]
//! struct Walker {
//!     #[replicate(place, motion)]
//!     pos: [f32; 2],
//! }
//!
//! struct Meadow {
//!     schema: Arc<Schema>,
//! }
//!
//! impl Game for Meadow {
//!     type Input = [i8; 2];
//!     type Action = ();
//!     type Event = ();
//!
//!     fn schema(&self) -> &Arc<Schema> {
//!         &self.schema
//!     }
//!
//!     fn welcome(&self, _: &World<'_>, _: PlayerId, _: &str) -> Vec<Spawn> {
//!         Spawn::each(&self.schema, [Walker { pos: [0.0, 0.0] }])
//!     }
//!
//!     fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[[i8; 2]]) {
//!         let Some(mut walker) = turn.get::<Walker>() else { return };
//!         for step in inputs {
//!             walker.pos = [0, 1].map(|axis| walker.pos[axis] + f32::from(step[axis]) / 8.0);
//!         }
//!         turn.set(&walker);
//!     }
//!
//!     fn view(&self, _: u8) -> Option<View> {
//!         Some(presets::circle(60.0))
//!     }
//! }
//!
//! let game = Arc::new(Meadow { schema: Schema::of::<Walker>()? });
//! let mut world = Simulation::new(game, Rounds::every(Micros::from_millis(50)));
//! let ada = PlayerId(1);
//! let avatar = world.spawn(ada, &world.game.welcome(&world.world(), ada, "ada")[0])?;
//! assert_eq!(avatar, world.game.avatar_of(ada));
//! world.input(avatar, [8, 0]);
//! world.step(Tick(1), |_, _| {});
//! world.publisher.round(Tick(1), Micros::from_millis(50), |_, _| {});
//! let (_, walker) = world.world().iter::<Walker>().next().expect("ada walks");
//! assert_eq!(walker.pos, [1.0, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The Rust code of the README and the book, as documentation tests.
#[cfg(all(
    doctest,
    feature = "server",
    feature = "client",
    feature = "peer",
    feature = "web",
    feature = "storage"
))]
mod book;

#[cfg(any(feature = "server", feature = "client", feature = "peer"))]
pub use foveate_io as io;
#[cfg(feature = "client")]
pub use foveate_io::host::ClientHost as Client;
#[cfg(feature = "peer")]
pub use foveate_io::host::PeerHost as Peer;
#[cfg(feature = "server")]
pub use foveate_io::host::ServerHost as Server;
pub use foveate_node as node;
pub use foveate_sync as sync;
pub use foveate_wire as wire;

/// Everything that a game and the program around it need, for a single `use`.
pub mod prelude {
    #[cfg(feature = "client")]
    pub use crate::Client;
    #[cfg(feature = "peer")]
    pub use crate::Peer;
    #[cfg(feature = "server")]
    pub use crate::Server;
    #[cfg(any(feature = "server", feature = "client"))]
    pub use foveate_io::Certificate;
    #[cfg(feature = "peer")]
    pub use foveate_io::host::PeerAddress;
    #[cfg(any(feature = "server", feature = "peer"))]
    pub use foveate_io::host::StartError;
    #[cfg(feature = "server")]
    pub use foveate_io::host::{Accounts, AllowAll, Authenticator, LoginReply};
    #[cfg(feature = "client")]
    pub use foveate_io::host::{ClientError, ClientsHost, EndCause, SessionEnd};
    #[cfg(feature = "peer")]
    pub use foveate_io::keys::KeyPair;
    #[cfg(feature = "web")]
    pub use foveate_io::web::{Observe, Page, WebOptions};
    #[cfg(any(feature = "server", feature = "client"))]
    pub use foveate_io::{CertificateHash, Endpoint, EndpointOptions, ServerAddress, Trust};
    pub use foveate_node::client::{ClientPhase, News};
    pub use foveate_node::game::{
        Brain, EventArea, Game, PlayerId, Requester, Spawn, StepContext, Tenure, World,
    };
    pub use foveate_node::limits::{ActionLimits, ActionSource, StateChange};
    pub use foveate_node::peer::PeerEvent;
    pub use foveate_node::server::{ServerEvent, ServerSettings};
    pub use foveate_node::{Simulation, WorldSeed};
    pub use foveate_sync::interest::{Grade, Pivot, Policy, Sight, View, presets};
    pub use foveate_sync::{Budget, Observer, ObserverId, Pivots, Publisher, Rounds, Slot};
    pub use foveate_wire::{
        Bytes, KindId, List, Metres, Micros, ObjectId, OwnerId, Position, Radians, Replicate,
        Schema, SchemaError, Tick,
    };
    pub use std::sync::Arc;
}

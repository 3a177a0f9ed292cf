//! Foveated networking for multiplayer games.
//!
//! What a player looks at is exact; what is far away or behind is looser, within bounds that are
//! stated, enforced and measured. This crate is the façade: it holds no code of its own.
//!
//! Without features it opens no socket and asks for no clock. With the feature `io` come QUIC endpoints
//! and hosts that run a [`Game`](node::Game) on them: the examples `server` and `client` are a whole game.
//! With `peer` come links between peers and the host of a peer, for games without a server.
//!
//! ```
//! use foveate::prelude::*;
//! use std::sync::Arc;
//!
//! #[derive(Replicate)]
//! #[replicate(max_speed = 8.0)]
//! struct Avatar {
//!     #[replicate(place, motion, precision = 0.02)]
//!     pos: [f32; 3],
//!     #[replicate(yaw)]
//!     yaw: f32,
//!     health: u8,
//! }
//!
//! let schema = Arc::new(Schema::new(vec![Avatar::spec()])?);
//! let mut publisher = Publisher::new(schema.clone(), Rounds::every(Micros::from_millis(50)));
//! let me = ObjectId::new(KindId(0), 0, 1);
//! let avatar = Avatar { pos: [1.0, 2.0, 0.0], yaw: 0.0, health: 100 };
//! let slot = publisher.store.create(me, OwnerId(0), &avatar)?;
//! let view = presets::normal(30.0, 60.0).build()?;
//! let observer = publisher.add(Observer::new(view, Pivots::Object(slot), Tick(0)));
//!
//! let mut packets = Vec::new();
//! publisher.round(Tick(1), Micros(50_000), |to, bytes| packets.push((to, bytes.to_vec())));
//! let mut replicas = foveate::sync::ReplicaSet::new(schema, Tick(0));
//! for (to, bytes) in packets {
//!     assert_eq!(to, observer);
//!     replicas.receive(&bytes, |_| {})?;
//! }
//! assert_eq!(replicas.get(me).unwrap().value::<Avatar>().unwrap().health, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The Rust code of the README and the book, as documentation tests.
#[cfg(all(doctest, feature = "io"))]
mod book {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/FIRST_GAME.md")]
    mod first_game {}
    #[doc = include_str!("../../../docs/VIEWS.md")]
    mod views {}
}

#[cfg(feature = "io")]
pub use foveate_io as io;
pub use foveate_node as node;
pub use foveate_sync as sync;
pub use foveate_wire as wire;

/// What most programs need.
pub mod prelude {
    #[cfg(feature = "peer")]
    pub use foveate_io::host::PeerHost;
    #[cfg(feature = "io")]
    pub use foveate_io::host::{AllowAll, ClientsHost, EndCause, ServerHost, SessionEnd};
    #[cfg(feature = "io")]
    pub use foveate_io::{Certificate, Endpoint, EndpointOptions, ServerAddress, Trust};
    pub use foveate_node::client::ClientPhase;
    pub use foveate_node::game::{EventArea, Game, PlayerId, Requester, Spawn, StepContext, World};
    pub use foveate_node::server::ServerSettings;
    pub use foveate_sync::interest::{Grade, Pivot, Policy, Sight, View, presets};
    pub use foveate_sync::{Budget, Observer, ObserverId, Pivots, Publisher, Rounds, Slot};
    pub use foveate_wire::{
        Bytes, KindId, Metres, Micros, ObjectId, OwnerId, Radians, Replicate, Schema, Tick,
    };
}

//! Foveate for Bevy: players see components that derive `Replicate` as exactly as their views ask
//! for.
//!
//! Register the components with [`replicate`](ReplicateApp::replicate), in the same order at both
//! ends, and add [`ServerPlugin`] or [`ClientPlugin`]. The ECS stays the game: systems of the
//! server write components, systems of the client read them. README.md is the manual.
//!
//! What it refuses to do: it does not rerun systems, so a player's own avatar moves when the server
//! says so; it replicates only from the server to clients; an app is either server or client; it
//! never blocks, so the app keeps its own loop.
//!
//! The path of a datum: a component changes → its lanes are written into the store
//! ([`ServerSystems`]) → a round sends what each player's view makes due → the client applies it →
//! every frame shows it, its place predicted to now ([`ClientSystems`]) → the component of the
//! replica's entity.
//!
//! ```
//! use bevy_app::prelude::*;
//! use bevy_ecs::prelude::*;
//! use foveate_bevy::prelude::*;
//!
//! #[derive(Component, Replicate)]
//! #[replicate(max_speed = 8.0)]
//! struct Walker {
//!     #[replicate(place, motion)]
//!     pos: [f32; 2],
//! }
//!
//! let mut app = App::new();
//! let listen = "127.0.0.1:0".parse()?;
//! app.add_plugins(ServerPlugin::new(listen, presets::circle(50.0))).replicate::<Walker>();
//! app.add_systems(Startup, |mut commands: Commands| {
//!     commands.spawn(Walker { pos: [1.0, 2.0] });
//! });
//! app.update();
//! assert_ne!(app.world().resource::<NetServer>().address()?.port(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod game;
mod input;
mod registry;
mod server;
#[cfg(feature = "transform")]
mod transform;

pub use client::{
    ClientJoined, ClientLeft, ClientPlugin, ClientRefused, ClientSystems, Frozen, NetClient, Own,
    Replica,
};
pub use foveate;
pub use game::MAX_TYPED_MESSAGES;
pub use input::MAX_INPUT;
pub use registry::{
    FromPlayer, InputFrom, MAX_MESSAGE_TYPES, NetInput, PlayerInput, PlayerMessage, ReplicateApp,
    Replicated, ToServer, Together,
};
pub use server::{
    Doorkeeper, NetEyes, NetPlayer, NetServer, PlayerJoined, PlayerLeft, PlayerRefused,
    ServerPlugin, ServerSystems, Team, ViewReferences,
};
#[cfg(feature = "transform")]
pub use transform::{NetTransform, TransformPlugin};

/// What most apps need.
pub mod prelude {
    #[cfg(feature = "transform")]
    pub use crate::transform::NetTransform;
    pub use crate::{
        ClientJoined, ClientLeft, ClientPlugin, ClientRefused, Doorkeeper, FromPlayer, Frozen,
        InputFrom, NetClient, NetEyes, NetInput, NetPlayer, NetServer, Own, PlayerJoined,
        PlayerLeft, PlayerRefused, Replica, ReplicateApp, ServerPlugin, Team, ToServer,
    };
    pub use foveate::io::{ServerAddress, Trust};
    pub use foveate::sync::interest::{View, presets};
    pub use foveate::wire::Replicate;
}

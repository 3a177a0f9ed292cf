//! Peers in the laboratory: network, keys and game.

mod audit;
mod keys;
mod meadow;
mod net;
mod play;

pub use audit::{Census, PeerCoherence};
pub use keys::Keys;
pub use meadow::{BASE, Meadow, MeadowBase, MeadowSpec, SHIP, Ship, Steer};
pub use net::{NetSpec, PeerNet, PlacedPeer};
pub use play::{Mischief, Play};

//! Peers with the usual choices made, and what peers call each other.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;

use foveate_node::WorldSeed;
use foveate_node::game::{Game, GameViews, World};
use foveate_node::peer::{Key, PeerSettings};
use foveate_wire::{Bytes, Metres};

use super::PeerHost;
use super::server_builder::{StartError, resolve, rounds};
use crate::keys::KeyPair;
use crate::peer::{PeerEndpoint, PeerOptions};

/// How far players are taken to see whose view has no end.
const UNBOUNDED_VIEW: Metres = Metres(100.0);
/// Addresses of one peer that are tried.
const MAX_PEER_ADDRESSES: usize = 16;

/// A peer and where it may be reached, as people pass it on: `KEY@ADDRESS`, or `KEY@ADDRESS,ADDRESS`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerAddress {
    /// The peer's public key.
    pub key: Key,
    /// Where it listens; all of them are tried.
    pub addresses: Vec<SocketAddr>,
}

/// A text that is no [`PeerAddress`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "peer {given:?}: expected KEY@ADDRESS: 64 hexadecimal digits, and for example 192.0.2.1:4480"
)]
pub struct PeerAddressError {
    /// The text.
    pub given: String,
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@", self.key)?;
        for (nth, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if nth == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for PeerAddress {
    type Err = PeerAddressError;

    fn from_str(text: &str) -> Result<PeerAddress, PeerAddressError> {
        let parse = || {
            let (key, addresses) = text.trim().split_once('@')?;
            let addresses = addresses.split(',').take(MAX_PEER_ADDRESSES);
            let addresses = addresses.map(str::parse).collect::<Result<_, _>>().ok()?;
            Some(PeerAddress { key: key.parse().ok()?, addresses })
        };
        parse().ok_or_else(|| PeerAddressError { given: text.chars().take(128).collect() })
    }
}

/// Makes a [`PeerHost`]. What is not stated: 20 ticks a second, a new key, no limit on what is sent.
#[must_use = "a peer begins with `found` or `join`"]
pub struct PeerBuilder<G: Game> {
    game: Arc<G>,
    name: String,
    keys: Option<KeyPair>,
    hz: u32,
    uplink: Option<Bytes>,
    seed: Option<WorldSeed>,
    options: PeerOptions,
}

impl<G: Game> PeerBuilder<G> {
    /// The key pair that identifies this player; [`KeyPair::keep`] has the same one in every run.
    pub fn keys(mut self, keys: KeyPair) -> PeerBuilder<G> {
        self.keys = Some(keys);
        self
    }

    /// Ticks a second; the same for all peers of a game.
    pub fn tick_rate(mut self, hz: u32) -> PeerBuilder<G> {
        self.hz = hz;
        self
    }

    /// Bytes a second that may be sent, to all neighbours together.
    pub fn uplink(mut self, per_second: Bytes) -> PeerBuilder<G> {
        self.uplink = Some(per_second);
        self
    }

    /// The RNG seed of the rules that this peer runs. By default the system draws one.
    pub fn seed(mut self, seed: WorldSeed) -> PeerBuilder<G> {
        self.seed = Some(seed);
        self
    }

    /// Limits, timeouts, relay and conditions of links.
    pub fn options(mut self, options: PeerOptions) -> PeerBuilder<G> {
        self.options = options;
        self
    }

    /// Begins a new world, listening there.
    pub fn found(self, address: impl ToSocketAddrs) -> Result<PeerHost<G>, StartError> {
        let mut host = self.start(address)?;
        host.found()?;
        Ok(host)
    }

    /// Joins the world of another peer, listening there. `contact` is what [`PeerHost::address`] of that peer
    /// gives; [`PeerHost::is_stranded`] tells when it does not answer.
    pub fn join(
        self,
        address: impl ToSocketAddrs,
        contact: &str,
    ) -> Result<PeerHost<G>, StartError> {
        let contact: PeerAddress = contact.parse()?;
        let mut host = self.start(address)?;
        host.join([(contact.key, contact.addresses)]);
        Ok(host)
    }

    fn start(self, address: impl ToSocketAddrs) -> Result<PeerHost<G>, StartError> {
        let keys = self.keys.map_or_else(KeyPair::generate, Ok)?;
        let endpoint = PeerEndpoint::bind(&[resolve(address)?], &keys, self.options)?;
        let view = self.game.view(0).map(|view| view.build_in(&GameViews(&*self.game)));
        let reach = view.transpose()?.map_or(UNBOUNDED_VIEW, |policy| policy.reach());
        let reach = if reach.0.is_finite() { reach } else { UNBOUNDED_VIEW };
        let rounds = rounds(self.hz);
        let settings = PeerSettings::new(rounds.length, reach, Vec::new());
        let settings = PeerSettings { uplink: self.uplink, ..settings };
        let mut host = PeerHost::new(self.game, settings, keys, endpoint, &self.name);
        host.peer.simulation.seed = self.seed.unwrap_or(host.peer.simulation.seed);
        Ok(host)
    }
}

impl<G: Game> PeerHost<G> {
    /// A peer of a game without a server. [`found`](PeerBuilder::found) or [`join`](PeerBuilder::join) starts it.
    pub fn builder(game: Arc<G>, name: &str) -> PeerBuilder<G> {
        let (name, options) = (name.into(), PeerOptions::default());
        PeerBuilder { game, name, keys: None, hz: 20, uplink: None, seed: None, options }
    }

    /// What other peers join by.
    pub fn address(&self) -> PeerAddress {
        PeerAddress { key: self.endpoint.key(), addresses: self.endpoint.addresses() }
    }

    /// The world as this peer knows it, at the end of the last tick.
    pub fn world(&self) -> World<'_> {
        self.peer.world()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_peers_are_read_as_they_are_written_and_nothing_else_is() {
        let key = "0123456789abcdef".repeat(4);
        for text in [format!("{key}@192.0.2.1:4480"), format!("{key}@192.0.2.1:1,[::1]:2")] {
            let address: PeerAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        for text in ["", "@", "192.0.2.1:4480", &key, &format!("{key}@"), &format!("{key}@here")] {
            let error = text.parse::<PeerAddress>().unwrap_err();
            assert!(error.to_string().contains("expected KEY@ADDRESS"), "{error}");
        }
    }
}

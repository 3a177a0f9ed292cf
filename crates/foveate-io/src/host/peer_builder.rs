//! Builders for peers with the usual settings, and peers' addresses as text.

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

/// How far a player is assumed to see if its view has no end.
const UNBOUNDED_VIEW: Metres = Metres(100.0);
/// Most addresses of one peer that are tried.
const MAX_PEER_ADDRESSES: usize = 16;

/// A peer's key and addresses, as people pass them on: `KEY@ADDRESS`, or `KEY@ADDRESS,ADDRESS`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerAddress {
    /// The peer's public key.
    pub key: Key,
    /// Where it listens; all are tried.
    pub addresses: Vec<SocketAddr>,
}

/// A text is not a [`PeerAddress`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "peer {given:?}: expected KEY@ADDRESS: 64 hexadecimal digits, and for example 192.0.2.1:4480"
)]
pub struct PeerAddressError {
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

/// Makes a [`PeerHost`]. By default it has 20 ticks a second, a new key, and no limit on what it sends.
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
    /// Sets the key pair that identifies this player; [`KeyPair::keep`] loads the same one in every run.
    pub fn keys(mut self, keys: KeyPair) -> PeerBuilder<G> {
        self.keys = Some(keys);
        self
    }

    /// Sets the ticks per second, which all peers of a game must share.
    pub fn tick_rate(mut self, hz: u32) -> PeerBuilder<G> {
        self.hz = hz;
        self
    }

    /// Sets the limit of bytes per second to all neighbours together.
    pub fn uplink(mut self, per_second: Bytes) -> PeerBuilder<G> {
        self.uplink = Some(per_second);
        self
    }

    /// Sets the RNG seed of the rules that this peer runs. By default it comes from the system.
    pub fn seed(mut self, seed: WorldSeed) -> PeerBuilder<G> {
        self.seed = Some(seed);
        self
    }

    /// Sets limits, timeouts, relay and conditions of links.
    pub fn options(mut self, options: PeerOptions) -> PeerBuilder<G> {
        self.options = options;
        self
    }

    /// Starts a new world, listening at `address`.
    pub fn found(self, address: impl ToSocketAddrs) -> Result<PeerHost<G>, StartError> {
        let mut host = self.start(address)?;
        host.found()?;
        Ok(host)
    }

    /// Joins the world of another peer, listening at `address`. `contact` is that peer's [`PeerHost::address`]; if it
    /// does not answer, [`PeerHost::is_stranded`] becomes true.
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
    /// Configures a peer; [`found`](PeerBuilder::found) or [`join`](PeerBuilder::join) starts it.
    pub fn builder(game: Arc<G>, name: &str) -> PeerBuilder<G> {
        let (name, options) = (name.into(), PeerOptions::default());
        PeerBuilder { game, name, keys: None, hz: 20, uplink: None, seed: None, options }
    }

    /// The address with which other peers join.
    pub fn address(&self) -> PeerAddress {
        PeerAddress { key: self.endpoint.key(), addresses: self.endpoint.addresses() }
    }

    /// The world as this peer knows it after the last tick.
    pub fn world(&self) -> World<'_> {
        self.peer.world()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_peers_are_read_back_and_other_texts_are_rejected() {
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

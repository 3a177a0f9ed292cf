//! Options of an endpoint, with defaults for a game at 20 rounds a second.

use std::time::Duration;

use foveate_node::link_model::LinkSpec;
use foveate_wire::{Bytes, Micros};

use crate::bucket::RateLimit;

/// Smallest UDP payload for `EndpointOptions::packet`: what QUIC needs for a handshake.
pub const MIN_PACKET: Bytes = Bytes(1_200);

/// Most bytes of datagrams that wait, in either direction of a link.
pub(crate) const DATAGRAM_BUFFER: usize = 16 * 1024;

/// The largest message to an operator's page, and how many bytes of messages may wait.
pub const MAX_OBSERVED: Bytes = Bytes(4 * 1024 * 1024);
pub(crate) const MAX_OBSERVED_BACKLOG: Bytes = Bytes(8 * 1024 * 1024);

/// The options of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointOptions {
    pub limits: Limits,
    /// A link that receives nothing for this long is closed.
    pub idle_timeout: Micros,
    /// A silent link sends something this often; `None` leaves that to the layer above. Clients with direct datagrams
    /// always do so every third of `idle_timeout`.
    pub keep_alive: Option<Micros>,
    /// UDP payload that is assumed to fit the path. It falls back to 1200 if it does not.
    pub packet: Bytes,
    /// The time over which the datagrams of one `flush` are spread, at most a large part of a tick; zero sends them at
    /// once.
    pub spread: Micros,
    /// Packets that arrive within this time are received together, which saves wake-ups and delays them by at most this
    /// much. A packet after a pause is received at once, and so is everything that waits when `wait` ends.
    pub gather: Micros,
    /// How late timers of a calm link may fire. QUIC acknowledges after at most 25 ms, in a packet of its own; with a
    /// tick more, acknowledgements are sent with datagrams.
    pub timer_slack: Micros,
    /// The least number of bytes that may be in flight, regardless of losses; see `docs/adr/0008-one-loop-drives-quic.md`.
    pub min_window: Bytes,
    /// How datagrams are sent, if the other side has a choice, too.
    pub datagrams: DatagramPath,
    /// Conditions of every new link.
    pub conditions: Option<LinkConditions>,
    /// RNG seed of the conditioners.
    pub seed: u64,
}

/// How datagrams of native clients travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatagramPath {
    /// In packets beside QUIC, encrypted with keys of the same session, if both ends offer it; otherwise by QUIC. Takes
    /// effect without [`EndpointOptions::spread`].
    Direct,
    /// Within QUIC, or within the link's other carrier.
    Quic,
}

/// Conditions of both directions of a link.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LinkConditions {
    /// For incoming packets.
    pub received: LinkSpec,
    /// For outgoing packets.
    pub sent: LinkSpec,
}

/// Limits. What exceeds them is refused and counted.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most links, including those in a handshake or being closed.
    pub max_links: u32,
    /// How many of them are reserved for newcomers; zero for none. When only those are left, each newcomer replaces the
    /// oldest link that was never sent a datagram, of the address with most of them.
    pub newcomers: u32,
    /// Most links from one address (for IPv6: from one network of 56 bits).
    pub max_links_per_address: u32,
    /// Handshakes from one address.
    pub handshakes_per_address: RateLimit,
    /// An address without the two limits above: a proxy, or this machine.
    pub trusted: Option<std::net::IpAddr>,
    /// From this many handshakes on, newcomers must prove their address first. Until then they do not count for the
    /// address.
    pub retry_above: u32,
    /// Datagrams received per link; excess ones are dropped. Also limits messages: more of them close the link.
    pub datagrams: RateLimit,
    /// Bytes received per link, of datagrams and messages.
    pub bytes: RateLimit,
    /// A link that exceeds its rates by this factor is closed. Only authenticated data of the other side counts.
    pub flood_factor: u32,
    /// The largest message, in both directions.
    pub max_message: Bytes,
    /// Most bytes of messages that wait for the peer to read them.
    pub max_backlog: Bytes,
}

impl Limits {
    /// For a server: many clients, which send little.
    pub fn server() -> Limits {
        Limits {
            max_links: 2_048,
            newcomers: 0,
            max_links_per_address: 32,
            handshakes_per_address: RateLimit { per_second: 8, burst: 32 },
            trusted: None,
            retry_above: 64,
            datagrams: RateLimit::per_second(256),
            bytes: RateLimit::per_second(256 * 1024),
            flood_factor: 8,
            max_message: Bytes(64 * 1024),
            max_backlog: Bytes(256 * 1024),
        }
    }

    /// The same limits with links for this many players and extra places for newcomers, since some players are always
    /// joining or leaving.
    #[must_use]
    pub fn for_players(mut self, players: u32) -> Limits {
        self.newcomers = players / 8 + 64;
        self.max_links = players.saturating_add(self.newcomers);
        self
    }

    /// For a client: one server, which may send a lot.
    pub fn client() -> Limits {
        Limits {
            datagrams: RateLimit::per_second(4_096),
            bytes: RateLimit::per_second(8 * 1024 * 1024),
            ..Limits::server()
        }
    }
}

impl EndpointOptions {
    pub fn server() -> EndpointOptions {
        EndpointOptions {
            limits: Limits::server(),
            idle_timeout: Micros::from_millis(10_000),
            keep_alive: None,
            packet: Bytes(1_280),
            spread: Micros::ZERO,
            // A server reads inputs when its tick begins, so waiting costs nothing until then.
            gather: Micros::from_millis(5),
            timer_slack: Micros::from_millis(30),
            min_window: Bytes(16 * 1024),
            datagrams: DatagramPath::Direct,
            conditions: None,
            seed: 0,
        }
    }

    /// For clients, one or a thousand.
    pub fn client() -> EndpointOptions {
        let gather = Micros::from_millis(1);
        EndpointOptions { limits: Limits::client(), gather, ..EndpointOptions::server() }
    }
}

pub(crate) fn duration(span: Micros) -> Duration {
    Duration::from_micros(span.0)
}

//! What an endpoint may be told, with defaults for a game at 20 rounds a second.

use std::time::Duration;

use foveate_node::link_model::LinkSpec;
use foveate_wire::{Bytes, Micros};

use crate::bucket::RateLimit;

/// Smallest UDP payload that `EndpointOptions::packet` may name: what QUIC needs to shake hands.
pub const MIN_PACKET: Bytes = Bytes(1_200);

/// Bytes of datagrams that wait in either direction of a link at most.
pub(crate) const DATAGRAM_BUFFER: usize = 16 * 1024;

/// The largest message to an operator's page, and how much of them may wait.
pub const MAX_OBSERVED: Bytes = Bytes(4 * 1024 * 1024);
pub(crate) const MAX_OBSERVED_BACKLOG: Bytes = Bytes(8 * 1024 * 1024);

/// How an endpoint behaves.
#[derive(Clone, Debug)]
pub struct EndpointOptions {
    /// What is allowed.
    pub limits: Limits,
    /// A link that hears nothing for so long is closed.
    pub idle_timeout: Micros,
    /// A silent link sends something this often; `None` leaves that to the layer above. Clients with direct
    /// datagrams do so every third of `idle_timeout` in any case.
    pub keep_alive: Option<Micros>,
    /// UDP payload that is taken to fit the path. It falls back to 1200 where it does not.
    pub packet: Bytes,
    /// Datagrams of one `flush` leave spread over this span, at best a large part of a tick; zero
    /// sends them at once.
    pub spread: Micros,
    /// Packets that arrive closer together than this are received together: fewer wakings, for at
    /// most this much delay. A packet that comes after a pause is received at once, and so is
    /// everything that waits when the time given to `wait` is over.
    pub gather: Micros,
    /// How late timers of a calm link may fire. QUIC acknowledges after 25 ms at the latest, with a
    /// packet of its own; with a tick's length on top, acknowledgements travel with datagrams.
    pub timer_slack: Micros,
    /// Bytes that may be under way at least, whatever losses say. See the decision record.
    pub min_window: Bytes,
    /// How datagrams travel where the other side can choose, too.
    pub datagrams: DatagramPath,
    /// Conditions that every new link starts with.
    pub conditions: Option<LinkConditions>,
    /// Seed of the conditioners' chance.
    pub seed: u64,
}

/// How datagrams of native clients travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatagramPath {
    /// As packets beside QUIC, sealed with keys of the same session, if both ends offer it; else by QUIC. Takes
    /// effect without [`EndpointOptions::spread`].
    Direct,
    /// Inside of QUIC, or of whatever else carries the link.
    Quic,
}

/// Conditions for both ways of a link.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LinkConditions {
    /// For what comes in.
    pub received: LinkSpec,
    /// For what goes out.
    pub sent: LinkSpec,
}

/// What is allowed. Beyond it is a refusal and a counter.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Links at once, those in handshake or being closed included.
    pub max_links: u32,
    /// Of them, the places that are reserved for newcomers; zero for none. When only those are left, each
    /// newcomer takes the place of the oldest link that was never sent a datagram, of the address that has
    /// most of them.
    pub newcomers: u32,
    /// Links at once from one address (in IPv6: from one network of 56 bits).
    pub max_links_per_address: u32,
    /// Handshakes from one address.
    pub handshakes_per_address: RateLimit,
    /// An address to which the two limits above do not apply: a proxy, or this machine.
    pub trusted: Option<std::net::IpAddr>,
    /// With so many handshakes going on, newcomers must prove their address first. Until they have, they do not
    /// count for the address.
    pub retry_above: u32,
    /// Datagrams received per link; what is beyond is dropped. Also messages: more of them close the link.
    pub datagrams: RateLimit,
    /// Bytes received per link, of datagrams and messages.
    pub bytes: RateLimit,
    /// A link that goes this many times beyond its rates is closed. Only what the other side of the link is
    /// known to have sent counts.
    pub flood_factor: u32,
    /// The largest message, in both directions.
    pub max_message: Bytes,
    /// Messages that wait for the peer to read them.
    pub max_backlog: Bytes,
}

impl Limits {
    /// For a server: clients are many and send little.
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

    /// The same with links for so many players and, beside them, places for newcomers: some are always coming or
    /// going.
    #[must_use]
    pub fn for_players(mut self, players: u32) -> Limits {
        self.newcomers = players / 8 + 64;
        self.max_links = players.saturating_add(self.newcomers);
        self
    }

    /// For a client: there is one server, which may send a lot.
    pub fn client() -> Limits {
        Limits {
            datagrams: RateLimit::per_second(4_096),
            bytes: RateLimit::per_second(8 * 1024 * 1024),
            ..Limits::server()
        }
    }
}

impl EndpointOptions {
    /// For a server.
    pub fn server() -> EndpointOptions {
        EndpointOptions {
            limits: Limits::server(),
            idle_timeout: Micros::from_millis(10_000),
            keep_alive: None,
            packet: Bytes(1_280),
            spread: Micros::ZERO,
            // A server looks at inputs when its tick begins; waiting is free until then.
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

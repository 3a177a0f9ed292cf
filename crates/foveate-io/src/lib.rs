//! Real sockets and clocks: many QUIC links, driven from one loop.
//!
//! An [`Endpoint`] is a UDP socket with its links, for a server or for a thousand clients in one process. It is
//! single-threaded and synchronous: the caller waits, gets events, hands over what is to be sent, and flushes. A link
//! carries unreliable *datagrams* and reliable, ordered *messages*; it can be metered, and put under bad
//! [`LinkConditions`] while it runs.
//!
//! Peers have another kind of links, dialled by key: `peer` (feature `peer`); [`keys`] are what they prove their
//! identity and sign with.
//!
//! Region servers, which share one world, are hosted by [`region`].
//!
//! Beside links: [`token`] proves which player connects, [`lobby`] lists games without a server, `storage` (feature
//! `sqlite`) keeps what must survive a restart, and [`metrics`] publishes a server's state. The latter two have their
//! own threads.
//!
//! What an endpoint refuses to do: it starts no thread and needs no async runtime; it knows nothing of games, rounds or
//! observers; it does not decide what is sent, only when within a tick; it sends no datagram twice; it never grows
//! beyond its [`Limits`]: what exceeds them is dropped or closed, and counted in [`EndpointCounters`].
//!
//! Datagrams of native clients are sent beside QUIC if both ends offer it (`direct/mod.rs`). The following is the path
//! of the others.
//!
//! The path of a datum: `send_datagram` copies it into shared memory and queues it in the link's QUIC connection.
//! `flush` (at once, or spread over the tick) makes the connection write a packet, which also carries acknowledgements.
//! A conditioner may delay or lose it. A batch of packets leaves with one system call. At the other end a batch is
//! received with one call; each packet is routed by its connection id, delayed by a conditioner if there is one,
//! deciphered, checked against the link's rate, and becomes a [`LinkEvent`].
//!
//! A message is its length in four bytes, least significant first, and its bytes, on the link's single bidirectional
//! stream. The client opens the stream with an empty message, which is not delivered.
//!
//! ```
//! use foveate_io::{Certificate, Endpoint, LinkEvent, EndpointOptions, Trust};
//! use foveate_wire::Micros;
//! use std::time::{Duration, Instant};
//!
//! let here = "127.0.0.1:0".parse()?;
//! let mut server = Endpoint::server(here, Certificate::development(), EndpointOptions::server())?;
//! let trust = Trust::Pinned(server.certificate_hash().into_iter().collect());
//! let mut client = Endpoint::client(here, &trust, EndpointOptions::client())?;
//! client.connect(server.address()?, "localhost")?;
//!
//! let (mut events, mut heard) = (Vec::new(), false);
//! let deadline = Instant::now() + Duration::from_secs(20);
//! while !heard && Instant::now() < deadline {
//!     client.wait(Instant::now() + Duration::from_millis(1), &mut events)?;
//!     for event in events.drain(..) {
//!         if let LinkEvent::Connected { link, .. } = event {
//!             client.send_datagram(link, b"hello")?;
//!         }
//!     }
//!     server.wait(Instant::now() + Duration::from_millis(1), &mut events)?;
//!     heard |= events.drain(..).any(|event| matches!(event, LinkEvent::Datagram { .. }));
//! }
//! assert!(heard);
//! server.shutdown(Micros::from_millis(10), &mut events)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The code in the book.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/TRANSPORTS.md")]
    mod transports {}
}

mod admission;
mod bucket;
mod conditioner;
mod direct;
mod endpoint;
mod error;
mod event;
pub mod fuzz;
pub mod host;
mod identity;
pub mod keys;
mod link;
mod link_endpoint;
pub mod lobby;
pub mod memory;
mod messages;
mod meter;
pub mod metrics;
mod options;
#[cfg(feature = "peer")]
pub mod peer;
pub mod region;
mod server_address;
mod slots;
mod socket;
mod stagger;
#[cfg(feature = "sqlite")]
pub mod storage;
mod time;
mod timers;
pub mod token;
mod transport;
#[cfg(feature = "web")]
pub mod web;

pub use admission::MAX_ADDRESSES;
pub use bucket::RateLimit;
pub use conditioner::{Conditioner, MAX_HELD};
pub use direct::MAX_SUSPECTS;
pub use endpoint::Endpoint;
pub use error::Error;
pub use event::{CloseCode, LinkEvent, Purpose, Reason, Transport, Unreachable};
pub use identity::{
    Certificate, CertificateHash, CertificateHashError, Identity, PROTOCOL, RENEWED_BEFORE, Trust,
    VALID_FOR,
};
pub use link_endpoint::{DialAddress, LinkEndpoint};
pub use meter::{EndpointCounters, LinkMeter, LinkTraffic};
pub use options::{
    DatagramPath, EndpointOptions, Limits, LinkConditions, MAX_OBSERVED, MIN_PACKET,
};
pub use server_address::{ServerAddress, ServerAddressError};
pub use slots::LinkId;
pub use socket::SOCKET_BUFFER;
pub use time::{UnixTime, unix_now};

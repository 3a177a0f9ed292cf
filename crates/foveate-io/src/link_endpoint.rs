//! What a [`Driver`](crate::host::Driver) needs of a transport: the one seam between nodes and networks.
//!
//! Every transport implements [`LinkEndpoint`]: QUIC, WebTransport and WebSocket together in
//! [`Endpoint`](crate::Endpoint), iroh in `PeerEndpoint`, memory in
//! [`MemoryEndpoint`](crate::memory::MemoryEndpoint). Hosts are generic over it, so a further transport is one
//! file; `docs/TRANSPORTS.md` adds one.

use std::net::SocketAddr;
use std::time::Instant;

use foveate_wire::Micros;

use crate::error::Error;
use crate::event::{CloseCode, LinkEvent};
use crate::identity::CertificateHash;
use crate::meter::LinkMeter;
use crate::slots::LinkId;

/// Links that carry datagrams and messages, and report what arrives as [`LinkEvent`]s.
pub trait LinkEndpoint {
    /// Waits until there are events or the time is over, and appends the events. A time that has passed
    /// takes in what waits, and returns.
    fn wait(&mut self, until: Instant, events: &mut Vec<LinkEvent>) -> Result<(), Error>;

    /// Sends once, unordered, and never again.
    fn send_datagram(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error>;

    /// Sends reliably and in order. Empty messages are not delivered.
    fn send_message(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error>;

    /// Closes a link; [`LinkEvent::Closed`] follows. A stale id does nothing.
    fn close(&mut self, link: LinkId, code: CloseCode, reason: &str);

    /// Transmits what was handed in, where a transport does not do so at once.
    fn flush(&mut self) {}

    /// What passed over a link so far; none if the transport does not measure.
    fn meter(&self, _link: LinkId) -> Option<LinkMeter> {
        None
    }

    /// Delivers messages and closes all links within `limit`. Returns the number of links that were not
    /// done by then. A transport that delivers at once, and whose links end when it is dropped, has
    /// nothing to do.
    fn shutdown(&mut self, _: Micros, _: &mut Vec<LinkEvent>) -> Result<usize, Error> {
        Ok(0)
    }
}

/// An endpoint that connects to servers by address.
pub trait DialAddress: LinkEndpoint {
    /// Begins to connect; [`LinkEvent::Connected`] or [`LinkEvent::Closed`] follows. `name` is the host that
    /// the server's certificate must be for, where the transport has certificates.
    fn connect(&mut self, address: SocketAddr, name: &str) -> Result<LinkId, Error>;

    /// The same for a server with this certificate, whatever else is trusted. A transport without certificates
    /// connects.
    fn connect_pinned(
        &mut self,
        address: SocketAddr,
        name: &str,
        _certificate: CertificateHash,
    ) -> Result<LinkId, Error> {
        self.connect(address, name)
    }
}

/// Implements the seam for a type whose methods of the same names do it.
macro_rules! link_endpoint {
    ($type:ty $(, $flush:ident)?) => {
        impl LinkEndpoint for $type {
            fn wait(&mut self, until: Instant, events: &mut Vec<LinkEvent>) -> Result<(), Error> {
                <$type>::wait(self, until, events)
            }

            fn send_datagram(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
                <$type>::send_datagram(self, link, bytes)
            }

            fn send_message(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
                <$type>::send_message(self, link, bytes)
            }

            fn close(&mut self, link: LinkId, code: CloseCode, reason: &str) {
                <$type>::close(self, link, code, reason);
            }
            $(
                fn $flush(&mut self) {
                    <$type>::$flush(self);
                }
            )?
            fn meter(&self, link: LinkId) -> Option<LinkMeter> {
                <$type>::meter(self, link)
            }

            fn shutdown(
                &mut self,
                limit: Micros,
                events: &mut Vec<LinkEvent>,
            ) -> Result<usize, Error> {
                <$type>::shutdown(self, limit, events)
            }
        }
    };
}

link_endpoint!(crate::Endpoint, flush);
#[cfg(feature = "peer")]
link_endpoint!(crate::peer::PeerEndpoint);

impl DialAddress for crate::Endpoint {
    fn connect(&mut self, address: SocketAddr, name: &str) -> Result<LinkId, Error> {
        crate::Endpoint::connect(self, address, name)
    }

    fn connect_pinned(
        &mut self,
        address: SocketAddr,
        name: &str,
        certificate: CertificateHash,
    ) -> Result<LinkId, Error> {
        crate::Endpoint::connect_pinned(self, address, name, certificate)
    }
}

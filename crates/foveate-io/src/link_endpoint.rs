//! The interface between a [`Driver`](crate::host::Driver) and a transport.
//!
//! Every transport implements [`LinkEndpoint`]: QUIC, WebTransport and WebSocket together in
//! [`Endpoint`](crate::Endpoint), iroh in `PeerEndpoint`, memory in [`MemoryEndpoint`](crate::memory::MemoryEndpoint).
//! Hosts are generic over it, so adding a transport takes one file; `docs/TRANSPORTS.md` shows how.

use std::net::SocketAddr;
use std::time::Instant;

use foveate_wire::Micros;

use crate::error::Error;
use crate::event::{CloseCode, LinkEvent};
use crate::identity::CertificateHash;
use crate::meter::LinkMeter;
use crate::slots::LinkId;

/// A set of links that carry datagrams and messages, and report what arrives as [`LinkEvent`]s.
pub trait LinkEndpoint {
    /// Waits until there are events or `until` has passed, and appends the events. With a time in the past, it reads
    /// what has arrived and returns.
    fn wait(&mut self, until: Instant, events: &mut Vec<LinkEvent>) -> Result<(), Error>;

    /// Sends a datagram once, unordered.
    fn send_datagram(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error>;

    /// Sends a message reliably and in order. Empty messages are not delivered.
    fn send_message(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error>;

    /// Closes a link; [`LinkEvent::Closed`] follows. An expired id does nothing.
    fn close(&mut self, link: LinkId, code: CloseCode, reason: &str);

    /// Transmits what was handed over, if the transport does not do that at once.
    fn flush(&mut self) {}

    /// Traffic of a link so far; `None` if the transport does not measure.
    fn meter(&self, _link: LinkId) -> Option<LinkMeter> {
        None
    }

    /// Delivers messages and closes all links within `limit`. Returns the number of links that were not done by then. A
    /// transport that delivers at once, and whose links end when it is dropped, need not do anything.
    fn shutdown(&mut self, _: Micros, _: &mut Vec<LinkEvent>) -> Result<usize, Error> {
        Ok(0)
    }
}

/// An endpoint that connects to servers by address.
pub trait DialAddress: LinkEndpoint {
    /// Starts to connect; [`LinkEvent::Connected`] or [`LinkEvent::Closed`] follows. `name` is the host that the
    /// server's certificate must be for, if the transport has certificates.
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

/// Implements [`LinkEndpoint`] for a type with methods of the same names.
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

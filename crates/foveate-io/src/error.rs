//! The one error of this crate.

use std::net::SocketAddr;
use std::path::PathBuf;

use foveate_wire::Bytes;

/// What went wrong, and what is left of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No socket was opened.
    #[error("cannot open a UDP socket on {address}: {cause}")]
    Bind {
        /// Where it should have listened.
        address: SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Nothing listens for requests about metrics.
    #[error("cannot serve metrics on {address}: {cause}")]
    Listen {
        /// Where it should have listened.
        address: SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Nothing listens for browsers.
    #[error("cannot serve pages on {address}: {cause}")]
    ListenWeb {
        /// Where it should have listened.
        address: SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The socket failed while waiting or receiving. Links are as they were; waiting may be tried again.
    #[error("the UDP socket failed: {0}")]
    Socket(#[from] std::io::Error),
    /// A certificate, key or root file cannot be used. Nothing was changed.
    #[error("{file}: {what}", file = file.display())]
    File {
        /// The file as it was named.
        file: PathBuf,
        /// What was expected, and what was there instead.
        what: String,
    },
    /// No certificate could be made, or the given one does not fit its key.
    #[error("certificate: {0}")]
    Certificate(String),
    /// The system has no usable root certificates.
    #[error("no root certificates found on this system: {0}")]
    NoRoots(String),
    /// The options contradict each other or a limit of QUIC.
    #[error("option {name}: {what}")]
    Option {
        /// The field.
        name: &'static str,
        /// What was expected.
        what: String,
    },
    /// An endpoint that only listens was asked to connect. Nothing was sent.
    #[error("this endpoint only listens; open a client endpoint to connect")]
    OnlyListens,
    /// The connection was not begun.
    #[error("cannot connect to {address}: {what}")]
    Connect {
        /// The server's address.
        address: SocketAddr,
        /// Why not.
        what: String,
    },
    /// The peer was not dialled.
    #[error("cannot connect to peer {peer:?}: {what}")]
    Peer {
        /// Its key.
        peer: foveate_node::peer::Key,
        /// Why not.
        what: String,
    },
    /// All places for links are taken; retry when one was closed.
    #[error("all {limit} links are in use")]
    Full {
        /// The option `max_links`.
        limit: u32,
    },
    /// The link was closed, or never existed. Nothing was sent.
    #[error("the link is closed")]
    Closed,
    /// The handshake is still going on; retry after `LinkEvent::Connected`.
    #[error("the link is not connected yet")]
    NotConnected,
    /// The datagram does not fit into one UDP packet of this path. Nothing was sent.
    #[error("a datagram of {size:?} does not fit; this path carries at most {limit:?}")]
    DatagramTooLarge {
        /// What was given.
        size: Bytes,
        /// What fits.
        limit: Bytes,
    },
    /// The message exceeds `Limits::max_message`. Nothing was sent.
    #[error("a message of {size:?} exceeds the limit of {limit:?}")]
    MessageTooLarge {
        /// What was given.
        size: Bytes,
        /// The option.
        limit: Bytes,
    },
    /// The peer reads too slowly; retry later, or close the link. Nothing of this message was sent.
    #[error("messages of {waiting:?} wait already; the limit is {limit:?}")]
    BacklogFull {
        /// What waits.
        waiting: Bytes,
        /// The option.
        limit: Bytes,
    },
}

impl Error {
    /// Whether the same call may succeed later without any change by the caller.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Full { .. } | Self::NotConnected | Self::BacklogFull { .. } | Self::Socket(_)
        )
    }
}

//! The error type of this crate.

use std::net::SocketAddr;
use std::path::PathBuf;

use foveate_wire::Bytes;

/// What failed, and which state is left.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No socket was opened.
    #[error("cannot open a UDP socket on {address}: {cause}")]
    Bind { address: SocketAddr, cause: std::io::Error },
    /// The listener for metrics was not opened.
    #[error("cannot serve metrics on {address}: {cause}")]
    Listen { address: SocketAddr, cause: std::io::Error },
    /// The listener for browsers was not opened.
    #[error("cannot serve pages on {address}: {cause}")]
    ListenWeb { address: SocketAddr, cause: std::io::Error },
    /// The socket failed while waiting or receiving. Links are unchanged; waiting can be retried.
    #[error("the UDP socket failed: {0}")]
    Socket(#[from] std::io::Error),
    /// A certificate, key or root file cannot be used. Nothing was changed.
    #[error("{file}: {what}", file = file.display())]
    File {
        /// The file, as given.
        file: PathBuf,
        /// What was expected, and what was found.
        what: String,
    },
    /// No certificate could be made, or the given one does not match its key.
    #[error("certificate: {0}")]
    Certificate(String),
    /// The system has no usable root certificates.
    #[error("no root certificates found on this system: {0}")]
    NoRoots(String),
    /// Options contradict each other, or exceed a limit of QUIC.
    #[error("option {name}: {what}")]
    Option {
        /// The field.
        name: &'static str,
        what: String,
    },
    /// An endpoint that only listens was asked to connect.
    #[error("this endpoint only listens; open a client endpoint to connect")]
    OnlyListens,
    /// The connection was not started.
    #[error("cannot connect to {address}: {what}")]
    Connect {
        /// The server's address.
        address: SocketAddr,
        what: String,
    },
    /// The connection to a peer was not started.
    #[error("cannot connect to peer {peer:?}: {what}")]
    Peer { peer: foveate_node::peer::Key, what: String },
    /// All links are in use; retry when one has been closed.
    #[error("all {limit} links are in use")]
    Full {
        /// The option `max_links`.
        limit: u32,
    },
    /// The link was closed, or never existed. Nothing was sent.
    #[error("the link is closed")]
    Closed,
    /// The handshake is not complete; retry after `LinkEvent::Connected`.
    #[error("the link is not connected yet")]
    NotConnected,
    /// The datagram does not fit one UDP packet on this path. Nothing was sent.
    #[error("a datagram of {size:?} does not fit; this path carries at most {limit:?}")]
    DatagramTooLarge {
        /// The datagram's size.
        size: Bytes,
        /// The largest size.
        limit: Bytes,
    },
    /// The message exceeds `Limits::max_message`. Nothing was sent.
    #[error("a message of {size:?} exceeds the limit of {limit:?}")]
    MessageTooLarge {
        /// The message's size.
        size: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// The peer reads too slowly; retry later, or close the link. Nothing of this message was sent.
    #[error("messages of {waiting:?} wait already; the limit is {limit:?}")]
    BacklogFull {
        /// Bytes that wait.
        waiting: Bytes,
        /// The limit.
        limit: Bytes,
    },
}

impl Error {
    /// Whether the same call may succeed later without a change by the caller.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Full { .. } | Self::NotConnected | Self::BacklogFull { .. } | Self::Socket(_)
        )
    }
}

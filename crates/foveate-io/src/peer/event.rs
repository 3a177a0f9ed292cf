//! What a peer's endpoint reports.

use std::net::SocketAddr;

use foveate_node::peer::Key;
use iroh::endpoint::{ConnectingError, ConnectionError, TransportErrorCode};

use crate::event::{CloseCode, Reason};
use crate::slots::LinkId;

impl CloseCode {
    /// There are enough links between the same two peers.
    pub const ENOUGH: CloseCode = CloseCode(4);
}

/// Something happened to a link between peers.
///
/// Of each link `Connected` comes first and `Closed` last, each once. A link that was begun by
/// `connect` may be closed without having been connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerEvent {
    /// The other side has proved its key; both sides may send.
    Connected {
        /// Which.
        link: LinkId,
        /// Who: whoever has this key's secret, and nobody else.
        peer: Key,
        /// Where it is; none if it is reached through a relay.
        address: Option<SocketAddr>,
        /// Whether this side began the link.
        dialled: bool,
    },
    /// A datagram came.
    Datagram {
        /// On which link.
        link: LinkId,
        /// The datagram.
        bytes: bytes::Bytes,
    },
    /// A whole message came, after all that were sent before it.
    Message {
        /// On which link.
        link: LinkId,
        /// The message.
        bytes: bytes::Bytes,
    },
    /// It is over; the id names nothing any more.
    Closed {
        /// Which.
        link: LinkId,
        /// Why.
        reason: Reason,
    },
}

impl From<ConnectionError> for Reason {
    fn from(error: ConnectionError) -> Reason {
        match error {
            ConnectionError::ApplicationClosed(close) => Reason::Peer {
                code: CloseCode(u32::try_from(close.error_code.into_inner()).unwrap_or(u32::MAX)),
                reason: String::from_utf8_lossy(&close.reason).into_owned(),
            },
            ConnectionError::ConnectionClosed(close)
                if close.error_code == TransportErrorCode::CONNECTION_REFUSED =>
            {
                Reason::Refused
            }
            ConnectionError::TimedOut => Reason::Idle,
            ConnectionError::Reset => Reason::Reset,
            other => Reason::Failed(other.to_string()),
        }
    }
}

/// Why a handshake failed.
pub(super) fn undone(error: ConnectingError) -> Reason {
    match error {
        ConnectingError::ConnectionError { source, .. } => source.into(),
        other => Reason::Failed(other.to_string()),
    }
}

//! What an endpoint reports.

use std::io::ErrorKind;
use std::net::SocketAddr;

use foveate_node::Link;
use foveate_node::node::{NodeInput, Remote};
use foveate_wire::Bytes;
use quinn_proto::{ConnectionError, TransportErrorCode};

use crate::options::{Limits, MAX_OBSERVED, MAX_OBSERVED_BACKLOG};
use crate::slots::LinkId;

/// Something happened to a link.
///
/// Of each link `Connected` comes first and `Closed` last, each once. A link that was begun by
/// `connect` may be closed without having been connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// The handshake is over; both sides may send.
    Connected {
        /// Which.
        link: LinkId,
        /// The other side's; none if it is reached through a relay.
        address: Option<SocketAddr>,
        /// What the handshake has proven about the other side.
        remote: Remote,
        /// What it is for.
        purpose: Purpose,
    },
    /// A datagram came.
    Datagram {
        /// On which link.
        link: LinkId,
        /// It shares memory with others: copy what is to be kept for long.
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

impl LinkEvent {
    /// A link of players whose other end has proved nothing, as a transport without certificates reports it.
    pub fn anonymous(link: LinkId, address: Option<SocketAddr>) -> LinkEvent {
        let (remote, purpose) = (Remote::Anonymous, Purpose::Play);
        LinkEvent::Connected { link, address, remote, purpose }
    }

    /// A datagram that came. Copies its bytes.
    pub fn datagram(link: LinkId, bytes: &[u8]) -> LinkEvent {
        LinkEvent::Datagram { link, bytes: bytes::Bytes::copy_from_slice(bytes) }
    }

    /// A message that came. Copies its bytes.
    pub fn message(link: LinkId, bytes: &[u8]) -> LinkEvent {
        LinkEvent::Message { link, bytes: bytes::Bytes::copy_from_slice(bytes) }
    }

    /// The other end closed the link.
    pub fn closed_by_peer(link: LinkId, code: CloseCode, reason: &str) -> LinkEvent {
        LinkEvent::Closed { link, reason: Reason::Peer { code, reason: reason.to_owned() } }
    }

    /// The link that it happened to.
    pub fn link(&self) -> LinkId {
        let (LinkEvent::Connected { link, .. }
        | LinkEvent::Datagram { link, .. }
        | LinkEvent::Message { link, .. }
        | LinkEvent::Closed { link, .. }) = self;
        *link
    }

    /// What it is to a node.
    pub fn input<C>(&self) -> NodeInput<'_, C> {
        let link = Link(self.link().to_bits());
        match self {
            LinkEvent::Connected { remote, .. } => NodeInput::Connected(link, *remote),
            LinkEvent::Datagram { bytes, .. } => NodeInput::Datagram(link, bytes),
            LinkEvent::Message { bytes, .. } => NodeInput::Message(link, bytes),
            LinkEvent::Closed { .. } => NodeInput::Closed(link),
        }
    }
}

/// What a link's bytes travel by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Transport {
    /// QUIC, from a program.
    Quic,
    /// WebTransport, from a page.
    WebTransport,
    /// WebSocket, from a page where UDP does not get through.
    WebSocket,
}

impl Transport {
    /// As metrics and pages call it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Quic => "quic",
            Transport::WebTransport => "webtransport",
            Transport::WebSocket => "websocket",
        }
    }
}

/// What a link is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Purpose {
    /// A player's.
    Play,
    /// An operator that observes from a web page. Carries messages only.
    Observe,
}

impl Purpose {
    /// The largest message that may be sent, and how much of them may wait.
    pub(crate) fn message_limits(self, limits: &Limits) -> (Bytes, Bytes) {
        match self {
            Purpose::Play => (limits.max_message, limits.max_backlog),
            Purpose::Observe => (MAX_OBSERVED, MAX_OBSERVED_BACKLOG),
        }
    }
}

/// Why a link was closed, as a number for programs. Those below 256 are this crate's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CloseCode(pub u32);

impl CloseCode {
    /// All is well.
    pub const DONE: CloseCode = CloseCode(0);
    /// The endpoint shuts down.
    pub const SHUTDOWN: CloseCode = CloseCode(1);
    /// Too much was sent for too long.
    pub const FLOOD: CloseCode = CloseCode(2);
    /// A message exceeds the limit.
    pub const MESSAGE_TOO_LARGE: CloseCode = CloseCode(3);
    /// Bytes came that are against the rules of WebSocket or HTTP/3.
    pub const MALFORMED: CloseCode = CloseCode(4);
    /// There are enough links between the same two peers, or from one address.
    pub const ENOUGH: CloseCode = CloseCode(5);
    /// Places were short, and this link had not joined.
    pub const CROWDED: CloseCode = CloseCode(6);
}

/// Why a link was closed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reason {
    /// By this side.
    #[error("closed here: {reason} ({})", code.0)]
    Here {
        /// The number given.
        code: CloseCode,
        /// The words given.
        reason: String,
    },
    /// By the other side.
    #[error("closed by the peer: {reason} ({})", code.0)]
    Peer {
        /// The number given.
        code: CloseCode,
        /// The words given, as far as they are text.
        reason: String,
    },
    /// Nothing was heard for longer than the idle timeout.
    #[error("timed out: no packet arrived within the idle timeout")]
    Idle,
    /// The server takes no further link, in all or from this address.
    #[error("refused: the server is full, or has too many links from this address")]
    Refused,
    /// The other side knows nothing of this link, for example because it was started again.
    #[error("reset by the peer, which may have restarted")]
    Reset,
    /// The network says that packets cannot reach the address; nothing waits for a timeout.
    #[error("{0}")]
    Unreachable(Unreachable),
    /// The server's certificate is not one that the client trusts: another name, authority, date or hash.
    #[error("the server's certificate is not trusted: {0}")]
    Untrusted(String),
    /// The two do not understand each other.
    #[error("failed: {0}")]
    Failed(String),
}

/// Why packets do not reach an address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Unreachable {
    /// The host answers that nothing listens at the port.
    #[error("connection refused: no server listens at this port")]
    Port,
    /// There is no route to the host or its network.
    #[error("unreachable: there is no route to the host")]
    Host,
}

impl Unreachable {
    /// What the system's error says, if it is about the way to an address.
    pub(crate) fn from_error(error: &std::io::Error) -> Option<Unreachable> {
        match error.kind() {
            ErrorKind::ConnectionRefused => Some(Unreachable::Port),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Some(Unreachable::Host),
            _ => None,
        }
    }
}

/// Alerts of TLS that are about a certificate: from `bad_certificate` to `access_denied`.
const CERTIFICATE_ALERTS: std::ops::RangeInclusive<u64> = 42..=49;
/// QUIC puts alerts of TLS here.
const CRYPTO_ERROR: u64 = 0x100;

impl From<ConnectionError> for Reason {
    fn from(error: ConnectionError) -> Self {
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
            // Found out by this side: only a client looks at certificates.
            ConnectionError::TransportError(error)
                if u64::from(error.code)
                    .checked_sub(CRYPTO_ERROR)
                    .is_some_and(|alert| CERTIFICATE_ALERTS.contains(&alert)) =>
            {
                Reason::Untrusted(error.reason)
            }
            ConnectionError::TimedOut => Reason::Idle,
            ConnectionError::Reset => Reason::Reset,
            other => Reason::Failed(other.to_string()),
        }
    }
}

//! Events of an endpoint.

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
/// For each link `Connected` comes first and `Closed` last, each once. A link that was started by `connect` may be
/// closed without having been connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// The handshake is complete; both sides may send.
    Connected {
        link: LinkId,
        /// The other side's address; `None` if it is reached through a relay.
        address: Option<SocketAddr>,
        /// What the handshake proved about the other side.
        remote: Remote,
        purpose: Purpose,
    },
    /// A datagram arrived.
    Datagram {
        link: LinkId,
        /// The bytes share memory with others: copy them to keep them for long.
        bytes: bytes::Bytes,
    },
    /// A whole message arrived, in order.
    Message { link: LinkId, bytes: bytes::Bytes },
    /// The link ended; its id has expired.
    Closed { link: LinkId, reason: Reason },
}

impl LinkEvent {
    /// A connected link of a player whose other end proved nothing, for transports without certificates.
    pub fn anonymous(link: LinkId, address: Option<SocketAddr>) -> LinkEvent {
        let (remote, purpose) = (Remote::Anonymous, Purpose::Play);
        LinkEvent::Connected { link, address, remote, purpose }
    }

    /// A datagram that arrived; copies its bytes.
    pub fn datagram(link: LinkId, bytes: &[u8]) -> LinkEvent {
        LinkEvent::Datagram { link, bytes: bytes::Bytes::copy_from_slice(bytes) }
    }

    /// A message that arrived; copies its bytes.
    pub fn message(link: LinkId, bytes: &[u8]) -> LinkEvent {
        LinkEvent::Message { link, bytes: bytes::Bytes::copy_from_slice(bytes) }
    }

    /// The other end closed the link.
    pub fn closed_by_peer(link: LinkId, code: CloseCode, reason: &str) -> LinkEvent {
        LinkEvent::Closed { link, reason: Reason::Peer { code, reason: reason.to_owned() } }
    }

    /// The link of this event.
    pub fn link(&self) -> LinkId {
        let (LinkEvent::Connected { link, .. }
        | LinkEvent::Datagram { link, .. }
        | LinkEvent::Message { link, .. }
        | LinkEvent::Closed { link, .. }) = self;
        *link
    }

    /// The event as a node's input.
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
    /// QUIC, from a native program.
    Quic,
    /// WebTransport, from a page.
    WebTransport,
    /// WebSocket, from a page, where UDP is blocked.
    WebSocket,
}

impl Transport {
    /// The name in metrics and on pages.
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
    /// For a player.
    Play,
    /// For an operator that observes from a web page. It carries messages only.
    Observe,
}

impl Purpose {
    /// The largest message that may be sent, and how many bytes of messages may wait.
    pub(crate) fn message_limits(self, limits: &Limits) -> (Bytes, Bytes) {
        match self {
            Purpose::Play => (limits.max_message, limits.max_backlog),
            Purpose::Observe => (MAX_OBSERVED, MAX_OBSERVED_BACKLOG),
        }
    }
}

/// Why a link was closed, as a number for programs. Codes below 256 are defined by this crate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CloseCode(pub u32);

impl CloseCode {
    /// There was no error.
    pub const DONE: CloseCode = CloseCode(0);
    /// The endpoint shuts down.
    pub const SHUTDOWN: CloseCode = CloseCode(1);
    /// The other side sent too much for too long.
    pub const FLOOD: CloseCode = CloseCode(2);
    /// A message exceeded the limit.
    pub const MESSAGE_TOO_LARGE: CloseCode = CloseCode(3);
    /// The other side violated WebSocket or HTTP/3.
    pub const MALFORMED: CloseCode = CloseCode(4);
    /// There are enough links between these two peers, or from one address.
    pub const ENOUGH: CloseCode = CloseCode(5);
    /// Places were scarce, and this link had not joined.
    pub const CROWDED: CloseCode = CloseCode(6);
}

/// Why a link was closed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reason {
    /// This side closed it.
    #[error("closed here: {reason} ({})", code.0)]
    Here {
        /// The code given.
        code: CloseCode,
        /// The text given.
        reason: String,
    },
    /// The other side closed it.
    #[error("closed by the peer: {reason} ({})", code.0)]
    Peer {
        /// The code given.
        code: CloseCode,
        /// The text given, with invalid characters replaced.
        reason: String,
    },
    /// Nothing was received for longer than the idle timeout.
    #[error("timed out: no packet arrived within the idle timeout")]
    Idle,
    /// The server accepts no further link, in all or from this address.
    #[error("refused: the server is full, or has too many links from this address")]
    Refused,
    /// The other side does not know this link, for example because it was restarted.
    #[error("reset by the peer, which may have restarted")]
    Reset,
    /// The network reports that packets cannot reach the address; no timeout is waited for.
    #[error("{0}")]
    Unreachable(Unreachable),
    /// The client does not trust the server's certificate, because of its name, authority, date or hash.
    #[error("the server's certificate is not trusted: {0}")]
    Untrusted(String),
    /// The protocols failed or do not match.
    #[error("failed: {0}")]
    Failed(String),
}

/// Why packets cannot reach an address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Unreachable {
    /// The host reports that nothing listens at the port.
    #[error("connection refused: no server listens at this port")]
    Port,
    /// There is no route to the host or its network.
    #[error("unreachable: there is no route to the host")]
    Host,
}

impl Unreachable {
    /// The cause, if the system's error is about reaching an address.
    pub(crate) fn from_error(error: &std::io::Error) -> Option<Unreachable> {
        match error.kind() {
            ErrorKind::ConnectionRefused => Some(Unreachable::Port),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Some(Unreachable::Host),
            _ => None,
        }
    }
}

/// TLS alerts about certificates: from `bad_certificate` to `access_denied`.
const CERTIFICATE_ALERTS: std::ops::RangeInclusive<u64> = 42..=49;
/// QUIC adds this to TLS alerts.
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
            // Detected by this side: only a client checks certificates.
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

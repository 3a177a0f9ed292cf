//! Why a client's session ended, for programs and as text.

use std::fmt;
use std::net::SocketAddr;

use foveate_node::session::Refusal;

use crate::event::{CloseCode, Reason, Unreachable};
use crate::server_address::ServerAddress;

/// Why a session ended or did not start, and with which server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionEnd {
    /// The server, as given.
    pub server: ServerAddress,
    /// The last address tried; `None` if the name has none.
    pub address: Option<SocketAddr>,
    pub cause: EndCause,
}

/// Why a session ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndCause {
    /// The host's name cannot be resolved: the resolver's message. Nothing was sent.
    #[error("the name cannot be resolved: {0}")]
    NotResolved(String),
    /// The network reports that the server cannot be reached at any of its addresses.
    #[error("{0}")]
    Unreachable(Unreachable),
    /// The certificate is for another name, of an unknown authority, expired or not the pinned one.
    #[error(
        "the server's certificate is not trusted: {0}; ask for the host that the certificate names, or pin its hash"
    )]
    Untrusted(String),
    /// The server did not answer in time.
    #[error("timed out: the server did not answer")]
    TimedOut,
    /// The server accepts no further link, in all or from this address.
    #[error("the server is full, or has too many links from this address; retry later")]
    Full,
    /// The server rejected the player.
    #[error("refused ({code:?}): {text}")]
    Refused {
        /// The reason for programs.
        code: Refusal,
        /// The reason as text.
        text: String,
    },
    /// The server closed the link.
    #[error("closed by the server: {text} ({})", code.0)]
    Closed {
        /// The reason for programs.
        code: CloseCode,
        /// The reason as text.
        text: String,
    },
    /// An established connection was lost: it became silent, or the server restarted or disappeared. Join again.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// This side closed the link.
    #[error("closed here: {0}")]
    Left(String),
    /// The two sides do not speak the same protocol.
    #[error("the server does not speak this protocol: {0}")]
    Protocol(String),
}

impl EndCause {
    /// The meaning of a link's end; `connected` says whether it had been connected.
    pub(crate) fn of(reason: Reason, connected: bool) -> EndCause {
        match reason {
            Reason::Here { reason, .. } => EndCause::Left(reason),
            Reason::Peer { code, reason } => EndCause::Closed { code, text: reason },
            Reason::Unreachable(why) if !connected => EndCause::Unreachable(why),
            Reason::Idle if !connected => EndCause::TimedOut,
            Reason::Refused => EndCause::Full,
            Reason::Untrusted(why) => EndCause::Untrusted(why),
            Reason::Failed(why) if !connected => EndCause::Protocol(why),
            lost => EndCause::Lost(lost.to_string()),
        }
    }

    /// Whether the server may answer at another of its addresses.
    pub(crate) fn is_of_address(&self) -> bool {
        matches!(self, EndCause::Unreachable(_) | EndCause::TimedOut | EndCause::Protocol(_))
    }
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) if self.server.literal() != Some(address) => {
                write!(f, "{} ({address}): {}", self.server, self.cause)
            }
            _ => write!(f, "{}: {}", self.server, self.cause),
        }
    }
}

impl std::error::Error for SessionEnd {}

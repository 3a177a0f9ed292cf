//! Converts iroh's errors to reasons why a link closed.

use iroh::endpoint::{ConnectingError, ConnectionError, TransportErrorCode};

use crate::event::{CloseCode, Reason};

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
pub(super) fn handshake_failure(error: ConnectingError) -> Reason {
    match error {
        ConnectingError::ConnectionError { source, .. } => source.into(),
        other => Reason::Failed(other.to_string()),
    }
}

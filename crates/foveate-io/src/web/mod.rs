//! Browsers: pages by HTTP, links by WebTransport and WebSocket, all in the endpoint's loop.
//!
//! [`Endpoint::listen_web`](crate::Endpoint::listen_web) opens one TCP listener. A connection is a
//! *visit*: requests for pages, one after the other, until one asks to go on by WebSocket at `/play`
//! or `/observe`. Then it becomes a link like any other.
//!
//! WebTransport uses the same UDP socket and port as native clients: its connections name
//! `h3` in the handshake of QUIC, and become links when their session is open. They have the
//! datagrams and the stream of messages that native links have.
//!
//! | path | what |
//! | --- | --- |
//! | `/play` | WebSocket, a player's link |
//! | `/observe` | WebSocket, an operator's link, if [`Observe`] allows |
//! | `/connect.json` | how to connect to this server, for a page's script |
//! | `/metrics`, `/healthz`, `/readyz` | if [`WebOptions::metrics`] is given |
//! | all others | what [`Pages`] has there |

mod h3;
mod http;
mod options;
mod proxy;
mod visit;
mod websocket;

pub use h3::MAX_FRAME;
pub use http::MAX_HEAD;
pub use options::{Observe, OperatorToken, Page, Pages, TOKEN_LENGTH, WebOptions};
pub use proxy::AddressRange;
pub use visit::{MAX_HTTP_PER_TURN, MAX_VISITS, MAX_VISITS_PER_ADDRESS};
pub use websocket::{MAX_ASKED, MAX_LAG};

pub(crate) use h3::{Fault, Session, Step, read_anything as read_any_h3};
pub(crate) use http::{Answer, Method, Request, switching};
pub(crate) use options::split;
pub(crate) use visit::{Front, HttpConnection, Turn};
pub(crate) use websocket::{Arrived, Timeout, Unit, WebSocket, read_anything as read_any_frames};

/// The protocol that browsers name in the handshake of QUIC.
pub(crate) const H3: &[u8] = b"h3";

/// Operators' links at once.
pub const MAX_OBSERVERS: usize = 8;

/// Any bytes as the head of a request: see [`fuzz`](crate::fuzz).
pub(crate) fn read_any_head(data: &[u8]) {
    if let Ok(Some((_, used))) = http::parse(data) {
        assert!(used <= data.len());
    }
}

/// Any bytes as what proxies say: see [`fuzz`](crate::fuzz).
pub(crate) fn read_any_proxy(data: &[u8]) {
    if let proxy::Preamble::Header(_, used) = proxy::read_preamble(data) {
        assert!(used <= data.len());
    }
    if let Ok(text) = std::str::from_utf8(data) {
        proxy::forwarded(text, &[]);
        if let Ok(range) = text.parse::<AddressRange>() {
            assert_eq!(range.to_string().parse::<AddressRange>().ok(), Some(range));
        }
    }
}

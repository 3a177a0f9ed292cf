//! Browsers: pages by HTTP, links by WebTransport and WebSocket, all in the endpoint's loop.
//!
//! [`Endpoint::listen_web`](crate::Endpoint::listen_web) opens one TCP listener. Each connection answers requests for
//! pages, one after the other, until one asks to upgrade to WebSocket at `/play` or `/observe`. Then it becomes a link
//! like any other.
//!
//! WebTransport uses the same UDP socket and port as native clients: its connections negotiate `h3` in QUIC's
//! handshake, and become links when their session is open. They have the same datagrams and stream of messages as
//! native links.
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
pub(crate) use websocket::{
    Arrived, Timeout, Unit, Upgraded, WebSocket, read_anything as read_any_frames,
};

/// The protocol name that browsers negotiate in QUIC's handshake.
pub(crate) const H3: &[u8] = b"h3";

/// Most operators' links at a time.
pub const MAX_OBSERVERS: usize = 8;

/// Parses any bytes as a request head: see [`fuzz`](crate::fuzz).
pub(crate) fn read_any_head(data: &[u8]) {
    if let Ok(Some((_, used))) = http::parse(data) {
        assert!(used <= data.len());
    }
}

/// Parses any bytes as headers of proxies: see [`fuzz`](crate::fuzz).
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

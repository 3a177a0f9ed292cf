//! Browsers: pages by HTTP, links by WebSocket, all in the endpoint's loop.
//!
//! [`Endpoint::listen_web`](crate::Endpoint::listen_web) opens one TCP listener. A connection is a
//! *visit*: requests for pages, one after the other, until one asks to go on by WebSocket at `/play`
//! or `/observe`. Then it becomes a link like any other.
//!
//! | path | what |
//! | --- | --- |
//! | `/play` | WebSocket, a player's link |
//! | `/observe` | WebSocket, an operator's link, if [`Observe`] allows |
//! | `/connect.json` | how to connect to this server, for a page's script |
//! | `/metrics`, `/healthz` | if [`Web::metrics`] is given |
//! | all others | what [`Pages`] has there |

mod http;
mod options;
mod visit;
mod websocket;

pub use http::MAX_HEAD;
pub use options::{Observe, Page, Pages, TOKEN_LENGTH, Token, Web};
pub use visit::{MAX_VISITS, MAX_VISITS_PER_ADDRESS};
pub use websocket::{MAX_ASKED, MAX_LAG};

pub(crate) use http::{Answer, Method, Request, switching};
pub(crate) use visit::{Front, Turn, Visit};
pub(crate) use websocket::{Arrived, Timeout, Unit, WebSocket};

/// Operators' links at once.
pub const MAX_OBSERVERS: usize = 8;

//! The browsers' side of an endpoint, over real sockets: pages, WebSocket links, and what is refused.

mod browser;
mod harness;
mod http;
mod observe;
mod proxy;
mod websocket;
mod webtransport;

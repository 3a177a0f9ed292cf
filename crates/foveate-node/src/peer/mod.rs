//! Peers: a game without a server.

pub mod silac;

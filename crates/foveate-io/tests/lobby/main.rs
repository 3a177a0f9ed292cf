//! Lobbies: their rules in virtual time, and on real sockets.

mod rules;
mod sockets;

//! Lobbies: their rules in virtual time, and the same on real sockets.

mod rules;
mod sockets;

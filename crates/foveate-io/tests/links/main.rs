//! Behaviour of links over real sockets.

mod direct;
mod harness;
mod hostile;
mod identity;
mod limits;
mod network;
mod traffic;

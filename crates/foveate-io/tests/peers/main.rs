//! Behaviour of links between peers, over real sockets of this machine.

mod harness;
mod hostile;
mod limits;
mod traffic;

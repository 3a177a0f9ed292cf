//! Where nodes write what they send.

use crate::session::Refusal;

/// The number of a link, assigned by the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Link(pub u64);

/// Takes everything that a node sends.
pub trait Outbox {
    /// Sends a datagram, which may be lost. The bytes are borrowed: copy them or send them at once.
    fn datagram(&mut self, to: Link, bytes: &[u8]);
    /// Sends a message, which arrives in order unless the link ends.
    fn message(&mut self, to: Link, bytes: &[u8]);
    /// Ends the link after everything sent so far.
    fn close(&mut self, link: Link, why: Refusal);
}

/// Something that a node sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outgoing {
    /// A datagram, which may be lost.
    Datagram(Vec<u8>),
    /// A message, which arrives in order.
    Message(Vec<u8>),
    /// The end of the link.
    Close(Refusal),
}

/// An outbox that keeps everything, in order: for simulators and tests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordingOutbox(pub Vec<(Link, Outgoing)>);

impl Outbox for RecordingOutbox {
    fn datagram(&mut self, to: Link, bytes: &[u8]) {
        self.0.push((to, Outgoing::Datagram(bytes.to_vec())));
    }

    fn message(&mut self, to: Link, bytes: &[u8]) {
        self.0.push((to, Outgoing::Message(bytes.to_vec())));
    }

    fn close(&mut self, link: Link, why: Refusal) {
        self.0.push((link, Outgoing::Close(why)));
    }
}

//! Where a node's bytes go.

use crate::session::Refusal;

/// A link of the transport's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Link(pub u64);

/// Takes what servers and clients say; all their effects leave through it.
pub trait Outbox {
    /// May be lost. Not kept: it is copied, or sent at once.
    fn datagram(&mut self, to: Link, bytes: &[u8]);
    /// Arrives, in order, or the link ends.
    fn message(&mut self, to: Link, bytes: &[u8]);
    /// After what was said before, the link ends.
    fn close(&mut self, link: Link, why: Refusal);
}

/// Something that was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outgoing {
    /// What may be lost.
    Datagram(Vec<u8>),
    /// What must arrive.
    Message(Vec<u8>),
    /// That the link ends.
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

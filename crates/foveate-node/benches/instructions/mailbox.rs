//! Datagrams and messages under way, in memory allocated once, so that keeping them allocates
//! nothing.

use foveate_node::session::Refusal;
use foveate_node::{Link, Outbox};
use std::ops::Range;

/// More bytes than any measure sends in a round.
const ROOM: usize = 1 << 20;

pub struct Mailbox {
    bytes: Vec<u8>,
    /// The receiver, the range of the bytes, and whether it is a message.
    entries: Vec<(u64, Range<usize>, bool)>,
}

impl Mailbox {
    pub fn new() -> Mailbox {
        Mailbox { bytes: Vec::with_capacity(ROOM), entries: Vec::with_capacity(ROOM / 64) }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    pub fn push(&mut self, to: u64, bytes: &[u8], is_message: bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.entries.push((to, start..self.bytes.len(), is_message));
    }

    /// Datagrams, with the link or observer that they go to.
    pub fn datagrams(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.entries
            .iter()
            .filter(|entry| !entry.2)
            .map(|(to, at, _)| (*to, &self.bytes[at.clone()]))
    }

    /// Messages, with the link that they go to.
    pub fn messages(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.entries
            .iter()
            .filter(|entry| entry.2)
            .map(|(to, at, _)| (*to, &self.bytes[at.clone()]))
    }
}

impl Outbox for Mailbox {
    fn datagram(&mut self, to: Link, bytes: &[u8]) {
        self.push(to.0, bytes, false);
    }

    fn message(&mut self, to: Link, bytes: &[u8]) {
        self.push(to.0, bytes, true);
    }

    fn close(&mut self, link: Link, why: Refusal) {
        panic!("link {} was closed: {why:?}", link.0);
    }
}

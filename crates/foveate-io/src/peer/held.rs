//! A link under bad conditions: data that is held on its way, in both directions.
//!
//! Between peers the packets are iroh's, so that conditions act on their contents: datagrams are delayed, reordered and
//! lost; messages are delayed, stay in order and are never lost.

use std::collections::VecDeque;

use foveate_wire::{Bytes, Micros};

use crate::conditioner::Conditioner;
use crate::event::Reason;
use crate::options::LinkConditions;

/// Data that arrives in order.
pub(super) enum Arrival {
    Message(bytes::Bytes),
    /// The link ended, after all messages before that.
    Closed(Reason),
}

pub(super) struct Held {
    ways: LinkConditions,
    received: Conditioner<bytes::Bytes>,
    sent: Conditioner<bytes::Bytes>,
    arriving: InOrder<Arrival>,
    leaving: InOrder<bytes::Bytes>,
    /// Conditions were removed; this stays until nothing is held.
    ending: bool,
}

impl Held {
    pub(super) fn new(ways: LinkConditions, seed: u64) -> Held {
        Held {
            ways,
            received: Conditioner::new(ways.received, seed),
            sent: Conditioner::new(ways.sent, !seed),
            arriving: InOrder::default(),
            leaving: InOrder::default(),
            ending: false,
        }
    }

    pub(super) fn set(&mut self, ways: Option<LinkConditions>) {
        self.ending = ways.is_none();
        let ways = ways.unwrap_or_default();
        self.ways = ways;
        self.received.set(ways.received);
        self.sent.set(ways.sent);
    }

    /// Handles an incoming datagram; false if it is lost.
    pub(super) fn receive(&mut self, now: Micros, bytes: bytes::Bytes) -> bool {
        self.received.push(now, Bytes(bytes.len() as u32), bytes)
    }

    /// Handles an outgoing datagram; false if it is lost.
    pub(super) fn send(&mut self, now: Micros, bytes: bytes::Bytes) -> bool {
        self.sent.push(now, Bytes(bytes.len() as u32), bytes)
    }

    pub(super) fn arrive(&mut self, now: Micros, arrival: Arrival) {
        self.arriving.push(now + self.ways.received.latency.typical(), arrival);
    }

    pub(super) fn leave(&mut self, now: Micros, message: bytes::Bytes) {
        self.leaving.push(now + self.ways.sent.latency.typical(), message);
    }

    pub(super) fn received(&mut self, now: Micros) -> Option<bytes::Bytes> {
        self.received.pop(now)
    }

    pub(super) fn sent(&mut self, now: Micros) -> Option<bytes::Bytes> {
        self.sent.pop(now)
    }

    pub(super) fn arrived(&mut self, now: Micros) -> Option<Arrival> {
        self.arriving.pop(now)
    }

    pub(super) fn left(&mut self, now: Micros) -> Option<bytes::Bytes> {
        self.leaving.pop(now)
    }

    /// Whether conditions were removed and nothing is held.
    pub(super) fn is_done(&self) -> bool {
        self.ending && self.next_due().is_none()
    }

    pub(super) fn next_due(&self) -> Option<Micros> {
        let all = [
            self.received.next_due(),
            self.sent.next_due(),
            self.arriving.next_due(),
            self.leaving.next_due(),
        ];
        all.into_iter().flatten().min()
    }
}

/// Items that come out when due, in order. The owner limits their bytes.
struct InOrder<T>(VecDeque<(Micros, T)>);

impl<T> Default for InOrder<T> {
    fn default() -> InOrder<T> {
        InOrder(VecDeque::new())
    }
}

impl<T> InOrder<T> {
    fn push(&mut self, due: Micros, item: T) {
        let last = self.0.back().map_or(Micros::ZERO, |(last, _)| *last);
        self.0.push_back((due.max(last), item));
    }

    fn pop(&mut self, now: Micros) -> Option<T> {
        if self.next_due()? > now {
            return None;
        }
        self.0.pop_front().map(|(_, item)| item)
    }

    fn next_due(&self) -> Option<Micros> {
        self.0.front().map(|(due, _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_in_order_when_the_delay_shrinks() {
        let mut queue = InOrder::default();
        queue.push(Micros(100), 'a');
        queue.push(Micros(20), 'b');
        assert_eq!(queue.pop(Micros(99)), None);
        assert_eq!(queue.pop(Micros(100)), Some('a'));
        assert_eq!(queue.pop(Micros(100)), Some('b'));
        assert_eq!(queue.next_due(), None);
    }
}

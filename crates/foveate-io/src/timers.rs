//! Timers of links.
//!
//! A connection's deadline moves with every packet, usually to later. So an entry whose deadline moves later stays
//! where it is: its link is checked too early once, and then gets the new deadline.
//!
//! Acknowledgements, which received packets cause, are handled separately ([`DelayedAcks`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

/// The deadlines of all links, with one or two entries per link.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Each link's earliest entry in the heap.
    armed: Vec<Option<Instant>>,
}

impl Timers {
    /// Sets a link's timer to `due`, unless it fires earlier already.
    pub(crate) fn arm(&mut self, index: u32, due: Instant) {
        let place = index as usize;
        if self.armed.len() <= place {
            self.armed.resize(place + 1, None);
        }
        if self.armed[place].is_none_or(|armed| due < armed) {
            self.armed[place] = Some(due);
            self.heap.push(Reverse((due, index)));
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    /// A link whose timer is due; the timer is cleared.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<u32> {
        while self.next_due()? <= now {
            let Reverse((due, index)) = self.heap.pop()?;
            let armed = self.armed.get_mut(index as usize)?;
            if *armed == Some(due) {
                *armed = None;
                return Some(index);
            }
        }
        None
    }
}

/// Calm links that received something. Each is asked whether it has something to send when it sends anyway, or after a
/// fixed time. Asking at once would cost as much as sending, and usually for nothing.
#[derive(Default)]
pub(crate) struct DelayedAcks {
    /// In the order of due time, since all delays are equal.
    queue: VecDeque<(Instant, u32)>,
    /// Whether each link still waits. Stored apart from the links, to keep them out of the cache.
    waits: Vec<bool>,
}

impl DelayedAcks {
    /// Asks the link at `due`, which never decreases.
    pub(crate) fn later(&mut self, index: u32, due: Instant) {
        let place = index as usize;
        if self.waits.len() <= place {
            self.waits.resize(place + 1, false);
        }
        if !std::mem::replace(&mut self.waits[place], true) {
            self.queue.push_back((due, index));
        }
    }

    /// Records that the link was asked.
    pub(crate) fn done(&mut self, index: u32) {
        if let Some(waits) = self.waits.get_mut(index as usize) {
            *waits = false;
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.queue.front().map(|(due, _)| *due)
    }

    /// A link whose delay is over. Links that were asked meanwhile are skipped.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<u32> {
        while let Some((due, index)) = self.queue.front().copied() {
            let waits = self.waits[index as usize];
            if waits && due > now {
                return None;
            }
            self.queue.pop_front();
            if waits {
                self.waits[index as usize] = false;
                return Some(index);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_link_comes_up_once_at_its_earliest_deadline() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut timers = Timers::default();
        timers.arm(3, at(50));
        timers.arm(3, at(20));
        timers.arm(3, at(70));
        timers.arm(1, at(30));
        assert_eq!(timers.pop(at(10)), None);
        assert_eq!(timers.pop(at(60)), Some(3));
        assert_eq!(timers.pop(at(60)), Some(1));
        assert_eq!(timers.pop(at(60)), None, "the superseded deadline is skipped");
        timers.arm(3, at(80));
        assert_eq!(timers.next_due(), Some(at(80)));
        assert_eq!(timers.pop(at(90)), Some(3));
    }

    #[test]
    fn a_link_is_asked_once_unless_it_was_asked_before() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut asks = DelayedAcks::default();
        asks.later(2, at(50));
        asks.later(5, at(51));
        asks.later(2, at(52));
        asks.done(2);
        assert_eq!(asks.pop(at(50)), None);
        assert_eq!(asks.next_due(), Some(at(51)), "what was asked is forgotten");
        assert_eq!(asks.pop(at(51)), Some(5));
        assert_eq!((asks.pop(at(99)), asks.next_due()), (None, None));
        asks.later(2, at(100));
        assert_eq!(asks.pop(at(100)), Some(2));
    }

    #[test]
    fn an_old_entry_of_a_link_serves_for_the_new_one() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut asks = DelayedAcks::default();
        asks.later(1, at(10));
        asks.done(1);
        asks.later(1, at(60));
        assert_eq!(asks.pop(at(10)), Some(1), "early is harmless");
        assert_eq!(asks.pop(at(60)), None);
    }
}

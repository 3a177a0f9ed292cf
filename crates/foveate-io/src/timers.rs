//! When to look at which link again.
//!
//! A connection's deadline moves with every packet, mostly to later. So a deadline that moves later
//! is left where it is: its link is looked at too early once, and is told the new one.
//!
//! What a received packet calls for, an acknowledgement mostly, is a matter of its own ([`DelayedAcks`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

/// The deadlines of all links, at most one or two entries a link.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
    /// By link: its earliest entry in the heap.
    armed: Vec<Option<Instant>>,
}

impl Timers {
    /// Look at the link by then.
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

    /// A link to be looked at; it is armed no more.
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

/// Calm links that received something: whether they have something to send is asked when they send
/// anyway, or at the latest after a fixed time. Asking at once would cost as much as sending, and
/// the answer is no.
#[derive(Default)]
pub(crate) struct DelayedAcks {
    /// By due time, since everyone waits equally long.
    queue: VecDeque<(Instant, u32)>,
    /// By link: whether it still waits. Apart from the links, so that they stay out of the cache.
    waits: Vec<bool>,
}

impl DelayedAcks {
    /// Ask the link by then. `due` never goes back.
    pub(crate) fn later(&mut self, index: u32, due: Instant) {
        let place = index as usize;
        if self.waits.len() <= place {
            self.waits.resize(place + 1, false);
        }
        if !std::mem::replace(&mut self.waits[place], true) {
            self.queue.push_back((due, index));
        }
    }

    /// The link was asked.
    pub(crate) fn done(&mut self, index: u32) {
        if let Some(waits) = self.waits.get_mut(index as usize) {
            *waits = false;
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.queue.front().map(|(due, _)| *due)
    }

    /// A link that waited long enough. Those that were asked meanwhile are skipped, due or not.
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
    fn a_link_is_asked_once_unless_somebody_asked_before() {
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
    fn an_old_entry_of_a_link_stands_for_the_new_one() {
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

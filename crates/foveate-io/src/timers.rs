//! When to look at which link again.
//!
//! A connection's deadline moves with every packet, mostly to later. So a deadline that moves later
//! is left where it is: its link is looked at too early once, and is told the new one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
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
}

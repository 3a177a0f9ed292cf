//! Parts of the virtual network: the link model, and an event queue.

use foveate_wire::Micros;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

pub use foveate_node::link_model::{Fate, Latency, LinkModel as Link, LinkSpec, Loss, Rate};

/// A queue of items by time; items at the same time keep the order in which they were planned.
#[derive(Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Planned<T>>,
    planned: u64,
}

#[derive(Debug)]
struct Planned<T> {
    at: Micros,
    number: u64,
    item: T,
}

impl<T> Ord for Planned<T> {
    /// The heap returns its greatest item, so the earliest compares as the greatest.
    fn cmp(&self, other: &Planned<T>) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<T> PartialOrd for Planned<T> {
    fn partial_cmp(&self, other: &Planned<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Planned<T> {
    fn eq(&self, other: &Planned<T>) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Planned<T> {}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda { heap: BinaryHeap::new(), planned: 0 }
    }
}

impl<T> Agenda<T> {
    /// Plans an item.
    pub fn plan(&mut self, at: Micros, item: T) {
        self.heap.push(Planned { at, number: self.planned, item });
        self.planned += 1;
    }

    /// The next item no later than `until`.
    pub fn next(&mut self, until: Micros) -> Option<(Micros, T)> {
        self.heap.peek().filter(|next| next.at <= until)?;
        self.heap.pop().map(|next| (next.at, next.item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_in_the_order_of_time_and_then_of_planning() {
        let mut agenda = Agenda::default();
        for (at, item) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b'), (9, 'e')] {
            agenda.plan(Micros(at), item);
        }
        let order: Vec<char> = std::iter::from_fn(|| agenda.next(Micros(8))).map(|x| x.1).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
        assert_eq!(agenda.next(Micros(9)), Some((Micros(9), 'e')));
    }
}

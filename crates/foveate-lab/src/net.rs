//! The virtual network's parts: the model of a link, and an agenda.

use foveate_wire::Micros;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

pub use foveate_node::link_model::{Fate, Latency, LinkModel as Link, LinkSpec, Loss, Rate};

/// Things that will happen, in the order of time; ties in the order in which they were planned.
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
    /// The heap yields its greatest: the earliest must be that.
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
    /// Plans something.
    pub fn plan(&mut self, at: Micros, item: T) {
        self.heap.push(Planned { at, number: self.planned, item });
        self.planned += 1;
    }

    /// The next thing that happens by `until`.
    pub fn next(&mut self, until: Micros) -> Option<(Micros, T)> {
        self.heap.peek().filter(|next| next.at <= until)?;
        self.heap.pop().map(|next| (next.at, next.item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_in_the_order_of_time_then_of_planning() {
        let mut agenda = Agenda::default();
        for (at, item) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b'), (9, 'e')] {
            agenda.plan(Micros(at), item);
        }
        let order: Vec<char> = std::iter::from_fn(|| agenda.next(Micros(8))).map(|x| x.1).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
        assert_eq!(agenda.next(Micros(9)), Some((Micros(9), 'e')));
    }
}

//! Bad network conditions on real links, on purpose: packets that are pushed come out later, twice or never.
//!
//! The same model as on virtual networks ([`link_model`](foveate_node::link_model)) decides. A link has a conditioner
//! for each direction if it was given conditions, otherwise none.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foveate_node::link_model::{LinkModel, LinkSpec};
use foveate_wire::{Bytes, Micros};

/// Most packets that a conditioner holds; more are lost, as in a full router.
pub const MAX_HELD: usize = 4096;

/// One direction of a link under conditions.
///
/// ```
/// use foveate_io::Conditioner;
/// use foveate_node::link_model::LinkSpec;
/// use foveate_wire::{Bytes, Micros};
///
/// let slow = LinkSpec::delayed(Micros::from_millis(40));
/// let mut link = Conditioner::new(slow, 1);
/// assert!(link.push(Micros::ZERO, Bytes(120), "hello"));
/// assert_eq!(link.pop(Micros::from_millis(39)), None);
/// assert_eq!(link.pop(Micros::from_millis(40)), Some("hello"));
/// ```
pub struct Conditioner<T> {
    model: LinkModel,
    /// When the last part of a stream arrives.
    #[cfg(feature = "web")]
    stream_due: Micros,
    pushed: u64,
    held: BinaryHeap<Reverse<Held<T>>>,
}

struct Held<T> {
    due: Micros,
    /// Packets that are due at the same time leave in the order in which they were pushed.
    order: u64,
    item: T,
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.order) == (other.due, other.order)
    }
}

impl<T> Eq for Held<T> {}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Held<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

impl<T: Clone> Conditioner<T> {
    /// A conditioner of an idle link.
    pub fn new(spec: LinkSpec, seed: u64) -> Self {
        Self {
            model: LinkModel::new(spec, seed),
            #[cfg(feature = "web")]
            stream_due: Micros::ZERO,
            pushed: 0,
            held: BinaryHeap::new(),
        }
    }

    /// Changes the conditions. Packets under way are not affected.
    pub fn set(&mut self, spec: LinkSpec) {
        self.model.set(spec);
    }

    /// Pushes a packet of `size`; false if it is lost.
    pub fn push(&mut self, now: Micros, size: Bytes, item: T) -> bool {
        let (held, pushed) = (&mut self.held, &mut self.pushed);
        let before = held.len();
        self.model.carry(now, size.0 as usize, |due| {
            if held.len() < MAX_HELD {
                *pushed += 1;
                held.push(Reverse(Held { due, order: *pushed, item: item.clone() }));
            }
        });
        held.len() > before
    }

    /// Pushes part of a stream. It is delayed like a packet, but is not lost at random and does not overtake earlier
    /// parts. False if there is no room.
    #[cfg(feature = "web")]
    pub(crate) fn push_in_order(&mut self, now: Micros, size: Bytes, item: T) -> bool {
        if self.held.len() >= MAX_HELD {
            return false;
        }
        let due = self.model.carry_reliably(now, size.0 as usize).max(self.stream_due);
        self.stream_due = due;
        self.pushed += 1;
        self.held.push(Reverse(Held { due, order: self.pushed, item }));
        true
    }

    /// The next packet that has arrived by `now`.
    pub fn pop(&mut self, now: Micros) -> Option<T> {
        if self.next_due()? > now {
            return None;
        }
        self.held.pop().map(|Reverse(held)| held.item)
    }

    /// When the next packet arrives.
    pub fn next_due(&self) -> Option<Micros> {
        self.held.peek().map(|Reverse(held)| held.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foveate_node::link_model::{Latency, Loss, Rate};

    const STEP: Micros = Micros(1_000);

    /// Sends `count` packets of 100 bytes a millisecond apart and returns when each arrived.
    fn arrivals(spec: LinkSpec, seed: u64, count: u64) -> Vec<Option<Micros>> {
        let mut link = Conditioner::new(spec, seed);
        let mut arrived = vec![None; count as usize];
        for tick in 0..count + 10_000 {
            let now = Micros(tick * STEP.0);
            if tick < count {
                link.push(now, Bytes(100), tick);
            }
            while let Some(packet) = link.pop(now) {
                arrived[packet as usize] = Some(now);
            }
        }
        assert_eq!(link.next_due(), None);
        arrived
    }

    #[test]
    #[cfg(feature = "web")]
    fn parts_of_a_stream_are_late_but_neither_lost_nor_overtaken() {
        let bad = LinkSpec {
            latency: Latency::Uniform(Micros::from_millis(10), Micros::from_millis(60)),
            loss: Loss::Bernoulli(0.9),
            rate: Some(Rate { bytes_per_second: 50_000.0, queue: 300 }),
            ..LinkSpec::PERFECT
        };
        let mut link = Conditioner::new(bad, 5);
        let mut arrived = Vec::new();
        for tick in 0..5_000 {
            let now = Micros(tick * STEP.0);
            if tick < 200 {
                assert!(link.push_in_order(now, Bytes(100), tick));
            }
            while let Some(part) = link.pop(now) {
                assert!(tick >= part + 10, "{part} after {tick} ms");
                arrived.push(part);
            }
        }
        assert!(arrived.iter().copied().eq(0..200), "{arrived:?}");
    }

    fn lost_share(arrived: &[Option<Micros>]) -> f64 {
        arrived.iter().filter(|at| at.is_none()).count() as f64 / arrived.len() as f64
    }

    #[test]
    fn nothing_happens_under_default_conditions() {
        let arrived = arrivals(LinkSpec::PERFECT, 1, 100);
        assert!(arrived.iter().enumerate().all(|(n, at)| *at == Some(Micros(n as u64 * STEP.0))));
    }

    #[test]
    fn a_duplicated_packet_is_held_twice() {
        let mut link = Conditioner::new(LinkSpec { duplicate: 1.0, ..LinkSpec::PERFECT }, 1);
        assert!(link.push(Micros::ZERO, Bytes(1), 'a'));
        assert_eq!([link.pop(STEP), link.pop(STEP), link.pop(STEP)], [Some('a'), Some('a'), None]);
    }

    #[test]
    fn delay_is_a_floor_and_jitter_a_ceiling() {
        let (delay, jitter) = (Micros::from_millis(30), Micros::from_millis(20));
        let arrived = arrivals(LinkSpec::jittered(delay, jitter), 3, 5_000);
        let spans: Vec<u64> = arrived
            .iter()
            .enumerate()
            .map(|(n, at)| (at.expect("nothing is lost") - Micros(n as u64 * STEP.0)).0)
            .collect();
        assert!(spans.iter().all(|span| (30_000..=51_000).contains(span)));
        let mean = spans.iter().sum::<u64>() as f64 / spans.len() as f64;
        assert!((39_500.0..41_500.0).contains(&mean), "{mean}");
        assert!(arrived.windows(2).any(|pair| pair[0] > pair[1]), "jitter reorders");
    }

    #[test]
    fn a_link_passes_its_rate_and_drops_packets_beyond_its_queue() {
        // 100 bytes arrive per millisecond and 50 leave; 1000 can wait.
        let rate = Some(Rate { bytes_per_second: 50_000.0, queue: 1_000 });
        let arrived = arrivals(LinkSpec { rate, ..LinkSpec::PERFECT }, 3, 10_000);
        assert!((lost_share(&arrived) - 0.5).abs() < 0.01, "{}", lost_share(&arrived));
        let longest = arrived
            .iter()
            .enumerate()
            .filter_map(|(n, at)| at.map(|at| at - Micros(n as u64 * STEP.0)));
        assert!(longest.max() <= Some(Micros(21_000)), "1000 bytes at 50 a millisecond");
    }

    #[test]
    fn the_seed_decides() {
        let conditions = LinkSpec {
            loss: Loss::Bursty { share: 0.1, burst: 3.0 },
            ..LinkSpec::jittered(Micros(500), Micros(30_000))
        };
        assert_eq!(arrivals(conditions, 5, 1_000), arrivals(conditions, 5, 1_000));
        assert_ne!(arrivals(conditions, 5, 1_000), arrivals(conditions, 6, 1_000));
    }

    #[test]
    fn conditions_change_while_packets_are_under_way() {
        let slow = LinkSpec::delayed(Micros(10_000));
        let mut link = Conditioner::new(slow, 1);
        link.push(Micros::ZERO, Bytes(1), 'a');
        link.set(LinkSpec::PERFECT);
        link.push(Micros(1), Bytes(1), 'b');
        assert_eq!(link.pop(Micros(1)), Some('b'));
        assert_eq!(link.pop(Micros(9_999)), None);
        assert_eq!(link.pop(Micros(10_000)), Some('a'));
    }

    #[test]
    fn a_conditioner_holds_a_bounded_number_of_packets() {
        let endless = LinkSpec::delayed(Micros::UNBOUNDED);
        let mut link = Conditioner::new(endless, 1);
        let taken = (0..MAX_HELD + 10).filter(|_| link.push(Micros::ZERO, Bytes(1), ())).count();
        assert_eq!(taken, MAX_HELD);
    }
}

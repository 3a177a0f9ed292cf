//! A bad network on purpose: delay, jitter, loss and a narrow pipe, without IO and without a clock.
//!
//! What is pushed comes out later, or never. The same seed and the same times give the same fates.
//! The endpoint has one for each way of a link that was given [`Conditions`], and none otherwise.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foveate_wire::{Bytes, Micros};

/// Packets that one conditioner holds at most; what comes on top is lost, as in a full router.
pub const MAX_HELD: usize = 4096;

/// How one way of a link behaves. The default does nothing.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Conditions {
    /// Every packet takes at least this long.
    pub delay: Micros,
    /// And up to this much longer, evenly distributed: packets overtake each other.
    pub jitter: Micros,
    /// Which packets never arrive.
    pub loss: Loss,
    /// A narrow pipe with a queue before it.
    pub pipe: Option<Pipe>,
}

/// Which packets are lost.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Loss {
    /// None.
    #[default]
    Never,
    /// Each with this probability, whatever happened to the others.
    Each(f32),
    /// Gilbert and Elliott: a link is good or bad, and changes with every packet by chance.
    Bursts {
        /// Probability that a good link turns bad.
        turn_bad: f32,
        /// Probability that a bad link turns good.
        turn_good: f32,
        /// Probability of loss while it is good.
        while_good: f32,
        /// Probability of loss while it is bad.
        while_bad: f32,
    },
}

impl Loss {
    /// Bursts of `length` lost packets on average that together make up `share` of all.
    pub fn bursts(share: f32, length: f32) -> Loss {
        let share = share.clamp(0.0, 0.99);
        let turn_good = 1.0 / length.max(1.0);
        let turn_bad = (share * turn_good / (1.0 - share)).min(1.0);
        Loss::Bursts { turn_bad, turn_good, while_good: 0.0, while_bad: 1.0 }
    }
}

/// A narrow pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipe {
    /// What passes in a second.
    pub per_second: Bytes,
    /// What may wait before it; the rest is lost.
    pub queue: Bytes,
}

/// One way of a link under [`Conditions`].
///
/// ```
/// use foveate_io::{Conditioner, Conditions};
/// use foveate_wire::{Bytes, Micros};
///
/// let slow = Conditions { delay: Micros::from_millis(40), ..Conditions::default() };
/// let mut link = Conditioner::new(slow, 1);
/// assert!(link.push(Micros::ZERO, Bytes(120), "hello"));
/// assert_eq!(link.pop(Micros::from_millis(39)), None);
/// assert_eq!(link.pop(Micros::from_millis(40)), Some("hello"));
/// ```
pub struct Conditioner<T> {
    conditions: Conditions,
    random: fastrand::Rng,
    bad: bool,
    /// When the pipe will have passed everything that waits before it.
    pipe_free: Micros,
    /// When the last part of a stream arrives.
    #[cfg(feature = "web")]
    stream_due: Micros,
    pushed: u64,
    held: BinaryHeap<Reverse<Held<T>>>,
}

struct Held<T> {
    due: Micros,
    /// Those that are due at the same time leave in the order in which they came.
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

impl<T> Conditioner<T> {
    /// A link that has been idle so far.
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        Self {
            conditions,
            random: fastrand::Rng::with_seed(seed),
            bad: false,
            pipe_free: Micros::ZERO,
            #[cfg(feature = "web")]
            stream_due: Micros::ZERO,
            pushed: 0,
            held: BinaryHeap::new(),
        }
    }

    /// From now on it behaves like this. What is under way already is not touched.
    pub fn set(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// Takes a packet of `size`; false if it is lost.
    pub fn push(&mut self, now: Micros, size: Bytes, item: T) -> bool {
        // Chance is drawn for every packet, so that a full queue does not change later fates.
        let lost = self.is_lost();
        let late = Micros(self.random.u64(0..=self.conditions.jitter.0.min(u64::MAX - 1)));
        if lost || self.held.len() >= MAX_HELD {
            return false;
        }
        let Some(passed) = self.pass(now, size) else { return false };
        let due = passed + self.conditions.delay + late;
        self.pushed += 1;
        self.held.push(Reverse(Held { due, order: self.pushed, item }));
        true
    }

    /// Takes part of a stream: late like a packet, but it is not lost by chance, and does not
    /// overtake what was pushed so before it. False if there is no room.
    #[cfg(feature = "web")]
    pub(crate) fn push_in_order(&mut self, now: Micros, size: Bytes, item: T) -> bool {
        let late = Micros(self.random.u64(0..=self.conditions.jitter.0.min(u64::MAX - 1)));
        if self.held.len() >= MAX_HELD {
            return false;
        }
        let passed = self.pass(now, size).unwrap_or(self.pipe_free);
        let due = (passed + self.conditions.delay + late).max(self.stream_due);
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

    fn is_lost(&mut self) -> bool {
        let chance = match self.conditions.loss {
            Loss::Never => return false,
            Loss::Each(chance) => chance,
            Loss::Bursts { turn_bad, turn_good, while_good, while_bad } => {
                let turn = if self.bad { turn_good } else { turn_bad };
                self.bad ^= self.random.f32() < turn;
                if self.bad { while_bad } else { while_good }
            }
        };
        self.random.f32() < chance
    }

    /// When the packet has passed the pipe, if its queue takes it.
    fn pass(&mut self, now: Micros, size: Bytes) -> Option<Micros> {
        let Some(pipe) = self.conditions.pipe else { return Some(now) };
        let per_second = u64::from(pipe.per_second.0.max(1));
        let wait = self.pipe_free - now;
        let waiting = wait.0.saturating_mul(per_second) / 1_000_000;
        if waiting + u64::from(size.0) > u64::from(pipe.queue.0) {
            return None;
        }
        let takes = Micros((u64::from(size.0) * 1_000_000).div_ceil(per_second));
        self.pipe_free = self.pipe_free.max(now) + takes;
        Some(self.pipe_free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Micros = Micros(1_000);

    /// Sends `count` packets of 100 bytes a millisecond apart and returns when each arrived.
    fn arrivals(conditions: Conditions, seed: u64, count: u64) -> Vec<Option<Micros>> {
        let mut link = Conditioner::new(conditions, seed);
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
        let bad = Conditions {
            delay: Micros::from_millis(10),
            jitter: Micros::from_millis(50),
            loss: Loss::Each(0.9),
            pipe: Some(Pipe { per_second: Bytes(50_000), queue: Bytes(300) }),
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

    fn mean_burst(arrived: &[Option<Micros>]) -> f64 {
        let lost = arrived.iter().filter(|at| at.is_none()).count();
        let bursts = arrived.chunk_by(|a, b| a.is_none() == b.is_none());
        lost as f64 / bursts.filter(|run| run[0].is_none()).count() as f64
    }

    #[test]
    fn nothing_happens_under_default_conditions() {
        let arrived = arrivals(Conditions::default(), 1, 100);
        assert!(arrived.iter().enumerate().all(|(n, at)| *at == Some(Micros(n as u64 * STEP.0))));
    }

    #[test]
    fn independent_loss_has_its_rate_and_no_bursts() {
        let loss = Loss::Each(0.1);
        let arrived = arrivals(Conditions { loss, ..Conditions::default() }, 7, 50_000);
        assert!((lost_share(&arrived) - 0.1).abs() < 0.01, "{}", lost_share(&arrived));
        assert!((mean_burst(&arrived) - 1.0 / 0.9).abs() < 0.05, "{}", mean_burst(&arrived));
    }

    #[test]
    fn bursty_loss_has_its_rate_and_its_length() {
        let loss = Loss::bursts(0.05, 4.0);
        let arrived = arrivals(Conditions { loss, ..Conditions::default() }, 7, 100_000);
        assert!((lost_share(&arrived) - 0.05).abs() < 0.006, "{}", lost_share(&arrived));
        assert!((mean_burst(&arrived) - 4.0).abs() < 0.4, "{}", mean_burst(&arrived));
    }

    #[test]
    fn delay_is_a_floor_and_jitter_a_ceiling() {
        let (delay, jitter) = (Micros::from_millis(30), Micros::from_millis(20));
        let arrived = arrivals(Conditions { delay, jitter, ..Conditions::default() }, 3, 5_000);
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
    fn a_pipe_passes_its_rate_and_drops_what_its_queue_cannot_take() {
        // 100 bytes a millisecond come in, 50 go out; 1000 may wait.
        let pipe = Pipe { per_second: Bytes(50_000), queue: Bytes(1_000) };
        let arrived = arrivals(Conditions { pipe: Some(pipe), ..Conditions::default() }, 3, 10_000);
        assert!((lost_share(&arrived) - 0.5).abs() < 0.01, "{}", lost_share(&arrived));
        let longest = arrived
            .iter()
            .enumerate()
            .filter_map(|(n, at)| at.map(|at| at - Micros(n as u64 * STEP.0)));
        assert!(longest.max() <= Some(Micros(21_000)), "1000 bytes at 50 a millisecond");
    }

    #[test]
    fn the_seed_decides() {
        let conditions = Conditions {
            delay: Micros(500),
            jitter: Micros(30_000),
            loss: Loss::bursts(0.1, 3.0),
            pipe: None,
        };
        assert_eq!(arrivals(conditions, 5, 1_000), arrivals(conditions, 5, 1_000));
        assert_ne!(arrivals(conditions, 5, 1_000), arrivals(conditions, 6, 1_000));
    }

    #[test]
    fn conditions_change_while_packets_are_under_way() {
        let slow = Conditions { delay: Micros(10_000), ..Conditions::default() };
        let mut link = Conditioner::new(slow, 1);
        link.push(Micros::ZERO, Bytes(1), 'a');
        link.set(Conditions::default());
        link.push(Micros(1), Bytes(1), 'b');
        assert_eq!(link.pop(Micros(1)), Some('b'));
        assert_eq!(link.pop(Micros(9_999)), None);
        assert_eq!(link.pop(Micros(10_000)), Some('a'));
    }

    #[test]
    fn a_conditioner_holds_a_bounded_number_of_packets() {
        let endless = Conditions { delay: Micros::UNBOUNDED, ..Conditions::default() };
        let mut link = Conditioner::new(endless, 1);
        let taken = (0..MAX_HELD + 10).filter(|_| link.push(Micros::ZERO, Bytes(1), ())).count();
        assert_eq!(taken, MAX_HELD);
    }
}

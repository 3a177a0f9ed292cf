//! Spreads packets of links over a tick.
//!
//! A thousand packets at once wait for each other in every queue on their way. Spread over part of the tick, each
//! leaves alone. A link keeps its position in the tick, so that its peer still receives at even intervals.

use foveate_wire::Micros;

/// Links are sent together in slices of this length; shorter ones would cost more system calls.
const SLICE: Micros = Micros(1_000);

/// Most slices of one spread.
const MAX_SLICES: u64 = 64;

/// Links that wait for their slice.
#[derive(Default)]
pub(crate) struct Stagger {
    slices: Vec<Vec<u32>>,
    /// When the first slice leaves.
    begun: Micros,
    /// The interval between slices.
    step: Micros,
    /// Index of the first slice that has not left.
    next: usize,
    waiting: usize,
}

impl Stagger {
    /// Starts a spread over `span`. Links left from the previous one are sent with the first slice.
    pub(crate) fn begin(&mut self, now: Micros, span: Micros) {
        let count = span.0.div_ceil(SLICE.0).clamp(1, MAX_SLICES);
        let mut late: Vec<u32> = self.slices.iter_mut().flat_map(|slice| slice.drain(..)).collect();
        self.slices.resize_with(count as usize, Vec::new);
        self.slices[0].append(&mut late);
        self.step = Micros(span.0 / count);
        self.begun = now;
        self.next = 0;
    }

    /// Puts a link into its slice.
    pub(crate) fn add(&mut self, index: u32) {
        // Multiples of the golden ratio fill the circle evenly for any number of links.
        let turn = index.wrapping_mul(0x9E37_79B9);
        let slice = (u64::from(turn) * self.slices.len() as u64) >> 32;
        self.slices[slice as usize].push(index);
        self.waiting += 1;
    }

    /// When the next slice with links in it leaves.
    pub(crate) fn next_due(&self) -> Option<Micros> {
        if self.waiting == 0 {
            return None;
        }
        let slice = (self.next..self.slices.len()).find(|slice| !self.slices[*slice].is_empty())?;
        Some(self.begun + self.step * slice as u32)
    }

    /// Moves the links that are due by `now` to `ready`.
    pub(crate) fn take(&mut self, now: Micros, ready: &mut Vec<u32>) {
        while self.waiting > 0
            && self.next < self.slices.len()
            && self.begun + self.step * self.next as u32 <= now
        {
            self.waiting -= self.slices[self.next].len();
            ready.append(&mut self.slices[self.next]);
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each of `links` is sent, in microseconds after the start.
    fn departures(links: u32, span: Micros) -> Vec<u64> {
        let mut stagger = Stagger::default();
        stagger.begin(Micros(5_000), span);
        (0..links).for_each(|index| stagger.add(index));
        let mut left = vec![u64::MAX; links as usize];
        while let Some(due) = stagger.next_due() {
            let mut ready = Vec::new();
            stagger.take(due, &mut ready);
            assert!(!ready.is_empty());
            ready.iter().for_each(|index| left[*index as usize] = due.0 - 5_000);
        }
        left
    }

    #[test]
    fn links_spread_evenly_over_the_span() {
        let left = departures(1_000, Micros::from_millis(40));
        for slice in 0..40 {
            let together = left.iter().filter(|at| **at / 1_000 == slice).count();
            assert!((20..=30).contains(&together), "{together} in slice {slice}");
        }
    }

    #[test]
    fn a_link_keeps_its_place_when_others_come_and_go() {
        let span = Micros::from_millis(20);
        assert_eq!(departures(1_000, span)[..10], departures(10, span)[..]);
    }

    #[test]
    fn a_new_spread_forgets_no_link() {
        let mut stagger = Stagger::default();
        stagger.begin(Micros::ZERO, Micros::from_millis(30));
        (0..100).for_each(|index| stagger.add(index));
        stagger.begin(Micros(10_000), Micros::from_millis(3));
        let mut ready = Vec::new();
        stagger.take(Micros(10_000), &mut ready);
        ready.sort_unstable();
        assert_eq!(ready, (0..100).collect::<Vec<_>>());
        assert_eq!(stagger.next_due(), None);
    }
}

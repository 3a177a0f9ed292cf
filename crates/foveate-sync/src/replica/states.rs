//! The states of one object that arrived lately: baselines for updates, and what interpolation needs.

use foveate_wire::packet::KEPT_STATES;
use foveate_wire::{Motion, Tick};

/// A state and its round.
pub(super) type Sample<'a> = (Tick, &'a [i32]);

/// The newest states, in no particular order in memory.
#[derive(Clone, Debug)]
pub(super) struct StateRing {
    lanes: usize,
    ticks: Vec<Tick>,
    states: Vec<i32>,
    /// How each state came about.
    motions: Vec<Motion>,
    newest: usize,
}

impl StateRing {
    pub fn new(lanes: usize) -> StateRing {
        StateRing { lanes, ticks: Vec::new(), states: Vec::new(), motions: Vec::new(), newest: 0 }
    }

    /// Adds a state; the oldest makes room. States that are older than all of a full ring are
    /// dropped: nothing refers to them any more.
    pub fn push(&mut self, tick: Tick, lanes: &[i32], motion: Motion) {
        if self.ticks.contains(&tick) {
            return;
        }
        let at = if self.ticks.len() < KEPT_STATES {
            self.ticks.push(tick);
            self.motions.push(motion);
            self.states.extend_from_slice(lanes);
            self.ticks.len() - 1
        } else {
            let newest = self.newest_tick();
            let age = |at: &usize| newest.since(self.ticks[*at]);
            let oldest = (0..KEPT_STATES).max_by_key(age).unwrap_or(0);
            if !tick.is_after(self.ticks[oldest]) {
                return;
            }
            self.ticks[oldest] = tick;
            self.motions[oldest] = motion;
            self.states[oldest * self.lanes..][..self.lanes].copy_from_slice(lanes);
            oldest
        };
        if at != self.newest && tick.is_after(self.newest_tick()) {
            self.newest = at;
        }
    }

    pub fn newest_tick(&self) -> Tick {
        self.ticks.get(self.newest).copied().unwrap_or_default()
    }

    pub fn newest(&self) -> &[i32] {
        self.state(self.newest)
    }

    /// How the newest state came about.
    pub fn motion(&self) -> Motion {
        self.motions.get(self.newest).copied().unwrap_or_default()
    }

    /// The state of exactly this tick, and how it came about.
    pub fn at(&self, tick: Tick) -> Option<(&[i32], Motion)> {
        let at = self.ticks.iter().position(|held| *held == tick)?;
        Some((self.state(at), self.motions[at]))
    }

    /// The last state at or before a tick, and the first after it.
    pub fn around(&self, tick: Tick) -> [Option<Sample<'_>>; 2] {
        let with = |at: usize| (self.ticks[at], self.state(at));
        let all = 0..self.ticks.len();
        let is_later = |at: &usize| self.ticks[*at].is_after(tick);
        let before = all.clone().filter(|at| !is_later(at));
        let after = all.filter(is_later);
        [
            before.min_by_key(|at| tick.since(self.ticks[*at])).map(with),
            after.min_by_key(|at| self.ticks[*at].since(tick)).map(with),
        ]
    }

    fn state(&self, at: usize) -> &[i32] {
        &self.states[at * self.lanes..(at + 1) * self.lanes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_states_stay_whatever_the_order_of_arrival() {
        let mut ring = StateRing::new(1);
        for n in [5u32, 3, 4, 9, 1] {
            ring.push(Tick(n), &[n as i32], Motion::default());
        }
        assert_eq!((ring.newest_tick(), ring.newest()), (Tick(9), &[9][..]));
        assert_eq!(ring.at(Tick(3)).unwrap().0, &[3]);
        assert_eq!(ring.at(Tick(2)), None);
        let [before, after] = ring.around(Tick(6));
        assert_eq!((before.unwrap().0, after.unwrap().0), (Tick(5), Tick(9)));
        for n in 10..10 + KEPT_STATES as u32 {
            ring.push(Tick(n), &[n as i32], Motion::default());
        }
        assert_eq!(ring.at(Tick(9)), None, "made room");
        ring.push(Tick(2), &[2], Motion::default());
        assert_eq!(ring.at(Tick(2)), None, "too old to be kept");
        assert_eq!(ring.at(Tick(10)).unwrap().0, &[10]);
    }
}

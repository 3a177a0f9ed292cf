//! The recent states of one object: baselines for updates, and samples for interpolation.

use foveate_wire::packet::KEPT_STATES;
use foveate_wire::{Motion, Tick};

/// A state and its round.
pub(super) type Sample<'a> = (Tick, &'a [i32]);

/// How many numbers of a motion precede the lanes of its state.
const MOTION: usize = 4;

/// The newest states, in no particular order. A lookup reads adjacent memory: the ticks in the ring
/// itself, a state and its motion in one row.
#[derive(Clone, Debug)]
pub(super) struct StateRing {
    /// Only the first `len` are used.
    ticks: [Tick; KEPT_STATES],
    len: usize,
    newest: usize,
    /// The motion of the newest state.
    motion: Motion,
    /// Numbers in a row.
    width: usize,
    rows: Vec<i32>,
}

impl StateRing {
    pub fn new(lanes: usize) -> StateRing {
        let (ticks, motion, width) = ([Tick(0); KEPT_STATES], Motion::default(), MOTION + lanes);
        StateRing { ticks, len: 0, newest: 0, motion, width, rows: Vec::new() }
    }

    /// Adds a state, in place of the oldest if the ring is full. A state older than all of a full
    /// ring is dropped: no packet refers to it any more.
    pub fn push(&mut self, tick: Tick, lanes: &[i32], motion: Motion) {
        if self.held().contains(&tick) {
            return;
        }
        let at = if self.len < KEPT_STATES {
            self.len += 1;
            self.rows.resize(self.len * self.width, 0);
            self.len - 1
        } else {
            let newest = self.newest_tick();
            let age = |at: &usize| newest.since(self.ticks[*at]);
            let oldest = (0..KEPT_STATES).max_by_key(age).unwrap_or(0);
            if !tick.is_after(self.ticks[oldest]) {
                return;
            }
            oldest
        };
        if self.len == 1 || tick.is_after(self.newest_tick()) {
            (self.newest, self.motion) = (at, motion);
        }
        self.ticks[at] = tick;
        let row = &mut self.rows[at * self.width..][..self.width];
        let Motion { moved: [x, y, z], ticks } = motion;
        row[..MOTION].copy_from_slice(&[x, y, z, ticks as i32]);
        row[MOTION..].copy_from_slice(lanes);
    }

    fn held(&self) -> &[Tick] {
        &self.ticks[..self.len]
    }

    pub fn newest_tick(&self) -> Tick {
        self.ticks[self.newest]
    }

    pub fn newest(&self) -> &[i32] {
        self.state(self.newest)
    }

    /// The motion of the newest state.
    pub fn motion(&self) -> Motion {
        self.motion
    }

    /// The state of exactly this tick, with its motion.
    pub fn at(&self, tick: Tick) -> Option<(&[i32], Motion)> {
        let at = self.held().iter().position(|held| *held == tick)?;
        let row = &self.rows[at * self.width..][..self.width];
        let (&[x, y, z, ticks], lanes) = row.split_first_chunk::<MOTION>()?;
        Some((lanes, Motion { moved: [x, y, z], ticks: ticks as u32 }))
    }

    /// The last state at or before a tick, and the first after it.
    pub fn around(&self, tick: Tick) -> [Option<Sample<'_>>; 2] {
        let with = |at: usize| (self.ticks[at], self.state(at));
        let all = 0..self.len;
        let is_later = |at: &usize| self.ticks[*at].is_after(tick);
        let before = all.clone().filter(|at| !is_later(at));
        let after = all.filter(is_later);
        [
            before.min_by_key(|at| tick.since(self.ticks[*at])).map(with),
            after.min_by_key(|at| self.ticks[*at].since(tick)).map(with),
        ]
    }

    fn state(&self, at: usize) -> &[i32] {
        &self.rows[at * self.width + MOTION..(at + 1) * self.width]
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

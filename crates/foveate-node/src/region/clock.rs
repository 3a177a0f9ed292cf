//! The world's time: one for all servers, never backwards.
//!
//! A server's world time is its clock plus an offset that only grows: whenever it hears of a later time it adopts
//! that. So the world runs as fast as its fastest clock, and two servers differ by no more than a message takes.
//! No wall clock takes part.

use foveate_wire::Micros;

/// A server's idea of the world's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorldClock {
    offset: Option<i64>,
}

impl WorldClock {
    /// The world begins now.
    pub fn begin(&mut self, now: Micros) {
        self.hear(0, now);
    }

    /// It is at least this late, in microseconds.
    pub fn hear(&mut self, world: u64, now: Micros) {
        let offset = world as i64 - now.0 as i64;
        if self.offset.is_none_or(|known| offset > known) {
            self.offset = Some(offset);
        }
    }

    /// The world's time; none before anything was heard of it.
    pub fn world(&self, now: Micros) -> Option<u64> {
        self.offset.map(|offset| now.0.saturating_add_signed(offset))
    }

    /// The tick at hand, and when the next one begins by this server's clock.
    pub fn tick(&self, now: Micros, round: Micros) -> Option<(u32, Micros)> {
        let world = self.world(now)?;
        let left = round.0 - world % round.0;
        Some(((world / round.0) as u32, now + Micros(left)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_follows_the_latest_and_never_goes_back() {
        let (mut clock, round) = (WorldClock::default(), Micros(50_000));
        assert_eq!(clock.tick(Micros(7), round), None);
        clock.begin(Micros(1_000));
        assert_eq!(clock.tick(Micros(51_000), round), Some((1, Micros(101_000))));
        clock.hear(120_000, Micros(51_000));
        assert_eq!(clock.tick(Micros(51_000), round), Some((2, Micros(81_000))));
        clock.hear(60_000, Micros(51_000));
        assert_eq!(clock.world(Micros(51_000)), Some(120_000), "earlier times change nothing");
    }
}

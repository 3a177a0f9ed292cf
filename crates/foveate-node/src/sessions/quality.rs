//! Quality of service: grades give way before the uplink is full or ticks are late.

use foveate_sync::interest::Strain;
use foveate_wire::{Bytes, Micros};

/// What a server may use in one round; `None` for no limit.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Resources {
    /// Bytes to all players together, including the network's headers.
    pub uplink: Option<Bytes>,
    /// The duration of a round, including sending and receiving.
    pub tick_time: Option<Micros>,
}

/// What the network adds to a datagram: the headers of IP, UDP and QUIC, and QUIC's seal.
const OVERHEAD: u64 = 28 + 27;
/// Rounds over which use is averaged.
const ROUNDS: f32 = 8.0;
/// Strain added in a round for each share by which use exceeds the resources.
const RISE: f32 = 1.0;
/// The most strain added in a round.
const MAX_RISE: f32 = 0.5;
/// Below this share of the resources, strain falls.
const EASE: f32 = 0.9;
/// By how much strain falls in a round.
const FALL: f32 = 0.03;

/// Averages the use of rounds, and computes how far grades must give way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quality {
    resources: Resources,
    strain: f32,
    bytes: f32,
    micros: f32,
    /// Bytes of the current round.
    sent: u64,
}

impl Quality {
    pub fn new(resources: Resources) -> Quality {
        Quality { resources, ..Quality::default() }
    }

    pub fn set_resources(&mut self, resources: Resources) {
        self.resources = resources;
    }

    /// Notes a datagram of this many bytes.
    #[inline]
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64 + OVERHEAD;
    }

    /// Ends a round that took this long; returns the strain from now on.
    pub fn end_round(&mut self, took: Micros) -> Strain {
        let sent = std::mem::take(&mut self.sent) as f32;
        self.bytes += (sent - self.bytes) / ROUNDS;
        self.micros += (took.0 as f32 - self.micros) / ROUNDS;
        let share = |used: f32, all: Option<f32>| all.map_or(0.0, |all| used / all.max(1.0));
        let uplink = share(self.bytes, self.resources.uplink.map(|bytes| bytes.0 as f32));
        let time = share(self.micros, self.resources.tick_time.map(|time| time.0 as f32));
        let pressure = uplink.max(time);
        if pressure > 1.0 {
            self.strain += (RISE * (pressure - 1.0)).min(MAX_RISE);
        } else if pressure < EASE {
            self.strain -= FALL;
        }
        self.strain = Strain::new(self.strain).value();
        Strain::new(self.strain)
    }

    pub fn strain(&self) -> f32 {
        self.strain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPLINK: Resources = Resources { uplink: Some(Bytes(10_000)), tick_time: None };

    fn run(quality: &mut Quality, bytes: usize, millis: u64, rounds: usize) -> f32 {
        for _ in 0..rounds {
            quality.note_sent(bytes);
            quality.end_round(Micros::from_millis(millis));
        }
        quality.strain()
    }

    #[test]
    fn an_uplink_that_is_too_narrow_strains_until_it_is_not() {
        let mut quality = Quality::new(UPLINK);
        assert_eq!(run(&mut quality, 8_000, 500, 100), 0.0, "time has no limit");
        let strained = run(&mut quality, 20_000, 0, 40);
        assert!(strained > 5.0, "{strained}");
        let held = run(&mut quality, 9_500, 0, 100);
        assert!(held >= strained, "between nine tenths and all of it nothing changes: {held}");
        assert!(run(&mut quality, 9_500, 0, 100) <= held + 0.5);
        assert_eq!(run(&mut quality, 5_000, 0, 2_000), 0.0, "it recovers");
    }

    #[test]
    fn ticks_that_take_too_long_strain_as_well() {
        let time = Resources { uplink: None, tick_time: Some(Micros::from_millis(40)) };
        let mut quality = Quality::new(time);
        assert_eq!(run(&mut quality, 1_000_000, 30, 100), 0.0);
        assert!(run(&mut quality, 0, 60, 40) > 5.0);
        assert_eq!(run(&mut quality, 0, 60, 10_000), Strain::MAX.value(), "and no further");
    }
}

//! Bytes of each player by second. The source's limits are maxima over players.

use serde::Serialize;
use std::collections::BTreeMap;

/// Seconds over which a player's rate is averaged before the maximum is taken.
pub const WINDOW: usize = 10;

/// Bytes that each player sent, or received, in each second of a game.
#[derive(Clone, Debug, Default)]
pub struct PlayerBytes {
    seconds: BTreeMap<usize, Vec<f64>>,
}

/// The largest rates of any one player, in bytes per second.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PeakRates {
    /// Averaged over the whole game.
    pub mean: f64,
    /// Averaged over any `WINDOW` consecutive seconds, or over the whole game if it is shorter.
    pub window: f64,
    /// In any one second.
    pub second: f64,
}

impl PlayerBytes {
    /// Adds the next second of a player. A player's seconds have no gaps.
    pub fn add(&mut self, player: usize, bytes: f64) {
        self.seconds.entry(player).or_default().push(bytes);
    }

    /// The largest rates over all players. Means and windows only count players with enough seconds.
    pub fn peaks(&self) -> PeakRates {
        let whole = self.seconds.values().map(Vec::len).max().unwrap_or(0);
        PeakRates {
            mean: self.largest_over(whole),
            window: self.largest_over(whole.min(WINDOW)),
            second: self.largest_over(1),
        }
    }

    /// The largest mean over `seconds` consecutive seconds.
    fn largest_over(&self, seconds: usize) -> f64 {
        let windows = self.seconds.values().flat_map(|bytes| bytes.windows(seconds.max(1)));
        windows.map(|window| window.iter().sum::<f64>() / window.len() as f64).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_of_single_players_and_not_of_their_mean() {
        let mut bytes = PlayerBytes::default();
        for second in 0..40 {
            bytes.add(0, 100.0);
            bytes.add(1, if (20..30).contains(&second) { 1_000.0 } else { 0.0 });
            // Leaves after five seconds: too short for a window.
            if second < 5 {
                bytes.add(2, 500.0);
            }
        }
        bytes.add(0, 5_000.0);
        let peaks = bytes.peaks();
        assert_eq!(peaks.second, 5_000.0);
        assert_eq!(peaks.window, 1_000.0);
        assert!((peaks.mean - 9_000.0 / 41.0).abs() < 1e-9, "{peaks:?}");
    }

    #[test]
    fn a_short_game_is_one_window() {
        let mut bytes = PlayerBytes::default();
        [10.0, 20.0, 30.0].into_iter().for_each(|it| bytes.add(7, it));
        assert_eq!(bytes.peaks(), PeakRates { mean: 20.0, window: 20.0, second: 30.0 });
        assert_eq!(PlayerBytes::default().peaks(), PeakRates::default());
    }
}

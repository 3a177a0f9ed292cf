//! What a server would know of each player in each round.

use thiserror::Error;

use super::{Sample, Trace};

/// A player without a row for longer than this is absent: it has left or not yet joined.
pub const ABSENT_AFTER_MS: u32 = 500;
/// Most samples (rounds × players) of a resampled recording: about 3 GB.
pub const MAX_RESAMPLED: usize = 1 << 27;

const PRESENT: u8 = 1;
const FRESH: u8 = 2;
const ALIVE: u8 = 4;
const JUMPED: u8 = 8;

/// A round length that cannot be used.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ResampleError {
    /// The length is not a positive time.
    #[error("found rounds of {found} ms, expected a positive number of milliseconds")]
    BadRound {
        /// The length.
        found: f64,
    },
    /// Rounds are so short, or players so many, that the result would be too large.
    #[error(
        "rounds of {round_ms} ms give {rounds} rounds × {players} players, expected at most \
         {limit} in all; use longer rounds"
    )]
    TooManyRounds {
        /// The length.
        round_ms: f64,
        /// Rounds that it would give.
        rounds: f64,
        /// Players in the recording.
        players: usize,
        /// The limit on their product.
        limit: usize,
    },
}

/// A recording cut into rounds. Made by [`Trace::resample`].
#[derive(Debug, Clone)]
pub struct Resampled {
    round_ms: f64,
    rounds: usize,
    players: usize,
    /// All players of round 0, then of round 1, and so on.
    samples: Vec<Sample>,
    flags: Vec<u8>,
    /// For each round, rows of the file since the round before.
    rows: Vec<u32>,
}

impl Resampled {
    /// Number of rounds; the last one starts within the recording.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Number of players, indexed as in the [`Trace`].
    pub fn players(&self) -> usize {
        self.players
    }

    /// Length of a round in milliseconds.
    pub fn round_ms(&self) -> f64 {
        self.round_ms
    }

    /// The time of a round, in milliseconds since the first row of the recording.
    pub fn time_ms(&self, round: usize) -> f64 {
        round as f64 * self.round_ms
    }

    /// The newest sample of a player at or before a round, no older than [`ABSENT_AFTER_MS`].
    ///
    /// # Panics
    /// If there is no such round or player.
    pub fn sample(&self, round: usize, player: usize) -> Option<&Sample> {
        let at = self.at(round, player);
        (self.flags[at] & PRESENT != 0).then(|| &self.samples[at])
    }

    /// Whether a player is present in a round.
    ///
    /// # Panics
    /// If there is no such round or player.
    pub fn is_present(&self, round: usize, player: usize) -> bool {
        self.has(round, player, PRESENT)
    }

    /// Whether the sample of a present player is newer than the round before.
    ///
    /// # Panics
    /// If there is no such round or player.
    pub fn is_new(&self, round: usize, player: usize) -> bool {
        self.has(round, player, FRESH)
    }

    /// Rows of the file since the round before, of all players. Rows that a later row of the same millisecond replaced
    /// are included, since a server would relay each.
    ///
    /// # Panics
    /// If there is no such round.
    pub fn rows(&self, round: usize) -> u32 {
        self.rows[round]
    }

    /// Whether a player is present and alive; if the recording has no states, whether it is present.
    ///
    /// # Panics
    /// If there is no such round or player.
    pub fn is_alive(&self, round: usize, player: usize) -> bool {
        self.has(round, player, ALIVE)
    }

    /// Whether a present player teleported or respawned since the round before, if recorded.
    ///
    /// # Panics
    /// If there is no such round or player.
    pub fn has_jumped(&self, round: usize, player: usize) -> bool {
        self.has(round, player, JUMPED)
    }

    fn has(&self, round: usize, player: usize, flag: u8) -> bool {
        self.flags[self.at(round, player)] & flag != 0
    }

    fn at(&self, round: usize, player: usize) -> usize {
        // Without this, a player out of range would read the next round.
        assert!(player < self.players, "player {player} of {}", self.players);
        round * self.players + player
    }
}

pub(super) fn resample(trace: &Trace, round_ms: f64) -> Result<Resampled, ResampleError> {
    if !(round_ms.is_finite() && round_ms > 0.0) {
        return Err(ResampleError::BadRound { found: round_ms });
    }
    let players = trace.players();
    let rounds = (f64::from(trace.duration_ms()) / round_ms).floor() + 1.0;
    if rounds * players as f64 > MAX_RESAMPLED as f64 {
        let limit = MAX_RESAMPLED;
        return Err(ResampleError::TooManyRounds { round_ms, rounds, players, limit });
    }
    let rounds = rounds as usize;
    let mut resampled = Resampled {
        round_ms,
        rounds,
        players,
        samples: vec![Sample::default(); rounds * players],
        flags: vec![0; rounds * players],
        rows: vec![0; rounds],
    };
    for t_ms in trace.row_times() {
        // The first round that is not earlier; rows after the last round belong to none.
        let round = (f64::from(t_ms) / round_ms).ceil() as usize;
        if let Some(rows) = resampled.rows.get_mut(round) {
            *rows += 1;
        }
    }
    for player in 0..players {
        fill_player(trace, &mut resampled, player);
    }
    Ok(resampled)
}

fn fill_player(trace: &Trace, resampled: &mut Resampled, player: usize) {
    let (samples, states) = (trace.samples(player), trace.states(player));
    let (mut received, mut told) = (0, 0);
    for round in 0..resampled.rounds {
        let now = resampled.time_ms(round);
        let received_before = received;
        while received < samples.len() && f64::from(samples[received].t_ms) <= now {
            received += 1;
        }
        let told_before = told;
        while told < states.len() && f64::from(states[told].t_ms) <= now {
            told += 1;
        }
        let Some(sample) = samples[..received].last() else { continue };
        if now - f64::from(sample.t_ms) > f64::from(ABSENT_AFTER_MS) {
            continue;
        }
        let fresh = received > received_before;
        let alive = states[..told].last().is_none_or(|state| state.alive);
        let jumped = states[told_before..told].iter().any(|state| state.jumped);
        let at = resampled.at(round, player);
        resampled.samples[at] = *sample;
        resampled.flags[at] = PRESENT
            | if fresh { FRESH } else { 0 }
            | if alive { ALIVE } else { 0 }
            | if jumped { JUMPED } else { 0 };
    }
}

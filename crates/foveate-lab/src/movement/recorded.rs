//! A recorded trace of any game as movement.

use super::{AngleGuess, AvatarPose, Movement};
use crate::trace::{AngleConvention, ResampleError, Resampled, Trace};
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// A recording that cannot be played.
#[derive(Debug, Error)]
pub enum PlaybackError {
    /// It cannot be resampled to such rounds.
    #[error(transparent)]
    Resample(#[from] ResampleError),
    /// Its angles are not stated, and its movement does not reveal their convention.
    #[error(
        "{}: the file does not state how its angles are counted, and its movement does not tell: the best \
         guess is {guess}; add a first line such as \"{}\"",
        file.display(),
        AngleConvention::default().statement()
    )]
    UnknownAngles {
        /// The recording.
        file: PathBuf,
        /// The best guess from its movement.
        guess: AngleGuess,
    },
}

/// A trace, resampled to rounds.
#[derive(Clone)]
pub struct Recorded {
    samples: Arc<Resampled>,
    rounds: usize,
    convention: AngleConvention,
    guess: Option<AngleGuess>,
    round: usize,
    started: bool,
    side: f32,
    extent: f32,
    max_speed: f32,
}

/// Moves faster than this many times the usual speed are jumps.
const JUMP_FACTOR: f32 = 2.5;

impl Recorded {
    /// Plays a trace in rounds of this length. Fails if the file does not state how its angles are counted and its
    /// movement leaves it in doubt.
    pub fn new(trace: &Trace, round_ms: f64) -> Result<Recorded, PlaybackError> {
        let samples = trace.resample(round_ms)?;
        let (convention, guess) = match trace.convention() {
            Some(stated) => (stated, None),
            None => {
                let guess = AngleGuess::of(&samples);
                if !guess.is_sure() {
                    let file = trace.name().to_path_buf();
                    return Err(PlaybackError::UnknownAngles { file, guess });
                }
                (guess.convention, Some(guess))
            }
        };
        let bounds = trace.bounds();
        let coordinate = bounds.min.iter().chain(&bounds.max).fold(1.0, |a: f32, b| a.max(b.abs()));
        Ok(Recorded {
            convention,
            guess,
            max_speed: usual_speed(&samples) * JUMP_FACTOR,
            rounds: samples.rounds(),
            samples: Arc::new(samples),
            round: 0,
            started: false,
            side: trace.longer_side(),
            extent: coordinate.ceil() + 1.0,
        })
    }

    /// The acceleration of free fall, in steps of `precision` per round²: the second difference of height that is by
    /// far the most common, or zero. A game's author knows it; here it is derived from the recording.
    pub fn fall(&self, precision: f32) -> i32 {
        let mut seen = std::collections::BTreeMap::new();
        let height = |round: usize, player: usize| {
            let z = self.samples.sample(round, player)?.pos[2];
            Some((z / precision).round() as i32)
        };
        for round in 2..self.samples.rounds().min(4_000) {
            for player in 0..self.samples.players() {
                let heights = [0, 1, 2].map(|back| height(round - back, player));
                let [Some(a), Some(b), Some(c)] = heights else { continue };
                let fall = 2 * b - a - c;
                // Only in free fall, not on a step of a stair.
                if fall > 0 && a != b && b != c {
                    *seen.entry(fall).or_insert(0u32) += 1;
                }
            }
        }
        let all: u32 = seen.values().sum();
        let most = seen.into_iter().max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count * 5 > all && all > 100).map_or(0, |(fall, _)| fall)
    }

    /// Number of rounds.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Keeps only the first `rounds` rounds.
    pub fn shorten(&mut self, rounds: usize) {
        self.rounds = self.rounds.min(rounds);
    }

    /// The length of a round.
    pub fn round_seconds(&self) -> f64 {
        self.samples.round_ms() / 1e3
    }

    /// The current round.
    pub fn round(&self) -> usize {
        self.round
    }

    /// How the recording counts its angles.
    pub fn convention(&self) -> AngleConvention {
        self.convention
    }

    /// The guess that the convention rests on; `None` if the file states the convention.
    pub fn guess(&self) -> Option<AngleGuess> {
        self.guess
    }

    /// The convention and its origin, as text.
    pub fn angles(&self) -> String {
        match self.guess {
            Some(guess) => format!("angles not stated, guessed from the movement: {guess}"),
            None => format!("angles as stated: {}", self.convention),
        }
    }

    /// An avatar's pose in any round.
    pub fn pose_in(&self, round: usize, at: usize) -> Option<AvatarPose> {
        let sample = self.samples.sample(round, at)?;
        Some(AvatarPose {
            pos: sample.pos,
            yaw: self.convention.yaw(sample.yaw),
            pitch: self.convention.pitch(sample.pitch),
            state: 0,
        })
    }
}

impl Movement for Recorded {
    fn len(&self) -> usize {
        self.samples.players()
    }

    fn step(&mut self) -> bool {
        if self.started {
            self.round += 1;
        }
        self.started = true;
        self.round < self.rounds
    }

    fn pose(&self, at: usize) -> Option<AvatarPose> {
        self.pose_in(self.round, at)
    }

    fn updates(&self) -> Option<u64> {
        Some(u64::from(self.samples.rows(self.round)))
    }

    fn side(&self) -> f32 {
        self.side
    }

    fn extent(&self) -> f32 {
        self.extent
    }

    fn max_speed(&self) -> f32 {
        self.max_speed
    }
}

/// Movement from one round to the next, for a sample of rounds.
fn moves(samples: &Resampled) -> impl Iterator<Item = (usize, usize, [f32; 3])> + '_ {
    let step = (samples.rounds() / 400).max(1);
    (1..samples.rounds()).step_by(step).flat_map(move |round| {
        (0..samples.players()).filter_map(move |player| {
            let (now, then) = (samples.sample(round, player)?, samples.sample(round - 1, player)?);
            Some((round, player, [0, 1, 2].map(|i| now.pos[i] - then.pos[i])))
        })
    })
}

/// The 95th percentile of speeds, in units per second.
fn usual_speed(samples: &Resampled) -> f32 {
    let length = |d: [f32; 3]| d.iter().map(|x| x * x).sum::<f32>().sqrt();
    let mut speeds: Vec<f32> =
        moves(samples).map(|(.., d)| length(d)).filter(|s| *s > 0.0).collect();
    if speeds.is_empty() {
        return 1.0;
    }
    speeds.sort_by(f32::total_cmp);
    speeds[speeds.len() * 95 / 100] * 1_000.0 / samples.round_ms() as f32
}

//! A recorded trace as movement, whatever game it is from.

use super::{Movement, Pose};
use crate::trace::{ResampleError, Resampled, Trace};
use std::sync::Arc;

/// Games measure yaw from different axes and pitch up or down; which, the recording tells: people
/// run where they look, and look at whom they aim at.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Convention {
    /// Degrees to add to a yaw that counts counter-clockwise from +x.
    pub yaw_offset: f32,
    /// 1: counter-clockwise, −1: clockwise.
    pub yaw_sign: f32,
    /// 1: up, −1: down.
    pub pitch_sign: f32,
}

/// A trace, round by round.
#[derive(Clone)]
pub struct Recorded {
    samples: Arc<Resampled>,
    rounds: usize,
    convention: Convention,
    round: usize,
    started: bool,
    side: f32,
    extent: f32,
    max_speed: f32,
}

/// Moves faster than this many times the usual are jumps.
const JUMP_FACTOR: f32 = 2.5;

impl Recorded {
    /// Plays a trace in rounds of this length.
    pub fn new(trace: &Trace, round_ms: f64) -> Result<Recorded, ResampleError> {
        let samples = trace.resample(round_ms)?;
        let bounds = trace.bounds();
        let coordinate = bounds.min.iter().chain(&bounds.max).fold(1.0, |a: f32, b| a.max(b.abs()));
        Ok(Recorded {
            convention: Convention::of(&samples),
            max_speed: usual_speed(&samples) * JUMP_FACTOR,
            rounds: samples.rounds(),
            samples: Arc::new(samples),
            round: 0,
            started: false,
            side: trace.longer_side(),
            extent: coordinate.ceil() + 1.0,
        })
    }

    /// How people fall, in steps of `precision` per round²: the second difference of height that
    /// is by far the most common, or zero. A game's author knows it; a recording shows it.
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
                // Only in free flight, not a step of a stair.
                if fall > 0 && a != b && b != c {
                    *seen.entry(fall).or_insert(0u32) += 1;
                }
            }
        }
        let all: u32 = seen.values().sum();
        let most = seen.into_iter().max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count * 5 > all && all > 100).map_or(0, |(fall, _)| fall)
    }

    /// How many rounds there are.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Leaves the rest out.
    pub fn shorten(&mut self, rounds: usize) {
        self.rounds = self.rounds.min(rounds);
    }

    /// The length of a round.
    pub fn round_seconds(&self) -> f64 {
        self.samples.round_ms() / 1e3
    }

    /// The round at hand.
    pub fn round(&self) -> usize {
        self.round
    }

    /// What the recording says of its angles.
    pub fn convention(&self) -> Convention {
        self.convention
    }

    /// The pose of one in any round.
    pub fn pose_in(&self, round: usize, at: usize) -> Option<Pose> {
        let sample = self.samples.sample(round, at)?;
        let Convention { yaw_offset, yaw_sign, pitch_sign } = self.convention;
        Some(Pose {
            pos: sample.pos,
            yaw: (yaw_sign * sample.yaw + yaw_offset).to_radians(),
            pitch: (pitch_sign * sample.pitch).to_radians(),
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

    fn pose(&self, at: usize) -> Option<Pose> {
        self.pose_in(self.round, at)
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

/// Moves from one round to the next, of a sample of rounds.
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

impl Convention {
    fn of(samples: &Resampled) -> Convention {
        let mut best = (f64::MIN, Convention { yaw_offset: 0.0, yaw_sign: 1.0, pitch_sign: 1.0 });
        for yaw_sign in [1.0, -1.0] {
            for quarter in 0..4 {
                let convention =
                    Convention { yaw_offset: 90.0 * quarter as f32, yaw_sign, pitch_sign: 1.0 };
                let score = convention.runs_ahead(samples);
                if score > best.0 {
                    best = (score, convention);
                }
            }
        }
        let mut convention = best.1;
        if convention.aims_up(samples) < 0.0 {
            convention.pitch_sign = -1.0;
        }
        convention
    }

    fn yaw(&self, degrees: f32) -> f32 {
        (self.yaw_sign * degrees + self.yaw_offset).to_radians()
    }

    /// How far people run where they look.
    fn runs_ahead(&self, samples: &Resampled) -> f64 {
        let ahead = |(round, player, d): (usize, usize, [f32; 3])| {
            let yaw = self.yaw(samples.sample(round, player).map_or(0.0, |sample| sample.yaw));
            let length = d[0].hypot(d[1]).max(1e-6);
            f64::from((d[0] * yaw.cos() + d[1] * yaw.sin()) / length)
        };
        moves(samples).filter(|(.., d)| d[0].hypot(d[1]) > 1e-3).map(ahead).sum()
    }

    /// How far people look up at those above them, among those they look at.
    fn aims_up(&self, samples: &Resampled) -> f64 {
        let step = (samples.rounds() / 200).max(1);
        let mut sum = 0.0;
        for round in (0..samples.rounds()).step_by(step) {
            let all: Vec<_> =
                (0..samples.players()).filter_map(|player| samples.sample(round, player)).collect();
            for eye in &all {
                let yaw = self.yaw(eye.yaw);
                for other in &all {
                    let d = [0, 1, 2].map(|i| other.pos[i] - eye.pos[i]);
                    let level = d[0].hypot(d[1]);
                    let ahead = d[0] * yaw.cos() + d[1] * yaw.sin();
                    // Nearly straight ahead, and clearly above or below.
                    if ahead > 0.98 * level && level > 1e-3 {
                        sum += f64::from(d[2].atan2(level) * eye.pitch.to_radians());
                    }
                }
            }
        }
        sum
    }
}

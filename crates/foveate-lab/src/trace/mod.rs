//! Recorded player movement: reading, resampling and writing.
//!
//! A recording is a CSV file, plain or gzip, of `t_ms,id,x,y,z,yaw,pitch`: one row per player and sample, in order of
//! time. Two optional companion files beside `X.csv.gz` are read with it: `X_ext.csv.gz` (life, team, weapon, respawns;
//! see [`PlayerState`]) and `X_vis.csv.gz` (which players see each other; see [`RecordedSight`]).
//!
//! The path of a row: bytes → line → fields → checked numbers → one sorted run per player → [`Trace::resample`] → what
//! a server would know in each round. Everything is checked once, here; a [`Trace`] has only valid values. The module
//! does not guess: nothing is interpolated, no row is skipped, and an invalid file gives one [`TraceError`] with its
//! line.
//!
//! **Units are the game's own.** Angles are degrees, lengths the engine's units. Samples have angles as recorded;
//! [`Trace::convention`] is what the file states about them. Yaw is not wrapped.

mod base;
mod by_player;
mod convention;
mod csv;
mod error;
mod resample;
mod state;
mod visibility;
mod writer;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use convention::{AngleConvention, UnknownConvention};
pub use error::{TraceError, TraceFault};
pub use resample::{ABSENT_AFTER_MS, MAX_RESAMPLED, ResampleError, Resampled};
pub use state::PlayerState;
pub use visibility::{RecordedSight, VISIBILITY_STALE_AFTER_MS};
pub use writer::{TraceWriter, opening_lines};

use by_player::{ByPlayer, Timed};
use state::States;

/// Largest file read, after unpacking.
pub const MAX_UNPACKED_BYTES: u64 = 1 << 30;
/// Most distinct players in a recording.
pub const MAX_PLAYERS: usize = 65_536;
/// Longest time without a row of any player. After a longer one the recorder was not running, and the change of places
/// is not movement.
pub const MAX_SILENCE_MS: u32 = 10_000;
/// Most rows of one player in one millisecond. A recorder of arrivals gets late packets in bursts (up to six in Cube
/// 2); the newest row is used.
pub const MAX_BURST: u32 = 16;
/// Largest absolute value of a coordinate, in the game's units.
pub const MAX_COORDINATE: f64 = 1e6;
/// Largest absolute value of an angle, in degrees: ten turns, since not all games wrap angles.
pub const MAX_ANGLE: f64 = 3600.0;

/// The columns of a recording.
const COLUMNS: [&str; 7] = ["t_ms", "id", "x", "y", "z", "yaw", "pitch"];

/// A player's place and facing at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sample {
    /// Milliseconds since the first row of the recording.
    pub t_ms: u32,
    pub pos: [f32; 3],
    /// Heading in degrees, not wrapped.
    pub yaw: f32,
    /// Elevation in degrees, with the game's own sign.
    pub pitch: f32,
}

impl Timed for Sample {
    fn t_ms(&self) -> u32 {
        self.t_ms
    }
}

/// A time without rows of one player while the recording continued: it had left, or its packets were late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Index of the player.
    pub player: usize,
    /// Time of its last row before the gap.
    pub from_ms: u32,
    /// Time of its first row after the gap.
    pub to_ms: u32,
}

/// The bounding box of all places of a recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceBounds {
    pub min: [f32; 3],
    pub max: [f32; 3],
}

impl TraceBounds {
    /// The longer of the x and y extents: the world's size, as the sources count it.
    pub fn longer_side(&self) -> f32 {
        (self.max[0] - self.min[0]).max(self.max[1] - self.min[1])
    }

    fn of<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<Self> {
        samples.fold(None, |bounds, sample| {
            let mut bounds = bounds.unwrap_or(Self { min: sample.pos, max: sample.pos });
            for axis in 0..3 {
                bounds.min[axis] = bounds.min[axis].min(sample.pos[axis]);
                bounds.max[axis] = bounds.max[axis].max(sample.pos[axis]);
            }
            Some(bounds)
        })
    }
}

/// A recording in memory.
///
/// Players are indexed `0..players()` in ascending order of their ids. Times count from the first
/// row of the file, which is millisecond 0 whatever the file calls it.
///
/// ```no_run
/// use foveate_lab::trace::Trace;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let trace = Trace::read("traces/openarena_oa_dm3_16bots.csv.gz".as_ref())?;
/// let rounds = trace.resample(50.0)?;
/// for round in 0..rounds.rounds() {
///     for player in 0..rounds.players() {
///         if let Some(sample) = rounds.sample(round, player) {
///             println!("{} at {:?}", trace.player_id(player), sample.pos);
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Trace {
    name: PathBuf,
    convention: Option<AngleConvention>,
    origin_ms: u64,
    duration_ms: u32,
    ids: Vec<u32>,
    samples: ByPlayer<Sample>,
    /// Player and index of each sample, in order of time.
    arrivals: Vec<(u32, u32)>,
    /// Times of the rows that were replaced by a later row of the same player and millisecond.
    superseded: Vec<u32>,
    states: Option<States>,
    visibility: Option<RecordedSight>,
    bounds: TraceBounds,
}

impl Trace {
    /// Reads a recording, with its companions if they exist.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let mut trace = Self::from_reader(open(path)?, path)?;
        if let Some(path) = companion(path, "_ext") {
            trace.states = Some(States::read(open(&path)?, &path, &trace)?);
            trace.bounds = trace.living_bounds().unwrap_or(trace.bounds);
        }
        if let Some(path) = companion(path, "_vis") {
            trace.visibility = Some(RecordedSight::read(open(&path)?, &path, &trace)?);
        }
        Ok(trace)
    }

    /// Reads a recording without companions from any source; errors contain `name`.
    pub fn from_reader(source: impl Read, name: &Path) -> Result<Self, TraceError> {
        base::read(source, name, Limits::default())
    }

    /// Number of distinct players.
    pub fn players(&self) -> usize {
        self.ids.len()
    }

    /// A player's id in the file.
    ///
    /// # Panics
    /// If there is no such player.
    pub fn player_id(&self, player: usize) -> u32 {
        self.ids[player]
    }

    /// The file's time of what is millisecond 0 here.
    pub fn origin_ms(&self) -> u64 {
        self.origin_ms
    }

    /// Time of the last row, in milliseconds.
    pub fn duration_ms(&self) -> u32 {
        self.duration_ms
    }

    /// The samples of a player, strictly ascending in time; at least one.
    ///
    /// # Panics
    /// If there is no such player.
    pub fn samples(&self, player: usize) -> &[Sample] {
        self.samples.of(player)
    }

    /// All samples in order of time, each with its player.
    pub fn arrivals(&self) -> impl ExactSizeIterator<Item = (usize, &Sample)> {
        self.arrivals.iter().map(|&(player, at)| (player as usize, self.samples.row(at as usize)))
    }

    /// Number of samples of all players.
    pub fn sample_count(&self) -> usize {
        self.samples.len()
    }

    /// Number of rows that were replaced by a later row of the same player and millisecond.
    pub fn superseded(&self) -> u64 {
        self.superseded.len() as u64
    }

    /// The times of all rows of the file, including replaced ones, in no particular order.
    pub(crate) fn row_times(&self) -> impl Iterator<Item = u32> {
        self.arrivals().map(|(_, sample)| sample.t_ms).chain(self.superseded.iter().copied())
    }

    /// The path of the file, or the name given to [`Trace::from_reader`].
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// How angles are counted, if the file states it.
    pub fn convention(&self) -> Option<AngleConvention> {
        self.convention
    }

    /// Times in which a player had no row for longer than [`ABSENT_AFTER_MS`], so that it counts as absent; by player,
    /// then by time. Late joins and early leaves are not gaps.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        for player in 0..self.players() {
            for pair in self.samples(player).windows(2) {
                let (from_ms, to_ms) = (pair[0].t_ms, pair[1].t_ms);
                if to_ms - from_ms > ABSENT_AFTER_MS {
                    gaps.push(Gap { player, from_ms, to_ms });
                }
            }
        }
        gaps
    }

    /// The bounding box of all places; with a file `_ext`, of living players only.
    pub fn bounds(&self) -> TraceBounds {
        self.bounds
    }

    /// The longer of the x and y extents of [`Trace::bounds`].
    pub fn longer_side(&self) -> f32 {
        self.bounds.longer_side()
    }

    /// Whether the recording has a companion with life, team and weapon.
    pub fn has_states(&self) -> bool {
        self.states.is_some()
    }

    /// A player's newest state at or before a time. `None` if the recording has no states.
    ///
    /// # Panics
    /// If there is no such player.
    pub fn state(&self, player: usize, t_ms: u32) -> Option<&PlayerState> {
        self.states.as_ref()?.at(player, t_ms)
    }

    /// All states of a player, ascending in time; empty if the recording has none.
    ///
    /// # Panics
    /// If there is no such player.
    pub fn states(&self, player: usize) -> &[PlayerState] {
        self.states.as_ref().map_or(&[], |states| states.of(player))
    }

    /// Whether a player is alive at a time; true if the recording has no states.
    ///
    /// # Panics
    /// If there is no such player.
    pub fn is_alive(&self, player: usize, t_ms: u32) -> bool {
        self.state(player, t_ms).is_none_or(|state| state.alive)
    }

    /// Which players see each other, if recorded.
    pub fn visibility(&self) -> Option<&RecordedSight> {
        self.visibility.as_ref()
    }

    /// What a server would know in each round of `round_ms` milliseconds: round `k` is at time `k * round_ms`. Nothing
    /// is interpolated.
    pub fn resample(&self, round_ms: f64) -> Result<Resampled, ResampleError> {
        resample::resample(self, round_ms)
    }

    fn living_bounds(&self) -> Option<TraceBounds> {
        let players = 0..self.players();
        TraceBounds::of(players.flat_map(|player| {
            self.samples(player).iter().filter(move |sample| self.is_alive(player, sample.t_ms))
        }))
    }
}

/// The most that a reader accepts; the defaults are the public constants.
#[derive(Debug, Clone, Copy)]
struct Limits {
    unpacked_bytes: u64,
    players: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { unpacked_bytes: MAX_UNPACKED_BYTES, players: MAX_PLAYERS }
    }
}

fn open(path: &Path) -> Result<File, TraceError> {
    File::open(path).map_err(|error| TraceError::new(path, 0, TraceFault::Io(error)))
}

/// The file `X_ext.csv.gz` or `X_ext.csv` beside `X.csv.gz` or `X.csv`, if there is one.
fn companion(path: &Path, suffix: &str) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".csv.gz").or_else(|| name.strip_suffix(".csv"))?;
    [".csv.gz", ".csv"]
        .iter()
        .map(|ending| path.with_file_name(format!("{stem}{suffix}{ending}")))
        .find(|path| path.is_file())
}

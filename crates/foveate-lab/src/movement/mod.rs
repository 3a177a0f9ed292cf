//! Who moves how: recorded traces, random waypoints, crowds; a game brings its own.

mod angles;
mod crowd;
mod recorded;
mod tiled;
mod waypoint;

pub use angles::AngleGuess;
pub use crowd::Crowd;
pub use recorded::{PlaybackError, Recorded};
pub use tiled::Tiled;
pub use waypoint::{Waypoint, WaypointSpec};

/// Where somebody is and looks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct AvatarPose {
    /// The place, in world units.
    pub pos: [f32; 3],
    /// Radians, counter-clockwise from +x.
    pub yaw: f32,
    /// Radians, up.
    pub pitch: f32,
    /// Something else about it that changes now and then.
    pub state: u8,
}

/// A world's movement, one round at a time. Deterministic for a seed.
pub trait Movement {
    /// How many there may be at most; each has a number below it for good.
    fn len(&self) -> usize;
    /// Whether there can be nobody.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The next round; false when there is no more.
    fn step(&mut self) -> bool;
    /// Where one is now; none: not in the world.
    fn pose(&self, at: usize) -> Option<AvatarPose>;
    /// Updates that the recorded game took in for this round, each of which it relayed to everybody; none:
    /// not a recording.
    fn updates(&self) -> Option<u64> {
        None
    }
    /// The longer side of the world.
    fn side(&self) -> f32;
    /// No coordinate is larger.
    fn extent(&self) -> f32;
    /// Nobody moves faster, in units per second, but by jumping.
    fn max_speed(&self) -> f32;
}

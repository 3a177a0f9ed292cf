//! Movement of avatars: recorded traces, random waypoints, crowds. A game can provide its own.

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

/// An avatar's place, facing and state.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct AvatarPose {
    /// In world units.
    pub pos: [f32; 3],
    /// Radians, counter-clockwise from +x.
    pub yaw: f32,
    /// Radians, up.
    pub pitch: f32,
    /// A field that changes now and then.
    pub state: u8,
}

/// The movement of all avatars of a world, one round at a time; deterministic for a seed.
pub trait Movement {
    /// The largest number of avatars at a time. Each keeps a number below this.
    fn len(&self) -> usize;
    /// Whether there can be no avatars.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Advances to the next round; false at the end.
    fn step(&mut self) -> bool;
    /// An avatar's pose in this round; `None` if it is not in the world.
    fn pose(&self, at: usize) -> Option<AvatarPose>;
    /// Updates that the recorded game received for this round and relayed to all players; `None` unless it is a
    /// recording.
    fn updates(&self) -> Option<u64> {
        None
    }
    /// The longer side of the world.
    fn side(&self) -> f32;
    /// An upper bound of the absolute value of all coordinates.
    fn extent(&self) -> f32;
    /// The largest speed in units per second, except for jumps.
    fn max_speed(&self) -> f32;
}

//! A recorded trace, repeated side by side until there are N players.

use super::{AvatarPose, Movement, Recorded};

/// Copies of a trace on a grid of tiles. Each copy starts at a different time, and the tiles are scaled so that a
/// player has on average as much room as in a crowd: 40 × 40 units.
pub struct Tiled {
    trace: Recorded,
    count: usize,
    scale: f32,
    tiles_per_row: usize,
    /// A tile's sides, scaled.
    tile: [f32; 2],
    low: [f32; 2],
    round: usize,
}

/// Rounds between the starts of neighbouring copies.
const OFFSET: usize = 137;
/// Room per player, in square units.
const ROOM: f32 = 1_600.0;

impl Tiled {
    /// Makes enough copies for `count` players.
    pub fn new(trace: Recorded, bounds: &crate::trace::TraceBounds, count: usize) -> Tiled {
        let spread = [0, 1].map(|i| (bounds.max[i] - bounds.min[i]).max(1.0));
        let per_tile = trace.len().max(1);
        let scale = (ROOM * per_tile as f32 / (spread[0] * spread[1])).sqrt();
        let tiles = count.div_ceil(per_tile);
        Tiled {
            count,
            scale,
            tiles_per_row: (tiles as f32).sqrt().ceil() as usize,
            tile: spread.map(|side| side * scale),
            low: [bounds.min[0], bounds.min[1]],
            round: 0,
            trace,
        }
    }

    /// Units of this world per unit of the trace.
    pub fn scale(&self) -> f32 {
        self.scale
    }
}

impl Movement for Tiled {
    fn len(&self) -> usize {
        self.count
    }

    fn step(&mut self) -> bool {
        self.round += 1;
        true
    }

    fn pose(&self, at: usize) -> Option<AvatarPose> {
        let (tile, player) = (at / self.trace.len(), at % self.trace.len());
        let round = (self.round + tile * OFFSET) % self.trace.rounds();
        let mut pose = self.trace.pose_in(round, player)?;
        let corner = [(tile % self.tiles_per_row) as f32, (tile / self.tiles_per_row) as f32];
        for (axis, corner) in corner.into_iter().enumerate() {
            let inside = (pose.pos[axis] - self.low[axis]) * self.scale;
            pose.pos[axis] = corner * self.tile[axis] + inside;
        }
        pose.pos[2] *= self.scale;
        Some(pose)
    }

    fn side(&self) -> f32 {
        self.extent()
    }

    fn extent(&self) -> f32 {
        self.tiles_per_row as f32 * self.tile[0].max(self.tile[1]) + 1.0
    }

    fn max_speed(&self) -> f32 {
        self.trace.max_speed() * self.scale
    }
}

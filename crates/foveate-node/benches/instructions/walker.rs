//! The one kind of object of the benchmark, and how it walks.

use foveate_sync::interest::{View, presets};
use foveate_wire::{Replicate, Schema};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Milliseconds of a round.
pub const ROUND_MS: u64 = 50;
/// Mean distance of two neighbours, in units.
const SPACING: f32 = 40.0;
/// Units per round: 6 a second.
const PACE: f32 = 0.3;
/// On average one round in this many changes the heading.
const TURNS: u32 = 40;

/// A walking avatar.
#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 20.0)]
pub struct BenchWalker {
    #[replicate(place, motion, precision = 0.015625, extent = 2000.0)]
    pub pos: [f32; 3],
    #[replicate(yaw, steps = 240, floor = 0.26)]
    pub yaw: f32,
    pub state: u8,
}

/// A walker's input in a round.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct BenchStride {
    /// Eighths of a full turn, counter-clockwise from +x.
    pub heading: u8,
    pub walks: bool,
    pub state: u8,
}

/// A table, so that no result depends on the system's mathematics library.
const HEADINGS: [[f32; 2]; 8] = [
    [1.0, 0.0],
    [0.707, 0.707],
    [0.0, 1.0],
    [-0.707, 0.707],
    [-1.0, 0.0],
    [-0.707, -0.707],
    [0.0, -1.0],
    [0.707, -0.707],
];

impl BenchWalker {
    /// The `nth` of `count` walkers, on a grid around the middle of the world.
    pub fn new(nth: usize, count: usize) -> BenchWalker {
        let columns = (count as f32).sqrt().ceil() as usize;
        let place = |at: usize| (at as f32 - columns as f32 / 2.0) * SPACING;
        BenchWalker { pos: [place(nth % columns), place(nth / columns), 0.0], yaw: 0.0, state: 0 }
    }

    /// Walks for one round.
    pub fn walk(&mut self, stride: BenchStride) {
        let heading = usize::from(stride.heading % 8);
        if stride.walks {
            self.pos[0] += PACE * HEADINGS[heading][0];
            self.pos[1] += PACE * HEADINGS[heading][1];
        }
        self.yaw = heading as f32 * std::f32::consts::FRAC_PI_4;
        self.state = stride.state;
    }
}

/// Inputs of all walkers, round by round, from a seed. Each walks to and fro around its start.
pub struct Strides {
    rng: fastrand::Rng,
    now: Vec<BenchStride>,
}

impl Strides {
    pub fn new(count: usize, seed: u64) -> Strides {
        let mut rng = fastrand::Rng::with_seed(seed);
        let stride = |_| BenchStride { heading: rng.u8(..8), walks: true, state: 0 };
        let now = (0..count).map(stride).collect();
        Strides { rng, now }
    }

    /// The inputs of the next round.
    pub fn step(&mut self) -> &[BenchStride] {
        for stride in &mut self.now {
            match self.rng.u32(..TURNS * 4) {
                0 => stride.state = stride.state.wrapping_add(1),
                1 => stride.walks = !stride.walks,
                2..=4 => stride.heading = (stride.heading + self.rng.u8(3..6)) % 8,
                _ => {}
            }
        }
        &self.now
    }
}

/// Every walker's view: VFC's normal view, cut off at three times the mean distance of neighbours.
pub fn view() -> View {
    let mut view = presets::normal(24.0, 48.0);
    view.zones[2] = 3.0 * SPACING;
    view
}

pub fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![BenchWalker::spec()]).expect("the schema of the benchmark is valid"))
}

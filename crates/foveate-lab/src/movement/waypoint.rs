//! Random-waypoint movement on a square.

use super::{AvatarPose, Movement};

/// Settings of the movement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WaypointSpec {
    /// Number of walkers.
    pub count: usize,
    /// The side of the square.
    pub side: f32,
    /// Slowest and fastest speed, in units per second.
    pub speed: [f32; 2],
    /// Shortest and longest pause at a waypoint, in seconds.
    pub pause: [f32; 2],
    /// The next waypoint is within this distance on each axis; infinite for anywhere.
    pub leg: f32,
    /// Rounds per second.
    pub rate: f32,
}

#[derive(Clone, Copy, Debug)]
struct Walker {
    at: [f32; 2],
    target: [f32; 2],
    speed: f32,
    rest: f32,
    yaw: f32,
}

/// Walkers that go from one random point to the next, facing the direction of their last step.
#[derive(Clone, Debug)]
pub struct Waypoint {
    spec: WaypointSpec,
    rng: fastrand::Rng,
    walkers: Vec<Walker>,
}

impl Waypoint {
    /// Spreads walkers over the square.
    pub fn new(spec: WaypointSpec, seed: u64) -> Waypoint {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut walkers = Vec::with_capacity(spec.count);
        for _ in 0..spec.count {
            let at = [rng.f32() * spec.side, rng.f32() * spec.side];
            let mut walker = Walker { at, target: at, speed: 0.0, rest: 0.0, yaw: 0.0 };
            depart(&mut walker, &spec, &mut rng);
            walkers.push(walker);
        }
        Waypoint { spec, rng, walkers }
    }

    /// Whether an avatar is walking rather than pausing.
    pub fn is_walking(&self, at: usize) -> bool {
        self.walkers[at].rest <= 0.0
    }
}

fn between(rng: &mut fastrand::Rng, [low, high]: [f32; 2]) -> f32 {
    low + (high - low) * rng.f32()
}

fn depart(walker: &mut Walker, spec: &WaypointSpec, rng: &mut fastrand::Rng) {
    walker.target = walker.at.map(|from| {
        let (low, high) = ((from - spec.leg).max(0.0), (from + spec.leg).min(spec.side));
        between(rng, [low, high])
    });
    walker.speed = between(rng, spec.speed);
    let way = [walker.target[0] - walker.at[0], walker.target[1] - walker.at[1]];
    walker.yaw = way[1].atan2(way[0]);
}

impl Movement for Waypoint {
    fn len(&self) -> usize {
        self.walkers.len()
    }

    fn step(&mut self) -> bool {
        let Waypoint { spec, rng, walkers } = self;
        let round = 1.0 / spec.rate;
        for walker in walkers {
            if walker.rest > 0.0 {
                walker.rest -= round;
                if walker.rest <= 0.0 {
                    depart(walker, spec, rng);
                }
                continue;
            }
            let way = [walker.target[0] - walker.at[0], walker.target[1] - walker.at[1]];
            let (left, step) = (way[0].hypot(way[1]), walker.speed * round);
            if left > step {
                walker.at = [0, 1].map(|i| walker.at[i] + way[i] / left * step);
                continue;
            }
            walker.at = walker.target;
            walker.rest = between(rng, spec.pause);
            if walker.rest <= 0.0 {
                depart(walker, spec, rng);
            }
        }
        true
    }

    fn pose(&self, at: usize) -> Option<AvatarPose> {
        let walker = self.walkers.get(at)?;
        let pos = [walker.at[0], walker.at[1], 0.0];
        Some(AvatarPose { pos, yaw: walker.yaw, ..AvatarPose::default() })
    }

    fn side(&self) -> f32 {
        self.spec.side
    }

    fn extent(&self) -> f32 {
        self.spec.side
    }

    fn max_speed(&self) -> f32 {
        self.spec.speed[1]
    }
}

//! *crowd-N*: the workload with which alternatives were compared.

use super::{AvatarPose, Movement, Waypoint, WaypointSpec};

/// A square of side 40·√N; waypoints within 60 units, 2–8 units/s, pauses of 0–3 s. While an avatar walks, its z bobs
/// by 0.1 and its yaw sways, each round. A state changes about every five seconds.
#[derive(Clone, Debug)]
pub struct Crowd {
    walk: Waypoint,
    rng: fastrand::Rng,
    rate: f32,
    round: u32,
    states: Vec<u8>,
    /// The phase of each avatar's sway.
    phases: Vec<f32>,
}

/// The amplitude of the yaw's sway in radians: that of a walking body, about 5°.
const SWAY: f32 = 0.08;

impl Crowd {
    /// Makes `count` walkers; `rate` is rounds per second.
    pub fn new(count: usize, rate: f32, seed: u64) -> Crowd {
        let side = 40.0 * (count as f32).sqrt();
        let spec =
            WaypointSpec { count, side, speed: [2.0, 8.0], pause: [0.0, 3.0], leg: 60.0, rate };
        let mut rng = fastrand::Rng::with_seed(seed ^ 0xc0de);
        let phases = (0..count).map(|_| rng.f32() * std::f32::consts::TAU).collect();
        Crowd {
            walk: Waypoint::new(spec, seed),
            rng,
            rate,
            round: 0,
            states: vec![0; count],
            phases,
        }
    }
}

impl Movement for Crowd {
    fn len(&self) -> usize {
        self.walk.len()
    }

    fn step(&mut self) -> bool {
        self.round += 1;
        let change = 1.0 / (5.0 * self.rate);
        for state in &mut self.states {
            if self.rng.f32() < change {
                *state = self.rng.u8(..);
            }
        }
        self.walk.step()
    }

    fn pose(&self, at: usize) -> Option<AvatarPose> {
        let mut pose = self.walk.pose(at)?;
        if self.walk.is_walking(at) {
            // About two steps a second.
            let angle = self.round as f32 / self.rate * 12.0 + self.phases[at];
            pose.pos[2] = 0.1 * angle.sin();
            pose.yaw += SWAY * (angle * 0.5).sin();
        }
        Some(AvatarPose { state: self.states[at], ..pose })
    }

    fn side(&self) -> f32 {
        self.walk.side()
    }

    fn extent(&self) -> f32 {
        self.walk.extent()
    }

    fn max_speed(&self) -> f32 {
        // The bob adds up to 1.2 units/s to the walk.
        self.walk.max_speed() + 1.5
    }
}

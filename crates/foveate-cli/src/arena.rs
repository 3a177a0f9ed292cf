//! The arena as a world for the laboratory, which depends on no game: bots as movement, walls as visibility.

use foveate_arena::movement::MAX_SPEED;
use foveate_arena::{ArenaMap, RoamingBots, Walls};
use foveate_lab::experiments::{LabHost, WalledWorld};
use foveate_lab::movement::{AvatarPose, Movement};
use std::sync::Arc;
use std::time::Instant;

/// Bots on one map.
const BOTS: usize = 64;
/// The side of the map.
const SIDE: f64 = 300.0;
/// Obstacles on it, about as dense as on the arena's own maps.
const OBSTACLES: usize = 160;

/// The movement of the arena's bots, one tick per round.
pub struct ArenaMovement {
    map: Arc<ArenaMap>,
    bots: RoamingBots,
}

impl ArenaMovement {
    /// Makes `count` bots on a map.
    pub fn new(map: Arc<ArenaMap>, count: usize, seed: u64) -> ArenaMovement {
        let bots = RoamingBots::new(Arc::clone(&map), count, seed);
        ArenaMovement { map, bots }
    }
}

impl Movement for ArenaMovement {
    fn len(&self) -> usize {
        self.bots.len()
    }

    fn step(&mut self) -> bool {
        self.bots.step();
        true
    }

    fn pose(&self, at: usize) -> Option<AvatarPose> {
        let place = self.bots.position(at);
        let pos = [place.x as f32, place.y as f32, 0.0];
        Some(AvatarPose { pos, yaw: self.bots.yaw(at) as f32, ..AvatarPose::default() })
    }

    fn side(&self) -> f32 {
        self.map.side() as f32
    }

    fn extent(&self) -> f32 {
        self.map.side() as f32
    }

    fn max_speed(&self) -> f32 {
        MAX_SPEED as f32
    }
}

/// The arena's worlds and this machine's clock, for the laboratory.
pub struct ArenaHost(Instant);

impl Default for ArenaHost {
    fn default() -> ArenaHost {
        ArenaHost(Instant::now())
    }
}

impl LabHost for ArenaHost {
    fn walled_world(&self, seed: u64) -> WalledWorld {
        let map = Arc::new(ArenaMap::generate(seed, SIDE, OBSTACLES));
        let sight = Arc::new(Walls { map: Arc::clone(&map), slack: 0.0 });
        WalledWorld { movement: Box::new(ArenaMovement::new(map, BOTS, seed)), sight }
    }

    /// The density of obstacles is the same as on the other maps.
    fn walkers(&self, seed: u64, count: usize, side: f32) -> Box<dyn Movement> {
        let side = f64::from(side);
        let obstacles = OBSTACLES as f64 * (side / SIDE).powi(2);
        let map = Arc::new(ArenaMap::generate(seed, side, obstacles as usize));
        Box::new(ArenaMovement::new(map, count, seed))
    }

    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn cpu_ns(&self) -> u64 {
        crate::usage::processor_time().as_nanos() as u64
    }

    fn allocations(&self, run: &mut dyn FnMut()) -> u64 {
        allocation_counter::measure(run).count_total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foveate_sync::interest::Line;
    use foveate_wire::{ObjectId, Tick};

    #[test]
    fn a_seed_gives_one_world_with_walls_in_it() {
        let places = |seed: u64| {
            let mut world = ArenaHost::default().walled_world(seed);
            (0..100).for_each(|_| assert!(world.movement.step()));
            (0..BOTS).filter_map(|at| world.movement.pose(at)).collect::<Vec<_>>()
        };
        assert_eq!(places(3), places(3));
        assert_ne!(places(3), places(4));
        let sight = ArenaHost::default().walled_world(3).sight;
        let places = places(3);
        let seen = places.iter().filter(|pose| {
            let (from, to) = (places[0].pos.into(), pose.pos.into());
            let (object, tick) = (ObjectId(1), Tick(1));
            sight.visible(&Line { pivot: None, object, from, to, tick })
        });
        assert!((1..BOTS).contains(&seen.count()), "some are hidden, not all");
    }
}

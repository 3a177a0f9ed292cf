//! The crowd: players that only walk, to measure the cost of a server.
//!
//! This is the workload of `lab scale` and of the comparison with other libraries, with real clients: a square of side
//! 40·√N, waypoints within 60 units, 2 to 8 units a second, pauses of up to 3 s. While walking, z bobs by 0.1 and the
//! yaw sways; a byte changes about every 5 s; the view has a radius of 120 units.

use foveate_node::game::{Brain, Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate_sync::interest::{Bound, View, presets};
use foveate_wire::{KindId, ObjectId, Replicate, Schema, SchemaError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The radius of the view, in world units.
pub const RADIUS: f32 = 120.0;
const HZ: f32 = 20.0;
/// The largest speed of a walker, in units per second.
const FASTEST: f32 = 8.0;

/// A walker.
#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 9.0)]
pub struct Walker {
    #[replicate(place, motion, precision = 0.015625, extent = 8192.0)]
    pos: [f32; 3],
    #[replicate(yaw, steps = 240, floor_degrees = 15.0)]
    yaw: f32,
    mood: u8,
}

/// A walker's velocity, in sixteenths of a unit per second.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Stride {
    east: i16,
    north: i16,
}

/// The rules of the crowd.
pub struct CrowdGame {
    schema: Arc<Schema>,
    side: f32,
}

impl CrowdGame {
    /// A square with room for this many players.
    pub fn new(players: usize) -> Result<CrowdGame, SchemaError> {
        let schema = Arc::new(Schema::new(vec![Walker::spec()])?);
        Ok(CrowdGame { schema, side: 40.0 * (players.max(1) as f32).sqrt() })
    }

    /// The side of the square.
    pub fn side(&self) -> f32 {
        self.side
    }
}

/// Evenly distributed numbers from 0 to 1, a function of the arguments.
fn chance(a: u32, b: u32) -> f32 {
    fastrand::Rng::with_seed(u64::from(a) << 32 | u64::from(b)).f32()
}

impl Game for CrowdGame {
    type Input = Stride;
    type Action = ();
    type Event = ();

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn avatar(&self) -> KindId {
        KindId(0)
    }

    fn populate(&self) -> Vec<Spawn> {
        Vec::new()
    }

    fn welcome(&self, _: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        let at = |axis| (chance(player.0, axis) - 0.5) * self.side;
        let pos = [at(1), at(2), 0.0];
        let walker = Walker { pos, yaw: 0.0, mood: 0 };
        Spawn::new(&self.schema, &walker).into_iter().collect()
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[Stride]) {
        let Some(mut walker) = turn.get::<Walker>() else { return };
        let (me, tick) = (turn.id().origin(), turn.tick().0);
        for stride in inputs {
            let by = [stride.east, stride.north].map(|part| f32::from(part) / 16.0);
            let speed = by[0].hypot(by[1]);
            if speed > 0.0 {
                let slower = (FASTEST / speed).min(1.0) / HZ;
                let edge = self.side / 2.0;
                for (at, by) in walker.pos.iter_mut().zip(by) {
                    *at = (*at + by * slower).clamp(-edge, edge);
                }
                // A function of place rather than time, so that the client can predict it.
                let phase = 1.5 * (walker.pos[0] + walker.pos[1]) + me as f32;
                walker.pos[2] = 0.1 * phase.sin();
                walker.yaw = by[1].atan2(by[0]) + 0.08 * (phase * 1.3).sin();
            }
        }
        if chance(me, tick) < 1.0 / (5.0 * HZ) {
            walker.mood = walker.mood.wrapping_add(1);
        }
        turn.set(&walker);
    }

    fn act(&self, _: &mut StepContext<'_, Self>, (): &(), _: Requester) {}

    fn allows(&self, input: &Stride) -> bool {
        let most = 16 * FASTEST as i16;
        input.east.abs() <= most && input.north.abs() <= most
    }

    fn keeps(&self, _: KindId) -> bool {
        true
    }

    /// As in `lab scale`.
    fn view(&self, which: u8) -> Option<View> {
        let mut view = presets::normal(0.2 * RADIUS, 0.4 * RADIUS);
        view.zones[2] = RADIUS;
        view.floor_degrees = 0.4;
        view.kappa[2] = vec![Bound::new(300, 0.10), Bound::new(400, 0.20), Bound::new(600, 0.30)];
        (which == 0).then_some(view)
    }
}

/// Walks from waypoint to waypoint.
pub struct Wanderer {
    rng: fastrand::Rng,
    side: f32,
    goal: Option<[f32; 2]>,
    speed: f32,
    pause: u32,
}

impl Wanderer {
    /// A wanderer with a seed, in a square of this side.
    pub fn new(seed: u64, side: f32) -> Wanderer {
        let rng = fastrand::Rng::with_seed(seed);
        Wanderer { rng, side, goal: None, speed: 4.0, pause: 0 }
    }

    fn choose(&mut self, from: [f32; 2]) -> [f32; 2] {
        self.speed = 2.0 + 6.0 * self.rng.f32();
        let edge = self.side / 2.0;
        from.map(|at| (at + (self.rng.f32() - 0.5) * 120.0).clamp(-edge, edge))
    }
}

impl Brain<CrowdGame> for Wanderer {
    fn think(&mut self, world: &World<'_>, me: ObjectId, _: &mut Vec<(ObjectId, ())>) -> Stride {
        self.pause = self.pause.saturating_sub(1);
        let Some(walker) = world.get::<Walker>(me).filter(|_| self.pause == 0) else {
            return Stride::default();
        };
        let from = [walker.pos[0], walker.pos[1]];
        let goal = match self.goal {
            Some(goal) => goal,
            None => self.choose(from),
        };
        let way = [goal[0] - from[0], goal[1] - from[1]];
        let left = way[0].hypot(way[1]);
        if left < 0.5 {
            self.goal = None;
            self.pause = self.rng.u32(0..=(3.0 * HZ) as u32);
            return Stride::default();
        }
        self.goal = Some(goal);
        let [east, north] = way.map(|part| (part / left * self.speed * 16.0) as i16);
        Stride { east, north }
    }
}

//! Bots that walk the map like players, after Silac (`spec` §6).
//!
//! A bot draws a node of the map's graph, takes the shortest way there, straying a
//! little, waits for up to three seconds while it looks around, and draws again. It only produces
//! an [`ArenaInput`] and moves by the same [`movement::step`] as a player: all limits of players
//! apply to bots, and their traces are those of real avatars.
//!
//! Decisions use integers, or exactly defined float operations, so that a seed gives the same walk
//! on every machine. Each bot has its own random numbers, so its walk does not depend on the number
//! of others. Bots do not see each other, and walk through each other.

use std::sync::Arc;

use fastrand::Rng;

use crate::collision::CollisionMap;
use crate::fixed::Place;
use crate::geometry::{Point, Vector};
use crate::graph::{NodeIx, PathScratch};
use crate::map::{AVATAR_RADIUS, ArenaMap, CLEARANCE};
use crate::movement::{self, ArenaInput, Body, FULL_INPUT, TickRate};
use crate::trig::{ONE, Yaw};

/// The longest wait at a goal, in milliseconds.
pub const MAX_WAIT_MS: u32 = 3_000;
/// A bot that has come no nearer to its aim for this long plans again, in milliseconds.
const STUCK_MS: u32 = 1_000;
/// How long a waiting bot looks in one direction, in milliseconds: the least, and the most that is
/// added.
const LOOK_MS: (u32, u32) = (300, 900);

/// Fastest turn, in [`Yaw`] steps per second: one full turn.
pub const MAX_TURN_PER_SECOND: i32 = 65_536;
/// How fast a bot turns: the share of the remaining angle per second.
const TURN_EAGERNESS: i32 = 8;
/// How far a walking bot's gaze sways to each side (8°), in [`Yaw`] steps.
const SWAY: i32 = 1_456;

/// The farthest that a bot strays to the side of a node, in units.
const STRAY: f64 = 2.0;
/// A node is passed at this distance, in units.
const PASS: f64 = 0.75;
/// From how far a bot may cut the corner at a node, in units: the least, and the most that is
/// added.
const CUT: (f64, f64) = (1.5, 5.0);
/// Nearer goals are drawn again, because they would look like standing still.
const GOAL_MIN: f64 = 12.0;
/// The most draws for one goal. On a map that is too small for [`GOAL_MIN`] the last draw is taken.
const GOAL_DRAWS: usize = 8;
/// The least approach that counts as coming nearer, in units.
const PROGRESS: f64 = 0.25;

/// A number of bots on one map.
///
/// ```
/// use std::sync::Arc;
/// use foveate_arena::{ArenaMap, RoamingBots};
///
/// let map = Arc::new(ArenaMap::generate(1, 100.0, 20));
/// let mut bots = RoamingBots::new(map, 8, 42);
/// for _ in 0..100 {
///     bots.step();
/// }
/// assert!(bots.position(3).x > 0.0);
/// ```
#[derive(Debug, Clone)]
pub struct RoamingBots {
    world: World,
    scratch: PathScratch,
    bots: Vec<Bot>,
}

/// Data that all bots share; it does not change.
#[derive(Debug, Clone)]
struct World {
    map: Arc<ArenaMap>,
    collision: CollisionMap,
    rate: TickRate,
}

impl RoamingBots {
    /// Bots on random nodes of the map, at [`TickRate::DEFAULT`].
    pub fn new(map: Arc<ArenaMap>, count: usize, seed: u64) -> Self {
        Self::with_rate(map, count, seed, TickRate::DEFAULT)
    }

    /// The same at any tick rate. Another rate gives other walks.
    pub fn with_rate(map: Arc<ArenaMap>, count: usize, seed: u64, rate: TickRate) -> Self {
        let collision = CollisionMap::new(&map, rate);
        let scratch = PathScratch::for_graph(map.graph());
        let world = World { map, collision, rate };
        let bots = (0..count as u64).map(|i| Bot::new(&world, bot_rng(seed, i))).collect();
        Self { world, scratch, bots }
    }

    /// One tick of all bots.
    pub fn step(&mut self) {
        for bot in &mut self.bots {
            let input = bot.decide(&self.world, &mut self.scratch);
            bot.body = movement::step(&self.world.collision, bot.body, input);
        }
    }

    /// The number of bots; accessors take an index below it.
    pub fn len(&self) -> usize {
        self.bots.len()
    }

    /// Whether there are no bots.
    pub fn is_empty(&self) -> bool {
        self.bots.is_empty()
    }

    /// Ticks per second.
    pub fn rate(&self) -> TickRate {
        self.world.rate
    }

    /// A bot's body, in fixed point.
    pub fn body(&self, bot: usize) -> Body {
        self.bots[bot].body
    }

    /// Where a bot is, in world units.
    pub fn position(&self, bot: usize) -> Point {
        self.bots[bot].body.place.point()
    }

    /// Where a bot faces, in radians from 0 to 2π; 0 is along +x.
    pub fn yaw(&self, bot: usize) -> f64 {
        self.bots[bot].body.yaw.radians()
    }

    /// Where a bot faces, as a vector of length 1.
    pub fn facing(&self, bot: usize) -> Vector {
        let yaw = self.bots[bot].body.yaw;
        let share = |v: i32| f64::from(v) / f64::from(ONE);
        Vector::new(share(yaw.cos()), share(yaw.sin()))
    }

    /// A bot's velocity, in world units per second.
    pub fn velocity(&self, bot: usize) -> Vector {
        let velocity = self.bots[bot].body.velocity;
        let hz = f64::from(self.world.rate.hz());
        let per_second = |v: i32| f64::from(v) * hz / 65_536.0;
        Vector::new(per_second(velocity.x), per_second(velocity.y))
    }

    /// Whether a bot waits at a goal.
    pub fn is_waiting(&self, bot: usize) -> bool {
        matches!(self.bots[bot].mood, Mood::Waiting { .. })
    }
}

/// The generator of one bot. Drawing the seed from a generator of seed and index separates the
/// walks of neighbouring seeds.
fn bot_rng(seed: u64, index: u64) -> Rng {
    let mut mixer = Rng::with_seed(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    Rng::with_seed(mixer.u64(..))
}

impl World {
    fn ticks(&self, milliseconds: u32) -> u32 {
        milliseconds * self.rate.hz() / 1000
    }

    fn place_of(&self, node: NodeIx) -> Point {
        self.map.graph().node(node).place
    }
}

#[derive(Debug, Clone)]
struct Bot {
    body: Body,
    rng: Rng,
    mood: Mood,
    /// The node at which the next way starts: the last goal.
    here: NodeIx,
    /// The way to the goal, in a buffer that is reused.
    path: Vec<NodeIx>,
    /// The node of `path` that the bot is heading for.
    leg: usize,
    /// The point near that node at which the bot aims.
    aim: Point,
    /// The distance to `aim` from which it may turn to the next node.
    cut: f64,
    /// The shortest distance to `aim` so far.
    nearest: f64,
    /// Ticks since then.
    fruitless: u32,
    /// How far it pushes the stick on this way.
    vigour: i32,
    sway: Yaw,
    sway_speed: i32,
}

#[derive(Debug, Clone, Copy)]
enum Mood {
    Walking,
    /// Waits for this many more ticks, and looks towards `gaze` for this many of them.
    Waiting {
        ticks: u32,
        gaze: Yaw,
        gaze_ticks: u32,
    },
}

impl Bot {
    fn new(world: &World, mut rng: Rng) -> Self {
        let graph = world.map.graph();
        let here = graph.node_at_share(rng.f64());
        let start = world.place_of(here);
        let yaw = Yaw(rng.u16(..));
        let body = Body { yaw, ..Body::at(Place::near(start)) };
        // A sway takes one to three seconds.
        let sway_speed = rng.i32(65_536 / 3..=65_536) / world.rate.hz() as i32;
        let ticks = rng.u32(0..=world.ticks(MAX_WAIT_MS));
        Self {
            body,
            here,
            mood: Mood::Waiting { ticks, gaze: yaw, gaze_ticks: 0 },
            // Ways are about as long as the graph is wide; longer ones grow the buffer once.
            path: Vec::with_capacity(4 * graph.node_count().isqrt() + 16),
            leg: 0,
            aim: start,
            cut: 0.0,
            nearest: f64::INFINITY,
            fruitless: 0,
            vigour: 0,
            sway: Yaw(rng.u16(..)),
            sway_speed,
            rng,
        }
    }

    /// The bot's input in this tick.
    fn decide(&mut self, world: &World, scratch: &mut PathScratch) -> ArenaInput {
        match self.mood {
            Mood::Waiting { ticks: 0, .. } => {
                self.set_out(world, scratch);
                self.walk(world, scratch)
            }
            Mood::Waiting { ticks, gaze, gaze_ticks } => {
                let (gaze, gaze_ticks) = match gaze_ticks {
                    0 => self.glance(world),
                    left => (gaze, left - 1),
                };
                self.mood = Mood::Waiting { ticks: ticks - 1, gaze, gaze_ticks };
                ArenaInput { forward: 0, strafe: 0, yaw: self.turned_towards(world, gaze).0 }
            }
            Mood::Walking => self.walk(world, scratch),
        }
    }

    fn walk(&mut self, world: &World, scratch: &mut PathScratch) -> ArenaInput {
        let position = self.body.place.point();
        let distance = position.distance(self.aim);
        if distance < PASS && self.leg + 1 >= self.path.len() {
            return self.arrive(world);
        }
        if self.leg + 1 < self.path.len() && self.may_turn_off(world, position, distance) {
            self.head_for(world, self.leg + 1);
        } else if self.is_stuck(world, distance) {
            self.here = nearest_node(world, position);
            self.set_out(world, scratch);
        }
        self.steer(world)
    }

    /// The input towards the aim: the body moves there at once, the gaze follows as fast as it can.
    fn steer(&mut self, world: &World) -> ArenaInput {
        let (aim, place) = (Place::near(self.aim), self.body.place);
        let heading = Yaw::of(i64::from(aim.x - place.x), i64::from(aim.y - place.y));
        self.sway = self.sway.turned(self.sway_speed);
        let yaw = self.turned_towards(world, heading.turned((self.sway.sin() * SWAY) >> 16));
        let across = Yaw(heading.0.wrapping_sub(yaw.0));
        let push = |share: i32| ((share * self.vigour) >> 16) as i8;
        ArenaInput { forward: push(across.cos()), strafe: push(across.sin()), yaw: yaw.0 }
    }

    fn turned_towards(&self, world: &World, wanted: Yaw) -> Yaw {
        let hz = world.rate.hz() as i32;
        let fastest = MAX_TURN_PER_SECOND / hz;
        let turn = self.body.yaw.turn_to(wanted) * TURN_EAGERNESS / hz;
        self.body.yaw.turned(turn.clamp(-fastest, fastest))
    }

    /// Draws a goal and plans the way to it.
    fn set_out(&mut self, world: &World, scratch: &mut PathScratch) {
        let graph = world.map.graph();
        let start = world.place_of(self.here);
        let mut goal = self.here;
        for _ in 0..GOAL_DRAWS {
            goal = graph.node_at_share(self.rng.f64());
            if start.distance(world.place_of(goal)) >= GOAL_MIN {
                break;
            }
        }
        // The graph is connected; if it were not, the bot would wait again at the same place.
        if !graph.path(self.here, goal, scratch, &mut self.path) {
            self.path.clear();
            self.path.push(self.here);
        }
        self.mood = Mood::Walking;
        let full = i32::from(FULL_INPUT);
        self.vigour = self.rng.i32(full * 3 / 4..=full);
        self.head_for(world, 0);
    }

    /// Aims near a node of the way. Straying is to the side of the way, and only where there is
    /// room.
    fn head_for(&mut self, world: &World, leg: usize) {
        let position = self.body.place.point();
        let node = world.place_of(self.path[leg]);
        let sideways = (node - position).unit().unwrap_or_default().left();
        let stray = node + sideways * ((self.rng.f64() * 2.0 - 1.0) * STRAY);
        let has_room = world.map.is_free(stray, AVATAR_RADIUS + CLEARANCE)
            && world.map.is_walkable(position, stray);
        self.leg = leg;
        self.aim = if has_room { stray } else { node };
        self.cut = CUT.0 + self.rng.f64() * CUT.1;
        self.nearest = f64::INFINITY;
        self.fruitless = 0;
    }

    /// Whether the bot is at its next node, or so near that it may cut the corner to the one after.
    fn may_turn_off(&self, world: &World, position: Point, distance: f64) -> bool {
        distance < PASS
            || (distance < self.cut
                && world.map.is_walkable(position, world.place_of(self.path[self.leg + 1])))
    }

    fn is_stuck(&mut self, world: &World, distance: f64) -> bool {
        if distance < self.nearest - PROGRESS {
            self.nearest = distance;
            self.fruitless = 0;
        } else {
            self.fruitless += 1;
        }
        self.fruitless >= world.ticks(STUCK_MS)
    }

    fn arrive(&mut self, world: &World) -> ArenaInput {
        self.here = self.path[self.path.len() - 1];
        let ticks = self.rng.u32(0..=world.ticks(MAX_WAIT_MS));
        self.mood = Mood::Waiting { ticks, gaze: self.body.yaw, gaze_ticks: 0 };
        ArenaInput { forward: 0, strafe: 0, yaw: self.body.yaw.0 }
    }

    /// A new direction to look in, and the number of ticks to do so.
    fn glance(&mut self, world: &World) -> (Yaw, u32) {
        let time = LOOK_MS.0 + self.rng.u32(0..=LOOK_MS.1);
        (Yaw(self.rng.u16(..)), world.ticks(time))
    }
}

/// The nearest node with a free straight line, or the nearest of all. Checks every node, because
/// only a bot that is stuck asks.
fn nearest_node(world: &World, position: Point) -> NodeIx {
    let distance = |node: &NodeIx| world.place_of(*node).distance(position);
    let by_distance = |a: &NodeIx, b: &NodeIx| distance(a).total_cmp(&distance(b));
    let nodes = || world.map.graph().node_indices();
    nodes()
        .filter(|&node| world.map.is_walkable(position, world.place_of(node)))
        .min_by(by_distance)
        .or_else(|| nodes().min_by(by_distance))
        .unwrap_or(NodeIx(0))
}

#[cfg(test)]
#[path = "bots_tests.rs"]
mod tests;

//! The scenarios: when players are present, and how their objects move. The source's protocol and ours play the same
//! scripts.

use super::field::{Orders, Rollout, pose};
use super::walk::{Grid, Point, STEPS, length};
use foveate_lab::movement::AvatarPose;
use foveate_wire::Micros;
use std::ops::Range;
use std::sync::Arc;

/// Length of a frame, and of our round: 25 a second. The source has 20 to 30.
pub const FRAME: Micros = Micros(40_000);
/// The side of the world, in units.
pub const SIDE: f32 = 150.0;
/// The side of a zone, of which there are three by three.
pub const ZONE: f32 = 50.0;
/// Peers within this many units of a newcomer's spawn point are near it.
pub const NEAR_SPAWN: f32 = ZONE;
/// The largest speed, in units per second.
pub const FASTEST: f32 = 8.0;
/// Walking speed of an object that is steered directly.
const SPEED: f32 = 5.0;
/// Objects of each player, unless the scenario sets another number. With these the source's full state of 246 B has
/// room for its contents.
const OBJECTS: usize = 3;
/// Seconds between the starts of objects' movement.
const STAGGER: f64 = 2.0;
/// Players of the scenario with many peers.
const MANY: usize = 16;
/// Seconds between two of them joining.
const MANY_APART: f64 = 0.08;
/// Objects without an owner in the crowded world.
const CROWD: usize = 400;

/// The scenarios.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scenario {
    Join2,
    Join4,
    Join16,
    JoinWorld,
    Moving3,
    Newcomer,
    Straight,
    Restless,
    Zones,
    Targets,
    Collision,
}

impl Scenario {
    pub const ALL: [Scenario; 11] = [
        Scenario::Join2,
        Scenario::Join4,
        Scenario::Join16,
        Scenario::JoinWorld,
        Scenario::Moving3,
        Scenario::Newcomer,
        Scenario::Straight,
        Scenario::Restless,
        Scenario::Zones,
        Scenario::Targets,
        Scenario::Collision,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scenario::Join2 => "join_2",
            Scenario::Join4 => "join_4",
            Scenario::Join16 => "join_16",
            Scenario::JoinWorld => "join_world",
            Scenario::Moving3 => "moving_3",
            Scenario::Newcomer => "newcomer",
            Scenario::Straight => "straight",
            Scenario::Restless => "restless",
            Scenario::Zones => "zones",
            Scenario::Targets => "targets",
            Scenario::Collision => "targets_collision",
        }
    }

    /// A description for people.
    pub fn about(self) -> &'static str {
        match self {
            Scenario::Join2 => "two players join, three standing objects each",
            Scenario::Join4 => "four players join one after another, three standing objects each",
            Scenario::Join16 => "sixteen players join, all over the map, one standing object each",
            Scenario::JoinWorld => "one player joins a world of 400 standing objects",
            Scenario::Moving3 => {
                "four players; two of them move three objects, which begin one after another; the third \
                 has one that stands, the fourth none"
            }
            Scenario::Newcomer => {
                "two players with one moving object each; a third joins and leaves again"
            }
            Scenario::Straight => "two players; one object walks steadily along long lines",
            Scenario::Restless => "two players; one object darts about in one spot",
            Scenario::Zones => {
                "two players with three moving objects each, in different zones; one object visits the \
                 other player's zone"
            }
            Scenario::Targets => "two players; a unit is ordered to four targets among obstacles",
            Scenario::Collision => {
                "the same, and a second unit crosses its way: both run into each other"
            }
        }
    }
}

/// An object, with its owner (`None` for the world's) and its pose in every frame.
pub struct Thing {
    pub owner: Option<usize>,
    pub poses: Vec<AvatarPose>,
}

/// A scenario, ready to be played.
pub struct Script {
    /// The frames in which each player is present.
    pub players: Vec<Range<usize>>,
    pub things: Vec<Thing>,
    pub frames: usize,
    /// Set if the first things are units with orders. Their poses are then those of units that carry out each order
    /// when it is given.
    pub orders: Option<Orders>,
}

/// Frames in this many seconds.
pub fn frames(seconds: f64) -> usize {
    (seconds * 1e6 / FRAME.0 as f64).round() as usize
}

impl Script {
    /// The script of a scenario. Quick ones last a third of the time.
    pub fn new(scenario: Scenario, seed: u64, quick: bool) -> Script {
        let length = if quick { 1.0 } else { 3.0 };
        let mut rng = fastrand::Rng::with_seed(seed ^ (scenario as u64) << 32);
        match scenario {
            Scenario::Join2 => Script::joins(2, OBJECTS, 2.0, &mut rng),
            Scenario::Join4 => Script::joins(4, OBJECTS, 2.0, &mut rng),
            Scenario::Join16 => Script::joins(MANY, 1, MANY_APART, &mut rng),
            Scenario::JoinWorld => {
                let mut script = Script::joins(1, OBJECTS, 2.0, &mut rng);
                script.frames = frames(if quick { 8.0 } else { 12.0 });
                script.players[0].end = script.frames;
                let crowd = (0..CROWD).map(|_| Gait::Stand.thing(None, anywhere(&mut rng), 1, 0));
                script.things = crowd.collect();
                let middle = [SIDE / 2.0, SIDE / 2.0];
                script.things.push(Gait::Stand.thing(Some(0), middle, 1, 0));
                script.stretch()
            }
            Scenario::Moving3 => {
                let mut script = Script::two(frames(10.0 * length));
                script.players.resize(4, 0..script.frames);
                // The first two players' objects start to move one after another; the fourth player has none.
                for (at, player) in [0, 1, 0].into_iter().enumerate() {
                    script.add(Gait::Mixed, player, anywhere(&mut rng), rng.u64(..));
                    script.hold(at, frames(STAGGER * at as f64));
                }
                script.add(Gait::Stand, 2, anywhere(&mut rng), 0);
                script
            }
            Scenario::Newcomer => {
                let mut script = Script::two(frames(10.0 * length));
                script.players.push(frames(4.0 * length)..frames(8.0 * length));
                for player in 0..3 {
                    script.add(Gait::Straight, player, anywhere(&mut rng), rng.u64(..));
                }
                script
            }
            Scenario::Straight | Scenario::Restless => {
                let mut script = Script::two(frames(10.0 * length));
                let gait =
                    if scenario == Scenario::Straight { Gait::Straight } else { Gait::Restless };
                script.add(gait, 0, anywhere(&mut rng), rng.u64(..));
                script.add(Gait::Stand, 1, anywhere(&mut rng), 0);
                script
            }
            Scenario::Zones => {
                let mut script = Script::two(frames(10.0 * length));
                for player in 0..2 {
                    for _ in 0..OBJECTS {
                        let middle = [ZONE * (0.5 + 2.0 * player as f32), ZONE / 2.0];
                        script.add(Gait::Restless, player, middle, rng.u64(..));
                    }
                }
                script.things[0].poses = visit(script.frames);
                script
            }
            Scenario::Targets | Scenario::Collision => ordered(scenario, seed),
        }
    }

    /// A script with two players that are present all the time.
    fn two(frames: usize) -> Script {
        let players = vec![0..frames, 0..frames];
        Script { players, things: Vec::new(), frames, orders: None }
    }

    /// A script with players that join at intervals of `apart` seconds.
    fn joins(players: usize, objects: usize, apart: f64, rng: &mut fastrand::Rng) -> Script {
        let end = frames(apart * players as f64 + 2.0);
        let players: Vec<_> = (0..players).map(|p| frames(1.0 + apart * p as f64)..end).collect();
        let mut script = Script { players, things: Vec::new(), frames: end, orders: None };
        for player in 0..script.players.len() {
            for _ in 0..objects {
                script.add(Gait::Stand, player, anywhere(rng), 0);
            }
        }
        script
    }

    /// Keeps a thing at its first place for some frames.
    fn hold(&mut self, thing: usize, frames: usize) {
        let poses = &mut self.things[thing].poses;
        let first = poses[0];
        poses.splice(0..0, std::iter::repeat_n(first, frames));
        poses.truncate(self.frames);
    }

    fn add(&mut self, gait: Gait, owner: usize, at: [f32; 2], seed: u64) {
        self.things.push(gait.thing(Some(owner), at, self.frames, seed));
    }

    /// Keeps things that stand at their place to the end.
    fn stretch(mut self) -> Script {
        for thing in &mut self.things {
            let last = thing.poses.last().copied().unwrap_or_default();
            thing.poses.resize(self.frames, last);
        }
        self
    }

    pub fn present(&self, player: usize, frame: usize) -> bool {
        self.players[player].contains(&frame)
    }

    /// A thing's pose in a frame; `None` if its owner is absent.
    pub fn pose(&self, thing: usize, frame: usize) -> Option<AvatarPose> {
        let Thing { owner, poses } = &self.things[thing];
        let there = owner.is_none_or(|owner| self.present(owner, frame));
        there.then(|| poses.get(frame).copied()).flatten()
    }

    /// Whether place or facing differ from the previous frame.
    pub fn moved(&self, thing: usize, frame: usize) -> bool {
        let before = frame.checked_sub(1).and_then(|before| self.pose(thing, before));
        before.is_some_and(|before| self.pose(thing, frame).is_some_and(|now| now != before))
    }

    /// A player's spawn point: its first thing's first place. `None` without things.
    pub fn spawn(&self, player: usize) -> Option<[f32; 3]> {
        Some(self.pose(self.of(player).next()?, self.players[player].start)?.pos)
    }

    /// Whether a player's spawn point is near another player's first thing. A player without things is near all.
    pub fn near(&self, player: usize, other: usize, frame: usize) -> bool {
        let place = self.of(other).next().and_then(|thing| self.pose(thing, frame));
        let Some((spawn, place)) = self.spawn(player).zip(place) else { return true };
        let square: f32 = (0..3).map(|axis| (spawn[axis] - place.pos[axis]).powi(2)).sum();
        square.sqrt() <= NEAR_SPAWN
    }

    /// A player's things.
    pub fn of(&self, player: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.things.len()).filter(move |thing| self.things[*thing].owner == Some(player))
    }
}

fn anywhere(rng: &mut fastrand::Rng) -> [f32; 2] {
    [0, 1].map(|_| 10.0 + rng.f32() * (SIDE - 20.0))
}

/// How an object moves that is steered directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gait {
    Stand,
    /// Straight lines, with a turn every few seconds.
    Straight,
    /// Back and forth within three units, with a new direction every third of a second.
    Restless,
    /// Alternately walks, stands and dances.
    Mixed,
}

/// How far a restless object goes from its place.
const SPOT: f32 = 3.0;

impl Gait {
    fn thing(self, owner: Option<usize>, at: [f32; 2], frames: usize, seed: u64) -> Thing {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut here, mut yaw, mut left, mut speed) = (at, 0.0f32, 0, 0.0);
        let per_frame = FRAME.as_secs() as f32;
        let mut centre = at;
        let mut poses = Vec::with_capacity(frames);
        let mut now = self;
        for _ in 0..frames {
            if left == 0 {
                if self == Gait::Mixed {
                    now = [Gait::Stand, Gait::Straight, Gait::Straight, Gait::Restless]
                        [rng.usize(..4)];
                    centre = here;
                }
                let turn = rng.f32() * std::f32::consts::TAU;
                (speed, left) = match now {
                    Gait::Stand | Gait::Mixed => (0.0, 25),
                    Gait::Straight => (SPEED, rng.usize(60..120)),
                    Gait::Restless => (SPEED, rng.usize(5..12)),
                };
                yaw = if now == Gait::Stand { yaw } else { turn };
            }
            left -= 1;
            poses.push(AvatarPose { pos: [here[0], here[1], 0.0], yaw, ..AvatarPose::default() });
            let next =
                [here[0] + yaw.cos() * speed * per_frame, here[1] + yaw.sin() * speed * per_frame];
            let strays = match now {
                Gait::Restless => [0, 1].iter().any(|i| (next[*i] - centre[*i]).abs() > SPOT),
                _ => next.iter().any(|along| !(1.0..SIDE - 1.0).contains(along)),
            };
            // At the edge it turns round at once.
            (here, yaw) = if strays { (here, yaw + std::f32::consts::PI) } else { (next, yaw) };
            yaw %= std::f32::consts::TAU;
        }
        Thing { owner, poses }
    }
}

/// From the centre of the first zone to that of the third, a pause, and back.
fn visit(frames: usize) -> Vec<AvatarPose> {
    let (from, to) = (ZONE / 2.0, 2.5 * ZONE);
    let at = |frame: usize| {
        let part = frame as f32 / frames as f32;
        let way = ((part - 0.2) / 0.25).clamp(0.0, 1.0) - ((part - 0.55) / 0.25).clamp(0.0, 1.0);
        from + way * (to - from)
    };
    let facing = |frame: usize| if frame * 2 > frames { std::f32::consts::PI } else { 0.0 };
    let pose = |frame| AvatarPose {
        pos: [at(frame), 2.0, 0.0],
        yaw: facing(frame),
        ..AvatarPose::default()
    };
    (0..frames).map(pose).collect()
}

/// Cells per side, and units per cell, of the field with orders.
const CELLS: (i32, i32) = (25, 6);
/// Obstacles among which units find their way.
const BARS: usize = 30;
/// Seconds between two orders, which is enough to arrive.
const BETWEEN: f64 = 15.0;

/// The unit's successive targets, in units.
const TARGETS: [[i32; 2]; 4] = [[66, 21], [87, 63], [45, 81], [27, 33]];
const START: [i32; 2] = [21, 21];
/// The other unit crosses from the first point to the second while the first unit goes to its second target.
const CROSSING: [[i32; 2]; 2] = [[87, 63], [66, 21]];

/// The ground between two points and a unit to either side, which is kept free of obstacles, so that units that go it
/// from both ends meet for any seed.
fn lane(from: Point, to: Point) -> impl Iterator<Item = Point> {
    let count = length(from, to) / STEPS;
    let on = move |n: i32| [0, 1].map(|axis| from[axis] + (to[axis] - from[axis]) * n / count);
    (0..=count)
        .map(on)
        .flat_map(|[x, y]| [[x, y], [x - STEPS, y], [x + STEPS, y], [x, y - STEPS], [x, y + STEPS]])
}

/// A quick run is as long, since the claim is about four targets.
fn ordered(scenario: Scenario, seed: u64) -> Script {
    let point = |units: [i32; 2]| -> Point { units.map(|along| along * STEPS) };
    let second = frames(1.0) as u32;
    let between = frames(BETWEEN) as u32;
    let mut orders: Vec<(u32, usize, Point)> = TARGETS
        .iter()
        .enumerate()
        .map(|(at, target)| (second + between * at as u32, 0, point(*target)))
        .collect();
    let mut places = vec![point(START)];
    if scenario == Scenario::Collision {
        places.push(point(CROSSING[0]));
        orders.push((second + between, 1, point(CROSSING[1])));
        orders.sort_unstable();
    }
    let mut keep: Vec<Point> =
        TARGETS.iter().chain(&CROSSING).chain([&START]).map(|units| point(*units)).collect();
    keep.extend(lane(point(CROSSING[0]), point(CROSSING[1])));
    let frames = second + between * TARGETS.len() as u32;
    let walk = Arc::new(Grid::open(CELLS.0, CELLS.1).with_bars(BARS, &keep, seed));
    let orders = Orders { walk, places, given: orders };
    let mut script = Script::two(frames as usize);
    for unit in Rollout::play(&orders, frames).units() {
        let poses = unit.iter().map(|moment| moment.pose).collect();
        script.things.push(Thing { owner: Some(0), poses });
    }
    let onlooker = [SIDE as i32 / 2, SIDE as i32 / 2];
    let standing = vec![pose(point(onlooker), 0.0); frames as usize];
    script.things.push(Thing { owner: Some(1), poses: standing });
    script.orders = Some(orders);
    script
}

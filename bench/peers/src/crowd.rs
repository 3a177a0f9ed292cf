//! The crowd: players who walk about by waypoints, as in `foveate load --game crowd`.

/// A client is shown players up to here.
pub const RADIUS: f32 = 120.0;
const HZ: f32 = super::HZ as f32;
const FASTEST: f32 = 8.0;

/// The state of a player: 17 bytes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Walker {
    pub pos: [f32; 3],
    pub yaw: f32,
    pub mood: u8,
}

pub const WALKER: usize = 17;

impl Walker {
    pub fn write(&self, out: &mut Vec<u8>) {
        for part in self.pos {
            out.extend_from_slice(&part.to_le_bytes());
        }
        out.extend_from_slice(&self.yaw.to_le_bytes());
        out.push(self.mood);
    }

    pub fn read(bytes: &[u8; WALKER]) -> Walker {
        let part = |at: usize| f32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        Walker { pos: [part(0), part(4), part(8)], yaw: part(12), mood: bytes[16] }
    }
}

/// Where a walker goes, in sixteenths of a unit a second: a client's input.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stride(pub [i16; 2]);

impl Stride {
    pub fn encode(self) -> [u8; 4] {
        let [[a, b], [c, d]] = self.0.map(i16::to_le_bytes);
        [a, b, c, d]
    }

    pub fn decode([a, b, c, d]: [u8; 4]) -> Stride {
        Stride([i16::from_le_bytes([a, b]), i16::from_le_bytes([c, d])])
    }
}

/// Everybody, and the rules.
pub struct Crowd {
    pub walkers: Vec<Walker>,
    side: f32,
    rng: fastrand::Rng,
}

pub fn side(players: usize) -> f32 {
    40.0 * (players.max(1) as f32).sqrt()
}

impl Crowd {
    pub fn new(players: usize) -> Crowd {
        let (side, mut rng) = (side(players), fastrand::Rng::with_seed(1));
        let mut at = || (rng.f32() - 0.5) * side;
        let walkers =
            (0..players).map(|_| Walker { pos: [at(), at(), 0.0], ..Walker::default() }).collect();
        Crowd { walkers, side, rng }
    }

    /// One tick of one player.
    pub fn step(&mut self, who: usize, stride: Stride) {
        let (edge, walker) = (self.side / 2.0, &mut self.walkers[who]);
        let by = stride.0.map(|part| f32::from(part) / 16.0);
        let speed = by[0].hypot(by[1]);
        if speed > 0.0 {
            let slower = (FASTEST / speed).min(1.0) / HZ;
            for (at, by) in walker.pos.iter_mut().zip(by) {
                *at = (*at + by * slower).clamp(-edge, edge);
            }
            let phase = 1.5 * (walker.pos[0] + walker.pos[1]) + who as f32;
            walker.pos[2] = 0.1 * phase.sin();
            walker.yaw = by[1].atan2(by[0]) + 0.08 * (phase * 1.3).sin();
        }
        if self.rng.f32() < 1.0 / (5.0 * HZ) {
            walker.mood = walker.mood.wrapping_add(1);
        }
    }
}

/// Whether one sees the other.
pub fn is_near(one: &Walker, two: &Walker) -> bool {
    let (x, y) = (one.pos[0] - two.pos[0], one.pos[1] - two.pos[1]);
    x * x + y * y <= RADIUS * RADIUS
}

/// A client's player: walks from waypoint to waypoint.
pub struct Wanderer {
    rng: fastrand::Rng,
    side: f32,
    goal: Option<[f32; 2]>,
    speed: f32,
    pause: u32,
}

impl Wanderer {
    pub fn new(seed: u64, side: f32) -> Wanderer {
        let rng = fastrand::Rng::with_seed(seed);
        Wanderer { rng, side, goal: None, speed: 4.0, pause: 0 }
    }

    pub fn think(&mut self, me: Option<&Walker>) -> Stride {
        self.pause = self.pause.saturating_sub(1);
        let Some(walker) = me.filter(|_| self.pause == 0) else { return Stride::default() };
        let from = [walker.pos[0], walker.pos[1]];
        let goal = self.goal.unwrap_or_else(|| {
            self.speed = 2.0 + 6.0 * self.rng.f32();
            let edge = self.side / 2.0;
            from.map(|at| (at + (self.rng.f32() - 0.5) * 120.0).clamp(-edge, edge))
        });
        let way = [goal[0] - from[0], goal[1] - from[1]];
        let left = way[0].hypot(way[1]);
        if left < 0.5 {
            self.goal = None;
            self.pause = self.rng.u32(0..=(3.0 * HZ) as u32);
            return Stride::default();
        }
        self.goal = Some(goal);
        Stride(way.map(|part| (part / left * self.speed * 16.0) as i16))
    }
}

//! Units under orders, as their authority knows them: each goes the way that its order implies, until
//! it runs into another one.

use super::walk::{Point, STEPS, Walk, along, length};
use crate::movement::Pose;
use std::sync::Arc;

/// Steps that a unit walks in a frame of 40 ms: 5 units a second.
pub const PACE: i32 = STEPS / 5;
/// Units whose centres are nearer than this collide.
const CONTACT: i32 = 2 * STEPS;
/// They are clear of each other from here on.
const CLEAR: i32 = 5 * STEPS / 2;

/// What a unit was told: from here to there, beginning in this frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Course {
    pub from: Point,
    pub target: Point,
    pub since: u32,
    /// The unit has run into another: nobody knows its way until the authority says so.
    pub colliding: bool,
}

impl Course {
    /// Where the unit is in a frame, and which way it faces; for both ends.
    pub fn at(&self, walk: &dyn Walk, frame: u32) -> (Point, f32) {
        let way = walk.way(self.from, self.target);
        let (at, facing, _) = step(self, &way, frame);
        (at, facing)
    }
}

/// Where the way leads in a frame, the facing, and whether that is its end.
fn step(course: &Course, way: &[Point], frame: u32) -> (Point, f32, bool) {
    let walked = PACE.saturating_mul(frame.saturating_sub(course.since) as i32);
    let (at, before, end) = along(course.from, way, walked);
    (at, ((at[1] - before[1]) as f32).atan2((at[0] - before[0]) as f32), end)
}

struct Unit {
    course: Course,
    way: Vec<Point>,
    at: Point,
    facing: f32,
    arrived: bool,
}

/// All units and the way they take.
pub struct Field {
    walk: Arc<dyn Walk>,
    units: Vec<Unit>,
    frame: u32,
}

impl Field {
    pub fn new(walk: Arc<dyn Walk>, places: &[Point]) -> Field {
        let unit = |at: &Point| Unit {
            course: Course { from: *at, target: *at, since: 0, colliding: false },
            way: Vec::new(),
            at: *at,
            facing: 0.0,
            arrived: true,
        };
        Field { walk, units: places.iter().map(unit).collect(), frame: 0 }
    }

    /// Sends a unit somewhere. Where no way leads it stays.
    pub fn order(&mut self, unit: usize, target: Point) {
        let frame = self.frame;
        let unit = &mut self.units[unit];
        unit.course.target = target;
        if !unit.course.colliding {
            unit.set_off(&*self.walk, frame);
        }
    }

    /// The next frame.
    pub fn step(&mut self) {
        self.frame += 1;
        let frame = self.frame;
        let places: Vec<Point> = self.units.iter().map(|unit| unit.at).collect();
        for at in 0..self.units.len() {
            let others = places.iter().enumerate().filter(|(other, _)| *other != at);
            let nearest = others.map(|(_, place)| *place).min_by_key(|p| length(places[at], *p));
            let unit = &mut self.units[at];
            let gap = nearest.map_or(i32::MAX, |place| length(unit.at, place));
            match nearest {
                Some(_) if unit.course.colliding && gap >= CLEAR => {
                    unit.course.colliding = false;
                    unit.set_off(&*self.walk, frame);
                }
                Some(other) if unit.course.colliding => unit.evade(other),
                Some(other) if !unit.arrived && gap < CONTACT => {
                    unit.course.colliding = true;
                    unit.evade(other);
                }
                _ => (unit.at, unit.facing, unit.arrived) = unit.walked(frame),
            }
        }
    }

    pub fn course(&self, unit: usize) -> Course {
        self.units[unit].course
    }

    pub fn pose(&self, unit: usize) -> Pose {
        let unit = &self.units[unit];
        pose(unit.at, unit.facing)
    }
}

/// A place on the ground as a pose.
pub fn pose(at: Point, yaw: f32) -> Pose {
    let [x, y] = at.map(|steps| steps as f32 / STEPS as f32);
    Pose { pos: [x, y, 0.0], yaw, ..Pose::default() }
}

impl Unit {
    fn set_off(&mut self, walk: &dyn Walk, frame: u32) {
        self.course.from = self.at;
        self.course.since = frame;
        self.way = walk.way(self.at, self.course.target);
        self.arrived = self.way.is_empty();
    }

    fn walked(&self, frame: u32) -> (Point, f32, bool) {
        if self.arrived {
            return (self.at, self.facing, true);
        }
        step(&self.course, &self.way, frame)
    }

    /// One step away from the other and to the right of it: both pass each other.
    fn evade(&mut self, other: Point) {
        let away = [self.at[0] - other[0], self.at[1] - other[1]];
        let away = if away == [0, 0] { [1, 0] } else { away };
        let aside = [away[0] + 2 * away[1], away[1] - 2 * away[0]];
        let whole = length([0, 0], aside).max(1);
        self.at = [0, 1].map(|axis| self.at[axis] + aside[axis] * PACE / whole);
        self.facing = (aside[1] as f32).atan2(aside[0] as f32);
    }
}

/// What became of a unit in a frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moment {
    pub pose: Pose,
    pub course: Course,
}

/// A whole run of the field: every unit in every frame.
#[derive(Clone)]
pub struct Rollout {
    pub walk: Arc<dyn Walk>,
    /// By unit, then by frame.
    pub units: Vec<Vec<Moment>>,
}

impl Rollout {
    /// Plays orders (frame, unit, target), in the order of time.
    pub fn play(
        walk: Arc<dyn Walk>,
        places: &[Point],
        orders: &[(u32, usize, Point)],
        frames: u32,
    ) -> Rollout {
        let mut field = Field::new(Arc::clone(&walk), places);
        let mut units = vec![Vec::new(); places.len()];
        for frame in 0..frames {
            if frame > 0 {
                field.step();
            }
            for (_, unit, target) in orders.iter().filter(|(when, ..)| *when == frame) {
                field.order(*unit, *target);
            }
            for (unit, moments) in units.iter_mut().enumerate() {
                moments.push(Moment { pose: field.pose(unit), course: field.course(unit) });
            }
        }
        Rollout { walk, units }
    }

    /// Whether the authority has something to say of a unit's course in this frame.
    pub fn turns(&self, unit: usize, frame: usize) -> bool {
        let course = |frame: usize| self.units[unit][frame].course;
        frame > 0 && course(frame) != course(frame - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::Grid;
    use super::*;

    fn crossing() -> Rollout {
        let walk = Arc::new(Grid::open(20, 5));
        let [a, b] = [[1_000, 3_000], [3_000, 3_000]];
        Rollout::play(walk, &[a, b], &[(2, 0, b), (2, 1, a)], 600)
    }

    #[test]
    fn units_that_run_into_each_other_evade_and_arrive() {
        let run = crossing();
        let collided = |unit: usize| run.units[unit].iter().filter(|m| m.course.colliding).count();
        assert!(collided(0) > 0 && collided(1) > 0);
        assert!(collided(0) < 200, "it is resolved: {}", collided(0));
        assert_eq!(run.units[0][599].pose.pos, pose([3_000, 3_000], 0.0).pos);
        assert_eq!(run.units[1][599].pose.pos, pose([1_000, 3_000], 0.0).pos);
    }

    #[test]
    fn a_course_tells_where_its_unit_is_whenever_it_does_not_collide() {
        let run = crossing();
        for unit in &run.units {
            for (frame, moment) in unit.iter().enumerate().filter(|(_, m)| !m.course.colliding) {
                let (at, facing) = moment.course.at(&*run.walk, frame as u32);
                assert_eq!(pose(at, facing).pos, moment.pose.pos, "frame {frame}");
            }
        }
    }
}

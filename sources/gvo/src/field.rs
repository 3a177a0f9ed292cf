//! Units with orders, as their authority knows them: each goes the way of its order until it collides with another.

use super::walk::{Pathfinding, Point, STEPS, along, length};
use foveate_lab::movement::AvatarPose;
use std::sync::Arc;

/// Steps that a unit walks in a frame of 40 ms, which is 5 units a second.
pub const PACE: i32 = STEPS / 5;
/// Units collide if their centres are nearer than this.
const CONTACT: i32 = 2 * STEPS;
/// A collision ends at this distance.
const CLEAR: i32 = 5 * STEPS / 2;

/// A unit's order: from one point to another, starting in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitCourse {
    pub from: Point,
    pub target: Point,
    pub since: u32,
    /// The unit has collided with another: its way is unknown until the authority sends it.
    pub colliding: bool,
}

impl UnitCourse {
    /// Where the unit is in a frame, and its facing; the same at both ends.
    pub fn at(&self, walk: &dyn Pathfinding, frame: u32) -> (Point, f32) {
        let way = walk.way(self.from, self.target);
        let (at, facing, _) = step(self, &way, frame);
        (at, facing)
    }
}

/// The point of the way in a frame, the facing, and whether it is the end.
fn step(course: &UnitCourse, way: &[Point], frame: u32) -> (Point, f32, bool) {
    let walked = PACE.saturating_mul(frame.saturating_sub(course.since) as i32);
    let (at, before, end) = along(course.from, way, walked);
    (at, ((at[1] - before[1]) as f32).atan2((at[0] - before[0]) as f32), end)
}

struct Unit {
    course: UnitCourse,
    way: Vec<Point>,
    at: Point,
    facing: f32,
    arrived: bool,
}

/// All units and their ways.
pub struct UnitField {
    walk: Arc<dyn Pathfinding>,
    units: Vec<Unit>,
    frame: u32,
}

impl UnitField {
    pub fn new(walk: Arc<dyn Pathfinding>, places: &[Point]) -> UnitField {
        let unit = |at: &Point| Unit {
            course: UnitCourse { from: *at, target: *at, since: 0, colliding: false },
            way: Vec::new(),
            at: *at,
            facing: 0.0,
            arrived: true,
        };
        UnitField { walk, units: places.iter().map(unit).collect(), frame: 0 }
    }

    /// Orders a unit to a place. If there is no way it stays.
    pub fn order(&mut self, unit: usize, target: Point) {
        let frame = self.frame;
        let unit = &mut self.units[unit];
        unit.course.target = target;
        if !unit.course.colliding {
            unit.set_off(&*self.walk, frame);
        }
    }

    /// Advances to the next frame.
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

    pub fn course(&self, unit: usize) -> UnitCourse {
        self.units[unit].course
    }

    pub fn pose(&self, unit: usize) -> AvatarPose {
        let unit = &self.units[unit];
        pose(unit.at, unit.facing)
    }
}

/// The pose of a unit at a point.
pub fn pose(at: Point, yaw: f32) -> AvatarPose {
    let [x, y] = at.map(|steps| steps as f32 / STEPS as f32);
    AvatarPose { pos: [x, y, 0.0], yaw, ..AvatarPose::default() }
}

impl Unit {
    fn set_off(&mut self, walk: &dyn Pathfinding, frame: u32) {
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

    /// Moves one step away from the other unit and to the right of it, so that both can pass.
    fn evade(&mut self, other: Point) {
        let away = [self.at[0] - other[0], self.at[1] - other[1]];
        let away = if away == [0, 0] { [1, 0] } else { away };
        let off_axis = [away[0] + 2 * away[1], away[1] - 2 * away[0]];
        let whole = length([0, 0], off_axis).max(1);
        self.at = [0, 1].map(|axis| self.at[axis] + off_axis[axis] * PACE / whole);
        self.facing = (off_axis[1] as f32).atan2(off_axis[0] as f32);
    }
}

/// A unit's state in a frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moment {
    pub pose: AvatarPose,
    pub course: UnitCourse,
}

/// A player's orders over time.
#[derive(Clone)]
pub struct Orders {
    pub walk: Arc<dyn Pathfinding>,
    /// The first places of the units.
    pub places: Vec<Point>,
    /// Frame, unit and target, in the order of time.
    pub given: Vec<(u32, usize, Point)>,
}

impl Orders {
    /// The orders given in a frame: unit and target.
    pub fn given_in(&self, frame: usize) -> Vec<(usize, Point)> {
        let now = self.given.iter().filter(|(when, ..)| *when as usize == frame);
        now.map(|(_, unit, target)| (*unit, *target)).collect()
    }
}

/// The states of all units in every frame so far. Later frames are not computed, so that no code can act on them.
pub struct Rollout {
    field: UnitField,
    /// Indexed by unit and frame.
    units: Vec<Vec<Moment>>,
}

impl Rollout {
    pub fn new(orders: &Orders) -> Rollout {
        let field = UnitField::new(Arc::clone(&orders.walk), &orders.places);
        Rollout { field, units: vec![Vec::new(); orders.places.len()] }
    }

    /// Advances to the next frame, in which the authority carries out these orders.
    pub fn advance(&mut self, orders: &[(usize, Point)]) {
        if self.units.iter().any(|moments| !moments.is_empty()) {
            self.field.step();
        }
        for (unit, target) in orders {
            self.field.order(*unit, *target);
        }
        for (unit, moments) in self.units.iter_mut().enumerate() {
            moments.push(Moment { pose: self.field.pose(unit), course: self.field.course(unit) });
        }
    }

    /// Plays `frames` frames, carrying out each order when it is given.
    pub fn play(orders: &Orders, frames: u32) -> Rollout {
        let mut run = Rollout::new(orders);
        (0..frames as usize).for_each(|frame| run.advance(&orders.given_in(frame)));
        run
    }

    /// All states, indexed by unit and frame.
    pub fn units(&self) -> &[Vec<Moment>] {
        &self.units
    }

    /// The newest state of a unit, and the one before it.
    pub fn newest(&self, unit: usize) -> Option<(Moment, Moment)> {
        let moments = &self.units[unit];
        let now = moments.last()?;
        Some((*now, *moments.get(moments.len().wrapping_sub(2)).unwrap_or(now)))
    }

    /// Whether a unit collided in any of the last `frames` frames.
    pub fn collided_within(&self, unit: usize, frames: usize) -> bool {
        self.units[unit].iter().rev().take(frames).any(|moment| moment.course.colliding)
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::Grid;
    use super::*;

    fn crossing() -> Rollout {
        let walk = Arc::new(Grid::open(20, 5));
        let [a, b] = [[1_000, 3_000], [3_000, 3_000]];
        Rollout::play(&Orders { walk, places: vec![a, b], given: vec![(2, 0, b), (2, 1, a)] }, 600)
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
                let (at, facing) = moment.course.at(&*run.field.walk, frame as u32);
                assert_eq!(pose(at, facing).pos, moment.pose.pos, "frame {frame}");
            }
        }
    }
}

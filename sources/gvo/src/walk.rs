//! Ways of units that were sent to a target, the same at both ends.
//!
//! All values are integers (steps of 1/64 unit), so that both ends get exactly the same places.

use std::collections::VecDeque;

/// Steps in one world unit.
pub const STEPS: i32 = 64;

/// A point on the ground, in steps.
pub type Point = [i32; 2];

/// Finds ways. Both ends of an action must find the same one, so it uses no clock, no randomness and no floats.
pub trait Pathfinding: Send + Sync {
    /// The corners of a way, without its start and with its end. Empty if there is no way.
    fn way(&self, from: Point, to: Point) -> Vec<Point>;
}

/// A square of cells, some of them blocked.
#[derive(Clone, Debug)]
pub struct Grid {
    cells: i32,
    /// Steps along a cell's side.
    cell: i32,
    blocked: Vec<bool>,
}

/// Tries to place an obstacle before giving up.
const TRIES: usize = 1_000;

impl Grid {
    /// A grid of `cells` × `cells` free cells of `units` units.
    pub fn open(cells: i32, units: i32) -> Grid {
        Grid { cells, cell: units * STEPS, blocked: vec![false; (cells * cells) as usize] }
    }

    /// Adds bars of three blocked cells at random; the points in `keep` stay free.
    pub fn with_bars(mut self, bars: usize, keep: &[Point], seed: u64) -> Grid {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut placed = 0;
        for _ in 0..TRIES {
            if placed == bars {
                break;
            }
            let (x, y) = (rng.i32(1..self.cells - 3), rng.i32(1..self.cells - 3));
            let upright = rng.bool();
            let bar = (0..3).map(|n| if upright { [x, y + n] } else { [x + n, y] });
            let bar: Vec<[i32; 2]> = bar.collect();
            if keep.iter().any(|point| bar.contains(&self.cell_of(*point))) {
                continue;
            }
            for cell in bar {
                let at = self.at(cell);
                self.blocked[at] = true;
            }
            placed += 1;
        }
        self
    }

    fn cell_of(&self, point: Point) -> [i32; 2] {
        point.map(|along| along.div_euclid(self.cell).clamp(0, self.cells - 1))
    }

    fn centre(&self, cell: [i32; 2]) -> Point {
        cell.map(|along| along * self.cell + self.cell / 2)
    }

    fn at(&self, [x, y]: [i32; 2]) -> usize {
        (y * self.cells + x) as usize
    }

    /// Whether a cell is free.
    fn free(&self, cell: [i32; 2]) -> bool {
        cell.iter().all(|along| (0..self.cells).contains(along)) && !self.blocked[self.at(cell)]
    }

    /// Whether a straight line crosses no blocked cell, each enlarged by one step on all sides, since walkers stand on
    /// whole steps.
    fn clear(&self, from: Point, to: Point) -> bool {
        let cells = (0..self.cells).flat_map(|y| (0..self.cells).map(move |x| [x, y]));
        cells.filter(|cell| self.blocked[self.at(*cell)]).all(|cell| {
            let low = cell.map(|along| along * self.cell - 1);
            let high = low.map(|along| along + self.cell + 2);
            let beside = |axis: usize| {
                from[axis].max(to[axis]) < low[axis] || from[axis].min(to[axis]) > high[axis]
            };
            if beside(0) || beside(1) {
                return true;
            }
            let side = |x: i32, y: i32| {
                let [dx, dy] = [to[0] - from[0], to[1] - from[1]].map(i64::from);
                dx * i64::from(y - from[1]) - dy * i64::from(x - from[0])
            };
            let sides =
                [(low[0], low[1]), (low[0], high[1]), (high[0], low[1]), (high[0], high[1])];
            let sides = sides.map(|(x, y)| side(x, y).signum());
            sides == [1; 4] || sides == [-1; 4]
        })
    }

    /// Cells from `from` to `to`, breadth first, with straight steps only; ties are broken by a fixed order.
    fn cells_between(&self, from: [i32; 2], to: [i32; 2]) -> Option<Vec<[i32; 2]>> {
        let mut came: Vec<Option<[i32; 2]>> = vec![None; self.blocked.len()];
        let mut open = VecDeque::from([to]);
        came[self.at(to)] = Some(to);
        while let Some(cell) = open.pop_front() {
            if cell == from {
                break;
            }
            for [dx, dy] in [[1, 0], [0, 1], [-1, 0], [0, -1]] {
                let next = [cell[0] + dx, cell[1] + dy];
                if (self.free(next) || next == from) && came[self.at(next)].is_none() {
                    came[self.at(next)] = Some(cell);
                    open.push_back(next);
                }
            }
        }
        let mut cells = vec![from];
        let mut cell = from;
        while cell != to {
            cell = came[self.at(cell)]?;
            cells.push(cell);
        }
        Some(cells)
    }
}

impl Pathfinding for Grid {
    fn way(&self, from: Point, to: Point) -> Vec<Point> {
        let goal = self.cell_of(to);
        if !self.free(goal) {
            return Vec::new();
        }
        let Some(cells) = self.cells_between(self.cell_of(from), goal) else { return Vec::new() };
        let mut points: Vec<Point> = cells.iter().map(|cell| self.centre(*cell)).collect();
        points.push(to);
        // Shortened: from each corner straight on to the farthest point in sight.
        let (mut way, mut here, mut next) = (Vec::new(), from, 0);
        while next < points.len() {
            let seen = (next..points.len()).rev().find(|at| self.clear(here, points[*at]));
            let at = seen.unwrap_or(next);
            here = points[at];
            way.push(here);
            next = at + 1;
        }
        way
    }
}

/// The length of a line, in whole steps.
pub fn length(from: Point, to: Point) -> i32 {
    let square = |axis: usize| (i64::from(to[axis]) - i64::from(from[axis])).pow(2);
    (square(0) + square(1)).isqrt() as i32
}

/// The point after some steps along a way, the corner before it, and whether it is the end.
pub fn along(from: Point, way: &[Point], walked: i32) -> (Point, Point, bool) {
    let (mut here, mut left) = (from, walked);
    for corner in way {
        let part = length(here, *corner);
        if left < part {
            let on = |axis: usize| {
                let whole = i64::from(corner[axis] - here[axis]);
                here[axis] + (whole * i64::from(left) / i64::from(part)) as i32
            };
            return ([on(0), on(1)], here, false);
        }
        left -= part;
        if part > 0 && Some(corner) == way.last() {
            return (*corner, here, true);
        }
        here = *corner;
    }
    (here, here, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Point = [100, 100];
    const TO: Point = [9_000, 8_000];

    #[test]
    fn ways_avoid_blocked_cells_and_end_at_the_target() {
        for seed in 0..20 {
            let grid = Grid::open(25, 6).with_bars(40, &[FROM, TO], seed);
            let way = grid.way(FROM, TO);
            assert_eq!(way.last(), Some(&TO), "seed {seed}");
            let all: i32 = way.iter().fold((FROM, 0), |(at, sum), p| (*p, sum + length(at, *p))).1;
            for walked in (0..all).step_by(16) {
                let (at, _, _) = along(FROM, &way, walked);
                assert!(grid.free(grid.cell_of(at)), "seed {seed}: {at:?}");
            }
            assert_eq!(along(FROM, &way, all + 5).0, TO);
        }
    }

    #[test]
    fn a_target_in_a_wall_has_no_way_and_a_straight_one_no_corners() {
        let mut grid = Grid::open(25, 6);
        assert_eq!(grid.way(FROM, TO), [TO]);
        let at = grid.at(grid.cell_of(TO));
        grid.blocked[at] = true;
        assert!(grid.way(FROM, TO).is_empty());
    }
}

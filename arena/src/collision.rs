//! Where an avatar's centre may be, in integers.
//!
//! Every obstacle becomes a convex set of half-planes, moved outwards by the avatar's radius; a
//! body is a point that stays out of these sets. All arithmetic from the vertices on uses integers,
//! so that an implementation in another language builds the same half-planes to the last bit:
//!
//! - for an edge (dx, dy) of a counter-clockwise outline the normal is n = (dy, −dx), and the limit
//!   is n·vertex + ⌈√(radius² · |n|²)⌉;
//! - for a vertex, the normals of its two edges are brought to length 4096 (each component divided
//!   by the rounded-down length, towards zero) and added; the limit follows as above. It cuts the
//!   corner that the two edges' half-planes would leave far outside.
//!
//! A place p is *outside* if n·p ≥ limit for at least one half-plane. The set contains every point
//! nearer to the obstacle than the radius, so a place outside is clear of the obstacle.

use crate::fixed::{Place, SUBUNITS};
use crate::grid::{CellLists, CellRange};
use crate::map::{AVATAR_RADIUS, ArenaMap};
use crate::movement::{AvatarSpeed, TickRate};

/// Radius of an avatar in 1/256 unit.
pub const RADIUS: i32 = AVATAR_RADIUS as i32 * SUBUNITS;

/// Length to which normals are brought before two are added.
const NORMAL_LENGTH: i64 = 4096;

/// A cell of the grid is 2^11/256 = 8 units wide.
const CELL_BITS: u32 = 11;

/// The side of an edge on which a body must stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wall {
    /// Outward normal; components are below 2^13, because no obstacle is wider than 32 units.
    pub nx: i64,
    pub ny: i64,
    pub limit: i64,
    /// |n|, rounded down.
    pub length: i64,
}

impl Wall {
    fn new(nx: i64, ny: i64, vertex: Place) -> Self {
        let squared = nx * nx + ny * ny;
        let reach = ceil_sqrt(i64::from(RADIUS) * i64::from(RADIUS) * squared);
        let limit = nx * i64::from(vertex.x) + ny * i64::from(vertex.y) + reach;
        Self { nx, ny, limit, length: squared.isqrt() }
    }

    /// How far a place is outside, times |n|; negative inside.
    pub fn outside_by(&self, p: Place) -> i64 {
        self.nx * i64::from(p.x) + self.ny * i64::from(p.y) - self.limit
    }
}

/// What [`crate::movement::step`] needs: the walls, the map's size, and speeds per tick.
#[derive(Debug, Clone)]
pub struct CollisionMap {
    side: i32,
    walls: Vec<Wall>,
    /// Obstacle `i` owns `walls[starts[i]..starts[i + 1]]`.
    starts: Vec<u32>,
    cells: CellLists,
    pace: AvatarSpeed,
}

impl CollisionMap {
    /// The walls of a map, for a game with this tick rate.
    pub fn new(map: &ArenaMap, rate: TickRate) -> Self {
        let side = (map.side() * f64::from(SUBUNITS)) as i32;
        let outlines: Vec<Vec<Place>> = map
            .obstacles()
            .iter()
            .map(|o| o.outline().vertices().iter().map(|&v| Place::near(v)).collect())
            .collect();
        let mut walls = Vec::new();
        let mut starts = vec![0];
        for outline in &outlines {
            push_walls(outline, &mut walls);
            starts.push(walls.len() as u32);
        }
        let width = (side >> CELL_BITS) as usize + 1;
        let reach: Vec<CellRange> = outlines.iter().map(|o| cells_around(o, width)).collect();
        let cells = CellLists::build(width, &reach);
        Self { side, walls, starts, cells, pace: AvatarSpeed::at(rate) }
    }

    /// Speeds per tick.
    pub fn pace(&self) -> &AvatarSpeed {
        &self.pace
    }

    /// Whether an avatar may stand here: on the map and outside of all walls.
    pub fn is_free(&self, place: Place) -> bool {
        self.inside_border(place) == place && self.obstacle_at(place).is_none()
    }

    /// The nearest place at least an avatar's radius from the map's edges.
    pub(crate) fn inside_border(&self, place: Place) -> Place {
        let within = |v: i32| v.clamp(RADIUS, self.side - RADIUS);
        Place { x: within(place.x), y: within(place.y) }
    }

    /// The walls of the obstacle that contains a place, which must be inside the border.
    pub(crate) fn obstacle_at(&self, place: Place) -> Option<&[Wall]> {
        let (column, row) = ((place.x >> CELL_BITS) as usize, (place.y >> CELL_BITS) as usize);
        self.cells.at(column, row).iter().find_map(|&obstacle| {
            let i = obstacle as usize;
            let walls = &self.walls[self.starts[i] as usize..self.starts[i + 1] as usize];
            walls.iter().all(|wall| wall.outside_by(place) < 0).then_some(walls)
        })
    }
}

fn push_walls(outline: &[Place], walls: &mut Vec<Wall>) {
    let n = outline.len();
    let normal = |i: usize| {
        let (a, b) = (outline[i % n], outline[(i + 1) % n]);
        (i64::from(b.y - a.y), i64::from(a.x - b.x))
    };
    let scaled = |(x, y): (i64, i64)| {
        let length = (x * x + y * y).isqrt();
        (x * NORMAL_LENGTH / length, y * NORMAL_LENGTH / length)
    };
    for (i, &vertex) in outline.iter().enumerate() {
        let (after, before) = (normal(i), normal(i + n - 1));
        walls.push(Wall::new(after.0, after.1, vertex));
        let (after, before) = (scaled(after), scaled(before));
        walls.push(Wall::new(after.0 + before.0, after.1 + before.1, vertex));
    }
}

/// The cells that an inflated outline can reach: its cut corners stay within √2 radii.
fn cells_around(outline: &[Place], width: usize) -> CellRange {
    let span = |pick: fn(&Place) -> i32| {
        let low = outline.iter().map(pick).min().unwrap_or(0) - 2 * RADIUS;
        let high = outline.iter().map(pick).max().unwrap_or(0) + 2 * RADIUS;
        let cell = |v: i32| ((v.max(0) >> CELL_BITS) as usize).min(width - 1);
        (cell(low), cell(high))
    };
    CellRange { columns: span(|p| p.x), rows: span(|p| p.y) }
}

/// The least integer whose square is not below `n`.
fn ceil_sqrt(n: i64) -> i64 {
    let root = n.isqrt();
    if root * root < n { root + 1 } else { root }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_normal_is_longer_than_the_overflow_bound_assumes() {
        for seed in 0..50 {
            let map = ArenaMap::generate(seed, 200.0, 100);
            let collision = CollisionMap::new(&map, TickRate::DEFAULT);
            assert!(collision.walls.iter().all(|w| w.nx.abs() < 1 << 13 && w.ny.abs() < 1 << 13));
            assert!(collision.walls.iter().all(|w| w.length > 0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn a_free_place_is_a_radius_from_every_obstacle(
            seed in 0u64..20, x in 0i32..100 * SUBUNITS, y in 0i32..100 * SUBUNITS,
        ) {
            let map = ArenaMap::generate(seed, 100.0, 30);
            let place = Place { x, y };
            let clear = |radius| map.is_free(place.point(), radius);
            if CollisionMap::new(&map, TickRate::DEFAULT).is_free(place) {
                prop_assert!(clear(AVATAR_RADIUS - 1e-9));
            } else {
                // The inflated shape is not much larger than necessary.
                prop_assert!(!clear(AVATAR_RADIUS * 1.42 + 0.01));
            }
        }
    }
}

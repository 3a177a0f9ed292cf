//! The arena's map: a square with convex obstacles, lines of sight, and free places.

use fastrand::Rng;

use crate::generate;
use crate::geometry::{Bounds, ConvexPolygon, HalfPlane, Point, Segment};
use crate::graph::Graph;
use crate::grid::Grid;
use crate::voronoi;

/// Radius of an avatar, in world units.
pub const AVATAR_RADIUS: f64 = 1.0;

/// The least gap between two obstacles, and between an obstacle and the map's edge. An avatar is
/// two units wide, and the cut corners of two inflated obstacles ([`ConvexPolygon::planes`]) add at
/// most 0.83; the rest is room to spare.
pub const PASSAGE: f64 = 3.5;

/// The distance from walls, beyond the avatar's radius, at which bots plan their ways, so that they
/// do not scrape along.
pub(crate) const CLEARANCE: f64 = 0.25;

/// Smallest and largest side of a map. The largest keeps every product of the movement step below
/// 2^53 ([`crate::movement`]).
pub const SIDE_LIMITS: (f64, f64) = (16.0, 4096.0);

/// The most obstacles of a map.
pub const MAX_OBSTACLES: usize = 4096;

/// Width of a grid cell: about the size of an obstacle, so that a cell lists one or two.
const CELL: f64 = 8.0;

/// A solid obstacle: neither sight nor walkers pass through it.
#[derive(Debug, Clone)]
pub struct Obstacle {
    outline: ConvexPolygon,
    bounds: Bounds,
    solid: Vec<HalfPlane>,
    /// The area where bots' ways must not pass.
    kept_clear: Vec<HalfPlane>,
}

impl Obstacle {
    fn new(outline: ConvexPolygon) -> Self {
        let bounds = outline.bounds();
        let solid = outline.planes(0.0);
        let kept_clear = outline.planes(AVATAR_RADIUS + CLEARANCE);
        Self { outline, bounds, solid, kept_clear }
    }

    /// The outline, on the 1/256 grid of [`crate::Place`].
    pub fn outline(&self) -> &ConvexPolygon {
        &self.outline
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub(crate) fn kept_clear(&self) -> &[HalfPlane] {
        &self.kept_clear
    }
}

/// A square map `0..side` in both directions, with its obstacles and the graph of ways between them.
///
/// ```
/// use foveate_arena::{ArenaMap, Point};
///
/// let map = ArenaMap::generate(7, 120.0, 24);
/// assert_eq!(map.side(), 120.0);
/// assert!(map.line_of_sight(Point::new(1.0, 1.0), Point::new(1.0, 119.0)));
/// ```
#[derive(Debug, Clone)]
pub struct ArenaMap {
    side: f64,
    obstacles: Vec<Obstacle>,
    grid: Grid,
    graph: Graph,
}

impl ArenaMap {
    /// The map of a seed: the same on every machine. `side` is clamped to [`SIDE_LIMITS`] and
    /// rounded down to a whole unit, `obstacle_count` is limited to [`MAX_OBSTACLES`]; obstacles
    /// that find no room are left out.
    pub fn generate(seed: u64, side: f64, obstacle_count: usize) -> ArenaMap {
        // `max` before `min` also turns NaN into the smallest side.
        let side = side.max(SIDE_LIMITS.0).min(SIDE_LIMITS.1).floor();
        let mut rng = Rng::with_seed(seed);
        let outlines = generate::obstacles(&mut rng, side, obstacle_count.min(MAX_OBSTACLES));
        Self::with_obstacles(side, outlines)
    }

    /// A map with these obstacles, which must keep [`PASSAGE`] from each other and the map's edge.
    pub(crate) fn with_obstacles(side: f64, outlines: Vec<ConvexPolygon>) -> ArenaMap {
        let obstacles: Vec<Obstacle> = outlines.into_iter().map(Obstacle::new).collect();
        // One grid serves sight and walking, so an obstacle is listed as far as its kept-clear
        // shape reaches; this also absorbs the rounding of a walk that passes a cell's corner.
        let reach = (AVATAR_RADIUS + CLEARANCE) * std::f64::consts::SQRT_2 + CLEARANCE;
        let bounds: Vec<Bounds> = obstacles.iter().map(|o| o.bounds.grown(reach)).collect();
        let grid = Grid::build(side, CELL, &bounds);
        let graph = voronoi::graph(side, &obstacles);
        ArenaMap { side, obstacles, grid, graph }
    }

    /// Length of the map's side, in world units.
    pub fn side(&self) -> f64 {
        self.side
    }

    /// The obstacles, in the order in which they were placed.
    pub fn obstacles(&self) -> &[Obstacle] {
        &self.obstacles
    }

    /// The graph of ways.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Whether nothing solid is between two points. Touching an obstacle blocks; two points outside
    /// the map see each other past it; a coordinate that is not finite sees nothing.
    pub fn line_of_sight(&self, a: Point, b: Point) -> bool {
        let sight = Segment::new(a, b);
        sight.length().is_finite()
            && !self
                .grid
                .any_along(&sight, |i| sight.span_inside(&self.obstacles[i].solid).is_some())
    }

    /// The share of the way from `a` to `b` up to the first obstacle; 1 if there is none, and 0 if
    /// a coordinate is not finite.
    pub fn free_share(&self, a: Point, b: Point) -> f64 {
        let way = Segment::new(a, b);
        if !way.length().is_finite() {
            return 0.0;
        }
        let mut share = 1.0f64;
        self.grid.any_along(&way, |i| {
            if let Some(span) = way.span_inside(&self.obstacles[i].solid) {
                share = share.min(span.enter);
            }
            false
        });
        share
    }

    /// Whether an avatar can walk straight from `a` to `b`, two points of the map, without coming
    /// near an obstacle.
    pub fn is_walkable(&self, a: Point, b: Point) -> bool {
        let way = Segment::new(a, b);
        way.length().is_finite()
            && !self
                .grid
                .any_along(&way, |i| way.span_inside(&self.obstacles[i].kept_clear).is_some())
    }

    /// Whether a disc of `radius` around `point` is on the map and inside no obstacle.
    pub fn is_free(&self, point: Point, radius: f64) -> bool {
        let room = radius..=self.side - radius;
        let around = Bounds { min: point, max: point }.grown(radius);
        room.contains(&point.x)
            && room.contains(&point.y)
            && !self.grid.any_in(&around, |i| {
                let outline = &self.obstacles[i].outline;
                outline.contains(point) || outline.distance(point) < radius
            })
    }

    /// The point nearest to `point` at which a disc of `radius` is on the map, ignoring obstacles.
    pub fn clamp(&self, point: Point, radius: f64) -> Point {
        let radius = radius.max(0.0).min(self.side / 2.0);
        let inside = |v: f64| v.max(radius).min(self.side - radius);
        Point::new(inside(point.x), inside(point.y))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By the outlines' edges, one by one, without the grid and the half-planes.
    fn line_of_sight_by_force(map: &ArenaMap, a: Point, b: Point) -> bool {
        let sight = Segment::new(a, b);
        !map.obstacles.iter().any(|obstacle| {
            obstacle.outline.contains(a)
                || obstacle.outline.edges().any(|edge| edge.intersection(&sight).is_some())
        })
    }

    /// Whether a corner is on the line of sight within rounding, so that either answer is right.
    fn grazes(map: &ArenaMap, a: Point, b: Point) -> bool {
        let sight = Segment::new(a, b);
        let corners = map.obstacles.iter().flat_map(|o| o.outline.edges());
        corners.into_iter().any(|edge| sight.distance(edge.a) < 1e-9)
    }

    fn outlines(map: &ArenaMap) -> Vec<&ConvexPolygon> {
        map.obstacles.iter().map(|o| &o.outline).collect()
    }

    #[test]
    fn one_seed_gives_one_map_and_another_seed_another() {
        let (a, b) = (ArenaMap::generate(5, 150.0, 40), ArenaMap::generate(5, 150.0, 40));
        assert_eq!(outlines(&a), outlines(&b));
        assert_eq!(a.graph, b.graph);
        assert_ne!(outlines(&a), outlines(&ArenaMap::generate(6, 150.0, 40)));
    }

    #[test]
    fn an_avatar_passes_between_any_two_obstacles_and_along_the_edge() {
        for seed in 0..20 {
            let map = ArenaMap::generate(seed, 150.0, 200);
            assert!(map.obstacles.len() > 30, "only {} fit", map.obstacles.len());
            for (i, a) in map.obstacles.iter().enumerate() {
                let bounds = a.bounds.grown(PASSAGE);
                assert!(bounds.min.x >= 0.0 && bounds.max.x <= map.side);
                assert!(bounds.min.y >= 0.0 && bounds.max.y <= map.side);
                for b in &map.obstacles[..i] {
                    assert!(a.outline.gap(&b.outline) >= PASSAGE);
                }
            }
        }
    }

    #[test]
    fn absurd_requests_become_the_nearest_sensible_map() {
        for side in [f64::NAN, -3.0, 0.0, f64::NEG_INFINITY] {
            assert_eq!(ArenaMap::generate(1, side, 10).side(), SIDE_LIMITS.0);
        }
        let largest = ArenaMap::generate(1, f64::INFINITY, 3);
        assert_eq!(largest.side(), SIDE_LIMITS.1);
        assert_eq!(largest.obstacles.len(), 3);
    }

    #[test]
    fn a_point_that_is_no_number_sees_nothing_and_is_not_free() {
        let map = ArenaMap::generate(1, 100.0, 20);
        let nowhere = Point::new(f64::NAN, 5.0);
        assert!(!map.line_of_sight(nowhere, Point::new(1.0, 1.0)));
        assert!(!map.line_of_sight(Point::new(1.0, 1.0), Point::new(f64::INFINITY, 1.0)));
        assert!(!map.is_walkable(nowhere, Point::new(1.0, 1.0)));
        assert!(!map.is_free(nowhere, 1.0));
    }

    #[test]
    fn clamped_points_leave_room_for_the_avatar() {
        let map = ArenaMap::generate(1, 100.0, 0);
        assert_eq!(map.clamp(Point::new(-5.0, 99.9), 1.0), Point::new(1.0, 99.0));
        assert!(map.is_free(map.clamp(Point::new(1e9, -1e9), 1.0), 1.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn line_of_sight_agrees_with_brute_force(
            seed in 0u64..50,
            a in (-20.0..140.0f64, -20.0..140.0f64),
            b in (-20.0..140.0f64, -20.0..140.0f64),
        ) {
            let map = ArenaMap::generate(seed, 120.0, 30);
            let (a, b) = (Point::new(a.0, a.1), Point::new(b.0, b.1));
            prop_assume!(!grazes(&map, a, b));
            prop_assert_eq!(map.line_of_sight(a, b), line_of_sight_by_force(&map, a, b));
        }

        #[test]
        fn sight_is_free_as_far_as_the_first_wall(
            seed in 0u64..50,
            a in (1.0..119.0f64, 1.0..119.0f64),
            b in (1.0..119.0f64, 1.0..119.0f64),
        ) {
            let map = ArenaMap::generate(seed, 120.0, 30);
            let way = Segment::new(Point::new(a.0, a.1), Point::new(b.0, b.1));
            let share = map.free_share(way.a, way.b);
            prop_assert_eq!(share == 1.0, map.line_of_sight(way.a, way.b));
            prop_assert!(share <= 1e-6 || map.line_of_sight(way.a, way.at(share - 1e-6)));
            prop_assert!(share == 1.0 || !map.line_of_sight(way.a, way.at(share + 1e-6)));
        }

        #[test]
        fn sight_along_grid_lines_agrees_with_brute_force(
            seed in 0u64..50, ax in 0u8..=15, ay in 0u8..=15, bx in 0u8..=15, by in 0u8..=15,
        ) {
            let map = ArenaMap::generate(seed, 120.0, 30);
            let corner = |x: u8, y: u8| Point::new(f64::from(x) * 8.0, f64::from(y) * 8.0);
            let (a, b) = (corner(ax, ay), corner(bx, by));
            prop_assume!(!grazes(&map, a, b));
            prop_assert_eq!(map.line_of_sight(a, b), line_of_sight_by_force(&map, a, b));
        }

        #[test]
        fn a_walkable_way_is_free_all_along(
            seed in 0u64..50,
            a in (1.0..119.0f64, 1.0..119.0f64),
            b in (1.0..119.0f64, 1.0..119.0f64),
        ) {
            let map = ArenaMap::generate(seed, 120.0, 30);
            let way = Segment::new(Point::new(a.0, a.1), Point::new(b.0, b.1));
            let free = (0..=50).all(|i| map.is_free(way.at(f64::from(i) / 50.0), AVATAR_RADIUS));
            prop_assert!(!map.is_walkable(way.a, way.b) || free);
        }

        #[test]
        fn a_point_is_free_when_every_obstacle_is_a_radius_away(
            seed in 0u64..50, x in 0.0..120.0f64, y in 0.0..120.0f64, radius in 0.1..10.0f64,
        ) {
            let map = ArenaMap::generate(seed, 120.0, 30);
            let p = Point::new(x, y);
            let by_force = [x, y, 120.0 - x, 120.0 - y].iter().all(|&room| room >= radius)
                && map.obstacles.iter().all(|o| o.outline.distance(p) >= radius);
            prop_assert_eq!(map.is_free(p, radius), by_force);
        }
    }
}

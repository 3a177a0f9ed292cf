//! Random convex obstacles, in fixed point from the first draw.
//!
//! All arithmetic uses integers: the vertices are on the 1/256 grid on which avatars move, so that
//! what is drawn, what blocks sight and what stops a walker is the same shape.

use fastrand::Rng;

use crate::fixed::{Place, SUBUNITS};
use crate::geometry::{ConvexPolygon, Point};
use crate::map::PASSAGE;
use crate::trig::Yaw;

/// How many places are tried for one obstacle before it is left out, so that a full map ends the
/// search.
const ATTEMPTS: usize = 64;

/// The least half side of a box, in units: a thin wall.
const BOX_HALF_MIN: i32 = 1;
/// The greatest half side of a box, in units: a house.
const BOX_HALF_MAX: i32 = 7;
/// The least radius of the circle on which a polygon's corners lie, in units.
const RADIUS_MIN: i32 = 2;
/// The greatest radius of that circle, in units.
const RADIUS_MAX: i32 = 5;
/// Corners of a polygon.
const CORNERS: std::ops::RangeInclusive<u16> = 3..=7;

/// Up to `count` obstacles inside the square `0..side`, at least [`PASSAGE`] from each other and
/// from the map's edge; fewer if `count` do not fit.
pub(crate) fn obstacles(rng: &mut Rng, side: f64, count: usize) -> Vec<ConvexPolygon> {
    let mut placed: Vec<ConvexPolygon> = Vec::with_capacity(count);
    for _ in 0..count {
        let found = (0..ATTEMPTS)
            .filter_map(|_| candidate(rng, side))
            .find(|polygon| placed.iter().all(|other| is_apart(polygon, other)));
        placed.extend(found);
    }
    placed
}

/// One obstacle at a random place, or `None` if it would be too near to the map's edge.
fn candidate(rng: &mut Rng, side: f64) -> Option<ConvexPolygon> {
    let extent = (side * f64::from(SUBUNITS)) as i32;
    let (x, y) = (rng.i32(0..extent), rng.i32(0..extent));
    let offsets = if rng.bool() { rotated_box(rng) } else { cyclic_polygon(rng) };
    let vertices: Vec<Point> =
        offsets.iter().map(|(dx, dy)| Place { x: x + dx, y: y + dy }.point()).collect();
    let polygon = ConvexPolygon::new(vertices)?;
    let bounds = polygon.bounds().grown(PASSAGE);
    let fits =
        bounds.min.x >= 0.0 && bounds.min.y >= 0.0 && bounds.max.x <= side && bounds.max.y <= side;
    fits.then_some(polygon)
}

fn is_apart(a: &ConvexPolygon, b: &ConvexPolygon) -> bool {
    !a.bounds().grown(PASSAGE).meets(&b.bounds()) || a.gap(b) >= PASSAGE
}

/// Corners of a box around the origin, at any angle.
fn rotated_box(rng: &mut Rng) -> Vec<(i32, i32)> {
    let mut half = || rng.i32(BOX_HALF_MIN * SUBUNITS..=BOX_HALF_MAX * SUBUNITS);
    let (w, h) = (half(), half());
    let yaw = Yaw(rng.u16(..));
    [(-w, -h), (w, -h), (w, h), (-w, h)].map(|(x, y)| rotate(x, y, yaw)).to_vec()
}

/// Corners on a circle, which are in convex position at any angles. Each stays in the middle of its
/// own sector, so that no edge becomes too short to stay convex when rounded.
fn cyclic_polygon(rng: &mut Rng) -> Vec<(i32, i32)> {
    let radius = rng.i32(RADIUS_MIN * SUBUNITS..=RADIUS_MAX * SUBUNITS);
    let corners = rng.u16(CORNERS);
    let sector = u16::MAX / corners;
    let turn = rng.u16(..);
    (0..corners)
        .map(|i| {
            let within = rng.u16(0..sector * 2 / 3);
            rotate(radius, 0, Yaw(turn.wrapping_add(i * sector + within)))
        })
        .collect()
}

/// Rounds towards negative infinity; at most 1/256 unit off, the same everywhere.
fn rotate(x: i32, y: i32, yaw: Yaw) -> (i32, i32) {
    let (sin, cos) = (i64::from(yaw.sin()), i64::from(yaw.cos()));
    let (x, y) = (i64::from(x), i64::from(y));
    (((x * cos - y * sin) >> 16) as i32, ((x * sin + y * cos) >> 16) as i32)
}

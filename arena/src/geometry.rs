//! Plane geometry in `f64`: points, segments, half-planes and convex polygons.
//!
//! Only `+ - * /` and `sqrt` are used, which IEEE 754 defines to the last bit, so that a map built
//! from a seed is the same on every machine. Library sines differ between platforms; directions
//! come from [`crate::trig`].

use std::ops::{Add, Mul, Sub};

/// A place on the map, in world units.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point {
    /// Eastward.
    pub x: f64,
    /// Northward.
    pub y: f64,
}

/// A difference of two [`Point`]s.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Vector {
    /// Eastward.
    pub x: f64,
    /// Northward.
    pub y: f64,
}

impl Point {
    /// The point with these coordinates.
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }

    /// Distance to another point.
    pub fn distance(self, other: Point) -> f64 {
        (other - self).length()
    }
}

impl Vector {
    /// The vector with these components.
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }

    /// Scalar product.
    pub fn dot(self, other: Vector) -> f64 {
        self.x * other.x + self.y * other.y
    }

    /// Signed area of the parallelogram: positive if `other` is to the left of `self`.
    pub fn cross(self, other: Vector) -> f64 {
        self.x * other.y - self.y * other.x
    }

    /// Euclidean length (by `sqrt`, not `hypot`, whose last bit depends on the platform).
    pub fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The same direction with length 1, or `None` for the null vector.
    pub fn unit(self) -> Option<Vector> {
        let length = self.length();
        (length > 0.0).then(|| self * (1.0 / length))
    }

    /// Turned left by a quarter turn.
    pub fn left(self) -> Vector {
        Vector::new(-self.y, self.x)
    }
}

impl Sub for Point {
    type Output = Vector;
    fn sub(self, other: Point) -> Vector {
        Vector::new(self.x - other.x, self.y - other.y)
    }
}

impl Add<Vector> for Point {
    type Output = Point;
    fn add(self, by: Vector) -> Point {
        Point::new(self.x + by.x, self.y + by.y)
    }
}

impl Add for Vector {
    type Output = Vector;
    fn add(self, other: Vector) -> Vector {
        Vector::new(self.x + other.x, self.y + other.y)
    }
}

impl Mul<f64> for Vector {
    type Output = Vector;
    fn mul(self, by: f64) -> Vector {
        Vector::new(self.x * by, self.y * by)
    }
}

/// A straight line from `a` to `b`; a share `t` of 0 is `a`, of 1 is `b`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Start.
    pub a: Point,
    /// End.
    pub b: Point,
}

/// The part of a segment between two shares, `enter <= exit`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Share at which the part begins.
    pub enter: f64,
    /// Share at which the part ends.
    pub exit: f64,
}

impl Segment {
    /// The segment between two points.
    pub const fn new(a: Point, b: Point) -> Self {
        Self { a, b }
    }

    /// The point at share `t`.
    pub fn at(&self, t: f64) -> Point {
        self.a + (self.b - self.a) * t
    }

    /// Length.
    pub fn length(&self) -> f64 {
        self.a.distance(self.b)
    }

    /// The point in which two segments cross or touch; `None` if they miss each other or are
    /// parallel (overlapping parallels have no *single* point, and the map never asks for it).
    pub fn intersection(&self, other: &Segment) -> Option<Point> {
        let (d, e) = (self.b - self.a, other.b - other.a);
        let denominator = d.cross(e);
        if denominator == 0.0 {
            return None;
        }
        let between = other.a - self.a;
        let t = between.cross(e) / denominator;
        let u = between.cross(d) / denominator;
        ((0.0..=1.0).contains(&t) && (0.0..=1.0).contains(&u)).then(|| self.at(t))
    }

    /// Distance from `p` to the nearest point of the segment.
    pub fn distance(&self, p: Point) -> f64 {
        let d = self.b - self.a;
        let squared = d.dot(d);
        if squared == 0.0 {
            return self.a.distance(p);
        }
        let t = ((p - self.a).dot(d) / squared).clamp(0.0, 1.0);
        self.at(t).distance(p)
    }

    /// The part of the segment inside **all** of the half-planes (closed), i.e. in the convex set
    /// that they bound. A segment with a NaN coordinate has no part.
    pub fn span_inside(&self, planes: &[HalfPlane]) -> Option<Span> {
        let mut span = Span { enter: 0.0, exit: 1.0 };
        for plane in planes {
            let (at_a, at_b) = (plane.outside_by(self.a), plane.outside_by(self.b));
            if at_a.is_nan() || at_b.is_nan() || (at_a > 0.0 && at_b > 0.0) {
                return None;
            }
            if at_a > 0.0 {
                span.enter = span.enter.max(at_a / (at_a - at_b));
            } else if at_b > 0.0 {
                span.exit = span.exit.min(at_a / (at_a - at_b));
            }
        }
        (span.enter <= span.exit).then_some(span)
    }
}

/// All points on one side of a line. The *inside* is where [`HalfPlane::outside_by`] is not
/// positive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HalfPlane {
    normal: Vector,
    offset: f64,
}

impl HalfPlane {
    /// The half-plane whose edge passes through `through`, and whose outside is in the direction of
    /// `normal`, a unit vector.
    pub fn new(normal: Vector, through: Point) -> Self {
        Self { normal, offset: normal.x * through.x + normal.y * through.y }
    }

    /// How far `p` is outside; negative inside.
    pub fn outside_by(&self, p: Point) -> f64 {
        self.normal.x * p.x + self.normal.y * p.y - self.offset
    }
}

/// An axis-aligned rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// South-west corner.
    pub min: Point,
    /// North-east corner.
    pub max: Point,
}

impl Bounds {
    /// The rectangle, enlarged by `by` on all sides.
    pub fn grown(&self, by: f64) -> Bounds {
        Bounds {
            min: Point::new(self.min.x - by, self.min.y - by),
            max: Point::new(self.max.x + by, self.max.y + by),
        }
    }

    /// The smallest rectangle around a segment.
    pub fn of(segment: &Segment) -> Bounds {
        let Segment { a, b } = *segment;
        Bounds {
            min: Point::new(a.x.min(b.x), a.y.min(b.y)),
            max: Point::new(a.x.max(b.x), a.y.max(b.y)),
        }
    }

    /// Whether the two rectangles share a point.
    pub fn meets(&self, other: &Bounds) -> bool {
        self.min.x <= other.max.x
            && other.min.x <= self.max.x
            && self.min.y <= other.max.y
            && other.min.y <= self.max.y
    }

    /// The rectangle as four half-planes, for [`Segment::span_inside`].
    pub fn planes(&self) -> [HalfPlane; 4] {
        [
            HalfPlane::new(Vector::new(-1.0, 0.0), self.min),
            HalfPlane::new(Vector::new(0.0, -1.0), self.min),
            HalfPlane::new(Vector::new(1.0, 0.0), self.max),
            HalfPlane::new(Vector::new(0.0, 1.0), self.max),
        ]
    }
}

/// A convex polygon, its vertices in counter-clockwise order, no three of them collinear.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvexPolygon {
    vertices: Vec<Point>,
}

impl ConvexPolygon {
    /// Returns `None` unless there are at least three vertices, counter-clockwise and strictly
    /// convex.
    pub fn new(vertices: Vec<Point>) -> Option<Self> {
        let n = vertices.len();
        let turns_left = (0..n).all(|i| {
            let (a, b, c) = (vertices[i], vertices[(i + 1) % n], vertices[(i + 2) % n]);
            (b - a).cross(c - b) > 0.0
        });
        // Left turns alone also admit stars that wind twice; a fan around the first vertex does
        // not.
        let winds_once = (1..n.saturating_sub(1))
            .all(|i| (vertices[i] - vertices[0]).cross(vertices[i + 1] - vertices[0]) > 0.0);
        (n >= 3 && turns_left && winds_once).then_some(Self { vertices })
    }

    /// The vertices, counter-clockwise.
    pub fn vertices(&self) -> &[Point] {
        &self.vertices
    }

    /// The edges, each from a vertex to the next.
    pub fn edges(&self) -> impl Iterator<Item = Segment> + '_ {
        let n = self.vertices.len();
        (0..n).map(move |i| Segment::new(self.vertices[i], self.vertices[(i + 1) % n]))
    }

    /// Whether `p` lies inside or on the outline.
    pub fn contains(&self, p: Point) -> bool {
        self.edges().all(|edge| (edge.b - edge.a).cross(p - edge.a) >= 0.0)
    }

    /// Distance from `p` to the polygon; 0 inside.
    pub fn distance(&self, p: Point) -> f64 {
        if self.contains(p) {
            return 0.0;
        }
        self.edges().map(|edge| edge.distance(p)).fold(f64::INFINITY, f64::min)
    }

    /// Distance between two polygons; 0 if they overlap.
    pub fn gap(&self, other: &ConvexPolygon) -> f64 {
        // Disjoint convex polygons are nearest at a vertex of one of them. Overlapping ones either
        // hold a vertex of the other (distance 0) or cross edges.
        let crossing =
            self.edges().any(|edge| other.edges().any(|e| edge.intersection(&e).is_some()));
        if crossing {
            return 0.0;
        }
        let from = |a: &ConvexPolygon, b: &ConvexPolygon| {
            a.vertices.iter().map(|&v| b.distance(v)).fold(f64::INFINITY, f64::min)
        };
        from(self, other).min(from(other, self))
    }

    /// The smallest axis-aligned rectangle around the polygon.
    pub fn bounds(&self) -> Bounds {
        let first = Bounds { min: self.vertices[0], max: self.vertices[0] };
        self.vertices.iter().fold(first, |b, v| Bounds {
            min: Point::new(b.min.x.min(v.x), b.min.y.min(v.y)),
            max: Point::new(b.max.x.max(v.x), b.max.y.max(v.y)),
        })
    }

    /// The polygon as half-planes, moved outwards by `radius`.
    ///
    /// With a radius, every corner is cut by one more half-plane that touches the circle around the
    /// vertex. The result contains every point nearer than `radius` and reaches at most √2 times as
    /// far, while a plain mitre would extend to infinity at a sharp corner. All edges are straight,
    /// so that the same shape is exact in integers ([`crate::collision`]).
    pub fn planes(&self, radius: f64) -> Vec<HalfPlane> {
        let n = self.vertices.len();
        let normal = |i: usize| {
            let edge = self.vertices[(i + 1) % n] - self.vertices[i % n];
            (edge.left() * -1.0).unit().unwrap_or_default()
        };
        let mut planes = Vec::with_capacity(2 * n);
        for (i, &vertex) in self.vertices.iter().enumerate() {
            let outward = normal(i);
            planes.push(HalfPlane::new(outward, vertex + outward * radius));
            if radius > 0.0
                && let Some(middle) = (outward + normal(i + n - 1)).unit()
            {
                planes.push(HalfPlane::new(middle, vertex + middle * radius));
            }
        }
        planes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn square() -> ConvexPolygon {
        let corners = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)];
        ConvexPolygon::new(corners.map(|(x, y)| Point::new(x, y)).to_vec()).expect("convex")
    }

    #[test]
    fn crossing_segments_meet_in_one_point_and_parallel_ones_in_none() {
        let s = |ax, ay, bx, by| Segment::new(Point::new(ax, ay), Point::new(bx, by));
        let diagonal = s(0.0, 0.0, 2.0, 2.0);
        assert_eq!(diagonal.intersection(&s(0.0, 2.0, 2.0, 0.0)), Some(Point::new(1.0, 1.0)));
        assert_eq!(diagonal.intersection(&s(0.0, 1.0, 2.0, 3.0)), None);
        assert_eq!(diagonal.intersection(&s(3.0, 0.0, 3.0, 9.0)), None);
        assert_eq!(diagonal.intersection(&s(2.0, 0.0, 2.0, 9.0)), Some(Point::new(2.0, 2.0)));
    }

    #[test]
    fn clockwise_reflex_and_star_outlines_are_refused() {
        let polygon =
            |v: &[(f64, f64)]| ConvexPolygon::new(v.iter().map(|p| Point::new(p.0, p.1)).collect());
        assert!(polygon(&[(0.0, 0.0), (1.0, 0.0)]).is_none());
        assert!(polygon(&[(0.0, 0.0), (0.0, 2.0), (2.0, 2.0), (2.0, 0.0)]).is_none());
        assert!(polygon(&[(0.0, 0.0), (4.0, 0.0), (1.0, 1.0), (0.0, 4.0)]).is_none());
        let star = [(0.0, 9.0), (-5.0, -7.0), (9.0, 3.0), (-9.0, 3.0), (5.0, -7.0)];
        assert!(polygon(&star).is_none());
    }

    #[test]
    fn a_segment_through_a_square_is_cut_where_it_enters_and_leaves() {
        let through = Segment::new(Point::new(-1.0, 1.0), Point::new(3.0, 1.0));
        let span = through.span_inside(&square().planes(0.0)).expect("crosses");
        assert_eq!(span, Span { enter: 0.25, exit: 0.75 });
        let beside = Segment::new(Point::new(-1.0, 3.0), Point::new(3.0, 3.0));
        assert_eq!(beside.span_inside(&square().planes(0.0)), None);
        let nowhere = Segment::new(Point::new(f64::NAN, 1.0), Point::new(3.0, 1.0));
        assert_eq!(nowhere.span_inside(&square().planes(0.0)), None);
    }

    proptest! {
        #[test]
        fn a_point_is_in_the_polygon_exactly_when_it_is_in_all_its_half_planes(
            x in -1.0..3.0f64, y in -1.0..3.0f64,
        ) {
            let p = Point::new(x, y);
            let inside = square().planes(0.0).iter().all(|plane| plane.outside_by(p) <= 0.0);
            prop_assert_eq!(square().contains(p), inside);
        }

        #[test]
        fn the_inflated_outline_holds_all_points_nearer_than_the_radius(
            x in -3.0..5.0f64, y in -3.0..5.0f64, radius in 0.1..1.5f64,
        ) {
            let p = Point::new(x, y);
            let inside = square().planes(radius).iter().all(|plane| plane.outside_by(p) <= 0.0);
            let distance = square().distance(p);
            if distance < radius - 1e-9 {
                prop_assert!(inside);
            }
            if distance > radius * std::f64::consts::SQRT_2 {
                prop_assert!(!inside);
            }
        }
    }
}

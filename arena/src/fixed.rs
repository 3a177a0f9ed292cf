//! The fixed-point units of movement.

use crate::geometry::Point;

/// Steps of a [`Place`] in one world unit.
pub const SUBUNITS: i32 = 256;

/// A place on the map in 1/256 unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Eastward.
    pub x: i32,
    /// Northward.
    pub y: i32,
}

impl Place {
    /// The place nearest to a point.
    pub fn near(point: Point) -> Place {
        let nearest = |v: f64| (v * f64::from(SUBUNITS)).round() as i32;
        Place { x: nearest(point.x), y: nearest(point.y) }
    }

    /// The same place in world units, exactly.
    pub fn point(self) -> Point {
        let units = |v: i32| f64::from(v) / f64::from(SUBUNITS);
        Point::new(units(self.x), units(self.y))
    }
}

/// A velocity in 1/65,536 unit **per tick**: eight bits finer than a [`Place`], so that slow starts
/// and high tick rates do not round to zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Velocity {
    /// Eastward.
    pub x: i32,
    /// Northward.
    pub y: i32,
}

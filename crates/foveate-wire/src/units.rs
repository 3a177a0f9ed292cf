//! Units as types, so that a number says whether it is ticks, microseconds or metres.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Index, Mul, Sub};

/// A point in simulation time, counted in rounds.
///
/// It wraps, so it has no `Ord`: use [`Tick::since`] for the distance of two ticks, and
/// [`Tick::is_after`] for their order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Tick(pub u32);

impl Tick {
    /// Rounds from `earlier` to `self`. It wraps, so it is huge if `earlier` is in fact later.
    #[inline]
    pub const fn since(self, earlier: Tick) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether `self` comes after `other`, by the shorter way round.
    #[inline]
    pub const fn is_after(self, other: Tick) -> bool {
        self.0.wrapping_sub(other.0).wrapping_sub(1) < u32::MAX / 2
    }

    /// The tick `rounds` later.
    #[inline]
    pub const fn plus(self, rounds: u32) -> Tick {
        Tick(self.0.wrapping_add(rounds))
    }

    /// The tick `rounds` earlier.
    #[inline]
    pub const fn minus(self, rounds: u32) -> Tick {
        Tick(self.0.wrapping_sub(rounds))
    }
}

/// A point or a span of time in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(pub u64);

impl Micros {
    /// No bound: longer than any session.
    pub const UNBOUNDED: Micros = Micros(u64::MAX);
    /// No time at all.
    pub const ZERO: Micros = Micros(0);

    /// A span of milliseconds; unbounded if it is out of range.
    pub const fn from_millis(ms: u64) -> Micros {
        Micros(ms.saturating_mul(1_000))
    }

    /// A span of seconds, rounded to the microsecond; negative and NaN become zero.
    pub fn from_secs(seconds: f64) -> Micros {
        Micros((seconds * 1e6).round().max(0.0) as u64)
    }

    /// The span in seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span in milliseconds.
    pub fn as_millis(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// `self − earlier`, or zero.
    pub const fn saturating_sub(self, earlier: Micros) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Micros::UNBOUNDED => f.write_str("unbounded"),
            Micros(us) => write!(f, "{us}µs"),
        }
    }
}

impl Add for Micros {
    type Output = Micros;
    fn add(self, other: Micros) -> Micros {
        Micros(self.0.saturating_add(other.0))
    }
}

impl Sub for Micros {
    type Output = Micros;
    fn sub(self, other: Micros) -> Micros {
        self.saturating_sub(other)
    }
}

impl Mul<u32> for Micros {
    type Output = Micros;
    fn mul(self, times: u32) -> Micros {
        Micros(self.0.saturating_mul(u64::from(times)))
    }
}

/// A length in world units. A game may use another unit than metres, as long as it is the same
/// everywhere.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default, Debug)]
pub struct Metres(pub f32);

impl Metres {
    /// No bound.
    pub const UNBOUNDED: Metres = Metres(f32::INFINITY);
    /// No distance.
    pub const ZERO: Metres = Metres(0.0);

    /// The shorter of two lengths; `other` if `self` is not a number.
    #[inline]
    pub const fn min(self, other: Metres) -> Metres {
        if self.0 < other.0 { self } else { other }
    }

    /// The longer of two lengths; `other` if `self` is not a number.
    #[inline]
    pub const fn max(self, other: Metres) -> Metres {
        if self.0 > other.0 { self } else { other }
    }
}

impl Add for Metres {
    type Output = Metres;
    #[inline]
    fn add(self, other: Metres) -> Metres {
        Metres(self.0 + other.0)
    }
}

impl AddAssign for Metres {
    #[inline]
    fn add_assign(&mut self, other: Metres) {
        self.0 += other.0;
    }
}

impl Sub for Metres {
    type Output = Metres;
    #[inline]
    fn sub(self, other: Metres) -> Metres {
        Metres(self.0 - other.0)
    }
}

impl Mul<f32> for Metres {
    type Output = Metres;
    #[inline]
    fn mul(self, times: f32) -> Metres {
        Metres(self.0 * times)
    }
}

impl Div<f32> for Metres {
    type Output = Metres;
    #[inline]
    fn div(self, parts: f32) -> Metres {
        Metres(self.0 / parts)
    }
}

impl Div for Metres {
    /// How often one length fits into the other.
    type Output = f32;
    #[inline]
    fn div(self, other: Metres) -> f32 {
        self.0 / other.0
    }
}

/// A point in the world, from `[x, y]` in flat games or `[x, y, z]`, in world units.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Position(pub [f32; 3]);

impl Position {
    /// The square of the distance to another point: to compare distances without a root.
    #[inline]
    pub fn square_distance(self, to: Position) -> f32 {
        let off = |axis: usize| self.0[axis] - to.0[axis];
        off(0) * off(0) + off(1) * off(1) + off(2) * off(2)
    }

    /// The distance to another point.
    #[inline]
    pub fn distance(self, to: Position) -> Metres {
        Metres(self.square_distance(to).sqrt())
    }
}

impl Index<usize> for Position {
    type Output = f32;
    #[inline]
    fn index(&self, axis: usize) -> &f32 {
        &self.0[axis]
    }
}

impl From<[f32; 2]> for Position {
    fn from([x, y]: [f32; 2]) -> Position {
        Position([x, y, 0.0])
    }
}

impl From<[f32; 3]> for Position {
    fn from(at: [f32; 3]) -> Position {
        Position(at)
    }
}

/// An angle in radians.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default, Debug)]
pub struct Radians(pub f32);

impl Radians {
    /// An angle given in degrees.
    pub const fn from_degrees(degrees: f32) -> Radians {
        Radians(degrees * (std::f32::consts::PI / 180.0))
    }
}

/// A count of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bytes(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_compare_across_the_wrap() {
        let before = Tick(u32::MAX - 1);
        let after = before.plus(5);
        assert_eq!(after, Tick(3));
        assert_eq!(after.since(before), 5);
        assert!(after.is_after(before));
        assert!(!before.is_after(after));
        assert!(!before.is_after(before));
    }

    #[test]
    fn distances_are_in_space_and_flat_points_lie_on_the_ground() {
        let flat = Position::from([3.0, 0.0]);
        assert_eq!(flat.distance(Position([0.0, 0.0, 4.0])), Metres(5.0));
        assert_eq!(flat.square_distance(flat), 0.0);
        assert_eq!((Metres(6.0) / Metres(2.0), Metres(6.0) / 2.0), (3.0, Metres(3.0)));
        assert_eq!(Metres::UNBOUNDED.min(Metres(2.0)).max(Metres(1.0)), Metres(2.0));
    }

    #[test]
    fn spans_do_not_underflow() {
        assert_eq!(Micros(3) - Micros(5), Micros::ZERO);
        assert_eq!(Micros::UNBOUNDED + Micros(1), Micros::UNBOUNDED);
        assert_eq!(Micros::from_millis(u64::MAX / 2), Micros::UNBOUNDED);
    }
}

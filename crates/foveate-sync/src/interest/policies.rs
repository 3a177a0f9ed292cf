//! Policies from the literature, each as its source defines it.

use super::{Floors, Grade, Outlook, Policy, Sight};
use foveate_wire::{Metres, Micros, Position, Radians};

/// Parameters shared by the simple policies: the interval of updates, and the floor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// I: the shortest time between two updates of one object.
    pub interval: Micros,
    /// Deviations of place below this angle, as seen from the pivot, are not a difference.
    pub floor: Radians,
}

impl Pace {
    /// An interval, without a floor.
    pub fn every(interval: Micros) -> Pace {
        Pace { interval, floor: Radians(0.0) }
    }

    fn floors(&self) -> Option<Floors> {
        Some(Floors { place: self.floor, facing: 1.0 })
    }

    /// The grade of an object of relevance 0 < r ≤ 1: it is due I / r after its last update.
    #[inline]
    fn grade(&self, sight: &Sight, relevance: f32) -> Grade {
        // Relevance never exceeds one, so the plain interval is the strictest.
        let outlook = Outlook {
            beyond: Metres::ZERO,
            max_age: self.interval,
            max_missed: u32::MAX,
            max_error: Metres::UNBOUNDED,
            max_share: f32::INFINITY,
            facing: 1.0,
            off_axis: -1.0,
        };
        Grade {
            max_age: Micros((self.interval.0 as f64 / f64::from(relevance)) as u64),
            max_error: Metres::UNBOUNDED,
            floor: Metres(self.floor.0 * sight.distance.0),
            facing: 1.0,
            weight: relevance,
            outlook: Some(outlook),
            ..Grade::EXACT
        }
    }
}

/// Sends everything to all observers. The baseline that all other policies are compared with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Broadcast(pub Pace);

impl Policy for Broadcast {
    fn floors(&self) -> Option<Floors> {
        self.0.floors()
    }

    fn grade(&self, sight: &Sight) -> Option<Grade> {
        Some(self.0.grade(sight, 1.0))
    }
}

/// All objects within the view distance, equally often.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Circle {
    /// V: the view distance.
    pub view: Metres,
    pub pace: Pace,
}

impl Policy for Circle {
    fn floors(&self) -> Option<Floors> {
        self.pace.floors()
    }

    fn grade(&self, sight: &Sight) -> Option<Grade> {
        let seen = sight.distance.0 <= self.view.0;
        seen.then(|| self.pace.grade(sight, 1.0))
    }

    fn reach(&self) -> Metres {
        self.view
    }
}

/// Relevance falls from 1 at the critical distance to 0 at the view distance.
#[inline]
fn attenuation(distance: f32, critical: f32, view: f32) -> f32 {
    if distance <= critical {
        return 1.0;
    }
    (1.0 - (distance - critical) / (view - critical)).max(0.0)
}

/// All objects within the view distance, less often with distance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AttenuatedCircle {
    /// V: the view distance.
    pub view: Metres,
    /// C: within this distance relevance is 1.
    pub critical: Metres,
    pub pace: Pace,
}

impl Policy for AttenuatedCircle {
    fn floors(&self) -> Option<Floors> {
        self.pace.floors()
    }

    fn grade(&self, sight: &Sight) -> Option<Grade> {
        let relevance = attenuation(sight.distance.0, self.critical.0, self.view.0);
        (relevance > 0.0).then(|| self.pace.grade(sight, relevance))
    }

    fn reach(&self) -> Metres {
        self.view
    }
}

/// All objects within the field of view and the view distance, equally often.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FieldOfView {
    /// V: the view distance.
    pub view: Metres,
    /// The whole angle of the field of view.
    pub field: Radians,
    pub pace: Pace,
}

/// From this angle on a field of view is the whole circle.
const WHOLE: f32 = std::f32::consts::TAU - 1e-5;

#[inline]
fn in_field(sight: &Sight, field: Radians) -> bool {
    // Rounding must not leave a gap straight behind.
    sight.cos_angle >= (field.0 / 2.0).cos() || field.0 >= WHOLE
}

impl Policy for FieldOfView {
    fn floors(&self) -> Option<Floors> {
        self.pace.floors()
    }

    fn grade(&self, sight: &Sight) -> Option<Grade> {
        let seen = sight.distance.0 <= self.view.0 && in_field(sight, self.field);
        seen.then(|| self.pace.grade(sight, 1.0))
    }

    fn reach(&self) -> Metres {
        self.view
    }
}

/// A³: all objects within the critical distance in every direction, because a player may turn at
/// once; beyond it those within the field of view, less often with distance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct A3 {
    /// V: the view distance.
    pub view: Metres,
    /// C: within this distance relevance is 1.
    pub critical: Metres,
    /// The whole angle of the field of view.
    pub field: Radians,
    pub pace: Pace,
}

impl Policy for A3 {
    fn floors(&self) -> Option<Floors> {
        self.pace.floors()
    }

    fn grade(&self, sight: &Sight) -> Option<Grade> {
        let distance = sight.distance.0;
        if distance <= self.critical.0 {
            return Some(self.pace.grade(sight, 1.0));
        }
        let relevance = attenuation(distance, self.critical.0, self.view.0);
        let seen = relevance > 0.0 && in_field(sight, self.field);
        seen.then(|| self.pace.grade(sight, relevance))
    }

    fn reach(&self) -> Metres {
        self.view
    }
}

/// Square zones (GVO): an observer receives its own zone, and objects whose circle reaches into
/// that zone, so that crossings are soft. Zones have no height, but objects farther away than a
/// zone's diagonal plus the circle, in three dimensions, are left out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Zoned {
    /// The side of a zone.
    pub side: Metres,
    /// The radius of the circle around each object; zero: the object's own zone only.
    pub aoi: Metres,
    pub pace: Pace,
}

impl Policy for Zoned {
    fn floors(&self) -> Option<Floors> {
        self.pace.floors()
    }

    fn grade(&self, sight: &Sight) -> Option<Grade> {
        // The nearest point of the observer's zone to the object.
        let gap = |axis: usize| {
            let zone = (sight.from[axis] / self.side.0).floor() * self.side.0;
            (zone - sight.to[axis]).max(sight.to[axis] - zone - self.side.0).max(0.0)
        };
        let square = gap(0).powi(2) + gap(1).powi(2);
        let touched = if self.aoi.0 > 0.0 {
            square <= self.aoi.0 * self.aoi.0
        } else {
            let zone = |point: Position| [0, 1].map(|axis| (point[axis] / self.side.0).floor());
            zone(sight.from) == zone(sight.to)
        };
        (touched && sight.distance.0 <= self.reach().0).then(|| self.pace.grade(sight, 1.0))
    }

    fn reach(&self) -> Metres {
        Metres(self.side.0 * std::f32::consts::SQRT_2 + self.aoi.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sight;
    use super::*;

    const PACE: Pace = Pace { interval: Micros(250_000), floor: Radians(0.0) };

    fn age(policy: &dyn Policy, distance: f32, angle: f32) -> Option<u64> {
        policy.grade(&sight(distance, angle)).map(|grade| grade.max_age.0 / 1_000)
    }

    #[test]
    fn a3_follows_its_definition() {
        let (view, critical) = (Metres(120.0), Metres(40.0));
        let a3 = A3 { view, critical, field: Radians::from_degrees(180.0), pace: PACE };
        assert_eq!(age(&a3, 40.0, 170.0), Some(250), "near objects count in every direction");
        assert_eq!(age(&a3, 41.0, 170.0), None, "far behind does not");
        assert_eq!(age(&a3, 80.0, 10.0), Some(500), "half the relevance, half the rate");
        assert_eq!(age(&a3, 100.0, 89.0), Some(1000));
        assert_eq!(age(&a3, 100.0, 91.0), None);
        assert_eq!(age(&a3, 120.0, 0.0), None);
        let around = AttenuatedCircle { view, critical, pace: PACE };
        assert_eq!(age(&around, 80.0, 170.0), Some(500));
        let circle = Circle { view, pace: PACE };
        assert_eq!((age(&circle, 120.0, 180.0), age(&circle, 120.1, 0.0)), (Some(250), None));
        let field = FieldOfView { view, field: Radians::from_degrees(90.0), pace: PACE };
        assert_eq!((age(&field, 100.0, 44.0), age(&field, 100.0, 46.0)), (Some(250), None));
    }

    #[test]
    fn a_field_of_360_degrees_has_no_gap_straight_behind() {
        let (view, field) = (Metres(120.0), Radians::from_degrees(360.0));
        // A facing may be slightly longer than one.
        let behind = Sight { cos_angle: -1.000_000_1, ..sight(100.0, 180.0) };
        assert!(FieldOfView { view, field, pace: PACE }.grade(&behind).is_some());
        assert!(A3 { view, critical: Metres(40.0), field, pace: PACE }.grade(&behind).is_some());
        let field = Radians::from_degrees(359.0);
        assert!(FieldOfView { view, field, pace: PACE }.grade(&behind).is_none());
    }

    #[test]
    fn a_zone_receives_objects_at_its_neighbours_edge() {
        let zoned = |aoi: f32| Zoned { side: Metres(100.0), aoi: Metres(aoi), pace: PACE };
        let at = |from: f32, to: f32| {
            let distance = (to - from).abs();
            let (from, to) = ([from, 50.0].into(), [to, 50.0].into());
            Sight { from, to, ..sight(distance, 0.0) }
        };
        assert!(zoned(0.0).grade(&at(10.0, 99.0)).is_some());
        assert!(zoned(0.0).grade(&at(99.0, 101.0)).is_none());
        assert!(zoned(20.0).grade(&at(10.0, 119.0)).is_some(), "its circle cuts our zone");
        assert!(zoned(20.0).grade(&at(10.0, 121.0)).is_none());
        assert!(zoned(20.0).grade(&at(-10.0, 30.0)).is_none(), "it works one way");
        let above = Sight { to: Position([10.0, 50.0, 300.0]), ..at(10.0, 10.0) };
        let above = Sight { distance: Metres(300.0), ..above };
        assert!(zoned(20.0).grade(&above).is_none(), "too far away");
    }
}

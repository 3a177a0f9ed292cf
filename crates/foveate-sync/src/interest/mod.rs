//! What each observer is sent, and how exactly: pivots, policies, grades.
//!
//! A [`Policy`] is one function from what an observer sees of an object to the pair's [`Grade`], or
//! to `None` if the observer has no interest. Everything else (sending, loss, budget, accounting)
//! follows from the grade.

mod compose;
mod modifiers;
mod policies;
mod vfc;
mod view;

pub use compose::{MAX_SETS, Occlusion, SetName, SetView, ViewContext};
pub use modifiers::{BySet, Interacting, Line, ObjectSet, Visibility, Visible};
pub use policies::{A3, AttenuatedCircle, Broadcast, Circle, FieldOfView, Pace, Zoned};
pub use vfc::{Kappa, Vfc};
pub use view::{Bound, PolicyName, View, ViewError, presets};

use crate::store::Slot;
use foveate_wire::{KindId, Metres, Micros, ObjectId, Position, Radians, Tick};

/// How exact a replica must be. Each bound may be unlimited.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Grade {
    /// θ: the longest time that a difference may last.
    pub max_age: Micros,
    /// σ: the most changes that the replica may miss.
    pub max_missed: u32,
    /// ν: how far the replica may be from the object's place.
    pub max_error: Metres,
    /// Deviations of place up to this are not a difference.
    pub floor: Metres,
    /// Multiplies the schema's floors of facings: 1, or less for near objects.
    pub facing: f32,
    /// The pair's share of a budget that is too small.
    pub weight: f32,
    /// The class under which metrics count the pair, below [`CLASSES`]: for [`Vfc`] see
    /// [`Vfc::class`], otherwise 0.
    pub class: u8,
    /// What the policy knows of the pair's next grades; `None`: it must be called every round.
    pub outlook: Option<Outlook>,
}

/// While an object stays farther from every pivot than `beyond`, however the pivots turn, no grade
/// of the pair will be stricter than this. So a correct replica can be skipped for part of θ:
/// should it become wrong in the meantime, there is time to send.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outlook {
    /// The inner edge of the zone.
    pub beyond: Metres,
    /// The strictest θ.
    pub max_age: Micros,
    /// The strictest σ. If it is limited, changes are counted every round.
    pub max_missed: u32,
    /// The strictest ν, as far as it is absolute.
    pub max_error: Metres,
    /// The strictest ν as a share of the distance.
    pub max_share: f32,
    /// The strictest multiplier of facings' floors.
    pub facing: f32,
    /// While [`Sight::cos_angle`] also stays below this, no θ and no ν will be stricter than those
    /// of the current grade, so objects aside can wait longer. −1: there is no such angle.
    pub off_axis: f32,
}

/// The number of classes that metrics distinguish.
pub const CLASSES: usize = 16;

impl Grade {
    /// Every difference is sent at once, as exactly as the schema allows.
    pub const EXACT: Grade = Grade {
        max_age: Micros::ZERO,
        max_missed: u32::MAX,
        max_error: Metres::ZERO,
        floor: Metres::ZERO,
        facing: 0.0,
        weight: 1.0,
        class: 0,
        outlook: None,
    };

    /// The grade that a relay must request so that `share` of each bound (0 to 1) remains for
    /// itself: bounds add up, ν_up + ν_down ≤ ν, and so do θ.
    pub fn upstream(self, share: f32) -> Grade {
        let rest = 1.0 - share.clamp(0.0, 1.0);
        let age = match self.max_age {
            Micros::UNBOUNDED => Micros::UNBOUNDED,
            Micros(age) => Micros((age as f64 * f64::from(rest)) as u64),
        };
        let scaled = |length: Metres| Metres(length.0 * rest);
        Grade { max_age: age, max_error: scaled(self.max_error), floor: scaled(self.floor), ..self }
    }

    /// All bounds and floors made `factor` times looser. The outlook is kept, because it still
    /// holds: no grade will be stricter.
    pub fn loosened(self, factor: f32) -> Grade {
        let floor = Metres(self.floor.0 * factor);
        Grade { floor, facing: self.facing * factor, ..self.sharpened(1.0 / factor) }
    }

    /// All bounds made `factor` times tighter (above 1) or looser (below 1).
    pub fn sharpened(self, factor: f32) -> Grade {
        let age = match self.max_age {
            Micros::UNBOUNDED => Micros::UNBOUNDED,
            Micros(age) => Micros((age as f64 / f64::from(factor)) as u64),
        };
        Grade { max_age: age, max_error: Metres(self.max_error.0 / factor), ..self }
    }
}

/// How much looser grades are than their policies ask for, because bandwidth or time is short. Near
/// objects keep their grade; the farther away an object is, the looser its grade becomes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Strain(f32);

impl Strain {
    /// Grades are as the policies ask for.
    pub const NONE: Strain = Strain(0.0);
    /// The greatest strain: at the edge of a view bounds are 17 times as loose.
    pub const MAX: Strain = Strain(16.0);
    /// Within this share of a view's reach grades are not loosened.
    pub const NEAR: f32 = 0.4;
    /// By how much each unit of strain raises the pressure of near pairs that sends a packet at
    /// once.
    const HOLD: f32 = 1.5;
    /// A packet is held back for at most this many rounds.
    const LONGEST_HOLD: f32 = 5.0;

    /// A strain, clamped to [`NONE`](Strain::NONE) and [`MAX`](Strain::MAX).
    pub fn new(strain: f32) -> Strain {
        // NaN becomes zero.
        Strain(if strain > 0.0 { strain.min(Strain::MAX.0) } else { 0.0 })
    }

    /// The strain as a number: at the edge of a view bounds are this plus one times as loose.
    pub fn value(self) -> f32 {
        self.0
    }

    /// How many times looser a grade becomes at a share of the view's reach.
    #[inline]
    pub fn factor(self, share: f32) -> f32 {
        let beyond = ((share - Strain::NEAR) / (1.0 - Strain::NEAR)).clamp(0.0, 1.0);
        1.0 + self.0 * beyond
    }

    /// Whether a packet is held back after this many rounds without one. `press` is the sum, over
    /// the near pairs that are due, of how many times each exceeds its floor: the more is wrong
    /// nearby, and the longer, the sooner a packet is sent. Without near pairs a packet is held
    /// back for a few rounds.
    #[inline]
    pub(crate) fn holds(self, press: f32, silent: u32) -> bool {
        let silent = silent as f32;
        let longest = (1.0 + self.0 / 2.0).ceil().min(Strain::LONGEST_HOLD);
        silent < longest && press * silent < 1.0 + Strain::HOLD * self.0
    }
}

/// A point that an observer looks from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pivot {
    /// Its place.
    pub at: Position,
    /// Its direction: a unit vector.
    pub facing: [f32; 3],
    /// The object that it belongs to, which its own observer always gets as [`Grade::EXACT`].
    pub object: Option<Slot>,
    /// The most world units that it moves in a round.
    pub reach: Metres,
}

impl Pivot {
    /// A pivot that faces along yaw (counter-clockwise from +x) and pitch (up).
    pub fn looking(at: impl Into<Position>, yaw: Radians, pitch: Radians) -> Pivot {
        // Most have no pitch.
        let (level, up) = if pitch.0 == 0.0 { (1.0, 0.0) } else { (pitch.0.cos(), pitch.0.sin()) };
        let facing = [yaw.0.cos() * level, yaw.0.sin() * level, up];
        Pivot { at: at.into(), facing, object: None, reach: Metres::ZERO }
    }
}

/// What a policy sees of a pair: the object as seen from the nearest pivot.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// The distance from the nearest pivot to the object; zero for objects without a place.
    pub distance: Metres,
    /// Cosine of the angle between the pivot's facing and the direction to the object.
    pub cos_angle: f32,
    /// The pivot's place.
    pub from: Position,
    /// The object's place.
    pub to: Position,
    /// The pivot's own object.
    pub pivot: Option<ObjectId>,
    pub object: ObjectId,
    pub kind: KindId,
    /// Whether observer and object are in the same team.
    pub same_team: bool,
    /// How recently the observer interacted with the object: 1 now, fading to 0.
    pub interaction: f32,
    pub tick: Tick,
    /// The round's time.
    pub now: Micros,
}

/// Decides how exact each replica must be. Only `grade` is required; the other methods are hints
/// that save time.
///
/// ```
/// use foveate_sync::interest::{Grade, Policy, Sight};
/// use foveate_wire::{Metres, Micros};
///
/// /// Twice as far, half as often, up to 100 units.
/// struct Halving;
///
/// impl Policy for Halving {
///     fn grade(&self, sight: &Sight) -> Option<Grade> {
///         let far = sight.distance.0 / 10.0;
///         (far < 10.0).then(|| Grade {
///             max_age: Micros::from_millis((50.0 * far) as u64),
///             max_error: Metres(0.05 * sight.distance.0),
///             ..Grade::EXACT
///         })
///     }
///
///     fn reach(&self) -> Metres {
///         Metres(100.0)
///     }
/// }
/// ```
pub trait Policy: Send + Sync {
    /// The grade of a pair; `None` for no interest.
    fn grade(&self, sight: &Sight) -> Option<Grade>;

    /// The distance from every pivot beyond which no object is ever of interest. It decides how
    /// much of the world is searched.
    fn reach(&self) -> Metres {
        Metres::UNBOUNDED
    }

    /// Whether the observer is sent the change by which an object leaves the reach, so that its
    /// replica does not stay at the edge unchanged. False for changes that it cannot see.
    fn tells_leaving(&self, _: &Sight) -> bool {
        true
    }

    /// The strictest floors of all its grades. A pair that deviates by less has no difference
    /// whatever its grade, and the policy need not be called. Without them it is called for every
    /// pair every round.
    fn floors(&self) -> Option<Floors> {
        None
    }
}

/// Floors that are lower bounds for all grades of a policy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Floors {
    /// No grade's floor of place is below this angle, as seen from the pivot.
    pub place: Radians,
    /// No grade multiplies the floors of facings by less than this.
    pub facing: f32,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An object at this distance, at this angle (degrees) from the pivot's facing.
    pub(crate) fn sight(distance: f32, angle: f32) -> Sight {
        Sight {
            distance: Metres(distance),
            cos_angle: angle.to_radians().cos(),
            from: Position::default(),
            to: [distance, 0.0].into(),
            pivot: None,
            object: ObjectId(1),
            kind: KindId(0),
            same_team: false,
            interaction: 0.0,
            tick: Tick(0),
            now: Micros(0),
        }
    }

    #[test]
    fn strain_spares_what_is_near_and_grows_with_distance() {
        let strain = Strain::new(8.0);
        assert_eq!((strain.factor(0.0), strain.factor(Strain::NEAR)), (1.0, 1.0));
        assert!(strain.factor(0.6) > 1.5 && strain.factor(0.6) < strain.factor(0.8));
        assert_eq!((strain.factor(1.0), strain.factor(3.0)), (9.0, 9.0));
        assert_eq!((Strain::NONE.factor(1.0), Strain::NONE.holds(1.0, 1)), (1.0, false));
        let rounds = |press| (1..).find(|silent| !strain.holds(press, *silent));
        assert_eq!([0.0, 2.0, 4.0, 8.0, 13.0].map(rounds), [5, 5, 4, 2, 1].map(Some));
        assert_eq!((Strain::new(f32::NAN), Strain::new(1e9)), (Strain::NONE, Strain::MAX));
    }

    #[test]
    fn a_relay_keeps_its_share_of_each_bound() {
        let max_age = Micros(100_000);
        let grade = Grade { max_age, max_error: Metres(2.0), ..Grade::EXACT };
        let (up, down) = (grade.upstream(0.25), grade.upstream(0.75));
        assert_eq!(up.max_age + down.max_age, grade.max_age);
        assert_eq!(up.max_error.0 + down.max_error.0, grade.max_error.0);
        let loose = Grade { max_age: Micros::UNBOUNDED, ..grade };
        assert_eq!(loose.upstream(0.5).max_age, Micros::UNBOUNDED);
    }
}

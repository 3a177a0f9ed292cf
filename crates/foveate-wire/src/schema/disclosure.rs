//! What other observers than the object's own player and its team are sent of a field.
//!
//! Only the sender applies it, and readers take what they are sent. So it is not part of the
//! schema's [text](super::Schema::describe) and costs nothing on the wire.

use super::{FieldSpec, FieldType, Kind};
use std::ops::Range;

/// What observers of other teams are sent of a field. The object's own player and its team are sent
/// everything.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Disclosure {
    /// Everything.
    #[default]
    Exact,
    /// A number rounded away from zero to a multiple of this, in the field's unit, within its
    /// range. So zero is sent as zero, and no other value is.
    Coarse(f32),
    /// Nothing: all its lanes are zero.
    Hidden,
}

/// The relation of an observer to an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Access {
    /// Of another team, or of none.
    #[default]
    Rival,
    /// Of the same team, or a node that runs the rules.
    Mate,
    /// The object is one of its pivots.
    Own,
}

/// A lane of which rivals are sent less.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitedLane {
    pub lane: usize,
    /// Rivals are sent multiples of this; 0: nothing.
    pub step: i32,
    /// The range of the lane.
    pub range: (i32, i32),
}

impl LimitedLane {
    pub(super) fn of(field: &FieldSpec, lanes: Range<usize>) -> Vec<LimitedLane> {
        let steps =
            |value: f32, precision: f32| (f64::from(value) / f64::from(precision)).round() as i32;
        match (field.to_rivals, &field.ty) {
            (Disclosure::Exact, _) => Vec::new(),
            (Disclosure::Coarse(step), FieldType::Number { precision, min, max }) => {
                let range = (steps(*min, *precision), steps(*max, *precision));
                vec![LimitedLane { lane: lanes.start, step: steps(step, *precision).max(1), range }]
            }
            (Disclosure::Coarse(step), FieldType::Integer { min, max }) => {
                let step = steps(step, 1.0).max(1);
                vec![LimitedLane { lane: lanes.start, step, range: (*min, *max) }]
            }
            // The schema's check refuses all other coarse fields.
            (Disclosure::Coarse(_) | Disclosure::Hidden, _) => {
                lanes.map(|lane| LimitedLane { lane, step: 0, range: (0, 0) }).collect()
            }
        }
    }

    /// What rivals are sent of a value. Applying it twice changes nothing more.
    pub fn told(&self, value: i32) -> i32 {
        if self.step == 0 {
            return 0;
        }
        let (value, step) = (i64::from(value), i64::from(self.step));
        let steps = (value.abs() + step - 1) / step;
        let (least, most) = self.range;
        (steps * step * value.signum()).clamp(i64::from(least), i64::from(most)) as i32
    }
}

impl Kind {
    /// Removes from a state what an observer must not be sent.
    pub fn mask(&self, access: Access, lanes: &mut [i32]) {
        if access != Access::Own {
            self.own.iter().for_each(|lane| lanes[*lane] = 0);
        }
        if access == Access::Rival {
            self.limited.iter().for_each(|it| lanes[it.lane] = it.told(lanes[it.lane]));
        }
    }

    /// What an observer is sent of a lane's value.
    #[inline]
    pub fn told(&self, access: Access, lane: usize, value: i32) -> i32 {
        if access != Access::Rival || self.limited.is_empty() {
            return value;
        }
        self.limited.iter().find(|it| it.lane == lane).map_or(value, |it| it.told(value))
    }

    /// Whether two observers are sent different values of objects of this kind.
    #[inline]
    pub fn tells_apart(&self, a: Access, b: Access) -> bool {
        let is_own = |access| access == Access::Own && !self.own.is_empty();
        let is_rival = |access| access == Access::Rival && !self.limited.is_empty();
        is_own(a) != is_own(b) || is_rival(a) != is_rival(b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_value_is_rounded_away_from_zero_within_its_range_and_only_once() {
        let lane = LimitedLane { lane: 2, step: 25, range: (-60, 110) };
        let told =
            [(0, 0), (1, 25), (25, 25), (26, 50), (99, 100), (101, 110), (-1, -25), (-51, -60)];
        for (value, expected) in told {
            assert_eq!(lane.told(value), expected, "{value}");
            assert_eq!(lane.told(expected), expected);
        }
        let hidden = LimitedLane { step: 0, ..lane };
        assert_eq!((hidden.told(7), hidden.told(0)), (0, 0));
        let edge = LimitedLane { lane: 2, step: i32::MAX, range: (i32::MIN, i32::MAX) };
        assert_eq!((edge.told(i32::MIN), edge.told(1)), (i32::MIN, i32::MAX));
    }

    #[test]
    fn access_decides_what_is_taken_out_of_a_state() {
        let field = |name, to_rivals| {
            FieldSpec::new(name, FieldType::Integer { min: 0, max: 100 }).to_rivals(to_rivals)
        };
        let speed = FieldType::Number { precision: 0.5, min: 0.0, max: 10.0 };
        let spec = crate::KindSpec {
            name: "tank".into(),
            fields: vec![
                field("plain", Disclosure::Exact),
                field("armour", Disclosure::Coarse(25.0)),
                field("ammunition", Disclosure::Hidden),
                FieldSpec::new("speed", speed).to_rivals(Disclosure::Coarse(2.0)),
                field("plan", Disclosure::Exact).own(true),
            ],
            max_speed: 0.0,
            fall: 0,
        };
        let schema = crate::Schema::new(vec![spec]).unwrap();
        let kind = &schema.kinds()[0];
        let told = |access| {
            let mut lanes = [9, 1, 33, 33, 33, 3, 33];
            kind.mask(access, &mut lanes);
            lanes
        };
        assert_eq!(told(Access::Own), [9, 1, 33, 33, 33, 3, 33]);
        assert_eq!(told(Access::Mate), [9, 1, 33, 33, 33, 3, 0]);
        assert_eq!(told(Access::Rival), [9, 1, 33, 50, 0, 4, 0]);
        assert!(kind.tells_apart(Access::Rival, Access::Mate));
        assert!(kind.tells_apart(Access::Own, Access::Mate));
        assert!(!kind.tells_apart(Access::Mate, Access::Mate));
    }
}

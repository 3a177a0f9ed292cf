//! Vector-field consistency (VFC): zones around the pivot × fields around its facing → κ.

use super::{CLASSES, Floors, Grade, Outlook, Policy, Sight};
use foveate_wire::{Metres, Micros, Radians};

/// κ = [θ, σ, ν].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kappa {
    /// θ: the longest time that a difference may last.
    pub max_age: Micros,
    /// σ: the most changes that the replica may miss.
    pub max_missed: u32,
    /// ν, absolute: world units.
    pub max_error: Metres,
    /// ν as a share of the distance to the pivot: an angle, as a person notices it.
    pub max_share: f32,
}

impl Kappa {
    /// ν at this distance.
    #[inline]
    fn error(&self, distance: f32) -> Metres {
        Metres(self.max_error.0.min(self.max_share * distance))
    }
}

/// Zones × fields → κ. Built from a [`View`](super::View), which checks it.
#[derive(Clone, PartialEq, Debug)]
pub struct Vfc {
    /// Outer radii in ascending order; the last may be infinite.
    pub(super) zones: Vec<f32>,
    /// Cosines of half of each field's angle, in descending order; the last is −1.
    pub(super) fields: Vec<f32>,
    /// κ of zone z and field f at `z * fields.len() + f`.
    pub(super) kappa: Vec<Kappa>,
    pub(super) floor: Radians,
    /// Floors of facings inside the innermost zone, as a share of the schema's.
    pub(super) inner_facing: f32,
}

impl Vfc {
    /// The zone at a distance, or `None` beyond the last.
    #[inline]
    pub fn zone(&self, distance: Metres) -> Option<usize> {
        self.zones.iter().position(|radius| distance.0 <= *radius)
    }

    pub fn zones(&self) -> usize {
        self.zones.len()
    }

    /// The class of a zone and field: zone × fields + field, so that ahead and behind are
    /// distinguished. A view with more of these than [`CLASSES`] has only its zones as classes.
    #[inline]
    pub fn class(&self, zone: usize, field: usize) -> u8 {
        let fields = self.fields.len();
        let class = if self.zones.len() * fields <= CLASSES { zone * fields + field } else { zone };
        class.min(CLASSES - 1) as u8
    }

    #[inline]
    fn field(&self, cos_angle: f32) -> usize {
        self.fields.iter().position(|cos| cos_angle >= *cos).unwrap_or(self.fields.len() - 1)
    }
}

/// The weight of a pair halves over this many times the innermost zone's radius. It must fall
/// faster than the demand on an observer's budget does towards the edge of a world, where observers
/// have the farthest objects and the fewest near ones.
const FADE: f32 = 1.5;
/// The least weight, so that no object is starved however wide the view is.
const FAINTEST: f32 = 1.0 / 32.0;

impl Policy for Vfc {
    #[inline]
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        let distance = sight.distance.0;
        let zone = self.zone(sight.distance)?;
        let field = self.field(sight.cos_angle);
        let kappa = &self.kappa[zone * self.fields.len() + field];
        // Only inner zones and fields further ahead are stricter: κ weakens with distance and with
        // the angle.
        let ahead = &self.kappa[zone * self.fields.len()];
        let beyond = if zone == 0 { 0.0 } else { self.zones[zone - 1] };
        let facing = if zone == 0 { self.inner_facing } else { 1.0 };
        let outlook = Outlook {
            beyond: Metres(beyond),
            max_age: ahead.max_age,
            max_missed: ahead.max_missed,
            max_error: ahead.max_error,
            max_share: ahead.max_share,
            facing,
            off_axis: if field == 0 { -1.0 } else { self.fields[field - 1] },
        };
        Some(Grade {
            max_age: kappa.max_age,
            max_missed: kappa.max_missed,
            max_error: kappa.error(distance),
            floor: Metres(self.floor.0 * distance),
            facing,
            // If the budget is short, far objects give way first, also within a zone.
            weight: (-distance / (FADE * self.zones[0])).exp2().max(FAINTEST),
            class: self.class(zone, field),
            outlook: Some(outlook),
        })
    }

    fn reach(&self) -> Metres {
        Metres(self.zones.last().copied().unwrap_or(0.0))
    }

    fn floors(&self) -> Option<Floors> {
        Some(Floors { place: self.floor, facing: self.inner_facing })
    }
}

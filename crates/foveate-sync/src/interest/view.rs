//! Views as data: written in TOML or built in code, checked, then turned into a policy.
//!
//! ```
//! use foveate_sync::interest::View;
//! let view: View = View::from_toml(r#"
//!     policy = "vfc"
//!     zones = [300.0, 600.0, inf]
//!     fields = [100.0, 140.0, 360.0]
//!     kappa = [
//!         [{ age_ms = 30, share = 0.0 },  { age_ms = 60, share = 0.06 }, { age_ms = 90, share = 0.09 }],
//!         [{ age_ms = 60, share = 0.03 }, { age_ms = 90, share = 0.09 }, { age_ms = 200, share = 0.2 }],
//!         [{ age_ms = 90, share = 0.05 }, { age_ms = 130, share = 0.13 }, { age_ms = 300, share = 0.3 }],
//!     ]
//! "#).unwrap();
//! let policy = view.build().unwrap();
//! # let _ = policy;
//! ```

use super::compose::{self, Occlusion, SetView, ViewContext};
use super::policies::{A3, AttenuatedCircle, Broadcast, Circle, FieldOfView, Pace, Zoned};
use super::vfc::{Kappa, Vfc};
use super::{CLASSES, Policy};
use foveate_wire::{Metres, Micros, Radians};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thiserror::Error;

/// The policy that a view configures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Everything to all observers.
    Broadcast,
    /// All objects within the view distance.
    Circle,
    /// All objects within the view distance, less often with distance.
    Attenuated,
    /// Objects in the field of view.
    Fov,
    /// The critical circle, and the field of view less often with distance.
    A3,
    /// Square zones and a circle around each object.
    Zoned,
    /// Zones × fields → κ.
    Vfc,
    /// A custom policy, by the name that the game gives it.
    Custom,
}

/// One κ of a view; bounds that are left out are unlimited.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// θ in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// σ: changes missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u32>,
    /// ν in world units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f32>,
    /// ν as a share of the distance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f32>,
}

impl Bound {
    /// θ in milliseconds, and ν as a share of the distance.
    pub const fn new(age_ms: u64, share: f32) -> Bound {
        Bound { age_ms: Some(age_ms), missed: None, error: None, share: Some(share) }
    }

    fn kappa(&self) -> Kappa {
        Kappa {
            max_age: self.age_ms.map_or(Micros::UNBOUNDED, Micros::from_millis),
            max_missed: self.missed.unwrap_or(u32::MAX),
            max_error: Metres(self.error.unwrap_or(f32::INFINITY)),
            max_share: self.share.unwrap_or(f32::INFINITY),
        }
    }

    /// Whether no bound of `self` is tighter than that of `other`.
    fn at_least_as_loose(&self, other: &Bound) -> bool {
        let (a, b) = (self.kappa(), other.kappa());
        a.max_age >= b.max_age
            && a.max_missed >= b.max_missed
            && a.max_error.0 >= b.max_error.0
            && a.max_share >= b.max_share
    }
}

/// A view as a user writes it. Fields that the policy does not use are left out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    pub policy: PolicyName,
    /// V: the view distance in world units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<f32>,
    /// C: the critical distance in world units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical: Option<f32>,
    /// The whole angle of the field of view in degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<f32>,
    /// I: the shortest time between two updates in milliseconds. Zero: every round.
    #[serde(default)]
    pub interval_ms: u64,
    /// The side of a square zone in world units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<f32>,
    /// The radius of the circle around each object in world units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aoi: Option<f32>,
    /// Outer radii in ascending order; the last may be `inf`, which is `null` in JSON.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "compose::lengths_or_null"
    )]
    pub zones: Vec<f32>,
    /// Whole angles in degrees, in ascending order; the last is 360.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<f32>,
    /// One row for each zone, in it one κ for each field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kappa: Vec<Vec<Bound>>,
    /// Deviations of place below this many degrees, as seen from the pivot, are not a difference.
    #[serde(default = "default_floor")]
    pub floor_degrees: f32,
    /// Floors of facings inside the innermost zone, as a share of the schema's.
    #[serde(default = "default_inner_facing")]
    pub inner_facing: f32,
    /// The name of the game's policy, with `policy = "custom"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<String>,
    /// How walls change the bounds of objects behind them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_of_sight: Option<Occlusion>,
    /// How many times sharper objects are right after the player interacted with them, fading with
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction_boost: Option<f32>,
    /// Object sets with their own views. The first set that contains an object decides; this view
    /// applies to all other objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<SetView>,
}

fn default_floor() -> f32 {
    0.25
}

fn default_inner_facing() -> f32 {
    0.5
}

/// Why a view cannot be used. The view in force stays in force.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum ViewError {
    /// The text is not TOML, or has unknown keys or wrong types.
    #[error("{0}")]
    Syntax(String),
    /// The policy needs a key that is missing.
    #[error("policy {policy:?} needs `{key}`")]
    Missing { policy: PolicyName, key: &'static str },
    /// The policy does not use a key, although its author expects an effect.
    #[error("policy {policy:?} has no use for `{key}`")]
    Unused { policy: PolicyName, key: &'static str },
    /// A number is out of range.
    #[error("{key}: found {found}, expected {expected}")]
    Range {
        key: &'static str,
        /// The value in the view.
        found: f32,
        /// The allowed range.
        expected: &'static str,
    },
    /// Zones or fields are not in ascending order.
    #[error("{key}: {after} follows {before}; each must be larger than the one before")]
    Overlap {
        /// `zones` or `fields`.
        key: &'static str,
        /// The value before.
        before: f32,
        /// The value that is not larger.
        after: f32,
    },
    /// κ does not have one row per zone, or a row does not have one entry per field.
    #[error("kappa: {found} {what}; expected {expected}, one for each {per}")]
    Shape {
        /// `rows`, or `entries in row N`.
        what: String,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
        /// `zone` or `field`.
        per: &'static str,
    },
    /// The view names something that this game does not have.
    #[error("{key}: this game has no {what}")]
    Unknown {
        key: &'static str,
        /// What is missing, with its name.
        what: String,
    },
    /// A set contains sets, or there are too many sets.
    #[error("sets: {0}")]
    Sets(&'static str),
    /// κ tightens outwards.
    #[error(
        "kappa: zone {zone}, field {field} is tighter than zone {inner_zone}, field {inner_field}: κ must weaken with distance and with the angle"
    )]
    NotMonotone {
        /// The zone, from 1.
        zone: usize,
        /// The field, from 1.
        field: usize,
        /// The inner zone, from 1.
        inner_zone: usize,
        /// The inner field, from 1.
        inner_field: usize,
    },
}

impl View {
    /// Reads a view; [`build`](View::build) checks it.
    pub fn from_toml(text: &str) -> Result<View, ViewError> {
        toml::from_str(text).map_err(|error| ViewError::Syntax(error.to_string()))
    }

    /// Writes a view so that [`from_toml`](View::from_toml) reads it again.
    pub fn to_toml(&self) -> Result<String, ViewError> {
        toml::to_string(self).map_err(|error| ViewError::Syntax(error.to_string()))
    }

    /// A view for a custom policy.
    pub fn custom(name: impl Into<String>) -> View {
        presets::named(name.into())
    }

    /// Checks the view and builds the policy. A view that refers to the game (its walls, kinds or
    /// custom policies) needs [`build_in`](View::build_in).
    pub fn build(&self) -> Result<Arc<dyn Policy>, ViewError> {
        self.build_in(&())
    }

    /// Checks the view and builds the policy, in a game.
    pub fn build_in(&self, context: &dyn ViewContext) -> Result<Arc<dyn Policy>, ViewError> {
        compose::build(self, context)
    }

    /// Builds the policy without sets, walls and interactions.
    pub(super) fn build_plain(
        &self,
        context: &dyn ViewContext,
    ) -> Result<Arc<dyn Policy>, ViewError> {
        self.check_keys()?;
        self.check_floor()?;
        let interval = Micros::from_millis(self.interval_ms);
        let pace = Pace { interval, floor: Radians::from_degrees(self.floor_degrees) };
        Ok(match self.policy {
            PolicyName::Broadcast => Arc::new(Broadcast(pace)),
            PolicyName::Circle => Arc::new(Circle { view: self.view()?, pace }),
            PolicyName::Attenuated => {
                Arc::new(AttenuatedCircle { view: self.view()?, critical: self.critical()?, pace })
            }
            PolicyName::Fov => {
                Arc::new(FieldOfView { view: self.view()?, field: self.field()?, pace })
            }
            PolicyName::A3 => Arc::new(A3 {
                view: self.view()?,
                critical: self.critical()?,
                field: self.field()?,
                pace,
            }),
            PolicyName::Zoned => {
                let (side, aoi) = (self.length("side", self.side)?, self.aoi.unwrap_or(0.0));
                in_range("aoi", aoi, aoi >= 0.0, "at least 0")?;
                Arc::new(Zoned { side, aoi: Metres(aoi), pace })
            }
            PolicyName::Vfc => Arc::new(self.vfc()?),
            PolicyName::Custom => {
                let key = "custom";
                let name = self.custom.as_deref();
                let name = name.ok_or(ViewError::Missing { policy: self.policy, key })?;
                let what = || format!("policy `{name}`");
                context.policy(name).ok_or_else(|| ViewError::Unknown { key, what: what() })?
            }
        })
    }

    /// The view's zones × fields → κ; only for `policy = "vfc"`.
    pub fn vfc(&self) -> Result<Vfc, ViewError> {
        self.check_floor()?;
        self.check_zones()?;
        self.check_fields()?;
        self.check_kappa()?;
        Ok(Vfc {
            zones: self.zones.clone(),
            fields: self.fields.iter().map(|angle| half_cosine(*angle)).collect(),
            kappa: self.kappa.iter().flatten().map(Bound::kappa).collect(),
            floor: Radians::from_degrees(self.floor_degrees),
            inner_facing: self.inner_facing,
        })
    }

    fn check_keys(&self) -> Result<(), ViewError> {
        let used: &[&str] = match self.policy {
            PolicyName::Broadcast => &[],
            PolicyName::Circle => &["view"],
            PolicyName::Attenuated => &["view", "critical"],
            PolicyName::Fov => &["view", "field"],
            PolicyName::A3 => &["view", "critical", "field"],
            PolicyName::Zoned => &["side", "aoi"],
            PolicyName::Vfc => &["zones", "fields", "kappa"],
            PolicyName::Custom => &["custom"],
        };
        let given = [
            ("view", self.view.is_some()),
            ("critical", self.critical.is_some()),
            ("field", self.field.is_some()),
            ("side", self.side.is_some()),
            ("aoi", self.aoi.is_some()),
            ("zones", !self.zones.is_empty()),
            ("fields", !self.fields.is_empty()),
            ("kappa", !self.kappa.is_empty()),
            ("custom", self.custom.is_some()),
        ];
        match given.into_iter().find(|(key, given)| *given && !used.contains(key)) {
            Some((key, _)) => Err(ViewError::Unused { policy: self.policy, key }),
            None => Ok(()),
        }
    }

    fn length(&self, key: &'static str, value: Option<f32>) -> Result<Metres, ViewError> {
        let value = value.ok_or(ViewError::Missing { policy: self.policy, key })?;
        in_range(key, value, value > 0.0, "more than 0")?;
        Ok(Metres(value))
    }

    fn view(&self) -> Result<Metres, ViewError> {
        self.length("view", self.view)
    }

    fn critical(&self) -> Result<Metres, ViewError> {
        let (critical, view) = (self.length("critical", self.critical)?, self.view()?);
        in_range("critical", critical.0, critical.0 < view.0, "less than `view`")?;
        Ok(critical)
    }

    fn field(&self) -> Result<Radians, ViewError> {
        let field = self.field.ok_or(ViewError::Missing { policy: self.policy, key: "field" })?;
        in_range("field", field, field > 0.0 && field <= 360.0, "0 < field ≤ 360 degrees")?;
        Ok(Radians::from_degrees(field))
    }

    fn check_floor(&self) -> Result<(), ViewError> {
        let floor = self.floor_degrees;
        in_range("floor_degrees", floor, (0.0..=45.0).contains(&floor), "0 to 45 degrees")?;
        let inner = self.inner_facing;
        in_range("inner_facing", inner, (0.0..=1.0).contains(&inner), "0 to 1")
    }

    fn check_zones(&self) -> Result<(), ViewError> {
        let missing = ViewError::Missing { policy: self.policy, key: "zones" };
        let first = *self.zones.first().ok_or(missing)?;
        in_range("zones", first, first > 0.0, "more than 0")?;
        let count = self.zones.len();
        in_range("zones", count as f32, count <= CLASSES, "at most 16 zones")?;
        rising("zones", &self.zones)
    }

    fn check_fields(&self) -> Result<(), ViewError> {
        let missing = ViewError::Missing { policy: self.policy, key: "fields" };
        let last = *self.fields.last().ok_or(missing)?;
        for &field in &self.fields {
            in_range("fields", field, field > 0.0 && field <= 360.0, "0 < field ≤ 360 degrees")?;
        }
        in_range("fields", last, last == 360.0, "360 degrees as the last field")?;
        rising("fields", &self.fields)
    }

    fn check_kappa(&self) -> Result<(), ViewError> {
        let shape = |what: String, found, expected, per| {
            if found == expected {
                return Ok(());
            }
            Err(ViewError::Shape { what, found, expected, per })
        };
        shape("rows".into(), self.kappa.len(), self.zones.len(), "zone")?;
        for (zone, row) in self.kappa.iter().enumerate() {
            shape(format!("entries in row {}", zone + 1), row.len(), self.fields.len(), "field")?;
            for (field, bound) in row.iter().enumerate() {
                check_bound(bound)?;
                let here = ViewCell { zone, field };
                if field > 0 {
                    self.check_weaker(here, ViewCell { field: field - 1, ..here })?;
                }
                if zone > 0 {
                    self.check_weaker(here, ViewCell { zone: zone - 1, ..here })?;
                }
            }
        }
        Ok(())
    }

    fn check_weaker(&self, outer: ViewCell, inner: ViewCell) -> Result<(), ViewError> {
        let bound = |cell: ViewCell| &self.kappa[cell.zone][cell.field];
        if bound(outer).at_least_as_loose(bound(inner)) {
            return Ok(());
        }
        Err(ViewError::NotMonotone {
            zone: outer.zone + 1,
            field: outer.field + 1,
            inner_zone: inner.zone + 1,
            inner_field: inner.field + 1,
        })
    }
}

/// A zone's field of view, counted from the innermost zone and the field ahead.
#[derive(Clone, Copy)]
struct ViewCell {
    zone: usize,
    field: usize,
}

fn check_bound(bound: &Bound) -> Result<(), ViewError> {
    let error = bound.error.unwrap_or(0.0);
    in_range("kappa.error", error, error >= 0.0, "at least 0")?;
    let share = bound.share.unwrap_or(0.0);
    in_range("kappa.share", share, share >= 0.0, "at least 0, as a share: 0.05 is 5 %")
}

pub(super) fn in_range(
    key: &'static str,
    found: f32,
    fits: bool,
    expected: &'static str,
) -> Result<(), ViewError> {
    if fits { Ok(()) } else { Err(ViewError::Range { key, found, expected }) }
}

fn rising(key: &'static str, values: &[f32]) -> Result<(), ViewError> {
    for pair in values.windows(2) {
        // Written so that NaN fails too.
        if !matches!(pair[0].partial_cmp(&pair[1]), Some(std::cmp::Ordering::Less)) {
            return Err(ViewError::Overlap { key, before: pair[0], after: pair[1] });
        }
    }
    Ok(())
}

fn half_cosine(degrees: f32) -> f32 {
    // −1 exactly for the whole circle: rounding must not leave a gap straight behind.
    if degrees >= 360.0 { -1.0 - f32::EPSILON } else { (degrees / 2.0).to_radians().cos() }
}

/// Views from the sources, scaled to any world.
pub mod presets {
    use super::{Bound, PolicyName, View};

    const NORMAL: [[Bound; 3]; 3] = [
        [Bound::new(30, 0.0), Bound::new(60, 0.06), Bound::new(90, 0.09)],
        [Bound::new(60, 0.03), Bound::new(90, 0.09), Bound::new(200, 0.20)],
        [Bound::new(90, 0.05), Bound::new(130, 0.13), Bound::new(300, 0.30)],
    ];

    fn empty(policy: PolicyName) -> View {
        View {
            policy,
            view: None,
            critical: None,
            field: None,
            interval_ms: 0,
            side: None,
            aoi: None,
            zones: Vec::new(),
            fields: Vec::new(),
            kappa: Vec::new(),
            floor_degrees: super::default_floor(),
            inner_facing: super::default_inner_facing(),
            custom: None,
            line_of_sight: None,
            interaction_boost: None,
            sets: Vec::new(),
        }
    }

    pub(super) fn named(name: String) -> View {
        View { custom: Some(name), ..empty(PolicyName::Custom) }
    }

    fn graded(zones: [f32; 2], fields: [f32; 3]) -> View {
        View {
            zones: vec![zones[0], zones[1], f32::INFINITY],
            fields: fields.to_vec(),
            kappa: NORMAL.iter().map(|row| row.to_vec()).collect(),
            ..empty(PolicyName::Vfc)
        }
    }

    /// VFC4FPS's normal view. In the source, zones end at 300 and 600.
    pub fn normal(near: f32, middle: f32) -> View {
        graded([near, middle], [100.0, 140.0, 360.0])
    }

    /// VFC4FPS's zoom: half the angles, twice the distances.
    pub fn zoom(near: f32, middle: f32) -> View {
        graded([2.0 * near, 2.0 * middle], [35.0, 75.0, 360.0])
    }

    /// Plain VFC: zones in all directions.
    pub fn vfc(near: f32, middle: f32) -> View {
        View {
            zones: vec![near, middle, f32::INFINITY],
            fields: vec![360.0],
            kappa: NORMAL.iter().map(|row| vec![row[0]]).collect(),
            ..empty(PolicyName::Vfc)
        }
    }

    /// A³ with its source's proportions: C = V / 3, 180°.
    pub fn a3(view: f32, interval_ms: u64) -> View {
        let (critical, field) = (Some(view / 3.0), Some(180.0));
        View { view: Some(view), critical, field, interval_ms, ..empty(PolicyName::A3) }
    }

    /// All objects within `view`.
    pub fn circle(view: f32) -> View {
        View { view: Some(view), ..empty(PolicyName::Circle) }
    }

    /// Everything to all observers.
    pub fn broadcast() -> View {
        View { floor_degrees: 0.0, inner_facing: 0.0, ..empty(PolicyName::Broadcast) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sight;
    use super::*;

    #[test]
    fn presets_build_and_survive_toml() {
        let views = [
            presets::normal(300.0, 600.0),
            presets::zoom(300.0, 600.0),
            presets::vfc(300.0, 600.0),
            presets::a3(120.0, 250),
            presets::circle(120.0),
            presets::broadcast(),
        ];
        for view in views {
            view.build().unwrap();
            assert_eq!(View::from_toml(&view.to_toml().unwrap()).unwrap(), view);
        }
    }

    #[test]
    fn the_normal_view_grades_by_zone_and_field() {
        let view = presets::normal(300.0, 600.0).vfc().unwrap();
        let grade = |distance, angle| {
            let grade = view.grade(&sight(distance, angle)).unwrap();
            (grade.max_age.0 / 1_000, grade.max_error.0)
        };
        assert_eq!(grade(100.0, 0.0), (30, 0.0));
        assert_eq!(grade(100.0, 60.0), (60, 6.0));
        assert_eq!(grade(100.0, 180.0), (90, 9.0));
        assert_eq!(grade(500.0, 49.0), (60, 15.0));
        assert_eq!(grade(1000.0, 71.0), (300, 300.0));
    }

    #[test]
    fn a_class_tells_the_zone_and_what_is_ahead_from_what_is_behind() {
        let view = presets::normal(300.0, 600.0).vfc().unwrap();
        let classes = [100.0, 500.0, 1_000.0]
            .map(|distance| [0.0, 60.0, 180.0].map(|angle| (distance, angle)))
            .map(|zone| zone.map(|(far, angle)| view.grade(&sight(far, angle)).unwrap().class));
        assert_eq!(classes, [[0, 1, 2], [3, 4, 5], [6, 7, 8]]);
        // With more than metrics can distinguish, only the zones remain.
        let mut wide = presets::normal(300.0, 600.0);
        wide.zones = vec![100.0, 200.0, 300.0, 400.0, 500.0, f32::INFINITY];
        wide.kappa = [0, 0, 1, 1, 2, 2].map(|zone| wide.kappa[zone].clone()).to_vec();
        let wide = wide.vfc().unwrap();
        let class = |far, angle| wide.grade(&sight(far, angle)).unwrap().class;
        assert_eq!([class(50.0, 0.0), class(50.0, 180.0), class(9e3, 180.0)], [0, 0, 5]);
    }

    fn refused(change: impl Fn(&mut View)) -> String {
        let mut view = presets::normal(300.0, 600.0);
        change(&mut view);
        view.build().map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn overlapping_zones_are_refused() {
        assert!(refused(|view| view.zones[1] = 300.0).contains("zones: 300 follows 300"));
        assert!(refused(|view| view.zones[1] = f32::NAN).contains("zones"));
        assert!(refused(|view| view.zones[0] = -1.0).contains("more than 0"));
        assert!(refused(|view| view.zones.clear()).contains("needs `zones`"));
    }

    #[test]
    fn angles_out_of_range_are_refused() {
        assert!(refused(|view| view.fields[0] = 0.0).contains("fields: found 0"));
        assert!(refused(|view| view.fields[2] = 361.0).contains("fields: found 361"));
        assert!(refused(|view| view.fields[2] = 350.0).contains("360 degrees as the last"));
        assert!(refused(|view| view.fields[0] = 150.0).contains("fields: 140 follows 150"));
        assert!(refused(|view| view.floor_degrees = -0.1).contains("floor_degrees"));
    }

    #[test]
    fn a_key_that_would_do_nothing_is_refused() {
        let circle = |rest: &str| {
            let text = format!("policy = \"circle\"\nview = 50.0\n{rest}");
            View::from_toml(&text).unwrap().build().map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(circle(""), Ok(()));
        assert_eq!(circle("field = 999.0"), Err("policy Circle has no use for `field`".into()));
        assert_eq!(circle("zones = [-1.0]"), Err("policy Circle has no use for `zones`".into()));
        assert!(refused(|view| view.side = Some(9.0)).contains("no use for `side`"));
    }

    #[test]
    fn a_circle_with_a_negative_radius_is_refused() {
        let zoned = |aoi: &str| {
            let text = format!("policy = \"zoned\"\nside = 100.0\naoi = {aoi}");
            View::from_toml(&text).unwrap().build().map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(zoned("-5.0"), Err("aoi: found -5, expected at least 0".into()));
        assert_eq!(zoned("nan"), Err("aoi: found NaN, expected at least 0".into()));
        assert_eq!(zoned("0.0"), Ok(()));
    }

    #[test]
    fn times_that_are_too_long_are_unlimited() {
        let text = format!("policy = \"broadcast\"\ninterval_ms = {}", i64::MAX);
        let policy = View::from_toml(&text).unwrap().build().unwrap();
        assert_eq!(policy.grade(&sight(1.0, 0.0)).unwrap().max_age, Micros::UNBOUNDED);
        let mut view = presets::vfc(10.0, 20.0);
        view.kappa[2][0].age_ms = Some(u64::MAX);
        assert_eq!(
            view.vfc().unwrap().grade(&sight(30.0, 0.0)).unwrap().max_age,
            Micros::UNBOUNDED
        );
    }

    #[test]
    fn kappa_that_tightens_outwards_is_refused() {
        let message = refused(|view| view.kappa[2][1].age_ms = Some(50));
        assert!(message.contains("zone 3, field 2 is tighter than zone 3, field 1"), "{message}");
        let message = refused(|view| view.kappa[1][2].share = Some(0.05));
        assert!(message.contains("zone 2, field 3"), "{message}");
        assert!(refused(|view| view.kappa[0][0].share = Some(-0.1)).contains("kappa.share"));
        assert!(refused(|view| view.kappa.truncate(2)).contains("2 rows; expected 3"));
        assert!(refused(|view| view.kappa[1].truncate(1)).contains("1 entries in row 2"));
    }

    #[test]
    fn broken_toml_names_the_line() {
        let message = View::from_toml("policy = \"a3\"\nviw = 3.0\n").unwrap_err().to_string();
        assert!(message.contains("line 2") && message.contains("viw"), "{message}");
        let missing = View::from_toml("policy = \"a3\"\nview = 120.0").unwrap().build();
        assert!(missing.map(|_| ()).unwrap_err().to_string().contains("needs `critical`"));
    }
}

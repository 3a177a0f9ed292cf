//! The meaning of stored lanes, and how they become the lanes of a changed schema.

use foveate_wire::schema::HIDDEN_LANES;
use foveate_wire::{FieldType, Kind};
use std::ops::Range;

/// A stored field: the position of its lanes and their meaning.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Field {
    pub name: String,
    pub lanes: Range<usize>,
    /// What gives a lane its meaning. If the texts are equal, the same number means the same.
    pub meaning: String,
    /// The range of possible values if they have an order, otherwise zeros. A range may grow.
    pub range: (f64, f64),
}

/// How lanes of one layout are copied to another.
#[derive(PartialEq, Debug)]
pub(super) struct Mapping {
    /// A new state: owner, epoch, and every field's default.
    defaults: Vec<i32>,
    /// For each copy the stored lanes, and the first lane in the new state.
    moves: Vec<(Range<usize>, usize)>,
}

/// A field whose type changed.
#[derive(PartialEq, Debug)]
pub(super) struct Changed {
    pub field: String,
    pub stored: String,
    pub stated: String,
}

/// The layout of a kind.
pub(super) fn fields(kind: &Kind) -> Vec<Field> {
    let fields = kind.spec.fields.iter().zip(&kind.ranges);
    fields
        .map(|(field, lanes)| {
            let (meaning, range) = meaning(&field.ty);
            Field { name: field.name.clone(), lanes: lanes.clone(), meaning, range }
        })
        .collect()
}

fn meaning(ty: &FieldType) -> (String, (f64, f64)) {
    let plain = |text: &str, most: f64| (text.to_owned(), (0.0, most));
    match ty {
        FieldType::Place { dims, precision, extent, .. } => {
            let extent = f64::from(*extent);
            (format!("place of {dims} dimensions, step {precision}"), (-extent, extent))
        }
        FieldType::Angle { steps } => (format!("angle of {steps} steps"), (0.0, 0.0)),
        FieldType::Number { precision, min, max } => {
            (format!("number, step {precision}"), (f64::from(*min), f64::from(*max)))
        }
        FieldType::Integer { min, max } => {
            ("integer".to_owned(), (f64::from(*min), f64::from(*max)))
        }
        FieldType::Symbol { count } => plain("symbol", f64::from(*count) - 1.0),
        FieldType::Quaternion { bits } => (format!("quaternion of {bits} bits"), (0.0, 0.0)),
        FieldType::Bytes { max } => plain("bytes", f64::from(*max)),
        FieldType::Text { max } => plain("text", f64::from(*max)),
        FieldType::Optional(inner) => {
            let (inner, range) = meaning(inner);
            (format!("optional {inner}"), range)
        }
        // Items of another size would be at other positions, so that not even an item's range may grow.
        FieldType::List { item, max } => {
            let (item, (least, most)) = meaning(item);
            plain(&format!("list of {item} {least}..{most}"), f64::from(*max))
        }
    }
}

impl Field {
    fn say(&self) -> String {
        match self.range {
            (0.0, 0.0) => self.meaning.clone(),
            (least, most) => format!("{} {least}..{most}", self.meaning),
        }
    }

    /// Whether every value stored as `self` is also a value of `other`, lane by lane from the first.
    fn fits(&self, other: &Field) -> bool {
        self.meaning == other.meaning
            && self.lanes.len() <= other.lanes.len()
            && self.range.0 >= other.range.0
            && self.range.1 <= other.range.1
    }
}

/// How states stored with this layout become states of `kind`: new fields get their default, removed ones are dropped.
pub(super) fn map(stored: &[Field], kind: &Kind) -> Result<Mapping, Changed> {
    let mut defaults = vec![0; kind.lane_count()];
    let mut moves = vec![(0..HIDDEN_LANES, 0)];
    for (stated, spec) in fields(kind).iter().zip(&kind.spec.fields) {
        match stored.iter().find(|field| field.name == stated.name) {
            None => defaults[stated.lanes.start] = first_lane(&spec.ty),
            Some(field) if field.fits(stated) => {
                moves.push((field.lanes.clone(), stated.lanes.start));
            }
            Some(field) => {
                let (stored, stated) = (field.say(), stated.say());
                return Err(Changed { field: field.name.clone(), stored, stated });
            }
        }
    }
    Ok(Mapping { defaults, moves })
}

/// The first lane of a default: the value nearest to zero. All other lanes are zero.
fn first_lane(ty: &FieldType) -> i32 {
    match ty {
        FieldType::Integer { min, max } => 0.clamp(*min, *max),
        FieldType::Number { precision, min, max } => {
            let steps = |value: f32| f64::from(value) / f64::from(*precision);
            0.0f64.clamp(steps(*min), steps(*max)).round() as i32
        }
        _ => 0,
    }
}

impl Mapping {
    /// The state in the new layout; `None` if it has fewer lanes than its layout.
    pub fn apply(&self, stored: &[i32]) -> Option<Vec<i32>> {
        let mut lanes = self.defaults.clone();
        for (from, to) in &self.moves {
            lanes[*to..*to + from.len()].copy_from_slice(stored.get(from.clone())?);
        }
        Some(lanes)
    }
}

pub(super) fn to_bytes(lanes: &[i32]) -> Vec<u8> {
    lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect()
}

/// The lanes in these bytes. Up to three bytes at the end are dropped, which the number of lanes reveals.
pub(super) fn from_bytes(bytes: &[u8]) -> Vec<i32> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| i32::from_le_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foveate_wire::{FieldSpec, KindSpec, Schema};

    fn kind(fields: Vec<(&str, FieldType)>) -> Kind {
        let fields = fields.into_iter().map(|(name, ty)| FieldSpec::new(name, ty)).collect();
        let spec = KindSpec { name: "crate".into(), fields, max_speed: 0.0, fall: 0 };
        Schema::new(vec![spec]).unwrap().kinds()[0].clone()
    }

    fn integer(min: i32, max: i32) -> FieldType {
        FieldType::Integer { min, max }
    }

    #[test]
    fn fields_are_found_by_name_at_any_position() {
        let old = kind(vec![
            ("a", integer(0, 9)),
            ("gone", integer(0, 9)),
            ("t", FieldType::Text { max: 8 }),
        ]);
        let new = kind(vec![
            ("t", FieldType::Text { max: 12 }),
            ("fresh", integer(3, 9)),
            ("a", integer(0, 99)),
        ]);
        let mapping = map(&fields(&old), &new).unwrap();
        let moved = mapping.apply(&[1, 2, 7, 8, 4, 0x41, 0x42]).unwrap();
        assert_eq!(moved, [1, 2, 4, 0x41, 0x42, 0, 3, 7]);
        assert_eq!(mapping.apply(&[1, 2, 7]), None, "a state that is cut short");
    }

    #[test]
    fn a_field_with_another_meaning_is_rejected_by_name() {
        let number = |precision| FieldType::Number { precision, min: 0.0, max: 8.0 };
        let list = |most, max| FieldType::List { item: Box::new(integer(0, most)), max };
        for (old, new) in [
            (integer(0, 9), FieldType::Symbol { count: 10 }),
            (integer(0, 9), integer(0, 8)),
            (number(0.5), number(0.25)),
            (FieldType::Angle { steps: 240 }, FieldType::Angle { steps: 256 }),
            (FieldType::Text { max: 8 }, FieldType::Bytes { max: 8 }),
            (list(9, 4), list(10, 4)),
        ] {
            let (old, new) = (kind(vec![("value", old)]), kind(vec![("value", new)]));
            let changed = map(&fields(&old), &new).expect_err("another meaning");
            assert_eq!(changed.field, "value");
            assert_ne!(changed.stored, changed.stated);
        }
        let (short, long) = (kind(vec![("l", list(9, 2))]), kind(vec![("l", list(9, 3))]));
        let mapping = map(&fields(&short), &long).unwrap();
        assert_eq!(mapping.apply(&[0, 0, 2, 5, 6]).unwrap(), [0, 0, 2, 5, 6, 0]);
    }

    #[test]
    fn lanes_come_back_from_bytes() {
        let lanes = [0, -1, i32::MAX, i32::MIN, 77];
        assert_eq!(from_bytes(&to_bytes(&lanes)), lanes);
    }
}

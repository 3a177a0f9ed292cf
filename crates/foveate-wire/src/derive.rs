//! What code made by `#[derive(Replicate)]` calls: attributes on top of a type's own field type.

use crate::schema::FieldType;

/// What a field's attributes said; `None` keeps what the type says of itself.
#[derive(Clone, Copy, Default, Debug)]
pub struct Settings {
    /// `motion`
    pub motion: bool,
    /// `angle`, `yaw` or `pitch`
    pub angle: bool,
    /// `precision = …`
    pub precision: Option<f64>,
    /// `extent = …`
    pub extent: Option<f64>,
    /// `min = …`
    pub min: Option<f64>,
    /// `max = …` or `max_len = …`
    pub max: Option<f64>,
    /// `bits = …`
    pub bits: Option<f64>,
    /// `steps = …`
    pub steps: Option<f64>,
}

/// The type's own field type with the attributes applied.
pub fn field_type(own: FieldType, set: &Settings) -> FieldType {
    let real = |given: Option<f64>, own: f32| given.map_or(own, |value| value as f32);
    let whole = |given: Option<f64>, own: i32| given.map_or(own, |value| value as i32);
    match own {
        FieldType::Number { .. } if set.angle => {
            FieldType::Angle { steps: set.steps.map_or(240, |steps| steps as u32) }
        }
        FieldType::Place { dims, precision, extent, .. } => FieldType::Place {
            dims,
            precision: real(set.precision, precision),
            extent: real(set.extent, extent),
            motion: set.motion,
        },
        FieldType::Number { precision, min, max } => FieldType::Number {
            precision: real(set.precision, precision),
            min: real(set.min, min),
            max: real(set.max, max),
        },
        FieldType::Integer { min, max } => {
            FieldType::Integer { min: whole(set.min, min), max: whole(set.max, max) }
        }
        FieldType::Quaternion { bits } => {
            FieldType::Quaternion { bits: set.bits.map_or(bits, |bits| bits as u8) }
        }
        FieldType::Text { max } => FieldType::Text { max: whole(set.max, max.into()) as u16 },
        FieldType::Bytes { max } => FieldType::Bytes { max: whole(set.max, max.into()) as u16 },
        FieldType::Optional(inner) => FieldType::Optional(Box::new(field_type(*inner, set))),
        FieldType::List { item, max } => {
            FieldType::List { item: Box::new(field_type(*item, set)), max }
        }
        symbol @ (FieldType::Symbol { .. } | FieldType::Angle { .. }) => symbol,
    }
}

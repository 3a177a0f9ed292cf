//! Called by code from `#[derive(Replicate)]`: applies attributes to the field type of a Rust type.
//!
//! Attributes without an effect are refused:
//!
//! ```compile_fail
//! #[derive(foveate_wire::Replicate)]
//! struct Turned { #[replicate(steps = 16)] by: f32 } // which is no angle
//! ```
//! ```compile_fail
//! #[derive(foveate_wire::Replicate)]
//! struct Moved { #[replicate(motion)] by: [f32; 2] } // which is no place
//! ```
//! ```compile_fail
//! #[derive(foveate_wire::Replicate)]
//! struct Both { #[replicate(bits = 8, precision = 0.1)] value: f32 }
//! ```

use crate::schema::FieldType;

/// The attributes of a field; `None` keeps the default of its Rust type.
#[derive(Clone, Copy, Default, Debug)]
pub struct KindSettings {
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

/// The default field type with the attributes applied.
pub fn field_type(own: FieldType, set: &KindSettings) -> FieldType {
    let real = |given: Option<f64>, own: f32| given.map_or(own, |value| value as f32);
    // This many bits for all values between the least and the largest.
    let by_bits = |bits: f64, span: f32| Some(f64::from(span) / (bits.exp2() - 1.0));
    let whole = |given: Option<f64>, own: i32| given.map_or(own, |value| value as i32);
    match own {
        FieldType::Number { .. } if set.angle => {
            FieldType::Angle { steps: set.steps.map_or(240, |steps| steps as u32) }
        }
        FieldType::Place { dims, precision, extent, .. } => {
            let extent = real(set.extent, extent);
            let given = set.bits.map_or(set.precision, |bits| by_bits(bits, 2.0 * extent));
            let precision = real(given, precision);
            FieldType::Place { dims, precision, extent, motion: set.motion }
        }
        FieldType::Number { precision, min, max } => {
            let (min, max) = (real(set.min, min), real(set.max, max));
            let given = set.bits.map_or(set.precision, |bits| by_bits(bits, max - min));
            FieldType::Number { precision: real(given, precision), min, max }
        }
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

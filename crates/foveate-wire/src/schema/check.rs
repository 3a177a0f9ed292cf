//! Validates schemas.

use super::{Disclosure, FieldSpec, FieldType, Kind, KindSpec, Role};
use crate::packet::MAX_RECORD_BYTES;
use thiserror::Error;

/// The most kinds in a schema.
pub const MAX_KINDS: usize = 256;
/// The most fields in a kind.
pub const MAX_FIELDS: usize = 64;

/// Why a schema cannot be used. Nothing was built.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum SchemaError {
    /// A field's numbers are invalid.
    #[error("{kind}.{field}: {found}; expected {expected}")]
    Field {
        kind: String,
        field: String,
        /// The stated value.
        found: String,
        /// The allowed values.
        expected: &'static str,
    },
    /// Two items share a name, or a role that only one may have.
    #[error("{kind}: {what} is given twice")]
    Twice {
        kind: String,
        /// The duplicate.
        what: String,
    },
    /// Too many kinds or fields.
    #[error("{what}: {count}; at most {limit} are possible")]
    TooMany {
        /// Of what.
        what: String,
        /// The stated number.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// An object of this kind might not fit one packet.
    #[error("{kind}: an object may take {bytes} bytes; at most {limit} fit a packet")]
    TooLarge {
        kind: String,
        /// The most bytes that it may take.
        bytes: usize,
        /// The most bytes that fit.
        limit: usize,
    },
}

pub(super) fn all(specs: &[KindSpec]) -> Result<(), SchemaError> {
    limit("kinds", specs.len(), MAX_KINDS)?;
    for (at, spec) in specs.iter().enumerate() {
        if specs[..at].iter().any(|other| other.name == spec.name) {
            return Err(twice("schema", format!("kind '{}'", spec.name)));
        }
        kind(spec)?;
    }
    Ok(())
}

pub(super) fn size(kind: &Kind) -> Result<(), SchemaError> {
    let bytes = kind.max_record_bytes();
    if bytes > MAX_RECORD_BYTES {
        let kind = kind.spec.name.clone();
        return Err(SchemaError::TooLarge { kind, bytes, limit: MAX_RECORD_BYTES });
    }
    Ok(())
}

fn kind(spec: &KindSpec) -> Result<(), SchemaError> {
    limit(&format!("fields of {}", spec.name), spec.fields.len(), MAX_FIELDS)?;
    for (at, field) in spec.fields.iter().enumerate() {
        let before = &spec.fields[..at];
        if before.iter().any(|other| other.name == field.name) {
            return Err(twice(&spec.name, format!("field '{}'", field.name)));
        }
        if field.role != Role::Plain && before.iter().any(|other| other.role == field.role) {
            return Err(twice(&spec.name, format!("the role {:?}", field.role)));
        }
        role(spec, field)?;
        ty(&spec.name, &field.name, &field.ty)?;
        if !(field.floor >= 0.0 && field.floor.is_finite()) {
            let found = format!("floor {}", field.floor);
            return Err(wrong(&spec.name, &field.name, found, "a floor of at least 0"));
        }
        let has_floor = matches!(
            field.ty,
            FieldType::Angle { .. } | FieldType::Number { .. } | FieldType::Integer { .. }
        );
        if field.floor > 0.0 && !has_floor {
            let found = format!("floor {} of {:?}", field.floor, field.ty);
            let expected = "a floor of numbers and angles only; a place's is the view's";
            return Err(wrong(&spec.name, &field.name, found, expected));
        }
        disclosure(spec, field)?;
    }
    if !(spec.max_speed >= 0.0 && spec.max_speed.is_finite()) {
        let found = format!("max_speed {}", spec.max_speed);
        return Err(wrong(&spec.name, "max_speed", found, "a finite speed of at least 0"));
    }
    Ok(())
}

fn disclosure(spec: &KindSpec, field: &FieldSpec) -> Result<(), SchemaError> {
    let is_number = matches!(field.ty, FieldType::Number { .. } | FieldType::Integer { .. });
    let fits = match field.to_rivals {
        Disclosure::Exact => true,
        Disclosure::Hidden => field.role == Role::Plain && !field.own,
        Disclosure::Coarse(step) => {
            is_number && !field.own && step > 0.0 && step.is_finite() && field.floor == 0.0
        }
    };
    if fits {
        return Ok(());
    }
    let found = format!("{:?} to rivals of {:?}", field.to_rivals, field.ty);
    let expected = "a coarse step above 0 of a number without a floor, or a hidden field without a role; not an own field";
    Err(wrong(&spec.name, &field.name, found, expected))
}

fn role(spec: &KindSpec, field: &FieldSpec) -> Result<(), SchemaError> {
    let fits = match field.role {
        Role::Plain => true,
        Role::Place => matches!(field.ty, FieldType::Place { .. }),
        Role::Yaw | Role::Pitch => matches!(field.ty, FieldType::Angle { .. }),
    };
    if fits {
        return Ok(());
    }
    let found = format!("role {:?} on {:?}", field.role, field.ty);
    Err(wrong(&spec.name, &field.name, found, "a Place for a place, an Angle for yaw and pitch"))
}

fn ty(kind: &str, field: &str, ty: &FieldType) -> Result<(), SchemaError> {
    let (fits, expected) = match ty {
        FieldType::Place { dims, precision, extent, .. } => (
            matches!(dims, 2 | 3) && steps_fit(*precision, -*extent, *extent),
            "2 or 3 dimensions, precision > 0, extent > 0, at most 2^28 steps",
        ),
        FieldType::Angle { steps } => ((2..=65_536).contains(steps), "2 to 65,536 steps"),
        FieldType::Number { precision, min, max } => {
            (steps_fit(*precision, *min, *max), "precision > 0, min < max, at most 2^28 steps")
        }
        FieldType::Integer { min, max } => (min < max, "min < max"),
        FieldType::Symbol { count } => ((2..=65_536).contains(count), "2 to 65,536 values"),
        FieldType::Quaternion { bits } => ((4..=15).contains(bits), "4 to 15 bits"),
        FieldType::Bytes { max } | FieldType::Text { max } => {
            ((1..=512).contains(max), "at most 512 bytes and at least 1")
        }
        FieldType::Optional(inner) => {
            return self::ty(kind, field, inner);
        }
        FieldType::List { item, max } => {
            self::ty(kind, field, item)?;
            ((1..=128).contains(max), "1 to 128 items")
        }
    };
    if fits { Ok(()) } else { Err(wrong(kind, field, format!("{ty:?}"), expected)) }
}

fn steps_fit(precision: f32, min: f32, max: f32) -> bool {
    const MOST: f32 = (1 << 28) as f32;
    precision > 0.0
        && min < max
        && (min / precision).abs() <= MOST
        && (max / precision).abs() <= MOST
}

fn limit(what: &str, count: usize, limit: usize) -> Result<(), SchemaError> {
    if count > limit {
        return Err(SchemaError::TooMany { what: what.into(), count, limit });
    }
    Ok(())
}

fn wrong(kind: &str, field: &str, found: String, expected: &'static str) -> SchemaError {
    SchemaError::Field { kind: kind.into(), field: field.into(), found, expected }
}

fn twice(kind: &str, what: String) -> SchemaError {
    SchemaError::Twice { kind: kind.into(), what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;

    fn schema_of(ty: FieldType) -> Result<Schema, SchemaError> {
        Schema::new(vec![KindSpec {
            name: "thing".into(),
            fields: vec![FieldSpec::new("value", ty)],
            max_speed: 1.0,
            fall: 0,
        }])
    }

    #[test]
    fn nonsense_is_refused_with_the_fields_name() {
        let nonsense = [
            FieldType::Place { dims: 4, precision: 0.1, extent: 10.0, motion: false },
            FieldType::Place { dims: 3, precision: 0.0, extent: 10.0, motion: false },
            FieldType::Place { dims: 3, precision: f32::NAN, extent: 10.0, motion: false },
            FieldType::Angle { steps: 1 },
            FieldType::Number { precision: 1e-9, min: 0.0, max: 1e9 },
            FieldType::Number { precision: 0.1, min: 5.0, max: 5.0 },
            FieldType::Integer { min: 3, max: 2 },
            FieldType::Symbol { count: 0 },
            FieldType::Quaternion { bits: 32 },
            FieldType::Text { max: 9_000 },
            FieldType::Optional(Box::new(FieldType::Symbol { count: 1 })),
            FieldType::List { item: Box::new(FieldType::Angle { steps: 8 }), max: 0 },
        ];
        for ty in nonsense {
            let message = schema_of(ty.clone()).expect_err(&format!("{ty:?}")).to_string();
            assert!(message.starts_with("thing.value: "), "{message}");
        }
    }

    #[test]
    fn a_floor_counts_or_is_refused() {
        let schema_of = |ty: FieldType| {
            let fields = vec![FieldSpec::new("value", ty).floor(5.0)];
            Schema::new(vec![KindSpec { name: "thing".into(), fields, max_speed: 1.0, fall: 0 }])
        };
        let numbers = [
            FieldType::Integer { min: 0, max: 255 },
            FieldType::Number { precision: 1.0, min: 0.0, max: 255.0 },
        ];
        for ty in numbers {
            let schema = schema_of(ty.clone()).unwrap();
            let steps: Vec<u32> =
                schema.kinds()[0].floored.iter().map(|lane| lane.floor_steps).collect();
            assert_eq!(steps, [5], "{ty:?}");
        }
        let others = [
            FieldType::Symbol { count: 9 },
            FieldType::Text { max: 9 },
            FieldType::Optional(Box::new(FieldType::Integer { min: 0, max: 9 })),
            FieldType::Place { dims: 3, precision: 0.1, extent: 10.0, motion: false },
        ];
        for ty in others {
            let message = schema_of(ty).unwrap_err().to_string();
            assert!(message.starts_with("thing.value: floor 5 of "), "{message}");
        }
    }

    #[test]
    fn an_object_that_would_not_fit_a_packet_is_refused() {
        let long = FieldType::List { item: Box::new(FieldType::Text { max: 32 }), max: 64 };
        assert!(matches!(schema_of(long), Err(SchemaError::TooLarge { .. })));
    }

    #[test]
    fn names_and_roles_are_unique() {
        let yaw = || FieldSpec::new("a", FieldType::Angle { steps: 240 }).role(Role::Yaw);
        let twice = |second: FieldSpec| {
            Schema::new(vec![KindSpec {
                name: "thing".into(),
                fields: vec![yaw(), second],
                max_speed: 0.0,
                fall: 0,
            }])
        };
        assert!(matches!(twice(yaw()), Err(SchemaError::Twice { .. })));
        let mut other = yaw();
        other.name = "b".into();
        assert!(matches!(twice(other.clone()), Err(SchemaError::Twice { .. })));
        other.role = Role::Pitch;
        assert!(twice(other.clone()).is_ok());
        other.role = Role::Place;
        assert!(matches!(twice(other), Err(SchemaError::Field { .. })));
    }
}

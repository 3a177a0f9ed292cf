//! Whether the schemas of two ends are equal, and the first difference if not.

use super::Schema;
use thiserror::Error;

/// The two ends of a link have different schemas. Neither can read the other's packets.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SchemaMismatch {
    /// A line that differs.
    #[error("schemas differ first at {name}: here '{here}', there '{there}'")]
    Differs {
        /// The kind, or kind and field.
        name: String,
        /// This end's line.
        here: String,
        /// The other end's line.
        there: String,
    },
    /// The hashes differ, and the other end's description is not known.
    #[error("schemas differ: hash {here:016x} here, {there:016x} there")]
    Hash { here: u64, there: u64 },
}

impl Schema {
    /// The whole schema as text, one line per kind and field; equal texts mean equal schemas.
    /// Floors are included, because the observer must know what an object without updates means.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for kind in &self.kinds {
            let spec = &kind.spec;
            let (speed, fall) = (spec.max_speed, spec.fall);
            text.push_str(&format!("{}: max_speed={speed} fall={fall}\n", spec.name));
            for field in &spec.fields {
                let (role, floor) = (field.role, field.floor);
                let own = if field.own { " own" } else { "" };
                let line = format!("{:?} role={role:?} floor={floor}{own}", field.ty);
                text.push_str(&format!("{}.{}: {line}\n", spec.name, field.name));
            }
        }
        text
    }

    /// Compares hashes only, as packets can.
    pub fn check_hash(&self, there: u64) -> Result<(), SchemaMismatch> {
        let here = self.hash;
        if here == there { Ok(()) } else { Err(SchemaMismatch::Hash { here, there }) }
    }

    /// Compares with the other end's [`describe`](Schema::describe), naming the first field that differs.
    pub fn check_description(&self, there: &str) -> Result<(), SchemaMismatch> {
        let ours = self.describe();
        let (mut here, mut there) = (ours.lines(), there.lines());
        loop {
            let (a, b) = (here.next(), there.next());
            if a == b {
                match a {
                    None => return Ok(()),
                    Some(_) => continue,
                }
            }
            let split = |line: Option<&str>| {
                let (name, rest) = line?.split_once(": ")?;
                Some((name.to_owned(), rest.to_owned()))
            };
            let (a, b) = (split(a), split(b));
            let missing = || "nothing".to_owned();
            let same_name = match (&a, &b) {
                (Some((x, _)), Some((y, _))) => x == y,
                _ => true,
            };
            let name = a.as_ref().or(b.as_ref()).map_or_else(missing, |(name, _)| name.clone());
            let say = |side: Option<(String, String)>| match side {
                Some((_, rest)) if same_name => rest,
                Some((name, rest)) => format!("{name}: {rest}"),
                None => missing(),
            };
            return Err(SchemaMismatch::Differs { name, here: say(a), there: say(b) });
        }
    }
}

/// FNV-1a: it protects against mistakes, not against attackers (links are authenticated).
pub(super) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FieldSpec, FieldType, KindSpec};

    fn schema(steps: u32, names: &[&str]) -> Schema {
        let fields =
            names.iter().map(|name| FieldSpec::new(name, FieldType::Angle { steps })).collect();
        Schema::new(vec![KindSpec { name: "avatar".into(), fields, max_speed: 8.0, fall: 0 }])
            .unwrap()
    }

    #[test]
    fn the_first_field_that_differs_is_named() {
        let here = schema(240, &["yaw", "pitch"]);
        assert_eq!(here.check_description(&here.describe()), Ok(()));
        assert_eq!(here.check_hash(here.hash()), Ok(()));

        let finer = schema(256, &["yaw", "pitch"]);
        assert_ne!(here.hash(), finer.hash());
        let message = here.check_description(&finer.describe()).unwrap_err().to_string();
        assert!(
            message.contains("avatar.yaw") && message.contains("240") && message.contains("256")
        );

        let longer = schema(240, &["yaw", "pitch", "roll"]);
        let message = here.check_description(&longer.describe()).unwrap_err().to_string();
        assert!(message.contains("avatar.roll") && message.contains("here 'nothing'"), "{message}");

        let renamed = schema(240, &["yaw", "tilt"]);
        let message = here.check_description(&renamed.describe()).unwrap_err().to_string();
        assert!(message.contains("avatar.pitch") && message.contains("avatar.tilt"), "{message}");
        assert!(here.check_hash(renamed.hash()).is_err());
    }
}

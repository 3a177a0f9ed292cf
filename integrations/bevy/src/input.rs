//! A player's input in one tick, as bytes, because the session does not know the app's type.

use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The longest input, in bytes of `postcard`. Each is sent three times, in case of loss.
pub const MAX_INPUT: usize = 32;

/// An input in bytes; empty if the app registered no type of inputs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct InputBytes {
    length: usize,
    bytes: [u8; MAX_INPUT],
}

impl InputBytes {
    /// `None` if it is too long.
    pub(crate) fn write<I: Serialize>(input: &I) -> Option<InputBytes> {
        let mut bytes = [0; MAX_INPUT];
        let length = postcard::to_slice(input, &mut bytes).ok()?.len();
        Some(InputBytes { length, bytes })
    }

    /// `None` if it is of another type.
    pub(crate) fn read<I: DeserializeOwned>(&self) -> Option<I> {
        match postcard::take_from_bytes(self.as_slice()) {
            Ok((input, [])) => Some(input),
            _ => None,
        }
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Serialize for InputBytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.as_slice())
    }
}

impl<'de> Deserialize<'de> for InputBytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<InputBytes, D::Error> {
        from.deserialize_bytes(Short)
    }
}

struct Short;

impl Visitor<'_> for Short {
    type Value = InputBytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MAX_INPUT} bytes")
    }

    fn visit_bytes<E: Error>(self, given: &[u8]) -> Result<InputBytes, E> {
        let mut input = InputBytes { length: given.len(), ..InputBytes::default() };
        let room = input.bytes.get_mut(..given.len());
        room.ok_or_else(|| E::invalid_length(given.len(), &self))?.copy_from_slice(given);
        Ok(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_return_and_what_is_too_long_is_refused() {
        let input = InputBytes::write(&(7u8, -2i32)).unwrap();
        let wire = postcard::to_allocvec(&input).unwrap();
        assert_eq!(wire.len(), 1 + 2);
        let back: InputBytes = postcard::from_bytes(&wire).unwrap();
        assert_eq!(back.read::<(u8, i32)>(), Some((7, -2)));
        assert_eq!(back.read::<u8>(), None, "nothing may follow");
        assert_eq!(InputBytes::write(&[0u64; 33].as_slice()), None);
        let long = postcard::to_allocvec(&vec![0u8; MAX_INPUT + 1]).unwrap();
        assert!(postcard::from_bytes::<InputBytes>(&long).is_err());
    }
}

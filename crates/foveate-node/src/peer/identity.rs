//! The identity of a peer: a key, and the signatures made with it.
//!
//! The transport authenticates links. **Relayed** statements are signed by their author, so that no
//! relay can change them.

use crate::game::PlayerId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Key(pub [u8; 32]);

/// Prints 64 hexadecimal digits.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The error for text that is not a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAKey;

impl fmt::Display for NotAKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key is 64 hexadecimal digits")
    }
}

impl std::error::Error for NotAKey {}

impl FromStr for Key {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Key, NotAKey> {
        let mut key = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NotAKey);
        }
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| NotAKey)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NotAKey)?;
        }
        Ok(Key(key))
    }
}

impl Key {
    /// The player of this key: its first 24 bits, which are the origin in the ids of the player's
    /// objects. Two keys may share them; the peer known first keeps the number, and the other is
    /// refused.
    pub fn player(&self) -> PlayerId {
        let [a, b, c, ..] = self.0;
        // Zero is the world itself.
        PlayerId(u32::from_le_bytes([a, b, c, 0]).max(1))
    }
}

/// Signs this node's statements and verifies those of others. The host supplies the cipher.
pub trait Signer: Send {
    fn key(&self) -> Key;
    fn sign(&self, bytes: &[u8]) -> [u8; 64];
    /// Whether the key's owner signed these bytes.
    fn verify(&self, key: &Key, bytes: &[u8], signature: &[u8; 64]) -> bool;
}

/// A signed statement: its bytes, and the signature over them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sealed {
    /// The statement in postcard.
    pub body: Vec<u8>,
    /// Two halves, because serde supports arrays up to 32.
    pub signature: [[u8; 32]; 2],
}

/// A statement that can be signed. Each type has its own domain, so that none passes for another.
pub trait Sealable: Serialize + DeserializeOwned {
    /// Precedes the bytes that are signed.
    const DOMAIN: &'static [u8];
    /// The key of the author.
    fn key(&self) -> Key;
}

impl Sealed {
    /// Signs a statement.
    pub fn new<T: Sealable>(what: &T, signer: &dyn Signer) -> Sealed {
        // Fails only for types that cannot be serialized.
        let body = postcard::to_allocvec(what).unwrap_or_default();
        let signature = signer.sign(&[T::DOMAIN, &body].concat());
        let mut halves = [[0; 32]; 2];
        halves[0].copy_from_slice(&signature[..32]);
        halves[1].copy_from_slice(&signature[32..]);
        Sealed { body, signature: halves }
    }

    /// The size in bytes, except for a few of the message around it.
    pub fn size(&self) -> usize {
        self.body.len() + size_of_val(&self.signature)
    }

    /// Reads the statement without verifying its signature.
    pub fn peek<T: Sealable>(&self) -> Option<T> {
        let (what, rest) = postcard::take_from_bytes(&self.body).ok()?;
        rest.is_empty().then_some(what)
    }

    /// Whether the key that the statement names signed it.
    pub fn holds<T: Sealable>(&self, what: &T, signer: &dyn Signer) -> bool {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&self.signature[0]);
        signature[32..].copy_from_slice(&self.signature[1]);
        signer.verify(&what.key(), &[T::DOMAIN, &self.body].concat(), &signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written_and_nothing_else_is() {
        let key = Key(std::array::from_fn(|n| n as u8 * 7));
        assert_eq!(key.to_string().parse(), Ok(key));
        for wrong in ["", "00", &"g".repeat(64), &"+1".repeat(32), &"é".repeat(32)] {
            assert_eq!(wrong.parse::<Key>(), Err(NotAKey), "{wrong:?}");
        }
    }
}

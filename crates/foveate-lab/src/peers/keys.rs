//! Real signatures in the laboratory: Ed25519, with keys derived from a seed.

use foveate_node::peer::{Key, Signer};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

/// A peer's key pair.
pub struct Keys(Ed25519KeyPair);

impl Keys {
    /// The keys for a seed; `None` for the few seeds that the cipher rejects.
    pub fn new(seed: u64) -> Option<Keys> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bytes = [0; 32];
        bytes.fill_with(|| rng.u8(..));
        Ed25519KeyPair::from_seed_unchecked(&bytes).ok().map(Keys)
    }
}

impl Signer for Keys {
    fn key(&self) -> Key {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        Key(key)
    }

    fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.0.sign(bytes).as_ref());
        signature
    }

    fn verify(&self, key: &Key, bytes: &[u8], signature: &[u8; 64]) -> bool {
        UnparsedPublicKey::new(&ED25519, key.0).verify(bytes, signature).is_ok()
    }
}

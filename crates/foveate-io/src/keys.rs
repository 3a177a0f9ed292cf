//! A peer's Ed25519 key pair, which identifies it and signs its statements.
//!
//! ```
//! use foveate_io::keys::KeyPair;
//! use foveate_node::peer::Signer;
//!
//! let (ada, bob) = (KeyPair::generate()?, KeyPair::generate()?);
//! let signature = ada.sign(b"sector 7");
//! assert!(bob.verify(&ada.key(), b"sector 7", &signature));
//! assert!(!bob.verify(&ada.key(), b"sector 8", &signature));
//! assert!(!bob.verify(&bob.key(), b"sector 7", &signature));
//! # Ok::<(), foveate_io::keys::KeyError>(())
//! ```

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foveate_node::peer::{Key, Signer};
use ring::rand::SecureRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

/// Bytes of a secret key.
const SECRET: usize = 32;

/// Why a key pair could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written. An existing file is unchanged.
    #[error("{file}: {cause}", file = file.display())]
    File {
        /// The file, as given.
        file: PathBuf,
        cause: std::io::Error,
    },
    /// The file is not in the format that [`KeyPair::keep`] writes.
    #[error("{file}: expected 64 hexadecimal digits, a secret key", file = file.display())]
    Malformed {
        /// The file, as given.
        file: PathBuf,
    },
    /// Other users could have read the secret.
    #[error("{file}: others may read this secret key; `chmod 600` it, or delete it for a new one", file = file.display())]
    Exposed {
        /// The file, as given.
        file: PathBuf,
    },
    /// The system provided no random bytes, or the key is invalid.
    #[error("cannot make a key pair")]
    Unusable,
}

/// A secret key with its public key. It is never printed.
#[derive(Clone)]
pub struct KeyPair {
    secret: [u8; SECRET],
    pair: Arc<Ed25519KeyPair>,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({:?})", self.key())
    }
}

impl KeyPair {
    /// Makes a new key pair, in memory only.
    pub fn generate() -> Result<KeyPair, KeyError> {
        let mut secret = [0; SECRET];
        ring::rand::SystemRandom::new().fill(&mut secret).map_err(|_| KeyError::Unusable)?;
        KeyPair::from_secret(secret)
    }

    /// The key pair of this secret, for tests and simulators that must be reproducible.
    pub fn from_secret(secret: [u8; SECRET]) -> Result<KeyPair, KeyError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&secret).map_err(|_| KeyError::Unusable)?;
        Ok(KeyPair { secret, pair: Arc::new(pair) })
    }

    /// Loads the key pair from a file, or creates the file, readable by its owner only.
    pub fn keep(file: &Path) -> Result<KeyPair, KeyError> {
        let failed = |cause| KeyError::File { file: file.to_owned(), cause };
        match open(file) {
            Ok(mut opened) => read(file, &mut opened),
            Err(cause) if cause.kind() == ErrorKind::NotFound => {
                let fresh = KeyPair::generate()?;
                match create(file) {
                    Ok(mut made) => {
                        let text = format!("{}\n", Key(fresh.secret));
                        made.write_all(text.as_bytes()).map_err(failed)?;
                        made.sync_all().map_err(failed)?;
                        Ok(fresh)
                    }
                    Err(cause) => Err(failed(cause)),
                }
            }
            Err(cause) => Err(failed(cause)),
        }
    }

    /// For the transport, whose handshake also signs.
    #[cfg(feature = "peer")]
    pub(crate) fn secret(&self) -> &[u8; SECRET] {
        &self.secret
    }
}

fn open(file: &Path) -> std::io::Result<std::fs::File> {
    std::fs::File::open(file)
}

#[cfg(unix)]
fn create(file: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

#[cfg(not(unix))]
fn create(file: &Path) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new().write(true).create_new(true).open(file)
}

/// Whether other users of this machine can read a file of secrets.
#[cfg(unix)]
pub(crate) fn is_exposed(opened: &std::fs::File) -> std::io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(opened.metadata()?.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
pub(crate) fn is_exposed(_: &std::fs::File) -> std::io::Result<bool> {
    Ok(false)
}

fn read(file: &Path, opened: &mut std::fs::File) -> Result<KeyPair, KeyError> {
    let failed = |cause| KeyError::File { file: file.to_owned(), cause };
    if is_exposed(opened).map_err(failed)? {
        return Err(KeyError::Exposed { file: file.to_owned() });
    }
    let malformed = || KeyError::Malformed { file: file.to_owned() };
    let mut text = String::new();
    // Sixty-four digits and a line end; a longer file is something else.
    match opened.take(80).read_to_string(&mut text) {
        Ok(_) => {}
        Err(cause) if cause.kind() == ErrorKind::InvalidData => return Err(malformed()),
        Err(cause) => return Err(failed(cause)),
    }
    let secret: Key = text.trim_end().parse().map_err(|_| malformed())?;
    KeyPair::from_secret(secret.0)
}

impl Signer for KeyPair {
    fn key(&self) -> Key {
        let mut key = [0; 32];
        key.copy_from_slice(self.pair.public_key().as_ref());
        Key(key)
    }

    fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.pair.sign(bytes).as_ref());
        signature
    }

    fn verify(&self, key: &Key, bytes: &[u8], signature: &[u8; 64]) -> bool {
        UnparsedPublicKey::new(&ED25519, key.0).verify(bytes, signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded(seed: u8) -> KeyPair {
        KeyPair::from_secret([seed; 32]).expect("any 32 bytes are a secret")
    }

    #[test]
    fn nothing_that_differs_by_one_bit_is_accepted() {
        let (ada, bytes) = (seeded(1), *b"here I am");
        let signature = ada.sign(&bytes);
        assert!(ada.verify(&ada.key(), &bytes, &signature));
        for bit in 0..bytes.len() * 8 {
            let mut forged = bytes;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!ada.verify(&ada.key(), &forged, &signature));
        }
        for bit in 0..signature.len() * 8 {
            let mut forged = signature;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!ada.verify(&ada.key(), &bytes, &forged));
        }
        assert!(!ada.verify(&seeded(2).key(), &bytes, &signature));
    }

    #[test]
    fn a_kept_key_stays_the_same_and_is_private_to_its_owner() {
        let folder = scratch("kept");
        let file = folder.join("peer.key");
        let first = KeyPair::keep(&file).expect("a new file");
        let again = KeyPair::keep(&file).expect("the same file");
        assert_eq!(first.key(), again.key());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&file).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("ours");
            assert!(matches!(KeyPair::keep(&file), Err(KeyError::Exposed { .. })));
        }
        std::fs::remove_dir_all(folder).expect("ours");
    }

    #[test]
    fn a_file_that_is_no_key_is_rejected_and_unchanged() {
        let folder = scratch("wrong");
        for (name, text) in [("empty", &b""[..]), ("short", b"12ab"), ("bytes", &[0xff; 64])] {
            let file = folder.join(name);
            create(&file).and_then(|mut made| made.write_all(text)).expect("a new file");
            assert!(matches!(KeyPair::keep(&file), Err(KeyError::Malformed { .. })), "{name}");
            assert_eq!(std::fs::read(&file).expect("still there"), text);
        }
        let nowhere = folder.join("no/such/folder");
        assert!(matches!(KeyPair::keep(&nowhere), Err(KeyError::File { .. })));
        std::fs::remove_dir_all(folder).expect("ours");
    }

    fn scratch(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("foveate-keys-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        folder
    }
}

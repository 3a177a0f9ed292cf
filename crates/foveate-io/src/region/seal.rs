//! The world's key: what messages, records and links are made and recognised with.
//!
//! All servers of a world share one secret. From it and the world's name come three keys: one for records of the ledger,
//! one for proofs on direct links, and one for each sender's messages. A message is encrypted and bound to its sender,
//! its recipient and its number, so that a stranger can neither read, forge nor replay it; a record is bound to its
//! subject and its number.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use foveate_node::region::bus::Recipient;
use foveate_node::region::layout::ServerId;
use foveate_wire::packet::VERSION as WIRE;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::{hkdf, hmac};

use super::mesh_bus::MAX_SENDERS;
use crate::host::secret;
use crate::keys::is_exposed;

/// Bytes of a secret at least.
const MIN_SECRET: usize = 32;
/// And at most.
const MAX_SECRET: u64 = 4_096;
/// Bytes of a world's name at most.
const MAX_WORLD_NAME: usize = 32;
/// The version of messages and records.
pub(super) const SEAL_VERSION: u8 = 1;
/// Version, wire version, sender, recipient, salt, number.
const HEADER: usize = 2 + 4 + 4 + 8 + 8;
/// Messages that one sender's newest may overtake.
const WINDOW: u64 = 4_096;

/// A world's name: up to 32 of `a` to `z`, `0` to `9`, `-` and `_`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorldName(String);

/// Text that is no [`WorldName`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("world name {0:?}: expected 1 to {MAX_WORLD_NAME} of a-z, 0-9, - and _")]
pub struct WorldNameError(String);

impl FromStr for WorldName {
    type Err = WorldNameError;

    fn from_str(text: &str) -> Result<WorldName, WorldNameError> {
        let plain = |it: u8| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        match (1..=MAX_WORLD_NAME).contains(&text.len()) && text.bytes().all(plain) {
            true => Ok(WorldName(text.to_owned())),
            false => Err(WorldNameError(text.chars().take(2 * MAX_WORLD_NAME).collect())),
        }
    }
}

impl fmt::Display for WorldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum WorldKeyError {
    /// The file cannot be read.
    #[error("{file}: {cause}", file = file.display())]
    File {
        /// The file as it was named.
        file: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Others could have read the secret.
    #[error("{file}: others may read this key; `chmod 600` it", file = file.display())]
    Exposed {
        /// The file as it was named.
        file: PathBuf,
    },
    /// It is too short to be a secret, or too long.
    #[error("the world's key has {0} bytes; expected {MIN_SECRET} to {MAX_SECRET} random ones")]
    Length(usize),
}

/// A world's secret, bound to its name. It is never shown.
#[derive(Clone)]
pub struct WorldKey {
    root: hkdf::Prk,
}

impl fmt::Debug for WorldKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorldKey")
    }
}

/// Bytes of a derived key.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl WorldKey {
    /// From a secret of at least 32 bytes.
    pub fn new(world: &WorldName, secret: &[u8]) -> Result<WorldKey, WorldKeyError> {
        if !(MIN_SECRET as u64..=MAX_SECRET).contains(&(secret.len() as u64)) {
            return Err(WorldKeyError::Length(secret.len()));
        }
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, world.0.as_bytes());
        Ok(WorldKey { root: salt.extract(secret) })
    }

    /// From a file, which only its owner may read; white space at its end is left out.
    pub fn read(world: &WorldName, file: &Path) -> Result<WorldKey, WorldKeyError> {
        let failed = |cause| WorldKeyError::File { file: file.to_owned(), cause };
        let opened = std::fs::File::open(file).map_err(failed)?;
        if is_exposed(&opened).map_err(failed)? {
            return Err(WorldKeyError::Exposed { file: file.to_owned() });
        }
        let mut bytes = Vec::new();
        opened.take(MAX_SECRET + 2).read_to_end(&mut bytes).map_err(failed)?;
        WorldKey::new(world, bytes.trim_ascii_end())
    }

    fn derive(&self, purpose: &[&[u8]]) -> [u8; 32] {
        let mut key = [0; 32];
        let filled = self.root.expand(purpose, Length(32)).and_then(|okm| okm.fill(&mut key));
        debug_assert!(filled.is_ok(), "32 bytes are within the limit of HKDF");
        key
    }

    /// For records of the ledger.
    pub(super) fn records(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.derive(&[b"foveate ledger 1"]))
    }

    /// For proofs on direct links.
    pub(super) fn proofs(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.derive(&[b"foveate link 1"]))
    }

    /// For the messages of one run of a server.
    fn messages(&self, sender: ServerId, salt: [u8; 8]) -> Option<LessSafeKey> {
        let key = self.derive(&[b"foveate bus 1", &sender.0.to_le_bytes(), &salt]);
        UnboundKey::new(&AES_256_GCM, &key).ok().map(LessSafeKey::new)
    }
}

/// The number of a recipient in a header; no server has number 0.
fn recipient(to: Recipient) -> u32 {
    match to {
        Recipient::All => 0,
        Recipient::Server(server) => server.0,
    }
}

/// Makes one server's messages.
pub(super) struct MessageSealer {
    key: LessSafeKey,
    me: ServerId,
    salt: [u8; 8],
    number: u64,
}

impl MessageSealer {
    /// None if the key cannot be used, which no key is known for.
    pub fn new(key: &WorldKey, me: ServerId) -> Option<MessageSealer> {
        let mut salt = [0; 8];
        salt.copy_from_slice(&secret()[..8]);
        Some(MessageSealer { key: key.messages(me, salt)?, me, salt, number: 0 })
    }

    /// A message, ready to be sent by any number of ways.
    pub fn seal(&mut self, to: Recipient, kind: u8, body: &[u8]) -> Vec<u8> {
        self.number += 1;
        let mut frame = Vec::with_capacity(HEADER + 1 + body.len() + AES_256_GCM.tag_len());
        frame.extend([SEAL_VERSION, WIRE]);
        frame.extend(self.me.0.to_le_bytes());
        frame.extend(recipient(to).to_le_bytes());
        frame.extend(self.salt);
        frame.extend(self.number.to_le_bytes());
        let header = frame.clone();
        frame.push(kind);
        frame.extend(body);
        let nonce = nonce(self.number);
        let tag =
            self.key.seal_in_place_separate_tag(nonce, Aad::from(&header), &mut frame[HEADER..]);
        // Fails only beyond 64 GiB.
        tag.map_or(Vec::new(), |tag| {
            frame.extend(tag.as_ref());
            frame
        })
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Why a message is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MessageTrouble {
    /// It was not made with this world's key, is for another server, or is of another version.
    Forged,
    /// It arrived before.
    Repeated,
}

/// Opens messages of all senders.
pub(super) struct MessageOpener {
    key: WorldKey,
    me: ServerId,
    senders: BTreeMap<ServerId, KnownSender>,
    /// Counts messages, to find the sender that has been silent for longest.
    heard: u64,
}

struct KnownSender {
    key: LessSafeKey,
    salt: [u8; 8],
    seen: SeenNumbers,
    heard: u64,
}

impl MessageOpener {
    pub fn new(key: WorldKey, me: ServerId) -> MessageOpener {
        MessageOpener { key, me, senders: BTreeMap::new(), heard: 0 }
    }

    /// The sender, the kind and the body of a message.
    pub fn open(&mut self, frame: &[u8]) -> Result<(ServerId, u8, Vec<u8>), MessageTrouble> {
        let forged = MessageTrouble::Forged;
        let (header, body) = frame.split_at_checked(HEADER).ok_or(forged)?;
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&header[at..at + 4]);
            u64::from_le_bytes(bytes)
        };
        let (sender, to) = (ServerId(number(2) as u32), number(6) as u32);
        let (mut salt, mut count) = ([0; 8], [0; 8]);
        salt.copy_from_slice(&header[10..18]);
        count.copy_from_slice(&header[18..26]);
        let count = u64::from_le_bytes(count);
        let ours = header[..2] == [SEAL_VERSION, WIRE] && (to == 0 || to == self.me.0);
        if !ours || sender == self.me {
            return Err(forged);
        }
        self.heard += 1;
        let mut plain = body.to_vec();
        if let Some(known) = self.senders.get_mut(&sender) {
            if known.salt != salt {
                return Err(forged);
            }
            let length = open(&known.key, count, header, &mut plain).ok_or(forged)?;
            plain.truncate(length);
            known.heard = self.heard;
            if !known.seen.insert(count) {
                return Err(MessageTrouble::Repeated);
            }
        } else {
            let key = self.key.messages(sender, salt).ok_or(forged)?;
            let length = open(&key, count, header, &mut plain).ok_or(forged)?;
            plain.truncate(length);
            let mut seen = SeenNumbers::default();
            seen.insert(count);
            self.make_room();
            self.senders.insert(sender, KnownSender { key, salt, seen, heard: self.heard });
        }
        let (kind, body) = plain.split_first().ok_or(forged)?;
        Ok((sender, *kind, body.to_vec()))
    }

    fn make_room(&mut self) {
        if self.senders.len() >= MAX_SENDERS
            && let Some(silent) = self.senders.iter().min_by_key(|it| it.1.heard).map(|it| *it.0)
        {
            self.senders.remove(&silent);
        }
    }
}

/// The length of what was inside, at the beginning of the buffer.
fn open(key: &LessSafeKey, number: u64, header: &[u8], bytes: &mut [u8]) -> Option<usize> {
    key.open_in_place(nonce(number), Aad::from(header), bytes).ok().map(|plain| plain.len())
}

/// Numbers of messages that arrived, as far as they are not older than the newest by a window.
struct SeenNumbers {
    newest: u64,
    bits: [u64; WINDOW as usize / 64],
}

impl Default for SeenNumbers {
    fn default() -> SeenNumbers {
        SeenNumbers { newest: 0, bits: [0; WINDOW as usize / 64] }
    }
}

impl SeenNumbers {
    /// Whether the number is new. One that is too old to tell is not.
    fn insert(&mut self, number: u64) -> bool {
        if number + WINDOW <= self.newest {
            return false;
        }
        let place = |number: u64| ((number % WINDOW / 64) as usize, 1u64 << (number % 64));
        if number > self.newest {
            let first = (self.newest + 1).max(number.saturating_sub(WINDOW - 1));
            for skipped in first..=number {
                let (word, bit) = place(skipped);
                self.bits[word] &= !bit;
            }
            self.newest = number;
        }
        let (word, bit) = place(number);
        let fresh = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn key(world: &str, byte: u8) -> WorldKey {
        WorldKey::new(&world.parse().unwrap(), &[byte; 32]).unwrap()
    }

    const ONE: ServerId = ServerId(1);
    const TWO: ServerId = ServerId(2);

    #[test]
    fn a_message_arrives_once_and_only_where_it_was_sent() {
        let mut sealer = MessageSealer::new(&key("w", 1), ONE).unwrap();
        let mut opener = MessageOpener::new(key("w", 1), TWO);
        let frame = sealer.seal(Recipient::Server(TWO), 0, b"beacon");
        assert_eq!(opener.open(&frame), Ok((ONE, 0, b"beacon".to_vec())));
        assert_eq!(opener.open(&frame), Err(MessageTrouble::Repeated));
        assert!(!frame.windows(6).any(|it| it == b"beacon"), "it is not readable");
        let to_three = sealer.seal(Recipient::Server(ServerId(3)), 0, b"other");
        assert_eq!(opener.open(&to_three), Err(MessageTrouble::Forged));
        let to_all = sealer.seal(Recipient::All, 0, b"hello");
        assert_eq!(opener.open(&to_all).map(|it| it.2), Ok(b"hello".to_vec()));
    }

    #[test]
    fn messages_of_another_key_or_world_and_bent_ones_are_forged() {
        for (world, byte) in [("w", 2), ("v", 1)] {
            let mut stranger = MessageSealer::new(&key(world, byte), ONE).unwrap();
            let mut opener = MessageOpener::new(key("w", 1), TWO);
            let frame = stranger.seal(Recipient::All, 0, b"I own region 3");
            assert_eq!(opener.open(&frame), Err(MessageTrouble::Forged));
        }
        let mut sealer = MessageSealer::new(&key("w", 1), ONE).unwrap();
        let frame = sealer.seal(Recipient::All, 0, b"beacon");
        for bit in 0..frame.len() * 8 {
            let mut opener = MessageOpener::new(key("w", 1), TWO);
            let mut bent = frame.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opener.open(&bent), Err(MessageTrouble::Forged), "bit {bit}");
        }
        let mut opener = MessageOpener::new(key("w", 1), TWO);
        (0..frame.len()).for_each(|cut| {
            assert_eq!(opener.open(&frame[..cut]), Err(MessageTrouble::Forged));
        });
    }

    #[test]
    fn numbers_are_new_once_in_whatever_order_they_come() {
        let (mut seen, mut rng) = (SeenNumbers::default(), fastrand::Rng::with_seed(1));
        let (mut known, mut newest) = (BTreeSet::new(), 0u64);
        for _ in 0..200_000 {
            let number = (newest + rng.u64(..200)).saturating_sub(rng.u64(..190)).max(1);
            newest = newest.max(number);
            assert_eq!(seen.insert(number), known.insert(number), "{number}, newest {newest}");
        }
        assert!(!seen.insert(newest - WINDOW), "too old to tell");
        assert!(seen.insert(newest + 10 * WINDOW) && !seen.insert(newest));
    }

    #[test]
    fn short_secrets_open_files_and_odd_names_are_refused() {
        let world: WorldName = "w".parse().unwrap();
        assert!(matches!(WorldKey::new(&world, &[1; 31]), Err(WorldKeyError::Length(31))));
        let file = std::env::temp_dir().join(format!("foveate-world-key-{}", std::process::id()));
        std::fs::write(&file, [b'k'; 40]).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |mode| std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, mode(0o644)).unwrap();
            assert!(matches!(WorldKey::read(&world, &file), Err(WorldKeyError::Exposed { .. })));
            std::fs::set_permissions(&file, mode(0o600)).unwrap();
        }
        assert!(WorldKey::read(&world, &file).is_ok());
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(WorldKey::read(&world, &file), Err(WorldKeyError::File { .. })));
        for name in ["", "A", "a.b", "a b", "ä", &"x".repeat(33)] {
            assert!(name.parse::<WorldName>().is_err(), "{name}");
        }
    }
}

//! Keys of the direct path: where they come from, when they change, and the numbers they never use twice.
//!
//! Everything is derived from the TLS session of the link, after its handshake. A [`Sealer`] owns the sequence
//! numbers of its direction and hands each out once; an [`Opener`] accepts each once.

use foveate_wire::Micros;
use ring::{aead, hkdf};

use super::packet::{HEADER, Header, PathId, TAG};
use super::replay::ReplayWindow;

/// Label of the TLS exporter. The context is the protocol that was agreed on, which names version and cipher.
pub(crate) const EXPORTER: &[u8] = b"EXPORTER-foveate-direct-1";
/// What the exporter gives: a secret for each direction, the client's first.
pub(crate) const EXPORTED: usize = 2 * SECRET;
/// A key seals fewer packets than this (AES-GCM's bound in RFC 9001)…
pub(crate) const MAX_SEALED: u64 = 1 << 23;
/// …and is not used for longer than this.
pub(crate) const MAX_KEY_AGE: Micros = Micros(3_600 * 1_000_000);

const SECRET: usize = 32;
const IV: usize = 12;
/// Stands before every name that something is derived by.
const PREFIX: &[u8] = b"foveate direct 1 ";

/// How packets are sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cipher {
    Aes128Gcm,
    /// For processors without instructions for AES.
    ChaCha20Poly1305,
}

impl Cipher {
    pub(crate) const ALL: [Cipher; 2] = [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305];

    /// What this machine should offer, the best first: AES only where the processor has it.
    pub(crate) fn offered() -> &'static [Cipher] {
        if has_aes() { &Cipher::ALL } else { &Cipher::ALL[1..] }
    }

    /// The protocol that both ends name in the handshake if they want the direct path.
    pub(crate) fn protocol(self) -> &'static [u8] {
        match self {
            Cipher::Aes128Gcm => b"foveate-direct-1-aes128gcm",
            Cipher::ChaCha20Poly1305 => b"foveate-direct-1-chacha20poly1305",
        }
    }

    pub(crate) fn of_protocol(protocol: &[u8]) -> Option<Cipher> {
        Cipher::ALL.into_iter().find(|cipher| cipher.protocol() == protocol)
    }

    fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Cipher::Aes128Gcm => &aead::AES_128_GCM,
            Cipher::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }

    /// Packets that fail before the keys are given up: the integrity limits of RFC 9001.
    pub(crate) fn max_failures(self) -> u64 {
        match self {
            Cipher::Aes128Gcm => 1 << 52,
            Cipher::ChaCha20Poly1305 => 1 << 36,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes() -> bool {
    false
}

/// The secret of one direction and key phase.
#[derive(Clone, Copy)]
pub(crate) struct Secret([u8; SECRET]);

impl Secret {
    /// The client's and the server's, of what TLS exported.
    pub(crate) fn pair(exported: &[u8; EXPORTED]) -> [Secret; 2] {
        let (client, server) = exported.split_at(SECRET);
        [client, server].map(|half| {
            let mut secret = [0; SECRET];
            secret.copy_from_slice(half);
            Secret(secret)
        })
    }

    /// HKDF-Expand with SHA-256.
    fn expand(&self, name: &[u8], out: &mut [u8]) {
        struct Length(usize);
        impl hkdf::KeyType for Length {
            fn len(&self) -> usize {
                self.0
            }
        }
        let prk = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &self.0);
        let info = [PREFIX, name];
        let made = prk.expand(&info, Length(out.len())).and_then(|okm| okm.fill(out));
        made.expect("SHA-256 gives up to 8,160 bytes");
    }

    /// The secret that ids of paths in this direction come from. It outlives the key phases, and tells nothing
    /// about their keys.
    pub(crate) fn ids(&self) -> Secret {
        self.derive(b"ids")
    }

    /// The id of the `number`th path, of the secret of [`Secret::ids`].
    pub(crate) fn path_id(&self, number: u32) -> PathId {
        let mut id = [0; 8];
        self.expand(&[&b"id "[..], &number.to_le_bytes()].concat(), &mut id);
        PathId(id)
    }

    /// The secret of the next key phase.
    fn next(&self) -> Secret {
        self.derive(b"next")
    }

    fn derive(&self, name: &[u8]) -> Secret {
        let mut made = [0; SECRET];
        self.expand(name, &mut made);
        Secret(made)
    }
}

struct PacketKey {
    key: aead::LessSafeKey,
    iv: [u8; IV],
}

impl PacketKey {
    fn new(cipher: Cipher, secret: &Secret) -> PacketKey {
        let (mut key, mut iv) = ([0; SECRET], [0; IV]);
        let key = &mut key[..cipher.algorithm().key_len()];
        secret.expand(b"key", key);
        secret.expand(b"iv", &mut iv);
        let key = aead::UnboundKey::new(cipher.algorithm(), key).expect("its length is right");
        PacketKey { key: aead::LessSafeKey::new(key), iv }
    }

    fn nonce(&self, sequence: u64) -> aead::Nonce {
        let mut nonce = self.iv;
        for (byte, part) in nonce[IV - 8..].iter_mut().zip(sequence.to_le_bytes()) {
            *byte ^= part;
        }
        aead::Nonce::assume_unique_for_key(nonce)
    }
}

/// Seals what one side sends.
///
/// It cannot be cloned, and `seal` is the only way to its key: no number is used twice by construction.
pub(crate) struct Sealer {
    cipher: Cipher,
    secret: Secret,
    key: PacketKey,
    phase: u32,
    /// The next sequence number; never reset, not by a new key or path either.
    next: u64,
    /// The first number and the time of this phase.
    begun: (u64, Micros),
}

impl Sealer {
    pub(crate) fn new(cipher: Cipher, secret: Secret, now: Micros) -> Sealer {
        let key = PacketKey::new(cipher, &secret);
        Sealer { cipher, secret, key, phase: 0, next: 0, begun: (0, now) }
    }

    /// The sequence number of the next packet.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Appends a packet whose contents `write` appends. Returns its sequence number.
    pub(crate) fn seal(
        &mut self,
        now: Micros,
        header: Header,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> u64 {
        let sequence = self.next;
        self.next += 1;
        if sequence - self.begun.0 >= MAX_SEALED - 1 || now - self.begun.1 >= MAX_KEY_AGE {
            self.rotate(sequence, now);
        }
        let start = out.len();
        out.extend_from_slice(&header.encode(self.phase, sequence));
        write(out);
        let (header, contents) = out[start..].split_at_mut(HEADER);
        let nonce = self.key.nonce(sequence);
        let sealed =
            self.key.key.seal_in_place_separate_tag(nonce, aead::Aad::from(&*header), contents);
        out.extend_from_slice(sealed.expect("a packet is shorter than 2³⁶ bytes").as_ref());
        sequence
    }

    fn rotate(&mut self, sequence: u64, now: Micros) {
        self.secret = self.secret.next();
        self.key = PacketKey::new(self.cipher, &self.secret);
        self.phase = self.phase.wrapping_add(1);
        self.begun = (sequence, now);
    }

    /// Uses up numbers as if packets had been sent.
    #[cfg(test)]
    pub(crate) fn skip(&mut self, count: u64) {
        self.next += count;
    }
}

/// Why a packet was not opened. Nothing changed but counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotOpened {
    /// Its number came before, or is older than the window.
    Replayed,
    /// Not sealed by the other side, or with a key that is gone.
    Forged,
}

/// Opens what the other side sent.
pub(crate) struct Opener {
    cipher: Cipher,
    /// That of the current phase.
    secret: Secret,
    current: PacketKey,
    phase: u32,
    /// The key before, until then.
    previous: Option<(PacketKey, Micros)>,
    /// The key after, made when a packet first names it and then kept: forged ones cost it once.
    next: Option<Box<PacketKey>>,
    window: ReplayWindow,
    failures: u64,
}

impl Opener {
    pub(crate) fn new(cipher: Cipher, secret: Secret) -> Opener {
        let current = PacketKey::new(cipher, &secret);
        let (window, failures) = (ReplayWindow::default(), 0);
        Opener { cipher, secret, current, phase: 0, previous: None, next: None, window, failures }
    }

    /// Packets accepted so far, and the newest.
    pub(crate) fn received(&self) -> (u64, Option<u64>) {
        (self.window.count(), self.window.newest())
    }

    /// Whether the cipher's limit of failures is reached, beyond which a forgery could succeed.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.failures >= self.cipher.max_failures()
    }

    /// Deciphers a packet in place, and returns its number and the length of its contents, which begin after
    /// the header. Keys that were replaced stay valid for `keep`.
    pub(crate) fn open(
        &mut self,
        now: Micros,
        keep: Micros,
        bytes: &mut [u8],
    ) -> Result<(u64, usize), NotOpened> {
        if bytes.len() < HEADER + TAG || self.is_exhausted() {
            return Err(NotOpened::Forged);
        }
        let (header, sealed) = bytes.split_at_mut(HEADER);
        let (phase, low) = (header[0] >> 2 & 3, u16::from_le_bytes([header[9], header[10]]));
        let sequence = self.window.complete(low);
        if self.window.is_known(sequence) {
            return Err(NotOpened::Replayed);
        }
        let ahead = phase.wrapping_sub(self.phase as u8) & 3;
        let key = match ahead {
            0 => Some(&self.current),
            1 => {
                let made = || Box::new(PacketKey::new(self.cipher, &self.secret.next()));
                Some(&**self.next.get_or_insert_with(made))
            }
            3 => {
                let previous = self.previous.as_ref().filter(|(_, until)| now < *until);
                previous.map(|(key, _)| key)
            }
            _ => None,
        };
        let opened = key.and_then(|key| {
            let aad = aead::Aad::from(&*header);
            key.key.open_in_place(key.nonce(sequence), aad, sealed).ok().map(|it| it.len())
        });
        let Some(length) = opened else {
            self.failures += 1;
            return Err(NotOpened::Forged);
        };
        self.window.accept(sequence);
        if ahead == 1 {
            self.advance(now + keep);
        }
        Ok((sequence, length))
    }

    /// The other side has gone to the next key.
    fn advance(&mut self, until: Micros) {
        if let Some(next) = self.next.take() {
            self.secret = self.secret.next();
            self.previous = Some((std::mem::replace(&mut self.current, *next), until));
            self.phase = self.phase.wrapping_add(1);
        }
    }

    #[cfg(test)]
    pub(crate) fn fail(&mut self, times: u64) {
        self.failures += times;
    }
}

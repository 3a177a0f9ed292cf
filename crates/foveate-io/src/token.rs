//! Connect tokens: a player's name, signed with the operator's secret, valid for a short time.
//!
//! A login service and a game server share a [`Secret`]. The service issues a token for a player; the player's client
//! presents it to the server, which accepts it once. Nothing here reads a clock: `now` is an argument.
//!
//! A token is text: hexadecimal digits of a version byte, the expiry (8 bytes, most significant first), a random id (16
//! bytes), the player's name and the server's name (each a length byte and UTF-8; an empty server name means any
//! server), and the HMAC-SHA256 of all this.
//!
//! ```
//! use foveate_io::{UnixTime, token::{TokenClaim, Secret, TokenError, Verifier, random_id}};
//! # use std::time::Duration;
//! let secret = Secret::new(b"thirty-two bytes or more of chance")?;
//! let now = UnixTime(1_000_000);
//! let expires = now.plus(Duration::from_secs(60));
//! let claim = TokenClaim { name: "Ada".into(), server: None, expires, id: random_id()? };
//! let token = secret.issue(&claim)?;
//!
//! let mut verifier = Verifier::new(secret, "arena-1");
//! assert_eq!(verifier.check(&token, now)?.name, "Ada");
//! assert!(matches!(verifier.check(&token, now), Err(TokenError::Replayed)));
//! # Ok::<(), TokenError>(())
//! ```

pub use foveate_node::persistence::{MAX_REMEMBERED, TokenId};

use crate::time::UnixTime;
use foveate_node::persistence::UsedTokens;
use ring::hmac;
use ring::rand::SecureRandom;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of tokens that are issued and accepted.
pub const TOKEN_VERSION: u8 = 1;
/// The longest name of a player or a server, in bytes.
pub const MAX_NAME: usize = 64;
/// The shortest secret, in bytes: as long as the hash.
pub const MIN_SECRET: usize = 32;
/// The longest secret, in bytes.
pub const MAX_SECRET: usize = 4_096;
/// The longest life of a token. Used ones are remembered until they expire.
pub const MAX_LIFE: Duration = Duration::from_secs(86_400);

const MAC: usize = 32;
const HEAD: usize = 1 + 8 + 16;
/// Two names with their lengths.
const LONGEST: usize = HEAD + 2 * (1 + MAX_NAME) + MAC;

/// How far an issuer's clock may be ahead for a token of the longest life to be accepted.
pub const MAX_SKEW: Duration = Duration::from_secs(60);

/// Why a token was not issued or not accepted. A rejected token is not used up.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The text is not a token.
    #[error("not a connect token")]
    Malformed,
    /// The token has another version.
    #[error("connect token of version {found}, this program takes version {TOKEN_VERSION}")]
    Version {
        /// The token's version.
        found: u8,
    },
    /// The token was made with another secret, or altered.
    #[error("connect token that was not issued for this server's secret")]
    Bad,
    /// The token has expired.
    #[error("connect token expired {0} s ago; ask for a new one")]
    Expired(u64),
    /// The token's life is longer than allowed; clocks may differ.
    #[error("connect token lives for {0} s, the limit is {limit} s", limit = MAX_LIFE.as_secs())]
    LivesTooLong(u64),
    /// The token was used before.
    #[error("connect token was used before; ask for a new one")]
    Replayed,
    /// The token is for another server.
    #[error("connect token is for server {named:?}, this one is {here:?}")]
    OtherServer {
        /// The server that it names.
        named: String,
        /// The server that rejects it.
        here: String,
    },
    /// Too many tokens were used recently; retry when some have expired.
    #[error("{MAX_REMEMBERED} tokens were used lately; retry later")]
    Full,
    /// A name is not valid in a token.
    #[error("name {0:?}: expected 1 to {MAX_NAME} bytes without control characters")]
    Name(String),
    /// A secret is too short or too long.
    #[error("secret of {0} bytes: expected {MIN_SECRET} to {MAX_SECRET} random bytes")]
    Secret(usize),
    /// The file with the secret cannot be read.
    #[error("{file}: {cause}", file = file.display())]
    File {
        /// The file, as given.
        file: PathBuf,
        cause: std::io::Error,
    },
    /// The system provided no random bytes.
    #[error("the system provided no random bytes")]
    NoChance,
}

/// Whether this is a valid name of a player or a server.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control)
}

/// An id for a new token.
pub fn random_id() -> Result<TokenId, TokenError> {
    let mut id = [0; 16];
    ring::rand::SystemRandom::new().fill(&mut id).map_err(|_| TokenError::NoChance)?;
    Ok(id)
}

/// The contents of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenClaim {
    /// The player that it is for.
    pub name: String,
    /// The server that it is for; `None` for any.
    pub server: Option<String>,
    /// When it expires.
    pub expires: UnixTime,
    pub id: TokenId,
}

/// The secret of issuer and server. It cannot be read back or printed.
pub struct Secret(hmac::Key);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Makes a secret from random bytes, or from text with as much entropy.
    pub fn new(bytes: &[u8]) -> Result<Secret, TokenError> {
        if !(MIN_SECRET..=MAX_SECRET).contains(&bytes.len()) {
            return Err(TokenError::Secret(bytes.len()));
        }
        Ok(Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// Reads a secret from a file, ignoring white space at its end.
    pub fn read(path: &Path) -> Result<Secret, TokenError> {
        let failed = |cause| TokenError::File { file: path.into(), cause };
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(MAX_SECRET as u64 + 2).read_to_end(&mut bytes).map_err(failed)?;
        Secret::new(bytes.trim_ascii_end())
    }

    /// Issues a token with these contents.
    pub fn issue(&self, claim: &TokenClaim) -> Result<String, TokenError> {
        let server = claim.server.as_deref();
        for name in [Some(claim.name.as_str()), server].into_iter().flatten() {
            if !is_name(name) {
                return Err(TokenError::Name(name.chars().take(MAX_NAME).collect()));
            }
        }
        let mut bytes = vec![TOKEN_VERSION];
        bytes.extend(claim.expires.0.to_be_bytes());
        bytes.extend(claim.id);
        for name in [claim.name.as_str(), server.unwrap_or_default()] {
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
        }
        Ok(self.sign(&bytes))
    }

    /// Signs any bytes as a token.
    pub(crate) fn sign(&self, said: &[u8]) -> String {
        let mac = hmac::sign(&self.0, said);
        said.iter().chain(mac.as_ref()).map(|byte| format!("{byte:02x}")).collect()
    }

    /// A token's contents, if it was issued with this secret. Only the version is read before the signature is
    /// verified.
    fn open(&self, token: &str) -> Result<TokenClaim, TokenError> {
        let bytes = from_hex(token).ok_or(TokenError::Malformed)?;
        let at = bytes.len().checked_sub(MAC).filter(|at| *at > HEAD);
        let (said, mac) = bytes.split_at(at.ok_or(TokenError::Malformed)?);
        if said[0] != TOKEN_VERSION {
            return Err(TokenError::Version { found: said[0] });
        }
        // Takes the same time wherever the two differ.
        hmac::verify(&self.0, said, mac).map_err(|_| TokenError::Bad)?;
        parse(said).ok_or(TokenError::Malformed)
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() > 2 * LONGEST || !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

fn parse(said: &[u8]) -> Option<TokenClaim> {
    let (expires, rest) = said.get(1..)?.split_first_chunk()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (name, rest) = take_name(rest)?;
    let (server, rest) = take_name(rest)?;
    let valid = rest.is_empty() && is_name(&name) && (server.is_empty() || is_name(&server));
    let expires = UnixTime(u64::from_be_bytes(*expires));
    let server = Some(server).filter(|server| !server.is_empty());
    valid.then_some(TokenClaim { name, server, expires, id: *id })
}

fn take_name(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((std::str::from_utf8(name).ok()?.to_owned(), rest))
}

/// Accepts each token once.
#[derive(Debug)]
pub struct Verifier {
    secret: Secret,
    server: String,
    used: UsedTokens,
}

impl Verifier {
    /// A verifier for the server of this name.
    pub fn new(secret: Secret, server: &str) -> Verifier {
        Verifier { secret, server: server.into(), used: UsedTokens::default() }
    }

    /// Checks a token, and marks it as used if it is accepted.
    pub fn check(&mut self, token: &str, now: UnixTime) -> Result<TokenClaim, TokenError> {
        let claim = self.read(token, now)?;
        self.used.forget_expired(now);
        // A clock that was ahead for a while may have made tokens expire that are valid now.
        if claim.expires <= self.used.horizon() {
            return Err(TokenError::Expired(0));
        }
        if !self.used.insert(claim.id, claim.expires) {
            return Err(TokenError::Full);
        }
        Ok(claim)
    }

    /// Checks a token without marking it as used.
    pub fn read(&self, token: &str, now: UnixTime) -> Result<TokenClaim, TokenError> {
        let claim = self.secret.open(token)?;
        if claim.expires <= now {
            return Err(TokenError::Expired(now.0 - claim.expires.0));
        }
        let life = claim.expires.0 - now.0;
        if life > (MAX_LIFE + MAX_SKEW).as_secs() {
            return Err(TokenError::LivesTooLong(life));
        }
        if let Some(named) = claim.server.clone().filter(|named| *named != self.server) {
            return Err(TokenError::OtherServer { named, here: self.server.clone() });
        }
        if self.used.contains(&claim.id) {
            return Err(TokenError::Replayed);
        }
        Ok(claim)
    }

    /// Number of used tokens that are remembered.
    pub fn remembered(&self) -> usize {
        self.used.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime(1_000_000);

    fn secret() -> Secret {
        Secret::new(&[7; 32]).unwrap()
    }

    fn claim(id: u32, life: u64) -> TokenClaim {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&id.to_be_bytes());
        let expires = UnixTime(NOW.0 + life);
        TokenClaim { name: "Zoë".into(), server: None, expires, id: bytes }
    }

    fn verifier() -> Verifier {
        Verifier::new(secret(), "arena-1")
    }

    #[test]
    fn a_token_is_accepted_once_and_has_its_contents() {
        let (mut verifier, here) = (verifier(), Some("arena-1".to_owned()));
        for claim in [claim(1, 60), TokenClaim { server: here, ..claim(2, 60) }] {
            let token = secret().issue(&claim).unwrap();
            assert_eq!(verifier.check(&token, NOW).unwrap(), claim);
            assert!(matches!(verifier.check(&token, NOW), Err(TokenError::Replayed)));
        }
    }

    #[test]
    fn a_token_of_another_server_is_refused_with_both_names() {
        let other = TokenClaim { server: Some("arena-2".into()), ..claim(1, 60) };
        let refused = verifier().check(&secret().issue(&other).unwrap(), NOW).unwrap_err();
        let message = refused.to_string();
        assert!(message.contains("arena-1") && message.contains("arena-2"), "{message}");
    }

    #[test]
    fn the_clock_decides_and_used_tokens_are_forgotten_when_they_expire() {
        let mut verifier = verifier();
        let token = secret().issue(&claim(1, 60)).unwrap();
        let after = UnixTime(NOW.0 + 60);
        assert!(matches!(verifier.check(&token, after), Err(TokenError::Expired(0))));
        verifier.check(&token, UnixTime(NOW.0 + 59)).unwrap();
        assert_eq!(verifier.remembered(), 1);
        let next = secret().issue(&claim(2, 120)).unwrap();
        verifier.check(&next, after).unwrap();
        assert_eq!(verifier.remembered(), 1, "the first has expired");
        let ahead = secret().issue(&claim(4, MAX_LIFE.as_secs() + 10)).unwrap();
        assert!(verifier.read(&ahead, NOW).is_ok(), "an issuer ten seconds ahead");
        let eternal = secret().issue(&claim(3, 90_000)).unwrap();
        assert!(matches!(verifier.check(&eternal, NOW), Err(TokenError::LivesTooLong(90_000))));
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let token = secret().issue(&claim(1, 60)).unwrap();
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            let refused = verifier().check(&changed, NOW).unwrap_err();
            assert!(matches!(refused, TokenError::Bad | TokenError::Version { .. }), "{refused}");
        }
        let other = Secret::new(&[8; 32]).unwrap().issue(&claim(1, 60)).unwrap();
        assert!(matches!(verifier().check(&other, NOW), Err(TokenError::Bad)));
    }

    #[test]
    fn other_texts_are_rejected() {
        let token = secret().issue(&claim(1, 60)).unwrap();
        let long = "00".repeat(LONGEST + 1);
        for text in ["", "0", "zz", "é0", &token[..40], &token[..token.len() - 1], &long] {
            assert!(matches!(verifier().check(text, NOW), Err(TokenError::Malformed)), "{text:?}");
        }
        assert!(matches!(
            verifier().check(&token[2..], NOW),
            Err(TokenError::Version { found: 0 })
        ));
    }

    #[test]
    fn secrets_and_names_have_their_lengths() {
        assert!(matches!(Secret::new(b"short"), Err(TokenError::Secret(5))));
        for name in ["", "a\tb", &"n".repeat(MAX_NAME + 1)] {
            let wrong = TokenClaim { name: name.into(), ..claim(1, 60) };
            assert!(matches!(secret().issue(&wrong), Err(TokenError::Name(_))), "{name:?}");
        }
        let absent = Secret::read(Path::new("no-such-secret"));
        assert!(absent.unwrap_err().to_string().contains("no-such-secret"));
        assert_eq!(format!("{:?}", secret()), "Secret");
    }

    #[test]
    fn a_verifier_remembers_a_bounded_number_of_tokens() {
        let mut verifier = verifier();
        for id in 0..MAX_REMEMBERED as u32 {
            assert!(verifier.used.insert(claim(id, 60).id, UnixTime(NOW.0 + 60)));
        }
        let late = secret().issue(&claim(u32::MAX, 120)).unwrap();
        assert!(matches!(verifier.check(&late, NOW), Err(TokenError::Full)));
        let known = secret().issue(&claim(5, 60)).unwrap();
        assert!(matches!(verifier.check(&known, NOW), Err(TokenError::Replayed)));
        verifier.check(&late, UnixTime(NOW.0 + 60)).unwrap();
        assert_eq!(verifier.remembered(), 1);
    }
}

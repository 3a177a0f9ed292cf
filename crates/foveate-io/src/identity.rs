//! A server's certificate, and the certificates that a client trusts.

mod trust;

pub use trust::Trust;
pub(crate) use trust::client_config;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quinn_proto::crypto::rustls::QuicServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::error::Error;

/// The protocol name that both ends must negotiate in the handshake.
pub const PROTOCOL: &[u8] = b"foveate";

/// How long a development certificate is valid; browsers accept at most 14 days.
pub const VALID_FOR: Duration = Duration::from_secs(13 * DAY);
/// How long before its expiry a development certificate is replaced.
pub const RENEWED_BEFORE: Duration = Duration::from_secs(3 * DAY);
/// A development certificate is valid from this long before it was made, for clocks that are behind.
const BACKDATED: Duration = Duration::from_secs(3_600);
const DAY: u64 = 86_400;

/// SHA-256 of a certificate, as in browsers' `serverCertificateHashes`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertificateHash(pub [u8; 32]);

impl CertificateHash {
    fn of(certificate: &CertificateDer<'_>) -> CertificateHash {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        let mut hash = [0; 32];
        hash.copy_from_slice(digest.as_ref());
        CertificateHash(hash)
    }
}

/// A text is not a [`CertificateHash`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected the SHA-256 of a certificate: 64 hexadecimal digits")]
pub struct CertificateHashError;

impl std::str::FromStr for CertificateHash {
    type Err = CertificateHashError;

    fn from_str(text: &str) -> Result<CertificateHash, CertificateHashError> {
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(CertificateHashError);
        }
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| CertificateHashError)?;
        }
        Ok(CertificateHash(hash))
    }
}

impl fmt::Display for CertificateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CertificateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The source of a server's certificate.
#[derive(Clone, Debug)]
pub enum Certificate {
    /// Made by the server itself, for these names, and renewed before it expires. Clients pin its hash. For
    /// development, and for browsers on a local network.
    Development {
        /// Names and addresses, such as `localhost` or `127.0.0.1`.
        names: Vec<String>,
    },
    /// Two PEM files: the certificate chain, starting with the server's own certificate, and its key.
    Files { chain: PathBuf, key: PathBuf },
}

impl Certificate {
    /// A development certificate for this machine alone.
    pub fn development() -> Certificate {
        Certificate::Development {
            names: vec!["localhost".into(), "127.0.0.1".into(), "::1".into()],
        }
    }
}

/// A certificate with its key, ready for use.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// Hash of the server's own certificate.
    hash: CertificateHash,
    /// When it should be replaced; `None` for files, which the tool that made them replaces.
    renew_at: Option<SystemTime>,
}

impl Identity {
    /// Makes or reads a certificate. A development certificate is valid from about `now`.
    pub fn obtain(certificate: &Certificate, now: SystemTime) -> Result<Identity, Error> {
        match certificate {
            Certificate::Development { names } => Self::make(names, now),
            Certificate::Files { chain, key } => Self::read(chain, key),
        }
    }

    /// SHA-256 of the server's own certificate.
    pub fn hash(&self) -> CertificateHash {
        self.hash
    }

    /// Whether a development certificate is about to expire.
    pub fn is_due(&self, now: SystemTime) -> bool {
        self.renew_at.is_some_and(|due| due <= now)
    }

    fn make(names: &[String], now: SystemTime) -> Result<Identity, Error> {
        let failed = |cause: rcgen::Error| Error::Certificate(cause.to_string());
        let begins = now - BACKDATED;
        let since_epoch = begins.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut params = rcgen::CertificateParams::new(names.to_vec()).map_err(failed)?;
        params.not_before = rcgen::date_time_ymd(1970, 1, 1) + since_epoch;
        params.not_after = params.not_before + VALID_FOR;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "Foveate development");
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let made = params.self_signed(&key).map_err(failed)?.der().clone();
        Ok(Identity {
            hash: CertificateHash::of(&made),
            chain: vec![made],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            renew_at: Some(begins + VALID_FOR - RENEWED_BEFORE),
        })
    }

    fn read(chain: &Path, key: &Path) -> Result<Identity, Error> {
        let certificates = read_certificates(chain)?;
        let found = PrivateKeyDer::from_pem_file(key)
            .map_err(|cause| refuse(key, format!("expected a private key in PEM: {cause}")))?;
        let identity = Identity {
            hash: CertificateHash::of(&certificates[0]),
            chain: certificates,
            key: found,
            renew_at: None,
        };
        identity
            .server_config(&[PROTOCOL])
            .map_err(|cause| refuse(key, format!("does not fit {}: {cause}", chain.display())))?;
        Ok(identity)
    }

    pub(crate) fn server_config(&self, protocols: &[&[u8]]) -> Result<QuicServerConfig, Error> {
        let failed = |cause: rustls::Error| Error::Certificate(cause.to_string());
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(failed)?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(failed)?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        // A link lasts as long as a match: resuming TLS sessions is not worth a ticket per handshake.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        QuicServerConfig::try_from(config).map_err(|cause| Error::Certificate(cause.to_string()))
    }
}

/// Reads at least one certificate.
fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let expected = "expected one or more certificates in PEM";
    let found = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|cause| refuse(file, format!("{expected}: {cause}")))?;
    match found.is_empty() {
        true => Err(refuse(file, format!("{expected}, found none"))),
        false => Ok(found),
    }
}

fn refuse(file: &Path, what: String) -> Error {
    Error::File { file: file.to_owned(), what }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests;

//! Which servers a client trusts.

use std::path::PathBuf;
use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{CertificateHash, provider, read_certificates, refuse};
use crate::error::Error;

/// Which servers a client trusts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Servers whose certificate has one of these hashes. Name and dates are not checked.
    Pinned(Vec<CertificateHash>),
    /// Servers certified by an authority in this PEM file.
    Roots(PathBuf),
    /// Servers certified by an authority that the system trusts.
    System,
    /// Any server. An attacker on the network path can read and change everything.
    InsecureDevelopmentOnly,
}

pub(crate) fn client_config(trust: &Trust, protocols: &[&[u8]]) -> Result<QuicClientConfig, Error> {
    let failed = |cause: rustls::Error| Error::Certificate(cause.to_string());
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?;
    let mut config = match pins(trust) {
        Some(pins) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ByHash { pins, provider: provider() })),
        None => builder.with_root_certificates(roots(trust)?),
    }
    .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.resumption = rustls::client::Resumption::disabled();
    QuicClientConfig::try_from(config).map_err(|cause| Error::Certificate(cause.to_string()))
}

fn pins(trust: &Trust) -> Option<Pins> {
    match trust {
        Trust::Pinned(hashes) => Some(Pins::Any(hashes.clone())),
        Trust::InsecureDevelopmentOnly => Some(Pins::Everyone),
        Trust::Roots(_) | Trust::System => None,
    }
}

fn roots(trust: &Trust) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    if let Trust::Roots(file) = trust {
        for certificate in read_certificates(file)? {
            store
                .add(certificate)
                .map_err(|cause| refuse(file, format!("not a root certificate: {cause}")))?;
        }
        return Ok(store);
    }
    let found = rustls_native_certs::load_native_certs();
    // Some systems have certificates that the verifier rejects; the others are used.
    store.add_parsable_certificates(found.certs);
    match store.is_empty() {
        true => Err(Error::NoRoots(format!("{:?}", found.errors))),
        false => Ok(store),
    }
}

#[derive(Debug)]
enum Pins {
    Any(Vec<CertificateHash>),
    Everyone,
}

#[derive(thiserror::Error)]
#[error("its hash {0} is not pinned")]
struct NotPinned(CertificateHash);

// TLS shows another crate's error by its debug text.
impl std::fmt::Debug for NotPinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Trusts certificates by their hash. It is still verified that the server has the key.
#[derive(Debug)]
struct ByHash {
    pins: Pins,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ByHash {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let hash = CertificateHash::of(certificate);
        match &self.pins {
            Pins::Any(pins) if !pins.contains(&hash) => {
                let other = rustls::OtherError(Arc::new(NotPinned(hash)));
                Err(rustls::CertificateError::Other(other).into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has no TLS 1.2".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

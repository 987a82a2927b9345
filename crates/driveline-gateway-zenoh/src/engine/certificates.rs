// SPDX-License-Identifier: Apache-2.0
//! Checks this host's certificates, and reports problems with the file's name. Zenoh reports a key
//! that does not fit its certificate only where it listens, and does not report an expired
//! certificate. Connections then end on both sides without a reason.

use super::GatewayError;
use driveline_gateway::network::TlsSpec;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys, RootCertStore};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of certificates read from a file. A fleet has a few authorities, and a chain a
/// few links.
const MAX_CERTIFICATES: usize = 64;

/// Certificate of this host, with the authority to check it against.
#[derive(Debug)]
pub(super) struct Certificates {
    /// Certificate chain, the host's own first.
    chain: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ClientCertVerifier>,
    certificate: PathBuf,
    authority: PathBuf,
}

fn mistake(key: &'static str, message: String, help: &str) -> GatewayError {
    GatewayError::Network { key, message, help: help.into() }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, GatewayError> {
    let broken = |why: &dyn Display| {
        let help = "`openssl x509 -in FILE -noout -text` must show it; write the file in PEM";
        mistake(key, format!("{} has no certificate that can be read: {why}", path.display()), help)
    };
    let all = CertificateDer::pem_file_iter(path).map_err(|e| broken(&e))?;
    let all: Vec<_> =
        all.take(MAX_CERTIFICATES).collect::<Result<_, _>>().map_err(|e| broken(&e))?;
    if all.is_empty() {
        Err(broken(&"there is no `-----BEGIN CERTIFICATE-----` in it"))
    } else {
        Ok(all)
    }
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// Reason why no connection can be made with them.
    pub(super) fn read(spec: &TlsSpec) -> Result<Self, GatewayError> {
        let provider = Arc::new(ring::default_provider());
        let chain = read("tls.certificate", &spec.certificate)?;
        private_key(spec, &chain, &provider)?;
        let mut roots = RootCertStore::empty();
        let no_authority = |why: &dyn Display| {
            let help = "name the certificate of the authority that has signed the certificates of \
                 all hosts";
            mistake(
                "tls.authority",
                format!(
                    "{} is not the certificate of an authority: {why}",
                    spec.authority.display()
                ),
                help,
            )
        };
        for root in read("tls.authority", &spec.authority)? {
            roots.add(root).map_err(|e| no_authority(&e))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|e| no_authority(&e))?;
        Ok(Self {
            chain,
            verifier,
            certificate: spec.certificate.clone(),
            authority: spec.authority.clone(),
        })
    }

    /// Reason why hosts of the same authority refuse the certificate now, with the remedy. It may
    /// be valid later, or on a host with another clock.
    pub(super) fn refused(&self) -> Option<String> {
        self.refused_at(UnixTime::now())
    }

    fn refused_at(&self, now: UnixTime) -> Option<String> {
        let (own, others) = self.chain.split_first()?;
        let error = self.verifier.verify_client_cert(own, others, now).err()?;
        let (certificate, authority) = (self.certificate.display(), self.authority.display());
        Some(match error {
            Error::InvalidCertificate(CertificateError::ExpiredContext { time, not_after }) => {
                format!(
                    "the certificate {certificate} expired {} ago, and other hosts refuse it: have \
                     the authority sign a new one (if this computer's clock is right: `date`)",
                    lasts(time, not_after)
                )
            }
            Error::InvalidCertificate(CertificateError::NotValidYetContext {
                time,
                not_before,
            }) => format!(
                "the certificate {certificate} is valid only in {}: is this computer's clock right \
                 (`date`)?",
                lasts(not_before, time)
            ),
            Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => format!(
                "the certificate {certificate} is not signed by the authority of {authority}, and \
                 hosts that have the same authority refuse it: name the authority that signed it \
                 (`openssl x509 -in {certificate} -noout -issuer`), or have this one sign it"
            ),
            Error::InvalidCertificate(
                CertificateError::InvalidPurposeContext { .. } | CertificateError::InvalidPurpose,
            ) => format!(
                "the certificate {certificate} does not permit use by a client, and other \
                 hosts refuse it where this one connects: have it signed with \
                 `extendedKeyUsage=serverAuth,clientAuth`"
            ),
            other => format!(
                "the certificate {certificate} is refused by hosts that have the authority of \
                 {authority}: {other}; `openssl x509 -in {certificate} -noout -text` shows it"
            ),
        })
    }
}

fn private_key(
    spec: &TlsSpec,
    chain: &[CertificateDer<'static>],
    provider: &CryptoProvider,
) -> Result<(), GatewayError> {
    let (path, certificate) = (spec.private_key.display(), spec.certificate.display());
    let help = "`openssl pkey -in FILE -noout` must report no error; write the file in PEM, \
         without a password";
    let broken = |why: &dyn Display| {
        mistake(
            "tls.private_key",
            format!("{path} has no private key that can be read: {why}"),
            help,
        )
    };
    let key = PrivateKeyDer::from_pem_file(&spec.private_key).map_err(|e| broken(&e))?;
    let key = provider.key_provider.load_private_key(key).map_err(|e| broken(&e))?;
    match CertifiedKey::new(chain.to_vec(), key).keys_match() {
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            let message = format!("{path} is not the key of the certificate {certificate}");
            Err(mistake("tls.private_key", message, "name a certificate and its own key"))
        }
        Err(e @ Error::InvalidCertificate(_)) => {
            let help = "`openssl x509 -in FILE -noout -text` must show it; write the file in PEM";
            Err(mistake(
                "tls.certificate",
                format!("{certificate} has no certificate that can be read: {e}"),
                help,
            ))
        }
        // If the library cannot compare them, a mismatch shows when they are used.
        _ => Ok(()),
    }
}

/// Time between two moments, as text.
fn lasts(later: UnixTime, earlier: UnixTime) -> String {
    let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(86_400));
    let passed = Duration::from_secs(later.as_secs().saturating_sub(earlier.as_secs()));
    match passed {
        _ if passed >= 2 * day => format!("{} days", passed.as_secs() / day.as_secs()),
        _ if passed >= 2 * hour => format!("{} hours", passed.as_secs() / hour.as_secs()),
        _ => format!("{} minutes", passed.as_secs() / 60),
    }
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;

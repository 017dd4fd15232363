//! TLS for connections to PostgreSQL, with rustls and the system's certificate authorities.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::Verifier as PlatformVerifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;

use recall_system::secret::read_private;

use crate::address::{DatabaseAddress, ServerCheck};

/// Opens encrypted connections.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    /// # Errors
    /// A certificate or a key cannot be used. The error is a message for the user.
    pub(super) fn of(address: &DatabaseAddress) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let verifier = verifier(address, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match &address.client_cert {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => builder
                .with_client_auth_cert(certificates(cert)?, private_key(key)?)
                .map_err(|error| format!("the certificate {} cannot be used: {error}", cert.display()))?,
        };
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

fn verifier(
    address: &DatabaseAddress,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let strict: Arc<dyn ServerCertVerifier> = match &address.root_cert {
        None => Arc::new(PlatformVerifier::new(Arc::clone(provider)).map_err(|error| {
            format!(
                "the system's certificate authorities cannot be read: {error}; name a file with `sslrootcert`"
            )
        })?),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots
                    .add(certificate)
                    .map_err(|error| format!("{} cannot be used: {error}", path.display()))?;
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|error| format!("{} cannot be used: {error}", path.display()))?
        }
    };
    match address.check {
        ServerCheck::Name | ServerCheck::Plain => Ok(strict),
        check @ (ServerCheck::Authority | ServerCheck::Encrypted) => Ok(Arc::new(Lenient { strict, check })),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{} has no certificate: {error}", path.display());
    let certificates: Vec<_> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| failed(&error))?;
    if certificates.is_empty() { Err(failed(&"it is empty")) } else { Ok(certificates) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = read_private(path, "key")?;
    // The error could contain parts of the file.
    PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|_| format!("the key file {} has no key without a passphrase", path.display()))
}

/// A verifier that checks what the user's `sslmode` requires.
#[derive(Debug)]
struct Lenient {
    strict: Arc<dyn ServerCertVerifier>,
    check: ServerCheck,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        if self.check == ServerCheck::Encrypted {
            return Ok(ServerCertVerified::assertion());
        }
        let verified =
            self.strict.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is checked last.
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.strict.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.strict.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}

/// TLS for one host.
pub(super) struct ToHost {
    tls: Tls,
    host: ServerName<'static>,
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = ToHost;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<ToHost> {
        // A Unix socket has neither a host name nor TLS.
        let named = if host.is_empty() { "localhost" } else { host };
        let host = ServerName::try_from(named.to_owned()).map_err(io::Error::other)?;
        Ok(ToHost { tls: self.clone(), host })
    }
}

impl<S> TlsConnect<S> for ToHost
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { Ok(Encrypted(self.tls.0.connect(self.host, stream).await?)) })
    }
}

/// An encrypted stream.
pub(super) struct Encrypted<S>(RustlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

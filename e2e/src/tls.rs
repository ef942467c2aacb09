//! Certificate authorities of a test's own, and what listens with their certificates.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::serve::Listener;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
    server::TlsStream,
};

const HANDSHAKE: Duration = Duration::from_secs(5);

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    /// A new one, which nobody knows.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Its own certificate in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate of it for a host, a name or an address.
    #[must_use]
    pub fn issue(&self, host: &str) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([host.to_owned()]).expect("a host");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key in DER");
        Identity { certificate: certificate.der().clone(), key }
    }
}

/// Accepts connections of TLS on loopback.
pub(crate) struct TlsListener {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl TlsListener {
    pub async fn bind(identity: &Identity) -> Self {
        let config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![identity.certificate.clone()], identity.key.clone_key())
            .expect("a certificate with its key");
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self { tcp, tls: Arc::new(config).into() }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, from) = Listener::accept(&mut self.tcp).await;
            // A client that refuses the certificate is none.
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, self.tls.accept(stream)).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

//! TLS of the server's side, by rustls, without threads.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use mio::net::TcpStream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection};

/// Output handed to TLS at a time: one record. What is in a record that was begun counts as sent,
/// so a smaller one tells more exactly what never arrived.
const RECORD: usize = 16 << 10;

/// Why a certificate or a key cannot be used.
#[derive(Debug)]
pub enum TlsError {
    /// The file cannot be read, or it is not PEM.
    Unreadable(PathBuf, pem::Error),
    /// There is no certificate in the file.
    NoCertificate(PathBuf),
    /// There is no private key in the file.
    NoKey(PathBuf),
    /// Certificate and key do not fit together, or are of a kind that is not supported.
    Unusable(PathBuf, PathBuf, rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => {
                write!(f, "{}: not a readable PEM file: {error}", path.display())
            }
            Self::NoCertificate(path) => write!(
                f,
                "{}: no certificate in it; a section 'BEGIN CERTIFICATE' is expected",
                path.display()
            ),
            Self::NoKey(path) => write!(
                f,
                "{}: no private key in it; a section 'BEGIN PRIVATE KEY' is expected",
                path.display()
            ),
            Self::Unusable(certificate, key, error) => write!(
                f,
                "certificate {} and key {} cannot be used: {error}",
                certificate.display(),
                key.display()
            ),
        }
    }
}

impl std::error::Error for TlsError {}

/// A certificate and its key, which can be replaced: connections that begin afterwards see the new
/// one.
#[derive(Debug)]
pub struct Certificates {
    current: RwLock<Arc<CertifiedKey>>,
}

impl Certificates {
    /// Begins with this one.
    #[must_use]
    pub fn new(certified: CertifiedKey) -> Self {
        Self { current: RwLock::new(Arc::new(certified)) }
    }

    /// Goes on with another.
    pub fn replace(&self, certified: CertifiedKey) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A certificate (with its chain) and its key, from the text of two PEM files. The paths are for
/// errors.
pub fn certified(
    (certificate, chain): (&Path, &[u8]),
    (key, private): (&Path, &[u8]),
) -> Result<CertifiedKey, TlsError> {
    let unreadable = |error| TlsError::Unreadable(certificate.to_owned(), error);
    let chain =
        CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(certificate.to_owned()));
    }
    let private = PrivateKeyDer::from_pem_slice(private).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey(key.to_owned()),
        error => TlsError::Unreadable(key.to_owned(), error),
    })?;
    CertifiedKey::from_der(chain, private, &rustls::crypto::ring::default_provider())
        .map_err(|error| TlsError::Unusable(certificate.to_owned(), key.to_owned(), error))
}

/// A configuration whose certificate can be replaced. `protocols` are offered to clients that ask
/// (ALPN).
pub fn server_config_with(
    certificates: Arc<Certificates>,
    protocols: &[&str],
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

/// Reads certificate (with its chain) and key from PEM files. `protocols` are offered to clients
/// that ask (ALPN), `http/1.1` for example.
pub fn server_config(
    certificate: &Path,
    key: &Path,
    protocols: &[&str],
) -> Result<Arc<ServerConfig>, TlsError> {
    let read = |path: &Path| {
        let unreadable = |error| TlsError::Unreadable(path.to_owned(), pem::Error::Io(error));
        std::fs::read(path).map_err(unreadable)
    };
    let (chain, private) = (read(certificate)?, read(key)?);
    let certified = certified((certificate, &chain), (key, &private))?;
    let unusable = |error| TlsError::Unusable(certificate.to_owned(), key.to_owned(), error);
    server_config_with(Arc::new(Certificates::new(certified)), protocols).map_err(unusable)
}

/// The TLS state of one connection.
#[derive(Debug)]
pub(super) struct Session {
    connection: ServerConnection,
    /// Output that is encrypted while the socket has no byte of it yet.
    unsent: usize,
}

impl Session {
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Box<Self>, rustls::Error> {
        let mut connection = ServerConnection::new(config)?;
        // Output is handed over only when the socket takes it, a record at a time.
        connection.set_buffer_limit(Some(2 * RECORD));
        Ok(Box::new(Self { connection, unsent: 0 }))
    }

    /// Output that was handed over and has not arrived.
    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Whether the socket has still to take something.
    pub(super) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Decrypts what has arrived, appending to `plain`; answers whether the peer has said that it
    /// will send no more.
    pub(super) fn decrypt(
        &mut self,
        mut raw: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<bool, rustls::Error> {
        loop {
            let taken = self
                .connection
                .read_tls(&mut raw)
                .map_err(|error| rustls::Error::General(error.to_string()))?;
            let state = self.connection.process_new_packets()?;
            let mut reader = self.connection.reader();
            while let Ok(bytes) = reader.fill_buf() {
                let count = bytes.len();
                if count == 0 {
                    break;
                }
                plain.extend_from_slice(bytes);
                reader.consume(count);
            }
            if state.peer_has_closed() {
                return Ok(true);
            }
            if taken == 0 || raw.is_empty() {
                return Ok(false);
            }
        }
    }

    /// Encrypts and writes `output` from `start` on, and moves `start` to where the rest begins,
    /// also if it fails. There is a rest when the socket takes no more, which clears `writable`, or
    /// when hands are still being shaken.
    pub(super) fn write(
        &mut self,
        stream: &mut TcpStream,
        output: &[u8],
        start: &mut usize,
        writable: &mut bool,
    ) -> io::Result<()> {
        loop {
            self.write_records(stream, writable)?;
            let rest = output.get(*start..).unwrap_or_default();
            if !*writable || rest.is_empty() || self.connection.is_handshaking() {
                return Ok(());
            }
            let record = rest.get(..RECORD).unwrap_or(rest);
            let count = self.connection.writer().write(record)?;
            *start += count;
            self.unsent = count;
        }
    }

    /// Says that no more will be sent, as far as the socket takes it.
    pub(super) fn close(&mut self, stream: &mut TcpStream) {
        self.connection.send_close_notify();
        // A peer that is not told sees the connection end all the same.
        let _ = self.write_records(stream, &mut true);
    }

    /// Tells the peer what was wrong, as far as the socket takes it.
    pub(super) fn write_alert(&mut self, stream: &mut TcpStream) {
        let _ = self.write_records(stream, &mut true);
    }

    fn write_records(&mut self, stream: &mut TcpStream, writable: &mut bool) -> io::Result<()> {
        while *writable && self.connection.wants_write() {
            match self.connection.write_tls(stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => self.unsent = 0,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => *writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

//! A client's end of a connection, encrypted or not.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// The certificate of the server's own tests, which is for `localhost`, and its key.
pub(super) const CERTIFICATE: &str =
    include_str!("../../../crates/semaforo-server/tests/net_support/certificate.pem");
pub(super) const KEY: &str =
    include_str!("../../../crates/semaforo-server/tests/net_support/key.pem");

/// What a client needs to trust that certificate.
pub(super) fn client_config() -> Result<Arc<ClientConfig>, String> {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes());
    let mut roots = RootCertStore::empty();
    roots
        .add(certificate.map_err(|error| error.to_string())?)
        .map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

pub(super) struct Stream {
    pub(super) socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Stream {
    /// Connects; what is encrypted begins its handshake with the first flush.
    pub(super) fn connect(
        address: SocketAddr,
        encrypted: Option<&Arc<ClientConfig>>,
    ) -> io::Result<Stream> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let tls = match encrypted {
            None => None,
            Some(config) => {
                let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
                let tls = ClientConnection::new(Arc::clone(config), name);
                Some(Box::new(tls.map_err(io::Error::other)?))
            }
        };
        Ok(Stream { socket: TcpStream::from_std(stream), tls })
    }

    /// Whether less than there was room for means that there is no more. Of what is encrypted there
    /// is a piece at a time.
    pub(super) fn ends_short(&self) -> bool {
        self.tls.is_none()
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.read(buffer) };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                otherwise => return otherwise,
            }
            if tls.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// What is taken of this may still have to be [pushed](Self::push).
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.write(bytes) };
        match tls.writer().write(bytes)? {
            // It holds as much as it can.
            0 => {
                self.push()?;
                Ok(0)
            }
            length => Ok(length),
        }
    }

    /// Hands what is encrypted to the system, as much as it takes.
    pub(super) fn push(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

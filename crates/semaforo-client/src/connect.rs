//! Getting connected.

use std::fmt;
use std::future::IntoFuture;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use mio::Waker;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use semaforo_protocol::limits::{DEFAULT_TTL, MAX_TTL, MIN_TTL, PORT};

use super::call::Call;
use super::completion::{Completer, Completion};
use super::driver::{Driver, Resolve, Settings, Target, WAKE, resolve};
use super::handle::{Handle, Shared};
use super::{Client, Error};

/// A connection to be made. Await it, or [`wait`](Self::wait).
#[derive(Clone)]
#[must_use = "nothing is connected until this is awaited or waited on"]
pub struct Connect {
    address: String,
    token: Option<String>,
    insecure: bool,
    security: Security,
    ttl: Duration,
    label: Option<String>,
    patience: Option<Duration>,
    resolve: Resolve,
}

#[derive(Clone, Debug)]
enum Security {
    None,
    Authority(PathBuf),
    Config(Arc<ClientConfig>),
}

impl Connect {
    pub(super) fn new(address: String) -> Self {
        Self {
            address,
            token: None,
            insecure: false,
            security: Security::None,
            ttl: Duration::from_millis(DEFAULT_TTL),
            label: None,
            patience: None,
            resolve,
        }
    }

    /// The credentials for everything that is asked. Without TLS they are sent to this machine
    /// only, unless it is [said otherwise](Self::insecure).
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sends the token to other machines also without TLS, where it can be read on the network.
    pub fn insecure(mut self) -> Self {
        self.insecure = true;
        self
    }

    /// Uses TLS, and trusts the certificates in this PEM file.
    pub fn certificate_authority(mut self, file: impl AsRef<Path>) -> Self {
        self.security = Security::Authority(file.as_ref().to_owned());
        self
    }

    /// Uses TLS, configured so.
    pub fn tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.security = Security::Config(config);
        self
    }

    /// How long the session outlives its connection, or a silence of this client. 30 seconds if it
    /// is not said; the server takes 100 ms to a day.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl.clamp(Duration::from_millis(MIN_TTL), Duration::from_millis(MAX_TTL));
        self
    }

    /// What people see of the session, where the holders of objects are listed.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// How long a request that has no time limit of its own waits for a connection, before it fails
    /// with [`Disconnected`](Error::Disconnected). As long as the session lives, if it is not said.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Blocks this thread until the client is connected.
    ///
    /// # Errors
    /// If no server can be reached, or the server refuses.
    pub fn wait(self) -> Result<Client, Error> {
        self.start()?.wait()
    }

    fn start(self) -> Result<Call<Client>, Error> {
        let completion = Arc::new(Completion::default());
        let completer = Completer::new(Arc::clone(&completion));
        let handle = self.spawn(completer).map_err(Error::CannotConnect)?;
        Ok(Call::begun(&handle, completion, |handle, _| Ok(Client::new(handle))))
    }

    fn spawn(self, first: Completer) -> io::Result<Arc<Handle>> {
        let tls = match self.security {
            Security::None => None,
            Security::Authority(file) => Some(Arc::new(trusting(&file)?)),
            Security::Config(config) => Some(config),
        };
        let mut address = self.address;
        if !has_port(&address) {
            address = format!("{address}:{PORT}");
        }
        let settings = Settings {
            target: Target { address, tls, resolve: self.resolve },
            token: self.token,
            insecure: self.insecure,
            ttl: self.ttl,
            label: self.label,
            patience: self.patience.unwrap_or(self.ttl),
        };
        let poll = mio::Poll::new()?;
        let shared = Arc::new(Shared::new(Waker::new(poll.registry(), WAKE)?));
        let handle = Arc::new(Handle::new(Arc::clone(&shared)));
        let driver = Driver::new(shared, poll, settings, first);
        thread::Builder::new().name("semaforo client".to_owned()).spawn(|| driver.run())?;
        Ok(handle)
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is a secret.
        f.debug_struct("Connect")
            .field("address", &self.address)
            .field("has_token", &self.token.is_some())
            .field("insecure", &self.insecure)
            .field("security", &self.security)
            .field("ttl", &self.ttl)
            .field("label", &self.label)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

impl IntoFuture for Connect {
    type Output = Result<Client, Error>;
    type IntoFuture = Connecting;

    fn into_future(self) -> Connecting {
        Connecting(Stage::Unsent(self))
    }
}

/// The future of a [`Connect`].
#[derive(Debug)]
#[must_use = "nothing is connected until this is awaited"]
pub struct Connecting(Stage);

#[derive(Debug)]
enum Stage {
    Unsent(Connect),
    Begun(Call<Client>),
    Over,
}

impl Future for Connecting {
    type Output = Result<Client, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut call = match std::mem::replace(&mut self.0, Stage::Over) {
            Stage::Unsent(connect) => match connect.start() {
                Ok(call) => call,
                Err(error) => return Poll::Ready(Err(error)),
            },
            Stage::Begun(call) => call,
            Stage::Over => panic!("a request was polled after it had completed"),
        };
        let polled = Pin::new(&mut call).poll(context);
        if polled.is_pending() {
            self.0 = Stage::Begun(call);
        }
        polled
    }
}

/// `host:port` or `[address]:port`; an address of IPv6 alone has colons, too.
fn has_port(address: &str) -> bool {
    let after_brackets = address.rsplit_once(']').map_or(address, |(_, rest)| rest);
    after_brackets.matches(':').count() == 1
}

fn trusting(file: &Path) -> io::Result<ClientConfig> {
    let explain = |error: &dyn fmt::Display| {
        let message = format!("certificates of {}: {error}", file.display());
        io::Error::new(io::ErrorKind::InvalidInput, message)
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| explain(&error))? {
        let certificate = certificate.map_err(|error| explain(&error))?;
        roots.add(certificate).map_err(|error| explain(&error))?;
    }
    if roots.is_empty() {
        return Err(explain(&"there is none"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| explain(&error))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::atomic::{AtomicU16, Ordering};

    use super::*;
    use semaforo_protocol::wire::{Limits, Request, Scan, Scanner, write_answer};

    #[test]
    fn ports() {
        for address in ["localhost:1", "127.0.0.1:1", "[::1]:1"] {
            assert!(has_port(address), "{address}");
        }
        for address in ["localhost", "127.0.0.1", "[::1]"] {
            assert!(!has_port(address), "{address}");
        }
    }

    /// Names are looked up elsewhere. If that takes long, the server is where it was; and what was
    /// found when it was not needed any more is not used later.
    #[test]
    fn a_name_that_is_not_found_again_does_no_harm() {
        /// Says when its thread is over, and so has told what it has found.
        struct Over;
        impl Drop for Over {
            fn drop(&mut self) {
                SLOW_IS_OVER.store(1, Ordering::SeqCst);
            }
        }
        thread_local! {
            static OVER: Over = const { Over };
        }
        static LOOKED_UP: AtomicU16 = AtomicU16::new(0);
        static OLD_PORT: AtomicU16 = AtomicU16::new(0);
        static SLOW_IS_OVER: AtomicU16 = AtomicU16::new(0);
        fn seldom(address: &str) -> io::Result<Vec<SocketAddr>> {
            let local = |port| Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]);
            let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
            match LOOKED_UP.fetch_add(1, Ordering::SeqCst) {
                1 => Err(io::Error::other("nobody knows")),
                2 => {
                    OVER.with(|_| until_at_least(&OLD_PORT, 1));
                    local(OLD_PORT.load(Ordering::SeqCst))
                }
                _ => local(port),
            }
        }
        fn greet(listener: &TcpListener) -> TcpStream {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut input, mut scanner) = (Vec::new(), Scanner::new());
            let end = loop {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                input.extend(byte);
                if let Scan::Frame { end, .. } = scanner.scan(&input, &Limits::default()).unwrap() {
                    break end;
                }
            };
            let asked = Request::parse(&input[..end]).unwrap();
            let mut output = Vec::new();
            write_answer(&mut output, 200, asked.headers.get("id"), [], None);
            stream.write_all(&output).unwrap();
            stream
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut connect = Client::connect(format!("server.example:{port}"));
        connect.resolve = seldom;
        let connecting = thread::spawn(move || connect.wait().unwrap());
        let stream = greet(&listener);
        let client = connecting.join().unwrap();
        drop(stream);
        // It was not found.
        drop(greet(&listener));
        // It is being looked for; meanwhile time limits are watched.
        until_at_least(&LOOKED_UP, 3);
        let limited = client.ping().timeout(Duration::from_millis(1)).wait();
        assert!(matches!(limited, Err(Error::TimedOut)), "{limited:?}");
        let stream = greet(&listener);
        assert_eq!(LOOKED_UP.load(Ordering::SeqCst), 3);
        // At last it is found, where it was then.
        let old = TcpListener::bind("127.0.0.1:0").unwrap();
        old.set_nonblocking(true).unwrap();
        OLD_PORT.store(old.local_addr().unwrap().port(), Ordering::SeqCst);
        until_at_least(&SLOW_IS_OVER, 1);
        drop(stream);
        drop(greet(&listener));
        assert_eq!(old.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    fn until_at_least(counter: &AtomicU16, expected: u16) {
        while counter.load(Ordering::SeqCst) < expected {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_token_is_not_shown() {
        let connect = Client::connect("localhost").token("a-secret");
        let shown = format!("{connect:?} {:?}", connect.clone().into_future());
        assert!(shown.contains("localhost") && shown.contains("has_token: true"), "{shown}");
        assert!(!shown.contains("a-secret"), "{shown}");
    }

    #[test]
    fn a_file_that_is_not_there() {
        let error = Client::connect("localhost").certificate_authority("/no/such.pem").wait();
        let Err(Error::CannotConnect(error)) = error else { panic!("{error:?}") };
        assert!(error.to_string().contains("/no/such.pem"), "{error}");
    }
}

//! A client for threads and tasks, on any runtime or none.
//!
//! Its requests have the shape of the library's: a [`Call`] is a future, has a blocking
//! [`wait`](Call::wait), can be bounded in time and cancelled, and gives back what it was granted
//! if it is dropped.
//!
//! ```no_run
//! use semaforo_client::{Client, Error};
//! use std::time::Duration;
//!
//! # async fn from_a_task() -> Result<(), Error> {
//! let client = Client::connect("127.0.0.1:13000").label("trainer").await?;
//! let gpus = client.semaphore("gpu");
//! gpus.create(4).await?;
//! let two = gpus.acquire(2).timeout(Duration::from_secs(60)).await?;
//! println!("fence {}", two.fence());
//! drop(two);                                              // gives both back
//! # Ok(()) }
//!
//! # fn from_a_thread(client: &Client) -> Result<(), Error> {
//! let guard = client.lock("deploy").acquire().wait()?;    // from a thread: the same request
//! client.queue("jobs").put(r#"{"n": 1}"#).priority(-1).wait()?;
//! guard.release().wait()?;                                // or drop it
//! # Ok(()) }
//! ```
//!
//! A client has one connection, and a thread that looks after it. Clones share them. What is held
//! belongs to a session of the client, which the thread keeps alive; it outlives lost connections
//! and restarts of the server. Everything that is asked is repeated on the next connection, and the
//! server knows what it did already. If the session's time to live passes without a word from the
//! server, the session counts as lost, here not later than there: guards [know](Hold::is_lost), the
//! token of [`Client::session_lost`] fires, and what was asked in it fails with
//! [`SessionLost`](Error::SessionLost). New requests get a new session.

mod call;
mod completion;
mod connect;
mod driver;
mod error;
mod handle;
mod lease;
mod moment;
mod objects;
mod reply;
mod request_spec;

use std::sync::Arc;

use semaforo::CancelToken;
use semaforo_protocol::table::Method;

pub use self::call::Call;
pub use self::connect::{Connect, Connecting};
pub use self::error::Error;
pub use self::moment::Moment;
pub use self::objects::barrier::{Arrival, Barrier};
pub use self::objects::event::Event;
pub use self::objects::hold::Hold;
pub use self::objects::latch::Latch;
pub use self::objects::lock::{Lock, LockGuard};
pub use self::objects::queue::{Delivery, Message, Put, Queue};
pub use self::objects::raw::Raw;
pub use self::objects::rwlock::{ReadGuard, ReadWriteLock, WriteGuard};
pub use self::objects::semaphore::{Permit, Semaphore};
pub use self::objects::session::Session;
pub use self::reply::Reply;

use self::completion::{Completer, Completion};
use self::handle::Handle;
use self::request_spec::{Repeat, RequestSpec};

/// A client. Clones share its connection and its session.
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
}

impl Client {
    /// Connects to a server, `host:port` or `host` (then port 13000).
    pub fn connect(address: impl Into<String>) -> Connect {
        Connect::new(address.into())
    }

    fn new(handle: &Arc<Handle>) -> Self {
        Self { handle: Arc::clone(handle) }
    }

    /// The lock of this name.
    #[must_use]
    pub fn lock(&self, name: &str) -> Lock {
        Lock::new(&self.handle, name)
    }

    /// The semaphore of this name.
    #[must_use]
    pub fn semaphore(&self, name: &str) -> Semaphore {
        Semaphore::new(&self.handle, name)
    }

    /// The reader-writer lock of this name.
    #[must_use]
    pub fn rwlock(&self, name: &str) -> ReadWriteLock {
        ReadWriteLock::new(&self.handle, name)
    }

    /// The latch of this name.
    #[must_use]
    pub fn latch(&self, name: &str) -> Latch {
        Latch::new(&self.handle, name)
    }

    /// The event of this name.
    #[must_use]
    pub fn event(&self, name: &str) -> Event {
        Event::new(&self.handle, name)
    }

    /// The barrier of this name, for so many parties.
    #[must_use]
    pub fn barrier(&self, name: &str, parties: u32) -> Barrier {
        Barrier::new(&self.handle, name, parties)
    }

    /// The queue of this name.
    #[must_use]
    pub fn queue(&self, name: &str) -> Queue {
        Queue::new(&self.handle, name)
    }

    /// Anything else that the protocol has.
    pub fn request(&self, method: impl Into<String>, path: impl Into<String>) -> Raw {
        Raw::new(&self.handle, method.into(), path.into())
    }

    /// Whether the server answers.
    pub fn ping(&self) -> Call<()> {
        Call::new(&self.handle, RequestSpec::new(Method::Ping, "", Repeat::Idempotent), |_, _| {
            Ok(())
        })
    }

    /// The whole request, as JSON, as it arrived at the server.
    pub fn echo(&self, payload: impl Into<String>) -> Call<String> {
        let spec = RequestSpec::new(Method::Echo, "", Repeat::Idempotent).payload(payload);
        Call::new(&self.handle, spec, |_, granted| Ok(granted.reply.payload.unwrap_or_default()))
    }

    /// What there is, as a JSON array: `path` is `/`, or `/` and a kind (`/locks`), and all names
    /// begin with the prefix.
    pub fn list(&self, path: &str, prefix: &str) -> Call<String> {
        let mut spec = RequestSpec::new(Method::List, path, Repeat::Idempotent);
        if !prefix.is_empty() {
            spec = spec.header("prefix", prefix);
        }
        Call::new(&self.handle, spec, |_, granted| Ok(granted.reply.payload.unwrap_or_default()))
    }

    /// The state of an object (`/locks/deploy`), or of the server (`/`), as JSON.
    pub fn show(&self, path: &str) -> Call<String> {
        let spec = RequestSpec::new(Method::Show, path, Repeat::Idempotent);
        Call::new(&self.handle, spec, |_, granted| Ok(granted.reply.payload.unwrap_or_default()))
    }

    /// The session that the client uses now; it is opened if need be, and renewed in any case.
    pub fn session(&self) -> Call<Session> {
        let spec = RequestSpec::new(Method::KeepAlive, "/sessions", Repeat::Numbered);
        Call::new(&self.handle, spec, |_, granted| Session::new(granted))
    }

    /// Fires when the client's session is lost: the one that it has now, or the next if it has
    /// none.
    #[must_use]
    pub fn session_lost(&self) -> CancelToken {
        self.handle.session_lost()
    }

    /// Ends the session, which releases everything that it holds, and the connection. Requests on
    /// their way, and all that come later, fail with [`Disconnected`](Error::Disconnected).
    ///
    /// It happens also when the last clone, guard and request are dropped, but then no caller can
    /// wait for it: a process that ends at once may leave a session behind until its time to live
    /// is over. It takes two seconds at most.
    pub fn close(self) -> Call<()> {
        let completion = Arc::new(Completion::default());
        self.handle.close(Completer::new(Arc::clone(&completion)));
        Call::begun(&self.handle, completion, |_, _| Ok(()))
    }
}

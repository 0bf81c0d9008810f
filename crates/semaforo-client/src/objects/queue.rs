//! A queue.

use std::future::IntoFuture;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semaforo::CancelToken;
use semaforo_protocol::Kind;
use semaforo_protocol::table::Method;

use super::{Object, deleted, shown};
use crate::call::Call;
use crate::completion::{Completer, Completion, Granted};
use crate::handle::Handle;
use crate::lease::Lease;
use crate::request_spec::{Repeat, RequestSpec, Undo};
use crate::{Error, Reply};

/// A queue of messages by name, the smallest priority first, then the oldest.
#[derive(Clone, Debug)]
pub struct Queue {
    object: Object,
}

impl Queue {
    pub(crate) fn new(handle: &Arc<Handle>, name: &str) -> Self {
        Self { object: Object::new(handle, Kind::Queue, name) }
    }

    /// Makes it, for at most so many messages (0: as many as the server takes), unless it is there
    /// already.
    ///
    /// Yields whether this request has made it: of several that make the same, one has.
    ///
    /// Ends with [`Conflict`](Error::Conflict) if it is there with another capacity.
    pub fn create(&self, capacity: u64) -> Call<bool> {
        self.object.create(self.object.numbered(Method::Create).header("capacity", capacity))
    }

    /// Puts a message, which has to be JSON, into the queue, waiting for space if need be. Yields
    /// the message's number.
    pub fn put(&self, json: impl Into<String>) -> Put<u64> {
        let spec = self.object.numbered(Method::Put).payload(json);
        Put { handle: Arc::clone(&self.object.handle), spec, make: |reply| reply.number("message") }
    }

    /// Puts a message into the queue, and waits until a request has taken it. Withdrawn before, it
    /// is not in the queue any more.
    pub fn transfer(&self, json: impl Into<String>) -> Put<()> {
        let spec = self.object.numbered(Method::Transfer).payload(json);
        Put { handle: Arc::clone(&self.object.handle), spec, make: |_| Ok(()) }
    }

    /// Takes a message. It is acknowledged when this request yields it: one that was handed over to
    /// a request that is dropped, or to a process that dies first, returns to its place.
    pub fn take(&self) -> Call<Message> {
        Call::new(&self.object.handle, self.taking(), |handle, granted| {
            let mut delivery = Delivery::new(handle, granted)?;
            delivery.end(Method::Ack, Completer::none(), None);
            Ok(std::mem::take(&mut delivery.message))
        })
    }

    /// Takes a message that is to be [acknowledged](Delivery::ack). Until then it is out, and
    /// returns to its place if the delivery is dropped or the session ends.
    pub fn take_manual(&self) -> Call<Delivery> {
        Call::new(&self.object.handle, self.taking(), Delivery::new)
    }

    fn taking(&self) -> RequestSpec {
        self.object.numbered(Method::Take).header("ack", "manual").undo(Undo::Return)
    }

    shown!();
    deleted!();
}

/// A message to be put. Await it, [`wait`](Self::wait), or bound it first.
#[derive(Debug)]
#[must_use = "a request does nothing until it is awaited or waited on"]
pub struct Put<T> {
    handle: Arc<Handle>,
    spec: RequestSpec,
    make: fn(&Reply) -> Result<T, Error>,
}

impl<T: 'static> Put<T> {
    /// Smaller ones are taken first. 0 if it is not said.
    pub fn priority(mut self, priority: i32) -> Self {
        self.spec = self.spec.header("priority", priority);
        self
    }

    /// The request.
    pub fn send(self) -> Call<T> {
        let make = self.make;
        Call::new(&self.handle, self.spec, move |_, granted| make(&granted.reply))
    }

    /// Ends the wait after this time, counted from the first poll.
    pub fn timeout(self, limit: Duration) -> Call<T> {
        self.send().timeout(limit)
    }

    /// Ends the wait at this instant.
    pub fn deadline(self, limit: Instant) -> Call<T> {
        self.send().deadline(limit)
    }

    /// Ends the wait when this token is cancelled.
    pub fn cancel_on(self, token: &CancelToken) -> Call<T> {
        self.send().cancel_on(token)
    }

    /// Blocks this thread until it is done.
    ///
    /// # Errors
    /// If it was not done.
    pub fn wait(self) -> Result<T, Error> {
        self.send().wait()
    }
}

impl Put<u64> {
    /// The message takes its place only after this time.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.spec = self.spec.header("delay", delay.as_millis());
        self
    }
}

impl<T: 'static> IntoFuture for Put<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Call<T>;

    fn into_future(self) -> Call<T> {
        self.send()
    }
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its number in the queue.
    pub number: u64,
    /// What was put, as JSON.
    pub payload: String,
    /// How often it was handed over, this time included.
    pub deliveries: u64,
}

/// A message that is out, until it is acknowledged. It returns to its place if this is dropped.
#[derive(Debug)]
#[must_use = "the message returns to the queue when this is dropped"]
pub struct Delivery {
    handle: Arc<Handle>,
    lease: Arc<Lease>,
    path: String,
    message: Message,
    is_ended: bool,
}

impl Delivery {
    fn new(handle: &Arc<Handle>, granted: Granted) -> Result<Self, Error> {
        let reply = granted.reply;
        let message = Message {
            number: reply.number("message")?,
            deliveries: reply.number("deliveries")?,
            payload: reply.payload.unwrap_or_else(|| "null".to_owned()),
        };
        let nobody = || Error::Nonsense("a message for nobody".to_owned());
        let lease = granted.lease.ok_or_else(nobody)?;
        let handle = Arc::clone(handle);
        Ok(Self { handle, lease, path: granted.path, message, is_ended: false })
    }

    /// Acknowledges the message: it is gone from the queue. That happens also if the request is
    /// dropped.
    ///
    /// Ends with [`SessionLost`](Error::SessionLost) or [`Gone`](Error::Gone) if it was too late,
    /// and the message has returned.
    pub fn ack(mut self) -> Call<()> {
        self.end_and_call(Method::Ack, None)
    }

    /// Gives the message back, to its place in the queue. That happens also if the request is
    /// dropped.
    pub fn give_back(mut self) -> Call<()> {
        self.end_and_call(Method::Return, None)
    }

    /// Gives the message back; it takes its place only after this time.
    pub fn give_back_after(mut self, delay: Duration) -> Call<()> {
        self.end_and_call(Method::Return, Some(delay))
    }

    /// Whether the session has ended, and the message has returned.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }

    /// Fires when the session has ended.
    #[must_use]
    pub fn lost(&self) -> CancelToken {
        self.lease.lost()
    }

    fn end_and_call(&mut self, method: Method, delay: Option<Duration>) -> Call<()> {
        let completion = Arc::new(Completion::default());
        self.end(method, Completer::new(Arc::clone(&completion)), delay);
        Call::begun(&self.handle, completion, |_, _| Ok(()))
    }

    fn end(&mut self, method: Method, completer: Completer, delay: Option<Duration>) {
        self.is_ended = true;
        let mut spec = RequestSpec::new(method, &*self.path, Repeat::UntilDone);
        spec = spec.settles(self.message.number, self.message.deliveries).lease(&self.lease);
        if let Some(delay) = delay {
            spec = spec.header("delay", delay.as_millis());
        }
        self.handle.ask(spec, completer, None);
    }
}

impl Deref for Delivery {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.is_ended {
            self.end(Method::Return, Completer::none(), None);
        }
    }
}

//! All panics of a query, together.

use std::any::Any;
use std::fmt;

use crate::wait::wake::discard;

/// What a query panics with: everything that panicked in it.
///
/// When one of the closures panics, no more chunks are begun. Those that are under way on other
/// threads are finished, and may panic as well. Then the terminal panics, on the calling thread,
/// with this as the payload.
///
/// ```
/// use semaforo::query::{Panics, prelude::*};
/// use std::panic::catch_unwind;
///
/// # std::panic::set_hook(Box::new(|_| ()));
/// let ending = catch_unwind(|| {
///     (0..100).as_parallel().for_all(|n| assert!(n != 42, "the answer"));
/// });
/// let panics = ending.unwrap_err().downcast::<Panics>().unwrap();
/// assert_eq!(panics.messages(), ["the answer"]);
/// assert_eq!(panics.to_string(), "a query panicked: the answer");
/// ```
pub struct Panics {
    /// Never empty, until it is dropped. `Any + Send` is not `Sync`, and nothing here needs it to
    /// be.
    payloads: Vec<Box<dyn Any + Send>>,
}

impl Panics {
    /// The panics of queries inside a query count one by one.
    pub(crate) fn new(payloads: Vec<Box<dyn Any + Send>>) -> Self {
        let mut flat = Vec::with_capacity(payloads.len());
        for payload in payloads {
            match payload.downcast::<Self>() {
                Ok(nested) => flat.extend(nested.into_payloads()),
                Err(payload) => flat.push(payload),
            }
        }
        Self { payloads: flat }
    }

    /// The payloads, in no particular order; at least one.
    #[must_use]
    pub fn payloads(&self) -> &[Box<dyn Any + Send>] {
        &self.payloads
    }

    /// The payloads, to keep.
    #[must_use]
    pub fn into_payloads(mut self) -> Vec<Box<dyn Any + Send>> {
        std::mem::take(&mut self.payloads)
    }

    /// What each of the panics said.
    #[must_use]
    pub fn messages(&self) -> Vec<&str> {
        self.payloads.iter().map(|payload| message(&**payload)).collect()
    }
}

/// Payloads may panic as they are dropped, and two of them that did would end the process.
impl Drop for Panics {
    fn drop(&mut self) {
        self.payloads.drain(..).for_each(discard);
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    if let Some(message) = payload.downcast_ref::<&'static str>() {
        message
    } else if let Some(message) = payload.downcast_ref::<String>() {
        message
    } else {
        "(not a message)"
    }
}

impl fmt::Display for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.messages()[..] {
            [message] => write!(f, "a query panicked: {message}"),
            ref messages => {
                write!(f, "a query panicked {} times: {}", messages.len(), messages.join("; "))
            }
        }
    }
}

impl fmt::Debug for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panics").field(&self.messages()).finish()
    }
}

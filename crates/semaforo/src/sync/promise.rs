//! A result that is set once and read by many.

use std::error::Error;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::introspection;
use crate::policy::{Gate, Opening};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::{Asking, Synchronizer};
use crate::wait::request::Request;
use crate::wait::wake::{first, resume};

/// A result that somebody will provide: a value, a failure, or the news that there will be none.
///
/// The first outcome stands. Any number of readers wait for it, and all get the same, as often as
/// they ask. A reader that times out or is cancelled ends only its own wait.
///
/// ```
/// use semaforo::{Promise, PromiseError};
///
/// let answer = Promise::<u32, String>::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| assert_eq!(answer.get().wait(), Ok(&42)));
///     answer.set(42).unwrap();
/// });
/// assert_eq!(answer.fail("too late".into()), Err("too late".into()));
///
/// let other = Promise::<u32, String>::new();
/// other.cancel();
/// assert_eq!(other.get().wait(), Err(PromiseError::Cancelled));
/// ```
///
/// A concurrent dictionary of promises has values that are made once and can be awaited: the example
/// `concurrent_collections`.
#[doc(alias = "TaskCompletionSource")]
#[doc(alias = "CompletableFuture")]
#[doc(alias = "oneshot")]
#[doc(alias = "OnceCell")]
#[doc(alias = "std::promise")]
#[doc(alias = "ConcurrentDictionary")]
#[doc(alias = "Future")]
pub struct Promise<T, E = Box<dyn Error + Send + Sync>> {
    synchronizer: Synchronizer<Gate>,
    outcome: OnceLock<Result<T, PromiseError<E>>>,
    /// Not modelled: nothing waits for it while it is held.
    callbacks: Mutex<Vec<Callback<T, E>>>,
}

type Callback<T, E> = Box<dyn FnOnce(Result<&T, PromiseError<&E>>) + Send>;

/// Why a [`Promise`] has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromiseError<E> {
    /// It failed with this.
    Failed(E),
    /// It was cancelled.
    Cancelled,
}

impl<T, E> Promise<T, E> {
    constant_unless_modelled! {
        /// A promise without an outcome.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                synchronizer: Synchronizer::new(Gate, 0),
                outcome: OnceLock::new(),
                callbacks: Mutex::new(Vec::new()),
            }
        }
    }

    /// Waits for the outcome.
    #[inline]
    pub fn get(&self) -> Request<Get<'_, T, E>> {
        Request::new(Get(self), ())
    }

    /// The outcome, if there is one already.
    pub fn try_get(&self) -> Option<Result<&T, PromiseError<&E>>> {
        self.outcome.get().map(|outcome| outcome.as_ref().map_err(PromiseError::as_ref))
    }

    /// Provides the value.
    ///
    /// # Errors
    /// With the value, if there was an outcome already.
    ///
    /// # Panics
    /// With the panic of a callback or a waker; the outcome stands.
    #[doc(alias = "SetResult")]
    #[doc(alias = "TrySetResult")]
    #[doc(alias = "complete")]
    #[doc(alias = "set_value")]
    pub fn set(&self, value: T) -> Result<(), T> {
        self.complete(Ok(value)).map_err(|refused| match refused {
            Ok(value) => value,
            Err(_) => unreachable!("a value is given back as a value"),
        })
    }

    /// Provides a failure.
    ///
    /// # Errors
    /// With the failure, if there was an outcome already.
    ///
    /// # Panics
    /// As [`set`](Self::set).
    #[doc(alias = "SetException")]
    #[doc(alias = "TrySetException")]
    #[doc(alias = "completeExceptionally")]
    pub fn fail(&self, failure: E) -> Result<(), E> {
        self.complete(Err(PromiseError::Failed(failure))).map_err(|refused| match refused {
            Err(PromiseError::Failed(failure)) => failure,
            _ => unreachable!("a failure is given back as a failure"),
        })
    }

    /// Declares that there will be no value. False if there was an outcome already.
    ///
    /// # Panics
    /// As [`set`](Self::set).
    #[doc(alias = "SetCanceled")]
    #[doc(alias = "TrySetCanceled")]
    pub fn cancel(&self) -> bool {
        self.complete(Err(PromiseError::Cancelled)).is_ok()
    }

    /// Runs `callback` once, with the outcome, in the thread that provides it; now, if there is one
    /// already.
    ///
    /// ```
    /// let answer = semaforo::Promise::<u32, ()>::new();
    /// answer.on_complete(|outcome| assert_eq!(outcome, Ok(&42)));
    /// answer.set(42).unwrap();
    /// ```
    #[doc(alias = "ContinueWith")]
    #[doc(alias = "whenComplete")]
    pub fn on_complete(
        &self,
        callback: impl FnOnce(Result<&T, PromiseError<&E>>) + Send + 'static,
    ) {
        {
            let mut callbacks = self.callbacks.lock().unwrap_or_else(PoisonError::into_inner);
            // The outcome is there before the callbacks are taken, under this lock.
            if self.outcome.get().is_none() {
                callbacks.push(Box::new(callback));
                return;
            }
        }
        if let Some(outcome) = self.try_get() {
            callback(outcome);
        }
    }

    /// Whether there is an outcome.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// The outcome, taken out by whoever has the promise to itself; the promise is as new then.
    ///
    /// ```
    /// let mut answer = semaforo::Promise::<String, ()>::new();
    /// answer.set("yes".to_owned()).unwrap();
    /// assert_eq!(answer.take(), Some(Ok("yes".to_owned())));
    /// assert!(!answer.is_done() && answer.set("no".to_owned()).is_ok());
    /// ```
    pub fn take(&mut self) -> Option<Result<T, PromiseError<E>>> {
        let outcome = self.outcome.take()?;
        let Ok(_) = self.synchronizer.release(Opening::Shut);
        Some(outcome)
    }

    /// The value or the failure, taken out. The last one who has an `Arc` of the promise can do so:
    ///
    /// ```
    /// use semaforo::Promise;
    /// use std::sync::Arc;
    ///
    /// let answer = Arc::new(Promise::<String, ()>::new());
    /// let provides = Arc::clone(&answer);
    /// std::thread::spawn(move || provides.set("yes".to_owned())).join().unwrap().unwrap();
    /// answer.get().wait().unwrap();
    /// let outcome = Arc::into_inner(answer).and_then(Promise::into_inner);
    /// assert_eq!(outcome, Some(Ok("yes".to_owned())));
    /// ```
    pub fn into_inner(self) -> Option<Result<T, PromiseError<E>>> {
        self.outcome.into_inner()
    }

    /// How many could read now: as many as come, or none.
    #[must_use]
    pub fn available(&self) -> u32 {
        if self.is_done() { u32::MAX } else { 0 }
    }

    fn complete(
        &self,
        outcome: Result<T, PromiseError<E>>,
    ) -> Result<(), Result<T, PromiseError<E>>> {
        self.outcome.set(outcome)?;
        let callbacks =
            mem::take(&mut *self.callbacks.lock().unwrap_or_else(PoisonError::into_inner));
        // Readers first: a callback that panics must not keep them waiting.
        let opened = catch_unwind(AssertUnwindSafe(|| self.synchronizer.release(Opening::Open)));
        let mut panic = opened.err();
        for callback in callbacks {
            if let Some(outcome) = self.try_get() {
                let called = catch_unwind(AssertUnwindSafe(|| callback(outcome)));
                panic = first(panic, called.err());
            }
        }
        if let Some(panic) = panic {
            resume(panic);
        }
        Ok(())
    }

    introspection!();
}

/// One that is kept already.
///
/// ```
/// use semaforo::Promise;
///
/// let kept: Promise<u32> = Promise::from(7);
/// assert_eq!(*kept.get().wait().unwrap(), 7);
/// ```
impl<T, E> From<T> for Promise<T, E> {
    fn from(value: T) -> Self {
        let promise = Self::new();
        // It is new, so the value is accepted.
        let _ = promise.set(value);
        promise
    }
}

impl<T, E> Default for Promise<T, E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug, E: fmt::Debug> fmt::Debug for Promise<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise")
            .field("outcome", &self.outcome.get())
            .field("waiters", &self.waiters())
            .finish()
    }
}

/// The operation of [`Promise::get`].
pub struct Get<'a, T, E>(&'a Promise<T, E>);

impl<'a, T, E> Asking for Get<'a, T, E> {
    type Policy = Gate;
    type Granted = Result<&'a T, PromiseError<&'a E>>;

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<Gate> {
        &self.0.synchronizer
    }

    fn granted(self, (): ()) -> Self::Granted {
        self.0.try_get().expect("the gate opens after the outcome is there")
    }
}

impl<T, E> fmt::Debug for Get<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Get")
    }
}

impl<E> PromiseError<E> {
    /// The same, by reference.
    pub fn as_ref(&self) -> PromiseError<&E> {
        match self {
            Self::Failed(failure) => PromiseError::Failed(failure),
            Self::Cancelled => PromiseError::Cancelled,
        }
    }
}

impl<E> PromiseError<&E> {
    /// The same, with a clone of the failure. A `?` does this, too.
    pub fn cloned(self) -> PromiseError<E>
    where
        E: Clone,
    {
        self.map(E::clone)
    }

    /// The same, with what the failure says: an error that borrows nothing, also if the failure cannot
    /// be cloned, as the default cannot.
    ///
    /// ```
    /// use semaforo::Promise;
    /// use std::error::Error;
    ///
    /// fn read(answer: &Promise<u32>) -> Result<u32, Box<dyn Error>> {
    ///     Ok(*answer.get().wait().map_err(|error| error.described())?)
    /// }
    ///
    /// let answer = Promise::new();
    /// answer.fail("no connection".into()).unwrap();
    /// assert_eq!(read(&answer).unwrap_err().to_string(), "no connection");
    /// ```
    pub fn described(self) -> PromiseError<String>
    where
        E: fmt::Display,
    {
        self.map(E::to_string)
    }
}

impl<E> PromiseError<E> {
    /// The same, with another failure.
    pub fn map<F>(self, change: impl FnOnce(E) -> F) -> PromiseError<F> {
        match self {
            Self::Failed(failure) => PromiseError::Failed(change(failure)),
            Self::Cancelled => PromiseError::Cancelled,
        }
    }
}

impl<E: Clone> From<PromiseError<&E>> for PromiseError<E> {
    fn from(error: PromiseError<&E>) -> Self {
        error.cloned()
    }
}

impl<E: fmt::Display> fmt::Display for PromiseError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => failure.fmt(f),
            Self::Cancelled => write!(f, "the promise was cancelled"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for PromiseError<E> {}

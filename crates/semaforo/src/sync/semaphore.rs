//! A number of permits, to be acquired and given back.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::introspection;
use crate::policy::{AcquireError, Giving, Permits, ReleaseError};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::{Asking, Synchronizer};
use crate::wait::limits::TryError;
use crate::wait::operation::{Handle, objects};
use crate::wait::request::Request;

/// A counting semaphore: strictly first come first served, any number of permits at a time.
///
/// ```
/// use semaforo::Semaphore;
///
/// static GPUS: Semaphore = Semaphore::new(4);
///
/// # async fn from_a_task() -> Result<(), semaforo::AcquireError> {
/// let permit = GPUS.acquire(2).await?;             // from a task
/// # Ok(()) }
/// let permit = GPUS.acquire(2).wait()?;            // from a thread: the same request
/// assert_eq!(GPUS.available(), 2);
/// assert!(GPUS.try_acquire(3).is_err());           // now or not at all
/// drop(permit);                                    // gives both back
/// assert_eq!(GPUS.available(), 4);
/// # Ok::<(), semaforo::AcquireError>(())
/// ```
///
/// A request for many permits holds up those behind it until it is served, so that it cannot
/// starve; a request for zero is granted at once.
#[doc(alias = "SemaphoreSlim")]
#[doc(alias = "CountingSemaphore")]
#[doc(alias = "sem_t")]
#[doc(alias = "Permits")]
#[doc(alias = "SemaphoreAsync")]
pub struct Semaphore {
    synchronizer: Synchronizer<Permits>,
}

impl Semaphore {
    /// The most permits that a semaphore can have.
    pub const MAX_PERMITS: u32 = Permits::MAX;

    constant_unless_modelled! {
        /// A semaphore with so many permits, to which more can be added.
        ///
        /// # Panics
        /// If there are more than [`MAX_PERMITS`](Self::MAX_PERMITS).
        #[must_use]
        pub const fn new(permits: u32) -> Self {
            Self::with_max(permits, Permits::MAX)
        }
    }

    constant_unless_modelled! {
        /// A semaphore that never has more than `maximum` permits, available and held together.
        /// Asking for more, and releasing above it, are errors.
        ///
        /// # Panics
        /// If `permits` is above `maximum`, or that is above [`MAX_PERMITS`](Self::MAX_PERMITS).
        #[must_use]
        pub const fn with_max(permits: u32, maximum: u32) -> Self {
            Self::with_policy(permits, Permits::new(maximum, false))
        }
    }

    constant_unless_modelled! {
        /// A semaphore in barging mode: a newcomer may overtake requests that wait.
        ///
        /// Two threads that fight for a permit get several times as much done, because the one
        /// that runs need not hand over to the one that sleeps (`docs/benchmarks.md` has the
        /// difference). A waiter that was overtaken a few times is served next all the same.
        ///
        /// # Panics
        /// As [`new`](Self::new).
        #[must_use]
        pub const fn barging(permits: u32) -> Self {
            Self::with_policy(permits, Permits::new(Permits::MAX, true))
        }
    }

    constant_unless_modelled! {
        /// [`barging`](Self::barging), and never more than `maximum` permits.
        ///
        /// # Panics
        /// As [`with_max`](Self::with_max).
        #[must_use]
        pub const fn barging_with_max(permits: u32, maximum: u32) -> Self {
            Self::with_policy(permits, Permits::new(maximum, true))
        }
    }

    constant_unless_modelled! {
        const fn with_policy(permits: u32, policy: Permits) -> Self {
            Self { synchronizer: Synchronizer::new(policy, policy.initial(permits)) }
        }
    }

    /// Asks for so many permits.
    ///
    /// Refused with [`TooMany`](crate::AcquireError::TooMany) if there can never be so many, and with
    /// [`Closed`](crate::AcquireError::Closed) once the semaphore is closed.
    #[inline]
    #[doc(alias = "WaitOne")]
    #[doc(alias = "WaitAsync")]
    #[doc(alias = "sem_wait")]
    #[doc(alias = "P")]
    pub fn acquire(&self, permits: u32) -> Request<Acquire<&Self>> {
        Request::new(Acquire(self), permits)
    }

    /// [`acquire`](Self::acquire), for a permit that can go anywhere.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let gpus = Arc::new(semaforo::Semaphore::new(1));
    /// let permit = gpus.acquire_owned(1).wait()?;
    /// std::thread::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(gpus.available(), 1);
    /// # Ok::<(), semaforo::AcquireError>(())
    /// ```
    #[inline]
    pub fn acquire_owned(self: &Arc<Self>, permits: u32) -> Request<Acquire<Arc<Self>>> {
        Request::new(Acquire(Arc::clone(self)), permits)
    }

    /// Takes so many permits now, or none. Takes none while others wait, unless barging.
    ///
    /// # Errors
    /// That it would have to wait, or why it is refused.
    #[inline]
    #[doc(alias = "tryAcquire")]
    #[doc(alias = "sem_trywait")]
    pub fn try_acquire(&self, permits: u32) -> Result<Permit<'_>, TryError<AcquireError>> {
        self.synchronizer.try_ask(permits).map(|()| PermitOf { semaphore: self, permits })
    }

    /// [`try_acquire`](Self::try_acquire), for a permit that can go anywhere.
    ///
    /// # Errors
    /// As `try_acquire`.
    pub fn try_acquire_owned(
        self: &Arc<Self>,
        permits: u32,
    ) -> Result<OwnedPermit, TryError<AcquireError>> {
        let semaphore = || Arc::clone(self);
        self.synchronizer.try_ask(permits).map(|()| PermitOf { semaphore: semaphore(), permits })
    }

    /// Adds permits that were not held, and lets waiters through. Adding none has no effect.
    ///
    /// # Errors
    /// If the available and the held ones together would exceed the maximum; then none is added.
    #[inline]
    #[doc(alias = "Release")]
    #[doc(alias = "add_permits")]
    #[doc(alias = "sem_post")]
    #[doc(alias = "signal")]
    #[doc(alias = "V")]
    pub fn release(&self, permits: u32) -> Result<(), ReleaseError> {
        self.synchronizer.release(Giving::Add(permits)).map(drop)
    }

    /// Takes away all permits that are available, and tells how many.
    #[doc(alias = "drainPermits")]
    pub fn drain(&self) -> u32 {
        self.reduce(u32::MAX)
    }

    /// Takes away up to so many of the available permits, and tells how many.
    #[doc(alias = "reducePermits")]
    #[doc(alias = "forget_permits")]
    pub fn reduce(&self, permits: u32) -> u32 {
        let before = self.synchronizer.release(Giving::Reduce(permits));
        before.map_or(0, |before| Permits::available(before).min(permits))
    }

    /// Refuses all requests from now on, also those that wait. Permits that are held stay so, and
    /// can be given back.
    pub fn close(&self) {
        // Closing is always possible.
        let _ = self.synchronizer.release_and_look(Giving::Close);
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        Permits::is_closed(self.synchronizer.state())
    }

    /// How many permits are available now.
    #[must_use]
    #[doc(alias = "CurrentCount")]
    #[doc(alias = "availablePermits")]
    #[doc(alias = "available_permits")]
    pub fn available(&self) -> u32 {
        Permits::available(self.synchronizer.state())
    }

    /// How many permits are held now.
    #[must_use]
    pub fn held(&self) -> u32 {
        Permits::held(self.synchronizer.state())
    }

    /// The most permits that there can be.
    #[must_use]
    pub fn maximum(&self) -> u32 {
        self.synchronizer.policy().maximum()
    }

    introspection!();
}

objects!([] Semaphore => ());

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available())
            .field("held", &self.held())
            .field("waiters", &self.waiters())
            .field("closed", &self.is_closed())
            .finish()
    }
}

/// The operation of [`Semaphore::acquire`].
#[derive(Debug)]
pub struct Acquire<H: Handle<Target = Semaphore>>(H);

impl<H: Handle<Target = Semaphore>> Asking for Acquire<H> {
    type Policy = Permits;
    type Granted = PermitOf<H>;

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<Permits> {
        &self.0.synchronizer
    }

    #[inline]
    fn granted(self, permits: u32) -> PermitOf<H> {
        PermitOf { semaphore: self.0, permits }
    }
}

/// Permits of a borrowed [`Semaphore`], given back when dropped.
pub type Permit<'a> = PermitOf<&'a Semaphore>;

/// Permits of a shared [`Semaphore`], given back when dropped.
pub type OwnedPermit = PermitOf<Arc<Semaphore>>;

/// Permits of a [`Semaphore`], given back when dropped.
#[must_use = "permits are given back when this is dropped"]
pub struct PermitOf<H: Handle<Target = Semaphore>> {
    semaphore: H,
    permits: u32,
}

impl<H: Handle<Target = Semaphore>> PermitOf<H> {
    /// How many these are.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// The semaphore that they are of.
    pub fn semaphore(&self) -> &Semaphore {
        &self.semaphore
    }

    /// Keeps the permits for good: they are neither available nor held any more, and
    /// [`release`](Semaphore::release) can add others in their place.
    #[inline]
    pub fn forget(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the permit is never used or dropped again.
        let semaphore = unsafe { std::ptr::read(&raw const this.semaphore) };
        // Permits that are held can be forgotten.
        let _ = semaphore.synchronizer.release(Giving::Forget(this.permits));
    }

    /// Splits off so many, unless there are fewer.
    pub fn split(&mut self, permits: u32) -> Option<Self>
    where
        H: Clone,
    {
        self.permits = self.permits.checked_sub(permits)?;
        Some(Self { semaphore: self.semaphore.clone(), permits })
    }

    /// Joins other permits of the same semaphore to these.
    ///
    /// # Errors
    /// With the other permits, if they are of another semaphore.
    pub fn merge(&mut self, other: Self) -> Result<(), Self> {
        if !std::ptr::eq(&raw const *self.semaphore, &raw const *other.semaphore) {
            return Err(other);
        }
        let mut other = other;
        self.permits += std::mem::take(&mut other.permits);
        Ok(())
    }
}

impl<H: Handle<Target = Semaphore>> Drop for PermitOf<H> {
    #[inline]
    fn drop(&mut self) {
        // What is held fits below the maximum.
        let _ = self.semaphore.synchronizer.release(Giving::Return(self.permits));
    }
}

impl<H: Handle<Target = Semaphore>> fmt::Debug for PermitOf<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("permits", &self.permits).finish_non_exhaustive()
    }
}

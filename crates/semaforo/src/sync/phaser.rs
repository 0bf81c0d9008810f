//! A barrier whose parties come and go, and which counts its phases.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::introspection;
use crate::policy::{PhaserError, Phases, Step};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::Synchronizer;
use crate::wait::contended::Attempt;
use crate::wait::limits::WaitError;
use crate::wait::operation::{AskOf, Handle, Operation, OutcomeOf, objects, sealed};
use crate::wait::request::Request;
use crate::wait::word::WordObject;

/// A barrier whose parties register and deregister as they like, and whose phases are numbered from 0.
///
/// Arriving and waiting are two things: a party may [arrive](Self::arrive) and go on at once, and
/// anybody, registered or not, may wait [until a phase has ended](Self::advanced). A phase ends when
/// all parties have arrived. When the last party deregisters, the phaser is terminated, unless a
/// [hook](Self::with_hook) says otherwise; then nobody waits any more.
///
/// A request that ends (cancelled, timed out, dropped) ends only the wait: what has arrived has
/// arrived.
///
/// ```
/// use semaforo::Phaser;
///
/// let work = Phaser::new(1);                              // this thread
/// std::thread::scope(|scope| {
///     for _ in 0..3 {
///         work.register().unwrap();
///         scope.spawn(|| {
///             work.arrive_and_wait().wait().unwrap();     // all are ready
///             work.arrive_and_deregister().unwrap();      // and done
///         });
///     }
///     work.arrive_and_wait().wait().unwrap();
///     let done = work.arrive().unwrap();
///     work.advanced(done).wait();
///     assert_eq!((work.phase(), work.registered()), (2, 1));
/// });
/// ```
///
/// # Tiers
///
/// There is no parent to give to a phaser, as Java's has. Tiers are there to keep many arriving threads
/// from fighting over one counter, and to have parents registered and deregistered with their children;
/// that would make every arrival two steps, which others could see one by one. Where parties come in
/// groups, a hook does it: a group that is complete arrives at the root, and goes on when all groups
/// have.
///
/// ```
/// use semaforo::Phaser;
/// use std::sync::Arc;
///
/// let root = Arc::new(Phaser::new(2));
/// let groups = [(); 2].map(|()| {
///     let root = Arc::clone(&root);
///     Phaser::with_hook(3, move |_, _| root.arrive_and_wait().wait().is_err())
/// });
/// std::thread::scope(|scope| {
///     for group in &groups {
///         for _ in 0..3 {
///             scope.spawn(|| group.arrive_and_wait().wait().unwrap());
///         }
///     }
/// });
/// assert_eq!((root.phase(), groups[0].phase(), groups[1].phase()), (1, 1, 1));
/// ```
///
/// (The hook blocks the party that comes last. Let that be a thread, or a task that may block.)
#[doc(alias = "CyclicBarrier")]
#[doc(alias = "tiering")]
pub struct Phaser {
    synchronizer: Synchronizer<Phases>,
    hook: Option<Hook>,
}

type Hook = Box<dyn Fn(u32, u32) -> bool + Send + Sync>;

impl Phaser {
    /// The most parties that can be registered.
    pub const MAX_PARTIES: u32 = Phases::MAX_PARTIES;
    /// The number of the last phase; the one after it is 0 again.
    pub const MAX_PHASE: u32 = Phases::MAX_PHASE;

    constant_unless_modelled! {
        /// A phaser with so many parties, in phase 0.
        ///
        /// # Panics
        /// If that is more than [`MAX_PARTIES`](Self::MAX_PARTIES).
        #[must_use]
        pub const fn new(parties: u32) -> Self {
            Self::in_phase(parties, 0)
        }
    }

    constant_unless_modelled! {
        /// A phaser that begins with this phase.
        ///
        /// # Panics
        /// If there are more than [`MAX_PARTIES`](Self::MAX_PARTIES), or the phase is above
        /// [`MAX_PHASE`](Self::MAX_PHASE).
        #[must_use]
        pub const fn in_phase(parties: u32, phase: u32) -> Self {
            let state = Phases::initial(parties, phase);
            Self { synchronizer: Synchronizer::new(Phases::new(false), state), hook: None }
        }
    }

    /// A phaser that calls `hook` with the phase that ends and the number of registered parties,
    /// before the next begins, in the party that arrives last. If it returns true, there are no more
    /// phases. It decides also when no party is left.
    ///
    /// Whoever registers while it runs belongs to the next phase; whoever arrives then, waits until it
    /// has run, so the hook itself must not. If it panics, the phaser is terminated, and the party that arrived gets the panic.
    ///
    /// # Panics
    /// If there are more than [`MAX_PARTIES`](Self::MAX_PARTIES).
    #[doc(alias = "onAdvance")]
    #[doc(alias = "PostPhaseAction")]
    pub fn with_hook(
        parties: u32,
        hook: impl Fn(u32, u32) -> bool + Send + Sync + 'static,
    ) -> Self {
        let state = Phases::initial(parties, 0);
        let hook: Hook = Box::new(hook);
        Self { synchronizer: Synchronizer::new(Phases::new(true), state), hook: Some(hook) }
    }

    /// One more party. Returns the phase in which it is expected.
    ///
    /// # Errors
    /// If there would be too many, or there are no more phases.
    pub fn register(&self) -> Result<u32, PhaserError> {
        self.register_many(1)
    }

    /// So many more parties. Returns the phase in which they are expected.
    ///
    /// # Errors
    /// If there would be too many, or there are no more phases; then nothing changes.
    pub fn register_many(&self, parties: u32) -> Result<u32, PhaserError> {
        self.synchronizer.release(Step::Register(parties)).map(Phases::expected)
    }

    /// A party arrives, and does not wait. Returns the phase that it arrived in.
    ///
    /// # Errors
    /// If more arrive than are registered, or there are no more phases.
    ///
    /// # Panics
    /// With the panic of the hook.
    #[inline]
    pub fn arrive(&self) -> Result<u32, PhaserError> {
        self.step(Step::Arrive)
    }

    /// A party arrives for the last time. Returns the phase that it arrived in.
    ///
    /// # Errors
    /// As [`arrive`](Self::arrive).
    ///
    /// # Panics
    /// With the panic of the hook.
    #[doc(alias = "arriveAndDeregister")]
    #[doc(alias = "arrive_and_drop")]
    #[doc(alias = "RemoveParticipant")]
    pub fn arrive_and_deregister(&self) -> Result<u32, PhaserError> {
        self.step(Step::ArriveAndDeregister)
    }

    #[inline]
    fn step(&self, step: Step) -> Result<u32, PhaserError> {
        loop {
            match self.synchronizer.release(step) {
                Ok(before) => {
                    if Phases::unarrived(before) == 1 && self.hook.is_some() {
                        self.ask_hook();
                    }
                    return Ok(Phases::phase(before));
                }
                // It can only end: whoever has arrived last is asking.
                Err(PhaserError::Advancing) => {
                    let state = self.synchronizer.state();
                    if Phases::is_advancing(state) {
                        let _ = self.advanced(Phases::phase(state)).wait();
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// All have arrived, and nobody can until the next phase begins.
    #[cold]
    fn ask_hook(&self) {
        let Some(hook) = &self.hook else { return };
        let state = self.synchronizer.state();
        let asked =
            catch_unwind(AssertUnwindSafe(|| hook(Phases::phase(state), Phases::parties(state))));
        let terminate = *asked.as_ref().unwrap_or(&true);
        // Terminated meanwhile, perhaps.
        let _ = self.synchronizer.release(Step::Advance { terminate });
        if let Err(panic) = asked {
            resume_unwind(panic);
        }
    }

    /// A party arrives, and waits for the others. Yields the phase that comes then.
    ///
    /// It arrives when it is first polled.
    #[inline]
    #[doc(alias = "arriveAndAwaitAdvance")]
    #[doc(alias = "SignalAndWait")]
    pub fn arrive_and_wait(&self) -> Request<ArriveAndWait<&Self>> {
        Request::new(ArriveAndWait::of(self), 0)
    }

    /// [`arrive_and_wait`](Self::arrive_and_wait), over a handle of its own.
    pub fn arrive_and_wait_owned(self: &Arc<Self>) -> Request<ArriveAndWait<Arc<Self>>> {
        Request::new(ArriveAndWait::of(Arc::clone(self)), 0)
    }

    /// Waits until this is no longer the phase: at once, if it is not. Yields the phase that is, or
    /// that there are no more.
    #[inline]
    #[doc(alias = "awaitAdvance")]
    pub fn advanced(&self, phase: u32) -> Request<Advanced<&Self>> {
        Request::new(Advanced(self), phase)
    }

    /// [`advanced`](Self::advanced), over a handle of its own.
    pub fn advanced_owned(self: &Arc<Self>, phase: u32) -> Request<Advanced<Arc<Self>>> {
        Request::new(Advanced(Arc::clone(self)), phase)
    }

    /// The phase; when terminated, the last one.
    #[must_use]
    pub fn phase(&self) -> u32 {
        Phases::phase(self.synchronizer.state())
    }

    /// How many parties are registered.
    #[must_use]
    pub fn registered(&self) -> u32 {
        Phases::parties(self.synchronizer.state())
    }

    /// How many parties have arrived in this phase.
    #[must_use]
    pub fn arrived(&self) -> u32 {
        let state = self.synchronizer.state();
        Phases::parties(state) - Phases::unarrived(state)
    }

    /// How many parties have yet to arrive.
    #[must_use]
    pub fn unarrived(&self) -> u32 {
        Phases::unarrived(self.synchronizer.state())
    }

    /// How many have yet to arrive: what those who wait wait for.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.unarrived()
    }

    /// No more phases: everyone who waits goes on, and nothing can be done any more. False if it was
    /// so before.
    pub fn terminate(&self) -> bool {
        self.synchronizer.release(Step::Terminate).is_ok()
    }

    /// Whether there are no more phases.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        Phases::is_terminated(self.synchronizer.state())
    }

    /// The phase, or that there are no more.
    fn now(&self) -> Result<u32, PhaserError> {
        let state = self.synchronizer.state();
        if Phases::is_terminated(state) {
            return Err(PhaserError::Terminated);
        }
        Ok(Phases::phase(state))
    }

    introspection!();
}

objects!([] Phaser => ());

impl fmt::Debug for Phaser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.synchronizer.state();
        f.debug_struct("Phaser")
            .field("phase", &Phases::phase(state))
            .field("registered", &Phases::parties(state))
            .field("unarrived", &Phases::unarrived(state))
            .field("terminated", &Phases::is_terminated(state))
            .field("waiters", &self.waiters())
            .finish()
    }
}

/// The operation of [`Phaser::advanced`].
#[derive(Debug)]
pub struct Advanced<H: Handle<Target = Phaser>>(H);

impl<H: Handle<Target = Phaser>> crate::synchronizer::Asking for Advanced<H> {
    type Policy = Phases;
    type Granted = Result<u32, PhaserError>;

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<Phases> {
        &self.0.synchronizer
    }

    #[inline]
    fn granted(self, _: u32) -> Result<u32, PhaserError> {
        self.0.now()
    }
}

/// The operation of [`Phaser::arrive_and_wait`].
#[derive(Debug)]
pub struct ArriveAndWait<H: Handle<Target = Phaser>> {
    phaser: H,
    arrival: Cell<Arrival>,
}

/// How far a party has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    None,
    /// If it is still so when it is polled again, a panic came out of its arrival, of a waker or the
    /// hook: it was the last.
    Began,
    Made,
    Refused(PhaserError),
}

impl<H: Handle<Target = Phaser>> ArriveAndWait<H> {
    fn of(phaser: H) -> Self {
        Self { phaser, arrival: Cell::new(Arrival::None) }
    }

    #[inline]
    fn result(self) -> Result<u32, PhaserError> {
        match self.arrival.get() {
            Arrival::Refused(error) => Err(error),
            _ => self.phaser.now(),
        }
    }
}

impl<H: Handle<Target = Phaser>> sealed::Operation for ArriveAndWait<H> {
    type Queue = WordObject<Phases>;
    type Extra = ();

    /// Arrives, the first time; whoever cannot has nothing to wait for.
    #[inline]
    fn attempt(&self, phase: &mut u32) -> Attempt {
        if self.arrival.get() == Arrival::None {
            self.arrival.set(Arrival::Began);
            let arrived = self.phaser.arrive().map(|now| *phase = now);
            self.arrival.set(arrived.map_or_else(Arrival::Refused, |()| Arrival::Made));
        }
        match self.arrival.get() {
            Arrival::Refused(_) | Arrival::Began => Attempt::Granted,
            _ => self.phaser.synchronizer.attempt(*phase),
        }
    }

    #[inline]
    fn queue(&self) -> &WordObject<Phases> {
        self.phaser.synchronizer.core()
    }
}

impl<H: Handle<Target = Phaser>> Operation for ArriveAndWait<H> {
    type Output = Result<u32, PhaserError>;
    type Bounded = Result<u32, WaitError<PhaserError>>;

    #[inline]
    fn output(
        self,
        _: AskOf<Self>,
        (): (),
        _: Result<(), std::convert::Infallible>,
    ) -> Self::Output {
        self.result()
    }

    #[inline]
    fn bounded(self, _: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        match outcome {
            Ok(()) => self.result().map_err(WaitError::Refused),
            Err(WaitError::Cancelled) => Err(WaitError::Cancelled),
            Err(WaitError::TimedOut) => Err(WaitError::TimedOut),
        }
    }
}

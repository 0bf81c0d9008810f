//! The framework: a policy, driven in this process.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::{MAX_LANES, MutualExclusion, Policy, Refusal, STATE_BITS};
use crate::primitive::{AtomicU64, Ordering, constant_unless_modelled};
use crate::wait::contended::Attempt;
use crate::wait::limits::{TryError, WaitError};
use crate::wait::operation::{
    AskOf, ContentOf, Handle, Operation, OutcomeOf, RefusalOf, objects, sealed,
};
use crate::wait::request::Request;
use crate::wait::self_wait::{CallSite, Record};
use crate::wait::waiter::Lane;
use crate::wait::word::{STATE, WordObject, exchange};

/// A [`Policy`] that threads can block on and tasks can await.
///
/// Whoever asks is granted at once if the policy agrees and nobody waits; otherwise it joins the
/// queue, first come first served within its lane. Every release lets through whom the policy then
/// agrees to. Uncontended, acquiring and releasing are one compare-and-swap each.
///
/// The [module of policies](crate::policy) shows how to write one.
#[doc(alias = "AbstractQueuedSynchronizer")]
#[doc(alias = "AQS")]
#[doc(alias = "general synchronizer")]
pub struct Synchronizer<P: Policy> {
    /// The state, until somebody has to wait; from then on `MOVED` and the address of a [`WordObject`],
    /// which this owns a count of, and which holds the state.
    word: AtomicU64,
    policy: P,
}

/// The word has moved into the core whose address this is. No state and no address has this bit.
const MOVED: u64 = 1 << 63;

impl<P: Policy> Synchronizer<P> {
    constant_unless_modelled! {
        /// A synchronizer in this state.
        ///
        /// # Panics
        /// If the state does not fit in [`STATE_BITS`] bits.
        #[must_use]
        pub const fn new(policy: P, state: u64) -> Self {
            const { assert!(P::LANES >= 1 && P::LANES <= MAX_LANES, "a policy has 1 to 4 lanes") };
            assert!(state >> STATE_BITS == 0, "the state does not fit in 61 bits");
            Self { word: AtomicU64::new(state), policy }
        }
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The state now; it may have changed by the time it is looked at.
    pub fn state(&self) -> u64 {
        // One look at the word: it may move at any time.
        let word = self.word.load(Ordering::Acquire);
        if word & MOVED == 0 {
            return word;
        }
        // SAFETY: the word has moved to that address.
        unsafe { &*Self::address(word) }.state()
    }

    /// How many requests wait, counting those that were granted, never claimed, and passed over.
    #[doc(alias = "getQueueLength")]
    #[doc(alias = "hasQueuedThreads")]
    pub fn waiters(&self) -> usize {
        self.moved().map_or(0, WordObject::waiters)
    }

    /// How many requests wait in one lane.
    pub fn waiters_in(&self, lane: usize) -> usize {
        if lane >= MAX_LANES {
            return 0;
        }
        self.moved().map_or(0, |core| core.waiters_in(Lane::new(lane)))
    }

    /// How long a task may leave a grant unclaimed while others wait, before it is passed on. The
    /// default is 50 ms, the least 2 ms.
    pub fn set_patience(&self, patience: Duration) {
        self.core().set_patience(patience);
    }

    /// Asks for something; what is granted is given back when the [`Held`] is dropped.
    #[doc(alias = "acquireShared")]
    #[doc(alias = "acquireInterruptibly")]
    pub fn acquire(&self, ask: P::Ask) -> Request<Acquiring<&Self>> {
        Request::new(Acquiring(self), ask)
    }

    /// [`acquire`](Self::acquire), over a handle of its own.
    pub fn acquire_owned(self: &Arc<Self>, ask: P::Ask) -> Request<Acquiring<Arc<Self>>> {
        Request::new(Acquiring(Arc::clone(self)), ask)
    }

    /// Now or not at all. Not while others wait, unless in barging mode.
    ///
    /// # Errors
    /// That it would have to wait, or why it is refused.
    #[doc(alias = "tryAcquireNanos")]
    pub fn try_acquire(&self, ask: P::Ask) -> Result<Held<&Self>, TryError<P::Refusal>> {
        self.try_ask(ask).map(|()| Held { synchronizer: self, ask })
    }

    /// Takes what is asked for now, or says why not.
    #[inline]
    pub(crate) fn try_ask(&self, ask: P::Ask) -> Result<(), TryError<P::Refusal>> {
        if self.acquire_or_not(ask) {
            return Ok(());
        }
        Err(self.policy.refuse(self.state(), ask).map_or(TryError::NotNow, TryError::Refused))
    }

    /// Asks for something that is not given back by a guard.
    #[inline]
    pub(crate) fn pass(&self, ask: P::Ask) -> Request<Passing<'_, P>> {
        Request::new(Passing(self), ask)
    }

    /// Gives something back, or makes another transition, and lets through whom that allows.
    /// Returns the state before.
    ///
    /// # Errors
    /// What the policy says; then nothing has changed.
    ///
    /// # Panics
    /// With the panic of a waker, after everyone else has been woken.
    #[inline(always)]
    #[doc(alias = "releaseShared")]
    pub fn release(&self, give: P::Give) -> Result<u64, P::Misuse> {
        let mut current = self.word.load(Ordering::Acquire);
        while current & MOVED == 0 {
            let next = self.policy.release(current, give)?;
            match exchange(&self.word, current, next & STATE) {
                Ok(_) => return Ok(current),
                Err(now) => current = now,
            }
        }
        // SAFETY: the word has moved to that address.
        unsafe { &*Self::address(current) }.release(give)
    }

    /// [`release`](Self::release), for what concerns also those who wait behind somebody who was
    /// told to try again.
    pub(crate) fn release_and_look(&self, give: P::Give) -> Result<u64, P::Misuse> {
        self.core().release_locked(give)
    }

    /// Lets everyone who waits now pass, without touching the state. Returns how many.
    pub(crate) fn pass_all(&self) -> usize {
        self.moved().map_or(0, WordObject::pass_all)
    }

    /// Takes what is asked for with one load and one compare-and-swap, if it can be had at once and
    /// nobody interferes.
    #[inline(always)]
    pub(crate) fn attempt(&self, ask: P::Ask) -> Attempt {
        let current = self.word.load(Ordering::Acquire);
        if current & MOVED != 0 {
            // SAFETY: the word has moved to that address.
            return unsafe { &*Self::address(current) }.acquire_open(ask);
        }
        match self.policy.acquire(current, ask) {
            Some(next) if exchange(&self.word, current, next & STATE).is_ok() => Attempt::Granted,
            _ => Attempt::Unknown,
        }
    }

    /// Takes what is asked for, if it can be had without waiting and without overtaking.
    #[inline]
    pub(crate) fn acquire_or_not(&self, ask: P::Ask) -> bool {
        match self.attempt(ask) {
            Attempt::Granted => true,
            Attempt::Denied(_) => false,
            Attempt::Unknown => self.acquire_contended(ask),
        }
    }

    fn acquire_contended(&self, ask: P::Ask) -> bool {
        let mut current = self.word.load(Ordering::Relaxed);
        while current & MOVED == 0 {
            let Some(next) = self.policy.acquire(current, ask) else { return false };
            match exchange(&self.word, current, next & STATE) {
                Ok(_) => return true,
                Err(now) => current = now,
            }
        }
        self.core().acquire_or_not(ask)
    }

    /// The core, if somebody ever had to wait.
    #[inline]
    fn moved(&self) -> Option<&WordObject<P>> {
        let word = self.word.load(Ordering::Acquire);
        // SAFETY: the address was stored by `core`, from a count that this owns until dropped.
        (word & MOVED != 0).then(|| unsafe { &*Self::address(word) })
    }

    #[inline]
    fn address(word: u64) -> *const WordObject<P> {
        std::ptr::with_exposed_provenance((word & !MOVED) as usize)
    }

    /// The core, made if need be.
    #[inline]
    pub(crate) fn core(&self) -> &WordObject<P> {
        self.moved().unwrap_or_else(|| self.move_word())
    }

    /// Moves the word into a core, unless another thread is faster.
    #[cold]
    fn move_word(&self) -> &WordObject<P> {
        let mut state = self.word.load(Ordering::Acquire);
        let core = Arc::into_raw(WordObject::with_policy(self.policy, state & STATE));
        let moved = MOVED | core.expose_provenance() as u64;
        loop {
            // SAFETY: both addresses come from `Arc::into_raw` and are still counted.
            unsafe {
                if state & MOVED != 0 {
                    drop(Arc::from_raw(core));
                    return &*Self::address(state);
                }
                // Nobody else knows this core yet.
                (*core).begin_with(state);
                match self.word.compare_exchange(state, moved, Ordering::AcqRel, Ordering::Acquire)
                {
                    Ok(_) => return &*core,
                    Err(now) => state = now,
                }
            }
        }
    }
}

impl<P: Policy> Drop for Synchronizer<P> {
    fn drop(&mut self) {
        if self.moved().is_some() {
            let word = self.word.load(Ordering::Acquire);
            // SAFETY: the address comes from `Arc::into_raw`, and the count is this one's to drop.
            drop(unsafe { Arc::from_raw(Self::address(word)) });
        }
    }
}

objects!([P: Policy] Synchronizer<P> => P);

impl<P: Policy> fmt::Debug for Synchronizer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Synchronizer")
            .field("state", &self.state())
            .field("waiters", &self.waiters())
            .finish()
    }
}

/// The operation of [`Synchronizer::acquire`].
#[derive(Debug)]
pub struct Acquiring<H>(H);

/// Something granted by a [`Synchronizer`], given back when dropped.
///
/// That of a lock can wait on a [`Condition`](crate::Condition); see [`MutualExclusion`].
#[must_use = "what is granted is given back when this is dropped"]
pub struct Held<H>
where
    H: Handle<Content: Policy, Target = Synchronizer<ContentOf<H>>>,
{
    synchronizer: H,
    ask: <ContentOf<H> as Policy>::Ask,
}

impl<H: Handle<Content: Policy, Target = Synchronizer<ContentOf<H>>>> Asking for Acquiring<H> {
    type Policy = ContentOf<H>;
    type Granted = Held<H>;

    fn synchronizer(&self) -> &Synchronizer<ContentOf<H>> {
        &self.0
    }

    fn granted(self, ask: <ContentOf<H> as Policy>::Ask) -> Held<H> {
        Held { synchronizer: self.0, ask }
    }
}

impl<H: Handle<Content: Policy, Target = Synchronizer<ContentOf<H>>>> Held<H> {
    /// What was asked for.
    pub fn ask(&self) -> <ContentOf<H> as Policy>::Ask {
        self.ask
    }

    /// Keeps what was granted: nothing is given back.
    pub fn forget(self) {
        let mut this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the handle is dropped once, and nothing is used afterwards.
        unsafe { std::ptr::drop_in_place(&raw mut this.synchronizer) };
    }
}

/// What was asked for.
impl<H> Deref for Held<H>
where
    H: Handle<Content: Policy, Target = Synchronizer<ContentOf<H>>>,
{
    type Target = <ContentOf<H> as Policy>::Ask;

    fn deref(&self) -> &Self::Target {
        &self.ask
    }
}

impl<H> guard::LockGuard for Held<H>
where
    H: Handle<Content: MutualExclusion, Target = Synchronizer<ContentOf<H>>>,
{
    type Policy = ContentOf<H>;
    type Leaving = ();

    fn synchronizer(&self) -> &Synchronizer<ContentOf<H>> {
        &self.synchronizer
    }

    fn ask(&self) -> <ContentOf<H> as Policy>::Ask {
        self.ask
    }

    fn leaving(&self) {}

    fn forget(self, _: u64, _: u32) {
        Self::forget(self);
    }
}

impl<H> Drop for Held<H>
where
    H: Handle<Content: Policy, Target = Synchronizer<ContentOf<H>>>,
{
    fn drop(&mut self) {
        if let Some(give) = self.synchronizer.policy().undo(self.ask) {
            // By the policy's laws this cannot fail; if it does, there is nobody to tell.
            let _ = self.synchronizer.release(give);
        }
    }
}

impl<H: Handle<Content: Policy, Target = Synchronizer<ContentOf<H>>>> fmt::Debug for Held<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("of", &*self.synchronizer).finish()
    }
}

/// The operation of those who only want to get past: it yields nothing.
#[derive(Debug)]
pub struct Passing<'a, P: Policy>(&'a Synchronizer<P>);

impl<P: Policy> Asking for Passing<'_, P> {
    type Policy = P;
    type Granted = ();

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<P> {
        self.0
    }

    #[inline]
    fn granted(self, _: P::Ask) {}
}

/// An operation that asks a [`Synchronizer`] for something, and yields a guard or the like.
pub trait Asking: Sized {
    type Policy: Policy;
    /// What the request yields when it is granted.
    type Granted;

    fn synchronizer(&self) -> &Synchronizer<Self::Policy>;
    fn granted(self, ask: <Self::Policy as Policy>::Ask) -> Self::Granted;

    /// As for every operation.
    #[inline]
    fn awaits(&self) -> Option<&Record> {
        None
    }

    /// As for every operation.
    #[inline]
    fn locked_at(&self, at: CallSite) {
        let _ = at;
    }
}

impl<O: Asking> sealed::Operation for O {
    type Queue = WordObject<O::Policy>;
    type Extra = ();

    #[inline(always)]
    fn attempt(&self, ask: &mut AskOf<Self>) -> Attempt {
        self.synchronizer().attempt(*ask)
    }

    #[inline]
    fn queue(&self) -> &Self::Queue {
        self.synchronizer().core()
    }

    #[inline]
    fn awaits(&self) -> Option<&Record> {
        Asking::awaits(self)
    }

    #[inline]
    fn locked_at(&self, at: CallSite) {
        Asking::locked_at(self, at);
    }
}

impl<O: Asking> Operation for O {
    type Output = <RefusalOf<Self> as Refusal>::Output<O::Granted>;
    type Bounded = Result<O::Granted, WaitError<RefusalOf<Self>>>;

    #[inline]
    fn output(
        self,
        ask: AskOf<Self>,
        (): (),
        outcome: Result<(), RefusalOf<Self>>,
    ) -> Self::Output {
        match outcome {
            Ok(()) => RefusalOf::<Self>::granted(self.granted(ask)),
            Err(refusal) => refusal.refused(),
        }
    }

    #[inline]
    fn bounded(self, ask: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map(|()| self.granted(ask))
    }
}

/// What is behind the sealed trait of guards that can wait on a condition.
pub(crate) mod guard {
    use std::ops::Deref;

    use super::Synchronizer;
    use crate::policy::Policy;
    use crate::wait::ledger::Departure;
    use crate::wait::self_wait::Record;

    /// What a condition needs to know of a guard.
    pub trait LockGuard: Deref + Sized {
        type Policy: Policy;
        /// What is to be noted in the moment that its owner gives the lock away, all its holds.
        type Leaving: Departure;

        fn synchronizer(&self) -> &Synchronizer<Self::Policy>;

        /// What to ask for to have the lock again.
        fn ask(&self) -> <Self::Policy as Policy>::Ask;

        /// Whether its hold was given away by its owner, who waits with another guard.
        fn is_away(&self) -> bool {
            false
        }

        /// Its owner is going to wait with it.
        fn leaving(&self) -> Self::Leaving;

        /// Which thread has taken the lock, if that is recorded.
        fn record(&self) -> Option<&Record> {
            None
        }

        /// Its owner has the lock again, once; it has given so much away, in the wait of this
        /// number.
        fn come_back(&self, wait: u64, holds: u32) {
            let _ = (wait, holds);
        }

        /// Drops the guard of an owner that has given so much away, and does not come back.
        fn forget(self, wait: u64, holds: u32);
    }
}

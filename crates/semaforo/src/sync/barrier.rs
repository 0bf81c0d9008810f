//! A place where a number of parties wait for each other, again and again.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::policy::refusals;
use crate::primitive::{
    AtomicU32, Ordering, ThreadId, TrackedCell, constant_unless_modelled, current, made_when_needed,
};
use crate::wait::contended::Attempt;
use crate::wait::contended::{ContendedObject, SpinLock};
use crate::wait::limits::WaitError;
use crate::wait::operation::{AskOf, Handle, Operation, OutcomeOf, objects, sealed};
use crate::wait::request::Request;
use crate::wait::rule::{Arrival as Outcome, Coming, ObjectRule};
use crate::wait::wait_lists::WaitLists;
use crate::wait::waiter::{Lane, Pointer, WaiterState};
use crate::wait::wake::{Wakes, resume};

/// A place where a number of parties wait until all of them have come; then all go on, and it starts
/// anew.
///
/// A party that leaves while it waits (cancelled, timed out, or its request dropped) breaks the
/// barrier: it learns its own reason, and the others that they wait in vain, [`Broken`]. So does an
/// action that panics. A broken barrier stays so until it is [reset](Self::reset).
///
/// ```
/// use semaforo::Barrier;
///
/// let rounds = Barrier::with_action(2, || println!("both are done"));
/// std::thread::scope(|scope| {
///     scope.spawn(|| rounds.arrive().wait().unwrap());
///     let arrival = rounds.arrive().wait().unwrap();
///     assert!(arrival.index() < 2);
/// });
/// ```
///
/// The action runs once per generation, before any party goes on: in the last party to arrive or,
/// if that came while the action of the generation before was still running, in the party that ran
/// that. A party that comes while it runs belongs to the next generation, and has not arrived
/// before it starts.
#[doc(alias = "CyclicBarrier")]
#[doc(alias = "pthread_barrier_t")]
#[doc(alias = "std::barrier")]
pub struct Barrier {
    /// Made when it is first needed.
    object: OnceLock<Arc<ContendedObject<BarrierRule>>>,
    /// How many there are at first.
    parties: u32,
    /// Run by one at a time, so that no thread ever waits for it.
    action: Option<Mutex<Action>>,
}

type Action = Box<dyn FnMut() + Send>;

/// A party's arrival at a [`Barrier`] at which all have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    index: u32,
    last: bool,
}

impl Arrival {
    /// How many came before: 0 for the first.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Whether this party was the one that all others waited for.
    #[must_use]
    pub fn is_last(self) -> bool {
        self.last
    }
}

/// The barrier is broken: a party did not come, or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "BrokenBarrierException")]
pub struct Broken;

/// Why the number of parties cannot be changed like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartiesError {
    /// There would be no party left, or fewer than have arrived.
    TooFew,
    /// There would be more than `u32::MAX`.
    TooMany,
    /// The barrier's own action asked for it.
    InAction,
}

/// The parties of the generation that gathers, or whose action runs.
const ARRIVED: Lane = Lane::First;
/// The parties that came while the action ran.
const EARLY: Lane = Lane::Second;

/// The state of a barrier, behind its lock.
#[derive(Debug)]
pub struct BarrierRule {
    parties: u32,
    arrived: u32,
    generation: u64,
    broken: bool,
    has_action: bool,
    /// The action runs, or is about to.
    acting: Option<Acting>,
}

#[derive(Clone, Copy, Debug)]
struct Acting {
    generation: u64,
    /// Where it runs. Nowhere between the actions of two generations, when wakers run.
    thread: Option<ThreadId>,
}

/// What came of an action.
struct Acted {
    /// Its generation went on.
    went: bool,
    /// Another generation is complete, and the action has to run for it.
    again: bool,
}

/// What a party is told when all have arrived.
#[derive(Debug)]
pub struct Party(TrackedCell<Told>);

/// The index of an arrival, and flags. One word, because a word that was written in parts is slow
/// to read.
#[derive(Clone, Copy, Debug, Default)]
struct Told(u64);

impl Told {
    const LAST: u64 = 1 << 32;
    /// It has to run the action.
    const ACTS: u64 = 1 << 33;
    /// It has arrived, and all the others have; only, a waker's panic came out of that.
    const PASSED: u64 = 1 << 34;

    #[inline]
    fn new(index: u32, last: bool) -> Self {
        Self(u64::from(index) | if last { Self::LAST } else { 0 })
    }

    #[inline]
    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    fn arrival(self) -> Arrival {
        Arrival { index: self.0 as u32, last: self.has(Self::LAST) }
    }
}

impl Party {
    /// # Safety
    /// The lock is held, or this is its owner, who does not wait.
    unsafe fn told<R>(&self, change: impl FnOnce(&mut Told) -> R) -> R {
        // SAFETY: the caller's promise makes this the only access.
        self.0.look_mut(|told| change(unsafe { &mut *told }))
    }
}

/// How many have yet to arrive until all go on; 0 if there is more to it than that. What can be seen
/// without the lock: a hint.
#[derive(Debug)]
pub struct Remaining(AtomicU32);

impl BarrierRule {
    fn object(parties: u32, has_action: bool) -> Arc<ContendedObject<Self>> {
        let gathering =
            Self { parties, arrived: 0, generation: 0, broken: false, has_action, acting: None };
        let remaining = Remaining(AtomicU32::new(gathering.remaining()));
        ContendedObject::new(gathering, SpinLock::new(), remaining)
    }

    #[inline]
    fn remaining(&self) -> u32 {
        let simple = !self.has_action && !self.broken && self.acting.is_none();
        if simple { self.parties - self.arrived } else { 0 }
    }

    /// Counts a party in. True if all have arrived.
    fn count_in(&mut self, waiter: Pointer<Party>) -> bool {
        let index = self.arrived;
        self.arrived += 1;
        let last = self.arrived == self.parties;
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe { waiter.as_ref().ask.told(|told| *told = Told::new(index, last)) };
        last
    }

    fn act(&mut self) {
        self.acting = Some(Acting { generation: self.generation, thread: None });
    }

    fn act_here(&mut self) {
        self.acting = self.acting.map(|acting| {
            let thread = Some(current().id());
            Acting { thread, ..acting }
        });
    }

    fn is_acting_here(&self) -> bool {
        let thread = self.acting.and_then(|acting| acting.thread);
        thread.is_some_and(|thread| thread == current().id())
    }

    /// Lets all parties go that have arrived.
    fn trip(&mut self, lists: &mut WaitLists<Party>, wakes: &mut Wakes) {
        self.arrived = 0;
        self.generation = self.generation.wrapping_add(1);
        answer_all(lists, ARRIVED, WaiterState::Served, wakes);
    }

    /// The action has run: all parties go, unless the barrier was reset, and those that came
    /// meanwhile have arrived.
    fn go_on(&mut self, lists: &mut WaitLists<Party>, wakes: &mut Wakes) -> Acted {
        let acted_for = self.acting.take().map(|acting| acting.generation);
        let went = acted_for == Some(self.generation) && !self.broken;
        if went {
            self.trip(lists, wakes);
        }
        Acted { went, again: self.admit_early(lists, wakes) }
    }

    /// Counts in the parties that came while the action ran. True if all have arrived, and the
    /// action has to run.
    fn admit_early(&mut self, lists: &mut WaitLists<Party>, wakes: &mut Wakes) -> bool {
        while let Some(waiter) = lists.first(EARLY) {
            // SAFETY: the lock is held, and what is in a lane is alive.
            unsafe {
                lists.detach(waiter);
                if self.broken {
                    lists.answer(waiter, WaiterState::Refused, wakes);
                    continue;
                }
                let complete = self.count_in(waiter);
                lists.receive(waiter, ARRIVED, false);
                if complete && self.has_action {
                    self.act();
                    return true;
                }
                if complete {
                    self.trip(lists, wakes);
                }
            }
        }
        false
    }

    /// All parties that wait learn that they wait in vain.
    fn turn_away(&mut self, lists: &mut WaitLists<Party>, wakes: &mut Wakes) {
        self.arrived = 0;
        answer_all(lists, ARRIVED, WaiterState::Refused, wakes);
    }
}

fn answer_all(lists: &mut WaitLists<Party>, lane: Lane, state: WaiterState, wakes: &mut Wakes) {
    while let Some(waiter) = lists.first(lane) {
        // SAFETY: the lock is held, and what is in a lane is alive.
        unsafe {
            lists.detach(waiter);
            lists.answer(waiter, state, wakes);
        }
    }
}

impl ObjectRule for BarrierRule {
    type Ask = Party;
    type Refusal = Broken;
    type Outside = Remaining;
    type Lock = SpinLock;
    type Change = ();

    const IS_FINAL: bool = true;

    fn arrive(
        &mut self,
        _: &Remaining,
        lists: &mut WaitLists<Party>,
        waiter: Pointer<Party>,
        _: Coming,
        wakes: &mut Wakes,
    ) -> Outcome<Broken> {
        if self.broken {
            return Outcome::Refused(Broken);
        }
        if self.acting.is_some() {
            return Outcome::Waits(EARLY);
        }
        if !self.count_in(waiter) {
            return Outcome::Waits(ARRIVED);
        }
        if self.has_action {
            // SAFETY: the lock is held, and the waiter is alive.
            unsafe { waiter.as_ref().ask.told(|told| told.0 |= Told::ACTS) };
            self.act();
        } else {
            self.trip(lists, wakes);
        }
        Outcome::Served
    }

    /// Once all have arrived, it is decided: they go, unless the action panics.
    fn is_decided(&self, lane: Lane) -> bool {
        lane == ARRIVED && self.acting.is_some()
    }

    fn leave(
        &mut self,
        _: &Remaining,
        _: &mut WaitLists<Party>,
        _: Pointer<Party>,
        lane: Option<Lane>,
        _: &mut Wakes,
    ) {
        if lane == Some(ARRIVED) && self.acting.is_none() {
            self.broken = true;
        }
    }

    /// The party that was to run the action, and does not, breaks the barrier.
    fn take_back(&mut self, _: &Remaining, waiter: Pointer<Party>) {
        // SAFETY: the lock is held, and the waiter is alive.
        let told = unsafe {
            waiter.as_ref().ask.told(|told| std::mem::replace(told, Told(told.0 & !Told::ACTS)))
        };
        if told.has(Told::ACTS) {
            self.acting = None;
            self.broken = true;
        }
    }

    fn settle(&mut self, _: &Remaining, lists: &mut WaitLists<Party>, (): (), wakes: &mut Wakes) {
        if self.broken && self.acting.is_none() {
            self.turn_away(lists, wakes);
            self.admit_early(lists, wakes);
        }
    }

    #[inline]
    fn before_unlocking(&mut self, remaining: &Remaining, _: &WaitLists<Party>) {
        let now = self.remaining();
        if remaining.0.load(Ordering::Relaxed) != now {
            remaining.0.store(now, Ordering::Release);
        }
    }

    fn expulsion(&self, _: &Remaining) -> Option<Broken> {
        Some(Broken)
    }
}

impl Barrier {
    constant_unless_modelled! {
        /// A barrier for so many parties.
        ///
        /// ```
        /// static BOTH: semaforo::Barrier = semaforo::Barrier::new(2);
        ///
        /// let other = std::thread::spawn(|| BOTH.arrive().wait());
        /// BOTH.arrive().wait()?;
        /// other.join().unwrap()?;
        /// # Ok::<(), semaforo::Broken>(())
        /// ```
        ///
        /// # Panics
        /// If there are none.
        #[must_use]
        pub const fn new(parties: u32) -> Self {
            Self::build(parties, None)
        }
    }

    /// A barrier that runs this whenever all have arrived, before they go on. The action must not wait
    /// at its own barrier: that panics.
    ///
    /// # Panics
    /// If there are no parties.
    pub fn with_action(parties: u32, action: impl FnMut() + Send + 'static) -> Self {
        Self::build(parties, Some(Mutex::new(Box::new(action))))
    }

    constant_unless_modelled! {
        const fn build(parties: u32, action: Option<Mutex<Action>>) -> Self {
            assert!(parties > 0, "a barrier needs at least one party");
            let object = made_when_needed!(BarrierRule::object(parties, action.is_some()));
            Self { object, parties, action }
        }
    }

    #[inline]
    fn object(&self) -> &ContendedObject<BarrierRule> {
        self.object.get_or_init(|| BarrierRule::object(self.parties, self.action.is_some()))
    }

    /// Arrives, and waits for the others.
    #[inline]
    #[doc(alias = "SignalAndWait")]
    #[doc(alias = "await")]
    #[doc(alias = "wait")]
    #[doc(alias = "arrive_and_wait")]
    #[doc(alias = "pthread_barrier_wait")]
    pub fn arrive(&self) -> Request<Arrive<&Self>> {
        Request::new(Arrive(self), Party(TrackedCell::new(Told::default())))
    }

    /// [`arrive`](Self::arrive), over a handle of its own.
    pub fn arrive_owned(self: &Arc<Self>) -> Request<Arrive<Arc<Self>>> {
        Request::new(Arrive(Arc::clone(self)), Party(TrackedCell::new(Told::default())))
    }

    /// How many parties there are.
    #[must_use]
    pub fn parties(&self) -> u32 {
        self.object().locked(|rule, _, _| rule.parties)
    }

    /// How many have arrived in this generation; all of them, while the action runs.
    #[must_use]
    pub fn arrived(&self) -> u32 {
        self.object().locked(|rule, _, _| rule.arrived)
    }

    /// How many have yet to arrive.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.object().locked(|rule, _, _| rule.parties.saturating_sub(rule.arrived))
    }

    /// How often all have arrived, or it was reset.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.object().locked(|rule, _, _| rule.generation)
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.object().waiters()
    }

    /// Whether a party left, or an action panicked.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.object().locked(|rule, _, _| rule.broken)
    }

    /// Starts anew: the parties that have arrived are told that it is [`Broken`], and it no longer
    /// is.
    pub fn reset(&self) {
        self.object().change(|rule, _, lists, wakes| {
            rule.turn_away(lists, wakes);
            rule.generation = rule.generation.wrapping_add(1);
            rule.broken = false;
        });
    }

    /// From now on there are so many parties more.
    ///
    /// # Errors
    /// If there would be too many, or the barrier's own action asks; then nothing changes.
    pub fn add_parties(&self, more: u32) -> Result<(), PartiesError> {
        self.object().locked(|rule, _, _| {
            if rule.is_acting_here() {
                return Err(PartiesError::InAction);
            }
            rule.parties = rule.parties.checked_add(more).ok_or(PartiesError::TooMany)?;
            Ok(())
        })
    }

    /// From now on there are so many parties fewer. If all the others have arrived, they go on.
    ///
    /// # Errors
    /// If there would be none left, or fewer than have arrived, or the barrier's own action asks; then
    /// nothing changes.
    ///
    /// # Panics
    /// With the panic of the action, if that has to run.
    pub fn remove_parties(&self, fewer: u32) -> Result<(), PartiesError> {
        let acts = self.object().change(|rule, _, lists, wakes| {
            if rule.is_acting_here() {
                return Err(PartiesError::InAction);
            }
            let least = if rule.acting.is_some() { 1 } else { rule.arrived.max(1) };
            let left = rule.parties.checked_sub(fewer).filter(|left| *left >= least);
            rule.parties = left.ok_or(PartiesError::TooFew)?;
            let complete = rule.arrived == rule.parties && rule.acting.is_none();
            if complete && rule.has_action {
                rule.act();
                return Ok(true);
            }
            if complete {
                rule.trip(lists, wakes);
            }
            Ok(false)
        })?;
        if acts {
            self.run_action();
        }
        Ok(())
    }

    /// Runs the action, as often as there are complete generations, and lets the parties go. False
    /// if the first of them was reset meanwhile.
    fn run_action(&self) -> bool {
        let mut first = None;
        loop {
            self.object().locked(|rule, _, _| rule.act_here());
            let ran = self.action.as_ref().map(|action| {
                let mut action = action.lock().unwrap_or_else(PoisonError::into_inner);
                catch_unwind(AssertUnwindSafe(&mut *action))
            });
            if let Some(Err(panic)) = ran {
                self.object().change(|rule, remaining, lists, wakes| {
                    rule.acting = None;
                    rule.broken = true;
                    rule.settle(remaining, lists, (), wakes);
                });
                resume_unwind(panic);
            }
            let acted = self.object().change(|rule, _, lists, wakes| rule.go_on(lists, wakes));
            let went = *first.get_or_insert(acted.went);
            if !acted.again {
                return went;
            }
        }
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        if let Some(object) = self.object.get() {
            object.bury(|_, _| ());
        }
    }
}

objects!([] Barrier => ());

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parties, arrived, broken) =
            self.object().locked(|rule, _, _| (rule.parties, rule.arrived, rule.broken));
        f.debug_struct("Barrier")
            .field("parties", &parties)
            .field("arrived", &arrived)
            .field("broken", &broken)
            .field("waiters", &self.waiters())
            .finish()
    }
}

/// The operation of [`Barrier::arrive`].
#[derive(Debug)]
pub struct Arrive<H: Handle<Target = Barrier>>(H);

impl<H: Handle<Target = Barrier>> Arrive<H> {
    /// All have arrived; if this party has to, it runs the action first.
    #[inline]
    fn arrived(self, party: Party) -> Result<Arrival, Broken> {
        // SAFETY: owned, and no other thread can reach it.
        let told = unsafe { party.told(|told| *told) };
        if told.has(Told::ACTS) && !self.0.run_action() {
            return Err(Broken);
        }
        Ok(told.arrival())
    }
}

impl<H: Handle<Target = Barrier>> sealed::Operation for Arrive<H> {
    type Queue = ContendedObject<BarrierRule>;
    type Extra = ();

    /// The last party lets the others go before anything else.
    #[inline]
    fn attempt(&self, party: &mut Party) -> Attempt {
        let (object, action) = (self.0.object(), &self.0.action);
        assert!(
            action.is_none() || !object.locked(|rule, _, _| rule.is_acting_here()),
            "the action of a barrier arrived at its own barrier"
        );
        // SAFETY: borrowed exclusively.
        if unsafe { party.told(|told| told.has(Told::PASSED)) } {
            return Attempt::Granted;
        }
        if object.outside.0.load(Ordering::Acquire) != 1 {
            return Attempt::Unknown;
        }
        let (last, panic) = object.change_caught(|rule, _, lists, wakes| {
            let index = (rule.remaining() == 1).then_some(rule.arrived);
            index.inspect(|_| rule.trip(lists, wakes))
        });
        let Some(index) = last else { return Attempt::Unknown };
        let passed = if panic.is_some() { Told::PASSED } else { 0 };
        // SAFETY: as above.
        unsafe { party.told(|told| *told = Told(Told::new(index, true).0 | passed)) };
        if let Some(panic) = panic {
            resume(panic);
        }
        Attempt::Granted
    }

    #[inline]
    fn queue(&self) -> &Self::Queue {
        self.0.object()
    }
}

impl<H: Handle<Target = Barrier>> Operation for Arrive<H> {
    type Output = Result<Arrival, Broken>;
    type Bounded = Result<Arrival, WaitError<Broken>>;

    #[inline]
    fn output(self, party: AskOf<Self>, (): (), outcome: Result<(), Broken>) -> Self::Output {
        outcome.and_then(|()| self.arrived(party))
    }

    #[inline]
    fn bounded(self, party: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.and_then(|()| self.arrived(party).map_err(WaitError::Refused))
    }
}

refusals!(Broken);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the barrier is broken: somebody did not come, or left")
    }
}

impl fmt::Display for PartiesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooFew => "a barrier needs at least one party, and those who have arrived",
            Self::TooMany => "a barrier has at most 2^32 - 1 parties",
            Self::InAction => "the action of a barrier cannot change its parties",
        })
    }
}

impl Error for Broken {}
impl Error for PartiesError {}

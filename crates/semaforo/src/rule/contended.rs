//! The object that drives a rule, its requests, and the guard of what it lends.

use std::convert::Infallible;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::driven::{Content, Driven, Slot};
use super::sleep_lock::SleepLock;
use super::{Rule, Undo, Waiting};
use crate::queue::Rejected;
use crate::wait::contended::{Attempt, ContendedObject};
use crate::wait::limits::WaitError;
use crate::wait::operation::{AskOf, Handle, Operation, OutcomeOf, objects, sealed};
use crate::wait::request::Request;
use crate::wait::user_code;
use crate::wait::wake::{first, resume};

/// A [`Rule`] behind a lock, and the requests that wait for it.
///
/// ```
/// use semaforo::rule::{Contended, Reply, Rule};
/// use std::time::Duration;
///
/// /// Bytes of memory, which are lent.
/// struct Memory(usize);
///
/// impl Rule for Memory {
///     type Request = usize;
///     type Answer = usize;
///
///     fn serve(&mut self, bytes: usize) -> Reply<Self> {
///         match self.0.checked_sub(bytes) {
///             None => Reply::Wait(bytes),
///             Some(left) => {
///                 self.0 = left;
///                 Reply::Lent(bytes, |memory, bytes| {
///                     memory.0 += bytes;
///                     bytes
///                 })
///             }
///         }
///     }
/// }
///
/// let memory = Contended::new(Memory(1000));
/// let loan = memory.hold(800).wait();                  // or .await
/// let in_vain = memory.hold(300).timeout(Duration::from_millis(5)).wait().unwrap_err();
/// assert_eq!(in_vain.item, 300);                       // what was asked comes back
/// drop(loan);                                          // given back
/// assert_eq!(memory.hold(300).wait().keep(), 300);     // kept for good
/// assert_eq!(memory.with(|memory| memory.0), 700);
/// ```
pub struct Contended<R: Rule> {
    object: Arc<ContendedObject<Driven<R>>>,
    /// The address of the rule as it is driven.
    address: usize,
}

const PANICKED: &str = "the rule has panicked over this request, or is broken by an earlier panic";

impl<R: Rule> Contended<R> {
    /// An object for which no request waits.
    #[must_use]
    pub fn new(rule: R) -> Self {
        let object = ContendedObject::new(Driven::new(rule), SleepLock::new(), ());
        let address = object.locked(|driven, (), _| driven.address());
        Self { object, address }
    }

    /// Asks for something, and yields the answer, for good. A bounded request that ends gives back what
    /// was asked.
    ///
    /// # Panics
    /// When it is polled or waited on: if the rule panics over it, or is broken.
    pub fn request(&self, request: R::Request) -> Request<Asking<&Self, R::Answer>> {
        self.request_as(request, |answer| answer)
    }

    /// [`request`](Self::request), and yields what a function makes of the answer.
    pub fn request_as<T>(
        &self,
        request: R::Request,
        map: fn(R::Answer) -> T,
    ) -> Request<Asking<&Self, T>> {
        Request::new(Asking { handle: self, map }, Slot::new(request))
    }

    /// [`request_as`](Self::request_as), over a handle of its own.
    pub fn request_owned<T>(
        self: &Arc<Self>,
        request: R::Request,
        map: fn(R::Answer) -> T,
    ) -> Request<Asking<Arc<Self>, T>> {
        Request::new(Asking { handle: Arc::clone(self), map }, Slot::new(request))
    }

    /// Asks for something now or not at all; if not, gives back what was asked. Overtakes no request
    /// that it would have to wait for.
    ///
    /// # Panics
    /// As [`request`](Self::request).
    pub fn try_request(&self, request: R::Request) -> Result<R::Answer, R::Request> {
        self.request(request).timeout(Duration::ZERO).wait().map_err(|rejected| rejected.item)
    }

    /// Asks for something that is given back: if the answer is lent, dropping its guard undoes it.
    ///
    /// # Panics
    /// As [`request`](Self::request).
    pub fn hold(&self, request: R::Request) -> Request<Hold<&Self>> {
        Request::new(Hold(self), Slot::new(request))
    }

    /// [`hold`](Self::hold), over a handle of its own.
    pub fn hold_owned(self: &Arc<Self>, request: R::Request) -> Request<Hold<Arc<Self>>> {
        Request::new(Hold(Arc::clone(self)), Slot::new(request))
    }

    /// [`hold`](Self::hold), now or not at all; if not, gives back what was asked. Overtakes no request
    /// that it would have to wait for.
    ///
    /// # Panics
    /// As [`request`](Self::request).
    pub fn try_hold(&self, request: R::Request) -> Result<Loan<&Self>, R::Request> {
        self.hold(request).timeout(Duration::ZERO).wait().map_err(|rejected| rejected.item)
    }

    /// Changes the state, and serves the waiting requests that this allows to be served. For what never
    /// waits.
    ///
    /// # Panics
    /// With a panic of `change`, or of a waker; or if the rule is broken.
    pub fn change<T>(&self, change: impl FnOnce(&mut R, &mut Waiting<'_, R>) -> T) -> T {
        let mut change = Some(change);
        let (result, panic) = self
            .object
            .change_caught(|driven, (), lists, wakes| driven.change(lists, wakes, &mut change));
        match (result, panic) {
            (Some(Ok(result)), None) => result,
            (Some(Ok(_)), Some(panic)) | (Some(Err(panic)), None) => resume_unwind(panic),
            (Some(Err(panic)), Some(other)) => {
                crate::wait::wake::discard(other);
                resume_unwind(panic)
            }
            (None, _) => panic!("{PANICKED}"),
        }
    }

    /// Looks at the state, also at that of a broken rule.
    ///
    /// # Panics
    /// With a panic of `look`.
    pub fn with<T>(&self, look: impl FnOnce(&R) -> T) -> T {
        let result = self.object.locked(|driven, (), _| {
            driven.rule.as_ref().map(|rule| user_code::run(self.address, || look(rule)))
        });
        match result.expect("the rule is there until the object is dropped") {
            Ok(result) => result,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Whether the rule has panicked, and is not whole.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.object.locked(|driven, (), _| driven.is_broken)
    }

    /// How many requests wait, counting those that were passed over and have not come back.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.object.waiters()
    }

    /// Sets how long a task may leave a lent answer unclaimed while other requests wait: 50 ms unless
    /// set.
    pub fn set_patience(&self, patience: Duration) {
        self.object.set_patience(patience);
    }

    /// The state.
    #[must_use]
    pub fn into_inner(self) -> R {
        self.take_rule().expect("the rule is there until the object is dropped")
    }

    /// Takes the rule out of an object that is dropped. What still waits has been leaked.
    fn take_rule(&self) -> Option<R> {
        self.object.bury(|_, _| ());
        self.object.locked(|driven, (), _| driven.rule.take())
    }

    /// Undoes what was lent, for a guard that is dropped. If the rule is broken the answer is dropped.
    fn undo(&self, answer: R::Answer, undo: Undo<R>) {
        let mut change = Some(|rule: &mut R, _: &mut Waiting<'_, R>| undo(rule, answer));
        let (result, panic) = self
            .object
            .change_caught(|driven, (), lists, wakes| driven.change(lists, wakes, &mut change));
        let undo_panic = result.and_then(Result::err);
        if let Some(panic) = first(undo_panic, panic) {
            resume(panic);
        }
    }
}

impl<R: Rule> Drop for Contended<R> {
    fn drop(&mut self) {
        // A rule may drop the object of another. Its own, which it has locked, goes with the last request
        // that was leaked.
        let rule = user_code::suspend(self.address, || self.take_rule());
        drop(rule);
    }
}

impl<R: Rule + Default> Default for Contended<R> {
    fn default() -> Self {
        Self::new(R::default())
    }
}

impl<R: Rule> From<R> for Contended<R> {
    fn from(rule: R) -> Self {
        Self::new(rule)
    }
}

impl<R: Rule> UnwindSafe for Contended<R> {}
impl<R: Rule> RefUnwindSafe for Contended<R> {}

objects!([R: Rule] Contended<R> => R);

impl<R: Rule> fmt::Debug for Contended<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contended")
            .field("waiters", &self.waiters())
            .field("is_broken", &self.is_broken())
            .finish_non_exhaustive()
    }
}

/// A request to an object that is borrowed, for an answer that is made a `T`.
pub type Asked<'a, R, T = <R as Rule>::Answer> = Request<Asking<&'a Contended<R>, T>>;

/// A request to an object that is borrowed, for a guard.
pub type Lending<'a, R> = Request<Hold<&'a Contended<R>>>;

/// The operation of [`Contended::request`].
pub struct Asking<H: RuleHandle, T> {
    handle: H,
    map: fn(AnswerOf<H>) -> T,
}

/// The operation of [`Contended::hold`].
pub struct Hold<H: RuleHandle>(H);

/// A handle of an object with a rule.
pub trait RuleHandle:
    Handle<Content = Self::Rule, Target = Contended<Self::Rule>> + sealed_handle::Handle
{
    /// The rule of its object.
    type Rule: Rule;
}

mod sealed_handle {
    pub trait Handle {}
}

impl<R: Rule, H: Handle<Content = R, Target = Contended<R>>> sealed_handle::Handle for H {}

impl<R: Rule, H: Handle<Content = R, Target = Contended<R>>> RuleHandle for H {
    type Rule = R;
}

type AnswerOf<H> = <<H as RuleHandle>::Rule as Rule>::Answer;
type RequestOf<H> = <<H as RuleHandle>::Rule as Rule>::Request;

impl<H: RuleHandle, T> fmt::Debug for Asking<H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asking")
    }
}

impl<H: RuleHandle> fmt::Debug for Hold<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hold")
    }
}

impl<H: RuleHandle, T> sealed::Operation for Asking<H, T> {
    type Queue = ContendedObject<Driven<H::Rule>>;
    type Extra = ();

    #[inline]
    fn attempt(&self, _: &mut Slot<H::Rule>) -> Attempt {
        Attempt::Unknown
    }

    #[inline]
    fn queue(&self) -> &Self::Queue {
        &self.handle.object
    }
}

impl<H: RuleHandle> sealed::Operation for Hold<H> {
    type Queue = ContendedObject<Driven<H::Rule>>;
    type Extra = ();

    #[inline]
    fn attempt(&self, _: &mut Slot<H::Rule>) -> Attempt {
        Attempt::Unknown
    }

    #[inline]
    fn queue(&self) -> &Self::Queue {
        &self.0.object
    }
}

/// What a request was answered.
fn answer_in<R: Rule>(slot: Slot<R>) -> (R::Answer, Option<Undo<R>>) {
    match slot.into_content() {
        Content::Answered(answer, undo) => (answer, undo),
        Content::Asked(_) | Content::Nothing => panic!("{PANICKED}"),
    }
}

/// What a request had asked that its limits have ended.
fn rejected<R: Rule>(slot: Slot<R>, why: WaitError) -> Rejected<R::Request, WaitError> {
    match slot.into_content() {
        Content::Asked(item) => Rejected { item, why },
        Content::Answered(..) | Content::Nothing => panic!("{PANICKED}"),
    }
}

impl<H: RuleHandle, T> Operation for Asking<H, T> {
    type Output = T;
    type Bounded = Result<T, Rejected<RequestOf<H>, WaitError>>;

    fn output(self, slot: AskOf<Self>, (): (), _: Result<(), Infallible>) -> T {
        (self.map)(answer_in(slot).0)
    }

    fn bounded(self, slot: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        match outcome {
            Ok(()) => Ok((self.map)(answer_in(slot).0)),
            Err(why) => Err(rejected(slot, why)),
        }
    }
}

impl<H: RuleHandle> Operation for Hold<H> {
    type Output = Loan<H>;
    type Bounded = Result<Loan<H>, Rejected<RequestOf<H>, WaitError>>;

    fn output(self, slot: AskOf<Self>, (): (), _: Result<(), Infallible>) -> Loan<H> {
        let (answer, undo) = answer_in(slot);
        Loan { answer: Some(answer), undo, handle: self.0 }
    }

    fn bounded(self, slot: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        match outcome {
            Ok(()) => Ok(self.output(slot, (), Ok(()))),
            Err(why) => Err(rejected(slot, why)),
        }
    }
}

/// An answer that is given back when this is dropped, if it was [lent](super::Reply::Lent).
#[must_use = "what was lent is given back when this is dropped"]
pub struct Loan<H: RuleHandle> {
    /// Until it is kept or given back.
    answer: Option<AnswerOf<H>>,
    undo: Option<Undo<H::Rule>>,
    handle: H,
}

impl<H: RuleHandle> Loan<H> {
    /// The answer, for good.
    pub fn keep(mut self) -> AnswerOf<H> {
        self.answer.take().expect("there is an answer until this is dropped")
    }
}

impl<H: RuleHandle> Deref for Loan<H> {
    type Target = AnswerOf<H>;

    fn deref(&self) -> &AnswerOf<H> {
        self.answer.as_ref().expect("there is an answer until this is dropped")
    }
}

impl<H: RuleHandle> DerefMut for Loan<H> {
    fn deref_mut(&mut self) -> &mut AnswerOf<H> {
        self.answer.as_mut().expect("there is an answer until this is dropped")
    }
}

impl<H: RuleHandle> Drop for Loan<H> {
    fn drop(&mut self) {
        if let (Some(answer), Some(undo)) = (self.answer.take(), self.undo) {
            self.handle.undo(answer, undo);
        }
    }
}

impl<H: RuleHandle> fmt::Debug for Loan<H>
where
    AnswerOf<H>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loan").field(&self.answer).finish()
    }
}

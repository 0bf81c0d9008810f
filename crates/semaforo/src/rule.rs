//! What is done for a request, over a state of any type.
//!
//! A [`Rule`] is a state, with one function that carries requests out. It neither blocks nor wakes nor
//! locks. [`Contended`] drives it: it adds the lock, the line of requests that wait, blocking and
//! awaiting, time limits, cancellation and order. The thread that changes the state carries out the
//! requests that the change makes possible, on behalf of their owners.
//!
//! Where a state of 61 bits is enough, and a request is answered by yes or not yet, a
//! [`Policy`](crate::Policy) does the same without a lock as long as no request has to wait.
//!
//! # A bank
//!
//! A transfer waits until there is money, in the order of its account.
//!
//! ```
//! use semaforo::rule::{Contended, Order, Reply, Rule};
//!
//! struct Bank(Vec<u64>);
//!
//! struct Transfer { from: usize, to: usize, amount: u64 }
//!
//! impl Rule for Bank {
//!     type Request = Transfer;
//!     type Answer = u64;                                  // what is left
//!     const ORDER: Order<Transfer> = Order::PerKey(|transfer| transfer.from as u64);
//!
//!     fn serve(&mut self, transfer: Transfer) -> Reply<Self> {
//!         let Some(left) = self.0[transfer.from].checked_sub(transfer.amount) else {
//!             return Reply::Wait(transfer);
//!         };
//!         self.0[transfer.from] = left;
//!         self.0[transfer.to] += transfer.amount;
//!         Reply::Done(left)
//!     }
//! }
//!
//! let bank = Contended::new(Bank(vec![0, 0]));
//! std::thread::scope(|scope| {
//!     scope.spawn(|| bank.request(Transfer { from: 0, to: 1, amount: 70 }).wait());
//!     bank.change(|bank, _| bank.0[0] += 100);            // carries out the transfer, or lets it come
//! });
//! assert_eq!(bank.with(|bank| bank.0.clone()), [30, 70]);
//! ```
//!
//! # What to ask for, and what to change
//!
//! - **What creates conditions is a [`change`](Contended::change), not a request.** A deposit as a request
//!   in strict order would queue behind the transfers that wait for it, for ever.
//! - **What may be lost if its owner does not look is [`Done`](Reply::Done); what may not is
//!   [`Lent`](Reply::Lent).** A message as a `Done` answer is lost when its request is dropped, by
//!   `select!` say. A lent one goes back, by the undo that came with it.
//! - **What is held and given back is lent, too**, and asked for with [`hold`](Contended::hold): dropping
//!   the [`Loan`] is the same undo. Asked for with [`request`](Contended::request) it is the owner's
//!   for good once it was claimed. A type of your own around the object hides the choice.
//! - **Closing** needs nothing: set a flag in a `change`, after which `serve` answers
//!   `Done(Err(Closed))`.
//! - **Check before you change** in `serve`, and say so with [`is_whole`](Rule::is_whole); then a
//!   request that makes it panic ends alone.
//! - **Blocking under the lock** is found if it waits for a request of this library, and panics. Other
//!   blocking is not found, and keeps all other users of the object waiting for the lock.
//! - **A partner that waits** is met by a request that joins; [`try_request`](Contended::try_request)
//!   never joins, and so meets none.
//! - **A loan belongs outside**: dropped inside a `change` it panics, and if that is unwinding already,
//!   Rust ends the process.
//!
//! # Examples
//!
//! Each is one file: [a batch request queue], [a queue whose messages are taken by key], [readers and
//! writers of ranges], [a bank].
//!
//! [a batch request queue]: https://docs.rs/crate/semaforo/latest/source/examples/rule_batch_queue.rs
//! [a queue whose messages are taken by key]: https://docs.rs/crate/semaforo/latest/source/examples/rule_keyed_queue.rs
//! [readers and writers of ranges]: https://docs.rs/crate/semaforo/latest/source/examples/rule_ranges.rs
//! [a bank]: https://docs.rs/crate/semaforo/latest/source/examples/rule_bank.rs

mod contended;
mod driven;
mod sleep_lock;
mod waiting;

#[cfg(all(test, any(loom, shuttle)))]
pub(crate) use sleep_lock::SleepLock;

pub use contended::{Asked, Asking, Contended, Hold, Lending, Loan, RuleHandle};
pub use waiting::Waiting;

/// A state, and how requests are carried out on it.
///
/// # Laws
///
/// 1. A `serve` that says [`Wait`](Reply::Wait) has changed nothing, and gives back the request, as it
///    came or as it is to be offered the next time. So a request that leaves leaves no trace.
/// 2. The undo of a [`Lent`](Reply::Lent) answer is the inverse of `serve`, also after other changes in
///    between: the state is as if the request had not been served, and the request is the same. It
///    never fails.
/// 3. A [`Done`](Reply::Done) answer may never be seen. Nothing is lost with it.
/// 4. What a request waits for comes from a [`change`](Contended::change), from another request that is
///    served, or from an undo; never from anything else, such as a clock or an atomic.
/// 5. [`ORDER`](Self::ORDER) looks at requests only.
/// 6. The functions are short. They do not wait, do not cancel tokens, and do not use a [`Contended`],
///    be it their own or another, nor drop what waits for one. They wake no task, by releasing a
///    semaphore or putting into a queue, say: its waker would run here, as if it were the rule's own
///    code. They run on any thread, the timer's among them.
///
/// A rule that breaks them gets wrong answers, panics, or requests that wait for ever; never memory
/// errors, and other objects go on. One that uses a `Contended`, waits by this library, or cancels a
/// token panics there. One that drops a request that waits for a `Contended` ends the process: the
/// object knows the request, and cannot be locked.
///
/// # Panics
///
/// A panic of `serve` ends the request that it was given, whose owner panics: a newcomer with this
/// panic, a request that had waited with another. A panic of a `change`, of [`Waiting::offer`] in it, or
/// of the undo of a [`Loan`] that is dropped comes out there. The object goes on if the rule
/// [is whole](Self::is_whole) afterwards. If it is not, or if `settle`, `joined` or `is_whole` itself
/// panics, the object is broken: all requests that wait end with a panic, and so does all that comes.
#[doc(alias = "AbstractQueuedSynchronizer")]
#[doc(alias = "GeneralSynchronizer")]
#[doc(alias = "delegation")]
pub trait Rule: Sized + Send + 'static {
    /// What is asked, with its arguments.
    type Request: Send + 'static;
    /// What comes of it. Refusals are answers, too.
    type Answer: Send + 'static;

    /// Which requests wait for which.
    const ORDER: Order<Self::Request> = Order::Strict;

    /// Carries a request out, or gives it back to wait.
    #[doc(alias = "canAcquire")]
    #[doc(alias = "acquireSideEffect")]
    fn serve(&mut self, request: Self::Request) -> Reply<Self>;

    /// Serves the waiting requests that a change allows to be served: called after every change while
    /// requests wait.
    #[doc(alias = "performPossibleAcquires")]
    fn settle(&mut self, waiting: &mut Waiting<'_, Self>) {
        waiting.serve(self);
    }

    /// A request has begun to wait: for those that answer each other, as the two of an exchange do.
    fn joined(&mut self, waiting: &mut Waiting<'_, Self>) {
        let _ = waiting;
    }

    /// Whether the state can be relied on, asked after a panic of this rule.
    fn is_whole(&self) -> bool {
        false
    }
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Reply<R: Rule> {
    /// It cannot be carried out now: it waits.
    Wait(R::Request),
    /// It was carried out for good, whether or not its owner ever looks at the answer.
    Done(R::Answer),
    /// It was carried out for an owner that has to come for the answer. If the request is dropped, or is
    /// a task's that is not polled in time while other requests wait, or if a [`Loan`] of it is dropped,
    /// the undo takes the answer back.
    Lent(R::Answer, Undo<R>),
}

/// Takes a lent answer back, and returns the request that it answered.
pub type Undo<R> = fn(&mut R, <R as Rule>::Answer) -> <R as Rule>::Request;

/// Which requests wait for which. A request that was passed over because its owner did not come is
/// first when it comes back, in every order.
///
/// The costs are those of one change while `n` requests wait; in [`Strict`](Self::Strict) order it does
/// not matter how many wait.
#[derive(Clone, Copy, Debug)]
pub enum Order<Q> {
    /// Each for all that came before: first come, first served.
    Strict,
    /// Each for those that came before and have the same key: an account, say. Costs O(`n`).
    PerKey(fn(&Q) -> u64),
    /// Each for those that came before and are in conflict with it: `conflict(later, earlier)`. Costs
    /// O(`n`²).
    Conflict(fn(&Q, &Q) -> bool),
    /// None for any: each is served as soon as it can be, the one that came first before others. Costs
    /// O(`n`) for every request that is served.
    Any,
}

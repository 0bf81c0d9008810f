//! The kernel: how requests wait.
//!
//! # The shape of an object
//!
//! An object is a rule behind a lock, and a word outside it that tells whether the lock is needed.
//!
//! The rule ([`rule::ObjectRule`]) decides who is served, who waits, and where. The object
//! ([`contended::ContendedObject`]) does all the rest, once for every rule: it owns the lock and the
//! lists of waiting requests ([`wait_lists::WaitLists`]: a FIFO lane per kind of request, the grants not yet
//! claimed, the dormant tasks), and knows how a request joins, claims, leaves, times out and is woken.
//!
//! There are two kinds of rules. Those of the queues, the barrier and the exchanger keep a state of
//! their own type behind the lock. A [`Policy`](crate::Policy) becomes a rule by [`word::WordRule`]:
//! its state fits in the word, and the lock is a bit of the same word, so that acquiring and releasing
//! without contention are one compare-and-swap each. A [`Synchronizer`] that no request ever waited
//! for is nothing but such a word; the first request that has to wait moves it into a counted object.
//! Conditions ([`condition_queue`]) are lists of their own, behind the lock bit of their lock.
//!
//! A waiter ([`waiter::Waiter`]) is embedded in the pinned request, be that on the heap, in a task or
//! on the stack of a blocked thread; the lists own nothing.
//!
//! # One acquire, from the call to the claim
//!
//! 1. `semaphore.acquire(1)` makes a [`request::Request`] out of an operation ([`operation`]) and what
//!    it asks for. Nothing has happened yet.
//! 2. `.wait()`, or the first poll, attempts it without the lock: `acquire_open` in [`word`].
//! 3. Denied, the request registers its limits ([`bounds`]) with its tokens ([`cancel`]) and enters the
//!    object ([`contended`]), which locks and asks the rule again (`arrive`): served, refused, or in
//!    which lane to wait. The waiter joins that lane, and the lock is released.
//! 4. A thread spins, yields and sleeps ([`parker`]); a task has left its waker and is pending. The
//!    timer ([`timer`]) has its deadline.
//! 5. Another thread releases: it locks, changes the state, and lets the rule settle: the grant loop in
//!    [`word`] looks at the head of the lane whose turn it is, takes the units *for* the waiter, and
//!    answers it. The wake-up is collected, and made after the lock is released ([`wake`]).
//! 6. The thread finds its answer in its own waiter and returns. The task is polled and claims its
//!    grant under the lock (`claim` in [`contended`]).
//!
//! # Who completes a request
//!
//! Never the waiter (but for the barging mode, below): the thread that changes the state (a release, a
//! withdrawal, a token, the timer, the watchdog) does. When the waiter wakes up, what it asked for is
//! already its own.
//!
//! A thread's grant is final. A task's is tentative: it stays on the granted list until the task
//! polls and claims it. Dropping the request passes the grant on. If a task does not come while
//! others wait, the watchdog marks the grant at one tick and takes it back at the next; the waiter
//! goes dormant, and stands first again when it is polled.
//!
//! In barging mode a release leaves its units for any request, and only tells the first in line to try
//! again, one waiter at a time, until one has come too late too often.
//!
//! # What is called when
//!
//! Nothing of the user's runs under a lock, except the functions of policies and rules: wakers are cloned
//! before, and woken and dropped after. Wake-ups are collected in a batch of fixed size; if it is
//! full, answered waiters stay on the deferred list until the batch has been woken.
//!
//! Locks are taken in the order timer, token, queue, never the other way. The timer and a token wait
//! for an object's lock only for a moment, and come again later; they let go of their own as soon as
//! the request is out of reach, before a policy is asked: one object cannot delay the limits of
//! others.
//!
//! # Leaking
//!
//! `mem::forget` on a queued request is safe: its memory was pinned, so it is never used for
//! anything else, and the lists may go on pointing to it. What a borrow protects ends with the
//! leak, so nobody but the request's own owner relies on it: tokens, the timer and the watchdog
//! reach an object only through a counted reference. A leaked request keeps its place, and what it
//! is granted is taken back after the patience and passed on.
//!
//! [`Synchronizer`]: crate::Synchronizer

pub(crate) mod bounds;
pub(crate) mod cancel;
pub(crate) mod condition_queue;
pub(crate) mod contended;
pub(crate) mod ledger;
pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod operation;
pub(crate) mod parker;
pub(crate) mod request;
pub(crate) mod rule;
pub(crate) mod self_wait;
pub(crate) mod wait_lists;
pub(crate) mod wait_queue;
// Only tasks are kept there.
#[cfg_attr(not(feature = "tasks"), allow(dead_code))]
pub(crate) mod slots;
pub(crate) mod timer;
pub(crate) mod user_code;
pub(crate) mod waiter;
pub(crate) mod wake;
pub(crate) mod word;

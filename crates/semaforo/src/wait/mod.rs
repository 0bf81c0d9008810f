//! The kernel: how requests wait.
//!
//! # The queue's shape
//!
//! An object that nobody ever waited for is a word and a policy ([`Synchronizer`]). The first
//! request that has to wait moves the word into a counted [`core::Core`], which then also holds a
//! FIFO list of waiters for every lane, the list of grants not yet claimed, and the lock bit that
//! protects them all. A waiter ([`waiter::Waiter`]) lives in the pinned request, be that on the
//! heap, in a task or on the stack of a blocked thread; the lists own nothing.
//!
//! # Who completes a request
//!
//! Never the waiter (but for the barging mode, below). Whoever changes the state (a release, a withdrawal, a token, the timer, the
//! watchdog) takes the lock, changes the state, and runs the grant loop: it looks at the head of
//! the lane whose turn it is and, if the policy agrees, takes the units *for* the waiter and
//! answers it. When the waiter wakes up, what it asked for is already its own.
//!
//! A thread's grant is final. A task's is tentative: it stays on the granted list until the task
//! polls and claims it. Dropping the request passes the grant on. If a task does not come while
//! others wait, the watchdog marks the grant at one tick and takes it back at the next; the waiter
//! goes dormant, and stands first again when it is polled.
//!
//! In barging mode a release leaves its units for anybody, and only tells the first in line to try
//! again, one waiter at a time, until one has come too late too often.
//!
//! # What is called when
//!
//! Nothing of the user's runs under a lock, except the policy's pure functions: wakers are cloned
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
pub(crate) mod core;
mod grants;
pub(crate) mod hall;
pub(crate) mod kernel;
pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod operation;
pub(crate) mod parker;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod room;
pub(crate) mod self_wait;
// Only tasks are kept there.
#[cfg_attr(not(feature = "tasks"), allow(dead_code))]
pub(crate) mod slots;
pub(crate) mod timer;
pub(crate) mod waiter;
pub(crate) mod wake;

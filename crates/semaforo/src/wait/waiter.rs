//! One waiting request, as the queue sees it.

use std::ptr::NonNull;
use std::task::Waker;

use super::list::Links;
use crate::policy::MAX_LANES;
use crate::primitive::{AtomicU8, Ordering, TrackedCell};

/// What has become of a request, as its owner reads it.
///
/// | state | set by | next |
/// |---|---|---|
/// | `Fresh` | the request, when made | `Waiting`, `Finished` |
/// | `Waiting` | the thread that queues it, under the lock | anything but `Fresh` |
/// | `Parked` | its own thread, by compare-and-swap from `Waiting` | `Served` or a failure, `Retry` |
/// | `Granted` | the thread that granted it, under the lock; a task's grant, until claimed | `Finished`, `Dormant` |
/// | `Dormant` | the watchdog, under the lock | `Waiting`, `Finished`, a failure |
/// | `Retry` | in barging mode, the thread that released: units may be free, try again | `Waiting`, `Finished`, a failure |
/// | `Served`, `Passed` | the thread that granted it for good, or let it through | `Finished` |
/// | `Cancelled`, `TimedOut`, `Refused`, `Faulted` | the thread that ended it, under the lock | `Finished` |
/// | `Finished` | the owner, when it has its answer | |
///
/// From `Served` on down only the owner looks at the waiter: storing one of these is the last thing
/// that another thread does to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
#[repr(u8)]
pub enum WaiterState {
    Fresh,
    Waiting,
    Parked,
    Granted,
    Dormant,
    Retry,
    Served,
    Cancelled,
    TimedOut,
    Refused,
    /// The rule panicked while it looked at this request.
    Faulted,
    /// Let through without using anything up.
    Passed,
    Finished,
}

impl WaiterState {
    /// Whether this is an answer that cannot be taken back.
    pub(crate) const fn is_final(self) -> bool {
        self as u8 >= Self::Served as u8
    }

    /// The state that was stored as this number.
    #[inline]
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Fresh,
            1 => Self::Waiting,
            2 => Self::Parked,
            3 => Self::Granted,
            4 => Self::Dormant,
            5 => Self::Retry,
            6 => Self::Served,
            7 => Self::Cancelled,
            8 => Self::TimedOut,
            9 => Self::Refused,
            10 => Self::Faulted,
            11 => Self::Passed,
            _ => Self::Finished,
        }
    }
}

const _: () = {
    let mut number = WaiterState::Fresh as u8;
    while number <= WaiterState::Finished as u8 {
        assert!(WaiterState::of(number) as u8 == number);
        number += 1;
    }
};

/// Which list a waiter is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// None: not yet queued, or answered for good.
    Nowhere,
    /// Its lane: it waits its turn. Remembered, because a policy might say another the next time.
    Lane(Lane),
    /// The granted list: a task that has not claimed its grant.
    Granted,
    /// The granted list too, but in barging mode: a task told to try again.
    Retrying,
    /// The deferred list: answered, but not yet told, because the batch of wake-ups was full.
    Deferred,
    /// The dormant list: its grant was taken back, and it is passed over until it is polled again.
    Dormant,
    /// The list of a condition: it waits for a signal, and only then for the lock.
    Condition,
}

/// The number of a lane, as an enum so that a [`ListKind`] has one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Lane {
    First,
    Second,
    Third,
    Fourth,
}

const _: () = assert!(MAX_LANES == 4 && size_of::<ListKind>() == 1);

impl Lane {
    /// The lane of this number; the last one, if there is none.
    #[inline]
    pub(crate) const fn new(number: usize) -> Self {
        match number {
            0 => Self::First,
            1 => Self::Second,
            2 => Self::Third,
            _ => Self::Fourth,
        }
    }

    #[inline]
    pub(crate) const fn number(self) -> usize {
        self as usize
    }
}

/// What the queue notes about a waiter. Touched only under the lock.
#[derive(Debug)]
pub(crate) struct Notes {
    pub(crate) list: ListKind,
    /// A blocked thread rather than a task: what it is granted is final.
    pub(crate) thread: bool,
    /// A number: in a lane and on the granted list, how often it was told to try again and came too
    /// late (barging mode); on the deferred list, its answer. And flags.
    detail: u8,
}

impl Notes {
    /// In the detail: the number whose meaning depends on the list.
    const NUMBER: u8 = 0x0f;
    /// In the detail, on the granted or the deferred list: a token fired after the grant.
    const CANCELLED_LATE: u8 = 0x10;
    /// The same, for the time limit.
    const TIMED_OUT_LATE: u8 = 0x20;
    /// In the detail, first in a lane: it goes before all others, whatever the policy says.
    const URGENT: u8 = 0x40;
    /// In the detail, on the granted list: the watchdog has seen it there.
    const SEEN: u8 = 0x80;

    pub(crate) fn number(&self) -> u8 {
        self.detail & Self::NUMBER
    }

    /// Sets the number, and keeps what came too late.
    #[inline]
    pub(crate) fn set_number(&mut self, number: u8) {
        self.detail = self.detail & (Self::CANCELLED_LATE | Self::TIMED_OUT_LATE) | number;
    }

    /// On the deferred list: how the waiter is going to be answered.
    pub(crate) fn answer(&self) -> WaiterState {
        WaiterState::of(self.number())
    }

    /// Sets the answer, for the deferred list, and keeps what came too late.
    pub(crate) fn set_answer(&mut self, answer: WaiterState) {
        self.set_number(answer as u8);
    }

    pub(super) fn set_urgent(&mut self) {
        self.detail |= Self::URGENT;
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.detail & Self::URGENT != 0
    }

    /// Counts how often a waiter in a lane was overtaken.
    pub(crate) fn overtaken(&mut self, more: u8, at_most: u8) {
        self.detail = (self.number() + more).min(at_most);
    }

    /// Notes that the watchdog sees this waiter on the granted list; true the first time.
    pub(crate) fn see_granted(&mut self) -> bool {
        let first = self.detail & Self::SEEN == 0;
        self.detail |= Self::SEEN;
        first
    }

    pub(crate) fn forget_seen(&mut self) {
        self.detail &= !Self::SEEN;
    }

    /// Notes an end that came after the grant, in case that is taken back. The first one counts.
    pub(crate) fn end_late(&mut self, cancelled: bool) {
        if self.late_end().is_none() {
            self.detail |= if cancelled { Self::CANCELLED_LATE } else { Self::TIMED_OUT_LATE };
        }
    }

    /// How the request ends if its grant is taken back.
    pub(crate) fn late_end(&self) -> Option<WaiterState> {
        if self.detail & Self::CANCELLED_LATE != 0 {
            Some(WaiterState::Cancelled)
        } else {
            (self.detail & Self::TIMED_OUT_LATE != 0).then_some(WaiterState::TimedOut)
        }
    }
}

/// A request's place in a queue. Embedded in the pinned request, and never allocated.
///
/// - `state` is read by the owner at any time and written as the table above says.
/// - `links` and `notes` belong to the thread that holds the object's lock.
/// - `waker` belongs to the lock's holder too, with one exception: a thread that is `Waiting` has
///   none yet, and writes it itself just before it becomes `Parked`.
#[derive(Debug)]
pub(crate) struct Waiter<A> {
    pub(crate) links: TrackedCell<Links<A>>,
    waker: TrackedCell<Option<Waker>>,
    notes: TrackedCell<Notes>,
    state: AtomicU8,
    pub(crate) ask: A,
}

impl<A> Waiter<A> {
    #[inline]
    pub(crate) fn new(ask: A) -> Self {
        let notes = Notes { list: ListKind::Nowhere, thread: false, detail: 0 };
        Self {
            links: TrackedCell::new(Links::uninit()),
            waker: TrackedCell::new(None),
            notes: TrackedCell::new(notes),
            state: AtomicU8::new(WaiterState::Fresh as u8),
            ask,
        }
    }

    #[inline]
    pub(crate) fn state(&self) -> WaiterState {
        WaiterState::of(self.state.load(Ordering::Acquire))
    }

    /// Stores a state; a final one hands the waiter back to its owner at that instant.
    #[inline]
    pub(crate) fn set_state(&self, state: WaiterState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// For the owner, while only it can see the waiter.
    #[inline]
    pub(crate) fn is_fresh(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WaiterState::Fresh as u8
    }

    /// Answers a thread that is still spinning, which needs no wake-up.
    #[inline]
    pub(crate) fn answer_spinning(&self, answer: WaiterState) -> bool {
        let answered = self.state.compare_exchange(
            WaiterState::Waiting as u8,
            answer as u8,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        answered.is_ok()
    }

    /// Tells the others that this thread is about to sleep and has to be woken through `waker`.
    /// False if the answer came first.
    pub(crate) fn announce_parking(&self, waker: Waker) -> bool {
        // SAFETY: until the exchange below succeeds, only its own thread looks at the waker
        // of a `Waiting` thread.
        self.waker.look_mut(|own| unsafe { *own = Some(waker) });
        let announced = self.state.compare_exchange(
            WaiterState::Waiting as u8,
            WaiterState::Parked as u8,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        announced.is_ok()
    }

    /// # Safety
    /// The object is locked.
    #[inline]
    pub(crate) unsafe fn notes<R>(&self, change: impl FnOnce(&mut Notes) -> R) -> R {
        // SAFETY: the lock makes this the only access.
        self.notes.look_mut(|notes| change(unsafe { &mut *notes }))
    }

    /// Prepares a fresh waiter to be queued for a task.
    #[inline]
    pub(crate) fn prepare_task(&self, waker: Waker) {
        // SAFETY: only its owner knows a fresh waiter.
        self.waker.look_mut(|own| unsafe { *own = Some(waker) });
    }

    /// Prepares a fresh waiter to be queued for the calling thread.
    #[inline]
    pub(crate) fn prepare_thread(&self) {
        // SAFETY: only its owner knows a fresh waiter.
        self.notes.look_mut(|notes| unsafe { (*notes).thread = true });
    }

    /// # Safety
    /// The object is locked, or the waiter was answered for good and this is its owner.
    #[inline]
    pub(crate) unsafe fn swap_waker(&self, new: Option<Waker>) -> Option<Waker> {
        // SAFETY: the caller's promise makes this the only access.
        self.waker.look_mut(|own| unsafe { std::mem::replace(&mut *own, new) })
    }

    /// # Safety
    /// As [`swap_waker`](Self::swap_waker).
    #[inline]
    pub(crate) unsafe fn has_waker(&self) -> bool {
        // SAFETY: the caller's promise makes this the only access.
        self.waker.look(|own| unsafe { (*own).is_some() })
    }

    /// # Safety
    /// The object is locked.
    #[inline]
    pub(crate) unsafe fn would_wake(&self, other: &Waker) -> bool {
        // SAFETY: the lock makes this the only access.
        self.waker.look(|own| unsafe { (*own).as_ref().is_some_and(|own| own.will_wake(other)) })
    }
}

/// A waiter as the queue passes it around.
pub(crate) type Pointer<A> = NonNull<Waiter<A>>;

//! One waiting request, as the queue sees it.

use std::ptr::NonNull;
use std::task::Waker;

use super::list::Links;
use crate::policy::MAX_LANES;
use crate::primitive::{AtomicU8, Ordering, TrackedCell};

/// What has become of a request, as its owner reads it.
///
/// | standing | set by | next |
/// |---|---|---|
/// | `FRESH` | the request, when made | `WAITING`, `FINISHED` |
/// | `WAITING` | whoever queues it, under the lock | anything but `FRESH` |
/// | `PARKED` | its own thread, by compare-and-swap from `WAITING` | `SERVED` or a failure, `RETRY` |
/// | `GRANTED` | whoever granted it, under the lock; a task's grant, until claimed | `FINISHED`, `DORMANT` |
/// | `DORMANT` | the watchdog, under the lock | `WAITING`, `FINISHED`, a failure |
/// | `RETRY` | in barging mode, whoever released: units may be free, try again | `WAITING`, `FINISHED`, a failure |
/// | `SERVED`, `PASSED` | whoever granted it for good, or let it through | `FINISHED` |
/// | `CANCELLED`, `TIMED_OUT`, `REFUSED`, `FAULTED` | whoever ended it, under the lock | `FINISHED` |
/// | `FINISHED` | the owner, when it has its answer | |
///
/// From `SERVED` on down nobody but the owner looks at the waiter any more: storing one of these
/// is the last thing that another thread does to it.
pub(crate) mod standing {
    pub(crate) const FRESH: u8 = 0;
    pub(crate) const WAITING: u8 = 1;
    pub(crate) const PARKED: u8 = 2;
    pub(crate) const GRANTED: u8 = 3;
    pub(crate) const DORMANT: u8 = 4;
    pub(crate) const RETRY: u8 = 5;
    pub(crate) const SERVED: u8 = 6;
    pub(crate) const CANCELLED: u8 = 7;
    pub(crate) const TIMED_OUT: u8 = 8;
    pub(crate) const REFUSED: u8 = 9;
    /// The policy panicked while it looked at this request.
    pub(crate) const FAULTED: u8 = 10;
    /// Let through without using anything up.
    pub(crate) const PASSED: u8 = 11;
    pub(crate) const FINISHED: u8 = 12;

    /// Whether this is an answer that nobody can take back.
    pub(crate) const fn is_final(standing: u8) -> bool {
        standing >= SERVED
    }
}

/// Which list a waiter is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// None: not yet queued, or answered for good.
    Nowhere,
    /// Its lane: it waits its turn. Remembered, because a policy might say another the next time.
    Lane(Lane),
    /// The granted list: a task that has not claimed its grant.
    Granted,
    /// The granted list too, but in barging mode: a task told to try again.
    Nudged,
    /// The deferred list: answered, but not yet told, because the batch of wake-ups was full.
    Deferred,
    /// The dormant list: its grant was taken back, and it is passed over until it is polled again.
    Dormant,
    /// The list of a condition: it waits for a signal, and only then for the lock.
    Condition,
}

/// The number of a lane, as an enum so that a [`Place`] has one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Lane {
    First,
    Second,
    Third,
    Fourth,
}

const _: () = assert!(MAX_LANES == 4 && size_of::<Place>() == 1);

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
    pub(crate) place: Place,
    /// A blocked thread rather than a task: what it is granted is final.
    pub(crate) thread: bool,
    /// A number: in a lane and on the granted list, how often it was told to try again and came too
    /// late (barging mode); on the deferred list, the standing that it is to be told. And flags.
    detail: u8,
}

impl Notes {
    /// In the detail: the number that the place explains.
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
    pub(crate) fn late_end(&self) -> Option<u8> {
        if self.detail & Self::CANCELLED_LATE != 0 {
            Some(standing::CANCELLED)
        } else {
            (self.detail & Self::TIMED_OUT_LATE != 0).then_some(standing::TIMED_OUT)
        }
    }
}

/// A request's place in a queue. It lives in the pinned request, on the heap of nobody.
///
/// - `standing` is read by the owner at any time and written as the table above says.
/// - `links` and `notes` belong to whoever holds the core's lock.
/// - `waker` belongs to the lock's holder too, with one exception: a thread that is `WAITING` has
///   none yet, and writes it itself just before it becomes `PARKED`.
#[derive(Debug)]
pub(crate) struct Waiter<A> {
    pub(crate) links: TrackedCell<Links<A>>,
    waker: TrackedCell<Option<Waker>>,
    notes: TrackedCell<Notes>,
    standing: AtomicU8,
    pub(crate) ask: A,
}

impl<A> Waiter<A> {
    #[inline]
    pub(crate) fn new(ask: A) -> Self {
        let notes = Notes { place: Place::Nowhere, thread: false, detail: 0 };
        Self {
            links: TrackedCell::new(Links::uninit()),
            waker: TrackedCell::new(None),
            notes: TrackedCell::new(notes),
            standing: AtomicU8::new(standing::FRESH),
            ask,
        }
    }

    #[inline]
    pub(crate) fn standing(&self) -> u8 {
        self.standing.load(Ordering::Acquire)
    }

    /// Stores a standing; a final one hands the waiter back to its owner at that instant.
    #[inline]
    pub(crate) fn stand(&self, standing: u8) {
        self.standing.store(standing, Ordering::Release);
    }

    /// For the owner, when nobody else can see the waiter.
    #[inline]
    pub(crate) fn is_fresh(&self) -> bool {
        self.standing.load(Ordering::Relaxed) == standing::FRESH
    }

    /// Answers a thread that is still spinning, which needs no wake-up.
    #[inline]
    pub(crate) fn answer_spinning(&self, answer: u8) -> bool {
        let answered = self.standing.compare_exchange(
            standing::WAITING,
            answer,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        answered.is_ok()
    }

    /// Tells the others that this thread is about to sleep and has to be woken through `waker`.
    /// False if the answer came first.
    pub(crate) fn announce_parking(&self, waker: Waker) -> bool {
        // SAFETY: until the exchange below succeeds, nobody but its own thread looks at the waker
        // of a `WAITING` thread.
        self.waker.look_mut(|own| unsafe { *own = Some(waker) });
        let announced = self.standing.compare_exchange(
            standing::WAITING,
            standing::PARKED,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        announced.is_ok()
    }

    /// # Safety
    /// The core is locked.
    #[inline]
    pub(crate) unsafe fn notes<R>(&self, change: impl FnOnce(&mut Notes) -> R) -> R {
        // SAFETY: the lock makes this the only access.
        self.notes.look_mut(|notes| change(unsafe { &mut *notes }))
    }

    /// Prepares a fresh waiter to be queued for a task.
    #[inline]
    pub(crate) fn prepare_task(&self, waker: Waker) {
        // SAFETY: nobody else knows a fresh waiter.
        self.waker.look_mut(|own| unsafe { *own = Some(waker) });
    }

    /// Prepares a fresh waiter to be queued for the calling thread.
    #[inline]
    pub(crate) fn prepare_thread(&self) {
        // SAFETY: nobody else knows a fresh waiter.
        self.notes.look_mut(|notes| unsafe { (*notes).thread = true });
    }

    /// # Safety
    /// The core is locked, or the waiter was answered for good and this is its owner.
    #[inline]
    pub(crate) unsafe fn swap_waker(&self, new: Option<Waker>) -> Option<Waker> {
        // SAFETY: the caller's promise makes this the only access.
        self.waker.look_mut(|own| unsafe { std::mem::replace(&mut *own, new) })
    }

    /// # Safety
    /// The core is locked.
    #[inline]
    pub(crate) unsafe fn would_wake(&self, other: &Waker) -> bool {
        // SAFETY: the lock makes this the only access.
        self.waker.look(|own| unsafe { (*own).as_ref().is_some_and(|own| own.will_wake(other)) })
    }
}

/// A waiter as the queue passes it around.
pub(crate) type Pointer<A> = NonNull<Waiter<A>>;

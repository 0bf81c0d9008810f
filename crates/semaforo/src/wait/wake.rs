//! Waking, after every lock has been released.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Waker;

use super::wait_queue::TimedObject;
use crate::primitive::{MODELLED, constant_thread_local};

/// How many wake-ups are collected under a lock before it has to be let go.
const BATCH: usize = if MODELLED { 2 } else { 32 };

const _: () = assert!(BATCH <= u32::BITS as usize);

/// Wake-ups collected under a lock, to be made once it is released.
///
/// What is always looked at comes first, on one cache line.
#[repr(C)]
pub(crate) struct Wakes {
    len: usize,
    /// Which of the slots are threads'.
    threads: u32,
    /// A waiter was answered, but there was no space here: collect again after waking these.
    pub(crate) deferred: bool,
    /// A panic's payload is [kept](discard_later) until the lock is released.
    pub(crate) has_payloads: bool,
    /// The watchdog is to be armed.
    pub(crate) arm: bool,
    /// Dropped by hand, so that dropping a batch with nothing in it is no call.
    panic: ManuallyDrop<Option<Panic>>,
    wakers: [MaybeUninit<Wake>; BATCH],
}

/// One wake-up, of a thread or of a task.
pub(crate) struct Wake {
    waker: Waker,
    thread: bool,
}

impl Wakes {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            len: 0,
            threads: 0,
            deferred: false,
            has_payloads: false,
            arm: false,
            panic: ManuallyDrop::new(None),
            wakers: [const { MaybeUninit::uninit() }; BATCH],
        }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Adds a wake-up; the caller has seen that there is space.
    #[inline]
    pub(crate) fn push(&mut self, wake: Option<Wake>) {
        if let Some(wake) = wake {
            self.threads |= u32::from(wake.thread) << self.len;
            self.wakers[self.len].write(wake);
            self.len += 1;
        }
    }

    /// Whether there is nothing to do once the lock is released.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.len == 0 && !self.deferred && !self.has_payloads && !self.arm
    }

    /// Makes the only wake-up, if that is all there is to do. False if there is more, or less.
    #[inline]
    pub(crate) fn wake_only(&mut self) -> bool {
        let only = self.len == 1 && !self.deferred && !self.has_payloads && !self.arm;
        if only {
            self.len = 0;
            self.threads = 0;
            self.wake_at(0);
        }
        only
    }

    #[cold]
    fn drop_all(&mut self) {
        self.wake();
        drop(self.panic.take());
    }

    /// Wakes all that were collected so far, whatever any of them does; threads first, because a waker
    /// may block. No lock may be held.
    #[inline]
    pub(crate) fn wake(&mut self) {
        if self.len > 0 {
            self.wake_all();
        }
    }

    /// [`wake`](Self::wake), by an object that may have more to tell afterwards: if one of the wakers
    /// blocks, the others are told before it sleeps.
    #[inline]
    pub(crate) fn wake_some(&mut self, object: impl FnOnce() -> Option<Arc<dyn TimedObject>>) {
        if self.deferred { self.wake_first(object()) } else { self.wake() }
    }

    #[cold]
    fn wake_first(&mut self, object: Option<Arc<dyn TimedObject>>) {
        let before = UNFINISHED.try_with(|unfinished| {
            let mut unfinished = unfinished.borrow_mut();
            let before = unfinished.len();
            unfinished.extend(object);
            before
        });
        self.wake();
        // Dropped outside of the borrow: the object may be gone with it, and whatever it owns.
        drop(before.map(unfinished_above));
    }

    #[inline(never)]
    fn wake_all(&mut self) {
        let len = std::mem::take(&mut self.len);
        let threads = std::mem::take(&mut self.threads);
        if len == 1 {
            return self.wake_at(0);
        }
        (0..len).filter(|index| threads >> index & 1 == 1).for_each(|index| self.wake_at(index));
        if threads.count_ones() as usize == len {
            return;
        }
        let tasks = (u32::MAX >> (u32::BITS as usize - len)) & !threads;
        let unwoken = Unwoken { wakers: self.wakers.as_ptr(), left: Cell::new(tasks) };
        if WAKING.with(Cell::get) != Waking::No {
            std::iter::from_fn(|| unwoken.next()).for_each(owe);
            return;
        }
        let panic = unwoken.wake();
        self.keep_panic(panic);
    }

    #[inline]
    fn wake_at(&mut self, index: usize) {
        // SAFETY: each slot that was written is read once.
        let wake = unsafe { self.wakers[index].assume_init_read() };
        self.keep_panic(wake.wake());
    }

    /// Keeps a panic for [`resume_panic`](Self::resume_panic), unless there is one already.
    #[inline]
    pub(crate) fn keep_panic(&mut self, panic: Option<Panic>) {
        if panic.is_some() {
            *self.panic = first(self.panic.take(), panic);
        }
    }

    /// Whether a waker has panicked.
    #[inline]
    pub(crate) fn has_panic(&self) -> bool {
        self.panic.is_some()
    }

    /// The first panic of a waker, for a caller with more to do.
    pub(crate) fn take_panic(&mut self) -> Option<Panic> {
        self.panic.take()
    }

    /// The first panic of a waker, unless the caller is panicking already.
    #[inline]
    pub(crate) fn take_panic_to_resume(&mut self) -> Option<Panic> {
        let panic = self.panic.take()?;
        if std::thread::panicking() {
            discard(panic);
            return None;
        }
        Some(panic)
    }

    /// Lets the first panic of a waker reach the caller, unless the caller is panicking already.
    #[inline]
    pub(crate) fn resume_panic(&mut self) {
        if let Some(panic) = self.panic.take() {
            resume(panic);
        }
    }
}

impl Drop for Wakes {
    #[inline]
    fn drop(&mut self) {
        if self.len > 0 || self.panic.is_some() {
            self.drop_all();
        }
    }
}

constant_thread_local! {
    /// Whether a waker is being woken in this thread. It may resume its task on the spot, and that
    /// task may release something and wake another: such wake-ups are owed until the first has
    /// returned, instead of growing the stack.
    static WAKING: Cell<Waking> = Cell::new(Waking::No);
}

constant_thread_local! {
    static OWED: RefCell<VecDeque<Waker>> = RefCell::new(VecDeque::new());
}

constant_thread_local! {
    /// The batch that this thread is waking, if it is; on its stack.
    static UNWOKEN: Cell<*const Unwoken> = Cell::new(std::ptr::null());
}

/// The tasks of a batch that are still to be woken. If one of their wakers blocks, the others are woken
/// before it sleeps.
struct Unwoken {
    wakers: *const MaybeUninit<Wake>,
    /// The slots that are left.
    left: Cell<u32>,
}

impl Unwoken {
    /// Wakes all of them, and returns the first panic. Not within another wake-up of this thread.
    fn wake(&self) -> Option<Panic> {
        WAKING.with(|waking| waking.set(Waking::Yes));
        UNWOKEN.with(|unwoken| unwoken.set(self));
        let mut panic = self.wake_left();
        UNWOKEN.with(|unwoken| unwoken.set(std::ptr::null()));
        if WAKING.with(Cell::get) == Waking::Owing {
            panic = first(panic, wake_owed());
        }
        WAKING.with(|waking| waking.set(Waking::No));
        panic
    }

    #[inline]
    fn wake_left(&self) -> Option<Panic> {
        let mut panic = None;
        while let Some(waker) = self.next() {
            panic = first(panic, wake_caught(waker));
        }
        panic
    }

    #[inline]
    fn next(&self) -> Option<Waker> {
        let left = self.left.get();
        if left == 0 {
            return None;
        }
        self.left.set(left & (left - 1));
        // SAFETY: a slot that is left was written, and is read once. The batch outlives this.
        let wake = unsafe { (*self.wakers.add(left.trailing_zeros() as usize)).assume_init_read() };
        Some(wake.waker)
    }
}

constant_thread_local! {
    /// The objects that this thread is waking some waiters of, and has others to tell.
    static UNFINISHED: RefCell<Vec<Arc<dyn TimedObject>>> = RefCell::new(Vec::new());
}

/// Takes out the last of the unfinished objects, if there are more than so many.
fn unfinished_above(number: usize) -> Option<Arc<dyn TimedObject>> {
    let last = UNFINISHED.try_with(|unfinished| {
        let mut unfinished = unfinished.borrow_mut();
        if unfinished.len() > number { unfinished.pop() } else { None }
    });
    last.ok().flatten()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waking {
    No,
    Yes,
    /// Yes, and there are wake-ups owed.
    Owing,
}

pub(crate) type Panic = Box<dyn Any + Send>;

impl Wake {
    #[inline]
    pub(crate) fn task(waker: Option<Waker>) -> Option<Self> {
        waker.map(|waker| Self { waker, thread: false })
    }

    #[inline]
    pub(crate) fn thread(waker: Option<Waker>) -> Option<Self> {
        waker.map(|waker| Self { waker, thread: true })
    }

    /// Wakes, whatever that does, and returns a panic. No lock may be held.
    #[inline]
    pub(crate) fn wake(self) -> Option<Panic> {
        if self.thread {
            // Unparking a thread runs no code of a user's.
            self.waker.wake();
            return None;
        }
        wake_task(self.waker)
    }
}

fn wake_task(waker: Waker) -> Option<Panic> {
    if WAKING.with(Cell::get) != Waking::No {
        owe(waker);
        return None;
    }
    WAKING.with(|waking| waking.set(Waking::Yes));
    let mut panic = wake_caught(waker);
    if WAKING.with(Cell::get) == Waking::Owing {
        panic = first(panic, wake_owed());
    }
    WAKING.with(|waking| waking.set(Waking::No));
    panic
}

#[cold]
fn owe(waker: Waker) {
    let mut waker = Some(waker);
    if OWED.try_with(|owed| owed.borrow_mut().extend(waker.take())).is_ok() {
        WAKING.with(|waking| waking.set(Waking::Owing));
    }
    // A thread that is ending has lost its storage: at once is better than never.
    if let Some(panic) = waker.and_then(wake_caught) {
        discard(panic);
    }
}

#[inline]
fn wake_caught(waker: Waker) -> Option<Panic> {
    catch_unwind(AssertUnwindSafe(|| waker.wake())).err()
}

/// Makes the wake-ups that this thread owes, and returns the first panic. Also called before it
/// goes to sleep, which may be in the middle of a wake-up.
#[cold]
fn wake_owed() -> Option<Panic> {
    // SAFETY: it is on this thread's stack for as long as it is noted there.
    let unwoken = UNWOKEN.try_with(Cell::get).ok().and_then(|unwoken| unsafe { unwoken.as_ref() });
    let mut panic = unwoken.and_then(Unwoken::wake_left);
    while let Ok(Some(waker)) = OWED.try_with(|owed| owed.borrow_mut().pop_front()) {
        panic = first(panic, wake_caught(waker));
    }
    panic
}

/// Makes the wake-ups that this thread still owes to others, before it goes to sleep.
pub(crate) fn settle_debts() {
    if let Some(panic) = settle_debts_caught() {
        resume(panic);
    }
}

/// [`settle_debts`], for a caller that must sleep all the same. Returns the first panic.
pub(crate) fn settle_debts_caught() -> Option<Panic> {
    let mut panic = wake_owed();
    while let Some(object) = unfinished_above(0) {
        let mut wakes = Wakes::new();
        wakes.deferred = true;
        object.finish(&mut wakes);
        panic = first(panic, wakes.take_panic());
        panic = first(panic, wake_owed());
    }
    panic
}

/// Lets a panic go on, unless this thread is panicking already: a second panic while unwinding would
/// end the process.
#[cold]
pub(crate) fn resume(panic: Panic) {
    if std::thread::panicking() {
        discard(panic);
    } else {
        resume_unwind(panic);
    }
}

/// Drops a panic's payload, which is a user's value and may panic in its own `drop`. What that one
/// carries is leaked, because it could go on like this for ever.
///
/// Every payload that this crate catches and does not pass on ends here: a payload that is dropped
/// elsewhere can end a loop over wakers, the timer's thread, a worker or a scope half-way.
#[cold]
pub(crate) fn discard(panic: Panic) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

constant_thread_local! {
    /// Payloads to be dropped once this thread holds no lock. A thread that ends leaks them.
    static KEPT: RefCell<Vec<ManuallyDrop<Panic>>> = RefCell::new(Vec::new());
}

/// [`discard`], for a caller that holds a lock: a payload's `drop` is a user's code, which may want the
/// same lock. Whoever has released it calls [`discard_kept`].
#[cold]
pub(crate) fn discard_later(panic: Panic) {
    let panic = ManuallyDrop::new(panic);
    // A thread that is ending has lost its storage: then it is leaked.
    let _ = KEPT.try_with(|kept| kept.borrow_mut().push(panic));
}

/// Drops what [`discard_later`] has kept. No lock may be held.
#[cold]
pub(crate) fn discard_kept() {
    while let Ok(Some(panic)) = KEPT.try_with(|kept| kept.borrow_mut().pop()) {
        discard(ManuallyDrop::into_inner(panic));
    }
}

/// The first of several panics; what comes later is [discarded](discard).
#[inline]
pub(crate) fn first(earlier: Option<Panic>, later: Option<Panic>) -> Option<Panic> {
    if earlier.is_some() {
        if let Some(later) = later {
            discard(later);
        }
        return earlier;
    }
    later
}

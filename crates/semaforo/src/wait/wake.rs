//! Waking, after every lock has been released.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

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
    /// Somebody was answered but found no room here: collect again after waking these.
    pub(crate) deferred: bool,
    /// The watchdog is to be armed.
    pub(crate) arm: bool,
    panic: Option<Panic>,
    wakers: [MaybeUninit<Wake>; BATCH],
}

/// One wake-up that is owed to somebody.
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
            arm: false,
            panic: None,
            wakers: [const { MaybeUninit::uninit() }; BATCH],
        }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Adds a wake-up; the caller has seen that there is room.
    #[inline]
    pub(crate) fn push(&mut self, wake: Option<Wake>) {
        if let Some(wake) = wake {
            self.threads |= u32::from(wake.thread) << self.len;
            self.wakers[self.len].write(wake);
            self.len += 1;
        }
    }

    /// Wakes everyone collected so far, whatever any of them does; threads first, because a waker
    /// may block. No lock may be held.
    #[inline]
    pub(crate) fn wake(&mut self) {
        if self.len > 0 {
            self.wake_all();
        }
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
        // Owed all at once, so that a waker that blocks does not keep the others from being woken.
        let nested = WAKING.with(Cell::get) != Waking::No;
        for index in (0..len).filter(|index| threads >> index & 1 == 0) {
            // SAFETY: each slot that was written is read once.
            owe(unsafe { self.wakers[index].assume_init_read() }.waker);
        }
        if !nested {
            self.keep_panic(wake_owed());
            WAKING.with(|waking| waking.set(Waking::No));
        }
    }

    #[inline]
    fn wake_at(&mut self, index: usize) {
        // SAFETY: each slot that was written is read once.
        let wake = unsafe { self.wakers[index].assume_init_read() };
        self.keep_panic(wake.wake());
    }

    #[inline]
    fn keep_panic(&mut self, panic: Option<Panic>) {
        if let Some(panic) = panic {
            self.panic.get_or_insert(panic);
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
        self.wake();
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
            // Unparking a thread runs nobody's code.
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
        panic = panic.or(wake_owed());
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
    waker.map(wake_caught);
}

#[inline]
fn wake_caught(waker: Waker) -> Option<Panic> {
    catch_unwind(AssertUnwindSafe(|| waker.wake())).err()
}

/// Makes the wake-ups that this thread owes, and returns the first panic. Also called before it
/// goes to sleep, which may be in the middle of a wake-up.
#[cold]
fn wake_owed() -> Option<Panic> {
    let mut panic = None;
    while let Ok(Some(waker)) = OWED.try_with(|owed| owed.borrow_mut().pop_front()) {
        panic = panic.or(wake_caught(waker));
    }
    panic
}

/// Makes the wake-ups that this thread still owes to others, before it goes to sleep.
pub(crate) fn settle_debts() {
    if let Some(panic) = wake_owed() {
        resume(panic);
    }
}

/// A second panic while unwinding would end the process.
#[cold]
pub(crate) fn resume(panic: Panic) {
    if !std::thread::panicking() {
        resume_unwind(panic);
    }
}

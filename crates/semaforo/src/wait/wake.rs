//! Waking, after every lock has been released.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

use crate::primitive::{MODELLED, thread_local};

/// How many wake-ups are collected under a lock before it has to be let go.
const BATCH: usize = if MODELLED { 2 } else { 32 };

/// Wake-ups collected under a lock, to be made once it is released.
///
/// What is always looked at comes first, on one cache line.
#[repr(C)]
pub(crate) struct Wakes {
    len: usize,
    /// Somebody was answered but found no room here: collect again after waking these.
    pub(crate) deferred: bool,
    /// The watchdog is to be armed.
    pub(crate) arm: bool,
    panic: Option<Box<dyn Any + Send>>,
    wakers: [MaybeUninit<Wake>; BATCH],
}

struct Wake {
    waker: Waker,
    thread: bool,
}

impl Wakes {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            len: 0,
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
    pub(crate) fn push(&mut self, waker: Option<Waker>, thread: bool) {
        if let Some(waker) = waker {
            self.wakers[self.len].write(Wake { waker, thread });
            self.len += 1;
        }
    }

    /// Wakes everyone collected so far, whatever any of them does. No lock may be held.
    #[inline]
    pub(crate) fn wake(&mut self) {
        let len = std::mem::take(&mut self.len);
        for slot in &mut self.wakers[..len] {
            // SAFETY: the first `len` slots were written, and `len` no longer counts this one.
            let wake = unsafe { slot.assume_init_read() };
            if let Some(panic) = wake.wake() {
                self.panic.get_or_insert(panic);
            }
        }
    }

    /// Lets the first panic of a waker reach the caller, unless the caller is panicking already.
    #[inline]
    pub(crate) fn resume_panic(&mut self) {
        if let Some(panic) = self.panic.take() {
            if !std::thread::panicking() {
                resume_unwind(panic);
            }
        }
    }
}

impl Drop for Wakes {
    #[inline]
    fn drop(&mut self) {
        self.wake();
    }
}

thread_local! {
    static NESTING: Nesting = Nesting { waking: Cell::new(false), queue: RefCell::new(VecDeque::new()) };
}

/// What this thread is waking. A waker may resume its task on the spot, and that task may release
/// something and wake another: these wake-ups queue here instead of growing the stack.
struct Nesting {
    waking: Cell<bool>,
    queue: RefCell<VecDeque<Waker>>,
}

impl Wake {
    #[inline]
    fn wake(self) -> Option<Box<dyn Any + Send>> {
        let Wake { waker, thread } = self;
        if thread {
            // Unparking a thread runs nobody's code.
            waker.wake();
            return None;
        }
        let mut waker = Some(waker);
        // Without thread-local storage (the thread is ending) nothing can be queued.
        NESTING
            .try_with(|nesting| nesting.wake(&mut waker))
            .unwrap_or_else(|_| waker.take().and_then(wake_caught))
    }
}

impl Nesting {
    #[inline]
    fn wake(&self, waker: &mut Option<Waker>) -> Option<Box<dyn Any + Send>> {
        let waker = waker.take()?;
        if self.waking.replace(true) {
            self.queue.borrow_mut().push_back(waker);
            return None;
        }
        let mut first = wake_caught(waker);
        while let Some(next) = self.next() {
            first = wake_caught(next).or(first);
        }
        self.waking.set(false);
        first
    }

    fn next(&self) -> Option<Waker> {
        self.queue.borrow_mut().pop_front()
    }
}

#[inline]
fn wake_caught(waker: Waker) -> Option<Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| waker.wake())).err()
}

/// Makes the wake-ups that this thread still owes to others, before it goes to sleep.
pub(crate) fn wake_owed() {
    let panic = NESTING.try_with(|nesting| {
        let mut first = None;
        while let Some(next) = nesting.next() {
            first = wake_caught(next).or(first);
        }
        first
    });
    if let Ok(Some(panic)) = panic {
        if !std::thread::panicking() {
            resume_unwind(panic);
        }
    }
}

//! Threads that seem to wait for themselves: told on stderr, in builds with debug assertions.
//!
//! A lock remembers which thread took it, and where. Guards can be sent, so nothing here knows who has
//! the guard now: it only tells, and late, when the right programs have long gone on. Without debug
//! assertions everything here is empty, and under a model checker it does nothing.

#[cfg(debug_assertions)]
pub(crate) use kept::{CallSite, Record, Watch};
#[cfg(not(debug_assertions))]
pub(crate) use nothing::{CallSite, Record, Watch};

#[cfg(debug_assertions)]
mod kept {
    use std::cell::Cell;
    use std::panic::Location;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::{Duration, Instant};

    use crate::primitive::{MODELLED, now};

    /// How long a thread waits before it is told.
    const LATE: Duration = Duration::from_secs(1);

    /// Where in the program something is done.
    #[derive(Clone, Copy, Debug)]
    pub struct CallSite(&'static Location<'static>);

    impl CallSite {
        /// Where the function was called that calls this.
        #[track_caller]
        pub(crate) fn here() -> Self {
            Self(Location::caller())
        }
    }

    /// By which thread a lock was taken, and where; nothing if it is free, or was granted to a task.
    #[derive(Debug)]
    pub struct Record {
        kind: &'static str,
        taken: Mutex<Option<(u64, CallSite)>>,
    }

    impl Record {
        /// Of a free lock of this kind.
        pub(crate) const fn new(kind: &'static str) -> Self {
            Self { kind, taken: Mutex::new(None) }
        }

        /// This thread has taken the lock.
        pub(crate) fn note(&self, at: CallSite) {
            if !MODELLED {
                *self.taken() = Some((this_thread(), at));
            }
        }

        /// The lock is going to be given back, or away.
        pub(crate) fn clear(&self) {
            if !MODELLED {
                *self.taken() = None;
            }
        }

        /// Where this thread took the lock, if it was the last to take it.
        fn taken_here(&self) -> Option<CallSite> {
            let (thread, at) = (*self.taken())?;
            (thread == this_thread()).then_some(at)
        }

        fn taken(&self) -> MutexGuard<'_, Option<(u64, CallSite)>> {
            self.taken.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// A thread is going to sleep until it is granted a lock.
    #[derive(Debug)]
    pub(crate) struct Watch<'r> {
        at: CallSite,
        /// The record to look at then, until that is done.
        late: Option<(&'r Record, Instant)>,
    }

    impl<'r> Watch<'r> {
        /// For a wait that nothing else ends, on a lock that keeps a record.
        pub(crate) fn begin(record: Option<&'r Record>, at: CallSite) -> Self {
            let suspect = record.filter(|record| !MODELLED && record.taken_here().is_some());
            Self { at, late: suspect.and_then(|record| Some((record, now().checked_add(LATE)?))) }
        }

        /// When the thread is to wake up and [`tell`](Self::tell).
        pub(crate) fn until(&self) -> Option<Instant> {
            self.late.map(|(_, late)| late)
        }

        /// The thread has waited for so long: tells what it seems to wait for. False if there was
        /// nothing to wake up for.
        pub(crate) fn tell(&mut self) -> bool {
            let Some((record, _)) = self.late.take() else { return false };
            if let Some(CallSite(taken)) = record.taken_here() {
                let thread = std::thread::current();
                eprintln!(
                    "semaforo: thread '{}' waits at {} for a {} that it locked itself at {taken} and \
                     has not released; if it still has the guard it waits for ever (see \
                     ReentrantLock)",
                    thread.name().unwrap_or("<unnamed>"),
                    self.at.0,
                    record.kind,
                );
            }
            true
        }
    }

    /// A number like no other thread's. It has no destructor, so also a thread that ends has it.
    fn this_thread() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        std::thread_local! {
            static NUMBER: Cell<u64> = const { Cell::new(0) };
        }
        NUMBER.with(|number| {
            if number.get() == 0 {
                number.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        })
    }
}

/// The same without debug assertions. No size, no code.
#[cfg(not(debug_assertions))]
mod nothing {
    use std::time::Instant;

    #[derive(Clone, Copy, Debug)]
    pub struct CallSite;

    impl CallSite {
        #[inline(always)]
        pub(crate) fn here() -> Self {
            Self
        }
    }

    #[derive(Debug)]
    pub struct Record;

    impl Record {
        pub(crate) const fn new(_: &'static str) -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn note(&self, _: CallSite) {}

        #[inline(always)]
        pub(crate) fn clear(&self) {}
    }

    #[derive(Debug)]
    pub(crate) struct Watch;

    impl Watch {
        #[inline(always)]
        pub(crate) fn begin(_: Option<&Record>, _: CallSite) -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn until(&self) -> Option<Instant> {
            None
        }

        #[inline(always)]
        pub(crate) fn tell(&mut self) -> bool {
            false
        }
    }

    const _: () = assert!(size_of::<Record>() == 0);
}

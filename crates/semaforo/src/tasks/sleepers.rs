//! The workers of a pool that sleep, and which is woken when there is something to do.
//!
//! A worker that finds nothing *searches* for a moment, and then sleeps. Queueing a task wakes
//! one sleeper, unless a worker searches: that one will find it, and wakes the next when it does.
//! Queueing something and then looking for sleepers, and going to sleep and then looking for
//! something to do, are each separated by a fence, or take the lock of the same queue in between, so one of
//! the two sees the other.
//!
//! A worker that waits in the middle of a task, and may be replaced, opens a *vacancy* among the
//! sleepers, for a spare thread. When the vacancy's turn to be woken comes, a spare thread is
//! started, or one that has retired is asked back. When the wait is over the vacancy is closed; if
//! it was filled already, the next spare thread that looks for a task retires instead. So the tasks
//! that spare threads run are never more than those that wait, or have waited, for what may be
//! replaced.

use std::sync::{Arc, PoisonError};

use crate::primitive::{AtomicU32, Mutex, MutexGuard, Ordering};
use crate::wait::parker::Parker;

pub(crate) struct Sleepers {
    /// How many sleep, in the lower half, and how many search, in the upper. Changed under the
    /// lock, but for the searchers.
    word: AtomicU32,
    /// How many spare threads have to retire. Changed under the lock.
    surplus: AtomicU32,
    inner: Mutex<Inner>,
    /// How many workers may be replaced at once, by what they wait for.
    replaced_at_most: [usize; 2],
}

/// What a worker waits for in the middle of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Other tasks of the same pool: a join, or the end of a scope.
    Tasks,
    /// Anything else: the pool's number of threads is a promise, and the task has begun.
    Other,
}

struct Inner {
    /// The last is woken first. Vacancies come first, so that they are used last.
    sleepers: Vec<Sleeper>,
    /// How many threads there are, the retired ones included.
    threads: usize,
    /// How many spare threads replace a worker, or have a vacancy: as many as there are
    /// workers replaced, and those that have to retire.
    spares: usize,
    /// How many workers are replaced, by what they wait for.
    replaced: [usize; 2],
    retired: Vec<Arc<Parker>>,
    /// The numbers that spare threads may have. There is one for each that there may be
    /// and is not, so a spare thread gives its number back before it ends.
    free: Vec<usize>,
}

enum Sleeper {
    Worker(Arc<Parker>),
    Vacancy,
}

/// The worker to wake.
#[must_use]
pub(crate) enum Woken {
    Worker(Arc<Parker>),
    /// A spare thread with this number is to be started, and counts as one already.
    NewSpare(usize),
}

const SLEEPER: u32 = 1;
const SEARCHER: u32 = 1 << 16;
const SLEEPERS: u32 = SEARCHER - 1;

impl Sleepers {
    /// For so many threads; so many workers that wait for tasks, and for other things, are
    /// replaced.
    pub(crate) fn new(threads: usize, stand_ins: usize, spares: usize) -> Self {
        let inner = Inner {
            sleepers: Vec::new(),
            threads,
            spares: 0,
            replaced: [0; 2],
            retired: Vec::new(),
            free: (threads..threads + stand_ins + spares).rev().collect(),
        };
        Self {
            word: AtomicU32::new(0),
            surplus: AtomicU32::new(0),
            inner: Mutex::new(inner),
            replaced_at_most: [stand_ins, spares],
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a worker is to be woken, now that something was queued: with a fence before, or under a lock that
    /// sleepers take.
    #[inline]
    pub(crate) fn must_wake(&self) -> bool {
        let word = self.word.load(Ordering::SeqCst);
        word & SLEEPERS != 0 && word < SEARCHER
    }

    /// Takes a sleeper out; it searches from now on.
    pub(crate) fn take_sleeper(&self) -> Option<Woken> {
        let mut inner = self.inner();
        let sleeper = inner.sleepers.pop()?;
        self.word.fetch_add(SEARCHER - SLEEPER, Ordering::SeqCst);
        Some(match sleeper {
            Sleeper::Worker(parker) => Woken::Worker(parker),
            Sleeper::Vacancy => match inner.retired.pop() {
                Some(parker) => Woken::Worker(parker),
                None => {
                    inner.threads += 1;
                    Woken::NewSpare(inner.free.pop().expect("a vacancy has a number to go with it"))
                }
            },
        })
    }

    /// A spare thread could not be started. Its vacancy is kept, if it is still needed; a worker
    /// that sleeps has to search instead.
    pub(crate) fn lose_spare(&self, index: usize) -> Option<Arc<Parker>> {
        let mut inner = self.inner();
        inner.threads -= 1;
        inner.free.push(index);
        if self.take_surplus() {
            inner.spares -= 1;
        } else {
            inner.sleepers.insert(0, Sleeper::Vacancy);
            self.word.fetch_add(SLEEPER, Ordering::SeqCst);
        }
        let Some(Sleeper::Worker(parker)) = inner.sleepers.last() else {
            self.word.fetch_sub(SEARCHER, Ordering::SeqCst);
            return None;
        };
        let parker = Arc::clone(parker);
        inner.sleepers.pop();
        self.word.fetch_sub(SLEEPER, Ordering::SeqCst);
        Some(parker)
    }

    pub(crate) fn begin_search(&self) {
        self.word.fetch_add(SEARCHER, Ordering::SeqCst);
    }

    /// A searcher has found something. True if it was the last one.
    pub(crate) fn end_search(&self) -> bool {
        let before = self.word.fetch_sub(SEARCHER, Ordering::SeqCst);
        before < 2 * SEARCHER
    }

    /// A searcher is going to sleep. It has to look once more before it really does.
    pub(crate) fn add(&self, parker: &Arc<Parker>) {
        let mut inner = self.inner();
        inner.sleepers.push(Sleeper::Worker(Arc::clone(parker)));
        self.word.fetch_sub(SEARCHER - SLEEPER, Ordering::SeqCst);
    }

    /// A worker that was going to sleep has found something after all, and searches again.
    pub(crate) fn remove(&self, parker: &Arc<Parker>) {
        let mut inner = self.inner();
        let lies = inner.sleepers.iter().position(
            |sleeper| matches!(sleeper, Sleeper::Worker(other) if Arc::ptr_eq(other, parker)),
        );
        if let Some(index) = lies {
            inner.sleepers.remove(index);
            self.word.fetch_add(SEARCHER - SLEEPER, Ordering::SeqCst);
            return;
        }
        drop(inner);
        // It was taken out already, and is about to be woken.
        parker.park(None);
    }

    /// Whether no worker runs anything: all sleep.
    pub(crate) fn all_sleep(&self) -> bool {
        let inner = self.inner();
        let workers = inner.sleepers.iter().filter(|one| matches!(one, Sleeper::Worker(_)));
        workers.count() + inner.retired.len() == inner.threads
    }

    /// All workers that sleep or have retired, to be woken for good.
    pub(crate) fn take_all(&self) -> Vec<Arc<Parker>> {
        let mut inner = self.inner();
        let sleepers = std::mem::take(&mut inner.sleepers);
        self.word.fetch_sub(sleepers.len() as u32 * SLEEPER, Ordering::SeqCst);
        let workers = sleepers.into_iter().filter_map(|sleeper| match sleeper {
            Sleeper::Worker(parker) => Some(parker),
            Sleeper::Vacancy => None,
        });
        let mut all: Vec<_> = workers.collect();
        all.append(&mut inner.retired);
        all
    }

    /// A thread comes that is no worker, but is waited for like one.
    pub(crate) fn add_thread(&self) {
        self.inner().threads += 1;
    }

    /// A thread ends. True if it was the last one.
    pub(crate) fn remove_thread(&self) -> bool {
        let mut inner = self.inner();
        inner.threads -= 1;
        inner.threads == 0
    }

    /// A worker is going to wait in the middle of a task. True if it has opened a vacancy, or a
    /// spare thread that would have to retire replaces it.
    pub(crate) fn open_vacancy(&self, wait: Wait) -> bool {
        let mut inner = self.inner();
        if inner.replaced[wait as usize] == self.replaced_at_most[wait as usize] {
            return false;
        }
        inner.replaced[wait as usize] += 1;
        if self.take_surplus() {
            return true;
        }
        inner.spares += 1;
        inner.sleepers.insert(0, Sleeper::Vacancy);
        self.word.fetch_add(SLEEPER, Ordering::SeqCst);
        true
    }

    /// Whether a worker that is going to wait can be replaced.
    pub(crate) fn can_replace(&self, wait: Wait) -> bool {
        self.inner().replaced[wait as usize] < self.replaced_at_most[wait as usize]
    }

    /// The wait of a worker that has opened a vacancy is over.
    pub(crate) fn close_vacancy(&self, wait: Wait) {
        let mut inner = self.inner();
        inner.replaced[wait as usize] -= 1;
        if matches!(inner.sleepers.first(), Some(Sleeper::Vacancy)) {
            inner.sleepers.remove(0);
            inner.spares -= 1;
            self.word.fetch_sub(SLEEPER, Ordering::SeqCst);
        } else {
            self.surplus.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One spare thread less has to retire; false if none has to. Under the lock.
    fn take_surplus(&self) -> bool {
        let surplus = self.has_surplus();
        if surplus {
            self.surplus.fetch_sub(1, Ordering::Relaxed);
        }
        surplus
    }

    /// Whether a spare thread has to retire.
    #[inline]
    pub(crate) fn has_surplus(&self) -> bool {
        self.surplus.load(Ordering::Relaxed) > 0
    }

    /// Retires a spare thread, if one has to. It is woken as a searcher, if at all.
    pub(crate) fn retire(&self, parker: &Arc<Parker>) -> bool {
        let mut inner = self.inner();
        if !self.take_surplus() {
            return false;
        }
        inner.spares -= 1;
        inner.retired.push(Arc::clone(parker));
        true
    }

    /// A retired thread does not want to wait any longer, and gives its number back. False if it
    /// was asked back meanwhile.
    pub(crate) fn quit(&self, parker: &Arc<Parker>, index: usize) -> bool {
        let mut inner = self.inner();
        let waits = inner.retired.iter().position(|other| Arc::ptr_eq(other, parker));
        if let Some(waits) = waits {
            inner.retired.remove(waits);
            inner.free.push(index);
        }
        waits.is_some()
    }

    /// How many threads there are, how many sleep, and how many spare threads replace others.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let inner = self.inner();
        let vacancies = inner.sleepers.iter().filter(|one| matches!(one, Sleeper::Vacancy)).count();
        let sleeping = inner.sleepers.len() - vacancies;
        (inner.threads - inner.retired.len(), sleeping, inner.spares - vacancies)
    }
}

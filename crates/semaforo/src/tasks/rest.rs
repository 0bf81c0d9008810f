//! Who of a pool's workers sleeps, and who is woken when there is something to do.
//!
//! A worker that finds nothing *searches* for a moment, and then sleeps. Whoever has queued something
//! wakes one sleeper, unless somebody searches: that one will find it, and wakes the next when it does.
//! Queueing something and then looking for sleepers, and going to sleep and then looking for
//! something to do, are each separated by a fence, so one of the two sees the other.
//!
//! A worker that waits in the middle of a task, and may be replaced, leaves a *place* among the sleepers:
//! it stands for a spare thread. When it is woken, that thread is started, or one that has retired is asked
//! back. When the wait is over the place is taken away; if it is gone already, the next spare thread that
//! looks for a task retires instead. So the tasks that spare threads run are never more than those that
//! wait, or have waited, for what may be replaced.

use std::sync::{Arc, PoisonError};

use crate::primitive::{AtomicU32, Mutex, MutexGuard, Ordering};
use crate::wait::parker::Parker;

pub(crate) struct Rest {
    /// How many sleep, in the lower half, and how many search, in the upper. Changed under the lock,
    /// but for the searchers.
    word: AtomicU32,
    /// How many spare threads have to retire. Changed under the lock.
    surplus: AtomicU32,
    inside: Mutex<Inside>,
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

struct Inside {
    /// The last is woken first. Places come first, so that they are used last.
    sleepers: Vec<Sleeper>,
    /// How many threads there are, the retired ones included.
    threads: usize,
    /// How many spare threads stand in for a worker, or have a place kept for them: as many as there are
    /// workers replaced, and those that have to retire.
    spares: usize,
    /// How many workers are replaced, by what they wait for.
    replaced: [usize; 2],
    retired: Vec<Arc<Parker>>,
    /// The numbers that spare threads may have. There is one for each that may stand in for somebody
    /// and is not there, so whoever ends gives its number back before it is gone.
    free: Vec<usize>,
}

enum Sleeper {
    Worker(Arc<Parker>),
    Place,
}

/// Whom to wake.
#[must_use]
pub(crate) enum Woken {
    Worker(Arc<Parker>),
    /// A spare thread with this number is to be started, and counts as one already.
    NewSpare(usize),
}

const SLEEPER: u32 = 1;
const SEARCHER: u32 = 1 << 16;
const SLEEPERS: u32 = SEARCHER - 1;

impl Rest {
    /// For so many threads; so many workers that wait for tasks, and for other things, are replaced.
    pub(crate) fn new(threads: usize, stand_ins: usize, spares: usize) -> Self {
        let inside = Inside {
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
            inside: Mutex::new(inside),
            replaced_at_most: [stand_ins, spares],
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody is to be woken, now that something was queued. A fence comes before.
    #[inline]
    pub(crate) fn must_wake(&self) -> bool {
        let word = self.word.load(Ordering::SeqCst);
        word & SLEEPERS != 0 && word < SEARCHER
    }

    /// Takes a sleeper out; it searches from now on.
    pub(crate) fn take_sleeper(&self) -> Option<Woken> {
        let mut inside = self.inside();
        let sleeper = inside.sleepers.pop()?;
        self.word.fetch_add(SEARCHER - SLEEPER, Ordering::SeqCst);
        Some(match sleeper {
            Sleeper::Worker(parker) => Woken::Worker(parker),
            Sleeper::Place => match inside.retired.pop() {
                Some(parker) => Woken::Worker(parker),
                None => {
                    inside.threads += 1;
                    Woken::NewSpare(inside.free.pop().expect("a place has a number to go with it"))
                }
            },
        })
    }

    /// A spare thread could not be started. Its place is kept, if it is still needed; a worker who
    /// sleeps has to search instead.
    pub(crate) fn lose_spare(&self, index: usize) -> Option<Arc<Parker>> {
        let mut inside = self.inside();
        inside.threads -= 1;
        inside.free.push(index);
        if self.take_surplus() {
            inside.spares -= 1;
        } else {
            inside.sleepers.insert(0, Sleeper::Place);
            self.word.fetch_add(SLEEPER, Ordering::SeqCst);
        }
        let Some(Sleeper::Worker(parker)) = inside.sleepers.last() else {
            self.word.fetch_sub(SEARCHER, Ordering::SeqCst);
            return None;
        };
        let parker = Arc::clone(parker);
        inside.sleepers.pop();
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

    /// A searcher lies down. It has to look once more before it really sleeps.
    pub(crate) fn lie_down(&self, parker: &Arc<Parker>) {
        let mut inside = self.inside();
        inside.sleepers.push(Sleeper::Worker(Arc::clone(parker)));
        self.word.fetch_sub(SEARCHER - SLEEPER, Ordering::SeqCst);
    }

    /// One who lay down has found something after all, and searches again.
    pub(crate) fn get_up(&self, parker: &Arc<Parker>) {
        let mut inside = self.inside();
        let lies = inside.sleepers.iter().position(
            |sleeper| matches!(sleeper, Sleeper::Worker(other) if Arc::ptr_eq(other, parker)),
        );
        if let Some(index) = lies {
            inside.sleepers.remove(index);
            self.word.fetch_add(SEARCHER - SLEEPER, Ordering::SeqCst);
            return;
        }
        drop(inside);
        // Somebody has taken it out, and wakes it.
        parker.park(None);
    }

    /// Whether nobody runs anything: everyone lies down.
    pub(crate) fn is_quiet(&self) -> bool {
        let inside = self.inside();
        let workers = inside.sleepers.iter().filter(|one| matches!(one, Sleeper::Worker(_)));
        workers.count() + inside.retired.len() == inside.threads
    }

    /// Everyone who sleeps or has retired, to be woken for good.
    pub(crate) fn take_all(&self) -> Vec<Arc<Parker>> {
        let mut inside = self.inside();
        let sleepers = std::mem::take(&mut inside.sleepers);
        self.word.fetch_sub(sleepers.len() as u32 * SLEEPER, Ordering::SeqCst);
        let workers = sleepers.into_iter().filter_map(|sleeper| match sleeper {
            Sleeper::Worker(parker) => Some(parker),
            Sleeper::Place => None,
        });
        let mut all: Vec<_> = workers.collect();
        all.append(&mut inside.retired);
        all
    }

    /// A thread comes that is nobody's worker, but is waited for like one.
    pub(crate) fn enter(&self) {
        self.inside().threads += 1;
    }

    /// A thread ends. True if it was the last one.
    pub(crate) fn leave(&self) -> bool {
        let mut inside = self.inside();
        inside.threads -= 1;
        inside.threads == 0
    }

    /// A worker is going to wait in the middle of a task. True if it has left a place, or a spare thread
    /// that would have to retire stands in for it.
    pub(crate) fn leave_place(&self, wait: Wait) -> bool {
        let mut inside = self.inside();
        if inside.replaced[wait as usize] == self.replaced_at_most[wait as usize] {
            return false;
        }
        inside.replaced[wait as usize] += 1;
        if self.take_surplus() {
            return true;
        }
        inside.spares += 1;
        inside.sleepers.insert(0, Sleeper::Place);
        self.word.fetch_add(SLEEPER, Ordering::SeqCst);
        true
    }

    /// Whether a worker that is going to wait can be replaced.
    pub(crate) fn can_replace(&self, wait: Wait) -> bool {
        self.inside().replaced[wait as usize] < self.replaced_at_most[wait as usize]
    }

    /// The wait of a worker who has left a place is over.
    pub(crate) fn take_place_back(&self, wait: Wait) {
        let mut inside = self.inside();
        inside.replaced[wait as usize] -= 1;
        if matches!(inside.sleepers.first(), Some(Sleeper::Place)) {
            inside.sleepers.remove(0);
            inside.spares -= 1;
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
        let mut inside = self.inside();
        if !self.take_surplus() {
            return false;
        }
        inside.spares -= 1;
        inside.retired.push(Arc::clone(parker));
        true
    }

    /// A retired thread does not want to wait any longer, and gives its number back. False if it was
    /// asked back meanwhile.
    pub(crate) fn quit(&self, parker: &Arc<Parker>, index: usize) -> bool {
        let mut inside = self.inside();
        let waits = inside.retired.iter().position(|other| Arc::ptr_eq(other, parker));
        if let Some(waits) = waits {
            inside.retired.remove(waits);
            inside.free.push(index);
        }
        waits.is_some()
    }

    /// How many threads there are, how many sleep, and how many stand in for others.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let inside = self.inside();
        let places = inside.sleepers.iter().filter(|one| matches!(one, Sleeper::Place)).count();
        let sleeping = inside.sleepers.len() - places;
        (inside.threads - inside.retired.len(), sleeping, inside.spares - places)
    }
}

//! The queue of all workers: one first-in, first-out queue per level, and which of them are
//! occupied.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use super::head::{Head, Run};
use super::scope::ScopeId;
use super::spin::SpinLock;
use super::stale::make_room;
use crate::primitive::{AtomicU64, Ordering, fence};

/// Tasks of any number of levels, smaller ones first, first in, first out within a level.
pub(crate) struct Levels {
    queues: Box<[Level]>,
    /// Which may hold something.
    ///
    /// Each word knows 32 levels, by two bits each: `occupied` (the lower half) and `clearing`. A
    /// thread that has added to a level sets its first bit, if it is not set. One that finds a
    /// level empty exchanges the first for the second in one step, looks at the level once more,
    /// sets the first again if something has come meanwhile, and takes the second away. So as long
    /// as there is something in a level whose submission is complete, one of its bits is set; and a
    /// level is passed over only if neither is, or if it was itself seen to be empty.
    words: Box<[AtomicU64]>,
}

const LEVELS_PER_WORD: u32 = 32;

impl Levels {
    pub(crate) fn new(levels: u32) -> Self {
        let words = (0..levels.div_ceil(LEVELS_PER_WORD)).map(|_| AtomicU64::new(0)).collect();
        Self { queues: (0..levels).map(|_| Level::new()).collect(), words }
    }

    pub(crate) fn count(&self) -> u32 {
        self.queues.len() as u32
    }

    /// Adds a task to the end of its level. Ends with a fence: a look for sleepers after it does
    /// not overlook a worker that overlooks the task.
    #[inline]
    pub(crate) fn push(&self, level: u32, task: Arc<dyn Run>) {
        self.queues[level as usize].push(task);
        fence(Ordering::SeqCst);
        let (word, occupied) = self.bit(level);
        if word.load(Ordering::SeqCst) & occupied == 0 {
            word.fetch_or(occupied, Ordering::SeqCst);
        }
    }

    /// Takes the first task of the smallest level, if that is below `limit`.
    #[inline]
    pub(crate) fn pop(&self, limit: u32) -> Option<Arc<dyn Run>> {
        for (index, word) in self.words.iter().enumerate() {
            let first = index as u32 * LEVELS_PER_WORD;
            let mut bits = either(word.load(Ordering::SeqCst));
            while bits != 0 {
                let level = first + bits.trailing_zeros();
                if level >= limit {
                    return None;
                }
                if let Some(task) = self.queues[level as usize].pop() {
                    return Some(task);
                }
                self.clear(level);
                bits &= bits - 1;
            }
        }
        None
    }

    /// The smallest level that may hold something.
    #[inline]
    pub(crate) fn smallest(&self) -> Option<u32> {
        self.words.iter().enumerate().find_map(|(index, word)| {
            let bits = either(word.load(Ordering::SeqCst));
            (bits != 0).then(|| index as u32 * LEVELS_PER_WORD + bits.trailing_zeros())
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.smallest().is_none()
    }

    /// When the first task of each level from `from` on was queued; the earliest of them, and its
    /// level.
    pub(crate) fn oldest(&self, from: u32) -> Option<(u64, u32)> {
        let levels = (from..self.count()).filter(|level| {
            let (word, occupied) = self.bit(*level);
            word.load(Ordering::Relaxed) & occupied != 0
        });
        levels.filter_map(|level| Some((self.queues[level as usize].age_of_first()?, level))).min()
    }

    /// Takes the first task of the smallest level, if it belongs to this scope.
    pub(crate) fn pop_of_scope(&self, scope: ScopeId) -> Option<Arc<dyn Run>> {
        self.queues[self.smallest()? as usize].pop_if(|task| task.head().scope == Some(scope))
    }

    /// Takes some task that is wanted, wherever it is.
    #[cold]
    pub(crate) fn find(&self, wanted: impl Fn(&Head) -> bool) -> Option<Arc<dyn Run>> {
        self.queues.iter().find_map(|queue| queue.find(|task| wanted(task.head())))
    }

    /// Takes the first task of one level.
    pub(crate) fn pop_from(&self, level: u32) -> Option<Arc<dyn Run>> {
        self.queues[level as usize].pop()
    }

    pub(crate) fn len(&self, level: u32) -> usize {
        self.queues[level as usize].len()
    }

    /// Looks at every task, level by level, in order. None is taken or added meanwhile.
    pub(crate) fn visit(&self, mut visit: impl FnMut(&dyn Run)) {
        self.queues.iter().for_each(|queue| queue.visit(&mut visit));
    }

    /// Takes note that a level was seen to be empty.
    #[cold]
    fn clear(&self, level: u32) {
        let (word, occupied) = self.bit(level);
        let clearing = occupied << LEVELS_PER_WORD;
        let mut current = word.load(Ordering::SeqCst);
        loop {
            if current & occupied == 0 || current & clearing != 0 {
                return;
            }
            let next = current & !occupied | clearing;
            match word.compare_exchange(current, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                Err(now) => current = now,
            }
        }
        fence(Ordering::SeqCst);
        if self.queues[level as usize].len() > 0 {
            word.fetch_or(occupied, Ordering::SeqCst);
        }
        word.fetch_and(!clearing, Ordering::SeqCst);
    }

    #[inline]
    fn bit(&self, level: u32) -> (&AtomicU64, u64) {
        (&self.words[(level / LEVELS_PER_WORD) as usize], 1 << (level % LEVELS_PER_WORD))
    }
}

/// The levels of a word for which one of the bits is set.
#[inline]
fn either(word: u64) -> u32 {
    (word | word >> LEVELS_PER_WORD) as u32
}

/// One level: first in, first out. Adding and taking seldom wait for each other.
struct Level {
    outgoing: SpinLock<VecDeque<Arc<dyn Run>>>,
    incoming: OwnCacheLine<SpinLock<Incoming>>,
}

#[derive(Default)]
struct Incoming {
    tasks: VecDeque<Arc<dyn Run>>,
    /// When stale tasks were last looked for: see [`make_room`].
    looked: u64,
}

/// On a cache line of its own.
#[repr(align(128))]
struct OwnCacheLine<T>(T);

/// An empty buffer that could hold more than this is given back.
const KEPT: usize = 4096;

impl Level {
    fn new() -> Self {
        Self {
            outgoing: SpinLock::new(VecDeque::new()),
            incoming: OwnCacheLine(SpinLock::new(Incoming::default())),
        }
    }

    #[inline]
    fn push(&self, task: Arc<dyn Run>) {
        let stale = self.incoming.0.with(|Incoming { tasks, looked }| {
            let stale = make_room(tasks, looked);
            tasks.push_back(task);
            stale
        });
        if let Some(stale) = stale {
            stale.discard();
        }
    }

    #[inline]
    fn pop(&self) -> Option<Arc<dyn Run>> {
        self.pop_if(|_| true)
    }

    #[inline]
    fn pop_if(&self, wanted: impl FnOnce(&dyn Run) -> bool) -> Option<Arc<dyn Run>> {
        self.outgoing.with(|outgoing| {
            if outgoing.is_empty() {
                if outgoing.capacity() > KEPT {
                    *outgoing = VecDeque::new();
                }
                self.incoming.0.with(|incoming| mem::swap(&mut incoming.tasks, outgoing));
            }
            outgoing.front().is_some_and(|first| wanted(&**first)).then(|| outgoing.pop_front())?
        })
    }

    fn find(&self, wanted: impl Fn(&Arc<dyn Run>) -> bool) -> Option<Arc<dyn Run>> {
        let find = |queue: &mut VecDeque<_>| queue.remove(queue.iter().position(&wanted)?);
        self.outgoing.with(|outgoing| {
            find(outgoing).or_else(|| self.incoming.0.with(|incoming| find(&mut incoming.tasks)))
        })
    }

    fn age_of_first(&self) -> Option<u64> {
        let age = |task: &Arc<dyn Run>| task.head().queued.load(Ordering::Relaxed);
        self.outgoing.with(|outgoing| match outgoing.front() {
            Some(task) => Some(age(task)),
            None => self.incoming.0.with(|incoming| incoming.tasks.front().map(age)),
        })
    }

    fn len(&self) -> usize {
        self.outgoing
            .with(|outgoing| outgoing.len() + self.incoming.0.with(|incoming| incoming.tasks.len()))
    }

    fn visit(&self, visit: &mut impl FnMut(&dyn Run)) {
        self.outgoing.with(|outgoing| {
            self.incoming.0.with(|incoming| {
                outgoing.iter().chain(&incoming.tasks).for_each(|task| visit(&**task));
            });
        });
    }
}

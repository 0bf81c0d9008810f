//! A worker's own queues.

use std::collections::VecDeque;
use std::sync::Arc;

use super::head::{Head, Run, state};
use super::metrics::Counters;
use super::scope::ScopeId;
use super::spin::SpinLock;
use super::stale::make_room;
use crate::primitive::{AtomicU32, Ordering};

/// One worker's own queues, and what it counts.
///
/// Its children it takes first, the youngest before the others: they are likely to be in its cache,
/// and to finish what it has just begun. Then come the futures that it has woken, and what it has
/// stolen, in turn. Others steal the oldest of all.
#[repr(align(128))]
pub(crate) struct Local {
    queues: SpinLock<Queues>,
    /// The smallest level that holds something, for others to see.
    smallest: AtomicU32,
    pub(crate) counters: Counters,
}

/// The smallest level of a worker that has nothing.
pub(crate) const NONE: u32 = u32::MAX;

struct Queues {
    levels: Vec<Level>,
    /// By level, whether it holds something; in words of 64.
    occupied: Vec<u64>,
}

/// One level, each queue with its oldest in front.
#[derive(Default)]
struct Level {
    children: VecDeque<Arc<dyn Run>>,
    in_turn: VecDeque<Arc<dyn Run>>,
    /// When stale tasks were last looked for among the children: see [`make_room`].
    looked: u64,
}

/// How many tasks a thief takes at most.
const MOST_STOLEN: usize = 16;
/// An empty buffer that could hold more than this is given back.
const KEPT: usize = 4096;

impl Local {
    pub(crate) fn new(levels: u32) -> Self {
        let queues = Queues {
            levels: (0..levels).map(|_| Level::default()).collect(),
            occupied: vec![0; levels.div_ceil(64) as usize],
        };
        Self {
            queues: SpinLock::new(queues),
            smallest: AtomicU32::new(NONE),
            counters: Counters::new(levels),
        }
    }

    /// The smallest level that may hold something.
    #[inline]
    pub(crate) fn smallest(&self) -> u32 {
        self.smallest.load(Ordering::Relaxed)
    }

    /// Whether there is something in it: looked at under the lock, as sleeping requires.
    pub(crate) fn has_tasks(&self) -> bool {
        self.smallest() != NONE || self.queues.with(|queues| queues.smallest().is_some())
    }

    /// Adds a task. For the owner, who may look for sleepers afterwards without a fence: a worker that is
    /// going to sleep says so and then looks under this lock. It finds the task, or has left the lock
    /// before the task came, and is seen.
    #[inline]
    pub(crate) fn push(&self, task: Arc<dyn Run>) {
        // One call through the table of the task's type.
        let head = task.head();
        let (level, woken) = (head.level, head.load() & state::POLLED != 0);
        let stale = self.change(|queues| {
            let Level { children, in_turn, looked } = &mut queues.levels[level as usize];
            let stale = if woken { None } else { make_room(children, looked) };
            let queue = if woken { in_turn } else { children };
            queue.push_back(task);
            queues.occupied[level as usize / 64] |= 1 << (level % 64);
            stale
        });
        if let Some(stale) = stale {
            stale.discard();
        }
    }

    /// Takes the task that is the owner's next.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Arc<dyn Run>> {
        self.change(|queues| queues.take(Level::pop))
    }

    /// Takes the task that has waited longest, at the smallest level.
    pub(crate) fn pop_oldest(&self) -> Option<Arc<dyn Run>> {
        self.change(|queues| queues.take(Level::pop_oldest))
    }

    /// Takes the oldest task of one level.
    pub(crate) fn pop_oldest_of(&self, level: u32) -> Option<Arc<dyn Run>> {
        self.change(|queues| queues.take_from(level, Level::pop_oldest))
    }

    /// Takes the youngest child of some level, if it belongs to this scope.
    #[inline]
    pub(crate) fn pop_of_scope(&self, scope: ScopeId) -> Option<Arc<dyn Run>> {
        self.change(|queues| {
            let level = queues.occupied_levels().find(|level| {
                let youngest = queues.levels[*level as usize].children.back();
                youngest.is_some_and(|task| task.head().scope == Some(scope))
            })?;
            queues.take_from(level, Level::pop)
        })
    }

    /// Takes some task that is wanted, wherever it is.
    #[cold]
    pub(crate) fn find(&self, wanted: impl Fn(&Head) -> bool) -> Option<Arc<dyn Run>> {
        let wanted = |task: &Arc<dyn Run>| wanted(task.head());
        self.change(|queues| {
            let levels = queues.occupied_levels().collect::<Vec<_>>();
            levels.into_iter().find_map(|level| {
                queues.take_from(level, |Level { children, in_turn, .. }| {
                    let child = children.iter().rposition(wanted);
                    match child {
                        Some(index) => children.remove(index),
                        None => in_turn.remove(in_turn.iter().position(wanted)?),
                    }
                })
            })
        })
    }

    /// Takes the youngest child of a level, if there is nothing left of it to run.
    pub(crate) fn pop_finished(&self, level: u32) -> Option<Arc<dyn Run>> {
        self.change(|queues| {
            let youngest = queues.levels[level as usize].children.back()?;
            youngest.head().is_finished().then(|| queues.take_from(level, Level::pop))?
        })
    }

    /// When the oldest task of each level from `from` on was queued; the earliest of them, and its
    /// level.
    pub(crate) fn oldest(&self, from: u32) -> Option<(u64, u32)> {
        self.queues.with(|queues| {
            let ages = (from as usize..queues.levels.len()).filter_map(|level| {
                let Level { children, in_turn, .. } = &queues.levels[level];
                let ages = [children.front(), in_turn.front()];
                Some((ages.into_iter().flatten().map(age).min()?, level as u32))
            });
            ages.min()
        })
    }

    /// Takes about half of this worker's tasks at its smallest level: one to run now, the others
    /// for the thief's own queue.
    pub(crate) fn steal(&self, thief: &Self) -> Option<Arc<dyn Run>> {
        let mut stolen: [Option<Arc<dyn Run>>; MOST_STOLEN] = [const { None }; MOST_STOLEN];
        let taken = self.queues.try_with(|queues| {
            let level = queues.smallest()?;
            let len = queues.levels[level as usize].len();
            let taken = len.div_ceil(2).min(MOST_STOLEN);
            for slot in &mut stolen[..taken] {
                *slot = queues.take_from(level, Level::pop_oldest);
            }
            self.publish(queues);
            Some(taken)
        });
        let taken = taken.flatten()?;
        let first = stolen[0].take();
        if taken > 1 {
            thief.change(|queues| {
                for task in stolen[1..taken].iter_mut().filter_map(Option::take) {
                    let level = task.head().level;
                    queues.levels[level as usize].in_turn.push_back(task);
                    queues.occupied[level as usize / 64] |= 1 << (level % 64);
                }
            });
        }
        first
    }

    pub(crate) fn len(&self, level: u32) -> usize {
        self.queues.with(|queues| queues.levels[level as usize].len())
    }

    pub(crate) fn visit(&self, mut visit: impl FnMut(&dyn Run)) {
        self.queues.with(|queues| {
            let levels = queues.levels.iter();
            levels
                .flat_map(|level| level.children.iter().chain(&level.in_turn))
                .for_each(|task| visit(&**task));
        });
    }

    #[inline]
    fn change<R>(&self, change: impl FnOnce(&mut Queues) -> R) -> R {
        self.queues.with(|queues| {
            let result = change(queues);
            self.publish(queues);
            result
        })
    }

    #[inline]
    fn publish(&self, queues: &Queues) {
        let smallest = queues.smallest().unwrap_or(NONE);
        if smallest != self.smallest.load(Ordering::Relaxed) {
            self.smallest.store(smallest, Ordering::Relaxed);
        }
    }
}

impl Queues {
    fn occupied_levels(&self) -> impl Iterator<Item = u32> {
        self.occupied.iter().enumerate().flat_map(|(index, word)| {
            let (first, mut bits) = (index as u32 * 64, *word);
            std::iter::from_fn(move || {
                let level = (bits != 0).then(|| first + bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(level)
            })
        })
    }

    #[inline]
    fn smallest(&self) -> Option<u32> {
        let (index, word) = self.occupied.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some(index as u32 * 64 + word.trailing_zeros())
    }

    #[inline]
    fn take(&mut self, take: Take) -> Option<Arc<dyn Run>> {
        let level = self.smallest()?;
        self.take_from(level, take)
    }

    #[inline]
    fn take_from(
        &mut self,
        level: u32,
        take: impl FnOnce(&mut Level) -> Option<Arc<dyn Run>>,
    ) -> Option<Arc<dyn Run>> {
        let queue = &mut self.levels[level as usize];
        let task = take(queue);
        if queue.len() == 0 {
            self.occupied[level as usize / 64] &= !(1 << (level % 64));
            if queue.children.capacity().max(queue.in_turn.capacity()) > KEPT {
                *queue = Level::default();
            }
        }
        task
    }
}

impl Level {
    #[inline]
    fn len(&self) -> usize {
        self.children.len() + self.in_turn.len()
    }

    #[inline]
    fn pop(&mut self) -> Option<Arc<dyn Run>> {
        self.children.pop_back().or_else(|| self.in_turn.pop_front())
    }

    fn pop_oldest(&mut self) -> Option<Arc<dyn Run>> {
        match (self.children.front(), self.in_turn.front()) {
            (Some(child), Some(other)) if age(other) < age(child) => self.in_turn.pop_front(),
            (None, _) => self.in_turn.pop_front(),
            _ => self.children.pop_front(),
        }
    }
}

fn age(task: &Arc<dyn Run>) -> u64 {
    task.head().queued.load(Ordering::Relaxed)
}

/// Which task of a level.
type Take = fn(&mut Level) -> Option<Arc<dyn Run>>;

//! Items on their way from the threads that make them to the one that consumes them.
//!
//! Extra workers claim chunks, make their items, and put them into a buffer for a limited number of
//! chunks, from which one consumer takes them: in order, or as they come. An extra worker that
//! finds the buffer full does not wait: it leaves its thread, and the consumer starts another when
//! there is room. A consumer that finds nothing to take claims a chunk itself; it waits only for
//! chunks that are being made by threads that run.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::context::{Context, Halted};
use super::drive::Pace;
use super::extra_workers::{ExtraWorkers, Turn};
use super::pipeline::{Source, Want};
use super::query::Merge;
use super::reorder::Reorder;

/// How long it should take to make a chunk.
const CHUNK: Duration = Duration::from_micros(75);

/// How long a consumer makes the items itself before it starts extra workers.
const ALONE: Duration = Duration::from_micros(30);

/// Chunks that may be ahead of the consumer, for each thread.
const CHUNKS_PER_THREAD: usize = 4;

/// The chunks of a source on their way to a consumer.
#[derive(Debug)]
pub(crate) struct StreamBuffer<S: Source> {
    context: Context,
    source: S,
    /// No more than so many chunks have been claimed and not been taken.
    capacity: usize,
    /// No chunk has more positions than this.
    largest: usize,
    state: Mutex<BufferState<S::Item>>,
    /// The state has changed in a way that the consumer may wait for.
    changed: Condvar,
}

/// What the lock is for.
#[derive(Debug)]
struct BufferState<T> {
    ready: Ready<T>,
    /// Chunks that were claimed, or are about to be, and have not been taken.
    ahead: usize,
    /// Of these, those that are being made.
    in_progress: usize,
    /// Extra workers that were started and have not left.
    started: usize,
    /// Of these, those that are at work.
    working: usize,
    /// The source has nothing left.
    exhausted: bool,
    /// The size of chunk that the last thread has found right, for threads that begin.
    size: usize,
}

#[derive(Debug)]
enum Ready<T> {
    Ordered(Reorder<Vec<T>>),
    Unordered(VecDeque<Vec<T>>),
}

impl<T> Ready<T> {
    fn push(&mut self, span: (usize, usize), items: Vec<T>) {
        match self {
            Self::Ordered(reorder) => reorder.push(span, items),
            Self::Unordered(queue) => queue.push_back(items),
        }
    }

    fn pop(&mut self) -> Option<Vec<T>> {
        match self {
            Self::Ordered(reorder) => reorder.pop(),
            Self::Unordered(queue) => queue.pop_front(),
        }
    }
}

/// What a consumer does next.
enum Next<T> {
    Take(Vec<T>),
    Make,
    End,
}

impl<S: Source> StreamBuffer<S> {
    pub(crate) fn new(context: Context, source: S, ordered: bool, merge: Merge) -> Self {
        let state = BufferState {
            ready: match ordered {
                true => Ready::Ordered(Reorder::new(0)),
                false => Ready::Unordered(VecDeque::new()),
            },
            ahead: 0,
            in_progress: 0,
            started: 0,
            working: 0,
            exhausted: false,
            size: 1,
        };
        Self {
            capacity: context.extra_workers.threads() * CHUNKS_PER_THREAD,
            largest: if merge == Merge::None { 1 } else { usize::MAX },
            context,
            source,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn extra_workers(&self) -> &ExtraWorkers {
        &self.context.extra_workers
    }

    fn state(&self) -> MutexGuard<'_, BufferState<S::Item>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of an extra worker that was started. Leaves when there is no room or nothing to do.
    pub(crate) fn turn(&self) -> Turn {
        let mut state = self.state();
        state.working += 1;
        let mut pace = Pace::new(state.size, CHUNK);
        let turn = loop {
            if state.exhausted || state.ahead >= self.capacity || self.context.is_halted() {
                state.started -= 1;
                break Turn::Done;
            }
            self.make(state, &mut pace);
            let should_leave = self.context.extra_workers.should_leave();
            state = self.state();
            if should_leave {
                break Turn::Yield;
            }
        };
        state.working -= 1;
        drop(state);
        self.changed.notify_all();
        turn
    }

    /// Claims a chunk and makes its items.
    fn make(&self, mut state: MutexGuard<'_, BufferState<S::Item>>, pace: &mut Pace) {
        state.ahead += 1;
        state.in_progress += 1;
        drop(state);
        let share = self.context.extra_workers.threads() * CHUNKS_PER_THREAD;
        let made = self.context.guard(|| {
            let claimed = self.source.claim(Want::about(pace.size.min(self.largest), share))?;
            Some(((claimed.start, claimed.end), claimed.items.collect::<Vec<_>>()))
        });
        if let Ok(Some(((start, end), _))) = &made {
            pace.note(end - start);
        }
        let mut state = self.state();
        state.in_progress -= 1;
        state.size = pace.size;
        match made {
            Ok(Some((span, items))) => state.ready.push(span, items),
            Ok(None) => {
                state.ahead -= 1;
                state.exhausted = true;
            }
            Err(Halted) => state.ahead -= 1,
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The next items for the consumer, or none at the end. Starts extra workers with
    /// `start_worker`.
    ///
    /// # Errors
    /// If the run has ended early. Then no extra worker is at work any more.
    pub(crate) fn next(
        &self,
        consumer: &mut StreamConsumer,
        start_worker: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<S::Item>>, Halted> {
        loop {
            match self.look(consumer, start_worker)? {
                Next::Take(items) => return Ok(Some(items)),
                Next::End => return Ok(None),
                Next::Make => {
                    let begun = Instant::now();
                    self.make(self.state(), &mut consumer.pace);
                    consumer.alone += begun.elapsed();
                }
            }
        }
    }

    fn look(
        &self,
        consumer: &mut StreamConsumer,
        start_worker: &dyn Fn() -> bool,
    ) -> Result<Next<S::Item>, Halted> {
        let mut state = self.state();
        loop {
            if self.context.is_halted() {
                drop(state);
                self.wait_for_extra_workers();
                return Err(Halted);
            }
            if let Some(items) = state.ready.pop() {
                state.ahead -= 1;
                self.start_extra_workers(state, consumer, start_worker);
                return Ok(Next::Take(items));
            }
            if state.exhausted && state.in_progress == 0 {
                return Ok(Next::End);
            }
            if !state.exhausted && state.ahead < self.capacity {
                self.start_extra_workers(state, consumer, start_worker);
                consumer.pace.begin();
                return Ok(Next::Make);
            }
            state = self.wait(state);
        }
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, BufferState<S::Item>>,
    ) -> MutexGuard<'a, BufferState<S::Item>> {
        let wait = || self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        self.context.extra_workers.waiting(wait)
    }

    /// Starts as many extra workers as are missing, when there is room for as much as they should
    /// make.
    fn start_extra_workers(
        &self,
        mut state: MutexGuard<'_, BufferState<S::Item>>,
        consumer: &StreamConsumer,
        start_worker: &dyn Fn() -> bool,
    ) {
        let most = self.context.extra_workers.threads() - 1;
        let wanted = consumer.alone > ALONE && !state.exhausted && state.ahead <= self.capacity / 2;
        let missing = if wanted { most - state.started.min(most) } else { 0 };
        state.started += missing;
        drop(state);
        let refused = (0..missing).filter(|_| !start_worker()).count();
        if refused > 0 {
            self.state().started -= refused;
        }
    }

    /// No more chunks are begun; waits for those that are.
    pub(crate) fn stop(&self) {
        self.context.halt();
        self.wait_for_extra_workers();
    }

    fn wait_for_extra_workers(&self) {
        let mut state = self.state();
        while state.working > 0 {
            state = self.wait(state);
        }
    }
}

/// What the consumer keeps.
#[derive(Debug)]
pub(crate) struct StreamConsumer {
    pace: Pace,
    /// How long it has made items itself.
    alone: Duration,
}

impl StreamConsumer {
    pub(crate) fn new() -> Self {
        Self { pace: Pace::new(1, CHUNK), alone: Duration::ZERO }
    }
}

//! Items that are made while others are consumed.
//!
//! Helpers claim chunks, make their items, and put them into a window of a limited number of chunks, from
//! which one consumer takes them: in order, or as they come. A helper that finds the window full does not
//! wait: it leaves its thread, and the consumer calls another when there is room. A consumer that finds
//! nothing to take claims a chunk itself; it waits only for what helpers have claimed already. So whoever
//! waits waits for somebody who runs.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::context::{Context, Halted};
use super::crew::{Crew, Turn};
use super::drive::Pace;
use super::pipeline::{Source, Want};
use super::row::Row;
use super::settings::Merge;

/// How long it should take to make a chunk.
const CHUNK: Duration = Duration::from_micros(75);

/// How long a consumer makes the items itself before it calls for help.
const PATIENCE: Duration = Duration::from_micros(30);

/// Chunks that may be ahead of the consumer, for each thread.
const WINDOW_PER_THREAD: usize = 4;

/// The chunks of a source on their way to a consumer.
#[derive(Debug)]
pub(crate) struct Production<S: Source> {
    context: Context,
    source: S,
    /// No more than so many chunks have been claimed and not been taken.
    window: usize,
    /// No chunk has more positions than this.
    largest: usize,
    floor: Mutex<Floor<S::Item>>,
    /// Something has changed that the consumer may wait for.
    news: Condvar,
}

/// What the lock is for.
#[derive(Debug)]
struct Floor<T> {
    ready: Ready<T>,
    /// Chunks that were claimed, or are about to be, and have not been taken.
    ahead: usize,
    /// Of these, those that are being made.
    made: usize,
    /// Helpers that were called and have not left.
    called: usize,
    /// Of these, those that are at work.
    working: usize,
    /// The source has nothing left.
    exhausted: bool,
    /// The size of chunk that somebody has found right, for those who begin.
    size: usize,
}

#[derive(Debug)]
enum Ready<T> {
    Ordered(Row<Vec<T>>),
    Unordered(VecDeque<Vec<T>>),
}

impl<T> Ready<T> {
    fn push(&mut self, span: (usize, usize), items: Vec<T>) {
        match self {
            Self::Ordered(row) => row.push(span, items),
            Self::Unordered(line) => line.push_back(items),
        }
    }

    fn pop(&mut self) -> Option<Vec<T>> {
        match self {
            Self::Ordered(row) => row.pop(),
            Self::Unordered(line) => line.pop_front(),
        }
    }
}

/// What a consumer does next.
enum Next<T> {
    Take(Vec<T>),
    Make,
    End,
}

impl<S: Source> Production<S> {
    pub(crate) fn new(context: Context, source: S, ordered: bool, merge: Merge) -> Self {
        let ready =
            if ordered { Ready::Ordered(Row::new(0)) } else { Ready::Unordered(VecDeque::new()) };
        let floor =
            Floor { ready, ahead: 0, made: 0, called: 0, working: 0, exhausted: false, size: 1 };
        Self {
            window: context.crew.threads() * WINDOW_PER_THREAD,
            largest: if merge == Merge::None { 1 } else { usize::MAX },
            context,
            source,
            floor: Mutex::new(floor),
            news: Condvar::new(),
        }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn crew(&self) -> &Crew {
        &self.context.crew
    }

    fn floor(&self) -> MutexGuard<'_, Floor<S::Item>> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A helper's turn, for which it was called. Leaves when there is no room or nothing to do.
    pub(crate) fn help(&self) -> Turn {
        let mut floor = self.floor();
        floor.working += 1;
        let mut pace = Pace::new(floor.size, CHUNK);
        let turn = loop {
            if floor.exhausted || floor.ahead >= self.window || self.context.is_halted() {
                floor.called -= 1;
                break Turn::Done;
            }
            self.make(floor, &mut pace);
            let gives_way = self.context.crew.gives_way();
            floor = self.floor();
            if gives_way {
                break Turn::Yield;
            }
        };
        floor.working -= 1;
        drop(floor);
        self.news.notify_all();
        turn
    }

    /// Claims a chunk and makes its items.
    fn make(&self, mut floor: MutexGuard<'_, Floor<S::Item>>, pace: &mut Pace) {
        floor.ahead += 1;
        floor.made += 1;
        drop(floor);
        let share = self.context.crew.threads() * WINDOW_PER_THREAD;
        let made = self.context.guard(|| {
            let claimed = self.source.claim(Want::about(pace.size.min(self.largest), share))?;
            Some(((claimed.start, claimed.end), claimed.items.collect::<Vec<_>>()))
        });
        if let Ok(Some(((start, end), _))) = &made {
            pace.note(end - start);
        }
        let mut floor = self.floor();
        floor.made -= 1;
        floor.size = pace.size;
        match made {
            Ok(Some((span, items))) => floor.ready.push(span, items),
            Ok(None) => {
                floor.ahead -= 1;
                floor.exhausted = true;
            }
            Err(Halted) => floor.ahead -= 1,
        }
        drop(floor);
        self.news.notify_all();
    }

    /// The next items for the consumer, or none at the end. Calls helpers with `recruit`.
    ///
    /// # Errors
    /// If the run has ended early. Then no helper is at work any more.
    pub(crate) fn next(
        &self,
        consumer: &mut Consuming,
        recruit: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<S::Item>>, Halted> {
        loop {
            match self.look(consumer, recruit)? {
                Next::Take(items) => return Ok(Some(items)),
                Next::End => return Ok(None),
                Next::Make => {
                    let begun = Instant::now();
                    self.make(self.floor(), &mut consumer.pace);
                    consumer.alone += begun.elapsed();
                }
            }
        }
    }

    fn look(
        &self,
        consumer: &mut Consuming,
        recruit: &dyn Fn() -> bool,
    ) -> Result<Next<S::Item>, Halted> {
        let mut floor = self.floor();
        loop {
            if self.context.is_halted() {
                drop(floor);
                self.wait_for_helpers();
                return Err(Halted);
            }
            if let Some(items) = floor.ready.pop() {
                floor.ahead -= 1;
                self.call_helpers(floor, consumer, recruit);
                return Ok(Next::Take(items));
            }
            if floor.exhausted && floor.made == 0 {
                return Ok(Next::End);
            }
            if !floor.exhausted && floor.ahead < self.window {
                self.call_helpers(floor, consumer, recruit);
                consumer.pace.begin();
                return Ok(Next::Make);
            }
            floor = self.wait(floor);
        }
    }

    fn wait<'a>(&self, floor: MutexGuard<'a, Floor<S::Item>>) -> MutexGuard<'a, Floor<S::Item>> {
        self.context.crew.waiting(|| self.news.wait(floor).unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls as many helpers as are missing, when there is room for as much as they should make.
    fn call_helpers(
        &self,
        mut floor: MutexGuard<'_, Floor<S::Item>>,
        consumer: &Consuming,
        recruit: &dyn Fn() -> bool,
    ) {
        let most = self.context.crew.threads() - 1;
        let wanted =
            consumer.alone > PATIENCE && !floor.exhausted && floor.ahead <= self.window / 2;
        let missing = if wanted { most - floor.called.min(most) } else { 0 };
        floor.called += missing;
        drop(floor);
        let refused = (0..missing).filter(|_| !recruit()).count();
        if refused > 0 {
            self.floor().called -= refused;
        }
    }

    /// No more chunks are begun; waits for those that are.
    pub(crate) fn stop(&self) {
        self.context.halt();
        self.wait_for_helpers();
    }

    fn wait_for_helpers(&self) {
        let mut floor = self.floor();
        while floor.working > 0 {
            floor = self.wait(floor);
        }
    }
}

/// What a consumer keeps.
#[derive(Debug)]
pub(crate) struct Consuming {
    pace: Pace,
    /// How long it has made items itself.
    alone: Duration,
}

impl Consuming {
    pub(crate) fn new() -> Self {
        Self { pace: Pace::new(1, CHUNK), alone: Duration::ZERO }
    }
}

//! The loop in which threads claim chunks and consume them, and how large the chunks are.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::context::{Context, Halted};
use super::extra_workers::{ExtraWorkers, Role, Turn, Work};
use super::pipeline::{Source, Want};
use crate::tasks::ticks::{about, ticks};

/// How long a chunk should take. Claiming one costs about a tenth of a microsecond, and a thread
/// that wants the others to stop waits for about as long as a chunk takes.
const CHUNK: Duration = Duration::from_micros(75);

/// How long a query runs on the calling thread before it starts extra workers: about what it costs
/// to wake another thread and to wait for it.
const ALONE: Duration = Duration::from_micros(30);

/// While that lasts, chunks are smaller.
const CHUNK_ALONE: Duration = Duration::from_micros(15);

/// A chunk is no more than so many times as large as the one before: the first elements may be
/// cheap.
const GROWTH: usize = 16;

/// Chunks that a thread should be able to claim until the end, so that no thread waits long for the
/// last.
const CHUNKS_PER_THREAD: usize = 4;

/// What a terminal, or an operator that needs all of its input, does with chunks.
pub(crate) trait Consumer<T>: Sync {
    /// What a thread keeps between chunks. Threads may take over from one another.
    type State: Send;

    /// How long a chunk should take.
    const CHUNK: Duration = CHUNK;

    fn start(&self) -> Self::State;

    /// Consumes one chunk. Breaks if no more chunks are needed: those that are claimed already will
    /// still be consumed, by the threads that have them.
    fn consume(
        &self,
        state: &mut Self::State,
        span: (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()>;
}

/// Consumes all chunks, or those up to a break. Yields what the threads have kept.
pub(crate) fn drive<S: Source, C: Consumer<S::Item>>(
    context: &Context,
    source: &S,
    consumer: &C,
) -> Result<Vec<C::State>, Halted> {
    let drive = Drive {
        context,
        source,
        consumer,
        size: AtomicUsize::new(1),
        over: AtomicBool::new(false),
        states: Mutex::new(Vec::new()),
    };
    context.extra_workers.run(&drive);
    context.check()?;
    Ok(drive.states.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Drive<'a, S, C: Consumer<S::Item>>
where
    S: Source,
{
    context: &'a Context,
    source: &'a S,
    consumer: &'a C,
    /// The size of chunk that the last thread has found right, for threads that begin.
    size: AtomicUsize,
    /// No more chunks are needed.
    over: AtomicBool,
    /// The states of threads that are not at work: between their turns, and in the end.
    states: Mutex<Vec<C::State>>,
}

impl<S: Source, C: Consumer<S::Item>> Work for Drive<'_, S, C> {
    fn turn(&self, role: Role, extra_workers: &ExtraWorkers) -> Turn {
        if self.over.load(Ordering::Relaxed) || self.context.is_halted() {
            return Turn::Done;
        }
        let kept = self.states.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Ok(mut state) = self.context.guard(|| kept.unwrap_or_else(|| self.consumer.start()))
        else {
            return Turn::Done;
        };
        let turn = self.claim_and_consume(&mut state, role, extra_workers);
        self.states.lock().unwrap_or_else(PoisonError::into_inner).push(state);
        turn
    }

    fn useful_workers(&self) -> usize {
        self.source.remaining().unwrap_or(usize::MAX)
    }
}

impl<S: Source, C: Consumer<S::Item>> Drive<'_, S, C> {
    fn claim_and_consume(
        &self,
        state: &mut C::State,
        role: Role,
        extra_workers: &ExtraWorkers,
    ) -> Turn {
        let share = if extra_workers.threads() == 1 {
            0
        } else {
            extra_workers.threads() * CHUNKS_PER_THREAD
        };
        let length = if role == Role::CallerAlone { CHUNK_ALONE } else { C::CHUNK };
        let mut pace = Pace::new(self.size.load(Ordering::Relaxed), length);
        let begun = pace.at;
        loop {
            if self.over.load(Ordering::Relaxed) || self.context.is_halted() {
                return Turn::Done;
            }
            let step = self.context.guard(|| {
                let claimed = self.source.claim(Want::about(pace.size, share))?;
                let (span, positions) = ((claimed.start, claimed.end), claimed.positions());
                Some((positions, self.consumer.consume(state, span, claimed.items)))
            });
            let Ok(Some((positions, flow))) = step else { return Turn::Done };
            if flow.is_break() {
                self.over.store(true, Ordering::Relaxed);
                return Turn::Done;
            }
            if self.source.remaining() == Some(0) {
                // There is no next chunk whose size would follow from how long this one took.
                return Turn::Done;
            }
            pace.note(positions);
            self.size.store(pace.size, Ordering::Relaxed);
            let leaves = match role {
                Role::CallerAlone => pace.at.saturating_sub(begun) > about(ALONE),
                Role::Caller => false,
                Role::Extra => extra_workers.should_leave(),
            };
            if leaves {
                return Turn::Yield;
            }
        }
    }
}

/// Finds out how large a chunk has to be in order to take so long.
#[derive(Debug)]
pub(crate) struct Pace {
    pub(crate) size: usize,
    /// In ticks.
    length: u64,
    /// When the last chunk ended.
    at: u64,
}

impl Pace {
    pub(crate) fn new(size: usize, length: Duration) -> Self {
        Self { size, length: about(length), at: ticks() }
    }

    /// Something else was done since the last chunk.
    pub(crate) fn begin(&mut self) {
        self.at = ticks();
    }

    /// A chunk of so many positions has just ended.
    pub(crate) fn note(&mut self, positions: usize) {
        let now = ticks();
        let took = now.saturating_sub(self.at).max(1);
        self.at = now;
        let right = self.length.saturating_mul(positions as u64) / took;
        let right = usize::try_from(right).unwrap_or(usize::MAX);
        self.size = right.clamp(1, self.size.saturating_mul(GROWTH));
    }
}

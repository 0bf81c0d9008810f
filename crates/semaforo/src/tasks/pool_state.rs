//! The state that all workers of a pool share: its queues, its sleepers, its end.

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};

use super::head::{Run, state, survive};
use super::levels::Levels;
use super::local::Local;
use super::metrics::{LevelMetrics, Metrics};
use super::own_threads::OwnThreads;
use super::registry::Registry;
use super::scheduler::Scheduled;
use super::sleepers::{Sleepers, Wait, Woken};
use super::ticks::CLOCK;
use super::worker::{self, Worker, with_worker_of};
use crate::policy::{Gate, Opening};
use crate::primitive::{AtomicU32, Ordering, ThreadBuilder, fence};
use crate::synchronizer::Synchronizer;

/// In which order a pool's workers pick tasks.
#[doc(alias = "PriorityBlockingQueue")]
#[doc(alias = "work stealing")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A task that is started inside a task goes to its worker's own queue, from which that takes
    /// the youngest first, and others steal the oldest, of the most urgent level.
    ///
    /// Before every pick a worker looks at the queue of all: it never begins a task of its own
    /// while a more urgent one, whose start was complete before it looked, is in that queue. In
    /// that queue, within a level, first come is first served. Between the queues of two workers
    /// there is no order.
    #[default]
    Stealing,
    /// All tasks go to the queue of all.
    ///
    /// A worker never begins a task while a more urgent one is waiting, whose start was complete
    /// before the worker looked; within a level tasks begin in the order in which they were
    /// started.
    ///
    /// That holds also for tasks that a worker waits for: another thread takes its place meanwhile.
    /// So with more waits inside one another than there are [stand-ins](super::Builder::stand_ins),
    /// all wait for ever; and so they do if tasks that come first wait for something that such a
    /// waiter holds, with fewer [spare threads](super::Builder::spares) than such tasks.
    #[doc(alias = "PriorityTaskScheduler")]
    Strict,
}

/// What becomes of a pool.
mod phase {
    pub(super) const OPEN: u32 = 0;
    /// What is queued is still run, and what that starts.
    pub(super) const DRAINING: u32 = 1;
    /// What is queued is cancelled.
    pub(super) const CANCELLING: u32 = 2;
    /// No worker runs anything any more.
    pub(super) const ENDED: u32 = 3;
}

/// What tasks and threads know their pool by: its address, which no other pool has while this one
/// is there. It is compared, and never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolId(NonZeroUsize);

pub(crate) struct PoolState {
    pub(crate) levels: Levels,
    pub(crate) mode: Mode,
    /// Every so many picks the oldest of the less urgent tasks is served; 0 means never.
    pub(crate) aging: u32,
    pub(crate) normal: u32,
    pub(crate) threads: usize,
    pub(crate) name: String,
    pub(crate) sleepers: Sleepers,
    phase: AtomicU32,
    /// By the number of a worker; those of spare threads are made when they are first needed.
    locals: Box<[OnceLock<Arc<Local>>]>,
    /// How many of them may be there.
    used: AtomicU32,
    /// How many tasks are on threads of their own.
    long_running: AtomicU32,
    own_threads: OwnThreads,
    pub(crate) futures: Registry,
    /// Opens when the last thread ends.
    pub(crate) ended: Synchronizer<Gate>,
}

/// What a pool is made of.
pub(crate) struct PoolSettings {
    pub(crate) threads: usize,
    pub(crate) stand_ins: usize,
    pub(crate) spares: usize,
    pub(crate) levels: u32,
    pub(crate) normal: u32,
    pub(crate) mode: Mode,
    pub(crate) aging: u32,
    pub(crate) name: String,
}

impl PoolState {
    pub(crate) fn new(settings: PoolSettings) -> Arc<Self> {
        let PoolSettings { threads, stand_ins, spares, levels, normal, mode, aging, name } =
            settings;
        let locals: Box<[_]> = (0..threads + stand_ins + spares).map(|_| OnceLock::new()).collect();
        for local in &locals[..threads] {
            let _ = local.set(Arc::new(Local::new(levels)));
        }
        Arc::new(Self {
            levels: Levels::new(levels),
            mode,
            aging,
            normal,
            threads,
            name,
            sleepers: Sleepers::new(threads, stand_ins, spares),
            phase: AtomicU32::new(phase::OPEN),
            locals,
            used: AtomicU32::new(threads as u32),
            long_running: AtomicU32::new(0),
            own_threads: OwnThreads::default(),
            futures: Registry::new(),
            ended: Synchronizer::new(Gate, 0),
        })
    }

    #[inline]
    pub(crate) fn id(&self) -> PoolId {
        PoolId(NonNull::from(self).addr())
    }

    /// The queues of all workers that there ever were.
    pub(crate) fn locals(&self) -> impl Iterator<Item = &Local> {
        let used = self.used.load(Ordering::Acquire) as usize;
        self.locals[..used].iter().filter_map(|local| local.get().map(|local| &**local))
    }

    /// Starts the thread of a worker.
    pub(crate) fn start_worker(self: &Arc<Self>, index: usize, spare: bool) -> std::io::Result<()> {
        let local = Arc::clone(
            self.locals[index].get_or_init(|| Arc::new(Local::new(self.levels.count()))),
        );
        self.used.fetch_max(index as u32 + 1, Ordering::AcqRel);
        let pool = Arc::clone(self);
        let name = format!("{}-{index}", self.name);
        let body = move || Worker::new(pool, index, local, spare).work();
        ThreadBuilder::new().name(name).spawn(body).map(drop)
    }

    #[cold]
    fn start_spare(self: &Arc<Self>, index: usize) {
        if self.start_worker(index, true).is_err() {
            self.sleepers.lose_spare(index).into_iter().for_each(std::task::Wake::wake);
        }
    }

    /// A thread ends.
    pub(crate) fn leave(self: &Arc<Self>) {
        if self.sleepers.remove_thread() {
            let Ok(_) = self.ended.release(Opening::Open);
        } else {
            // A worker that has looked meanwhile may have found that only this one did not sleep.
            self.look_after_end();
        }
    }

    /// Takes a task that is ready to run.
    #[inline]
    pub(crate) fn enqueue(self: &Arc<Self>, task: Arc<dyn Run>) {
        let state = task.head().load();
        self.enqueue_as(task, state);
    }

    /// [`enqueue`](Self::enqueue), for a caller that has just read the task's state.
    #[inline]
    pub(crate) fn enqueue_as(self: &Arc<Self>, task: Arc<dyn Run>, state: u32) {
        if state & state::LONG_RUNNING != 0 {
            return self.run_on_own_thread(task);
        }
        if self.mode == Mode::Stealing && state & state::FAIR == 0 {
            let mut task = Some(task);
            with_worker_of(self.id(), |worker| {
                worker.local.push(task.take().expect("called once"));
            });
            match task {
                Some(task) => self.push_global(task),
                None if self.sleepers.must_wake() => self.wake(),
                None => (),
            }
            return;
        }
        self.push_global(task);
    }

    /// Adds a task to the queue of all, and wakes a worker.
    #[inline]
    pub(crate) fn push_global(self: &Arc<Self>, task: Arc<dyn Run>) {
        self.levels.push(task.head().level, task);
        if self.sleepers.must_wake() {
            self.wake();
        }
        if self.phase.load(Ordering::SeqCst) == phase::ENDED {
            // No worker comes for it any more.
            self.cancel_queued();
        }
    }

    /// Wakes a sleeping worker, or starts a spare thread.
    #[cold]
    fn wake(self: &Arc<Self>) {
        match self.sleepers.take_sleeper() {
            None => (),
            Some(Woken::Worker(parker)) => std::task::Wake::wake(parker),
            Some(Woken::NewSpare(index)) => self.start_spare(index),
        }
    }

    /// Wakes a worker, if there is something to do and no other searches: for a worker that has
    /// searched, has opened a vacancy, or has moved tasks.
    pub(crate) fn wake_if_needed(self: &Arc<Self>) {
        fence(Ordering::SeqCst);
        if self.sleepers.must_wake() && self.has_work() {
            self.wake();
        }
    }

    /// Whether something is queued. For a worker that has already said that it sleeps, or searches no
    /// more: see [`Local::push`].
    pub(crate) fn has_work(&self) -> bool {
        !self.levels.is_empty() || self.locals().any(Local::has_tasks)
    }

    /// Runs a task on a thread of its own, which a future keeps between its polls.
    fn run_on_own_thread(self: &Arc<Self>, task: Arc<dyn Run>) {
        let Some(task) = self.own_threads.wake(task) else { return };
        self.sleepers.add_thread();
        self.long_running.fetch_add(1, Ordering::SeqCst);
        if matches!(self.phase(), phase::CANCELLING | phase::ENDED) {
            cancel(task);
            return self.end_own_thread();
        }
        let pool = Arc::clone(self);
        let name = format!("{}-long-{}", self.name, task.head().id);
        let begun = Arc::clone(&task);
        let body = move || {
            worker::own_thread_begins(pool.id());
            pool.own_threads.run(begun, pool.id());
            pool.end_own_thread();
        };
        if ThreadBuilder::new().name(name).spawn(body).is_err() {
            // Better late than never.
            self.push_global(task);
            self.end_own_thread();
        }
    }

    fn end_own_thread(self: &Arc<Self>) {
        self.long_running.fetch_sub(1, Ordering::SeqCst);
        self.leave();
    }

    #[inline]
    fn phase(&self) -> u32 {
        self.phase.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.phase() == phase::ENDED
    }

    #[inline]
    pub(crate) fn is_cancelling(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == phase::CANCELLING
    }

    /// Why a task cannot be started now, if it cannot.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<u32> {
        match self.phase.load(Ordering::Relaxed) {
            phase::OPEN => None,
            phase::DRAINING if worker::runs_tasks_of(self.id()) => None,
            _ => Some(state::SHUT_DOWN),
        }
    }

    /// Begins to end the pool. Asking to cancel is possible also when it is draining.
    pub(crate) fn close(self: &Arc<Self>, cancels: bool) {
        let next = if cancels { phase::CANCELLING } else { phase::DRAINING };
        let mut current = self.phase();
        while current < next {
            let changed =
                self.phase.compare_exchange(current, next, Ordering::SeqCst, Ordering::SeqCst);
            match changed {
                Ok(_) => break,
                Err(now) => current = now,
            }
        }
        if cancels {
            self.cancel_queued();
            self.futures.all().iter().filter_map(Weak::upgrade).for_each(cancel);
        }
        self.look_after_end();
    }

    /// Has a worker look whether a pool that is closed has nothing left to do.
    pub(crate) fn look_after_end(self: &Arc<Self>) {
        if self.phase() != phase::OPEN {
            self.wake();
        }
    }

    /// Ends a pool that is closed and has nothing left to do.
    pub(crate) fn end_if_drained(&self) {
        let phase = self.phase();
        if !matches!(phase, phase::DRAINING | phase::CANCELLING) || !self.is_drained() {
            return;
        }
        let ended =
            self.phase.compare_exchange(phase, phase::ENDED, Ordering::SeqCst, Ordering::SeqCst);
        if ended.is_ok() {
            fence(Ordering::SeqCst);
            self.cancel_queued();
            self.sleepers.take_all().into_iter().for_each(std::task::Wake::wake);
        }
    }

    /// A future has ended, or was dropped.
    pub(crate) fn unregister(self: &Arc<Self>, number: u64) {
        self.futures.remove(number);
        if self.long_running.load(Ordering::Relaxed) > 0 {
            self.own_threads.look_after_end();
        }
        self.look_after_end();
    }

    fn is_drained(&self) -> bool {
        self.futures.is_empty() && self.sleepers.all_sleep() && !self.has_work()
    }

    fn cancel_queued(&self) {
        std::iter::from_fn(|| self.levels.pop(u32::MAX)).for_each(cancel);
        for local in self.locals() {
            std::iter::from_fn(|| local.pop_oldest()).for_each(cancel);
        }
        // Their joiners do not wait for what else this thread has to do.
        worker::count_out_finished();
    }

    pub(crate) fn scheduled(&self) -> Vec<Scheduled> {
        let (mut scheduled, now) = (Vec::new(), CLOCK.now());
        self.levels.visit(|task| scheduled.extend(Scheduled::of_task(task, None, &now)));
        for (index, local) in self.locals().enumerate() {
            local.visit(|task| scheduled.extend(Scheduled::of_task(task, Some(index), &now)));
        }
        scheduled.sort_by(|one, other| (one.level, other.age).cmp(&(other.level, one.age)));
        scheduled
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let long_running = self.long_running.load(Ordering::Relaxed) as usize;
        let (threads, sleeping, spares) = self.sleepers.counts();
        let mut metrics = Metrics {
            levels: (0..self.levels.count()).map(|_| LevelMetrics::new()).collect(),
            running: long_running,
            threads,
            sleeping,
            spares,
            waiting: 0,
            joining: 0,
            steals: 0,
            run_by_waiters: 0,
        };
        let tick = CLOCK.tick_length();
        for (level, of_level) in (0..).zip(&mut metrics.levels) {
            of_level.queued = self.levels.len(level);
            for local in self.locals() {
                of_level.queued += local.len(level);
                local.counters.add_to(level, tick, of_level);
            }
        }
        for local in self.locals() {
            metrics.running += local.counters.busy.get() as usize;
            metrics.steals += local.counters.steals.get();
            metrics.waiting += usize::from(local.counters.waits_for(Wait::Other));
            metrics.joining += usize::from(local.counters.waits_for(Wait::Tasks));
            metrics.run_by_waiters += local.counters.run_here.get();
        }
        metrics
    }
}

/// Cancels a task because its pool ends.
fn cancel(task: Arc<dyn Run>) {
    survive(move || task.cancel(state::SHUT_DOWN));
}

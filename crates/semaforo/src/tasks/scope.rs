//! Scopes: tasks that borrow from the caller, who waits for them.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use super::call::{Call, OnEnd};
use super::detached::Detached;
use super::error::Panic;
use super::head::{Head, Run, state};
use super::pool::Pool;
use super::pool_state::Mode;
use super::scoped::{ScopedHandle, ScopedSpawner};
use super::sleepers::Wait;
use super::spawner::{Spawn, Spawner};
use super::worker::{self, run_here, with_worker_of};
use crate::primitive::{
    AtomicBool, AtomicU32, AtomicU64, Ordering, TrackedCell, constant_thread_local,
};
use crate::wait::parker::{Backoff, Parker, Sleeping};
use crate::wait::wake::settle_debts_caught;

/// Tasks that may borrow what is there when [`Pool::scope`] is called: that returns only when all
/// of them have finished.
#[doc(alias = "StructuredTaskScope")]
#[doc(alias = "Parallel.Invoke")]
pub struct Scope<'scope, 'env: 'scope> {
    pool: &'env Pool,
    level: AtomicU32,
    pub(super) pending: PendingTasks,
    /// The thread that called, by its mark.
    owner: usize,
    /// How many tasks that thread may still start for which it has counted in advance. Only that
    /// thread reaches it.
    credit: TrackedCell<u64>,
    /// As in [`std::thread::scope`]: neither may shrink or grow.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

// SAFETY: the credit is reached by the owner's thread only; all else may be shared.
unsafe impl Sync for Scope<'_, '_> {}

/// How many tasks the owner of a scope counts at a time.
const CREDIT: u64 = 64;

/// Instead of the credit, when that was given back.
const GIVEN_BACK: u64 = u64::MAX;

/// An address that no other thread has.
fn thread_mark() -> usize {
    constant_thread_local! {
        static MARK: Cell<u8> = Cell::new(0);
    }
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

/// The tasks that a scope waits for.
///
/// The owner counts as one until it sleeps. As long as it does, a task touches nothing after it was
/// counted out, so the owner may go when it alone is left. Once it sleeps, the thread that counts
/// the last task out takes the owner's parker, says so by `released`, and wakes it.
pub(super) struct PendingTasks {
    count: AtomicU64,
    released: AtomicBool,
    /// Written by the owner before it counts itself out; read by the last.
    sleeper: TrackedCell<Option<Arc<Parker>>>,
    /// Tasks that may be taken back; none once they were.
    optional: Mutex<Option<Vec<Arc<dyn Run>>>>,
    /// The first panic of a task without a handle.
    panic: Mutex<Option<Panic>>,
    /// How many tasks with handles have panicked, which no joiner has seen.
    pub(super) unreported: AtomicU64,
    /// How many tasks without handles a pool that was shut down has not run.
    refused: AtomicU64,
}

// SAFETY: the sleeper is reached by one at a time, as it says.
unsafe impl Sync for PendingTasks {}

impl PendingTasks {
    fn new() -> Self {
        Self {
            count: AtomicU64::new(1),
            released: AtomicBool::new(false),
            sleeper: TrackedCell::new(None),
            optional: Mutex::new(Some(Vec::new())),
            panic: Mutex::new(None),
            unreported: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    #[inline]
    fn is_alone(&self) -> bool {
        self.count.load(Ordering::Acquire) == 1
    }

    /// Counts some tasks out. When the last of all is counted out, the owner sleeps already.
    #[inline]
    fn leave(&self, count: u64) {
        if self.count.fetch_sub(count, Ordering::AcqRel) == count {
            // SAFETY: the owner has written it, and sleeps until it is released.
            let sleeper = self.sleeper.look_mut(|sleeper| unsafe { (*sleeper).take() });
            // The owner may be gone from here on.
            self.released.store(true, Ordering::Release);
            if let Some(sleeper) = sleeper {
                sleeper.wake();
            }
        }
    }

    /// Sleeps until all tasks are counted out.
    #[cold]
    fn sleep(&self) {
        let parker = Parker::new();
        // SAFETY: no other thread reads it while the owner is counted.
        self.sleeper.look_mut(|sleeper| unsafe { *sleeper = Some(Arc::clone(&parker)) });
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            return;
        }
        if let Some(panic) = settle_debts_caught() {
            self.keep_panic(Panic::new(panic));
        }
        let _sleeping = Sleeping::now();
        while !self.released.load(Ordering::Acquire) {
            parker.park(None);
        }
    }

    pub(super) fn keep_panic(&self, panic: Panic) {
        let mut panic = Some(panic);
        let mut kept = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = panic.take();
        }
        drop(kept);
        // A later one is dropped here: its payload is a user's value.
        drop(panic);
    }
}

/// Tasks of a scope may borrow while this is there. Whatever unwound past it would end what they
/// borrow, so the process ends instead, as with [`std::thread::scope`].
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("a panic would have ended a scope before its tasks: aborting");
        std::process::abort();
    }
}

/// What tasks and workers know a scope by. It is compared, and followed only for a task that is
/// still counted there: so long the owner waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScopeId(NonNull<PendingTasks>);

// SAFETY: pending tasks may be shared; whether they are still there is for the one who follows it.
unsafe impl Send for ScopeId {}
// SAFETY: as above.
unsafe impl Sync for ScopeId {}

impl ScopeId {
    /// # Safety
    /// A task is counted there for as long as this is used.
    unsafe fn pending<'t>(self) -> &'t PendingTasks {
        // SAFETY: passed on from the caller: so the owner waits.
        unsafe { self.0.as_ref() }
    }

    /// Counts so many tasks out.
    ///
    /// # Safety
    /// They are counted there until now.
    #[inline]
    pub(super) unsafe fn count_out(self, count: u64) {
        // SAFETY: passed on from the caller.
        unsafe { self.pending() }.leave(count);
    }
}

impl fmt::Debug for ScopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts a task out of its scope when dropped, which is the last that is done for it.
pub(super) struct PendingGuard(ScopeId);

impl Drop for PendingGuard {
    #[inline]
    fn drop(&mut self) {
        if !worker::count_out_later(self.0) {
            // SAFETY: the owner waits for this.
            unsafe { self.0.count_out(1) };
        }
    }
}

impl OnEnd for PendingGuard {
    fn keep_panic(&self, panic: Box<dyn Any + Send>) {
        // SAFETY: the owner waits for this.
        unsafe { self.0.pending() }.keep_panic(Panic::new(panic));
    }

    fn keep_cancelled(&self, how: u32) {
        if how & state::SHUT_DOWN != 0 {
            // SAFETY: the owner waits for this.
            unsafe { self.0.pending() }.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The guard of a task that need not run.
struct OptionalGuard(#[allow(dead_code, reason = "it is dropped")] PendingGuard);

impl OnEnd for OptionalGuard {}

impl Pool {
    /// Calls `work` with a scope in which it can start tasks that borrow, and waits for them.
    ///
    /// ```
    /// use semaforo::tasks::Pool;
    ///
    /// let mut numbers = vec![3, 1, 4, 1, 5, 9, 2, 6];
    /// let (left, right) = numbers.split_at_mut(4);
    /// Pool::global().scope(|scope| {
    ///     scope.execute(|| left.sort());
    ///     scope.execute(|| right.sort());
    /// });
    /// assert_eq!(numbers, [1, 1, 3, 4, 2, 5, 6, 9]);
    /// ```
    ///
    /// Called by one of the pool's workers, it runs those tasks of the scope that have not begun,
    /// and nothing else; if all are under way, the worker sleeps, and
    /// [another thread](super::Builder::stand_ins) takes its place.
    ///
    /// # Panics
    /// With the panic of `work`, or of a task that was started without a handle, or because of a
    /// task that panicked and was not joined, or of one without a handle that was never begun
    /// because the pool was shut down; after all have finished.
    pub fn scope<'env, R>(
        &'env self,
        work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> R {
        let scope = Scope {
            pool: self,
            level: AtomicU32::new(self.state().normal),
            pending: PendingTasks::new(),
            owner: thread_mark(),
            credit: TrackedCell::new(0),
            scope: PhantomData,
            env: PhantomData,
        };
        let result = catch_unwind(AssertUnwindSafe(|| work(&scope)));
        let aborts = AbortOnUnwind;
        scope.wait();
        std::mem::forget(aborts);
        let panic = scope.pending.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (result, panic) {
            (Err(panic), _) => resume_unwind(panic),
            (Ok(_), Some(panic)) => panic.resume(),
            (Ok(_), None) if scope.pending.unreported.load(Ordering::Relaxed) > 0 => {
                panic!("a task of the scope panicked, and was not joined")
            }
            (Ok(_), None) if scope.pending.refused.load(Ordering::Relaxed) > 0 => {
                panic!("a task of the scope was never begun: the pool was shut down")
            }
            (Ok(result), None) => result,
        }
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a task at the scope's level.
    ///
    /// ```
    /// use semaforo::tasks::Pool;
    ///
    /// let words = ["to", "be", "or"];
    /// let total = Pool::global().scope(|scope| {
    ///     let lengths = words.each_ref().map(|word| scope.spawn(|| word.len()));
    ///     lengths.into_iter().map(|length| length.wait().unwrap()).sum::<usize>()
    /// });
    /// assert_eq!(total, 6);
    /// ```
    pub fn spawn<T, F>(&'scope self, work: F) -> ScopedHandle<'scope, T>
    where
        T: Send + 'scope,
        F: FnOnce() -> T + Send + 'scope,
    {
        self.start().spawn(work)
    }

    /// Starts a task without a handle. If the pool is shut down and does not begin it, the scope
    /// panics at its end.
    #[inline]
    pub fn execute(&'scope self, work: impl FnOnce() + Send + 'scope) {
        let spawner = self.spawner();
        let task = Arc::new(Detached::new(spawner.how(), work, self.pending_guard()));
        // SAFETY: the task's own count keeps the scope until all of the work is gone.
        spawner.enqueue(unsafe { outlive(task) });
    }

    /// Starts a task that polls `future` whenever it is woken.
    ///
    /// ```
    /// use semaforo::Event;
    /// use semaforo::tasks::Pool;
    ///
    /// let (event, word) = (Event::new(), String::from("tea"));
    /// let length = Pool::global().scope(|scope| {
    ///     let length = scope.spawn_future(async {
    ///         event.happened().await;
    ///         word.len()
    ///     });
    ///     scope.execute(|| event.set());
    ///     length.wait().unwrap()
    /// });
    /// assert_eq!(length, 3);
    /// ```
    pub fn spawn_future<F>(&'scope self, future: F) -> ScopedHandle<'scope, F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        self.start().spawn_future(future)
    }

    /// How a task is to be started: see [`ScopedSpawner`].
    pub fn start(&'scope self) -> ScopedSpawner<'scope, 'env> {
        ScopedSpawner { scope: self, spawner: self.spawner() }
    }

    /// Starts tasks at this level; smaller ones come first.
    ///
    /// # Panics
    /// If the pool has no such level.
    pub fn at(&'scope self, level: u32) -> ScopedSpawner<'scope, 'env> {
        self.start().at(level)
    }

    /// Starts a task without a handle, which is not begun any more after
    /// [`withdraw`](Self::withdraw). False if that was called already.
    pub(crate) fn execute_unless_withdrawn(
        &'scope self,
        work: impl FnOnce() + Send + 'scope,
    ) -> bool {
        let spawner = self.spawner();
        let task = {
            let mut optional = self.pending.optional.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(optional) = &mut *optional else { return false };
            let on_end = OptionalGuard(self.pending_guard());
            let task = Call::new(spawner.how(), state::DETACHED, work, on_end);
            // SAFETY: the task's own count keeps the scope until all of the work is gone.
            let task = unsafe { outlive(Arc::new(task)) };
            optional.push(Arc::clone(&task));
            task
        };
        spawner.enqueue(task);
        true
    }

    /// Takes back those tasks that may be, if they have not begun.
    pub(crate) fn withdraw(&self) {
        let optional = self.pending.optional.lock().unwrap_or_else(PoisonError::into_inner).take();
        for task in optional.into_iter().flatten() {
            task.cancel(0);
        }
    }

    /// At which level the tasks that follow are started. At first it is the pool's normal one.
    ///
    /// # Panics
    /// If the pool has no such level.
    pub fn set_level(&self, level: u32) {
        self.expect_level(level);
        self.level.store(level, Ordering::Relaxed);
    }

    pub(super) fn expect_level(&self, level: u32) {
        let levels = self.pool.levels();
        assert!(level < levels, "there is no level {level}: the pool has {levels}, counted from 0");
    }

    /// The pool that the tasks run on.
    #[must_use]
    pub fn pool(&self) -> &'env Pool {
        self.pool
    }

    #[inline]
    fn spawner(&self) -> Spawner<'env, Pool> {
        self.pool.start().at(self.level.load(Ordering::Relaxed)).in_scope(self.id())
    }

    #[inline]
    fn id(&self) -> ScopeId {
        ScopeId(NonNull::from(&self.pending))
    }

    #[inline]
    pub(super) fn pending_guard(&self) -> PendingGuard {
        if self.owner == thread_mark() {
            // SAFETY: this is the owner's thread.
            self.credit.look_mut(|credit| unsafe {
                match *credit {
                    GIVEN_BACK => _ = self.pending.count.fetch_add(1, Ordering::Relaxed),
                    0 => {
                        self.pending.count.fetch_add(CREDIT, Ordering::Relaxed);
                        *credit = CREDIT - 1;
                    }
                    _ => *credit -= 1,
                }
            });
        } else {
            self.pending.count.fetch_add(1, Ordering::Relaxed);
        }
        PendingGuard(self.id())
    }

    /// For the owner, when it starts no more tasks; what is dropped on its thread still may, each
    /// of which counts by itself.
    fn give_credit_back(&self) {
        // SAFETY: this is the owner's thread.
        let credit =
            self.credit.look_mut(|credit| unsafe { std::mem::replace(&mut *credit, GIVEN_BACK) });
        debug_assert_ne!(credit, GIVEN_BACK);
        if credit > 0 {
            self.pending.count.fetch_sub(credit, Ordering::Relaxed);
        }
    }

    /// Waits until all tasks have finished.
    fn wait(&self) {
        let pending = &self.pending;
        while self.help() {}
        // Not before: those that it runs itself start others by its credit too.
        self.give_credit_back();
        worker::count_out_finished();
        let mut backoff = Backoff::new();
        while !pending.is_alone() {
            if backoff.is_spent() {
                let _waits = worker::WaitsForTasks::of(self.pool.state().id());
                return pending.sleep();
            }
            backoff.wait();
        }
    }

    /// Runs a task of this scope that has not begun. False if there is none at hand.
    fn help(&self) -> bool {
        let pool = self.pool.state().id();
        let task = with_worker_of(pool, |worker| {
            let (local, pool, scope) = (&worker.local, &worker.pool, self.id());
            let at_hand = local.pop_of_scope(scope).or_else(|| pool.levels.pop_of_scope(scope));
            let replaced = || pool.sleepers.can_replace(Wait::Tasks);
            if at_hand.is_some() || pool.mode == Mode::Strict || replaced() {
                return at_hand;
            }
            // No other thread would run tasks that are hidden behind others.
            let wanted = |head: &Head| head.scope == Some(scope);
            local.find(wanted).or_else(|| pool.levels.find(wanted))
        });
        let Some(Some(task)) = task else { return false };
        run_here(task);
        true
    }
}

/// # Safety
/// What the task has borrowed is not used after that ends.
#[inline]
pub(super) unsafe fn outlive<'scope>(task: Arc<dyn Run + 'scope>) -> Arc<dyn Run> {
    // SAFETY: passed on from the caller; only the lifetime changes.
    unsafe { std::mem::transmute::<Arc<dyn Run + 'scope>, Arc<dyn Run>>(task) }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.pending.count.load(Ordering::Relaxed).saturating_sub(1);
        f.debug_struct("Scope").field("pool", self.pool).field("unfinished", &tasks).finish()
    }
}

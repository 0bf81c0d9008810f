//! One thread of a pool: it picks tasks and runs them, searches, and sleeps.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::head::{Head, Run, state, survive};
use super::local::{Local, NONE};
use super::pool_state::{Mode, PoolId, PoolState};
use super::scope::ScopeId;
use super::sleepers::Wait;
use super::ticks::ticks;
use crate::primitive::{MODELLED, Ordering, constant_thread_local, fence, now, pause};
use crate::wait::parker::{Parker, Yields, on_sleep};

/// One thread of a pool.
pub(crate) struct Worker {
    pub(crate) pool: Arc<PoolState>,
    pub(crate) index: usize,
    pub(crate) local: Arc<Local>,
    parker: Arc<Parker>,
    spare: bool,
    /// How many picks it has made.
    picks: Cell<u32>,
    /// The scope whose tasks it has finished last, and how many of them have yet to be counted out
    /// there: not each of them should fetch a cache line that all others want too.
    finished: Cell<(Option<ScopeId>, u64)>,
    /// The scope of the task that it runs.
    running: Cell<Option<ScopeId>>,
    /// How many waits it is in, one in another.
    waits: Cell<u32>,
    /// In which of them, counted from 1, it has opened a vacancy, and what it waits for there.
    vacancy: Cell<Option<(u32, Wait)>>,
}

constant_thread_local! {
    static CURRENT: Cell<*const Worker> = Cell::new(ptr::null());
}

constant_thread_local! {
    /// The pool for one of whose tasks this thread was started, if it was.
    static OWN_THREAD_OF: Cell<Option<PoolId>> = Cell::new(None);
}

/// Out of so many picks from its own queue, a worker makes one in fairness: from the queue of all,
/// if that is as urgent, or else from the other end of its own.
const FAIRNESS: u32 = 61;
/// How often a worker looks again before it yields, and how often it yields before it sleeps.
const LOOKS: u32 = if MODELLED { 0 } else { 20 };
const YIELDS: u32 = if MODELLED { 0 } else { 60 };
/// How long a retired spare thread waits before it ends.
const RETIREMENT: Duration = Duration::from_secs(1);

/// A worker's thread forgets it when this is dropped, however its work has ended: what runs at the
/// thread's end may wait.
struct ForgetWorker<'w>(&'w Worker);

impl Drop for ForgetWorker<'_> {
    fn drop(&mut self) {
        on_sleep(None);
        CURRENT.with(|current| current.set(ptr::null()));
        self.0.pool.leave();
    }
}

/// What a worker does next.
enum Next {
    Run(Arc<dyn Run>),
    End,
}

impl Worker {
    pub(crate) fn new(pool: Arc<PoolState>, index: usize, local: Arc<Local>, spare: bool) -> Self {
        Self {
            pool,
            index,
            local,
            parker: Parker::new(),
            spare,
            picks: Cell::new(0),
            finished: Cell::new((None, 0)),
            running: Cell::new(None),
            waits: Cell::new(0),
            vacancy: Cell::new(None),
        }
    }

    /// Works until the pool ends. A spare thread begins as a searcher.
    pub(crate) fn work(&self) {
        CURRENT.with(|current| current.set(self));
        on_sleep(Some(|begins| {
            let worker = CURRENT.with(Cell::get);
            // SAFETY: set by the thread's own worker, which outlives everything that runs here.
            unsafe { (*worker).wait_begins_or_ends(begins, Wait::Other) };
        }));
        let _ends = ForgetWorker(self);
        let mut searching = self.spare;
        while let Next::Run(task) = self.next(searching) {
            self.run(task);
            searching = false;
        }
    }

    #[inline]
    fn run(&self, task: Arc<dyn Run>) {
        let counters = &self.local.counters;
        let head = task.head();
        if self.finished.get().0 != head.scope {
            self.count_out_finished();
        }
        counters.picked(head.level, head.queued.load(Ordering::Relaxed), ticks);
        if self.pool.is_cancelling() {
            return survive(move || task.cancel(state::SHUT_DOWN));
        }
        counters.busy.set(1);
        self.running.set(head.scope);
        let mut again = None;
        survive(|| again = task.run_at(self.pool.id()));
        self.running.set(None);
        counters.busy.set(0);
        if let Some(again) = again {
            self.pool.enqueue(again);
        }
    }

    #[inline]
    fn next(&self, searching: bool) -> Next {
        if !(searching || self.spare && self.pool.sleepers.has_surplus()) {
            if let Some(task) = self.find() {
                return Next::Run(task);
            }
        }
        self.search(searching)
    }

    #[cold]
    fn search(&self, mut searching: bool) -> Next {
        self.count_out_finished();
        let sleepers = &self.pool.sleepers;
        let mut looks = 0;
        let mut yields = None;
        loop {
            if self.spare && sleepers.has_surplus() {
                if searching && sleepers.end_search() {
                    // Another worker has to find what it was woken for.
                    self.pool.wake_if_needed();
                }
                if !self.retire() {
                    return Next::End;
                }
                searching = true;
            }
            if !searching {
                sleepers.begin_search();
                searching = true;
            }
            if let Some(task) = self.find() {
                if sleepers.end_search() {
                    self.pool.wake_if_needed();
                }
                return Next::Run(task);
            }
            looks += 1;
            if (..=LOOKS).contains(&looks) {
                (0..looks).for_each(|_| pause());
            } else if !yields.get_or_insert_with(|| Yields::at_most(YIELDS)).next() {
                looks = 0;
                yields = None;
                if self.pool.has_ended() || !self.sleep() {
                    return Next::End;
                }
            }
        }
    }

    /// Sleeps, as one who searched, until there may be something to do. False if the pool has
    /// ended.
    fn sleep(&self) -> bool {
        let pool = &self.pool;
        pool.sleepers.add(&self.parker);
        fence(Ordering::SeqCst);
        if pool.has_work() {
            pool.sleepers.remove(&self.parker);
            // If it is no task, another worker is about to find that there is none.
            pause();
            return true;
        }
        pool.end_if_drained();
        if !pool.has_ended() {
            self.sleep_until_woken();
        }
        !pool.has_ended()
    }

    /// Sleeps until it is woken. A spare thread wakes by itself to retire: the worker that it has
    /// replaced may have gone on meanwhile, which wakes no thread.
    fn sleep_until_woken(&self) {
        if !self.spare {
            self.parker.park(None);
            return;
        }
        while !self.parker.park(Some(now() + RETIREMENT)) {
            if self.pool.has_ended() {
                return;
            }
            if self.pool.sleepers.has_surplus() {
                return self.pool.sleepers.remove(&self.parker);
            }
            if MODELLED {
                // There all time has passed at once.
                self.parker.park(None);
                return;
            }
        }
    }

    /// A spare thread that is not needed any more gives its tasks to others, and rests. False if it
    /// is to end; otherwise it searches.
    #[cold]
    fn retire(&self) -> bool {
        let sleepers = &self.pool.sleepers;
        while let Some(task) = self.local.pop_oldest() {
            self.pool.push_global(task);
        }
        if !sleepers.retire(&self.parker) {
            sleepers.begin_search();
            return true;
        }
        self.pool.end_if_drained();
        if self.pool.has_ended() {
            return false;
        }
        let woken = self.parker.park(Some(now() + RETIREMENT));
        if self.pool.has_ended() || !woken && sleepers.quit(&self.parker, self.index) {
            return false;
        }
        if !woken {
            // It was asked back at the last moment.
            self.parker.park(None);
        }
        true
    }

    /// Takes the task whose turn it is. A look that finds nothing is no pick, nor is one that finds
    /// a stale task.
    #[inline]
    fn find(&self) -> Option<Arc<dyn Run>> {
        let picks = self.picks.get().wrapping_add(1);
        let pool = &*self.pool;
        let aged = pool.aging != 0 && picks % pool.aging == 0;
        loop {
            let task = aged.then(|| self.pick_oldest_lower()).flatten();
            let task = task.or_else(|| match pool.mode {
                Mode::Strict => pool.levels.pop(u32::MAX),
                Mode::Stealing => self.pick(picks),
            })?;
            if !task.head().is_stale() {
                self.picks.set(picks);
                return Some(task);
            }
            survive(move || drop(task));
        }
    }

    /// Picks from the queue of all if that has something more urgent, then from its own, then
    /// steals.
    #[inline]
    fn pick(&self, picks: u32) -> Option<Arc<dyn Run>> {
        let own = self.local.smallest();
        if self.spare && own == NONE && self.others_have_as_urgent() {
            if let Some(task) = self.steal() {
                return Some(task);
            }
        }
        let in_fairness = picks % FAIRNESS == 0;
        let limit = if in_fairness { own.saturating_add(1) } else { own };
        if let Some(task) = self.pool.levels.pop(limit) {
            return Some(task);
        }
        if own == NONE {
            return self.steal();
        }
        let task = if in_fairness { self.local.pop_oldest() } else { self.local.pop() };
        // A thief may have been faster.
        task.or_else(|| self.pool.levels.pop(u32::MAX)).or_else(|| self.steal())
    }

    /// Whether a worker's own queue has something as urgent as the queue of all. A thread that
    /// replaces a worker takes that first: it may be what the worker waits for, and whatever is
    /// begun in its place may want to be replaced, too.
    #[cold]
    fn others_have_as_urgent(&self) -> bool {
        let common = self.pool.levels.smallest().unwrap_or(NONE);
        let smallest = self.pool.locals().map(Local::smallest).min();
        smallest.is_some_and(|level| level != NONE && level <= common)
    }

    /// Picks the oldest of those that are less urgent than the most urgent.
    #[cold]
    fn pick_oldest_lower(&self) -> Option<Arc<dyn Run>> {
        let levels = &self.pool.levels;
        let most_urgent = levels.smallest().unwrap_or(NONE).min(self.local.smallest());
        let from = most_urgent.checked_add(1)?;
        match (levels.oldest(from), self.local.oldest(from)) {
            (None, None) => None,
            (Some((_, level)), None) => levels.pop_from(level),
            (Some((age, level)), Some((own, _))) if age <= own => levels.pop_from(level),
            (_, Some((_, level))) => self.local.pop_oldest_of(level),
        }
    }

    /// Takes from the worker that has the most urgent task in its own queue.
    #[cold]
    fn steal(&self) -> Option<Arc<dyn Run>> {
        let locals = || self.pool.locals().filter(|local| !ptr::eq(*local, &*self.local));
        let mut victim = locals().min_by_key(|local| local.smallest())?;
        if victim.smallest() == NONE {
            return None;
        }
        let mut stolen = victim.steal(&self.local);
        if stolen.is_none() {
            // Another thread held the lock, and has perhaps left something.
            victim = locals().find(|local| local.smallest() != NONE)?;
            stolen = victim.steal(&self.local);
        }
        if stolen.is_some() {
            self.local.counters.steals.increment();
            if self.local.smallest() != NONE {
                // A worker that looked while this was on its way has seen nothing.
                self.pool.wake_if_needed();
            }
        }
        stolen
    }

    /// Takes a task that is queued somewhere.
    #[cold]
    fn take_queued(&self, head: &Head) -> Option<Arc<dyn Run>> {
        let wanted = |other: &Head| ptr::eq(other, head);
        let pool = &self.pool;
        let own = self.local.find(wanted).or_else(|| pool.levels.find(wanted));
        own.or_else(|| pool.locals().find_map(|local| local.find(wanted)))
    }

    /// Counts out the tasks that it has finished of a scope.
    #[inline]
    fn count_out_finished(&self) {
        if let (Some(scope), count) = self.finished.replace((None, 0)) {
            // SAFETY: they count until now, so the scope is there.
            unsafe { scope.count_out(count) };
        }
    }

    /// Called before this thread waits in the middle of a task, and after.
    #[cold]
    fn wait_begins_or_ends(&self, begins: bool, wait: Wait) {
        if begins {
            self.wait_begins(wait);
        } else {
            self.wait_ends();
        }
    }

    /// A wait inside another is for tasks, or makes no difference.
    fn wait_begins(&self, wait: Wait) {
        self.count_out_finished();
        let depth = self.waits.get() + 1;
        self.waits.set(depth);
        if depth == 1 || wait == Wait::Tasks {
            self.local.counters.set_wait(Some(wait));
        }
        if self.vacancy.get().is_none() && self.pool.sleepers.open_vacancy(wait) {
            self.vacancy.set(Some((depth, wait)));
            self.pool.wake_if_needed();
        }
    }

    fn wait_ends(&self) {
        let depth = self.waits.get();
        self.waits.set(depth - 1);
        if depth == 1 {
            self.local.counters.set_wait(None);
        }
        if let Some((_, wait)) = self.vacancy.get().filter(|(left, _)| *left == depth) {
            self.vacancy.set(None);
            self.pool.sleepers.close_vacancy(wait);
        }
    }
}

/// This thread waits for tasks of a pool, until this is dropped.
pub(crate) struct WaitsForTasks(PoolId);

impl WaitsForTasks {
    pub(crate) fn of(pool: PoolId) -> Self {
        wait_for_tasks_of(pool, true);
        Self(pool)
    }
}

impl Drop for WaitsForTasks {
    fn drop(&mut self) {
        wait_for_tasks_of(self.0, false);
    }
}

/// This thread begins to wait, or has waited, for tasks of this pool. If it is a worker of
/// it, another thread may take its place.
pub(crate) fn wait_for_tasks_of(pool: PoolId, begins: bool) {
    with_worker_of(pool, |worker| worker.wait_begins_or_ends(begins, Wait::Tasks));
}

/// [`wait_for_tasks_of`] a pool, for one of its tasks. A worker that no other thread replaces runs
/// that on the spot, if it is queued and may be: nothing else would.
pub(crate) fn wait_for_task_of(pool: Option<PoolId>, head: &Head, begins: bool) {
    let Some(pool) = pool else { return };
    let at_hand = with_worker_of(pool, |worker| {
        worker.wait_begins_or_ends(begins, Wait::Tasks);
        let queued = head.load() & (state::ON_THE_SPOT | state::STARTED) == state::ON_THE_SPOT;
        let is_stuck = begins && queued && worker.vacancy.get().is_none();
        is_stuck.then(|| worker.take_queued(head)).flatten()
    });
    if let Some(task) = at_hand.flatten() {
        run_here(task);
    }
}

/// The worker that this thread is, if it is one of this pool.
#[inline]
pub(crate) fn with_worker_of<R>(pool: PoolId, look: impl FnOnce(&Worker) -> R) -> Option<R> {
    let current = CURRENT.with(Cell::get);
    if current.is_null() {
        return None;
    }
    // SAFETY: set by the thread's own worker, which outlives everything that runs here.
    let worker = unsafe { &*current };
    (worker.pool.id() == pool).then(|| look(worker))
}

/// Whether this thread is a worker of this pool.
pub(crate) fn is_of(pool: PoolId) -> bool {
    with_worker_of(pool, |_| ()).is_some()
}

/// This thread runs one task of this pool, and then ends.
pub(crate) fn own_thread_begins(pool: PoolId) {
    OWN_THREAD_OF.with(|apart| apart.set(Some(pool)));
}

/// Whether this thread is a worker of this pool, or one of its tasks' own.
pub(crate) fn runs_tasks_of(pool: PoolId) -> bool {
    is_of(pool) || OWN_THREAD_OF.with(Cell::get) == Some(pool)
}

/// Has this worker count a task out of its scope, soon: at the latest when it sleeps, or looks for
/// a task of another scope. False if this thread is no worker, or is in the middle of a task of
/// another scope: that may take long, and the scope must not wait for it.
#[inline]
pub(crate) fn count_out_later(scope: ScopeId) -> bool {
    let current = CURRENT.with(Cell::get);
    if current.is_null() {
        return false;
    }
    // SAFETY: set by the thread's own worker, which outlives everything that runs here.
    let worker = unsafe { &*current };
    if worker.running.get() != Some(scope) {
        return false;
    }
    if worker.finished.get().0 != Some(scope) {
        worker.count_out_finished();
    }
    worker.finished.set((Some(scope), worker.finished.get().1 + 1));
    true
}

/// Counts out, now, the tasks that this worker has finished of a scope.
pub(crate) fn count_out_finished() {
    let current = CURRENT.with(Cell::get);
    if !current.is_null() {
        // SAFETY: as above.
        unsafe { &*current }.count_out_finished();
    }
}

/// Cancels a task in the middle of something else: a scope that waits for it does not wait for
/// that.
pub(crate) fn cancel_here(task: &(impl Run + ?Sized)) -> bool {
    struct Settles;
    impl Drop for Settles {
        fn drop(&mut self) {
            count_out_finished();
        }
    }
    let _settles = Settles;
    task.cancel(0)
}

/// Runs, in the middle of another task, one that this worker waits for.
pub(crate) fn run_here(task: Arc<dyn Run + '_>) {
    let current = CURRENT.with(Cell::get);
    if current.is_null() {
        return survive(move || task.run());
    }
    // SAFETY: as above.
    let worker = unsafe { &*current };
    worker.local.counters.run_here.increment();
    let outer = worker.running.replace(task.head().scope);
    survive(move || task.run());
    worker.running.set(outer);
}

/// Runs, in the middle of another task, one that this worker waits for and that is still queued.
///
/// What is left of it in the worker's own queue goes with it, if it is the youngest there: one who
/// starts and awaits many tasks, one by one, must not fill the queue with stale ones.
pub(crate) fn run_queued_here(task: Arc<dyn Run + '_>) {
    let level = task.head().level;
    run_here(task);
    let current = CURRENT.with(Cell::get);
    if !current.is_null() {
        // SAFETY: as above.
        let local = &unsafe { &*current }.local;
        while local.pop_finished(level).is_some() {}
    }
}

/// Tells the pool that this thread, if it is a worker, is going to block in `wait`, in a way that
/// the pool cannot see. If the pool has [spare threads](super::Builder::spares), one of them takes
/// its place until `wait` returns; in any case [`Metrics::waiting`](super::Metrics::waiting) counts
/// it.
///
/// Whatever waits for something of this crate (a lock, a queue, a task) need not be told; this is
/// for files, sockets and other people's locks.
///
/// ```
/// use semaforo::tasks::{self, Pool};
///
/// let pool = Pool::builder().threads(1).spares(1).build().unwrap();
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let waits = pool.spawn(move || tasks::blocking(|| receiver.recv().unwrap()));
/// pool.execute(move || sender.send(42).unwrap());
/// assert_eq!(waits.wait().unwrap(), 42);
/// ```
#[doc(alias = "ManagedBlocker")]
#[doc(alias = "spawn_blocking")]
pub fn blocking<T>(wait: impl FnOnce() -> T) -> T {
    struct Ends(*const Worker);
    impl Drop for Ends {
        fn drop(&mut self) {
            // SAFETY: the thread's own worker outlives everything that runs here.
            unsafe { (*self.0).wait_begins_or_ends(false, Wait::Other) };
        }
    }
    let current = CURRENT.with(Cell::get);
    let _ends = (!current.is_null()).then(|| {
        // SAFETY: as above.
        let worker = unsafe { &*current };
        worker.wait_begins_or_ends(true, Wait::Other);
        Ends(current)
    });
    wait()
}

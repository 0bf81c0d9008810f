//! The threads that work on a query: the calling one, and extra workers, which are tasks of a pool.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread;

use crate::tasks::{self, Pool, Scope};

/// What the threads of a query do together.
pub(crate) trait Work: Sync {
    /// Works for as long as there is work, or until this thread has to leave.
    fn turn(&self, role: Role, extra_workers: &ExtraWorkers) -> Turn;

    /// How many extra workers would find something to do.
    fn useful_workers(&self) -> usize;
}

/// Which thread works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The calling thread, while it works alone. It stops when extra workers would pay.
    CallerAlone,
    /// The calling thread.
    Caller,
    /// A thread of the pool. It stops between chunks if it [should
    /// leave](ExtraWorkers::should_leave).
    Extra,
}

/// How a turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There is nothing more to begin.
    Done,
    /// There is more: a later turn, on any thread, goes on with it.
    Yield,
}

/// How many threads work on a query, which pool's they are, and how urgently they work.
#[derive(Clone, Debug)]
pub(crate) struct ExtraWorkers {
    /// The calling thread and the extra workers.
    threads: usize,
    /// If none, the pool of the process.
    pool: Option<Pool>,
    /// If none, the pool's normal level.
    level: Option<u32>,
}

impl ExtraWorkers {
    pub(crate) fn new(
        threads: Option<NonZero<usize>>,
        pool: Option<Pool>,
        level: Option<u32>,
    ) -> Self {
        // Asking for it reads files.
        static CORES: LazyLock<usize> =
            LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));
        let usual = || pool.as_ref().map_or_else(|| *CORES, Pool::threads);
        Self { threads: threads.map_or_else(usual, NonZero::get), pool, level }
    }

    /// How many threads work, with the calling one.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// The pool of the process is started only when a query needs an extra worker.
    fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap_or_else(|| Pool::global())
    }

    fn level(&self) -> u32 {
        self.level.unwrap_or_else(|| self.pool().normal())
    }

    /// Whether an extra worker should leave its thread to something more urgent.
    pub(crate) fn should_leave(&self) -> bool {
        #[cfg(test)]
        if tests::LEAVES.with(|leaves| leaves.replace(!leaves.get())) {
            return true;
        }
        self.pool().has_more_urgent_than(self.level())
    }

    /// Runs the work on this thread, alone at first; then, if it takes longer, with extra workers.
    /// Returns when all is done. The work must not panic.
    pub(crate) fn run(&self, work: &impl Work) {
        if self.threads > 1 {
            if work.turn(Role::CallerAlone, self) == Turn::Done {
                return;
            }
            let workers = work.useful_workers().min(self.threads - 1);
            if workers > 0 {
                return self.with_extra_workers(
                    || work.turn(Role::Extra, self),
                    |start_worker| {
                        // The other threads do the work of one that cannot be had.
                        let _all = (0..workers).all(|_| start_worker());
                        while work.turn(Role::Caller, self) == Turn::Yield {}
                    },
                );
            }
        }
        while work.turn(Role::Caller, self) == Turn::Yield {}
    }

    /// Runs `body`, which can start extra workers, one per call, unless the call says false.
    /// Workers that have not begun when `body` ends never do; returns when the others are done.
    pub(crate) fn with_extra_workers<R>(
        &self,
        turn: impl Fn() -> Turn + Sync,
        body: impl FnOnce(&dyn Fn() -> bool) -> R,
    ) -> R {
        let turn = &turn;
        self.pool().scope(|scope| {
            scope.set_level(self.level());
            let result = body(&|| self.pool().is_open() && start_worker(scope, turn));
            scope.withdraw();
            result
        })
    }

    /// Runs what waits for extra workers.
    pub(crate) fn waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        tasks::blocking(wait)
    }

    /// Starts an extra worker that no scope waits for. False if it cannot be had.
    pub(crate) fn detach(&self, turn: impl Fn() -> Turn + Send + 'static) -> bool {
        let open = self.pool().is_open();
        if open {
            let extra_workers = self.clone();
            self.pool().at(self.level()).execute(move || {
                if turn() == Turn::Yield {
                    extra_workers.detach(turn);
                }
            });
        }
        open
    }
}

/// Starts an extra worker; false if the query is over.
fn start_worker<'scope, H: Fn() -> Turn + Sync>(
    scope: &'scope Scope<'scope, '_>,
    turn: &'scope H,
) -> bool {
    scope.execute_unless_withdrawn(move || {
        if turn() == Turn::Yield {
            start_worker(scope, turn);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::thread::{self, ThreadId};
    use std::time::{Duration, Instant};

    use crate::query::prelude::*;

    thread_local! {
        /// In unit tests every extra worker leaves after every other chunk.
        pub(super) static LEAVES: Cell<bool> = const { Cell::new(false) };
    }

    fn dawdle<T>(_: &T) {
        let end = Instant::now() + Duration::from_micros(5);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn extra_workers_that_leave_lose_nothing() {
        let slow = || (0..2000_u32).as_parallel().with_threads(4).inspect(dawdle);
        assert!(slow().to_vec().into_iter().eq(0..2000));
        assert_eq!(slow().sum::<u32>(), 1999 * 1000);
        assert_eq!(slow().find(|n| *n >= 700), Some(700));
        assert_eq!(slow().filter(|n| n % 2 == 0).last(), Some(1998));
        assert_eq!(slow().min_by_key(|n| n / 10), Some(0));
        assert!(slow().filter(|n| n % 2 == 0).skip(10).into_iter().eq((20..2000).step_by(2)));
        assert!(slow().map(|n| n / 2).distinct().to_vec().into_iter().eq(0..1000));
        for (key, group) in slow().group_by(|n| n % 10).to_vec().into_iter().enumerate() {
            assert_eq!(group.key as usize, key);
            assert!(group.into_iter().eq((key as u32..2000).step_by(10)));
        }
        let sorted = slow().order_by_descending(|n| *n).to_vec();
        assert!(sorted.into_iter().rev().eq(0..2000));
    }

    #[test]
    fn a_short_query_stays_where_it_is_and_a_long_one_gets_extra_workers() {
        let threads = |count: u32, each: &(dyn Fn(u32, &Mutex<HashSet<ThreadId>>) + Sync)| {
            let seen = Mutex::new(HashSet::new());
            (0..count).as_parallel().with_threads(4).for_all(|n| {
                seen.lock().unwrap().insert(thread::current().id());
                each(n, &seen);
            });
            seen.into_inner().unwrap()
        };
        // On a thread that is kept from running for a while, a short query seems long.
        let here = HashSet::from([thread::current().id()]);
        assert!((0..1000).any(|_| threads(3, &|n, _| dawdle(&n)) == here));
        let took_part = threads(200, &|n, seen| match n {
            // Longer than the calling thread works alone.
            0 => (0..200).for_each(|n| dawdle(&n)),
            // The thread that has the next one does not go on before another has come.
            _ => {
                while seen.lock().unwrap().len() < 2 {
                    thread::yield_now();
                }
            }
        });
        assert!((2..=4).contains(&took_part.len()), "{} threads took part", took_part.len());
        assert!(took_part.contains(&thread::current().id()));
    }
}

//! The threads that work on a query: the calling one, and helpers, which are tasks of a pool.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread;

use crate::tasks::{self, Pool, Scope};

/// What is to be done, by all together.
pub(crate) trait Work: Sync {
    /// Works for as long as there is work, or until this seat has to be left.
    fn turn(&self, seat: Seat, crew: &Crew) -> Turn;

    /// How many helpers would find something to do.
    fn room(&self) -> usize;
}

/// Who works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// The calling thread, while it works alone. It stops when help would pay.
    Alone,
    /// The calling thread.
    Caller,
    /// Another thread. It stops between chunks if it has to [give way](Crew::gives_way).
    Helper,
}

/// How a turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There is nothing more to begin.
    Done,
    /// There is more: it wants to be called again, by whoever has time.
    Yield,
}

/// How many work on a query, whose threads they are, and how urgently.
#[derive(Clone, Debug)]
pub(crate) struct Crew {
    threads: usize,
    /// The one that everybody shares, if none.
    pool: Option<Pool>,
    /// The pool's normal level, if none.
    level: Option<u32>,
}

impl Crew {
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

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Started only if somebody is to help.
    fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap_or_else(|| Pool::global())
    }

    fn level(&self) -> u32 {
        self.level.unwrap_or_else(|| self.pool().normal())
    }

    /// Whether a helper should leave its thread to something more urgent.
    pub(crate) fn gives_way(&self) -> bool {
        #[cfg(test)]
        if tests::PUSHED.with(|pushed| pushed.replace(!pushed.get())) {
            return true;
        }
        self.pool().has_more_urgent_than(self.level())
    }

    /// Runs the work on this thread, alone at first; then, if it takes longer, with helpers. Returns
    /// when all is done. The work must not panic.
    pub(crate) fn run(&self, work: &impl Work) {
        if self.threads > 1 {
            if work.turn(Seat::Alone, self) == Turn::Done {
                return;
            }
            let helpers = work.room().min(self.threads - 1);
            if helpers > 0 {
                return self.with_helpers(
                    || work.turn(Seat::Helper, self),
                    |recruit| {
                        // The others do the work of a helper that cannot be had.
                        let _all = (0..helpers).all(|_| recruit());
                        while work.turn(Seat::Caller, self) == Turn::Yield {}
                    },
                );
            }
        }
        while work.turn(Seat::Caller, self) == Turn::Yield {}
    }

    /// Runs `body`, which can recruit helpers, one per call, unless that says false. Those who have not
    /// begun when it ends never do; returns when the others are gone.
    pub(crate) fn with_helpers<R>(
        &self,
        help: impl Fn() -> Turn + Sync,
        body: impl FnOnce(&dyn Fn() -> bool) -> R,
    ) -> R {
        let help = &help;
        self.pool().scope(|scope| {
            scope.set_level(self.level());
            let result = body(&|| self.pool().is_open() && recruit(scope, help));
            scope.withdraw();
            result
        })
    }

    /// Runs what waits for helpers.
    pub(crate) fn waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        tasks::blocking(wait)
    }

    /// Starts a helper that nobody waits for. False if it cannot be had.
    pub(crate) fn detach(&self, help: impl Fn() -> Turn + Send + 'static) -> bool {
        let open = self.pool().is_open();
        if open {
            let crew = self.clone();
            self.pool().at(self.level()).execute(move || {
                if help() == Turn::Yield {
                    crew.detach(help);
                }
            });
        }
        open
    }
}

/// Starts a helper; false if the query is over.
fn recruit<'scope, H: Fn() -> Turn + Sync>(
    scope: &'scope Scope<'scope, '_>,
    help: &'scope H,
) -> bool {
    scope.execute_unless_withdrawn(move || {
        if help() == Turn::Yield {
            recruit(scope, help);
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
        /// In unit tests every helper gives way after every other chunk.
        pub(super) static PUSHED: Cell<bool> = const { Cell::new(false) };
    }

    fn dawdle<T>(_: &T) {
        let end = Instant::now() + Duration::from_micros(5);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn helpers_that_give_way_lose_nothing() {
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
    fn a_short_query_stays_where_it_is_and_a_long_one_gets_help() {
        let threads = |count: u32, each: &(dyn Fn(u32, &Mutex<HashSet<ThreadId>>) + Sync)| {
            let seen = Mutex::new(HashSet::new());
            (0..count).as_parallel().with_threads(4).for_all(|n| {
                seen.lock().unwrap().insert(thread::current().id());
                each(n, &seen);
            });
            seen.into_inner().unwrap()
        };
        // Whoever is kept from running for a while has a long query.
        let here = HashSet::from([thread::current().id()]);
        assert!((0..1000).any(|_| threads(3, &|n, _| dawdle(&n)) == here));
        let crew = threads(200, &|n, seen| match n {
            // Longer than anybody works alone.
            0 => (0..200).for_each(|n| dawdle(&n)),
            // Whoever has the next one does not go on before another has come.
            _ => {
                while seen.lock().unwrap().len() < 2 {
                    thread::yield_now();
                }
            }
        });
        assert!((2..=4).contains(&crew.len()), "{} threads took part", crew.len());
        assert!(crew.contains(&thread::current().id()));
    }
}

//! Pool settings.

use std::error::Error;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};
use std::thread;

use super::pool::Pool;
use super::pool_state::{Mode, PoolSettings, PoolState};
use super::ticks::CLOCK;

/// Describes a [`Pool`].
///
/// ```
/// use semaforo::tasks::{Mode, Pool};
///
/// let doctors =
///     Pool::builder().threads(3).name("doctor").levels(5).mode(Mode::Strict).aging(8).build()?;
/// assert_eq!((doctors.threads(), doctors.levels()), (3, 5));
/// # Ok::<(), semaforo::tasks::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a pool is built by `build`"]
pub struct Builder {
    threads: Option<usize>,
    stand_ins: usize,
    spares: usize,
    levels: u32,
    normal: Option<u32>,
    mode: Mode,
    aging: Option<u32>,
    name: String,
}

/// How many threads a pool may have.
const MOST_THREADS: usize = 4096;
/// How many levels a pool may have.
const MOST_LEVELS: u32 = 65_536;

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            threads: None,
            stand_ins: 256,
            spares: 0,
            levels: 10,
            normal: None,
            mode: Mode::default(),
            aging: None,
            name: "semaforo".into(),
        }
    }

    /// On so many threads. The default is one for each core.
    #[doc(alias = "concurrencyLevel")]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// With at most so many spare threads, each of which takes the place of a worker that waits in
    /// the middle of a task for something that is no task of this pool: a lock, a queue, or inside
    /// [`blocking`](super::blocking). The default is 0.
    ///
    /// The number of threads is a promise: no more tasks than that are begun and not finished,
    /// except those that wait, or have waited, for other tasks of the pool
    /// ([stand-ins](Self::stand_ins)). With spare threads there may be so many more. Without them,
    /// if all threads wait for what only a queued task would do, they wait for ever;
    /// [`Metrics::waiting`](super::Metrics::waiting) and the pool's `Debug` show that. Work that
    /// waits for other work that is not a task of the same pool is better written as a future,
    /// which leaves its thread while it waits.
    ///
    /// ```
    /// use semaforo::{Event, tasks::Pool};
    /// use std::sync::Arc;
    ///
    /// // With one thread and without a spare one, the first task would wait for ever.
    /// let pool = Pool::builder().threads(1).spares(1).build()?;
    /// let event = Arc::new(Event::new());
    /// let waits = pool.spawn({
    ///     let event = Arc::clone(&event);
    ///     move || event.happened().wait()
    /// });
    /// pool.execute(move || event.set());
    /// waits.wait().unwrap();
    /// # Ok::<(), semaforo::tasks::BuildError>(())
    /// ```
    pub fn spares(mut self, spares: usize) -> Self {
        self.spares = spares;
        self
    }

    /// With at most so many threads more, each of which takes the place of a worker that waits in
    /// the middle of a task for other tasks of this pool: for a handle, or at the end of a scope.
    /// The default is 256. If there are no more, workers that wait are not replaced: what they wait
    /// for has to be run by other workers, or by themselves.
    pub fn stand_ins(mut self, stand_ins: usize) -> Self {
        self.stand_ins = stand_ins;
        self
    }

    /// With so many levels, counted from 0, which is the most urgent. The default is 10.
    pub fn levels(mut self, levels: u32) -> Self {
        self.levels = levels;
        self
    }

    /// With this level for tasks that are started without saying one. The default is the one in the
    /// middle.
    pub fn normal(mut self, level: u32) -> Self {
        self.normal = Some(level);
        self
    }

    /// With this order of picking.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Lets no level starve: at every `picks`-th pick a worker takes the one task that has waited
    /// longest of all that are less urgent than the most urgent (in the queue of all, and in its
    /// own).
    ///
    /// With one worker, a task that is behind n older ones of less urgent levels begins after at
    /// most `picks * (n + 1)` picks, however many urgent ones keep coming. The default is to let
    /// them starve.
    pub fn aging(mut self, picks: u32) -> Self {
        self.aging = Some(picks);
        self
    }

    /// With this name; its threads are called that, and a number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Starts the pool.
    ///
    /// # Errors
    /// If the description makes no sense, or the system does not start the threads.
    pub fn build(self) -> Result<Pool, BuildError> {
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = self.threads.unwrap_or_else(cores);
        let normal = self.normal.unwrap_or(self.levels / 2);
        let spares = self.spares.saturating_add(self.stand_ins);
        if threads == 0 || threads.saturating_add(spares) > MOST_THREADS {
            return Err(BuildError::Threads { threads, spares });
        }
        if self.levels == 0 || self.levels > MOST_LEVELS {
            return Err(BuildError::Levels(self.levels));
        }
        if normal >= self.levels {
            return Err(BuildError::Normal { normal, levels: self.levels });
        }
        if self.aging.is_some_and(|picks| picks < 2) {
            return Err(BuildError::Aging);
        }
        if self.name.contains('\0') {
            return Err(BuildError::Name);
        }
        LazyLock::force(&CLOCK);
        let state = PoolState::new(PoolSettings {
            threads,
            stand_ins: self.stand_ins,
            spares: self.spares,
            levels: self.levels,
            normal,
            mode: self.mode,
            aging: self.aging.unwrap_or(0),
            name: self.name,
        });
        // From here on, threads that were started end when this is dropped.
        let pool = Pool::with(Arc::clone(&state));
        for index in 0..threads {
            if let Err(error) = state.start_worker(index, false) {
                for _ in index..threads {
                    state.sleepers.remove_thread();
                }
                return Err(BuildError::System(error));
            }
        }
        Ok(pool)
    }
}

/// Why a pool cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// No thread, or more than 4096 with the spare ones.
    Threads {
        /// How many threads.
        threads: usize,
        /// How many spare ones and stand-ins besides.
        spares: usize,
    },
    /// No level, or more than 65536.
    Levels(u32),
    /// The normal level is none of the pool's.
    Normal {
        /// The level.
        normal: u32,
        /// How many there are.
        levels: u32,
    },
    /// Aging at every pick, or more often: then urgency means nothing.
    Aging,
    /// The name contains a zero byte, and no thread's can.
    Name,
    /// The system did not start a thread.
    System(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads { threads: 0, .. } => write!(f, "a pool needs at least 1 thread"),
            Self::Threads { threads, spares } => {
                write!(f, "{threads} threads and {spares} spare ones are more than {MOST_THREADS}")
            }
            Self::Levels(levels) => {
                write!(f, "a pool has 1 to {MOST_LEVELS} levels, and not {levels}")
            }
            Self::Normal { normal, levels } => write!(
                f,
                "the normal level {normal} is none of the pool's {levels}, counted from 0"
            ),
            Self::Aging => write!(f, "aging needs at least 2 picks: one of them by urgency"),
            Self::Name => write!(f, "the name of a pool cannot contain a zero byte"),
            Self::System(error) => write!(f, "the system did not start a thread: {error}"),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

//! Tasks with priorities: a pool that runs closures and futures, the most urgent first.
//!
//! ```
//! use semaforo::tasks::{Mode, Pool, when_all};
//! use std::time::Duration;
//!
//! let pool = Pool::builder().threads(2).mode(Mode::Strict).build()?;
//!
//! let report = pool.at(8).spawn(|| "when there is time");
//! let alarm = pool.at(0).spawn_future(async { "at once" });
//! assert_eq!(alarm.timeout(Duration::from_secs(10)).wait().unwrap(), "at once");
//! assert_eq!(report.wait().unwrap(), "when there is time");
//!
//! let squares = when_all((1..=3).map(|n| pool.spawn(move || n * n)));
//! let sum = squares.then(&pool, |squares| {
//!     squares.unwrap().into_iter().map(Result::unwrap).sum::<i32>()
//! });
//! assert_eq!(sum.wait().unwrap(), 14);
//! # Ok::<(), semaforo::tasks::BuildError>(())
//! ```
//!
//! # What is promised
//!
//! - **Urgency.** Levels are counted from 0, the most urgent. Which of those that wait is begun
//!   next is the pool's [`Mode`]; each says exactly what it guarantees. [Aging](Builder::aging) on
//!   top of either keeps less urgent levels from starving. What runs is never interrupted.
//! - **Handles are requests.** [`Handle`]s are awaited, waited for, bounded in time, cancelled,
//!   combined ([`then`](Handle::then), [`when_all`], [`when_any`]); under any runtime, or none.
//!   Panics reach the joiner, with their payload. Dropping a handle detaches its task.
//! - **Cancelling** a task that has not begun means that it never does; what it had captured is
//!   dropped at once, and so is a future that is suspended. A [token](Spawner::cancel_on) cancels
//!   all tasks that were started with it, before [`cancel`](crate::CancelSource::cancel) returns.
//! - **A pool of n threads has at most n tasks begun and not finished.** Not counted are tasks that
//!   wait, or have waited, for other tasks of the same pool (a handle, the end of a [`Scope`]), nor
//!   what those run on the spot because they wait for it, nor those that asked for a [thread of
//!   their own](Spawner::long_running); a future counts while it is polled. [Spare
//!   threads](Builder::spares) let more tasks begin while others wait for a lock, a queue, or in
//!   [`blocking`]. A pool without them needs care that not all n wait for what only a queued task
//!   would do; [`Metrics::waiting`] and the `Debug` of a [`Pool`] show how many wait.
//! - **Waiting for other tasks does not deadlock.** A worker that waits for a task, or at the end
//!   of a scope, runs what it waits for if that has not begun, and nothing else: whatever would
//!   want a lock that the waiter holds stays where it is. If there is nothing of the kind to run,
//!   the worker sleeps and another thread takes its place, up to a [bound](Builder::stand_ins), and
//!   runs first what was started by those that wait; beyond that bound a wait for a future finds no
//!   thread that would run it. (In [`Mode::Strict`] nothing runs before its turn, also not what is
//!   waited for: there another thread always takes the waiter's place, and a task that blocks on a
//!   lock that the waiter holds can be in the way of what is waited for, unless there are spare
//!   threads that can see it.)
//! - **Nothing is lost.** Every task is run, or its joiner is told why not; also when the pool is
//!   [shut down](Pool::shutdown), or a [`Scheduler`] drops it.
//!
//! # Schedulers
//!
//! A pool is a [`Scheduler`]; so are [`Limited`] (at most so many at once, by any other scheduler),
//! [`CurrentThread`] (on the thread that waits), and yours: it has one method that matters.
//! [`Spawn`] starts tasks on all of them.
//!
//! # How it works
//!
//! A task is one allocation: its head (state, level, number, when it was queued), the work or its
//! outcome, and, if it can be joined, room for its joiner's waker. The thread that sets the bit
//! `STARTED` owns the work; for a thread that finds it set, or `CANCELLED`, the task is *stale*:
//! there is nothing to run.
//!
//! The queue of all workers (`levels`) is one first-in, first-out queue per level, and a word with
//! two bits per level that says which may be occupied; see there for why two. A worker's own queues
//! (`local`) are behind a lock that is taken for a few nanoseconds, by the worker, and now and then
//! by a thief. Both can be looked through, for [`Pool::scheduled`]; that is why they are no
//! lock-free deques.
//!
//! Workers that find nothing search for a moment and then sleep (`sleepers`). Queueing a task wakes
//! one of them, unless another searches; a fence on either side keeps that from going wrong.

mod abort;
mod builder;
mod call;
mod current_thread;
mod detached;
mod error;
mod future;
mod handle;
pub(crate) mod head;
mod join_state;
pub(crate) mod levels;
mod limited;
mod local;
mod metrics;
mod own_threads;
mod pool;
mod pool_state;
mod registry;
mod scheduler;
mod scope;
mod scoped;
mod sleep;
mod sleepers;
mod spawner;
mod spin;
mod stale;
mod task_id;
pub(crate) mod ticks;
mod when;
mod worker;

pub use abort::AbortHandle;
pub use builder::{BuildError, Builder};
pub use current_thread::CurrentThread;
pub use error::{JoinError, Panic};
pub use handle::{Finishing, Handle, Joining};
pub use limited::Limited;
pub use metrics::{Histogram, Length, LevelMetrics, Metrics};
pub use pool::{Leaving, Pool, Shutdown};
pub use pool_state::Mode;
pub use scheduler::{Runnable, Scheduled, Scheduler};
pub use scope::Scope;
pub use scoped::{ScopedHandle, ScopedSpawner};
pub use sleep::{Sleep, Sleeping, sleep, sleep_until};
pub use spawner::{Spawn, Spawner};
pub use when::{HandleTuple, when_all, when_all_of, when_any, yield_now};
pub use worker::blocking;

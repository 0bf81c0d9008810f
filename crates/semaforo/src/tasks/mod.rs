//! Tasks with priorities: a pool that runs closures and futures, the most urgent first.

mod builder;
mod current_thread;
mod error;
mod future;
mod handle;
mod levels;
mod limited;
mod local;
mod metrics;
mod number;
mod pool;
mod registry;
mod rest;
mod scheduler;
mod scope;
mod shared;
mod spawner;
mod spin;
mod task;
mod ticks;
mod when;
mod worker;

pub use builder::{BuildError, Builder};
pub use current_thread::CurrentThread;
pub use error::{JoinError, Panic};
pub use handle::{Handle, Joining};
pub use limited::Limited;
pub use metrics::{Histogram, LevelMetrics, Metrics};
pub use pool::{Leaving, Pool, Shutdown};
pub use scheduler::{Runnable, Scheduled, Scheduler};
pub use scope::{Scope, ScopedHandle};
pub use shared::Mode;
pub use spawner::{Spawn, Spawner};
pub use when::{when_all, when_any, yield_now};
pub use worker::blocking;

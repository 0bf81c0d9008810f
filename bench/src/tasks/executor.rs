//! Whoever runs tasks, as the shapes of this area see it, and the peers in that light.
//!
//! Everybody has two workers. async-executor brings none of its own: two threads
//! block on it for good.

use std::future::Future;
use std::sync::LazyLock;
use std::thread;

use async_executor::StaticExecutor;
use futures_lite::future::{block_on, pending};
use rayon::ThreadPool;

use crate::workload::tasks::{RUNTIME, WORKERS};

/// Runs closures, and tells nobody when they have ended.
pub(super) trait Pool: Copy + Send + Sync + 'static {
    fn execute(self, task: impl FnOnce() + Send + 'static);
}

/// Runs futures as well, and has handles.
pub(super) trait Executor: Pool {
    type Handle<T: Send + 'static>: Send + 'static;

    fn spawn<T: Send + 'static>(
        self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Self::Handle<T> {
        self.spawn_future(async { task() })
    }

    fn spawn_future<T: Send + 'static>(
        self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T>;

    fn execute_future(self, task: impl Future<Output = ()> + Send + 'static);

    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> impl Future<Output = T> + Send;

    /// How a thread outside waits for a future.
    fn block_on<T>(self, future: impl Future<Output = T>) -> T {
        block_on(future)
    }

    /// How a thread outside waits for a task.
    fn wait<T: Send + 'static>(self, handle: Self::Handle<T>) -> T {
        self.block_on(Self::join(handle))
    }

    /// How a thread outside waits for many.
    fn wait_for_all(self, handles: Vec<Self::Handle<()>>) {
        self.block_on(Self::join_all(handles));
    }

    fn join_all(handles: Vec<Self::Handle<()>>) -> impl Future<Output = ()> + Send {
        async {
            for handle in handles {
                Self::join(handle).await;
            }
        }
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        futures_lite::future::yield_now()
    }
}

#[derive(Clone, Copy)]
pub(super) struct Tokio;

impl Pool for Tokio {
    fn execute(self, task: impl FnOnce() + Send + 'static) {
        self.execute_future(async { task() });
    }
}

impl Executor for Tokio {
    type Handle<T: Send + 'static> = tokio::task::JoinHandle<T>;

    fn spawn_future<T: Send + 'static>(
        self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        RUNTIME.spawn(task)
    }

    fn execute_future(self, task: impl Future<Output = ()> + Send + 'static) {
        drop(RUNTIME.spawn(task));
    }

    async fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.await.expect("no task panics")
    }

    fn block_on<T>(self, future: impl Future<Output = T>) -> T {
        RUNTIME.block_on(future)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }
}

/// Both executors of the crate `async-executor`: they differ in name and speed only.
macro_rules! peer {
    ($peer:ident, $executor:ty) => {
        #[derive(Clone, Copy)]
        pub(super) struct $peer(&'static $executor);

        impl $peer {
            pub(super) fn get() -> $peer {
                static RUNNING: LazyLock<&'static $executor> = LazyLock::new(|| {
                    let executor: &'static $executor = Box::leak(Box::new(<$executor>::new()));
                    for _ in 0..WORKERS {
                        thread::spawn(|| block_on(executor.run(pending::<()>())));
                    }
                    executor
                });
                $peer(*RUNNING)
            }
        }

        impl Pool for $peer {
            fn execute(self, task: impl FnOnce() + Send + 'static) {
                self.execute_future(async { task() });
            }
        }

        impl Executor for $peer {
            type Handle<T: Send + 'static> = async_executor::Task<T>;

            fn spawn_future<T: Send + 'static>(
                self,
                task: impl Future<Output = T> + Send + 'static,
            ) -> Self::Handle<T> {
                self.0.spawn(task)
            }

            fn execute_future(self, task: impl Future<Output = ()> + Send + 'static) {
                self.0.spawn(task).detach();
            }

            fn join<T: Send + 'static>(handle: Self::Handle<T>) -> impl Future<Output = T> + Send {
                handle
            }
        }
    };
}

peer!(AsyncExecutor, async_executor::Executor<'static>);
peer!(AsyncStaticExecutor, StaticExecutor);

/// Has no handles, and runs no futures.
#[derive(Clone, Copy)]
pub(super) struct Rayon;

static RAYON: LazyLock<ThreadPool> = LazyLock::new(|| {
    let built = rayon::ThreadPoolBuilder::new().num_threads(WORKERS).build();
    built.expect("the system allows two more threads")
});

impl Rayon {
    /// Outside of the pool, so that entering it is part of the work.
    pub(super) fn pool(self) -> &'static ThreadPool {
        &RAYON
    }
}

impl Pool for Rayon {
    fn execute(self, task: impl FnOnce() + Send + 'static) {
        RAYON.spawn(task);
    }
}

//! Where tasks run: a hand-rolled executor and three that people use.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Wake};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Runtime};

/// Which executor an async waiter runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Executor {
    HandRolled,
    Tokio,
    Smol,
    Futures,
}

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Executor {
    const ALL: [Self; 4] = [Self::HandRolled, Self::Tokio, Self::Smol, Self::Futures];

    /// Each in turn, so that every test meets several of them.
    pub(crate) fn next() -> Self {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        Self::ALL[TURN.fetch_add(1, Ordering::Relaxed) % Self::ALL.len()]
    }

    /// Runs a task to its end, in the background. Returns the thread that does, if it is one of
    /// the task's own.
    pub(crate) fn spawn(
        self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        match self {
            Self::HandRolled => hand_rolled().send(Task::new(task)).unwrap(),
            Self::Tokio => drop(tokio_runtime().spawn(task)),
            Self::Smol => smol::spawn(task).detach(),
            Self::Futures => {
                return Some(std::thread::spawn(|| futures::executor::block_on(task)));
            }
        }
        None
    }

    /// Runs a future on this thread, which need not be able to leave it.
    pub(crate) fn block_on<F: Future>(self, future: F) -> F::Output {
        match self {
            Self::HandRolled => block_on(future),
            Self::Tokio => Builder::new_current_thread().build().unwrap().block_on(future),
            Self::Smol => smol::block_on(future),
            Self::Futures => futures::executor::block_on(future),
        }
    }
}

fn tokio_runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
    })
}

/// Runs a future on the shared tokio runtime and returns its result.
pub(crate) fn on_tokio<F: Future>(future: F) -> F::Output {
    tokio_runtime().block_on(future)
}

/// One thread that polls whatever is sent to it.
fn hand_rolled() -> &'static Sender<Arc<Task>> {
    static EXECUTOR: OnceLock<Sender<Arc<Task>>> = OnceLock::new();
    EXECUTOR.get_or_init(|| {
        let (sender, receiver) = channel::<Arc<Task>>();
        std::thread::spawn(move || receiver.iter().for_each(Task::run));
        sender
    })
}

struct Task(Mutex<Option<Boxed>>);

impl Task {
    fn new(task: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(Box::pin(task)))))
    }

    fn run(self: Arc<Self>) {
        let waker = Arc::clone(&self).into();
        let mut slot = self.0.lock().unwrap();
        if let Some(task) = &mut *slot {
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                *slot = None;
            }
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        hand_rolled().send(self).unwrap();
    }
}

/// The smallest executor: polls, and parks until woken.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park();
    }
}

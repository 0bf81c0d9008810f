//! Waiters: the same request, waited on by a thread or awaited by a task.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use futures::FutureExt;
use semaforo::request::{Limits, Operation, Output};
use semaforo::{Event, Request};

use super::{Door, Executor, LIMIT, Queued, Step, eventually, leaked, until_queued, waker_that};

/// Who is blocking and who is async, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    AllBlocking,
    AllAsync,
    /// Then alternating.
    BlockingFirst,
    /// Then alternating.
    AsyncFirst,
}

/// How one waiter waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Blocking,
    Async(Executor),
}

impl Arrangement {
    pub(crate) const ALL: [Self; 4] =
        [Self::AllBlocking, Self::AllAsync, Self::BlockingFirst, Self::AsyncFirst];

    pub(crate) fn kind(self, position: usize) -> Kind {
        let blocking = match self {
            Self::AllBlocking => true,
            Self::AllAsync => false,
            Self::BlockingFirst => position % 2 == 0,
            Self::AsyncFirst => position % 2 == 1,
        };
        if blocking { Kind::Blocking } else { Kind::Async(Executor::next()) }
    }
}

/// Runs a case in all four arrangements.
pub(crate) fn in_every_arrangement(case: impl Fn(Arrangement)) {
    for arrangement in Arrangement::ALL {
        // Shown only if the test fails.
        println!("arrangement: {arrangement:?}");
        case(arrangement);
    }
}

/// The same at once, for cases that take their time.
pub(crate) fn in_every_arrangement_at_once(case: impl Fn(Arrangement) + Sync) {
    let case = &case;
    std::thread::scope(|scope| {
        let runs = Arrangement::ALL
            .map(|arrangement| (arrangement, scope.spawn(move || case(arrangement))));
        for (arrangement, run) in runs {
            if let Err(panic) = run.join() {
                println!("arrangement: {arrangement:?}");
                resume_unwind(panic);
            }
        }
    });
}

/// A request that somebody waits on.
pub(crate) struct Waiter<T> {
    outcome: Arc<Outcome<T>>,
    thread: Option<JoinHandle<()>>,
    joined: bool,
}

struct Outcome<T> {
    slot: Mutex<Slot<T>>,
    changed: Condvar,
}

enum Slot<T> {
    Waiting,
    Done(Result<T, Box<dyn Any + Send>>),
    Taken,
}

impl<T> Outcome<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self { slot: Mutex::new(Slot::Waiting), changed: Condvar::new() })
    }

    fn set(&self, outcome: Result<T, Box<dyn Any + Send>>) {
        *self.slot.lock().unwrap() = Slot::Done(outcome);
        self.changed.notify_all();
    }
}

impl<T: Send + 'static> Waiter<T> {
    /// Waits on a request and does `then` with what it yields.
    pub(crate) fn start_then<O, L>(
        kind: Kind,
        request: Request<O, L>,
        then: impl FnOnce(Output<O, L>) -> T + Send + 'static,
    ) -> Self
    where
        O: Operation + Send + 'static,
        L: Limits + 'static,
        Output<O, L>: Send,
    {
        match kind {
            Kind::Blocking => Self::on_a_thread(move || then(request.wait())),
            Kind::Async(executor) => {
                let outcome = Outcome::new();
                let told = Arc::clone(&outcome);
                let thread = executor.spawn(async move {
                    let wait = AssertUnwindSafe(async move { then(request.await) });
                    told.set(wait.catch_unwind().await);
                });
                Self { outcome, thread, joined: false }
            }
        }
    }

    /// Waits on a request that is made where it is waited on, for those that cannot be sent.
    pub(crate) fn start_there<O, L>(
        kind: Kind,
        request: impl FnOnce() -> Request<O, L> + Send + 'static,
        then: impl FnOnce(Output<O, L>) -> T + Send + 'static,
    ) -> Self
    where
        O: Operation + 'static,
        L: Limits + 'static,
    {
        Self::on_a_thread(move || match kind {
            Kind::Blocking => then(request().wait()),
            Kind::Async(executor) => executor.block_on(async { then(request().await) }),
        })
    }

    /// Runs something on a thread of its own.
    pub(crate) fn on_a_thread(run: impl FnOnce() -> T + Send + 'static) -> Self {
        let outcome = Outcome::new();
        let told = Arc::clone(&outcome);
        let thread = std::thread::spawn(move || told.set(catch_unwind(AssertUnwindSafe(run))));
        Self { outcome, thread: Some(thread), joined: false }
    }

    /// Whether it has its answer.
    pub(crate) fn is_done(&self) -> bool {
        !matches!(*self.outcome.slot.lock().unwrap(), Slot::Waiting)
    }

    /// What came of it. Its panic is the caller's.
    #[track_caller]
    pub(crate) fn join(mut self) -> T {
        self.finish().unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// What came of it, or its panic.
    #[track_caller]
    pub(crate) fn join_or_panic(mut self) -> Result<T, Box<dyn Any + Send>> {
        self.finish()
    }
}

impl<T> Waiter<T> {
    #[track_caller]
    fn finish(&mut self) -> Result<T, Box<dyn Any + Send>> {
        self.joined = true;
        let end = Instant::now() + LIMIT;
        let mut slot = self.outcome.slot.lock().unwrap();
        while matches!(*slot, Slot::Waiting) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "a waiter did not end");
            slot = self.outcome.changed.wait_timeout(slot, left).unwrap().0;
        }
        let Slot::Done(result) = std::mem::replace(&mut *slot, Slot::Taken) else {
            panic!("a waiter was joined twice");
        };
        drop(slot);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the outcome was told, so nothing is left to panic");
        }
        result
    }
}

impl<T> Drop for Waiter<T> {
    fn drop(&mut self) {
        if self.joined || std::thread::panicking() {
            return;
        }
        if let Err(panic) = self.finish() {
            resume_unwind(panic);
        }
    }
}

/// What the system knows of a thread.
#[derive(Clone)]
pub(crate) struct ThreadState {
    stat: PathBuf,
    since: Instant,
}

impl ThreadState {
    /// Of the calling thread.
    pub(crate) fn here() -> Self {
        let own = std::fs::read_link("/proc/thread-self").unwrap_or_default();
        Self { stat: Path::new("/proc").join(own).join("stat"), since: Instant::now() }
    }

    /// Whether it sleeps, as one does that is queued and neither spins nor yields any more. Where the
    /// system does not say, some time is taken for that.
    pub(crate) fn is_asleep(&self) -> bool {
        match std::fs::read_to_string(&self.stat) {
            Ok(stat) => stat.rsplit(") ").next().is_some_and(|state| state.starts_with('S')),
            Err(_) => self.since.elapsed() > 4 * super::SHORT,
        }
    }
}

/// Starts a thread that waits, and cannot look whether it was answered before the door is opened: it
/// owes a wake-up, which it makes before it sleeps, and which waits for the door. Returns when it does.
#[track_caller]
pub(crate) fn held_up<T: Send + 'static>(
    wait: impl FnOnce() -> T + Send + 'static,
) -> (Waiter<T>, Arc<Door>) {
    let door = Door::new();
    let (closed, held) = (Arc::clone(&door), Arc::new(AtomicBool::new(false)));
    let is_held = Arc::clone(&held);
    let waiter = Waiter::on_a_thread(move || {
        let (outer, inner) = (Arc::new(Event::new()), leaked(Event::new()));
        let mut owed = Step::new(inner.happened());
        let held_up = waker_that(move || {
            held.store(true, Ordering::SeqCst);
            closed.pass();
        });
        assert!(owed.poll_with(&held_up).is_pending());
        let (output, wait) = (Arc::new(Mutex::new(None)), Mutex::new(Some(wait)));
        let mut waiting = Step::new(outer.happened());
        let made = Arc::clone(&output);
        let waits = waker_that(move || {
            // A wake-up within a wake-up is owed.
            inner.set();
            let wait = wait.lock().unwrap().take().expect("this is woken once");
            *made.lock().unwrap() = Some(wait());
        });
        assert!(waiting.poll_with(&waits).is_pending());
        outer.set();
        output.lock().unwrap().take().expect("the waker has returned")
    });
    eventually("the thread is held up", || is_held.load(Ordering::SeqCst));
    (waiter, door)
}

/// A queue being filled, in an arrangement.
pub(crate) struct Line<'a, Q> {
    object: &'a Q,
    arrangement: Arrangement,
    position: usize,
}

impl<'a, Q: Queued> Line<'a, Q> {
    pub(crate) fn new(arrangement: Arrangement, object: &'a Q) -> Self {
        Self { object, arrangement, position: 0 }
    }

    pub(crate) fn object(&self) -> &'a Q {
        self.object
    }

    /// How the next one waits.
    pub(crate) fn next_kind(&mut self) -> Kind {
        let kind = self.arrangement.kind(self.position);
        self.position += 1;
        kind
    }

    /// Starts the next waiter, which need not have to wait.
    pub(crate) fn start<O, L>(&mut self, request: Request<O, L>) -> Waiter<Output<O, L>>
    where
        O: Operation + Send + 'static,
        L: Limits + 'static,
        Output<O, L>: Send,
    {
        Waiter::start_then(self.next_kind(), request, |output| output)
    }

    /// Starts the next waiter, and returns when it is seen in the queue.
    #[track_caller]
    pub(crate) fn enter<O, L>(&mut self, request: Request<O, L>) -> Waiter<Output<O, L>>
    where
        O: Operation + Send + 'static,
        L: Limits + 'static,
        Output<O, L>: Send,
    {
        self.enter_then(request, |output| output)
    }

    /// [`enter`](Self::enter), and does `then` with what the request yields.
    #[track_caller]
    pub(crate) fn enter_then<O, L, T: Send + 'static>(
        &mut self,
        request: Request<O, L>,
        then: impl FnOnce(Output<O, L>) -> T + Send + 'static,
    ) -> Waiter<T>
    where
        O: Operation + Send + 'static,
        L: Limits + 'static,
        Output<O, L>: Send,
    {
        let before = self.object.queued();
        let waiter = Waiter::start_then(self.next_kind(), request, then);
        until_queued(self.object, before + 1);
        waiter
    }
}

/// Runs something that must not hang.
#[track_caller]
pub(crate) fn watched<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    Waiter::on_a_thread(body).join()
}

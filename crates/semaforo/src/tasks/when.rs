//! Waiting for several tasks.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use super::error::JoinError;
use super::handle::Handle;
use super::scheduler::{Runnable, Scheduler};
use super::spawner::Spawn;

/// Runs what is ready on the spot: in the thread that made it so.
#[derive(Clone)]
struct OnTheSpot;

impl Scheduler for OnTheSpot {
    fn enqueue(&self, runnable: Runnable) {
        runnable.run();
    }
}

/// A handle for all of these tasks: it yields their outcomes, in the order of the handles, when the
/// last one has finished.
///
/// ```
/// use semaforo::tasks::{Pool, when_all};
///
/// let pool = Pool::new();
/// let squares = when_all((0..4).map(|n| pool.spawn(move || n * n)));
/// let squares: Vec<i32> = squares.wait().unwrap().into_iter().map(Result::unwrap).collect();
/// assert_eq!(squares, [0, 1, 4, 9]);
/// ```
///
/// Dropping or cancelling it detaches the tasks.
pub fn when_all<T: Send + 'static>(
    handles: impl IntoIterator<Item = Handle<T>>,
) -> Handle<Vec<Result<T, JoinError>>> {
    let handles: Vec<_> = handles.into_iter().collect();
    OnTheSpot.spawn_future(async move {
        let mut outcomes = Vec::with_capacity(handles.len());
        for handle in handles {
            outcomes.push(handle.await);
        }
        outcomes
    })
}

/// A handle for the first of these tasks that finishes: it yields which one that was, its outcome, and
/// the handles of the others, in their order.
///
/// ```
/// use semaforo::tasks::{Pool, when_any};
///
/// let pool = Pool::new();
/// let (index, outcome, others) =
///     when_any((0..3).map(|n| pool.spawn(move || n))).wait().unwrap();
/// assert_eq!(outcome.unwrap(), index);
/// assert_eq!(others.len(), 2);
/// ```
///
/// # Panics
/// If there are no tasks: none of them could be the first.
#[expect(clippy::type_complexity, reason = "it is said in words")]
pub fn when_any<T: Send + 'static>(
    handles: impl IntoIterator<Item = Handle<T>>,
) -> Handle<(usize, Result<T, JoinError>, Vec<Handle<T>>)> {
    let mut handles: Vec<_> = handles.into_iter().collect();
    assert!(!handles.is_empty(), "when_any needs at least one task");
    OnTheSpot.spawn_future(poll_fn(move |context| {
        for index in 0..handles.len() {
            if let Poll::Ready(outcome) = Pin::new(&mut handles[index]).poll(context) {
                let mut others = std::mem::take(&mut handles);
                drop(others.remove(index));
                return Poll::Ready((index, outcome, others));
            }
        }
        Poll::Pending
    }))
}

/// Lets others run: the task that awaits this is queued again, behind those that are ready.
///
/// ```
/// use semaforo::tasks::{Pool, yield_now};
///
/// let pool = Pool::new();
/// let polite = pool.spawn_future(async {
///     yield_now().await;
///     42
/// });
/// assert_eq!(polite.wait().unwrap(), 42);
/// ```
pub fn yield_now() -> impl Future<Output = ()> + Send + Sync + Unpin {
    let mut yielded = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

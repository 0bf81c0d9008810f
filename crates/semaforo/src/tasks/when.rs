//! Joining several tasks, and yielding.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use super::error::JoinError;
use super::handle::Handle;
use super::pool_state::PoolId;
use super::scheduler::internals::Internals;
use super::scheduler::{Runnable, Scheduler};
use super::spawner::Spawn;

/// Runs what is ready on the spot: in the thread that made it so.
#[derive(Clone)]
struct OnTheSpot {
    /// The pool that runs all tasks which are waited for, if there is one.
    pool: Option<PoolId>,
}

impl OnTheSpot {
    fn for_all_of<T>(handles: &[Handle<T>]) -> Self {
        Self::for_all_on(handles.iter().map(Handle::pool))
    }

    fn for_all_on(mut pools: impl Iterator<Item = Option<PoolId>>) -> Self {
        let first = pools.next().flatten();
        Self { pool: first.filter(|_| pools.all(|pool| pool == first)) }
    }
}

impl Scheduler for OnTheSpot {
    fn enqueue(&self, runnable: Runnable) {
        runnable.run();
    }

    fn internals(&self) -> &dyn Internals {
        self
    }
}

impl Internals for OnTheSpot {
    fn runs_on(&self) -> Option<PoolId> {
        self.pool
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
/// Dropping or cancelling it detaches the tasks. For tasks with different outputs there is
/// [`when_all_of`].
#[doc(alias = "Task.WhenAll")]
#[doc(alias = "invokeAll")]
#[doc(alias = "CompletableFuture.allOf")]
#[doc(alias = "join_all")]
pub fn when_all<T: Send + 'static>(
    handles: impl IntoIterator<Item = Handle<T>>,
) -> Handle<Vec<Result<T, JoinError>>> {
    let handles: Vec<_> = handles.into_iter().collect();
    OnTheSpot::for_all_of(&handles).spawn_future(async move {
        let mut outcomes = Vec::with_capacity(handles.len());
        for handle in handles {
            outcomes.push(handle.await);
        }
        outcomes
    })
}

/// [`when_all`] for tasks with different outputs, as a tuple of two to eight handles.
///
/// ```
/// use semaforo::tasks::{Pool, when_all_of};
///
/// let pool = Pool::new();
/// let both = when_all_of((pool.spawn(|| 6 * 7), pool.spawn(|| "tea")));
/// let (number, word) = both.wait().unwrap();
/// assert_eq!((number.unwrap(), word.unwrap()), (42, "tea"));
/// ```
///
/// Dropping or cancelling it detaches the tasks.
#[doc(alias = "Task.WhenAll")]
#[doc(alias = "join!")]
pub fn when_all_of<H: HandleTuple>(handles: H) -> Handle<H::Outcomes> {
    handles.when_all()
}

/// A tuple of two to eight [`Handle`]s, for [`when_all_of`].
pub trait HandleTuple: sealed::Sealed {
    /// The outcomes of the tasks.
    type Outcomes;

    #[doc(hidden)]
    fn when_all(self) -> Handle<Self::Outcomes>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! handle_tuples {
    ($($handle:ident)+ ; $next:ident $($more:ident)*) => {
        handle_tuples!(@ $($handle)+ $next);
        handle_tuples!($($handle)+ $next ; $($more)*);
    };
    ($($handle:ident)+ ;) => {};
    (@ $($handle:ident)+) => {
        impl<$($handle: Send + 'static),+> sealed::Sealed for ($(Handle<$handle>,)+) {}

        impl<$($handle: Send + 'static),+> HandleTuple for ($(Handle<$handle>,)+) {
            type Outcomes = ($(Result<$handle, JoinError>,)+);

            #[allow(non_snake_case, reason = "each handle has the name of its type")]
            fn when_all(self) -> Handle<Self::Outcomes> {
                let ($($handle,)+) = self;
                let pools = [$($handle.pool()),+].into_iter();
                OnTheSpot::for_all_on(pools).spawn_future(async move { ($($handle.await,)+) })
            }
        }
    };
}

handle_tuples!(A ; B C D E F G H);

/// A handle for the first of these tasks that finishes: it yields which one that was, its outcome,
/// and the handles of the others, in their order.
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
#[doc(alias = "Task.WhenAny")]
#[doc(alias = "invokeAny")]
#[doc(alias = "CompletableFuture.anyOf")]
#[doc(alias = "select_all")]
#[expect(clippy::type_complexity, reason = "it is said in words")]
pub fn when_any<T: Send + 'static>(
    handles: impl IntoIterator<Item = Handle<T>>,
) -> Handle<(usize, Result<T, JoinError>, Vec<Handle<T>>)> {
    let mut handles: Vec<_> = handles.into_iter().collect();
    assert!(!handles.is_empty(), "when_any needs at least one task");
    OnTheSpot::for_all_of(&handles).spawn_future(poll_fn(move |context| {
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
#[doc(alias = "Task.Yield")]
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

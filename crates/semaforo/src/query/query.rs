//! [`Query`]: what it is made of, and how it is to run.

use std::num::NonZero;

use super::cancellation::{Cancellable, Cancellation, Uncancellable};
use super::context::{Context, Halted};
use super::extra_workers::ExtraWorkers;
use super::pipeline::Pipeline;
use crate::tasks::Pool;
use crate::wait::cancel::CancelToken;

/// Items to come, and what is to be done to them, on as many threads as pay.
///
/// A query is a description. It does nothing until one of its terminals is called:
/// [`to_vec`](Self::to_vec), [`sum`](Self::sum), [`for_all`](Self::for_all) and so on. See the
/// [module](super) for where queries come from.
///
/// `P` is what the query is made of, and `L` whether it [can be cancelled](Self::with_cancel).
#[derive(Clone, Debug)]
#[must_use = "a query does nothing until a terminal such as `to_vec` is called"]
#[doc(alias = "ParallelQuery")]
#[doc(alias = "ParallelEnumerable")]
#[doc(alias = "PLINQ")]
#[doc(alias = "LINQ")]
pub struct Query<P, L = Uncancellable> {
    pub(super) pipeline: P,
    pub(super) settings: Settings,
    pub(super) limits: L,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) ordered: bool,
    pub(super) merge: Merge,
    threads: Option<NonZero<usize>>,
    pool: Option<Pool>,
    level: Option<u32>,
}

/// When a consumer that iterates over a query sees the items.
///
/// ```
/// use semaforo::query::{Merge, prelude::*};
///
/// let squares = (1..=4).as_parallel().map(|n| n * n).with_merge(Merge::None);
/// assert_eq!(squares.into_iter().collect::<Vec<_>>(), [1, 4, 9, 16]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// Some at a time, while others are made; a limited number is ahead of the consumer.
    #[default]
    Auto,
    /// Each as soon as it is made, at a higher price.
    None,
    /// When all have been made.
    Full,
}

impl<P: Pipeline> Query<P> {
    pub(super) fn new(pipeline: P) -> Self {
        let merge = Merge::default();
        let settings = Settings { ordered: true, merge, threads: None, pool: None, level: None };
        Self { pipeline, settings, limits: Uncancellable }
    }
}

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// From here on, items keep their order, as they do unless told otherwise. (PLINQ's
    /// `AsOrdered`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// // Any of the colours will do for each number of letters, but the numbers are kept in order.
    /// let lengths = ["red", "blue", "green", "pink"].as_parallel()
    ///     .as_unordered()
    ///     .distinct_by(|colour| colour.len())
    ///     .order_by(|colour| colour.len())
    ///     .as_ordered()
    ///     .map(|colour| colour.len());
    /// assert_eq!(lengths.to_vec(), [3, 4, 5]);
    /// ```
    #[doc(alias = "AsOrdered")]
    pub fn as_ordered(mut self) -> Self {
        self.settings.ordered = true;
        self
    }

    /// From here on, any order will do: operators and terminals that follow may take items as they
    /// come. (PLINQ's `AsUnordered`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let mut even = (0..1000).as_parallel().as_unordered().filter(|n| n % 2 == 0).to_vec();
    /// even.sort_unstable();
    /// assert_eq!(even, (0..1000).step_by(2).collect::<Vec<_>>());
    /// ```
    #[doc(alias = "AsUnordered")]
    pub fn as_unordered(mut self) -> Self {
        self.settings.ordered = false;
        self
    }

    /// Uses no more than so many threads, the calling one among them; as many as the pool has
    /// unless said. With one, the query runs on the calling thread. (PLINQ's
    /// `WithDegreeOfParallelism`.)
    ///
    /// The extra workers run on the pool's threads: no more of them at once than it has threads.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let here = std::thread::current().id();
    /// let everywhere = (0..10_000).as_parallel().with_threads(1);
    /// assert!(everywhere.all(|_| std::thread::current().id() == here));
    /// ```
    ///
    /// # Panics
    /// If it is zero.
    #[doc(alias = "WithDegreeOfParallelism")]
    pub fn with_threads(mut self, threads: usize) -> Self {
        let threads = NonZero::new(threads).expect("a query needs a thread; it was given zero");
        self.settings.threads = Some(threads);
        self
    }

    /// Runs the extra workers on this pool, and not on [the one of the process](Pool::global).
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    /// use semaforo::tasks::Pool;
    ///
    /// let pool = Pool::builder().threads(3).build()?;
    /// assert_eq!((1..=1000_u64).as_parallel().on(&pool).sum::<u64>(), 500_500);
    /// # Ok::<(), semaforo::tasks::BuildError>(())
    /// ```
    #[doc(alias = "WithTaskScheduler")]
    pub fn on(mut self, pool: &Pool) -> Self {
        self.settings.pool = Some(pool.clone());
        self
    }

    /// The level of the extra workers in the pool, its [normal](Pool::normal) one unless said;
    /// smaller is more urgent. Between chunks they leave their threads to tasks of more urgent
    /// levels.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((0..100).as_parallel().with_priority(9).count(), 100);
    /// ```
    ///
    /// # Panics
    /// When a terminal starts extra workers, if the pool has no such level.
    pub fn with_priority(mut self, level: u32) -> Self {
        self.settings.level = Some(level);
        self
    }

    /// When a consumer that iterates over the query sees the items. (PLINQ's `WithMergeOptions`.)
    #[doc(alias = "WithMergeOptions")]
    pub fn with_merge(mut self, merge: Merge) -> Self {
        self.settings.merge = merge;
        self
    }

    /// Ends the query when the token fires, and lets its terminals yield a `Result`. The token is
    /// looked at between chunks, that is, about every 75 microseconds, or after every element that
    /// takes longer. (PLINQ's `WithCancellation`.)
    ///
    /// What is complete when the token fires is not taken back. Of several tokens the last one
    /// counts.
    ///
    /// ```
    /// use semaforo::CancelSource;
    /// use semaforo::query::{Cancelled, prelude::*};
    ///
    /// let stop = CancelSource::new();
    /// let numbers = (0_u64..).chunked_parallel().inspect(|n| {
    ///     if *n == 1000 {
    ///         stop.cancel();
    ///     }
    /// });
    /// assert_eq!(numbers.with_cancel(&stop.token()).count(), Err(Cancelled));
    /// ```
    #[doc(alias = "WithCancellation")]
    pub fn with_cancel<'t>(
        self,
        token: impl Into<Option<&'t CancelToken>>,
    ) -> Query<P, Cancellable> {
        Query {
            pipeline: self.pipeline,
            settings: self.settings,
            limits: Cancellable(token.into().cloned().unwrap_or_default()),
        }
    }

    /// The same query with an operator around it.
    pub(super) fn wrap<Q: Pipeline>(self, wrap: impl FnOnce(P, &Settings) -> Q) -> Query<Q, L> {
        let pipeline = wrap(self.pipeline, &self.settings);
        Query { pipeline, settings: self.settings, limits: self.limits }
    }

    /// Opens the query and runs a terminal.
    pub(super) fn execute<R>(
        self,
        terminal: impl FnOnce(&Context, P::Source) -> Result<R, Halted>,
    ) -> L::Output<R> {
        let context = Context::new(self.settings.extra_workers(), self.limits.token());
        let outcome = context
            .run(|| self.pipeline.open(&context).and_then(|source| terminal(&context, source)));
        context.finish::<L, R>(outcome)
    }
}

impl Settings {
    pub(super) fn extra_workers(&self) -> ExtraWorkers {
        ExtraWorkers::new(self.threads, self.pool.clone(), self.level)
    }
}

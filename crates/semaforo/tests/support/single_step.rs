//! Futures polled by hand, one step at a time, and wakers that misbehave.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use super::Record;

/// A future that only the test polls.
pub(crate) struct Step<F: Future> {
    future: Pin<Box<F>>,
    counter: Arc<Counter>,
}

struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<F: Future> Step<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future: Box::pin(future), counter: Arc::new(Counter(AtomicUsize::new(0))) }
    }

    /// Polls once, and expects it to have to wait.
    #[track_caller]
    pub(crate) fn queued(future: F) -> Self {
        let mut step = Self::new(future);
        step.expect_pending();
        step
    }

    /// Polls once with a waker that panics, and expects it to have to wait.
    #[track_caller]
    pub(crate) fn panicking(future: F) -> Self {
        let mut step = Self::new(future);
        assert!(step.poll_with(&panicking_waker()).is_pending(), "expected to wait");
        step
    }

    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.counter));
        self.poll_with(&waker)
    }

    pub(crate) fn poll_with(&mut self, waker: &Waker) -> Poll<F::Output> {
        self.future.as_mut().poll(&mut Context::from_waker(waker))
    }

    #[track_caller]
    pub(crate) fn expect_pending(&mut self) {
        assert!(self.poll().is_pending(), "expected to wait");
    }

    #[track_caller]
    pub(crate) fn expect_ready(&mut self) -> F::Output {
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("expected to be ready"),
        }
    }

    /// How often it was woken.
    pub(crate) fn wakes(&self) -> usize {
        self.counter.0.load(Ordering::SeqCst)
    }

    /// How many references to its waker others hold.
    pub(crate) fn waker_references(&self) -> usize {
        Arc::strong_count(&self.counter) - 1
    }

    /// The pinned future, to be leaked or dropped elsewhere.
    pub(crate) fn into_future(self) -> Pin<Box<F>> {
        self.future
    }
}

/// Wakers that note who was woken, in order.
#[derive(Clone)]
pub(crate) struct WakeOrder<E>(Record<E>);

struct Noting<E> {
    record: Record<E>,
    entry: E,
}

impl<E: Clone + Send + Sync + 'static> Wake for Noting<E> {
    fn wake(self: Arc<Self>) {
        self.record.note(self.entry.clone());
    }
}

impl<E: Clone + Send + Sync + 'static> WakeOrder<E> {
    pub(crate) fn new() -> Self {
        Self(Record::new())
    }

    pub(crate) fn waker(&self, entry: E) -> Waker {
        Arc::new(Noting { record: self.0.clone(), entry }).into()
    }

    pub(crate) fn entries(&self) -> Vec<E> {
        self.0.entries()
    }
}

/// What a waker does when it is woken, cloned, and dropped.
pub(crate) struct WakerOf<W, C, D>(pub(crate) W, pub(crate) C, pub(crate) D);

impl<W, C, D> WakerOf<W, C, D>
where
    W: Fn() + Send + Sync + 'static,
    C: Fn() + Send + Sync + 'static,
    D: Fn() + Send + Sync + 'static,
{
    /// The waker. `Waker::from(Arc)` could not tell a clone from a drop, so it has its own table.
    pub(crate) fn into_waker(self) -> Waker {
        use std::task::{RawWaker, RawWakerVTable};

        struct Table<W, C, D>(std::marker::PhantomData<(W, C, D)>);
        impl<W, C, D> Table<W, C, D>
        where
            W: Fn() + Send + Sync + 'static,
            C: Fn() + Send + Sync + 'static,
            D: Fn() + Send + Sync + 'static,
        {
            const TABLE: RawWakerVTable =
                RawWakerVTable::new(Self::clone, Self::wake, Self::wake_by_ref, Self::drop);

            // SAFETY (all four): `data` is what `Arc::into_raw` gave, still counted for the waker
            // that is passed, as the contract of `RawWakerVTable` says.
            unsafe fn clone(data: *const ()) -> RawWaker {
                let data = data.cast::<WakerOf<W, C, D>>();
                // SAFETY: see above.
                unsafe {
                    ((*data).1)();
                    Arc::increment_strong_count(data);
                }
                RawWaker::new(data.cast(), &Self::TABLE)
            }
            unsafe fn wake(data: *const ()) {
                // SAFETY: see above. The count is given back even if waking panics.
                let own = unsafe { Arc::from_raw(data.cast::<WakerOf<W, C, D>>()) };
                (own.0)();
            }
            unsafe fn wake_by_ref(data: *const ()) {
                // SAFETY: see above.
                unsafe { ((*data.cast::<WakerOf<W, C, D>>()).0)() };
            }
            unsafe fn drop(data: *const ()) {
                // SAFETY: see above.
                let own = unsafe { Arc::from_raw(data.cast::<WakerOf<W, C, D>>()) };
                (own.2)();
            }
        }

        let data = Arc::into_raw(Arc::new(self)).cast();
        // SAFETY: the table keeps the contract, and the data is `Send` and `Sync`.
        unsafe { Waker::from_raw(RawWaker::new(data, &Table::<W, C, D>::TABLE)) }
    }
}

/// A waker that runs this whenever it is woken.
pub(crate) fn waker_that(wake: impl Fn() + Send + Sync + 'static) -> Waker {
    WakerOf(wake, || {}, || {}).into_waker()
}

/// A waker that does this whatever is done to it, and how often it has.
pub(crate) fn meddling_waker(
    meddle: impl Fn() + Clone + Send + Sync + 'static,
) -> (Waker, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let meddle = move || {
        counter.fetch_add(1, Ordering::SeqCst);
        meddle();
    };
    (WakerOf(meddle.clone(), meddle.clone(), meddle).into_waker(), calls)
}

/// A waker that panics when woken.
pub(crate) fn panicking_waker() -> Waker {
    waker_that(|| panic!("the waker panicked"))
}

/// A task that is polled inside `wake`, on the stack of whoever wakes it.
pub(crate) struct InlineTask {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// Wake-ups not yet followed by a poll; whoever raises it from zero polls.
    woken: AtomicUsize,
    deepest: Arc<AtomicUsize>,
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

impl InlineTask {
    /// Polls the task for the first time. `deepest` learns how deep tasks were ever polled within
    /// each other.
    pub(crate) fn start(
        deepest: &Arc<AtomicUsize>,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = Arc::new(Self {
            future: Mutex::new(Some(Box::pin(future))),
            woken: AtomicUsize::new(0),
            deepest: Arc::clone(deepest),
        });
        task.wake();
    }
}

impl Wake for InlineTask {
    fn wake(self: Arc<Self>) {
        if self.woken.fetch_add(1, Ordering::SeqCst) > 0 {
            return;
        }
        let depth = DEPTH.get() + 1;
        DEPTH.set(depth);
        self.deepest.fetch_max(depth, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self));
        let mut seen = 1;
        loop {
            let mut slot = self.future.lock().unwrap();
            if let Some(future) = &mut *slot {
                if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                    *slot = None;
                }
            }
            drop(slot);
            let before = self.woken.fetch_sub(seen, Ordering::SeqCst);
            if before == seen {
                break;
            }
            seen = before - seen;
        }
        DEPTH.set(depth - 1);
    }
}

//! A task of a model: a future, and a waker that the checker follows.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::race::For;
use crate::primitive::{Condvar, Mutex};
use crate::request::Unlimited;
use crate::sync::semaphore::Acquire;
use crate::{Request, Semaphore};

/// A future that the model polls when it likes, or runs to its end.
pub(super) struct Task<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
}

/// A task prepared for one side that asks for permits.
pub(super) type Asking<L = Unlimited> = For<Task<Request<Acquire<Arc<Semaphore>>, L>>>;

struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

impl<F: Future> Task<F> {
    pub(super) fn new(future: F) -> Self {
        let bell = Bell { rung: Mutex::new(false), changed: Condvar::new() };
        Self { future: Box::pin(future), bell: Arc::new(bell) }
    }

    /// A task that waits in a queue.
    pub(super) fn queued(future: F) -> For<Self> {
        let mut task = Self::new(future);
        assert!(task.poll().is_pending());
        For::one_side(task)
    }

    pub(super) fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.bell));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls until it is ready, each time after it was woken: a lost wake-up is a deadlock.
    pub(super) fn run(mut self) -> F::Output {
        loop {
            if let Poll::Ready(output) = self.poll() {
                return output;
            }
            self.sleep();
        }
    }

    /// Runs a task that waits, from when it is woken.
    pub(super) fn resume(self) -> F::Output {
        self.sleep();
        self.run()
    }

    fn sleep(&self) {
        let mut rung = self.bell.rung.lock().unwrap();
        while !*rung {
            rung = self.bell.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

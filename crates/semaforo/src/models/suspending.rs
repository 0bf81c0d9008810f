//! A task that is a future: waking it, against polling, cancelling and finishing it.

use std::sync::Arc;
use std::task::{Poll, Waker};

use super::checker::{explore, explore_within};
use super::race::{For, with};
use super::task::Task;
use super::tray::{Count, Tray};
use super::witness::Witness;
use crate::primitive::Mutex;
use crate::tasks::head::state;
use crate::tasks::{Handle, JoinError, Spawn};
use crate::{CancelSource, CancelToken};

/// What a future waits for: so many calls of [`ring`](Self::ring).
struct Bell {
    rings: Mutex<(u32, Option<Waker>)>,
}

impl Bell {
    fn ring(&self) {
        let mut rings = self.rings.lock().unwrap();
        rings.0 += 1;
        let waker = rings.1.take();
        drop(rings);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Wakes the future for nothing.
    fn disturb(&self) {
        let waker = self.rings.lock().unwrap().1.clone();
        if let Some(waker) = waker {
            waker.wake_by_ref();
        }
    }
}

/// A future in a tray, and what it waits for.
struct Waiting {
    tray: Tray,
    bell: Arc<Bell>,
    handle: For<Handle<u32>>,
    futures: Count,
}

impl Waiting {
    /// A future that has yet to be polled, and will be ready after so many rings.
    fn new(rings: u32) -> Self {
        Self::with_token(rings, &CancelToken::never())
    }

    /// One that is cancelled when the token fires.
    fn with_token(rings: u32, token: &CancelToken) -> Self {
        let (tray, futures) = (Tray::new(), Count::default());
        let bell = Arc::new(Bell { rings: Mutex::new((0, None)) });
        let (heard, lives, alone) = (Arc::clone(&bell), futures.drops(), Witness::new());
        let start = tray.start().cancel_on(token);
        let handle = start.spawn_future(std::future::poll_fn(move |context| {
            let _ = &lives;
            alone.change();
            let mut current = heard.rings.lock().unwrap();
            if current.0 >= rings {
                return Poll::Ready(current.0);
            }
            current.1 = Some(context.waker().clone());
            drop(current);
            // It can be woken now, and is still being polled.
            drop(heard.rings.lock());
            alone.change();
            Poll::Pending
        }));
        Self { tray, bell, handle: For::one_side(handle), futures }
    }

    /// One that has been polled, and is suspended.
    fn suspended(rings: u32) -> Self {
        let waiting = Self::new(rings);
        waiting.tray.run();
        waiting
    }

    /// Cancels it, or joins it if it was ready before.
    fn cancel_or_join(&self) {
        let handle = self.handle.take();
        if handle.cancel() {
            assert!(matches!(handle.wait(), Err(JoinError::Cancelled)));
        } else {
            assert_eq!(handle.wait().unwrap(), 1);
        }
    }

    /// It is gone, once.
    fn settled(self) {
        assert_eq!(self.futures.get(), 1, "the future is dropped once");
        // The waker that it left leads to the task.
        self.bell.rings.lock().unwrap().1 = None;
    }
}

/// It is woken while it is polled: it is polled again.
#[test]
fn wake_against_poll() {
    explore_within(4, || {
        let waiting = with(Waiting::new(1)).race([
            |waiting| waiting.tray.serve(),
            |waiting| {
                waiting.bell.ring();
                assert_eq!(waiting.handle.take().wait().unwrap(), 1);
                waiting.tray.close();
            },
        ]);
        waiting.settled();
    });
}

/// The same when it has to be woken twice.
#[test]
fn two_wakes_against_polls() {
    explore_within(3, || {
        let waiting = with(Waiting::new(2)).race([
            |waiting| waiting.tray.serve(),
            |waiting| {
                waiting.bell.ring();
                waiting.bell.ring();
                assert_eq!(Task::new(waiting.handle.take()).run().unwrap(), 2);
                waiting.tray.close();
            },
        ]);
        waiting.settled();
    });
}

/// Two wake it at once: it is queued once.
#[test]
fn two_who_wake() {
    explore(|| {
        let waiting = with(Waiting::suspended(2))
            .race([|waiting| waiting.bell.disturb(), |waiting| waiting.bell.disturb()]);
        assert_eq!(waiting.tray.len(), 2, "it was queued twice, once when it began");
        drop(waiting.handle.take());
        waiting.tray.first().cancel(0);
        waiting.settled();
    });
}

/// Two poll it, because one has found it in a queue and the other waits for it, while it is woken.
#[test]
fn two_who_poll() {
    explore_within(3, || {
        let waiting = with(Waiting::new(1)).race([
            |waiting| waiting.tray.serve(),
            |waiting| {
                waiting.bell.ring();
                waiting.tray.first().run();
                assert_eq!(waiting.handle.take().wait().unwrap(), 1);
                waiting.tray.close();
            },
        ]);
        waiting.settled();
    });
}

/// It is cancelled while it is polled.
#[test]
fn cancel_against_poll() {
    explore(|| {
        let waiting = with(Waiting::new(1)).race([
            |waiting| waiting.tray.run(),
            |waiting| {
                let handle = waiting.handle.take();
                assert!(handle.cancel());
                assert!(matches!(handle.wait(), Err(JoinError::Cancelled)));
            },
        ]);
        waiting.settled();
    });
}

/// It is cancelled while it is polled for the last time.
#[test]
fn cancel_against_the_last_poll() {
    explore(|| {
        let waiting = Waiting::new(1);
        waiting.bell.ring();
        let waiting = with(waiting).race([|waiting| waiting.tray.run(), Waiting::cancel_or_join]);
        waiting.settled();
    });
}

/// It is cancelled while it is woken: nobody polls it any more, or that is done.
#[test]
fn cancel_against_wake() {
    explore(|| {
        let waiting = with(Waiting::suspended(1)).race([
            |waiting| {
                waiting.bell.ring();
                waiting.tray.run();
            },
            Waiting::cancel_or_join,
        ]);
        waiting.settled();
    });
}

/// All three at once, and a task that joins.
#[test]
fn cancel_against_wake_and_poll() {
    explore_within(2, || {
        let waiting = with(Waiting::new(1)).race([
            |waiting| waiting.tray.serve(),
            |waiting| {
                waiting.tray.first().cancel(state::SHUT_DOWN);
            },
            |waiting| {
                waiting.bell.ring();
                match Task::new(waiting.handle.take()).run() {
                    Ok(rings) => assert_eq!(rings, 1),
                    Err(error) => assert!(matches!(error, JoinError::ShutDown)),
                }
                waiting.tray.close();
            },
        ]);
        waiting.settled();
    });
}

/// The handle is dropped while the future is polled for the last time.
#[test]
fn dropping_the_handle_against_the_last_poll() {
    explore(|| {
        let waiting = Waiting::new(1);
        waiting.bell.ring();
        let waiting = with(waiting)
            .race([|waiting| waiting.tray.run(), |waiting| drop(waiting.handle.take())]);
        waiting.settled();
    });
}

/// A future that has yet to be polled, and its token.
fn with_token(rings: u32) -> (Waiting, CancelSource) {
    let stop = CancelSource::new();
    (Waiting::with_token(rings, &stop.token()), stop)
}

/// Fires the token, and finds the future finished or cancelled.
fn fire_and_join((waiting, stop): &(Waiting, CancelSource)) {
    stop.cancel();
    let handle = waiting.handle.take();
    assert!(handle.is_finished(), "the token has not cancelled it");
    match handle.wait() {
        Ok(rings) => assert_eq!(rings, 1),
        Err(error) => assert!(matches!(error, JoinError::Cancelled)),
    }
}

/// Its token fires while it is polled, and suspended.
#[test]
fn a_token_against_suspension() {
    explore(|| {
        let (waiting, stop) =
            with(with_token(1)).race([|(waiting, _)| waiting.tray.run(), fire_and_join]);
        waiting.settled();
        assert_eq!(stop.token().registrations(), 0);
    });
}

/// Its token fires while it is polled for the last time.
#[test]
fn a_token_against_the_last_poll() {
    explore(|| {
        let objects = with_token(1);
        objects.0.bell.ring();
        let (waiting, stop) =
            with(objects).race([|(waiting, _)| waiting.tray.run(), fire_and_join]);
        waiting.settled();
        assert_eq!(stop.token().registrations(), 0);
    });
}

/// Its token fires while it is suspended, and woken.
#[test]
fn a_token_against_wake() {
    explore(|| {
        let objects = with_token(1);
        objects.0.tray.run();
        let (waiting, stop) = with(objects).race([
            |(waiting, _)| {
                waiting.bell.ring();
                waiting.tray.run();
            },
            fire_and_join,
        ]);
        waiting.settled();
        assert_eq!(stop.token().registrations(), 0);
    });
}

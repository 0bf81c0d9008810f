//! A task that is one call finishes: against whoever joins it, drops its handle, cancels it, or runs it
//! too.

use std::sync::Arc;

use super::checker::{explore, explore_within};
use super::race::{For, HOUR, time_passes, with};
use super::side::{Side, on_both_sides};
use super::task::Task;
use super::tray::{Count, Dropped, Tray};
use crate::tasks::head::{Run, state};
use crate::tasks::{Handle, JoinError, Spawn};
use crate::{CancelSource, CancelToken, WaitError};

on_both_sides!(against_a_join);

/// A task that has yet to be run, its handle, and what is counted: calls, captures and outcomes that are
/// dropped.
struct Started {
    tray: Tray,
    handle: For<Handle<Dropped>>,
    calls: Count,
    captures: Count,
    outcomes: Count,
}

impl Started {
    fn new() -> Self {
        Self::with_token(&CancelToken::never())
    }

    /// One that is cancelled when the token fires.
    fn with_token(token: &CancelToken) -> Self {
        let started = Self::prepared();
        started.spawn(token);
        started
    }

    /// One that has yet to be [started](Self::spawn).
    fn prepared() -> Self {
        let (calls, captures, outcomes) = (Count::default(), Count::default(), Count::default());
        Self { tray: Tray::new(), handle: For::later(), calls, captures, outcomes }
    }

    fn spawn(&self, token: &CancelToken) {
        let (called, capture) = (self.calls.clone(), self.captures.drops());
        let outcome = self.outcomes.drops();
        self.handle.put(self.tray.start().cancel_on(token).spawn(move || {
            called.up();
            drop(capture);
            outcome
        }));
    }

    fn task(&self) -> Arc<dyn Run> {
        self.tray.first()
    }

    fn run(&self) {
        self.task().run();
    }

    /// Everything was dropped once, and the work was done this often.
    fn settled(&self, calls: u32) {
        assert_eq!(self.calls.get(), calls, "so often it was called");
        assert_eq!(self.captures.get(), 1, "what it had captured is dropped once");
        assert_eq!(self.outcomes.get(), 1, "what it yields is dropped once");
    }
}

/// One joins while the call ends.
fn against_a_join<S: Side>() {
    S::explore(4, || {
        let started = with(Started::new()).race([
            |started| started.run(),
            |started| drop(S::finish(started.handle.take()).unwrap()),
        ]);
        started.settled(1);
    });
}

/// A task that has left its waker hands the handle to another, which leaves its own.
#[test]
fn against_a_poll_with_another_waker() {
    explore(|| {
        let started = Started::new();
        let mut handle = started.handle.take();
        assert!(Task::new(&mut handle).poll().is_pending());
        started.handle.put(handle);
        let started = with(started).race([
            |started| started.run(),
            |started| drop(Task::new(started.handle.take()).run().unwrap()),
        ]);
        started.settled(1);
    });
}

/// A task polls again with the waker that it has left.
#[test]
fn against_a_poll_with_the_same_waker() {
    explore(|| {
        let started = Started::new();
        let task = Task::queued(started.handle.take());
        let (started, _) = with((started, task))
            .race([|(started, _)| started.run(), |(_, task)| drop(task.take().run().unwrap())]);
        started.settled(1);
    });
}

/// A thread waits that has not much time.
#[test]
fn against_time_out_of_a_thread() {
    explore_within(4, || {
        let started = with(Started::new()).race([
            |started| started.run(),
            |started| {
                let outcome = started.handle.take().timeout(HOUR).wait();
                assert!(matches!(outcome, Ok(_) | Err(WaitError::TimedOut)));
            },
        ]);
        started.settled(1);
    });
}

/// The timer ends the wait of a task that joins.
#[test]
fn against_time_out_of_a_task() {
    explore_within(4, || {
        let started = Started::new();
        let task = Task::queued(started.handle.take().timeout(HOUR));
        let started = with(started).race([|started| started.run(), |_| assert!(time_passes())]);
        assert!(matches!(task.left().resume(), Ok(_) | Err(WaitError::TimedOut)));
        started.settled(1);
    });
}

/// The handle is dropped: nobody wants the outcome.
#[test]
fn against_dropping_the_handle() {
    explore(|| {
        let started = with(Started::new())
            .race([|started| started.run(), |started| drop(started.handle.take())]);
        started.settled(1);
    });
}

/// The handle is dropped after it has left a waker.
#[test]
fn against_dropping_a_handle_that_waited() {
    explore(|| {
        let started = Started::new();
        let task = Task::queued(started.handle.take());
        let (started, _) = with((started, task))
            .race([|(started, _)| started.run(), |(_, task)| drop(task.take())]);
        started.settled(1);
    });
}

/// The task is cancelled: it does not begin, or its outcome is dropped, or it was first.
#[test]
fn against_cancel() {
    explore(|| {
        let started = with(Started::new()).race([
            |started| started.run(),
            |started| {
                let handle = started.handle.take();
                if handle.cancel() {
                    assert!(handle.is_finished());
                    assert!(matches!(handle.wait(), Err(JoinError::Cancelled)));
                } else {
                    assert_eq!(started.calls.get(), 1);
                    drop(handle.wait().unwrap());
                }
            },
        ]);
        started.settled(started.calls.get().min(1));
    });
}

/// The same while somebody waits in a thread.
#[test]
fn against_cancel_and_a_thread() {
    explore_within(3, || {
        let (started, cancelled) = with((Started::new(), For::later())).race([
            |(started, _)| started.run(),
            |(started, cancelled)| cancelled.put(started.task().cancel(state::SHUT_DOWN)),
            |(started, _)| {
                let outcome = started.handle.take().wait();
                assert!(matches!(outcome, Ok(_) | Err(JoinError::ShutDown)));
            },
        ]);
        if !cancelled.left() {
            assert_eq!(started.calls.get(), 1);
        }
        started.settled(started.calls.get().min(1));
    });
}

/// The same while a task joins.
#[test]
fn against_cancel_and_a_poll() {
    explore_within(3, || {
        let started = with(Started::new()).race([
            |started| started.run(),
            |started| {
                started.task().cancel(0);
            },
            |started| {
                let outcome = Task::new(started.handle.take()).run();
                assert!(matches!(outcome, Ok(_) | Err(JoinError::Cancelled)));
            },
        ]);
        started.settled(started.calls.get().min(1));
    });
}

/// Two cancel the task: one of them has.
#[test]
fn two_who_cancel() {
    explore_within(3, || {
        let (started, cancelled) = with((Started::new(), Count::default())).race([
            |(started, cancelled)| {
                if started.task().cancel(0) {
                    cancelled.up();
                }
            },
            |(started, cancelled)| {
                if started.handle.take().cancel() {
                    cancelled.up();
                }
            },
            |(started, _)| started.run(),
        ]);
        if cancelled.get() == 0 {
            assert_eq!(started.calls.get(), 1);
        }
        assert!(cancelled.get() <= 1);
        started.settled(started.calls.get().min(1));
    });
}

/// Two run the task, because one has found it in a queue and the other waits for it: one does.
#[test]
fn two_who_run() {
    explore_within(3, || {
        let started = with(Started::new()).race([
            |started| started.run(),
            |started| {
                started.run();
                drop(started.handle.take().wait().unwrap());
            },
        ]);
        started.settled(1);
    });
}

/// Somebody cancels while two run it.
#[test]
fn two_who_run_against_cancel() {
    explore_within(3, || {
        let started = with(Started::new()).race([
            |started| started.run(),
            |started| started.run(),
            |started| {
                started.handle.take().cancel();
            },
        ]);
        started.settled(started.calls.get().min(1));
    });
}

/// A task and its token, which has not fired.
fn with_token() -> (Started, CancelSource) {
    let stop = CancelSource::new();
    (Started::with_token(&stop.token()), stop)
}

/// Its token fires while the task begins and ends: whoever fires it finds it finished or cancelled.
#[test]
fn against_a_token() {
    explore(|| {
        let (started, stop) = with(with_token()).race([
            |(started, _)| started.run(),
            |(started, stop)| {
                stop.cancel();
                let handle = started.handle.take();
                assert!(handle.is_finished(), "the token has not cancelled it");
                assert!(matches!(handle.wait(), Ok(_) | Err(JoinError::Cancelled)));
            },
        ]);
        started.settled(started.calls.get().min(1));
        assert_eq!(stop.token().registrations(), 0);
    });
}

/// The same while a task joins, and is answered in any case.
#[test]
fn against_a_token_and_a_poll() {
    explore_within(3, || {
        let (started, stop) = with(with_token()).race([
            |(started, _)| started.run(),
            |(_, stop)| stop.cancel(),
            |(started, _)| {
                let outcome = Task::new(started.handle.take()).run();
                assert!(matches!(outcome, Ok(_) | Err(JoinError::Cancelled)));
            },
        ]);
        started.settled(started.calls.get().min(1));
        assert_eq!(stop.token().registrations(), 0);
    });
}

/// The token fires while the task is started: it is cancelled when both are done.
#[test]
fn a_token_against_the_start() {
    explore(|| {
        let stop = CancelSource::new();
        let token = stop.token();
        let (started, _, token) = with((Started::prepared(), stop, token))
            .race([|(started, _, token)| started.spawn(token), |(_, stop, _)| stop.cancel()]);
        let handle = started.handle.take();
        assert!(handle.is_finished(), "the token has missed it");
        assert!(matches!(handle.wait(), Err(JoinError::Cancelled)));
        started.tray.run();
        started.settled(0);
        assert_eq!(token.registrations(), 0);
    });
}

//! Cases F: the promise. It is the result of a task, not the task: its body is whoever sets it.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{
    Line, Record, SHORT, Step, Waiter, fire, in_every_arrangement, leaked, panic_of,
};
use semaforo::{CancelSource, Promise, PromiseError, WaitError};

type Answer = Promise<u32, String>;

#[test]
fn every_reader_gets_the_value() {
    in_every_arrangement(|arrangement| {
        let answer = leaked(Answer::new());
        let mut line = Line::new(arrangement, answer);
        assert!(answer.try_get().is_none() && !answer.is_done());
        assert_eq!(answer.available(), 0);
        let readers: Vec<_> = (0..5).map(|_| line.enter(answer.get())).collect();
        answer.set(42).unwrap();
        assert_eq!((answer.waiters(), answer.available()), (0, u32::MAX));
        for reader in readers {
            assert_eq!(reader.join(), Ok(&42));
        }
        assert_eq!(line.start(answer.get()).join(), Ok(&42));
        assert_eq!(answer.try_get(), Some(Ok(&42)));
    });
}

#[test]
fn the_first_outcome_stands() {
    let answer = Answer::new();
    answer.set(1).unwrap();
    assert_eq!(answer.set(2), Err(2));
    assert_eq!(answer.fail("no".into()), Err("no".into()));
    assert!(!answer.cancel());
    assert_eq!(answer.into_inner(), Some(Ok(1)));
    assert_eq!(Answer::default().into_inner(), None);
}

/// F-03
#[test]
fn a_reader_that_gives_up_ends_only_its_own_wait() {
    in_every_arrangement(|arrangement| {
        let answer = leaked(Answer::new());
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, answer);
        let stays = line.enter(answer.get());
        let cancelled = line.enter(answer.get().cancel_on(&stop.token()));
        fire(&stop, 1);
        assert_eq!(cancelled.join(), Err(WaitError::Cancelled));
        let timed = line.start(answer.get().timeout(SHORT)).join();
        assert_eq!(timed, Err(WaitError::TimedOut));
        assert!(!answer.is_done());
        assert_eq!(answer.waiters(), 1);
        answer.set(7).unwrap();
        assert_eq!(stays.join(), Ok(&7));
    });
}

/// F-06
#[test]
fn cancelling_leaves_the_body_alone_and_the_result_cancelled() {
    in_every_arrangement(|arrangement| {
        let answer = leaked(Answer::new());
        let body_done = leaked(semaforo::Event::new());
        let go_on = leaked(semaforo::Event::new());
        let body = Waiter::on_a_thread(|| {
            go_on.happened().wait();
            body_done.set();
            answer.set(42)
        });
        let mut line = Line::new(arrangement, answer);
        let reader = line.enter(answer.get());
        assert!(answer.cancel());
        assert!(!answer.cancel());
        assert_eq!(reader.join(), Err(PromiseError::Cancelled));
        go_on.set();
        assert_eq!(body.join(), Err(42), "its value comes back to it");
        assert!(body_done.is_set());
        assert_eq!(line.start(answer.get()).join(), Err(PromiseError::Cancelled));
    });
}

/// F-09
#[test]
fn every_reader_gets_the_same_failure_every_time() {
    in_every_arrangement(|arrangement| {
        let answer = leaked(Answer::new());
        let mut line = Line::new(arrangement, answer);
        let readers = [line.enter(answer.get()), line.enter(answer.get())];
        answer.fail("broken".into()).unwrap();
        let broken = String::from("broken");
        let failed = Err(PromiseError::Failed(&broken));
        assert_eq!(readers.map(Waiter::join), [failed; 2]);
        for _ in 0..3 {
            assert_eq!(line.start(answer.get()).join(), failed);
            assert_eq!(answer.try_get(), Some(failed));
        }
        assert_eq!(PromiseError::Failed(&broken).to_string(), "broken");
    });
}

/// F-09: a panic of the body, carried as the failure.
#[test]
fn a_panic_can_be_the_failure() {
    let answer = Promise::<u32, Box<dyn std::any::Any + Send>>::new();
    let body = catch_unwind(|| -> u32 { panic!("in the body") });
    match body {
        Ok(value) => drop(answer.set(value)),
        Err(panic) => answer.fail(panic).unwrap(),
    }
    for _ in 0..2 {
        let Err(PromiseError::Failed(panic)) = answer.get().wait() else { panic!("not failed") };
        assert_eq!(crate::support::message_of(&**panic), "in the body");
    }
}

/// F-10
#[test]
fn a_callback_runs_once_and_sees_the_outcome() {
    for outcome in 0..3 {
        let answer = leaked(Answer::new());
        let seen = Record::new();
        let note = {
            let seen = seen.clone();
            move |result: Result<&u32, PromiseError<&String>>| {
                assert!(answer.is_done());
                seen.note(
                    result.map_err(|error| matches!(error, PromiseError::Cancelled)).copied(),
                );
            }
        };
        answer.on_complete(note.clone());
        assert_eq!(seen.len(), 0);
        let expected = match outcome {
            0 => answer.set(5).map(|()| Ok(5)).unwrap(),
            1 => answer.fail(String::new()).map(|()| Err(false)).unwrap(),
            _ => {
                assert!(answer.cancel());
                Err(true)
            }
        };
        assert_eq!(seen.entries(), [expected]);
        answer.on_complete(note);
        assert_eq!(seen.entries(), [expected; 2], "at once, if there is an outcome");
        assert!(answer.set(6).is_err());
        assert_eq!(seen.len(), 2);
    }
}

/// F-10
#[test]
fn a_panicking_callback_reaches_the_completer_and_the_outcome_stands() {
    in_every_arrangement(|arrangement| {
        let answer = leaked(Answer::new());
        let called = Arc::new(AtomicUsize::new(0));
        for panics in [false, true, false] {
            let called = Arc::clone(&called);
            answer.on_complete(move |_| {
                called.fetch_add(1, Ordering::SeqCst);
                assert!(!panics, "the callback panicked");
            });
        }
        let reader = Line::new(arrangement, answer).enter(answer.get());
        assert_eq!(panic_of(|| answer.set(3)), "the callback panicked");
        assert_eq!(called.load(Ordering::SeqCst), 3);
        assert_eq!(reader.join(), Ok(&3));
        assert_eq!(answer.try_get(), Some(Ok(&3)));
    });
}

/// F-10: a callback may use the promise that it belongs to.
#[test]
fn a_callback_may_read_and_register_another() {
    let answer = leaked(Answer::new());
    let seen = Record::new();
    let inner = seen.clone();
    answer.on_complete(move |_| {
        assert_eq!(answer.get().wait(), Ok(&1));
        answer.on_complete(move |result| inner.note(*result.unwrap()));
    });
    answer.set(1).unwrap();
    assert_eq!(seen.entries(), [1]);
}

/// The value is dropped once, whoever read it.
#[test]
fn the_value_is_dropped_with_the_promise() {
    let value = Arc::new(());
    let answer = Promise::<_, String>::new();
    answer.set(Arc::clone(&value)).unwrap();
    assert!(answer.get().wait().is_ok());
    assert_eq!(Arc::strong_count(&value), 2);
    drop(answer);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn debugging_shows_outcome_and_waiters() {
    let answer = Answer::new();
    let _reader = Step::queued(answer.get());
    assert_eq!(format!("{answer:?}"), "Promise { outcome: None, waiters: 1 }");
    answer.set(1).unwrap();
    assert!(format!("{answer:?}").contains("Ok(1)"));
    assert_eq!(PromiseError::<String>::Cancelled.to_string(), "the promise was cancelled");
}

/// Whoever has it to itself can take the outcome out, of each kind, and use the promise again.
#[test]
fn an_outcome_that_is_taken_leaves_a_new_promise() {
    let mut promise = Promise::<String, String>::new();
    assert_eq!(promise.take(), None);
    for round in 0..3 {
        let expected = match round {
            0 => {
                promise.set("value".into()).unwrap();
                Ok("value".to_owned())
            }
            1 => {
                promise.fail("failure".into()).unwrap();
                Err(PromiseError::Failed("failure".to_owned()))
            }
            _ => {
                assert!(promise.cancel());
                Err(PromiseError::Cancelled)
            }
        };
        assert!(promise.get().wait().is_ok() == (round == 0));
        assert_eq!(promise.take(), Some(expected));
        assert!(!promise.is_done() && promise.try_get().is_none() && promise.take().is_none());
        let mut reader = Step::queued(promise.get());
        promise.set("new".into()).unwrap();
        assert_eq!(reader.expect_ready(), Ok(&"new".to_owned()));
        drop(reader);
        assert!(promise.take().is_some());
    }
}

/// As a `OnceLock` is made from its value.
#[test]
fn a_promise_made_from_its_value_is_kept() {
    let promise: Promise<String, ()> = Promise::from("kept".to_owned());
    assert!(promise.is_done());
    assert_eq!(promise.set("again".to_owned()), Err("again".to_owned()));
    assert_eq!(promise.get().wait().unwrap(), "kept");
    assert_eq!(promise.into_inner(), Some(Ok("kept".to_owned())));
}

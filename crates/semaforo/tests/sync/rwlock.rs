//! Cases R: the reader-writer lock. need a re-entrant form and R-20 conditions, which
//! are not offered yet. R-15 is in `framework.rs`: a guard always matches its hold.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    LONG, Line, SHORT, Step, eventually, fire, in_every_arrangement, in_every_arrangement_at_once,
    leaked,
};
use semaforo::{CancelSource, RwLock, WaitError};

///
#[test]
fn readers_enter_together() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::new(5));
        let mut line = Line::new(arrangement, lock);
        let first = line.start(lock.read()).join();
        let second = line.start(lock.read()).join();
        let tried = lock.try_read().unwrap();
        let timed = line.start(lock.read().timeout(Duration::ZERO)).join().unwrap();
        assert_eq!((lock.readers(), lock.has_writer(), lock.waiters()), (4, false, 0));
        assert_eq!(*first + *second + *tried + *timed, 20);
        drop((first, tried));
        assert_eq!(lock.readers(), 2);
        drop((second, timed));
        assert_eq!(lock.readers(), 0);
    });
}

#[test]
fn a_lock_is_made_of_its_value() {
    let lock = RwLock::from(String::from("a"));
    lock.write().wait().push('b');
    assert_eq!(lock.into_inner(), "ab");
    let lock = RwLock::<Vec<u32>>::default();
    assert_eq!((lock.readers(), lock.has_writer(), lock.read().wait().len()), (0, false, 0));
}

///
#[test]
fn a_writer_keeps_everyone_out_and_a_reader_keeps_writers_out() {
    for lock in [RwLock::new(()), RwLock::barging(())] {
        let writer = lock.try_write().unwrap();
        assert!(lock.has_writer());
        assert_eq!(lock.available(), 0);
        assert!(lock.try_read().is_none());
        assert!(lock.try_write().is_none());
        drop(writer);
        let reader = lock.try_read().unwrap();
        assert_eq!(lock.available(), u32::MAX - 1);
        assert!(lock.try_write().is_none());
        assert_eq!(lock.write().timeout(Duration::ZERO).wait().unwrap_err(), WaitError::TimedOut);
        drop(reader);
        assert!(lock.try_write().is_some());
    }
}

///
#[test]
fn a_writer_enters_after_the_last_reader() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::new(0));
        let (first, second) = (lock.read().wait(), lock.read().wait());
        let writer = Line::new(arrangement, lock).enter(lock.write());
        drop(first);
        assert_eq!((lock.readers(), lock.has_writer(), lock.waiters()), (1, false, 1));
        drop(second);
        assert_eq!((lock.readers(), lock.has_writer(), lock.waiters()), (0, true, 0));
        *writer.join() += 1;
        assert_eq!(*lock.read().wait(), 1);
    });
}

///
#[test]
fn a_waiting_writer_stops_new_readers() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::new(()));
        let first = lock.read().wait();
        let mut line = Line::new(arrangement, lock);
        let writer = line.enter(lock.write());
        let reader = line.enter(lock.read());
        assert!(lock.try_read().is_none());
        let impatient = line.start(lock.read().timeout(Duration::ZERO)).join();
        assert_eq!(impatient.unwrap_err(), WaitError::TimedOut);
        drop(first);
        assert_eq!((lock.has_writer(), lock.waiters()), (true, 1));
        drop(writer.join());
        drop(reader.join());
        assert_eq!((lock.readers(), lock.has_writer()), (0, false));
    });
}

/// Hoare's rule: when a write ends, exactly the readers that wait then go in.
#[test]
fn after_a_write_the_waiting_readers_go_before_the_next_writer() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::new(()));
        let writing = lock.write().wait();
        let mut line = Line::new(arrangement, lock);
        let first_writer = line.enter(lock.write());
        let readers = [line.enter(lock.read()), line.enter(lock.read())];
        let second_writer = line.enter(lock.write());
        let late_reader = line.enter(lock.read());
        drop(writing);
        assert_eq!((lock.readers(), lock.has_writer()), (3, false));
        let newcomer = line.enter(lock.read());
        let guards = readers.map(crate::support::Waiter::join);
        drop((guards, late_reader.join()));
        assert_eq!(
            (lock.has_writer(), lock.waiting_writers(), lock.waiting_readers()),
            (true, 1, 1)
        );
        drop(first_writer.join());
        assert_eq!((lock.readers(), lock.has_writer()), (1, false), "the readers' turn again");
        drop(newcomer.join());
        drop(second_writer.join());
    });
}

///
#[test]
fn a_reader_enters_when_the_writer_before_it_is_cancelled() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::new(()));
        let first = lock.read().wait();
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, lock);
        let writer = line.enter(lock.write().cancel_on(&stop.token()));
        let reader = line.enter(lock.read());
        fire(&stop, 1);
        assert_eq!((lock.readers(), lock.waiters()), (2, 0));
        assert_eq!(writer.join().unwrap_err(), WaitError::Cancelled);
        drop((reader.join(), first));
    });
}

///
#[test]
fn a_reader_enters_when_the_writer_before_it_is_dropped() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::new(()));
        let first = lock.read().wait();
        let writer = Step::queued(lock.write());
        let reader = Line::new(arrangement, lock).enter(lock.read());
        drop(writer);
        assert_eq!((lock.readers(), lock.waiters()), (2, 0));
        drop((reader.join(), first));
    });
}

///
#[test]
fn readers_enter_when_the_writer_before_them_times_out() {
    in_every_arrangement_at_once(|arrangement| {
        let lock = leaked(RwLock::new(()));
        let first = lock.read().wait();
        let mut line = Line::new(arrangement, lock);
        let writer = line.enter(lock.write().timeout(SHORT * 20));
        let readers = [line.enter(lock.read()), line.enter(lock.read())];
        assert_eq!(writer.join().unwrap_err(), WaitError::TimedOut);
        let guards = readers.map(crate::support::Waiter::join);
        assert_eq!((lock.readers(), lock.waiters()), (3, 0));
        drop((guards, first));
    });
}

/// the writer is a task that nobody polls again.
#[test]
fn readers_enter_when_an_abandoned_writer_times_out() {
    let lock = RwLock::new(());
    let _first = lock.read().wait();
    let mut writer = Step::queued(lock.write().timeout(SHORT));
    let mut readers = [Step::queued(lock.read()), Step::queued(lock.read())];
    eventually("the writer times out", || lock.readers() == 3);
    let _guards = readers.each_mut().map(Step::expect_ready);
    assert_eq!(writer.expect_ready().unwrap_err(), WaitError::TimedOut);
}

///
#[test]
fn downgrading_lets_readers_join_and_no_writer_in_between() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::new(0));
        let mut writing = lock.write().wait();
        let mut line = Line::new(arrangement, lock);
        let writer = line.enter_then(lock.write(), |mut value| *value += 10);
        let reader = line.enter(lock.read());
        *writing = 1;
        let reading = writing.downgrade();
        assert_eq!((lock.readers(), lock.has_writer(), lock.waiting_writers()), (2, false, 1));
        let reader = reader.join();
        assert_eq!((*reading, *reader), (1, 1));
        drop(reading);
        assert!(!lock.has_writer());
        drop(reader);
        writer.join();
        assert_eq!(*lock.read().wait(), 11);
    });
}

///
#[test]
fn a_sole_reader_upgrades_and_one_of_two_does_not() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::new(0));
        let (reader, other) = (lock.read().wait(), lock.read().wait());
        let reader = reader.try_upgrade().expect_err("there is another reader");
        assert_eq!((lock.readers(), *reader + *other), (2, 0));
        drop(other);
        let writer = Line::new(arrangement, lock).enter_then(lock.write(), |mut value| *value *= 5);
        let mut upgraded = reader.try_upgrade().expect("alone, whoever waits");
        *upgraded += 2;
        assert_eq!((lock.readers(), lock.has_writer(), lock.waiters()), (0, true, 1));
        drop(upgraded);
        writer.join();
        assert_eq!(*lock.read().wait(), 10);
    });
}

/// asking for the other hold through try and timed forms never hangs.
#[test]
fn a_reader_that_asks_to_write_is_told_in_time() {
    let lock = RwLock::new(());
    let reader = lock.read().wait();
    assert!(lock.try_write().is_none());
    assert_eq!(lock.write().timeout(SHORT).wait().unwrap_err(), WaitError::TimedOut);
    assert_eq!((lock.readers(), lock.waiters()), (1, 0));
    drop(reader);
}

///
#[test]
fn cancelling_those_who_wait_leaves_the_writer_alone() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::new(()));
        let writing = lock.write().wait();
        let (stop_reader, stop_writer) = (CancelSource::new(), CancelSource::new());
        let mut line = Line::new(arrangement, lock);
        let reader = line.enter(lock.read().cancel_on(&stop_reader.token()));
        let writer = line.enter(lock.write().cancel_on(&stop_writer.token()));
        fire(&stop_reader, 1);
        assert_eq!((lock.waiting_readers(), lock.waiting_writers()), (0, 1));
        fire(&stop_writer, 1);
        assert_eq!((lock.waiters(), lock.has_writer()), (0, true));
        assert_eq!(reader.join().unwrap_err(), WaitError::Cancelled);
        assert_eq!(writer.join().unwrap_err(), WaitError::Cancelled);
        drop(writing);
        assert!(lock.try_write().is_some());
    });
}

///
#[test]
fn introspection_is_exact_through_cancellations() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::new(()));
        let writing = lock.write().wait();
        let mut line = Line::new(arrangement, lock);
        let stops: Vec<_> = (0..6).map(|_| CancelSource::new()).collect();
        let shape = || (lock.waiters(), lock.waiting_readers(), lock.waiting_writers());
        let mut readers = Vec::new();
        let mut writers = Vec::new();
        for (number, stop) in stops.iter().enumerate() {
            if number % 2 == 0 {
                readers.push(line.enter(lock.read().cancel_on(&stop.token())));
            } else {
                writers.push(line.enter(lock.write().cancel_on(&stop.token())));
            }
        }
        assert_eq!(shape(), (6, 3, 3));
        fire(&stops[2], 1);
        assert_eq!(shape(), (5, 2, 3));
        fire(&stops[1], 1);
        assert_eq!(shape(), (4, 2, 2));
        fire(&stops[5], 1);
        assert_eq!(shape(), (3, 2, 1));
        drop(writing);
        assert_eq!((shape(), lock.readers()), ((1, 0, 1), 2));
        let granted = readers.into_iter().filter_map(|waiter| waiter.join().ok()).count();
        assert_eq!(granted, 2);
        let granted = writers.into_iter().filter_map(|waiter| waiter.join().ok()).count();
        assert_eq!(granted, 1);
        assert_eq!((shape(), lock.readers(), lock.has_writer()), ((0, 0, 0), 0, false));
    });
}

#[test]
fn owned_guards_go_anywhere() {
    in_every_arrangement(|arrangement| {
        let lock = Arc::new(RwLock::new(vec![1]));
        let writing = lock.write_owned().wait();
        let mut line = Line::new(arrangement, &*lock);
        let reader = line.enter(lock.read_owned());
        let writer = line.enter(lock.write_owned().timeout(LONG));
        std::thread::spawn(move || drop(writing.downgrade())).join().unwrap();
        drop(reader.join().try_upgrade().expect("the only reader"));
        writer.join().unwrap().push(2);
        assert_eq!(Arc::into_inner(lock).expect("nobody else has it").into_inner(), [1, 2]);
    });
}

#[test]
fn a_panic_while_writing_frees_the_lock() {
    let lock = leaked(RwLock::new(0));
    let panics = crate::support::Waiter::on_a_thread(|| {
        let mut guard = lock.write().wait();
        *guard = 1;
        panic!("while writing");
    });
    let ended: Result<(), _> = panics.join_or_panic();
    assert!(ended.is_err());
    assert_eq!(*lock.try_read().unwrap(), 1);
}

#[test]
fn a_barging_lock_lets_a_reader_past_a_waiting_writer() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::barging(0));
        let first = lock.read().wait();
        let writer = Line::new(arrangement, lock).enter_then(lock.write(), |mut value| *value = 1);
        let second = lock.try_read().expect("barging is on");
        drop((first, second));
        writer.join();
        assert_eq!(*lock.read().wait(), 1);
    });
}

#[test]
fn debugging_does_not_wait() {
    let lock = RwLock::new(5);
    let writing = lock.write().wait();
    let _waiter = Step::queued(lock.read());
    let shown = format!("{lock:?}");
    assert!(shown.contains("<locked>") && shown.contains("waiters: 1"), "{shown}");
    assert_eq!(format!("{writing:?}"), "5");
}

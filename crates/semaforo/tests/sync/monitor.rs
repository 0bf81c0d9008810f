//! Monitors: Mesa's notification, Hoare's urgent signal, scheduled waits. What holds for every wait on
//! a condition is in `condition`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use crate::support::{
    Kind, LONG, Record, SHORT, Step, Waiter, eventually, in_every_arrangement, leaked, panic_of,
    patient,
};
use semaforo::policy::Exclusive;
use semaforo::sync::condition::LockGuard;
use semaforo::{
    CancelSource, Condition, Monitor, Mutex, MutexGuard, OwnerKey, ReentrantLock, ReentrantMonitor,
    RwLock, Synchronizer, WaitError, WriteCondition,
};

const PATIENCE: Duration = Duration::from_millis(5);

type Guard = MutexGuard<'static, u32>;

fn monitor() -> &'static Monitor<u32> {
    leaked(patient(Monitor::new(0)))
}

/// Waits to be notified, and then does something inside. Returns when it waits.
fn waiting<T: Send + 'static>(
    kind: Kind,
    monitor: &'static Monitor<u32>,
    then: impl FnOnce(Guard) -> T + Send + 'static,
) -> Waiter<T> {
    let before = monitor.waiting();
    let waiter = Waiter::start_then(kind, monitor.wait(monitor.enter().wait()), then);
    eventually("it waits", || monitor.waiting() == before + 1);
    waiter
}

/// Stands in line to enter. Returns when it does.
fn entering<T: Send + 'static>(
    kind: Kind,
    monitor: &'static Monitor<u32>,
    then: impl FnOnce(Guard) -> T + Send + 'static,
) -> Waiter<T> {
    let before = monitor.waiters();
    let waiter = Waiter::start_then(kind, monitor.enter(), then);
    eventually("it stands in line", || monitor.waiters() == before + 1);
    waiter
}

#[track_caller]
fn nobody_is_left(monitor: &Monitor<u32>) {
    let counts = (monitor.waiting(), monitor.waiters(), monitor.available());
    assert_eq!((counts, monitor.is_entered()), ((0, 0, 1), false));
}

#[test]
fn a_new_monitor_is_empty() {
    let mut monitor = Monitor::new(7);
    assert_eq!((monitor.waiting(), monitor.waiters(), monitor.available()), (0, 0, 1));
    *monitor.get_mut() += 1;
    let inside = monitor.enter().wait();
    assert!(monitor.is_entered() && monitor.try_enter().is_none());
    let shown = format!("{monitor:?}");
    assert!(shown.contains("<locked>") && shown.contains("waiting: 0"), "{shown}");
    drop(inside);
    drop(monitor.try_enter().unwrap());
    assert_eq!(monitor.into_inner(), 8);
    assert_eq!(*Monitor::<u32>::default().enter().wait(), 0);
}

/// Mesa: whoever is notified stands in line, and others may come before it.
#[test]
fn whoever_is_notified_stands_in_line() {
    in_every_arrangement(|arrangement| {
        let monitor = monitor();
        let order = Record::new();
        let note = |who: &'static str| {
            let order = order.clone();
            move |inside: Guard| {
                order.note(who);
                drop(inside);
            }
        };
        let notified = waiting(arrangement.kind(0), monitor, note("notified"));
        let inside = monitor.enter().wait();
        let before = entering(arrangement.kind(1), monitor, note("before"));
        assert!(monitor.notify(&inside));
        assert!(!monitor.notify(&inside));
        assert_eq!((monitor.waiting(), monitor.waiters()), (0, 2));
        drop(inside);
        before.join();
        notified.join();
        assert_eq!(order.entries(), ["before", "notified"]);
        nobody_is_left(monitor);
    });
}

#[test]
fn notify_all_counts_and_bounded_waits_end() {
    in_every_arrangement(|arrangement| {
        let monitor = monitor();
        let three = [0, 1, 2].map(|number| waiting(arrangement.kind(number), monitor, drop));
        let inside = monitor.enter().wait();
        assert_eq!(monitor.notify_all(&inside), 3);
        assert_eq!(monitor.notify_all(&inside), 0);
        drop(inside);
        three.into_iter().for_each(Waiter::join);
        let stop = CancelSource::new();
        let request = monitor.wait(monitor.enter().wait()).timeout(SHORT).cancel_on(&stop.token());
        let ended = Waiter::start_then(arrangement.kind(0), request, |ended| ended).join();
        assert_eq!(ended.unwrap_err().why, WaitError::TimedOut);
        nobody_is_left(monitor);
    });
}

#[test]
fn waiting_for_a_value() {
    in_every_arrangement(|arrangement| {
        let monitor = monitor();
        let kind = arrangement.kind(0);
        let waiter = Waiter::on_a_thread(move || match kind {
            Kind::Blocking => {
                *monitor.wait_while(monitor.enter().wait(), |value| *value < 3).wait()
            }
            Kind::Async(executor) => executor.block_on(async {
                *monitor.wait_while(monitor.enter().await, |value| *value < 3).await
            }),
        });
        for _ in 0..3 {
            eventually("it waits", || monitor.waiting() == 1);
            let mut inside = monitor.enter().wait();
            *inside += 1;
            monitor.notify_all(&inside);
        }
        assert_eq!(waiter.join(), 3);
        nobody_is_left(monitor);
    });
}

/// C-01, C-02
#[test]
fn the_guard_of_another_monitor_panics() {
    let (monitor, another) = (Monitor::new(()), Monitor::new(()));
    drop(Step::queued(monitor.wait(monitor.enter().wait())));
    let inside = another.enter().wait();
    panic_of(|| monitor.notify(&inside));
    panic_of(|| monitor.notify_all(&inside));
    panic_of(|| monitor.wait(inside));
    panic_of(|| monitor.wait_by(another.enter().wait(), 1));
    panic_of(|| monitor.signal_urgent(another.enter().wait()));
    panic_of(|| monitor.wait_while(another.enter().wait(), |()| true));
    assert!(!another.is_entered() && !monitor.is_entered());
    assert_eq!((monitor.waiting(), another.waiting()), (0, 0));
}

/// C-01, C-02: also if nothing was ever waited for in this monitor; and what was refused does not bind
/// it to the other's lock.
#[test]
fn a_fresh_monitor_refuses_the_guard_of_another() {
    type Misuse = fn(&Monitor<()>, MutexGuard<'_, ()>);
    let misuses: [Misuse; 8] = [
        |monitor, inside| drop(monitor.wait(inside)),
        |monitor, inside| drop(monitor.wait_by(inside, 1)),
        |monitor, inside| drop(monitor.wait_while(inside, |()| true)),
        |monitor, inside| drop(monitor.wait_while(inside, |()| false)),
        |monitor, inside| drop(monitor.signal_urgent(inside)),
        |monitor, inside| assert!(!monitor.signal_and_leave(inside)),
        |monitor, inside| assert!(!monitor.notify(&inside)),
        |monitor, inside| assert_eq!(monitor.notify_all(&inside), 0),
    ];
    for misuse in misuses {
        let (monitor, another) = (Monitor::new(()), Monitor::new(()));
        let message = panic_of(|| misuse(&monitor, another.enter().wait()));
        assert_eq!(message, "a monitor was used with the guard of another");
        assert!(!another.is_entered(), "the guard is dropped");
        let mut own = Step::queued(monitor.wait(monitor.enter().wait()));
        assert!(monitor.notify(&monitor.enter().wait()));
        drop(own.expect_ready());
        drop(Step::queued(another.wait(another.enter().wait())));
    }
}

/// The same for every kind of guard of a monitor that can be entered again.
#[test]
fn a_fresh_reentrant_monitor_refuses_the_guard_of_another() {
    let key = OwnerKey::new();
    for operation in 0..8 {
        let (monitor, another) = (ReentrantMonitor::new(()), ReentrantMonitor::new(()));
        let inside = another.enter_as(&key).wait().unwrap();
        let on_this_thread = ReentrantMonitor::new(());
        panic_of(|| monitor.notify(&on_this_thread.enter().wait().unwrap()));
        let message = panic_of(|| match operation {
            0 => drop(monitor.wait(inside)),
            1 => drop(monitor.wait_by(inside, 1)),
            2 => drop(monitor.wait_while(inside, |()| true)),
            3 => drop(monitor.signal_urgent(inside)),
            4 => assert!(!monitor.notify(&inside)),
            5 => assert_eq!(monitor.notify_all(&inside), 0),
            6 => assert!(!monitor.signal_and_leave(inside)),
            _ => drop(monitor.wait(on_this_thread.enter().wait().unwrap())),
        });
        assert_eq!(message, "a monitor was used with the guard of another");
        assert!(!another.is_entered() && !on_this_thread.is_entered(), "the guards are dropped");
        let mut own = Step::queued(monitor.wait(monitor.enter_as(&key).wait().unwrap()));
        assert!(monitor.notify(&monitor.enter().wait().unwrap()));
        drop(own.expect_ready());
    }
}

/// Every other guard of the same policy, too: of a lock that is no monitor's, owned or borrowed, of
/// a lock of one's own, and of a re-entrant lock.
#[test]
fn a_fresh_monitor_refuses_the_guard_of_any_lock() {
    fn refused<G: LockGuard>(guard: impl Fn() -> G, misuses: [&dyn Fn(G); 3]) {
        for misuse in misuses {
            let message = panic_of(|| misuse(guard()));
            assert_eq!(message, "a monitor was used with the guard of another");
        }
    }
    let (lock, own) = (Arc::new(Mutex::new(())), Arc::new(Synchronizer::new(Exclusive, 0)));
    let monitor = Monitor::new(());
    macro_rules! every_misuse {
        ($monitor:ident) => {
            [
                &|guard| drop($monitor.wait(guard)),
                &|guard| assert!(!$monitor.notify(&guard)),
                &|guard| drop($monitor.signal_urgent(guard)),
            ]
        };
    }
    refused(|| lock.lock().wait(), every_misuse!(monitor));
    refused(|| lock.lock_owned().wait(), every_misuse!(monitor));
    refused(|| own.acquire(()).wait(), every_misuse!(monitor));
    refused(|| own.acquire_owned(()).wait(), every_misuse!(monitor));
    let (reentrant, key) = (Arc::new(ReentrantLock::new(())), OwnerKey::new());
    let again = ReentrantMonitor::new(());
    refused(|| reentrant.lock().wait().unwrap(), every_misuse!(again));
    refused(|| reentrant.lock_as(&key).wait().unwrap(), every_misuse!(again));
    refused(|| reentrant.lock_owned_as(&key).wait().unwrap(), every_misuse!(again));
    assert!(!lock.is_locked() && own.state() == 0 && !reentrant.is_locked());
    // All of them work, the monitors with themselves and the locks with conditions.
    let mut waits = Step::queued(monitor.wait(monitor.enter().wait()));
    assert!(monitor.notify(&monitor.enter().wait()));
    drop(waits.expect_ready());
    let mut waits = Step::queued(again.wait(again.enter_as(&key).wait().unwrap()));
    assert!(again.notify(&again.enter().wait().unwrap()));
    drop(waits.expect_ready());
    let condition = Condition::new();
    let mut waits = Step::queued(condition.wait(lock.lock_owned().wait()));
    let message = panic_of(|| condition.wait(own.acquire_owned(()).wait()));
    assert_eq!(message, "a condition was used with the guard of another lock");
    assert!(condition.signal(&lock.lock().wait()));
    drop(waits.expect_ready());
    assert!(!lock.is_locked() && own.state() == 0);
}

/// Hoare's bounded buffer has two conditions.
#[test]
fn more_conditions_than_its_own() {
    in_every_arrangement(|arrangement| {
        let monitor = monitor();
        let other: &'static Condition = leaked(Condition::new());
        let own = waiting(arrangement.kind(0), monitor, drop);
        let request = other.wait(monitor.enter().wait());
        let others = Waiter::start_then(arrangement.kind(1), request, drop);
        crate::support::until_queued(other, 1);
        let inside = monitor.enter().wait();
        assert!(other.signal(&inside));
        assert!(!other.signal(&inside));
        drop(inside);
        others.join();
        assert_eq!((monitor.waiting(), own.is_done()), (1, false));
        monitor.notify(&monitor.enter().wait());
        own.join();
    });
}

/// Hoare: the one signalled is inside at once, the signaller next, and nobody in between.
#[test]
fn an_urgent_signal_hands_over_at_once_and_comes_back_next() {
    in_every_arrangement(|arrangement| {
        let monitor = monitor();
        let order = Record::new();
        let note = |who: &'static str, value: u32| {
            let order = order.clone();
            move |mut inside: Guard| {
                order.note((who, *inside));
                *inside = value;
                drop(inside);
            }
        };
        let signalled = waiting(arrangement.kind(0), monitor, note("signalled", 2));
        let stays = waiting(arrangement.kind(1), monitor, note("stays", 9));
        let mut inside = monitor.enter().wait();
        let others = [
            entering(arrangement.kind(2), monitor, note("other", 4)),
            entering(arrangement.kind(3), monitor, note("another", 5)),
        ];
        *inside = 1;
        let signal = monitor.signal_urgent(inside);
        let signaller = Waiter::start_then(arrangement.kind(1), signal, note("signaller", 3));
        signaller.join();
        signalled.join();
        others.into_iter().for_each(Waiter::join);
        let expected = [("signalled", 1), ("signaller", 2), ("other", 3), ("another", 4)];
        assert_eq!(order.entries(), expected);
        assert_eq!((monitor.waiting(), stays.is_done()), (1, false));
        monitor.notify(&monitor.enter().wait());
        stays.join();
        nobody_is_left(monitor);
    });
}

/// Step by step: nobody else can get in, by whatever door.
#[test]
fn nobody_comes_between_an_urgent_signal_and_its_end() {
    let monitor = monitor();
    let mut signalled = Step::queued(monitor.wait(monitor.enter().wait()));
    let mut signaller = Step::queued(monitor.signal_urgent(monitor.enter().wait()));
    assert!(monitor.is_entered() && monitor.try_enter().is_none());
    assert_eq!((signalled.wakes(), monitor.waiters()), (1, 1));
    let mut newcomer = Step::queued(monitor.enter());
    let inside = signalled.expect_ready();
    signaller.expect_pending();
    drop(inside);
    assert_eq!((signaller.wakes(), newcomer.wakes()), (1, 0));
    assert!(monitor.try_enter().is_none());
    drop(signaller.expect_ready());
    drop(newcomer.expect_ready());
    assert!(!monitor.is_entered());
}

/// The signalled one need not leave: it may wait again.
#[test]
fn the_signaller_resumes_when_the_signalled_one_waits_again() {
    in_every_arrangement(|arrangement| {
        let monitor = monitor();
        let kind = arrangement.kind(0);
        let waiter = Waiter::on_a_thread(move || match kind {
            Kind::Blocking => {
                drop(monitor.wait_while(monitor.enter().wait(), |value| *value < 2).wait());
            }
            Kind::Async(executor) => executor.block_on(async {
                drop(monitor.wait_while(monitor.enter().await, |value| *value < 2).await);
            }),
        });
        eventually("it waits", || monitor.waiting() == 1);
        for value in [1, 2] {
            let mut inside = monitor.enter().wait();
            *inside = value;
            let signal = monitor.signal_urgent(inside);
            let inside = Waiter::start_then(arrangement.kind(1), signal, |inside| inside).join();
            assert_eq!((*inside, monitor.waiting()), (value, usize::from(value == 1)));
        }
        waiter.join();
        nobody_is_left(monitor);
    });
}

/// Each signals the next urgently: they come back in the opposite order.
#[test]
fn nested_urgent_signals_come_back_in_the_opposite_order() {
    in_every_arrangement(|arrangement| {
        const DEEP: usize = 5;
        let monitor = monitor();
        let order = Record::new();
        let waiters: Vec<_> = (0..DEEP)
            .map(|number| {
                let (kind, noted) = (arrangement.kind(number), order.clone());
                let before = monitor.waiting();
                let waiter = Waiter::on_a_thread(move || {
                    let work = |inside: Guard| {
                        noted.note(("in", number));
                        monitor.signal_urgent(inside)
                    };
                    let back = |inside: Guard| {
                        noted.note(("back", number));
                        drop(inside);
                    };
                    match kind {
                        Kind::Blocking => {
                            let inside = monitor.wait(monitor.enter().wait()).wait();
                            back(work(inside).wait());
                        }
                        Kind::Async(executor) => executor.block_on(async {
                            let inside = monitor.wait(monitor.enter().await).await;
                            back(work(inside).await);
                        }),
                    }
                });
                eventually("it waits", || monitor.waiting() == before + 1);
                waiter
            })
            .collect();
        let inside = monitor.enter().wait();
        let noted = order.clone();
        let other = entering(arrangement.kind(0), monitor, move |_| noted.note(("other", 0)));
        let inside = monitor.signal_urgent(inside).wait();
        order.note(("back", DEEP));
        drop(inside);
        waiters.into_iter().for_each(Waiter::join);
        other.join();
        let mut expected: Vec<_> = (0..DEEP).map(|number| ("in", number)).collect();
        expected.extend((0..=DEEP - 1).rev().map(|number| ("back", number)));
        expected.extend([("back", DEEP), ("other", 0)]);
        assert_eq!(order.entries(), expected);
        nobody_is_left(monitor);
    });
}

#[test]
fn an_urgent_signal_that_nobody_waits_for_has_no_effect() {
    in_every_arrangement(|arrangement| {
        let monitor = monitor();
        let inside = monitor.enter().wait();
        let other = entering(arrangement.kind(0), monitor, drop);
        let stop = CancelSource::new();
        stop.cancel();
        let signal = monitor.signal_urgent(inside);
        let inside = Waiter::start_then(arrangement.kind(1), signal, |inside| inside).join();
        assert!(!other.is_done(), "nobody had the monitor in between");
        // Nothing ends it, since it does not wait.
        let signal = monitor.signal_urgent(inside).timeout(Duration::ZERO).cancel_on(&stop.token());
        let inside = Waiter::start_then(arrangement.kind(0), signal, |inside| inside).join();
        assert!(!other.is_done() && monitor.is_entered());
        drop(inside.unwrap());
        other.join();
        nobody_is_left(monitor);
    });
}

/// A limit has no effect on an urgent signal: it has to have the lock back.
#[test]
fn a_limit_does_not_end_an_urgent_signal() {
    in_every_arrangement(|arrangement| {
        let monitor = monitor();
        let stop = CancelSource::new();
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let signalled = waiting(Kind::Blocking, monitor, move |inside| {
            may_go.recv().unwrap();
            drop(inside);
        });
        let signal = monitor.signal_urgent(monitor.enter().wait());
        let signal = signal.timeout(Duration::from_millis(1)).cancel_on(&stop.token());
        let signaller = Waiter::start_then(arrangement.kind(0), signal, |inside| inside);
        eventually("it stands in line", || monitor.waiters() == 1);
        stop.cancel();
        assert!(semaforo::Latch::new(1).opened().timeout(PATIENCE).wait().is_err());
        assert_eq!((monitor.waiters(), signaller.is_done()), (1, false));
        go.send(()).unwrap();
        drop(signaller.join().expect("back inside"));
        signalled.join();
        nobody_is_left(monitor);
    });
}

/// Promise 4: a task that does not come for its turn misses it.
#[test]
fn a_signalled_task_that_does_not_come_misses_its_turn() {
    in_every_arrangement(|arrangement| {
        let monitor = monitor();
        monitor.set_patience(PATIENCE);
        let mut unpolled = Step::queued(monitor.wait(monitor.enter().wait()));
        let signal = monitor.signal_urgent(monitor.enter().wait());
        let inside = Waiter::start_then(arrangement.kind(0), signal, |inside| inside).join();
        assert_eq!(unpolled.wakes(), 1);
        unpolled.expect_pending();
        assert_eq!((monitor.waiting(), monitor.waiters()), (1, 0), "back where it was");
        drop(inside);
        unpolled.expect_pending();
        assert!(!monitor.is_entered(), "it waits for the next signal");
        monitor.notify(&monitor.enter().wait());
        drop(unpolled.expect_ready());
        nobody_is_left(monitor);
    });
}

/// It waits for the next signal from then on, whether or not it has been polled.
#[test]
fn a_task_that_missed_its_turn_gets_the_next_signal() {
    for urgently in [false, true] {
        let monitor = Monitor::new(0);
        monitor.set_patience(PATIENCE);
        let mut unpolled = Step::queued(monitor.wait(monitor.enter().wait()));
        let mut behind = Step::queued(monitor.wait(monitor.enter().wait()));
        let inside = monitor.signal_urgent(monitor.enter().wait()).wait();
        assert_eq!(monitor.waiting(), 2, "it is back");
        if urgently {
            let mut signaller = Step::queued(monitor.signal_urgent(inside));
            drop(unpolled.expect_ready());
            drop(signaller.expect_ready());
        } else {
            assert!(monitor.notify(&inside));
            drop(inside);
            drop(unpolled.expect_ready());
        }
        assert_eq!((behind.wakes(), monitor.waiting()), (0, 1));
        assert!(monitor.notify(&monitor.enter().wait()));
        drop(behind.expect_ready());
        nobody_is_left(&monitor);
    }
}

/// The only one who waits is not forgotten.
#[test]
fn a_signal_after_a_missed_turn_is_not_lost() {
    let monitor = Monitor::new(0);
    monitor.set_patience(PATIENCE);
    let mut unpolled = Step::queued(monitor.wait_while(monitor.enter().wait(), |value| *value < 2));
    let mut inside = monitor.enter().wait();
    *inside = 1;
    let mut inside = monitor.signal_urgent(inside).wait();
    *inside = 2;
    assert_eq!(monitor.notify_all(&inside), 1);
    drop(inside);
    assert_eq!(*unpolled.expect_ready(), 2);
    nobody_is_left(&monitor);
}

/// A token that fires before, while, or after the turn is missed.
#[test]
fn a_task_that_missed_its_turn_can_be_cancelled() {
    for when in 0..4 {
        let monitor = Monitor::new(0);
        monitor.set_patience(PATIENCE);
        let stop = CancelSource::new();
        let request = monitor.wait(monitor.enter().wait()).cancel_on(&stop.token()).timeout(LONG);
        let mut unpolled = Step::queued(request);
        let mut signaller = Step::queued(monitor.signal_urgent(monitor.enter().wait()));
        if when == 0 {
            stop.cancel();
        }
        eventually("the turn is missed", || signaller.wakes() == 1);
        if when == 1 {
            stop.cancel();
        }
        let inside = signaller.expect_ready();
        if when == 2 {
            stop.cancel();
        }
        unpolled.expect_pending();
        if when == 3 {
            stop.cancel();
        }
        assert_eq!((monitor.waiting(), monitor.waiters()), (0, 1), "it waits for the lock only");
        assert!(!monitor.notify(&inside));
        drop(inside);
        let ended = unpolled.expect_ready().expect_err("nobody has signalled it again");
        assert_eq!(ended.why, WaitError::Cancelled);
        drop(ended);
        nobody_is_left(&monitor);
    }
}

/// A limit that comes while the signalled task still has its turn comes too late.
#[test]
fn an_urgent_signal_wins_over_a_token() {
    let monitor = monitor();
    let stop = CancelSource::new();
    let mut signalled = Step::queued(monitor.wait(monitor.enter().wait()).cancel_on(&stop.token()));
    let mut signaller = Step::queued(monitor.signal_urgent(monitor.enter().wait()));
    stop.cancel();
    drop(signalled.expect_ready().expect("signalled first"));
    drop(signaller.expect_ready());
    nobody_is_left(monitor);
}

/// The signal is not lost with it: the next one is inside, before the signaller.
#[test]
fn the_next_one_gets_the_turn_of_a_signalled_task_that_is_dropped() {
    in_every_arrangement(|arrangement| {
        let monitor = monitor();
        let order = Record::new();
        let dropped = Step::queued(monitor.wait(monitor.enter().wait()));
        let noted = order.clone();
        let next = waiting(arrangement.kind(0), monitor, move |_| noted.note("next"));
        let inside = monitor.enter().wait();
        let noted = order.clone();
        let other = entering(arrangement.kind(1), monitor, move |_| noted.note("other"));
        let noted = order.clone();
        let signal = monitor.signal_urgent(inside);
        let signaller =
            Waiter::start_then(arrangement.kind(0), signal, move |_| noted.note("signaller"));
        eventually("it is signalled", || dropped.wakes() == 1);
        drop(dropped);
        next.join();
        signaller.join();
        other.join();
        assert_eq!(order.entries(), ["next", "signaller", "other"]);
        nobody_is_left(monitor);
    });
}

#[test]
fn the_signaller_goes_on_if_the_only_signalled_task_is_dropped() {
    in_every_arrangement(|arrangement| {
        let monitor = monitor();
        let dropped = Step::queued(monitor.wait(monitor.enter().wait()));
        let signal = monitor.signal_urgent(monitor.enter().wait());
        let signaller = Waiter::start_then(arrangement.kind(0), signal, drop);
        eventually("it is signalled", || dropped.wakes() == 1);
        drop(dropped);
        signaller.join();
        nobody_is_left(monitor);
    });
}

/// Whoever has missed its turn waits like everybody else, so there is no signal to pass on.
#[test]
fn dropping_a_task_that_missed_its_turn_signals_nobody() {
    let monitor = Monitor::new(0);
    monitor.set_patience(PATIENCE);
    let unpolled = Step::queued(monitor.wait(monitor.enter().wait()));
    let behind = Step::queued(monitor.wait(monitor.enter().wait()));
    let inside = monitor.signal_urgent(monitor.enter().wait()).wait();
    drop(unpolled);
    assert_eq!((monitor.waiting(), monitor.waiters()), (1, 0));
    drop(inside);
    assert_eq!(behind.wakes(), 0);
    drop(behind);
    nobody_is_left(&monitor);
}

#[test]
fn a_signaller_may_be_dropped() {
    for granted in [false, true] {
        let monitor = monitor();
        let mut signalled = Step::queued(monitor.wait(monitor.enter().wait()));
        let signaller = Step::queued(monitor.signal_urgent(monitor.enter().wait()));
        let mut other = Step::queued(monitor.enter());
        let inside = signalled.expect_ready();
        if granted {
            drop(inside);
            assert_eq!(signaller.wakes(), 1);
            drop(signaller);
        } else {
            drop(signaller);
            assert!(monitor.is_entered(), "by the one that was signalled");
            drop(inside);
        }
        drop(other.expect_ready());
        nobody_is_left(monitor);
    }
}

/// A signaller that is not polled does not hold up anybody either, and comes back when it is.
#[test]
fn an_unpolled_signaller_holds_up_nobody() {
    let monitor = Monitor::new(0);
    monitor.set_patience(PATIENCE);
    let mut signalled = Step::queued(monitor.wait(monitor.enter().wait()));
    let mut signaller = Step::queued(monitor.signal_urgent(monitor.enter().wait()));
    let mut other = Step::queued(monitor.enter());
    drop(signalled.expect_ready());
    eventually("it is passed over", || other.wakes() == 1);
    drop(other.expect_ready());
    drop(signaller.expect_ready());
    nobody_is_left(&monitor);
}

/// Hoare's rule for readers and writers must not put readers between the two.
#[test]
fn readers_do_not_come_between_an_urgent_signal_and_its_end() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = (leaked(RwLock::new(0)), leaked(WriteCondition::new()));
        let order = Record::new();
        let noted = order.clone();
        let wait = condition.wait(lock.write().wait());
        let signalled = Waiter::start_then(arrangement.kind(0), wait, move |guard| {
            noted.note("signalled");
            drop(guard);
        });
        crate::support::until_queued(condition, 1);
        let guard = lock.write().wait();
        let noted = order.clone();
        let reader = Waiter::start_then(arrangement.kind(1), lock.read(), move |guard| {
            noted.note("reader");
            drop(guard);
        });
        crate::support::until_queued(lock, 1);
        let noted = order.clone();
        let signal = condition.signal_urgent(guard);
        let signaller = Waiter::start_then(arrangement.kind(2), signal, move |guard| {
            noted.note("signaller");
            drop(guard);
        });
        for waiter in [signalled, signaller, reader] {
            waiter.join();
        }
        assert_eq!(order.entries(), ["signalled", "signaller", "reader"]);
    });
}

/// The same when the signal is passed on; and readers have their turn again when that is over.
#[test]
fn readers_do_not_come_before_a_passed_on_urgent_signal() {
    let (lock, condition) = (RwLock::new(0), WriteCondition::new());
    let dropped = Step::queued(condition.wait(lock.write().wait()));
    let mut next = Step::queued(condition.wait(lock.write().wait()));
    let guard = lock.write().wait();
    let mut reader = Step::queued(lock.read());
    let mut writer = Step::queued(lock.write());
    let mut signaller = Step::queued(condition.signal_urgent(guard));
    assert_eq!(dropped.wakes(), 1);
    drop(dropped);
    assert_eq!((next.wakes(), reader.wakes()), (1, 0));
    drop(next.expect_ready());
    assert_eq!((signaller.wakes(), reader.wakes()), (1, 0));
    drop(signaller.expect_ready());
    assert_eq!((reader.wakes(), writer.wakes()), (1, 0), "Hoare's rule again");
    drop(reader.expect_ready());
    let mut late = Step::queued(lock.read());
    drop(writer.expect_ready());
    drop(late.expect_ready());
}

/// Hoare's alarm clock: each is woken at its own time, by whoever was woken before.
#[test]
fn an_alarm_clock_wakes_in_the_order_of_the_alarms() {
    in_every_arrangement(|arrangement| {
        let clock = monitor();
        let order = Record::new();
        let alarms = [50, 20, 90, 20, 70];
        let sleepers: Vec<_> = alarms
            .into_iter()
            .enumerate()
            .map(|(number, alarm)| {
                let noted = order.clone();
                let request = clock.wait_by(clock.enter().wait(), alarm);
                let sleeper =
                    Waiter::start_then(arrangement.kind(number), request, move |inside| {
                        noted.note((alarm, number));
                        clock.notify(&inside);
                    });
                eventually("it sleeps", || clock.waiting() == number + 1);
                sleeper
            })
            .collect();
        assert!(clock.notify(&clock.enter().wait()));
        sleepers.into_iter().for_each(Waiter::join);
        assert_eq!(order.entries(), [(20, 1), (20, 3), (50, 0), (70, 4), (90, 2)]);
        nobody_is_left(clock);
    });
}

/// A task that missed its turn stands before those of its priority, and behind smaller ones.
#[test]
fn a_missed_turn_keeps_its_place_among_the_priorities() {
    let monitor = Monitor::new(0);
    monitor.set_patience(PATIENCE);
    let wait_by = |priority| Step::queued(monitor.wait_by(monitor.enter().wait(), priority));
    let (mut missed, mut equal, mut greater) = (wait_by(3), wait_by(3), wait_by(7));
    let inside = monitor.signal_urgent(monitor.enter().wait()).wait();
    let mut smaller = Step::queued(monitor.wait_by(inside, 1));
    missed.expect_pending();
    for step in [&mut smaller, &mut missed, &mut equal, &mut greater] {
        assert!(monitor.notify(&monitor.enter().wait()));
        drop(step.expect_ready());
    }
    nobody_is_left(&monitor);
}

#[test]
fn a_reentrant_monitor_is_left_altogether() {
    in_every_arrangement(|arrangement| {
        let monitor = leaked(ReentrantMonitor::new(AtomicU32::new(0)));
        let kind = arrangement.kind(0);
        let waiter = Waiter::on_a_thread(move || {
            let none = |value: &AtomicU32| value.load(SeqCst) == 0;
            match kind {
                Kind::Blocking => {
                    let _outer = monitor.enter().wait().unwrap();
                    let inner = monitor.enter().wait().unwrap();
                    drop(monitor.wait_while(inner, none).wait());
                    assert_eq!(monitor.holds(), 1);
                }
                Kind::Async(executor) => executor.block_on(async {
                    let key = OwnerKey::new();
                    let _outer = monitor.enter_as(&key).await.unwrap();
                    let inner = monitor.enter_as(&key).await.unwrap();
                    drop(monitor.wait_while(inner, none).await);
                    assert_eq!(monitor.holds(), 1);
                }),
            }
        });
        eventually("it waits", || monitor.waiting() == 1);
        assert_eq!((monitor.holds(), monitor.available(), monitor.waiters()), (0, 1, 0));
        let outer = monitor.try_enter().unwrap();
        let inner = monitor.try_enter().unwrap();
        inner.store(1, SeqCst);
        assert!(monitor.try_enter_as(&OwnerKey::new()).is_none());
        assert_eq!((monitor.notify_all(&inner), monitor.holds()), (1, 2));
        drop((inner, outer));
        waiter.join();
        assert!(!monitor.is_entered());
    });
}

#[test]
fn a_reentrant_monitor_has_urgent_signals_and_priorities() {
    let mut monitor = ReentrantMonitor::new(AtomicU32::new(0));
    {
        let keys = [OwnerKey::new(), OwnerKey::new()];
        let wait_by = |key: &OwnerKey, priority| {
            Step::queued(monitor.wait_by(monitor.enter_as(key).wait().unwrap(), priority))
        };
        let (mut second, mut first) = (wait_by(&keys[0], 2), wait_by(&keys[1], 1));
        let outer = monitor.enter().wait().unwrap();
        let mut signaller = Step::queued(monitor.signal_urgent(monitor.enter().wait().unwrap()));
        assert_eq!(monitor.holds(), 1, "the first one's");
        drop(first.expect_ready());
        let inner = signaller.expect_ready();
        assert_eq!(monitor.holds(), 2);
        assert!(monitor.notify(&inner));
        drop((inner, outer));
        drop(second.expect_ready());
        let request = monitor.wait(monitor.enter().wait().unwrap());
        let ended = request.timeout(PATIENCE).wait().unwrap_err();
        assert_eq!((ended.why, monitor.holds()), (WaitError::TimedOut, 1));
    }
    monitor.set_patience(PATIENCE);
    assert!(format!("{monitor:?}").contains("waiting: 0"));
    monitor.get_mut().store(5, SeqCst);
    assert_eq!(monitor.into_inner().into_inner(), 5);
    assert_eq!(ReentrantMonitor::<u32>::default().into_inner(), 0);
}

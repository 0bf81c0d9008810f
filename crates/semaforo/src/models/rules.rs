//! A user's rule: lending, taking back, ending in a strict line, panics; and the lock that it is behind.

use std::sync::Arc;
use std::task::Poll;

use super::checker::{explore, explore_within};
use super::race::{For, HOUR, time_passes, two_ticks, with};
use super::task::Task;
use crate::rule::{Asking, Contended, Hold, Reply, Rule, Waiting};
use crate::{CancelSource, Request};

/// Units that are lent, in strict order. Of 9 there are never enough, and 13 make the rule panic.
struct Units(u32);

const TOO_MANY: u32 = 9;
const UNLUCKY: u32 = 13;

impl Rule for Units {
    type Request = u32;
    type Answer = u32;

    fn serve(&mut self, units: u32) -> Reply<Self> {
        assert!(units != UNLUCKY || self.0 == 0, "unlucky");
        match self.0.checked_sub(units) {
            None => Reply::Wait(units),
            Some(left) => {
                self.0 = left;
                Reply::Lent(units, |rule, units| {
                    rule.0 += units;
                    units
                })
            }
        }
    }

    fn is_whole(&self) -> bool {
        true
    }
}

type Object = Arc<Contended<Units>>;
type Lends = For<Task<Request<Hold<Object>>>>;
type Asks = For<Task<Request<Asking<Object, u32>>>>;

fn account(object: &Contended<Units>, units: u32) {
    assert_eq!(object.waiters(), 0);
    assert_eq!(object.with(|rule| rule.0), units);
}

/// A task was lent the unit and has not claimed it; another waits for it.
fn unclaimed() -> (Object, Lends, Lends) {
    let object = Arc::new(Contended::new(Units(0)));
    let lent = Task::queued(object.hold_owned(1));
    let follower = Task::queued(object.hold_owned(1));
    object.change(|rule, _| rule.0 += 1);
    (object, lent, follower)
}

fn watchdog_takes_back(follower: &Lends) {
    two_ticks();
    drop(follower.take().resume());
}

#[test]
fn taking_back_against_claiming() {
    explore_within(3, || {
        let (object, ..) = with(unclaimed()).race([
            |(_, lent, _)| drop(lent.take().run()),
            |(_, _, follower)| watchdog_takes_back(follower),
        ]);
        account(&object, 1);
    });
}

#[test]
fn taking_back_against_dropping() {
    explore_within(3, || {
        let (object, ..) = with(unclaimed()).race([
            |(_, lent, _)| drop(lent.take()),
            |(_, _, follower)| watchdog_takes_back(follower),
        ]);
        account(&object, 1);
    });
}

/// The first in a strict line is ended by a token: those behind it are served, and a newcomer.
#[test]
fn ending_against_a_newcomer() {
    explore_within(3, || {
        let stop = CancelSource::new();
        let object = Arc::new(Contended::new(Units(1)));
        let first = object.request_owned(TOO_MANY, |units| units).cancel_on(&stop.token());
        let first = Task::queued(first);
        let second: Lends = Task::queued(object.hold_owned(1));
        let (object, _, first, _) = with((object, stop, first, second)).race([
            |(_, stop, ..)| stop.cancel(),
            |(object, ..)| drop(object.hold(1).wait()),
            |(.., second)| drop(second.take().resume()),
        ]);
        let ended = first.left().poll();
        assert!(matches!(ended, Poll::Ready(Err(ended)) if ended.item == TOO_MANY));
        account(&object, 1);
    });
}

/// It is ended by the timer, while it is dropped.
#[test]
fn a_time_limit_against_dropping() {
    explore_within(3, || {
        let object = Arc::new(Contended::new(Units(1)));
        let first = Task::queued(object.request_owned(TOO_MANY, |units| units).timeout(HOUR));
        let second: Lends = Task::queued(object.hold_owned(1));
        let (object, ..) = with((object, first, second)).race([
            |_| _ = time_passes(),
            |(_, first, _)| drop(first.take()),
            |(.., second)| drop(second.take().resume()),
        ]);
        account(&object, 1);
    });
}

/// A thread's own limit against the change that would serve it.
#[test]
fn the_limit_of_a_thread_against_a_change() {
    explore(|| {
        let object = with(Contended::new(Units(0))).race([
            |object| object.change(|rule, _| rule.0 += 1),
            |object| drop(object.hold(1).timeout(HOUR).wait()),
        ]);
        account(&object, 1);
    });
}

#[test]
fn threads_and_a_task_hand_over() {
    explore_within(3, || {
        let object = with(Contended::new(Units(1))).race([
            |object| drop(object.hold(1).wait()),
            |object| drop(object.hold(1).wait()),
            |object| drop(Task::new(object.hold(1)).run()),
        ]);
        account(&object, 1);
    });
}

/// A request over which the rule panics ends, and those behind it are served.
#[test]
fn a_panic_against_dropping() {
    explore_within(3, || {
        let object = Arc::new(Contended::new(Units(0)));
        let unlucky: Asks = Task::queued(object.request_owned(UNLUCKY, |units| units));
        let second: Lends = Task::queued(object.hold_owned(1));
        let (object, ..) = with((object, unlucky, second)).race([
            |(object, ..)| object.change(|rule, _| rule.0 += 1),
            |(_, unlucky, _)| drop(unlucky.take()),
            |(.., second)| drop(second.take().resume()),
        ]);
        account(&object, 1);
    });
}

/// Two that meet answer each other.
struct Pair(Option<u32>);

impl Rule for Pair {
    type Request = u32;
    type Answer = u32;

    fn serve(&mut self, item: u32) -> Reply<Self> {
        Reply::Wait(item)
    }

    fn joined(&mut self, waiting: &mut Waiting<'_, Self>) {
        if waiting.len() == 2 {
            let sum = waiting.iter().sum();
            waiting.offer(|_| Reply::Done(sum));
            self.0 = Some(sum);
        }
    }
}

#[test]
fn two_that_meet_answer_each_other() {
    explore(|| {
        let object = with(Contended::new(Pair(None))).race([
            |object| assert_eq!(object.request(1).wait(), 3),
            |object| assert_eq!(Task::new(object.request(2)).run(), 3),
        ]);
        assert_eq!((object.waiters(), object.with(|pair| pair.0)), (0, Some(3)));
    });
}

mod lock {
    use super::*;
    use crate::primitive::TrackedCell;
    use crate::rule::SleepLock;
    use crate::wait::rule::Lock;

    /// A counter that the checker sees unprotected if the lock fails.
    struct Counted {
        lock: SleepLock,
        count: TrackedCell<u32>,
    }

    // SAFETY: the counter is touched under the lock only, which is what the model finds out.
    unsafe impl Sync for Counted {}

    impl Counted {
        fn new() -> Self {
            Self { lock: SleepLock::new(), count: TrackedCell::new(0) }
        }

        fn add(&self, at_once: bool) {
            let held = if at_once { self.lock.try_lock() } else { None };
            if held.is_none() {
                self.lock.lock_asleep().expect("this lock can be slept on");
            }
            // SAFETY: the lock is held.
            self.count.look_mut(|count| unsafe { *count += 1 });
            self.lock.unlock(());
        }

        fn count(self) -> u32 {
            // SAFETY: owned.
            self.count.look(|count| unsafe { *count })
        }
    }

    #[test]
    fn a_sleeper_is_woken() {
        explore(|| {
            let counted = with(Counted::new()).race([|it| it.add(true), |it| it.add(false)]);
            assert_eq!(counted.count(), 2);
        });
    }

    #[test]
    fn several_sleepers_are_woken_one_after_the_other() {
        explore_within(3, || {
            let sides: [fn(&Counted); 3] =
                [|it| it.add(true), |it| it.add(false), |it| it.add(false)];
            assert_eq!(with(Counted::new()).race(sides).count(), 3);
        });
    }
}

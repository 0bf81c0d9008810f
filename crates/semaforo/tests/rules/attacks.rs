//! What hostile and careless programs do to a rule's object.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semaforo::rule::{Contended, Order, Reply, Rule, Waiting};

use super::lending::units;
use crate::support::{
    Step, Waiter, eventually, explodes, exploding_waker, in_every_arrangement, in_its_own_process,
    leaked, panic_of, panicking_waker, until_queued, waker_that,
};

/// What a rule may drop: a request that waits for the rule's own object, or for another.
///
/// Defect: `withdraw` locks, which panics in a rule's own code, and the request's memory was freed while
/// the object still knew it (use after free at the next change). Now the process ends, and says why.
fn a_request_dropped_in_a_rule(is_own: bool) {
    let ended = panic_of(|| {
        in_its_own_process(|| {
            let (object, other) = (leaked(units(0)), leaked(units(0)));
            let target = if is_own { object } else { other };
            let step = Step::queued(target.request(1));
            let dropped = catch_unwind(AssertUnwindSafe(|| object.change(|_, _| drop(step))));
            assert_eq!(target.waiters(), 0, "knows a request that was freed; {dropped:?}");
            panic!("it was withdrawn");
        });
    });
    let is_sound =
        ended.contains("dropped a request that waits") || ended.contains("it was withdrawn");
    assert!(is_sound, "{ended}");
}

#[test]
fn a_rule_drops_a_request_for_its_own_object() {
    a_request_dropped_in_a_rule(true);
}

#[test]
fn a_rule_drops_a_request_for_another_object() {
    a_request_dropped_in_a_rule(false);
}

/// Units in strict order, of which the first two kinds of requests are turned away as others join.
struct Shedding {
    free: u32,
    at_most: usize,
}

impl Rule for Shedding {
    type Request = u32;
    type Answer = Option<u32>;

    fn serve(&mut self, units: u32) -> Reply<Self> {
        match self.free.checked_sub(units) {
            None => Reply::Wait(units),
            Some(left) => {
                self.free = left;
                Reply::Done(Some(units))
            }
        }
    }

    /// More than so many do not wait: the largest are turned away.
    fn joined(&mut self, waiting: &mut Waiting<'_, Self>) {
        if waiting.len() > self.at_most {
            let largest = waiting.iter().copied().max();
            waiting.offer_where(|units| Some(*units) == largest, |_| Reply::Done(None));
        }
    }
}

/// Defect: nothing is settled after `joined` has answered requests, though others waited for those.
#[test]
fn those_behind_a_request_that_was_answered_as_another_joined() {
    in_every_arrangement(|arrangement| {
        let object = leaked(Contended::new(Shedding { free: 1, at_most: 1 }));
        let large = Waiter::start_then(arrangement.kind(0), object.request(5), |answer| answer);
        until_queued(object, 1);
        // The large one alone was in its way.
        let small = Step::new(object.request(1)).poll();
        assert!(small.is_ready(), "it waits, though it is first and can be served");
        assert_eq!(large.join(), None);
    });
}

/// The same, for one that waited already.
#[test]
fn those_who_waited_behind_a_request_that_was_answered_as_another_joined() {
    let object = Contended::new(Shedding { free: 1, at_most: 2 });
    let mut large = Step::queued(object.request(9));
    let mut small = Step::queued(object.request(1));
    let mut last = Step::queued(object.request(3));
    assert_eq!(large.expect_ready(), None);
    assert_eq!(small.expect_ready(), Some(1));
    last.expect_pending();
}

/// A buffer of one item, behind a gate.
struct Gated {
    is_open: bool,
    items: u32,
}

impl Rule for Gated {
    type Request = bool;
    type Answer = ();
    const ORDER: Order<bool> = Order::Any;

    fn serve(&mut self, puts: bool) -> Reply<Self> {
        if puts && self.is_open && self.items == 0 {
            self.items = 1;
            return Reply::Done(());
        }
        if !puts && self.items == 1 {
            self.items = 0;
            return Reply::Done(());
        }
        Reply::Wait(puts)
    }
}

/// Defect: a pass goes on behind the request that was served, and gives what that made possible to a
/// later request; `Any` promises it to the one that came first.
#[test]
fn in_any_order_the_one_that_came_first_is_before_others() {
    let object = Contended::new(Gated { is_open: false, items: 0 });
    let mut first = Step::queued(object.request(false));
    let mut puts = Step::queued(object.request(true));
    let mut last = Step::queued(object.request(false));
    object.change(|gated, _| gated.is_open = true);
    puts.expect_ready();
    assert!(last.poll().is_pending(), "the later one has the item");
    first.expect_ready();
}

/// Units whose undo panics after it has given back.
struct Loud(u32);

impl Rule for Loud {
    type Request = ();
    type Answer = ();

    fn serve(&mut self, (): ()) -> Reply<Self> {
        match self.0.checked_sub(1) {
            None => Reply::Wait(()),
            Some(left) => {
                self.0 = left;
                Reply::Lent((), |rule, ()| {
                    rule.0 += 1;
                    panic!("loud");
                })
            }
        }
    }

    fn is_whole(&self) -> bool {
        true
    }
}

/// Defect: the payload of the waker's panic was dropped while the panic of the undo unwound, which ends
/// the process.
#[test]
fn an_undo_and_a_waker_panic_at_once() {
    in_its_own_process(|| {
        let object = Contended::new(Loud(1));
        let loan = object.hold(()).wait();
        let mut waits = Step::new(object.request(()));
        assert!(waits.poll_with(&exploding_waker()).is_pending());
        assert!(explodes(|| drop(loan)));
        waits.expect_ready();
    });
}

// What holds.

/// A waker, while others of its batch are told and others deferred, drops all of them.
#[test]
fn those_not_told_yet_are_dropped() {
    let object = leaked(units(0));
    let others = Arc::new(Mutex::new(Vec::new()));
    let mut first = Step::new(object.request(1));
    let drops = Arc::clone(&others);
    let waker = waker_that(move || drop(std::mem::take(&mut *drops.lock().unwrap())));
    assert!(first.poll_with(&waker).is_pending());
    for _ in 0..99 {
        others.lock().unwrap().push(Step::queued(object.request(1)));
    }
    object.change(|rule, _| rule.free += 100);
    assert_eq!((object.waiters(), object.with(|rule| rule.free)), (0, 99));
    assert_eq!(first.expect_ready(), 1);
}

/// It breaks while many wait: tasks, threads, one that is dormant, one that was lent something.
#[test]
fn a_broken_object_tells_all() {
    struct Fragile(u32);

    impl Rule for Fragile {
        type Request = u32;
        type Answer = u32;

        fn serve(&mut self, units: u32) -> Reply<Self> {
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
    }

    let object = leaked(Contended::new(Fragile(0)));
    object.set_patience(Duration::from_millis(4));
    let mut dormant = Step::queued(object.request(1));
    let limited = object.request(9).timeout(crate::support::LONG);
    let mut limited = Step::queued(limited);
    object.change(|rule, _| rule.0 += 1);
    eventually("it is taken back", || object.with(|rule| rule.0 == 1));
    let mut tasks: Vec<_> = (0..70).map(|_| Step::queued(object.request(9))).collect();
    let threads = crate::support::Kind::Blocking;
    let thread = Waiter::start_then(threads, object.request(9), drop);
    until_queued(object, 73);
    assert_eq!(panic_of(|| object.change(|_, _| panic!("broken"))), "broken");
    assert!(panic_of(|| thread.join()).contains("panicked"));
    for step in &mut tasks {
        assert_eq!(step.wakes(), 1);
        panic_of(|| step.poll());
    }
    assert!(panic_of(|| limited.poll().is_ready()).contains("panicked"));
    assert!(panic_of(|| dormant.poll().is_ready()).contains("panicked"));
    drop((dormant, limited, tasks));
    assert_eq!(object.waiters(), 0);
}

/// A task whose own poll panics with the waker of another keeps what it was lent, or gives it back.
#[test]
fn a_waker_panics_as_a_request_comes_back() {
    let object = units(0);
    object.set_patience(Duration::from_millis(4));
    let mut asleep = Step::queued(object.request(2));
    object.change(|rule, _| rule.free += 2);
    let mut large = Step::queued(object.request(5));
    eventually("it is taken back", || object.with(|rule| rule.free) == 2);
    large.expect_pending();
    let mut small = Step::new(object.request(1));
    assert!(small.poll_with(&panicking_waker()).is_pending());
    // The large one leaves: the small one is served, and its waker panics.
    assert_eq!(panic_of(|| drop(large)), "the waker panicked");
    asleep.expect_pending();
    assert_eq!(small.expect_ready(), 1);
    object.change(|rule, _| rule.free += 1);
    assert_eq!(asleep.expect_ready(), 2);
    assert_eq!(object.with(|rule| rule.free), 0);
}

/// Two numbers are in conflict if one divides the other.
struct Divisors(Vec<u32>);

impl Rule for Divisors {
    type Request = u32;
    type Answer = u32;
    const ORDER: Order<u32> = Order::Conflict(|a, b| a % b == 0 || b % a == 0);

    fn serve(&mut self, number: u32) -> Reply<Self> {
        if self.0.iter().any(|held| held % number == 0 || number % held == 0) {
            return Reply::Wait(number);
        }
        self.0.push(number);
        Reply::Lent(number, |rule, number| {
            rule.0.retain(|held| *held != number);
            number
        })
    }
}

#[test]
fn none_overtakes_one_it_is_in_conflict_with() {
    let object = Contended::new(Divisors(Vec::new()));
    let held = object.hold(2).wait();
    let mut six = Step::queued(object.hold(6));
    assert_eq!(object.try_hold(3).unwrap_err(), 3, "in conflict with one that waits");
    let mut three = Step::queued(object.hold(3));
    let five = object.try_hold(5).unwrap();
    assert!(three.poll().is_pending());
    drop(held);
    let six = six.expect_ready();
    three.expect_pending();
    drop(five);
    three.expect_pending();
    drop(six);
    drop(three.expect_ready());
    // One that leaves lets those through that waited for it alone.
    let held = object.hold(2).wait();
    let six = Step::queued(object.hold(6));
    let mut three = Step::queued(object.hold(3));
    drop(six);
    drop(three.expect_ready());
    drop(held);
}

/// Requests that are leaked in every place where one can be, and then the state is taken.
#[test]
fn the_state_of_an_object_whose_requests_are_leaked() {
    let object = units(0);
    object.set_patience(Duration::from_millis(4));
    let dormant = Step::queued(object.request(1));
    object.change(|rule, _| rule.free += 1);
    let waiting = Step::queued(object.request(5).timeout(crate::support::SHORT));
    let behind = Step::queued(object.request(5));
    eventually("it is taken back", || object.with(|rule| rule.free) == 1);
    drop(behind);
    let lent = Step::queued(object.request(2));
    for step in [dormant.into_future(), lent.into_future()] {
        std::mem::forget(step);
    }
    std::mem::forget(waiting.into_future());
    object.change(|rule, _| rule.free += 1);
    drop(object.into_inner());
    crate::support::let_limits_pass(crate::support::SHORT);
}

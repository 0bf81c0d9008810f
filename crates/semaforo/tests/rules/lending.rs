//! What is lent: undone if its owner does not come for it, or gives it back.

use std::time::Duration;

use semaforo::rule::{Contended, Order, Reply, Rule};

use crate::support::{Step, block_on, eventually};

/// Units that are lent.
pub(crate) struct Units {
    pub(crate) free: u32,
}

impl Rule for Units {
    type Request = u32;
    type Answer = u32;

    fn serve(&mut self, units: u32) -> Reply<Self> {
        match self.free.checked_sub(units) {
            None => Reply::Wait(units),
            Some(left) => {
                self.free = left;
                Reply::Lent(units, |rule, units| {
                    rule.free += units;
                    units
                })
            }
        }
    }

    fn is_whole(&self) -> bool {
        true
    }
}

pub(crate) fn units(free: u32) -> Contended<Units> {
    Contended::new(Units { free })
}

fn free(object: &Contended<Units>) -> u32 {
    object.with(|rule| rule.free)
}

#[test]
fn a_loan_is_given_back_when_it_is_dropped() {
    let object = units(3);
    let loan = object.hold(2).wait();
    assert_eq!((*loan, free(&object)), (2, 1));
    assert_eq!(object.try_hold(2).unwrap_err(), 2);
    drop(loan);
    assert_eq!(free(&object), 3);
    assert_eq!(block_on(object.hold(3)).keep(), 3);
    assert_eq!(free(&object), 0);
}

#[test]
fn what_is_asked_for_without_a_guard_is_for_good_once_it_was_claimed() {
    let object = units(2);
    assert_eq!(object.request(1).wait(), 1);
    assert_eq!(object.request_as(1, |units| units * 10).wait(), 10);
    assert_eq!(free(&object), 0);
    let unclaimed = Step::queued(object.request(1));
    object.change(|rule, _| rule.free += 1);
    assert_eq!(free(&object), 0);
    assert_eq!(unclaimed.wakes(), 1);
    drop(unclaimed);
    assert_eq!(free(&object), 1);
}

#[test]
fn requests_are_served_in_the_order_in_which_they_came() {
    let object = units(0);
    let mut large = Step::queued(object.hold(2));
    let mut small = Step::queued(object.hold(1));
    object.change(|rule, _| rule.free += 1);
    assert!(object.try_hold(1).is_err(), "a newcomer overtakes no request that waits");
    assert!(small.poll().is_pending());
    object.change(|rule, _| rule.free += 2);
    assert!(large.poll().is_ready());
    assert!(small.poll().is_ready());
}

/// A task that does not come is passed over while others wait, keeps its place, and is first when it is
/// polled.
#[test]
fn a_loan_that_is_not_claimed_goes_to_the_next_request() {
    let object = units(0);
    object.set_patience(Duration::from_millis(4));
    let mut asleep = Step::queued(object.hold(1));
    object.change(|rule, _| rule.free += 1);
    let loan = object.hold(1).wait();
    let mut third = Step::queued(object.hold(1));
    assert!(asleep.poll().is_pending());
    drop(loan);
    assert!(third.poll().is_pending());
    assert!(asleep.poll().is_ready());
    eventually("the third has it", || third.wakes() > 0 || free(&object) > 0);
}

/// As soon as what a passed-over request asks for is free it has it, whatever other requests wait.
#[test]
fn a_request_that_comes_back_waits_for_no_other() {
    let object = units(0);
    object.set_patience(Duration::from_millis(4));
    let mut asleep = Step::queued(object.hold(1));
    object.change(|rule, _| rule.free += 1);
    let mut large = Step::queued(object.hold(5));
    eventually("it is taken back", || free(&object) == 1);
    assert!(asleep.poll().is_ready());
    assert!(large.poll().is_pending());
}

#[test]
fn a_guard_over_a_handle_of_its_own_outlives_its_scope() {
    let object = std::sync::Arc::new(units(1));
    let loan = object.hold_owned(1).wait();
    let weak = std::sync::Arc::downgrade(&object);
    drop(object);
    assert!(weak.upgrade().is_some());
    drop(loan);
    assert!(weak.upgrade().is_none());
}

/// Each for itself: no request waits for another, but the first that can be served is.
struct Drawers(Vec<u32>);

impl Rule for Drawers {
    type Request = usize;
    type Answer = usize;
    const ORDER: Order<usize> = Order::Any;

    fn serve(&mut self, drawer: usize) -> Reply<Self> {
        match self.0[drawer].checked_sub(1) {
            None => Reply::Wait(drawer),
            Some(left) => {
                self.0[drawer] = left;
                Reply::Done(drawer)
            }
        }
    }
}

#[test]
fn without_an_order_each_is_served_as_soon_as_it_can_be() {
    let object = Contended::new(Drawers(vec![0, 0]));
    let mut first = Step::queued(object.request(0));
    let mut second = Step::queued(object.request(1));
    let mut also_second = Step::queued(object.request(1));
    object.change(|drawers, _| drawers.0[1] += 1);
    assert!(second.poll().is_ready());
    assert!(also_second.poll().is_pending());
    assert!(first.poll().is_pending());
    object.change(|drawers, waiting| {
        assert_eq!(waiting.iter().copied().collect::<Vec<_>>(), [0, 1]);
        drawers.0 = vec![1, 1];
    });
    assert!(first.poll().is_ready());
    assert!(also_second.poll().is_ready());
}

/// A change serves more than there is space for in one batch of wake-ups.
#[test]
fn many_are_served_by_one_change() {
    let object = units(0);
    let mut waiting: Vec<_> = (0..1000).map(|_| Step::queued(object.request(1))).collect();
    object.change(|rule, _| rule.free += 1000);
    assert_eq!((object.waiters(), free(&object)), (0, 0));
    for step in &mut waiting {
        assert_eq!(step.wakes(), 1);
        assert!(step.poll().is_ready());
    }
}

//! Rules that panic, call back, or lie: they hurt only their own requests.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use semaforo::rule::{Contended, Order, Reply, Rule, Waiting};
use semaforo::{CancelSource, Semaphore};

use super::lending::units;
use crate::support::{
    Bomb, LONG, Step, Waiter, eventually, explodes, in_every_arrangement, in_its_own_process,
    leaked, panic_of, until_queued,
};

/// Its requests say what to do.
struct Unruly {
    is_open: bool,
    is_whole: bool,
    settle_panics: bool,
    own: OnceLock<Arc<Contended<Unruly>>>,
    other: Arc<Semaphore>,
    stop: CancelSource,
    dropped_by_rule: Option<Contended<Unruly>>,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Nothing,
    Panic,
    Explode,
    CallBack,
    Ask,
    Wait,
    Cancel,
    UndoPanics,
    DropOther,
}

impl Rule for Unruly {
    type Request = Deed;
    type Answer = ();
    const ORDER: Order<Deed> = Order::Any;

    fn serve(&mut self, deed: Deed) -> Reply<Self> {
        if !self.is_open {
            return Reply::Wait(deed);
        }
        match deed {
            Deed::Nothing => {}
            Deed::Panic => panic!("unruly"),
            Deed::Explode => std::panic::panic_any(Bomb(3)),
            Deed::CallBack => {
                if let Some(own) = self.own.get() {
                    own.with(|_| ());
                }
            }
            Deed::Ask => {
                if let Some(own) = self.own.get() {
                    own.request(Deed::Nothing).wait();
                }
            }
            Deed::Wait => drop(self.other.acquire(1).timeout(LONG).wait()),
            Deed::Cancel => self.stop.cancel(),
            Deed::UndoPanics => return Reply::Lent((), |_, ()| panic!("cannot be undone")),
            Deed::DropOther => drop(self.dropped_by_rule.take()),
        }
        Reply::Done(())
    }

    fn settle(&mut self, waiting: &mut Waiting<'_, Self>) {
        assert!(!self.settle_panics, "settle");
        waiting.serve(self);
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }
}

fn rule(is_open: bool, is_whole: bool) -> Unruly {
    Unruly {
        is_open,
        is_whole,
        settle_panics: false,
        own: OnceLock::new(),
        other: Arc::new(Semaphore::new(0)),
        stop: CancelSource::new(),
        dropped_by_rule: None,
    }
}

fn unruly(is_open: bool, is_whole: bool) -> Contended<Unruly> {
    Contended::new(rule(is_open, is_whole))
}

#[test]
fn the_panic_of_a_newcomer_is_its_own() {
    let object = unruly(true, true);
    assert_eq!(panic_of(|| object.request(Deed::Panic).wait()), "unruly");
    object.request(Deed::Nothing).wait();
    let mut step = Step::new(object.request(Deed::Panic));
    assert_eq!(panic_of(|| step.poll()), "unruly");
    let again = panic_of(|| step.poll());
    assert!(again.contains("panicked"), "{again}");
    drop(step);
    object.request(Deed::Nothing).wait();
    assert!(!object.is_broken());
}

#[test]
fn the_panic_of_a_waiting_request_hurts_no_other() {
    in_every_arrangement(|arrangement| {
        for deed in [Deed::Panic, Deed::Explode] {
            let object = leaked(unruly(false, true));
            let first =
                Waiter::start_then(arrangement.kind(0), object.request(Deed::Nothing), drop);
            until_queued(object, 1);
            let bad = Waiter::start_then(arrangement.kind(1), object.request(deed), drop);
            until_queued(object, 2);
            let last = Waiter::start_then(arrangement.kind(2), object.request(Deed::Nothing), drop);
            until_queued(object, 3);
            object.change(|rule, _| rule.is_open = true);
            first.join();
            last.join();
            assert!(panic_of(|| bad.join()).contains("panicked"));
            assert!(!object.is_broken());
        }
    });
}

#[test]
fn a_rule_that_is_not_whole_is_broken_for_all() {
    let object = unruly(false, false);
    let mut first = Step::queued(object.request(Deed::Panic));
    let mut second = Step::queued(object.request(Deed::Nothing));
    let loan = Contended::hold(&object, Deed::UndoPanics);
    object.change(|rule, _| rule.is_open = true);
    assert!(object.is_broken());
    for step in [&mut first, &mut second] {
        assert_eq!(step.wakes(), 1);
        assert!(panic_of(|| step.poll()).contains("panicked"));
    }
    assert!(panic_of(|| object.request(Deed::Nothing).wait()).contains("panicked"));
    assert!(panic_of(|| object.change(|_, _| ())).contains("panicked"));
    drop(loan);
    assert!(object.with(|rule| rule.is_open));
    drop((first, second));
    assert!(object.into_inner().is_open);
}

/// Own and other objects of rules, waiting, cancelling: each panics at once.
#[test]
fn what_would_wait_for_itself_panics() {
    in_its_own_process(|| {
        let object = Arc::new(unruly(true, true));
        assert!(object.with(|rule| rule.own.set(Arc::clone(&object)).is_ok()));
        for deed in [Deed::CallBack, Deed::Ask, Deed::Wait, Deed::Cancel] {
            let message = panic_of(|| object.request(deed).wait());
            assert!(message.starts_with("a rule"), "{deed:?}: {message}");
        }
        let other = units(1);
        assert!(panic_of(|| object.change(|_, _| other.waiters())).starts_with("a rule"));
        assert!(panic_of(|| object.with(|_| object.waiters())).starts_with("a rule"));
        object.request(Deed::Nothing).wait();
        object.with(|rule| assert!(!rule.stop.is_cancelled()));
        // Not found to wait for itself: a token that fires elsewhere.
        let stop = CancelSource::new();
        let mut step = Step::queued(other.request(9).cancel_on(&stop.token()));
        stop.cancel();
        assert!(step.expect_ready().is_err());
    });
}

/// Outside of the rule's own code nothing is forbidden, also where a waker runs.
#[test]
fn a_waker_may_use_the_object() {
    let object = leaked(units(0));
    let mut step = Step::new(object.request(1));
    let waker = crate::support::waker_that(|| object.change(|rule, _| rule.free += 10));
    assert!(step.poll_with(&waker).is_pending());
    object.change(|rule, _| rule.free += 1);
    assert_eq!(object.with(|rule| rule.free), 10);
    assert_eq!(step.expect_ready(), 1);
}

#[test]
fn a_rule_may_drop_the_object_of_another() {
    let object =
        Contended::new(Unruly { dropped_by_rule: Some(unruly(true, true)), ..rule(true, true) });
    object.request(Deed::DropOther).wait();
    assert!(!object.is_broken());
}

/// The last handle of an object lies in its own state, and is dropped by its rule on the timer's thread.
#[test]
fn an_object_may_be_dropped_by_its_own_rule() {
    in_its_own_process(|| {
        struct Own {
            itself: Option<Arc<Contended<Own>>>,
            _alive: Arc<()>,
        }

        impl Rule for Own {
            type Request = bool;
            type Answer = ();

            fn serve(&mut self, drops: bool) -> Reply<Self> {
                if drops {
                    self.itself = None;
                }
                Reply::Wait(drops)
            }
        }

        let alive = Arc::new(());
        let object = Arc::new(Contended::new(Own { itself: None, _alive: Arc::clone(&alive) }));
        object.change(|own, _| own.itself = Some(Arc::clone(&object)));
        let limited = object.request_owned(false, drop).timeout(Duration::from_millis(5));
        let drops = object.request_owned(true, drop);
        // Leaked, so that nothing but the limit of the first changes anything.
        let (limited, drops) = (Step::queued(limited), Step::queued(drops));
        std::mem::forget(limited.into_future());
        std::mem::forget(drops.into_future());
        drop(object);
        eventually("the limit has come", || Arc::strong_count(&alive) <= 2);
    });
}

#[test]
fn a_panic_of_a_change_comes_out_of_it() {
    for is_whole in [true, false] {
        let object = unruly(false, is_whole);
        let mut step = Step::queued(object.request(Deed::Nothing));
        let change = || {
            object.change(|rule, _| {
                rule.is_open = true;
                panic!("half-way")
            })
        };
        assert_eq!(panic_of(|| -> () { change() }), "half-way");
        assert_eq!(object.is_broken(), !is_whole);
        if is_whole {
            step.expect_ready();
        } else {
            panic_of(|| step.poll());
        }
    }
}

#[test]
fn a_panic_of_an_offer_comes_out_and_ends_its_request() {
    let object = unruly(false, true);
    let mut first = Step::queued(object.request(Deed::Nothing));
    let mut second = Step::queued(object.request(Deed::Nothing));
    let offer = || object.change(|_, waiting| waiting.offer(|_| panic!("no offer")));
    assert_eq!(panic_of(offer), "no offer");
    assert!(panic_of(|| first.poll()).contains("panicked"));
    second.expect_pending();
    object.change(|rule, _| rule.is_open = true);
    second.expect_ready();
}

#[test]
fn a_panic_of_settle_breaks_the_object() {
    let object = unruly(false, true);
    let mut step = Step::queued(object.request(Deed::Nothing));
    object.change(|rule, _| rule.settle_panics = true);
    assert!(object.is_broken());
    assert!(panic_of(|| step.poll()).contains("panicked"));
}

#[test]
fn a_panic_of_an_undo() {
    for is_whole in [true, false] {
        let object = unruly(false, is_whole);
        let step = Step::queued(object.request(Deed::UndoPanics));
        object.change(|rule, _| rule.is_open = true);
        drop(step);
        assert_eq!(object.is_broken(), !is_whole);
    }
    // By the watchdog, on the timer's thread.
    let object = unruly(false, true);
    object.set_patience(Duration::from_millis(4));
    let mut step = Step::queued(object.request(Deed::UndoPanics));
    object.change(|rule, _| rule.is_open = true);
    object.change(|rule, _| rule.is_open = false);
    let mut waits = Step::queued(object.request(Deed::Nothing));
    eventually("it is taken back", || object.waiters() == 2);
    assert!(panic_of(|| step.poll()).contains("panicked"));
    object.change(|rule, _| rule.is_open = true);
    waits.expect_ready();
    // By a guard, which says it.
    let loan = object.hold(Deed::UndoPanics).wait();
    assert_eq!(panic_of(|| drop(loan)), "cannot be undone");
    assert!(!object.is_broken());
}

/// Payloads whose drop panics, dropped without a lock, end nothing half-way.
#[test]
fn payloads_that_explode_hurt_nothing() {
    let object = unruly(false, true);
    let mut bad: Vec<_> = (0..3).map(|_| Step::queued(object.request(Deed::Explode))).collect();
    let mut good = Step::queued(object.request(Deed::Nothing));
    object.change(|rule, _| rule.is_open = true);
    assert_eq!(good.wakes(), 1);
    good.expect_ready();
    bad.iter_mut().for_each(|step| _ = panic_of(|| step.poll()));
    assert!(explodes(|| object.request(Deed::Explode).wait()));
    object.request(Deed::Nothing).wait();
}

/// A leaked request keeps its place; its object can be dropped, and what it asked with it.
#[test]
fn leaked_requests() {
    let object = Arc::new(unruly(false, true));
    let owned = object.request_owned(Deed::Nothing, drop).timeout(Duration::from_millis(5));
    std::mem::forget(Step::queued(owned).into_future());
    let object = units(0);
    std::mem::forget(Step::queued(object.request(1)).into_future());
    let mut behind = Step::queued(object.request(1));
    object.set_patience(Duration::from_millis(4));
    object.change(|rule, _| rule.free += 1);
    eventually("what the leaked one was lent goes on", || behind.wakes() == 1);
    behind.expect_ready();
    drop(behind);
    drop(object);
}

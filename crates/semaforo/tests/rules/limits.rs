//! Requests that are ended: they give back what was asked, and let their followers through.

use std::time::Duration;

use semaforo::rule::{Contended, Reply, Rule};
use semaforo::{CancelSource, WaitError};

use super::lending::units;
use crate::support::{SHORT, Step, Waiter, fire, in_every_arrangement, leaked, until_queued};

#[test]
fn an_ended_request_gives_back_what_was_asked() {
    let object = units(1);
    let ended = object.hold(2).timeout(SHORT).wait().unwrap_err();
    assert_eq!((ended.item, ended.why), (2, WaitError::TimedOut));
    let stop = CancelSource::new();
    let mut request = Step::queued(object.request(3).cancel_on(&stop.token()));
    stop.cancel();
    let ended = request.expect_ready().unwrap_err();
    assert_eq!((ended.item, ended.why), (3, WaitError::Cancelled));
    assert_eq!(
        object.request(1).timeout(Duration::ZERO).cancel_on(&stop.token()).wait().unwrap(),
        1
    );
}

/// The first in strict order leaves, by its token, by its limit, or dropped: those behind it go on.
#[test]
fn a_request_that_leaves_lets_its_followers_through() {
    in_every_arrangement(|arrangement| {
        let object = leaked(units(1));
        let stop = CancelSource::new();
        let token = stop.token();
        let first =
            Waiter::start_then(arrangement.kind(0), object.request(5).cancel_on(&token), |ended| {
                ended.unwrap_err().why
            });
        until_queued(object, 1);
        let second = Waiter::start_then(arrangement.kind(1), object.hold(1), |loan| *loan);
        until_queued(object, 2);
        fire(&stop, 1);
        assert_eq!(first.join(), WaitError::Cancelled);
        assert_eq!(second.join(), 1);

        let first =
            Waiter::start_then(arrangement.kind(0), object.request(5).timeout(SHORT), |ended| {
                ended.unwrap_err().why
            });
        until_queued(object, 1);
        let second = Waiter::start_then(arrangement.kind(1), object.hold(1), |loan| *loan);
        assert_eq!(first.join(), WaitError::TimedOut);
        assert_eq!(second.join(), 1);

        let dropped = Step::queued(object.request(5));
        let second = Waiter::start_then(arrangement.kind(1), object.hold(1), |loan| *loan);
        until_queued(object, 2);
        drop(dropped);
        assert_eq!(second.join(), 1);
        until_queued(object, 0);
    });
}

/// A grant wins over a token that has fired; a token over a limit.
#[test]
fn what_can_be_served_is_served_although_its_time_is_up() {
    let object = units(2);
    let stop = CancelSource::new();
    stop.cancel();
    let token = stop.token();
    assert_eq!(object.request(1).cancel_on(&token).timeout(Duration::ZERO).wait().unwrap(), 1);
    let why = object.request(2).timeout(Duration::ZERO).cancel_on(&token).wait().unwrap_err().why;
    assert_eq!(why, WaitError::Cancelled);
}

/// Closing needs nothing from the library.
struct Gate {
    is_closed: bool,
}

impl Rule for Gate {
    type Request = ();
    type Answer = Result<(), &'static str>;

    fn serve(&mut self, (): ()) -> Reply<Self> {
        if self.is_closed { Reply::Done(Err("closed")) } else { Reply::Wait(()) }
    }
}

#[test]
fn a_rule_refuses_by_its_answers() {
    in_every_arrangement(|arrangement| {
        let gate = leaked(Contended::new(Gate { is_closed: false }));
        let waiters = [0, 1, 2].map(|position| {
            let waiter =
                Waiter::start_then(arrangement.kind(position), gate.request(()), |answer| answer);
            until_queued(gate, position + 1);
            waiter
        });
        gate.change(|gate, _| gate.is_closed = true);
        for waiter in waiters {
            assert_eq!(waiter.join(), Err("closed"));
        }
        assert_eq!(gate.request(()).wait(), Err("closed"));
    });
}

/// A slow rule keeps its own requests waiting, and not the limits of other objects.
#[test]
fn a_slow_rule_delays_no_limit_elsewhere() {
    use std::sync::mpsc;

    let (began, has_began) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let slow = leaked(units(0));
    let _limited = Step::queued(slow.request(1).timeout(SHORT));
    let holder = std::thread::spawn(move || {
        slow.change(|_, _| {
            began.send(()).unwrap();
            may_go_on.recv().unwrap();
        });
    });
    has_began.recv().unwrap();
    // The limit of the slow object comes first. It cannot be ended now; those of others are.
    crate::support::let_limits_pass(SHORT);
    let other = semaforo::Semaphore::new(0);
    let mut request = Step::queued(other.acquire(1).timeout(SHORT));
    crate::support::eventually("the other limit ends its request", || request.wakes() == 1);
    assert!(request.expect_ready().is_err());
    go_on.send(()).unwrap();
    holder.join().unwrap();
}

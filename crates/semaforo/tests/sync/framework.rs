//! The framework: policies that a user writes, and the misuse that guards make impossible
//! elsewhere (cases M-04 to M-06 and R-15).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    LONG, Line, Step, Waiter, fire, in_every_arrangement, leaked, panic_of, patient,
};
use semaforo::policy::{
    Access, Ending, Exclusive, Lanes, NotHeld, NotOwner, NotSoleReader, Owned, Owner, ReadWrite,
};
use semaforo::{CancelSource, Policy, Refusal, Synchronizer, TryError, WaitError};

/// At most two holders at once; the state counts them.
#[derive(Clone, Copy, Debug)]
struct TwoHolders;

impl Policy for TwoHolders {
    type Ask = ();
    type Give = ();
    type Refusal = Infallible;
    type Misuse = &'static str;

    fn acquire(&self, holders: u64, (): ()) -> Option<u64> {
        (holders < 2).then_some(holders + 1)
    }
    fn release(&self, holders: u64, (): ()) -> Result<u64, &'static str> {
        holders.checked_sub(1).ok_or("nobody holds it")
    }
    fn undo(&self, (): ()) -> Option<()> {
        Some(())
    }
}

#[test]
fn two_hold_and_the_third_waits() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(Synchronizer::new(TwoHolders, 0));
        let mut line = Line::new(arrangement, lock);
        let first = line.start(lock.acquire(())).join();
        let second = lock.try_acquire(()).unwrap();
        assert!(lock.try_acquire(()).is_err());
        let third = line.enter(lock.acquire(()));
        let fourth = line.enter(lock.acquire(()).timeout(LONG));
        assert_eq!((lock.state(), lock.waiters()), (2, 2));
        drop(first);
        let third = third.join();
        assert_eq!((lock.state(), lock.waiters()), (2, 1));
        drop((second, third));
        drop(fourth.join().unwrap());
        assert_eq!((lock.state(), lock.waiters()), (0, 0));
        assert_eq!(lock.release(()), Err("nobody holds it"));
    });
}

#[test]
fn what_is_held_can_be_kept_for_good() {
    let lock = Arc::new(Synchronizer::new(TwoHolders, 0));
    lock.acquire_owned(()).wait().forget();
    lock.try_acquire(()).unwrap().forget();
    assert_eq!((lock.state(), Arc::strong_count(&lock)), (2, 1));
    assert_eq!(lock.release(()), Ok(2));
    assert_eq!(lock.release(()), Ok(1));
    assert!(format!("{lock:?}").contains("state: 0"));
}

/// Weights up to a capacity; too heavy is refused. The state is the load.
#[derive(Clone, Copy, Debug)]
struct Bridge {
    capacity: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TooHeavy(u64);

impl Refusal for TooHeavy {
    type Output<G> = Result<G, Self>;

    fn granted<G>(grant: G) -> Result<G, Self> {
        Ok(grant)
    }
    fn refused<G>(self) -> Result<G, Self> {
        Err(self)
    }
}

impl Policy for Bridge {
    type Ask = u64;
    type Give = u64;
    type Refusal = TooHeavy;
    type Misuse = ();

    fn acquire(&self, load: u64, weight: u64) -> Option<u64> {
        (weight <= self.capacity - load).then_some(load + weight)
    }
    fn release(&self, load: u64, weight: u64) -> Result<u64, ()> {
        load.checked_sub(weight).ok_or(())
    }
    fn undo(&self, weight: u64) -> Option<u64> {
        Some(weight)
    }
    fn refuse(&self, _: u64, weight: u64) -> Option<TooHeavy> {
        (weight > self.capacity).then_some(TooHeavy(weight))
    }
}

#[test]
fn trying_tells_what_can_never_be_granted() {
    let bridge = Synchronizer::new(Bridge { capacity: 10 }, 0);
    let heavy = bridge.try_acquire(7).unwrap();
    assert_eq!(bridge.try_acquire(4).unwrap_err(), TryError::NotNow);
    assert_eq!(bridge.try_acquire(11).unwrap_err(), TryError::Refused(TooHeavy(11)));
    drop(heavy);
    assert_eq!(bridge.try_acquire(4).map(|held| held.ask()), Ok(4));
    let lock = Synchronizer::new(TwoHolders, 2);
    let Err(TryError::NotNow) = lock.try_acquire(()) else { panic!("it is never refused") };
}

#[test]
fn weights_are_served_in_order_and_too_heavy_ones_refused() {
    in_every_arrangement(|arrangement| {
        let bridge = leaked(Synchronizer::new(Bridge { capacity: 10 }, 0));
        let mut line = Line::new(arrangement, bridge);
        let six = line.start(bridge.acquire(6)).join().unwrap();
        let eight = line.enter(bridge.acquire(8));
        let one = line.enter(bridge.acquire(1));
        assert_eq!(line.start(bridge.acquire(11)).join().unwrap_err(), TooHeavy(11));
        let limited = line.start(bridge.acquire(11).timeout(LONG)).join();
        assert_eq!(limited.unwrap_err(), WaitError::Refused(TooHeavy(11)));
        assert_eq!(bridge.waiters(), 2);
        assert_eq!(six.ask(), 6);
        drop(six);
        drop((eight.join().unwrap(), one.join().unwrap()));
        assert_eq!(bridge.state(), 0);
        assert_eq!(bridge.policy().capacity, 10);
    });
}

/// One at a time; the express lane goes first.
#[derive(Clone, Copy, Debug)]
struct Express;

impl Policy for Express {
    type Ask = bool;
    type Give = ();
    type Refusal = Infallible;
    type Misuse = ();

    const LANES: usize = 2;

    fn acquire(&self, held: u64, _: bool) -> Option<u64> {
        (held == 0).then_some(1)
    }
    fn release(&self, held: u64, (): ()) -> Result<u64, ()> {
        if held == 1 { Ok(0) } else { Err(()) }
    }
    fn undo(&self, _: bool) -> Option<()> {
        Some(())
    }
    fn lane(&self, express: bool) -> usize {
        usize::from(!express)
    }
    fn next_lane(&self, _: u64, _: Option<()>, waiting: Lanes) -> usize {
        usize::from(!waiting.contains(0))
    }
}

#[test]
fn lanes_are_served_as_the_policy_says() {
    in_every_arrangement(|arrangement| {
        let desk = leaked(patient(Synchronizer::new(Express, 0)));
        let held = desk.try_acquire(false).unwrap();
        let mut line = Line::new(arrangement, desk);
        let served = crate::support::Record::new();
        let waiters: Vec<_> = [false, true, false, true]
            .into_iter()
            .enumerate()
            .map(|(number, express)| {
                let served = served.clone();
                line.enter_then(desk.acquire(express), move |held| {
                    served.note(number);
                    drop(held);
                })
            })
            .collect();
        assert_eq!((desk.waiters_in(0), desk.waiters_in(1), desk.waiters()), (2, 2, 4));
        assert_eq!((desk.waiters_in(2), desk.waiters_in(usize::MAX)), (0, 0));
        drop(held);
        waiters.into_iter().for_each(Waiter::join);
        assert_eq!(served.entries(), [1, 3, 0, 2]);
    });
}

/// A grant that uses nothing up is final: it is not given back, nor taken back.
#[derive(Clone, Copy, Debug)]
struct Open;

impl Policy for Open {
    type Ask = ();
    type Give = bool;
    type Refusal = Infallible;
    type Misuse = Infallible;

    fn acquire(&self, open: u64, (): ()) -> Option<u64> {
        (open == 1).then_some(open)
    }
    fn release(&self, _: u64, open: bool) -> Result<u64, Infallible> {
        Ok(u64::from(open))
    }
    fn undo(&self, (): ()) -> Option<bool> {
        None
    }
}

#[test]
fn a_grant_that_uses_nothing_up_is_final() {
    in_every_arrangement(|arrangement| {
        let door = leaked(Synchronizer::new(Open, 0));
        door.set_patience(Duration::from_millis(2));
        let unpolled = Step::queued(door.acquire(()));
        let mut late = Step::queued(door.acquire(()));
        let waiter = Line::new(arrangement, door).enter(door.acquire(()));
        door.release(true).unwrap();
        door.release(false).unwrap();
        assert_eq!(door.waiters(), 0);
        drop(unpolled);
        drop(waiter.join());
        drop(late.expect_ready());
        assert_eq!(door.state(), 0);
    });
}

#[test]
fn a_state_that_does_not_fit_is_refused_at_construction() {
    let message = panic_of(|| Synchronizer::new(TwoHolders, 1 << semaforo::policy::STATE_BITS));
    assert!(message.contains("61 bits"), "{message}");
    drop(Synchronizer::new(TwoHolders, (1 << semaforo::policy::STATE_BITS) - 1));
}

/// M-04
#[test]
fn unlocking_what_is_not_locked_is_an_error() {
    let lock = Synchronizer::new(Exclusive, Exclusive::initial(false));
    assert_eq!(lock.release(()), Err(NotHeld));
    drop(lock.acquire(()).wait());
    assert_eq!(lock.release(()), Err(NotHeld));
    let owned = Synchronizer::new(Owned, 0);
    assert_eq!(owned.release(Owner::new(1).unwrap()), Err(NotOwner));
    assert_eq!((lock.state(), owned.state()), (0, 0));
}

/// M-05
#[test]
fn unlocking_what_another_holds_is_an_error() {
    in_every_arrangement(|arrangement| {
        let [a, b, c] = [1, 2, 3].map(|number| Owner::new(number).unwrap());
        let lock = leaked(Synchronizer::new(Owned, 0));
        let held = lock.acquire(a).wait().unwrap();
        let waiter = Line::new(arrangement, lock).enter(lock.acquire(b));
        for other in [b, c] {
            assert_eq!(lock.release(other), Err(NotOwner));
        }
        assert_eq!((Owned::owner(lock.state()), Owned::holds(lock.state())), (Some(a), 1));
        assert_eq!(lock.waiters(), 1);
        drop(held);
        drop(waiter.join().unwrap());
        assert_eq!(lock.state(), 0);
    });
}

/// M-06
#[test]
fn unlocking_with_an_earlier_hold_is_an_error() {
    let [a, b] = [1, 2].map(|number| Owner::new(number).unwrap());
    let lock = Synchronizer::new(Owned, 0);
    drop(lock.acquire(a).wait().unwrap());
    let current = lock.acquire(b).wait().unwrap();
    assert_eq!(lock.release(a), Err(NotOwner));
    assert_eq!(Owned::owner(lock.state()), Some(b));
    drop(current);
    assert_eq!(lock.state(), 0);
}

///
#[test]
fn ending_a_hold_that_is_not_there_is_an_error() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(Synchronizer::new(ReadWrite, ReadWrite::initial(false)));
        let fails = |endings: &[Ending]| {
            let before = (lock.state(), lock.waiters());
            for ending in endings {
                assert_eq!(lock.release(*ending), Err(NotSoleReader), "{ending:?}");
            }
            assert_eq!((lock.state(), lock.waiters()), before);
        };
        let all = [Ending::Read, Ending::Write, Ending::Upgrade, Ending::Downgrade];
        fails(&all);
        let reader = lock.acquire(Access::Read).wait();
        let mut line = Line::new(arrangement, lock);
        let writer = line.enter(lock.acquire(Access::Write));
        fails(&[Ending::Write, Ending::Downgrade]);
        drop(reader);
        let writer = writer.join();
        let next = line.enter(lock.acquire(Access::Read));
        fails(&[Ending::Read, Ending::Upgrade]);
        drop(writer);
        drop(next.join());
        fails(&all);
    });
}

/// Everything that bounds a request works for a user's policy as it does for ours.
#[test]
fn a_users_policy_gets_limits_and_cancellation() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(Synchronizer::new(TwoHolders, 2));
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, lock);
        let timed = line.start(lock.acquire(()).timeout(Duration::from_millis(1)));
        assert_eq!(timed.join().unwrap_err(), WaitError::TimedOut);
        let waiter = line.enter(lock.acquire(()).cancel_on(&stop.token()));
        fire(&stop, 1);
        assert_eq!(waiter.join().unwrap_err(), WaitError::Cancelled);
        assert_eq!((lock.state(), lock.waiters()), (2, 0));
    });
}

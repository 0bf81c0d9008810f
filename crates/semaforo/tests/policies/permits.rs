//! Counted permits.

use semaforo::policy::{Giving, Permits, STATE_BITS};
use semaforo::{AcquireError, Policy, ReleaseError};

use crate::explore::{Model, expelled_for_good, explore, outstanding_grants_can_be_given_back};
use crate::support::panic_of;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct PermitsModel {
    maximum: u32,
    available: u32,
    held: u32,
    closed: bool,
}

impl Model<Permits> for PermitsModel {
    fn acquire(&self, permits: u32) -> Option<Self> {
        let mut next = self.clone();
        next.available = next.available.checked_sub(permits).filter(|_| !self.closed)?;
        next.held += permits;
        Some(next)
    }
    fn give(&self, give: Giving) -> Option<Self> {
        let mut next = self.clone();
        match give {
            Giving::Return(permits) => {
                next.held = next.held.checked_sub(permits)?;
                next.available += permits;
            }
            Giving::Forget(permits) => next.held = next.held.checked_sub(permits)?,
            Giving::Add(permits) => {
                next.available = next.available.checked_add(permits)?;
                if next.available.checked_add(next.held)? > next.maximum {
                    return None;
                }
            }
            Giving::Reduce(permits) => next.available = next.available.saturating_sub(permits),
            Giving::Close => next.closed = true,
        }
        Some(next)
    }
    fn agrees(&self, state: u64) -> bool {
        assert!(self.available + self.held <= self.maximum);
        Permits::available(state) == self.available
            && Permits::held(state) == self.held
            && Permits::is_closed(state) == self.closed
    }
    fn refuses(&self, permits: u32) -> bool {
        self.closed || permits > self.maximum
    }
}

fn permit_gives(maximum: u32) -> Vec<Giving> {
    let mut gives = vec![Giving::Close];
    for permits in (0..=maximum + 1).chain([u32::MAX]) {
        gives.extend([
            Giving::Return(permits),
            Giving::Add(permits),
            Giving::Forget(permits),
            Giving::Reduce(permits),
        ]);
    }
    gives
}

#[test]
fn permits_in_every_state() {
    for barging in [false, true] {
        for maximum in 0..=4 {
            let policy = Permits::new(maximum, barging);
            let asks: Vec<_> = (0..=maximum + 1).chain([u32::MAX]).collect();
            let gives = permit_gives(maximum);
            let model = PermitsModel { maximum, available: maximum, held: 0, closed: false };
            let states = explore(policy, policy.initial(maximum), model, &asks, &gives);
            // Every pair whose sum is within the maximum, open and closed.
            assert_eq!(states as u32, (maximum + 1) * (maximum + 2));
            expelled_for_good(policy, policy.initial(maximum.min(2)), &asks, &gives, 2);
            assert_eq!(policy.barges(0), barging);
            assert!(policy.overtakes(0, 0) && !policy.overtakes(0, 1));
        }
    }
}

#[test]
fn permits_that_are_out_can_always_be_returned() {
    for maximum in 0..=4 {
        let policy = Permits::new(maximum, false);
        let asks: Vec<_> = (0..=maximum).collect();
        let third_parties: Vec<_> = permit_gives(maximum)
            .into_iter()
            .filter(|give| !matches!(give, Giving::Return(_) | Giving::Forget(_)))
            .collect();
        let forget: Vec<_> = asks.iter().map(|ask| (*ask, Giving::Forget(*ask), None)).collect();
        let initial = policy.initial(maximum);
        let visited = outstanding_grants_can_be_given_back(
            policy,
            initial,
            &asks,
            &third_parties,
            &forget,
            4,
        );
        assert!(visited > maximum as usize);
    }
}

#[test]
fn permits_say_what_was_wrong() {
    let policy = Permits::new(4, false);
    let state = policy.acquire(policy.initial(3), 2).unwrap();
    assert_eq!(policy.release(state, Giving::Add(2)), Err(ReleaseError { released: 2, room: 1 }));
    assert_eq!(
        policy.release(state, Giving::Return(3)),
        Err(ReleaseError { released: 3, room: 2 })
    );
    assert_eq!(policy.refuse(state, 5), Some(AcquireError::TooMany { asked: 5, maximum: 4 }));
    let closed = policy.release(state, Giving::Close).unwrap();
    assert_eq!(policy.refuse(closed, 5), Some(AcquireError::Closed));
    panic_of(|| Permits::new(Permits::MAX + 1, false));
    panic_of(|| policy.initial(5));
}

/// The counts of the largest semaphore stay in their places.
#[test]
fn the_most_permits_fit() {
    let policy = Permits::new(Permits::MAX, false);
    let free = policy.initial(Permits::MAX);
    let held = policy.acquire(free, Permits::MAX).unwrap();
    assert_eq!((Permits::available(held), Permits::held(held)), (0, Permits::MAX));
    assert!(!Permits::is_closed(held));
    assert!(policy.release(held, Giving::Add(1)).is_err());
    assert_eq!(policy.release(held, Giving::Return(Permits::MAX)), Ok(free));
    assert_eq!(policy.release(free, Giving::Reduce(u32::MAX)), Ok(0));
    let closed = policy.release(held, Giving::Close).unwrap();
    assert_eq!(closed >> STATE_BITS, 0);
    assert_eq!(Permits::held(closed), Permits::MAX);
}

//! A synchronizer of your own: a lock that admits two holders at once.
//!
//! The policy says what may be granted; everything else comes with it: blocking and awaiting, time
//! limits, cancellation, strict order, guards.
//!
//! `cargo run --release -p semaforo --example your_own`

use std::convert::Infallible;
use std::time::Duration;

use semaforo::{Policy, Synchronizer, WaitError};

/// At most two holders. The state is how many there are.
#[derive(Clone, Copy)]
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

static LOCK: Synchronizer<TwoHolders> = Synchronizer::new(TwoHolders, 0);

fn main() {
    let first = LOCK.acquire(()).wait();
    let second = LOCK.try_acquire(()).expect("there is room for two");
    println!("two holders:       {LOCK:?}");

    let third = LOCK.acquire(()).timeout(Duration::from_millis(20)).wait();
    assert_eq!(third.err(), Some(WaitError::TimedOut));
    println!("no third in 20 ms: {LOCK:?}");

    std::thread::scope(|scope| {
        let third =
            scope.spawn(|| futures::executor::block_on(async { LOCK.acquire(()).await.ask() }));
        while LOCK.waiters() == 0 {
            std::thread::yield_now();
        }
        println!("one waits:         {LOCK:?}");
        drop(first);
        third.join().expect("the third gets in when the first leaves");
    });

    drop(second);
    assert_eq!(LOCK.release(()), Err("nobody holds it"));
    println!("all gone:          {LOCK:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_holder_gets_in_when_one_of_two_leaves() {
        let lock = Synchronizer::new(TwoHolders, 0);
        let first = lock.acquire(()).wait();
        let _second = lock.acquire(()).wait();
        assert!(lock.try_acquire(()).is_err());
        drop(first);
        assert!(lock.try_acquire(()).is_ok());
    }

    #[test]
    fn what_nobody_holds_cannot_be_given_back() {
        assert_eq!(Synchronizer::new(TwoHolders, 0).release(()), Err("nobody holds it"));
    }
}

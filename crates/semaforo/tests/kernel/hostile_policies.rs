//! Policies that panic, or answer differently each time: "wrong answers, never memory errors", and
//! nobody but the request that was looked at is hurt. Run these under the address sanitizer too.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::support::Step;
use crate::support::{eventually, in_its_own_process, let_limits_pass, panic_of};
use semaforo::policy::Lanes;
use semaforo::{CancelSource, Policy, Semaphore, Synchronizer, WaitError};

/// Units; an ask is how many, a give is how many. What else a policy does, each test says.
macro_rules! units {
    ($name:ident { $($rest:tt)* }) => {
        #[derive(Clone, Copy, Debug)]
        struct $name;
        impl Policy for $name {
            type Ask = u32;
            type Give = u32;
            type Misuse = Infallible;
            fn release(&self, state: u64, give: u32) -> Result<u64, Infallible> {
                Ok(state + u64::from(give))
            }
            $($rest)*
        }
    };
}

fn take(state: u64, ask: u32) -> Option<u64> {
    state.checked_sub(u64::from(ask))
}

/// Overwrites what was freed, so that a stale pointer shows even without a sanitizer.
fn churn() {
    let blocks: Vec<Vec<u8>> = (0..200).map(|n| vec![0xA5; 64 + n * 8]).collect();
    drop(std::hint::black_box(blocks));
}

/// Overwrites the stack that earlier calls have left.
fn scribble(depth: usize) {
    let block = std::hint::black_box([0x01_u8; 4096]);
    if depth > 0 {
        scribble(depth - 1);
    }
    std::hint::black_box(&block);
}

// 1. `refuse` panics in `enter`, after the request was registered with its token: the request is
// still FRESH, so dropping it does not unregister it.
units!(RefusePanics {
    type Refusal = Infallible;
    fn acquire(&self, state: u64, ask: u32) -> Option<u64> { take(state, ask) }
    fn undo(&self, ask: u32) -> Option<u32> { Some(ask) }
    fn refuse(&self, _: u64, _: u32) -> Option<Infallible> { panic!("refuse") }
});

#[test]
fn a_request_whose_policy_panics_as_it_queues_leaves_its_token() {
    in_its_own_process(|| {
        let object = Synchronizer::new(RefusePanics, 0);
        let source = CancelSource::new();
        let token = source.token();
        let mut request = Step::new(object.acquire(1).cancel_on(&token));
        assert_eq!(panic_of(|| request.poll().is_pending()), "refuse");
        drop(request);
        assert_eq!(token.registrations(), 0, "a dropped request is still registered");
        churn();
        source.cancel();
    });
}

#[test]
fn a_wait_whose_policy_panics_as_it_queues_leaves_its_token() {
    in_its_own_process(|| {
        let object = Synchronizer::new(RefusePanics, 0);
        let source = CancelSource::new();
        let token = source.token();
        assert_eq!(panic_of(|| object.acquire(1).cancel_on(&token).wait().is_ok()), "refuse");
        assert_eq!(token.registrations(), 0, "a dead stack frame is still registered");
        source.cancel();
    });
}

// 2. `lane` is asked again when a request leaves, and may say something else.
static LANE: AtomicUsize = AtomicUsize::new(0);
units!(LaneChanges {
    type Refusal = Infallible;
    const LANES: usize = 2;
    fn acquire(&self, state: u64, ask: u32) -> Option<u64> { take(state, ask) }
    fn undo(&self, ask: u32) -> Option<u32> { Some(ask) }
    fn lane(&self, _: u32) -> usize { LANE.load(SeqCst) }
});

#[test]
fn a_lane_that_changes_leaves_no_dangling_waiter() {
    in_its_own_process(|| {
        let object = Synchronizer::new(LaneChanges, 0);
        let request = Step::queued(object.acquire(1));
        LANE.store(1, SeqCst);
        drop(request);
        assert_eq!(object.waiters_in(0), 0, "the lane still has a request that was dropped");
        churn();
        LANE.store(0, SeqCst);
        let mut next = Step::queued(object.acquire(1));
        object.release(1).unwrap();
        drop(next.expect_ready());
    });
}

// 3. `lane` panics: as the request queues, and as it leaves.
static LANE_PANICS: AtomicBool = AtomicBool::new(false);
units!(LanePanics {
    type Refusal = Infallible;
    const LANES: usize = 2;
    fn acquire(&self, state: u64, ask: u32) -> Option<u64> { take(state, ask) }
    fn undo(&self, ask: u32) -> Option<u32> { Some(ask) }
    fn lane(&self, _: u32) -> usize {
        assert!(!LANE_PANICS.load(SeqCst), "lane");
        0
    }
});

#[test]
fn a_lane_that_panics_as_a_request_queues_queues_nothing() {
    in_its_own_process(|| {
        let object = Synchronizer::new(LanePanics, 0);
        let first = Step::queued(object.acquire(1));
        let mut second = Step::new(object.acquire(1));
        LANE_PANICS.store(true, SeqCst);
        assert_eq!(panic_of(|| second.poll().is_pending()), "lane");
        LANE_PANICS.store(false, SeqCst);
        drop(second);
        assert_eq!(object.waiters(), 1);
        drop(first);
        assert_eq!(object.waiters(), 0);
    });
}

#[test]
fn a_lane_that_panics_as_a_request_leaves_leaves_no_dangling_waiter() {
    in_its_own_process(|| {
        let object = Synchronizer::new(LanePanics, 0);
        let first = Step::queued(object.acquire(1));
        LANE_PANICS.store(true, SeqCst);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(first)));
        LANE_PANICS.store(false, SeqCst);
        churn();
        assert_eq!(object.waiters(), 0, "the queue still has a request that was dropped");
        let second = Step::queued(object.acquire(1));
        drop(second);
    });
}

#[test]
fn a_lane_that_panics_does_not_end_the_timer() {
    in_its_own_process(|| {
        let object = Synchronizer::new(LanePanics, 0);
        let _first = Step::queued(object.acquire(1).timeout(Duration::from_millis(20)));
        LANE_PANICS.store(true, SeqCst);
        let_limits_pass(Duration::from_millis(40));
        LANE_PANICS.store(false, SeqCst);
        let other = Semaphore::new(0);
        let mut bounded = Step::queued(other.acquire(1).timeout(Duration::from_millis(20)));
        eventually("the limit of an unrelated request passes", || other.waiters() == 0);
        assert_eq!(bounded.expect_ready().unwrap_err(), WaitError::TimedOut);
    });
}

// 4. `next_lane` panics in the second round of the grant loop: the one that was granted in the
// first round is still "looked at".
static NEXT_LANE_SLOW: AtomicBool = AtomicBool::new(false);
units!(NextLanePanics {
    type Refusal = Infallible;
    const LANES: usize = 2;
    fn acquire(&self, state: u64, ask: u32) -> Option<u64> { take(state, ask) }
    fn undo(&self, ask: u32) -> Option<u32> { Some(ask) }
    fn next_lane(&self, state: u64, _: Option<u32>, waiting: Lanes) -> usize {
        if state == 1 {
            if NEXT_LANE_SLOW.load(SeqCst) {
                thread::sleep(Duration::from_millis(200));
            }
            panic!("next_lane");
        }
        waiting.first()
    }
});

#[test]
fn a_next_lane_that_panics_takes_no_grant_away() {
    let object = Synchronizer::new(NextLanePanics, 0);
    let mut first = Step::queued(object.acquire(1));
    let second = Step::queued(object.acquire(1));
    object.release(2).unwrap();
    let held = first.expect_ready();
    drop(second);
    drop(held);
    assert_eq!(object.state(), 2);
}

#[test]
fn a_next_lane_that_panics_does_not_touch_a_thread_that_has_gone() {
    in_its_own_process(|| {
        NEXT_LANE_SLOW.store(true, SeqCst);
        let object = Arc::new(Synchronizer::new(NextLanePanics, 0));
        let there = Arc::clone(&object);
        let waiting = thread::spawn(move || {
            // At its limit it looks for itself, and finds that it was served.
            there.acquire_owned(1).timeout(Duration::from_millis(100)).wait().unwrap().forget();
            // The frame in which it waited is used for something else, until the policy panics.
            for _ in 0..40 {
                scribble(20);
                thread::sleep(Duration::from_millis(10));
            }
        });
        eventually("the thread waits", || object.waiters() == 1);
        let _second = Step::queued(object.acquire(1));
        object.release(2).unwrap();
        waiting.join().unwrap();
    });
}

// 5. `undo` panics while one request is granted: the others keep their place and their count.
units!(UndoPanics {
    type Refusal = Infallible;
    fn acquire(&self, state: u64, ask: u32) -> Option<u64> { take(state, ask) }
    fn undo(&self, ask: u32) -> Option<u32> {
        assert!(ask != 7, "undo");
        Some(ask)
    }
});

#[test]
fn an_undo_that_panics_hurts_nobody_else() {
    in_its_own_process(|| {
        let object = crate::support::patient(Synchronizer::new(UndoPanics, 0));
        let mut first = Step::queued(object.acquire(7));
        let mut second = Step::queued(object.acquire(1));
        let third = Step::queued(object.acquire(20));
        object.release(7).unwrap();
        panic_of(|| first.poll().is_ready());
        drop(first);
        assert_eq!(object.waiters_in(0), object.waiters());
        object.release(1).unwrap();
        drop(second.expect_ready());
        assert_eq!(object.waiters(), 1);
        drop(third);
    });
}

// 6. States with the bits that belong to the framework.
units!(HighBits {
    type Refusal = Infallible;
    fn acquire(&self, state: u64, _: u32) -> Option<u64> { (state > 0).then_some(u64::MAX) }
    fn undo(&self, ask: u32) -> Option<u32> { Some(ask) }
});

#[test]
fn a_state_that_does_not_fit_does_not_lock_the_object_for_good() {
    in_its_own_process(|| {
        let object = Synchronizer::new(HighBits, 0);
        let mut request = Step::queued(object.acquire(1));
        let _ = object.release(1);
        let _ = request.poll();
        assert_eq!(object.waiters(), 0);
    });
}

// 7. `barges` panics: it is asked when the lock is released.
static BARGES_PANICS: AtomicBool = AtomicBool::new(false);
units!(BargesPanics {
    type Refusal = Infallible;
    fn acquire(&self, state: u64, ask: u32) -> Option<u64> { take(state, ask) }
    fn undo(&self, ask: u32) -> Option<u32> { Some(ask) }
    fn barges(&self, _: u64) -> bool {
        assert!(!BARGES_PANICS.load(SeqCst), "barges");
        false
    }
});

#[test]
fn a_barges_that_panics_does_not_lock_the_object_for_good() {
    in_its_own_process(|| {
        let object = Synchronizer::new(BargesPanics, 0);
        let first = Step::queued(object.acquire(1));
        BARGES_PANICS.store(true, SeqCst);
        let _ = std::panic::catch_unwind(|| object.waiters());
        BARGES_PANICS.store(false, SeqCst);
        assert_eq!(object.waiters(), 1);
        drop(first);
    });
}

// 8. `acquire` panics when a dormant request comes back: it must not be polled into a loop.
static ACQUIRE_PANICS: AtomicBool = AtomicBool::new(false);
units!(AcquirePanics {
    type Refusal = Infallible;
    fn acquire(&self, state: u64, ask: u32) -> Option<u64> {
        assert!(!ACQUIRE_PANICS.load(SeqCst), "acquire");
        take(state, ask)
    }
    fn undo(&self, ask: u32) -> Option<u32> { Some(ask) }
});

#[test]
fn a_dormant_request_whose_policy_panics_can_be_polled_again() {
    in_its_own_process(|| {
        let object = Synchronizer::new(AcquirePanics, 0);
        object.set_patience(Duration::from_millis(2));
        let mut dormant = Step::queued(object.acquire(1));
        let next = Step::queued(object.acquire(1));
        object.release(1).unwrap();
        eventually("the grant is passed on", || next.wakes() == 1);
        ACQUIRE_PANICS.store(true, SeqCst);
        panic_of(|| dormant.poll().is_pending());
        ACQUIRE_PANICS.store(false, SeqCst);
        let _ =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| dormant.poll().is_pending()));
        drop(dormant);
    });
}

// 9. `release` panics as the watchdog takes a grant back: the watchdog must not stay "armed".
static RELEASE_PANICS: AtomicBool = AtomicBool::new(false);
#[derive(Clone, Copy, Debug)]
struct ReleasePanics;
impl Policy for ReleasePanics {
    type Ask = u32;
    type Give = u32;
    type Refusal = Infallible;
    type Misuse = Infallible;
    fn acquire(&self, state: u64, ask: u32) -> Option<u64> {
        take(state, ask)
    }
    fn release(&self, state: u64, give: u32) -> Result<u64, Infallible> {
        assert!(!RELEASE_PANICS.load(SeqCst), "release");
        Ok(state + u64::from(give))
    }
    fn undo(&self, ask: u32) -> Option<u32> {
        Some(ask)
    }
}

#[test]
fn a_release_that_panics_does_not_end_the_watchdog() {
    in_its_own_process(|| {
        let object = Synchronizer::new(ReleasePanics, 0);
        object.set_patience(Duration::from_millis(4));
        let first = Step::queued(object.acquire(1));
        let second = Step::queued(object.acquire(1));
        let third = Step::queued(object.acquire(1));
        object.release(1).unwrap();
        RELEASE_PANICS.store(true, SeqCst);
        eventually("the first goes dormant", || object.waiters() == 3);
        let_limits_pass(Duration::from_millis(20));
        RELEASE_PANICS.store(false, SeqCst);
        object.release(1).unwrap();
        eventually("the second is granted", || second.wakes() == 1);
        eventually("the second goes dormant, and the third is granted", || third.wakes() == 1);
        drop((first, second, third));
    });
}

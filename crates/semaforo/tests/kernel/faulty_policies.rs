//! Case M-20, and what `Policy` says about those who break its laws: wrong answers for them, no
//! memory errors, and nobody else is hurt.

use std::convert::Infallible;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{
    Bomb, LONG, Line, Step, Waiter, eventually, explodes, fire, in_every_arrangement,
    in_its_own_process, leaked, message_of, panic_of,
};
use semaforo::policy::Lanes;
use semaforo::{CancelSource, Policy, Synchronizer, WaitError};

/// One at a time, with a function that can be made to panic. Asks are names.
#[derive(Clone, Copy, Debug)]
struct Hooked {
    panics_in: &'static AtomicUsize,
}

mod hook {
    pub(crate) const NONE: usize = 0;
    pub(crate) const ACQUIRE: usize = 1;
    pub(crate) const RELEASE: usize = 2;
    pub(crate) const REFUSE: usize = 3;
    pub(crate) const LANE: usize = 4;
    /// When nothing is left to grant.
    pub(crate) const NEXT_LANE: usize = 5;
    pub(crate) const UNDO: usize = 6;
    pub(crate) const BARGES: usize = 7;
    pub(crate) const OVERTAKES: usize = 8;
    pub(crate) const EXPEL: usize = 9;
    /// Besides one of them: with a payload that panics when it is dropped.
    pub(crate) const EXPLODES: usize = 1 << 8;
    /// Besides one of them: with a payload that uses the object when it is dropped.
    pub(crate) const VISITS: usize = 1 << 9;
}

/// Whom the hook is about.
const BAD: u32 = 13;

impl Hooked {
    fn new() -> Self {
        Self { panics_in: leaked(AtomicUsize::new(hook::NONE)) }
    }

    fn arm(&self, hook: usize) {
        self.panics_in.store(hook, Ordering::SeqCst);
    }

    fn check(&self, hook: usize, name: u32) {
        let armed = self.panics_in.load(Ordering::SeqCst);
        if name == BAD && armed == hook | hook::EXPLODES {
            std::panic::panic_any(Bomb(3));
        }
        if name == BAD && armed == hook | hook::VISITS {
            std::panic::panic_any(Visits);
        }
        assert!(armed != hook || name != BAD, "the policy panicked");
    }
}

impl Policy for Hooked {
    type Ask = u32;
    type Give = ();
    type Refusal = Infallible;
    type Misuse = Infallible;

    const LANES: usize = 2;

    fn acquire(&self, free: u64, name: u32) -> Option<u64> {
        self.check(hook::ACQUIRE, name);
        free.checked_sub(1)
    }
    fn release(&self, free: u64, (): ()) -> Result<u64, Infallible> {
        self.check(hook::RELEASE, BAD);
        Ok(free + 1)
    }
    fn undo(&self, name: u32) -> Option<()> {
        self.check(hook::UNDO, name);
        Some(())
    }
    fn refuse(&self, _: u64, name: u32) -> Option<Infallible> {
        self.check(hook::REFUSE, name);
        None
    }
    fn expel(&self, _: u64) -> Option<Infallible> {
        self.check(hook::EXPEL, BAD);
        None
    }
    fn lane(&self, name: u32) -> usize {
        self.check(hook::LANE, name);
        0
    }
    fn next_lane(&self, free: u64, _: Option<()>, _: Lanes) -> usize {
        if free == 0 {
            self.check(hook::NEXT_LANE, BAD);
        }
        0
    }
    fn overtakes(&self, _: u64, name: u32) -> bool {
        self.check(hook::OVERTAKES, name);
        false
    }
    fn barges(&self, _: u64) -> bool {
        self.check(hook::BARGES, BAD);
        false
    }
}

fn hooked(state: u64) -> &'static Synchronizer<Hooked> {
    leaked(Synchronizer::new(Hooked::new(), state))
}

/// M-20
#[test]
fn a_policy_that_panics_over_a_queued_request_ends_that_one_only() {
    in_every_arrangement(|arrangement| {
        let object = hooked(0);
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, object);
        let bad = line.enter(object.acquire(BAD));
        let good = line.enter(object.acquire(1));
        let cancelled = line.enter(object.acquire(2).cancel_on(&stop.token()));
        object.policy().arm(hook::ACQUIRE);
        object.release(()).unwrap();
        assert_eq!((object.waiters(), object.state()), (1, 0));
        let panic = bad.join_or_panic().expect_err("its owner panics in turn");
        assert!(message_of(&*panic).contains("the policy panicked"));
        let held = good.join();
        fire(&stop, 1);
        assert_eq!(cancelled.join().unwrap_err(), WaitError::Cancelled);
        drop(held);
        assert_eq!((object.waiters(), object.state()), (0, 1));
    });
}

/// M-20: the request that panics has a token itself, which fires meanwhile.
#[test]
fn a_cancellation_beside_a_panic_is_not_lost() {
    let object = hooked(0);
    let stop = CancelSource::new();
    let mut bad = Step::queued(object.acquire(BAD).cancel_on(&stop.token()));
    object.policy().arm(hook::ACQUIRE);
    object.release(()).unwrap();
    stop.cancel();
    assert!(stop.is_cancelled());
    panic_of(|| drop(bad.poll()));
    drop(bad);
    assert_eq!(stop.token().registrations(), 0);
    assert_eq!((object.waiters(), object.state()), (0, 1));
}

/// M-20: at the first look the panic is the asker's own.
#[test]
fn a_policy_that_panics_at_the_first_look_queues_nothing() {
    in_every_arrangement(|arrangement| {
        for hook in [hook::ACQUIRE, hook::REFUSE] {
            let object = hooked(0);
            object.policy().arm(hook);
            let mut line = Line::new(arrangement, object);
            let panic = line.start(object.acquire(BAD)).join_or_panic().map(drop);
            assert!(message_of(&*panic.unwrap_err()).contains("the policy panicked"));
            assert_eq!(object.waiters(), 0, "hook {hook}");
            let good = line.enter(object.acquire(1));
            object.release(()).unwrap();
            drop(good.join());
            assert_eq!((object.state(), object.waiters()), (1, 0));
        }
    });
}

/// The lane is asked for when a request queues; a panic then must leave nothing half done, also
/// when it comes again while the request is dropped.
#[test]
fn a_policy_that_panics_over_the_lane_queues_nothing() {
    in_its_own_process(|| {
        let object = hooked(0);
        let mut before = Step::queued(object.acquire(1));
        object.policy().arm(hook::LANE);
        for _ in 0..2 {
            let mut bad = Step::new(object.acquire(BAD));
            panic_of(|| drop(bad.poll()));
            drop(bad);
            assert_eq!(object.waiters(), 1);
        }
        object.release(()).unwrap();
        drop(before.expect_ready());
        assert_eq!((object.state(), object.waiters()), (1, 0));
    });
}

#[test]
fn a_policy_that_panics_over_a_release_changes_nothing() {
    in_every_arrangement(|arrangement| {
        let object = hooked(0);
        let waiter = Line::new(arrangement, object).enter(object.acquire(1));
        object.policy().arm(hook::RELEASE);
        assert_eq!(panic_of(|| object.release(())), "the policy panicked");
        assert_eq!((object.state(), object.waiters()), (0, 1));
        object.policy().arm(hook::NONE);
        object.release(()).unwrap();
        drop(waiter.join());
        assert_eq!(object.state(), 1);
    });
}

/// Whether to expel is asked of those who cannot be granted, so whoever was granted is safe.
#[test]
fn a_policy_that_panics_over_expelling_ends_only_those_it_looks_at() {
    in_its_own_process(|| {
        let object = hooked(0);
        let mut first = Step::queued(object.acquire(1));
        let second = Step::queued(object.acquire(2));
        object.policy().arm(hook::EXPEL);
        let _ = std::panic::catch_unwind(|| object.release(()));
        object.policy().arm(hook::NONE);
        drop(second);
        drop(first.expect_ready());
        assert_eq!((object.state(), object.waiters()), (1, 0));
        drop(object.acquire(3).wait());
    });
}

/// Who was granted before the panic has nothing to do with it.
#[test]
fn a_policy_that_panics_over_the_next_lane_leaves_the_last_grant_alone() {
    let object = hooked(0);
    let mut first = Step::queued(object.acquire(1));
    let mut second = Step::queued(object.acquire(2));
    object.policy().arm(hook::NEXT_LANE);
    // The first look grants, the second one panics.
    let _ = std::panic::catch_unwind(|| object.release(()));
    object.policy().arm(hook::NONE);
    drop(first.expect_ready());
    drop(second.expect_ready());
    assert_eq!((object.state(), object.waiters()), (1, 0));
}

/// The same with threads, one of which may be gone when the panic comes: a memory error if its
/// waiter were touched.
#[test]
fn a_policy_that_panics_over_the_next_lane_touches_no_thread_that_has_left() {
    in_its_own_process(|| {
        for _ in 0..200 {
            let object = hooked(0);
            let first = Waiter::on_a_thread(|| object.acquire(1).wait().forget());
            crate::support::until_queued(object, 1);
            let mut second = Step::queued(object.acquire(2));
            object.policy().arm(hook::NEXT_LANE);
            let _ = std::panic::catch_unwind(|| object.release(()));
            object.policy().arm(hook::NONE);
            first.join();
            object.release(()).unwrap();
            drop(second.expect_ready());
        }
    });
}

/// Whether a policy barges is asked at many places, also while the lock is being let go.
#[test]
fn a_policy_that_panics_over_barging_locks_nobody_out() {
    in_its_own_process(|| {
        let object = hooked(0);
        let mut waiter = Step::queued(object.acquire(1));
        object.policy().arm(hook::BARGES);
        let _ = std::panic::catch_unwind(|| object.waiters());
        let _ = std::panic::catch_unwind(|| drop(Step::new(object.acquire(2)).poll()));
        object.policy().arm(hook::NONE);
        assert_eq!(object.waiters(), 1);
        object.release(()).unwrap();
        drop(waiter.expect_ready());
    });
}

#[test]
fn a_policy_that_panics_over_overtaking_hurts_only_the_asker() {
    in_its_own_process(|| {
        let object = hooked(0);
        let mut waiter = Step::queued(object.acquire(1));
        object.policy().arm(hook::OVERTAKES);
        let mut bad = Step::new(object.acquire(BAD));
        panic_of(|| drop(bad.poll()));
        panic_of(|| object.try_acquire(BAD).map(drop));
        drop(bad);
        object.release(()).unwrap();
        drop(waiter.expect_ready());
        assert_eq!((object.state(), object.waiters()), (1, 0));
    });
}

#[test]
fn a_policy_that_panics_over_an_undo_hurts_nobody_else() {
    in_its_own_process(|| {
        let object = hooked(0);
        let bad = Step::queued(object.acquire(BAD));
        let mut good = Step::queued(object.acquire(1));
        object.release(()).unwrap();
        object.policy().arm(hook::UNDO);
        panic_of(|| drop(bad));
        object.policy().arm(hook::NONE);
        object.release(()).unwrap();
        drop(good.expect_ready());
        assert_eq!(object.waiters(), 0);
    });
}

/// Payloads that panic when they are dropped, where the crate catches a policy's panic.
#[test]
fn a_policy_whose_payloads_panic_hurts_nobody_else() {
    in_its_own_process(|| {
        // In the grant loop: both bad ones are ended, and the next one has it.
        let object = hooked(0);
        let mut bad = [(); 2].map(|()| Step::queued(object.acquire(BAD)));
        let mut good = Step::queued(object.acquire(1));
        object.policy().arm(hook::ACQUIRE | hook::EXPLODES);
        assert!(!explodes(|| _ = object.release(()).unwrap()));
        assert_eq!((bad[0].wakes(), bad[1].wakes(), good.wakes()), (1, 1, 1));
        assert!(bad.iter_mut().all(|bad| explodes(|| drop(bad.poll()))));
        drop(good.expect_ready());
        assert_eq!((object.state(), object.waiters()), (1, 0));

        // Over the lanes, where no request is to blame.
        let object = hooked(0);
        let mut first = Step::queued(object.acquire(1));
        let mut second = Step::queued(object.acquire(2));
        object.policy().arm(hook::NEXT_LANE | hook::EXPLODES);
        let exploded = explodes(|| _ = object.release(()).unwrap());
        object.policy().arm(hook::NONE);
        assert!(!exploded, "what other panics over the lanes do not");
        assert_eq!((first.wakes(), object.waiters()), (1, 1));
        drop(first.expect_ready());
        drop(second.expect_ready());
        assert_eq!((object.state(), object.waiters()), (1, 0));

        // In a tick: the timer's thread and the watchdog go on.
        let object = hooked(0);
        object.set_patience(Duration::from_millis(4));
        let bad = Step::queued(object.acquire(BAD));
        let (_unpolled, next) = (Step::queued(object.acquire(1)), Step::queued(object.acquire(2)));
        object.policy().arm(hook::UNDO | hook::EXPLODES);
        object.release(()).unwrap();
        let timed = Step::queued(hooked(0).acquire(1).timeout(Duration::from_millis(20)));
        eventually("the timer goes on", || timed.wakes() == 1);
        object.policy().arm(hook::NONE);
        object.release(()).unwrap();
        eventually("the watchdog goes on", || next.wakes() == 1);
        drop(bad);
    });
}

/// The object that a payload of [`hook::VISITS`] uses when it is dropped, and how many were.
static VISITED: OnceLock<&'static Synchronizer<Hooked>> = OnceLock::new();
static VISITS: AtomicUsize = AtomicUsize::new(0);

struct Visits;

impl Drop for Visits {
    fn drop(&mut self) {
        let waiters = VISITED.get().map_or(0, |object| object.waiters());
        assert!(waiters <= 2);
        VISITS.fetch_add(1, Ordering::SeqCst);
    }
}

/// What a policy has panicked with is dropped when the object is not locked: its `drop` may use it.
#[test]
fn payloads_may_use_the_object() {
    in_its_own_process(|| {
        let object = *VISITED.get_or_init(|| hooked(0));
        let mut bad = Step::queued(object.acquire(BAD));
        let mut good = Step::queued(object.acquire(1));
        object.policy().arm(hook::ACQUIRE | hook::VISITS);
        let release = Waiter::on_a_thread(|| _ = object.release(()).unwrap());
        eventually("the release returns", || release.is_done());
        assert_eq!((VISITS.load(Ordering::SeqCst), bad.wakes(), good.wakes()), (1, 1, 1));
        panic_of(|| drop(bad.poll()));
        drop(good.expect_ready());
        assert_eq!((object.state(), object.waiters()), (1, 0));

        // In a tick.
        object.policy().arm(hook::NONE);
        object.set_patience(Duration::from_millis(4));
        let held = object.acquire(1).wait();
        let unpolled = Step::queued(object.acquire(BAD));
        let next = Step::queued(object.acquire(2));
        drop(held);
        object.policy().arm(hook::UNDO | hook::VISITS);
        eventually("the payload is dropped", || VISITS.load(Ordering::SeqCst) > 1);
        object.policy().arm(hook::NONE);
        object.release(()).unwrap();
        eventually("the watchdog goes on", || next.wakes() == 1);
        drop(unpolled);
    });
}

/// A policy whose lane for the same ask changes.
#[derive(Clone, Copy, Debug)]
struct Fickle {
    lane: &'static AtomicUsize,
}

impl Policy for Fickle {
    type Ask = ();
    type Give = ();
    type Refusal = Infallible;
    type Misuse = Infallible;

    const LANES: usize = 2;

    fn acquire(&self, free: u64, (): ()) -> Option<u64> {
        free.checked_sub(1)
    }
    fn release(&self, free: u64, (): ()) -> Result<u64, Infallible> {
        Ok(free + 1)
    }
    fn undo(&self, (): ()) -> Option<()> {
        Some(())
    }
    fn lane(&self, (): ()) -> usize {
        self.lane.load(Ordering::SeqCst)
    }
}

/// Were the lane asked for again, the request would be taken off a list on which it is not, and the
/// right list would go on pointing to it.
#[test]
fn a_lane_that_changes_corrupts_no_list() {
    in_its_own_process(|| {
        let lane = leaked(AtomicUsize::new(0));
        let object = leaked(Synchronizer::new(Fickle { lane }, 0));
        let first = Step::queued(object.acquire(()));
        lane.store(1, Ordering::SeqCst);
        let second = Step::queued(object.acquire(()));
        drop(first);
        assert_eq!((object.waiters_in(0), object.waiters_in(1), object.waiters()), (0, 1, 1));
        lane.store(0, Ordering::SeqCst);
        drop(second);
        assert_eq!((object.waiters_in(0), object.waiters_in(1), object.waiters()), (0, 0, 0));
        let mut third = Step::queued(object.acquire(()));
        object.release(()).unwrap();
        drop(third.expect_ready());
    });
}

/// A lane that does not exist is the last one.
#[test]
fn a_lane_out_of_range_is_kept_in_range() {
    let lane = leaked(AtomicUsize::new(usize::MAX));
    let object = Synchronizer::new(Fickle { lane }, 0);
    let mut waiter = Step::queued(object.acquire(()));
    assert_eq!(object.waiters_in(1), 1);
    object.release(()).unwrap();
    // `next_lane` says the first lane in which somebody waits, so it is found.
    drop(waiter.expect_ready());
}

/// A policy that returns whatever state it is told to.
#[derive(Clone, Copy, Debug)]
struct Unbounded {
    state: &'static AtomicU64,
}

impl Policy for Unbounded {
    type Ask = ();
    type Give = ();
    type Refusal = Infallible;
    type Misuse = Infallible;

    fn acquire(&self, _: u64, (): ()) -> Option<u64> {
        let state = self.state.load(Ordering::SeqCst);
        (state != 0).then_some(state)
    }
    fn release(&self, _: u64, (): ()) -> Result<u64, Infallible> {
        Ok(self.state.load(Ordering::SeqCst))
    }
    fn undo(&self, (): ()) -> Option<()> {
        None
    }
}

/// Bits above the 61 that a policy has are cut off, not taken for the framework's own.
#[test]
fn a_state_that_does_not_fit_is_cut_off() {
    in_its_own_process(|| {
        const STATE: u64 = (1 << semaforo::policy::STATE_BITS) - 1;
        for too_large in [u64::MAX, 1 << 63, 1 << 62, 1 << 61] {
            let state = leaked(AtomicU64::new(too_large));
            let object = Synchronizer::new(Unbounded { state }, 0);
            drop(object.acquire(()).wait());
            assert_eq!(object.state(), too_large & STATE);
            state.store(0, Ordering::SeqCst);
            let mut waiter = Step::queued(object.acquire(()));
            state.store(too_large, Ordering::SeqCst);
            object.release(()).unwrap();
            drop(waiter.expect_ready());
            assert_eq!((object.state(), object.waiters()), (too_large & STATE, 0));
            drop(object.acquire(()).wait());
            drop(object.try_acquire(()));
        }
    });
}

#[test]
fn an_undo_that_panics_in_a_tick_does_not_end_the_watchdog() {
    in_its_own_process(|| {
        let policy = Hooked::new();
        let object = Synchronizer::new(policy, 0);
        object.set_patience(Duration::from_millis(4));
        // The first two are granted, and taken back in one tick; the policy panics over the second.
        let asks = [1, BAD, 3, 4, 5];
        let waiting: Vec<_> = asks.map(|name| Step::queued(object.acquire(name))).into();
        policy.arm(hook::UNDO);
        object.release(()).unwrap();
        object.release(()).unwrap();
        let granted = |waiter: usize| eventually("granted", || waiting[waiter].wakes() == 1);
        // One unit is lost with the panic, the other goes from one to the next.
        (0..5).for_each(granted);
    });
}

#[test]
fn a_request_with_a_token_can_be_polled_again_after_a_panic_of_the_policy() {
    let policy = Hooked::new();
    let object = Synchronizer::new(policy, 0);
    object.set_patience(Duration::from_millis(50));
    let stop = CancelSource::new();
    let mut request = Step::new(object.acquire(BAD).cancel_on(&stop.token()));
    let mut limited = Step::new(object.acquire(BAD).timeout(LONG));
    policy.arm(hook::REFUSE);
    panic_of(|| request.poll().is_ready());
    panic_of(|| limited.poll().is_ready());
    assert_eq!(stop.token().registrations(), 0);
    policy.arm(hook::NONE);
    request.expect_pending();
    limited.expect_pending();
    assert_eq!((object.waiters(), stop.token().registrations()), (2, 1));
    stop.cancel();
    assert_eq!(request.expect_ready().unwrap_err(), WaitError::Cancelled);
    object.release(()).unwrap();
    drop(limited.expect_ready().unwrap());
}

//! Cases CT: cancellation sources and tokens.

use std::time::{Duration, Instant};

use crate::support::{
    LONG, Line, SHORT, Step, Waiter, eventually, fire, in_every_arrangement, in_its_own_process,
    leaked, until_queued,
};
use semaforo::{CancelSource, CancelToken, Latch, Semaphore, WaitError};

/// CT-01
#[test]
fn firing_wakes_every_wait_on_the_token_once() {
    let stop = CancelSource::new();
    let token = stop.token();
    let mut waits: Vec<_> = (0..3).map(|_| Step::queued(token.cancelled())).collect();
    stop.cancel();
    stop.cancel();
    for wait in &mut waits {
        assert_eq!(wait.wakes(), 1);
        wait.expect_ready();
    }
    Step::new(token.cancelled()).expect_ready();
    assert!(stop.is_cancelled() && token.is_cancelled());
}

/// CT-01
#[test]
fn firing_ends_every_wait_with_the_token() {
    in_every_arrangement(|arrangement| {
        let stop = CancelSource::new();
        let token = leaked(stop.token());
        let latch = leaked(Latch::new(1));
        let mut line = Line::new(arrangement, token);
        let direct = [line.enter(token.cancelled()), line.enter(token.cancelled())];
        let through = [
            line.enter(latch.opened().cancel_on(token)),
            line.enter(latch.opened().cancel_on(token).timeout(LONG)),
        ];
        // Who waits with a token is seen there first.
        until_queued(latch, 2);
        assert_eq!((token.registrations(), latch.waiters()), (4, 2));
        stop.cancel();
        assert_eq!((token.registrations(), latch.waiters()), (0, 0));
        stop.cancel();
        direct.into_iter().for_each(Waiter::join);
        assert_eq!(through.map(Waiter::join), [Err(WaitError::Cancelled); 2]);
        line.start(token.cancelled()).join();
    });
}

/// CT-01: waiting for a token is a request like any other.
#[test]
fn a_wait_for_a_token_has_limits_of_its_own() {
    in_every_arrangement(|arrangement| {
        let (first, second) = (CancelSource::new(), CancelSource::new());
        let token = leaked(first.token());
        let mut line = Line::new(arrangement, token);
        let timed = line.start(token.cancelled().timeout(SHORT)).join();
        assert_eq!(timed, Err(WaitError::TimedOut));
        let cancelled = line.enter(token.cancelled().cancel_on(&second.token()));
        fire(&second, 1);
        assert_eq!(cancelled.join(), Err(WaitError::Cancelled));
        assert!(!token.is_cancelled());
        assert_eq!(token.registrations(), 0);
    });
}

/// CT-02
#[test]
fn firing_a_parent_fires_all_descendants() {
    in_every_arrangement(|arrangement| {
        let root = CancelSource::new();
        let children = [root.token().child(), root.token().child()];
        let grandchild = children[0].token().child();
        let latch = leaked(Latch::new(1));
        let mut line = Line::new(arrangement, latch);
        let waiter = line.enter(latch.opened().cancel_on(&grandchild.token()));
        until_queued(&grandchild.token(), 1);
        root.cancel_because("the end");
        assert!(children.iter().all(CancelSource::is_cancelled));
        assert!(grandchild.is_cancelled());
        assert_eq!(latch.waiters(), 0);
        assert_eq!(waiter.join(), Err(WaitError::Cancelled));
        assert_eq!(grandchild.token().reason().as_deref(), Some("the end"));
    });
}

/// CT-02
#[test]
fn firing_a_child_leaves_parent_and_siblings_alone() {
    in_every_arrangement(|arrangement| {
        let root = CancelSource::new();
        let (child, sibling) = (root.token().child(), root.token().child());
        let latch = leaked(Latch::new(1));
        let mut line = Line::new(arrangement, latch);
        let of_root = line.enter(latch.opened().cancel_on(&root.token()));
        let of_child = line.enter(latch.opened().cancel_on(&child.token()));
        let of_sibling = line.enter(latch.opened().cancel_on(&sibling.token()));
        fire(&child, 1);
        assert!(!root.is_cancelled() && !sibling.is_cancelled());
        assert_eq!(latch.waiters(), 2);
        assert_eq!(of_child.join(), Err(WaitError::Cancelled));
        until_queued(&sibling.token(), 1);
        fire(&root, 2);
        assert_eq!(of_root.join(), Err(WaitError::Cancelled));
        assert_eq!(of_sibling.join(), Err(WaitError::Cancelled));
    });
}

/// CT-03
#[test]
fn a_child_of_a_fired_token_is_born_fired() {
    let root = CancelSource::new();
    root.cancel_because("over");
    let child = root.token().child();
    assert!(child.is_cancelled());
    assert_eq!(child.token().reason().as_deref(), Some("over"));
    assert!(CancelToken::any([&CancelSource::new().token(), &root.token()]).is_cancelled());
    assert_eq!(root.token().registrations(), 0);
}

/// CT-03
#[test]
fn a_grandchild_follows_the_root_when_the_middle_is_gone() {
    let root = CancelSource::new();
    let grandchild = {
        let child = root.token().child();
        child.token().child()
    };
    assert!(!grandchild.is_cancelled());
    root.cancel();
    assert!(grandchild.is_cancelled());
}

/// CT-04
#[test]
fn dropping_tokens_in_any_order_fires_nothing_and_leaves_nothing() {
    for order in 0..6 {
        let root = CancelSource::new();
        let root_token = root.token();
        let child = root_token.child();
        let grandchild = child.token().child();
        assert_eq!(root_token.registrations(), 1);
        let watch = [root_token.clone(), child.token(), grandchild.token()];
        let mut sources = [Some(root), Some(child), Some(grandchild)];
        let first = order / 2;
        for offset in [0, 1 + order % 2, 2 - order % 2] {
            sources[(first + offset) % 3] = None;
            assert!(watch.iter().all(|token| !token.is_cancelled()));
        }
        drop(watch);
        assert_eq!(root_token.registrations(), 0, "order {order}");
    }
}

/// CT-05
#[test]
fn a_long_lived_token_keeps_no_trace_of_waits_that_ended() {
    let stop = CancelSource::new();
    let token = stop.token();
    let semaphore = Semaphore::new(0);
    for round in 0..3_000 {
        let mut step = Step::queued(semaphore.acquire(1).cancel_on(&token).timeout(LONG));
        assert_eq!(token.registrations(), 1);
        match round % 3 {
            0 => {
                semaphore.release(1).unwrap();
                step.expect_ready().unwrap().forget();
            }
            1 => drop(step),
            _ => {
                let timed = semaphore.acquire(1).cancel_on(&token).timeout(Duration::from_nanos(1));
                assert_eq!(timed.wait().unwrap_err(), WaitError::TimedOut);
            }
        }
    }
    assert_eq!((token.registrations(), semaphore.waiters()), (0, 0));
    let mut bystander = Step::queued(semaphore.acquire(1));
    stop.cancel();
    assert_eq!((bystander.wakes(), semaphore.waiters()), (0, 1));
    bystander.expect_pending();
}

/// CT-05: the waits are those of threads and of running tasks.
#[test]
fn a_long_lived_token_disturbs_nobody_afterwards() {
    in_every_arrangement(|arrangement| {
        let stop = CancelSource::new();
        let token = stop.token();
        let semaphore = leaked(Semaphore::new(0));
        let mut line = Line::new(arrangement, semaphore);
        for _ in 0..20 {
            let granted = line.enter(semaphore.acquire(1).cancel_on(&token));
            semaphore.release(1).unwrap();
            granted.join().unwrap().forget();
            let timed = semaphore.acquire(1).cancel_on(&token).timeout(Duration::from_millis(1));
            assert_eq!(line.start(timed).join().unwrap_err(), WaitError::TimedOut);
        }
        assert_eq!(token.registrations(), 0);
        let bystander = line.enter(semaphore.acquire(1));
        stop.cancel();
        assert_eq!(semaphore.waiters(), 1);
        semaphore.release(1).unwrap();
        drop(bystander.join().unwrap());
    });
}

#[test]
fn several_tokens_mean_the_first_of_them() {
    in_every_arrangement(|arrangement| {
        for fired in 0..4 {
            let latch = leaked(Latch::new(1));
            let stops = [(); 4].map(|()| CancelSource::new());
            let request = stops[1..]
                .iter()
                .fold(latch.opened().cancel_on(&stops[0].token()), |request, stop| {
                    request.cancel_on(&stop.token())
                });
            let waiter = Line::new(arrangement, latch).enter(request);
            fire(&stops[fired], 1);
            assert_eq!(latch.waiters(), 0);
            assert_eq!(waiter.join(), Err(WaitError::Cancelled));
            assert!(stops.iter().all(|stop| stop.token().registrations() == 0));
        }
    });
}

#[test]
fn the_same_token_may_be_given_twice() {
    let (latch, stop) = (Latch::new(1), CancelSource::new());
    let token = stop.token();
    let mut step = Step::queued(latch.opened().cancel_on(&token).cancel_on(&token));
    stop.cancel();
    assert_eq!((step.wakes(), latch.waiters()), (1, 0));
    assert_eq!(step.expect_ready(), Err(WaitError::Cancelled));
}

#[test]
fn a_source_fires_after_a_time() {
    in_every_arrangement(|arrangement| {
        let latch = leaked(Latch::new(1));
        let stop = CancelSource::new();
        let start = Instant::now();
        stop.cancel_after(LONG);
        stop.cancel_after(SHORT);
        let waiter = Line::new(arrangement, latch).start(latch.opened().cancel_on(&stop.token()));
        assert_eq!(waiter.join(), Err(WaitError::Cancelled));
        assert!(start.elapsed() >= SHORT);
        assert!(stop.is_cancelled());
    });
}

#[test]
fn a_delayed_source_can_be_put_off_fired_early_and_dropped() {
    let stop = CancelSource::new();
    stop.cancel_after(SHORT);
    stop.cancel_after(Duration::MAX);
    let early = CancelSource::new();
    early.cancel_after(SHORT);
    early.cancel_because("early");
    let dropped = CancelSource::new();
    dropped.cancel_after(SHORT);
    let child = dropped.token().child();
    drop(dropped);
    let now = CancelSource::new();
    now.cancel_after(Duration::ZERO);
    eventually("a delay of nothing", || now.is_cancelled());
    // The child keeps its parent, which has a delay, alive.
    eventually("the parent's delay", || child.is_cancelled());
    assert!(!stop.is_cancelled());
    assert_eq!(early.token().reason().as_deref(), Some("early"));
}

#[test]
fn the_first_reason_stands() {
    let stop = CancelSource::new();
    assert_eq!(stop.token().reason(), None);
    stop.cancel_because("first");
    stop.cancel_because("second");
    assert_eq!(stop.token().reason().as_deref(), Some("first"));
    let quiet = CancelSource::default();
    quiet.cancel();
    quiet.cancel_because("too late");
    assert_eq!(quiet.token().reason(), None);
    assert_eq!(format!("{stop:?}"), "CancelSource { cancelled: true }");
    assert_eq!(format!("{:?}", CancelSource::new().token()), "CancelToken { cancelled: false }");
}

#[test]
fn a_large_family_fires() {
    let root = CancelSource::new();
    let children: Vec<_> = (0..10_000).map(|_| root.token().child()).collect();
    assert_eq!(root.token().registrations(), 10_000);
    root.cancel();
    assert!(children.iter().all(CancelSource::is_cancelled));
}

/// A chain of descendants fires, and is dropped, without growing the stack.
#[test]
fn a_long_chain_of_children_fires_and_is_dropped() {
    in_its_own_process(|| {
        let root = CancelSource::new();
        let mut last = root.token().child();
        for _ in 0..100_000 {
            last = last.token().child();
        }
        root.cancel();
        assert!(last.is_cancelled());
        drop(root);
        drop(last);
    });
}

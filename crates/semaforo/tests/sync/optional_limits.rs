//! Limits that may be none: `timeout(None)` and its kind, and tokens that never fire.

use std::time::{Duration, Instant};

use semaforo::query::IntoParallel;
use semaforo::tasks::{Pool, Spawn, sleep};
use semaforo::{BlockingQueue, CancelSource, CancelToken, Condition, Mutex, Semaphore, WaitError};

use crate::support::{
    LONG, Line, SHORT, Step, Waiter, eventually, fire, in_every_arrangement, leaked, until_queued,
};

/// The limits of one wait, of which any may be missing.
#[derive(Clone, Copy)]
struct Wanted<'t> {
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    token: Option<&'t CancelToken>,
}

const NONE: Wanted<'static> = Wanted { timeout: None, deadline: None, token: None };

fn ended(semaphore: &Semaphore, wanted: Wanted<'_>) -> bool {
    let Wanted { timeout, deadline, token } = wanted;
    let first = semaphore.acquire(1).timeout(timeout).deadline(deadline).cancel_on(token).wait();
    let again = semaphore.acquire(1).cancel_on(token).deadline(deadline).timeout(timeout).wait();
    let once_more = semaphore.acquire(1).deadline(deadline).timeout(timeout).cancel_on(token);
    assert_eq!(first.is_err(), again.is_err());
    assert_eq!(first.is_err(), once_more.wait().is_err());
    first.is_err()
}

#[test]
fn a_limit_that_is_there_counts_and_one_that_is_not_does_not() {
    let fired = CancelSource::new();
    fired.cancel();
    let token = fired.token();
    let (open, shut) = (Semaphore::new(8), Semaphore::new(0));
    assert!(!ended(&open, NONE));
    assert!(ended(&shut, Wanted { timeout: Some(Duration::ZERO), ..NONE }));
    assert!(ended(&shut, Wanted { deadline: Some(Instant::now()), ..NONE }));
    assert!(ended(&shut, Wanted { token: Some(&token), ..NONE }));
    assert!(ended(&shut, Wanted { timeout: Some(SHORT), token: Some(&token), ..NONE }));
    let permit = shut.acquire(1).timeout(Some(SHORT)).timeout(None).wait();
    assert_eq!(permit.unwrap_err(), WaitError::TimedOut, "none does not take one away");
}

/// Without limits it waits, and yields what a bounded request yields.
#[test]
fn no_limit_waits_for_as_long_as_it_takes() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::new(0));
        let request = semaphore.acquire(1).timeout(None).deadline(None).cancel_on(None);
        let waiter = Line::new(arrangement, semaphore).enter(request);
        semaphore.release(1).unwrap();
        drop(waiter.join().unwrap());
    });
}

#[test]
fn the_limits_of_a_condition_may_be_none_too() {
    let lock = leaked(Mutex::new(0));
    let condition: &'static Condition = leaked(Condition::new());
    let waiter = Waiter::on_a_thread(move || {
        let guard = lock.lock().wait();
        let waited = condition.wait_while(guard, |value| *value == 0);
        let waited = waited.timeout(None).deadline(None).cancel_on(None).timeout(None);
        drop(waited.wait().unwrap());
        let guard = lock.lock().wait();
        let ended = condition.wait_while(guard, |value| *value == 1).timeout(Some(SHORT));
        ended.timeout(LONG).deadline(None).wait().unwrap_err().why
    });
    until_queued(condition, 1);
    let mut guard = lock.lock().wait();
    *guard = 1;
    assert!(condition.signal(&guard));
    drop(guard);
    assert_eq!(waiter.join(), WaitError::TimedOut);
}

/// What joins a task, and the token of a task.
#[test]
fn the_limits_of_tasks_may_be_none_too() {
    let fired = CancelSource::new();
    fired.cancel();
    let fired = fired.token();
    let pool = Pool::builder().threads(1).build().unwrap();
    let one = || pool.start().cancel_on(None).spawn(|| 1);
    assert_eq!(one().timeout(None).deadline(None).cancel_on(None).wait().unwrap(), 1);
    assert_eq!(one().deadline(None).wait().unwrap(), 1);
    assert_eq!(one().cancel_on(None).wait().unwrap(), 1);
    assert_eq!(pool.scope(|scope| scope.start().cancel_on(None).spawn(|| 2).wait()).unwrap(), 2);
    assert!(pool.start().cancel_on(Some(&fired)).spawn(|| 3).wait().is_err());

    let never = || pool.spawn_future(std::future::pending::<()>());
    let ends = [
        never().timeout(Some(Duration::ZERO)).wait(),
        never().deadline(Some(Instant::now())).wait(),
        never().cancel_on(Some(&fired)).wait(),
    ];
    let ends = ends.map(Result::unwrap_err);
    assert!(matches!(ends, [WaitError::TimedOut, WaitError::TimedOut, WaitError::Cancelled]));
    assert_eq!(sleep(Duration::ZERO).cancel_on(None).wait(), Ok(()));
    assert_eq!(sleep(LONG).cancel_on(Some(&fired)).wait(), Err(WaitError::Cancelled));
}

#[test]
fn the_limits_of_batches_and_items_may_be_none_too() {
    let fired = CancelSource::new();
    fired.cancel();
    let fired = fired.token();
    let queue = BlockingQueue::unbounded();
    let put = |items: std::ops::Range<u32>| items.for_each(|n| queue.try_put(n).unwrap());
    put(0..2);
    let batch = queue.take_batch(2, LONG).timeout(None).deadline(None).cancel_on(None);
    assert_eq!(batch.wait().unwrap(), [0, 1]);
    let batch =
        queue.take_batch(2, LONG).timeout(LONG).timeout(None).deadline(Some(Instant::now()));
    assert_eq!(batch.deadline(None).wait().unwrap_err(), WaitError::TimedOut);
    let batch = queue.take_batch(2, LONG).cancel_on(None).cancel_on(Some(&fired));
    assert_eq!(batch.wait().unwrap_err(), WaitError::Cancelled);

    put(0..3);
    let mut items = queue.items().timeout(None).deadline(None).cancel_on(None);
    assert_eq!((items.next(), items.next()), (Some(0), Some(1)));
    let mut items = queue.items().timeout(LONG).timeout(Some(Duration::ZERO)).timeout(None);
    assert_eq!((items.next(), items.next()), (Some(2), None));
    assert_eq!(items.ended_by(), Some(WaitError::TimedOut));
    let mut items = queue.items().deadline(None).cancel_on(Some(&fired)).cancel_on(None);
    assert_eq!(items.next(), None);
    assert_eq!(items.ended_by(), Some(WaitError::Cancelled));
}

/// Nothing is registered with a token that never fires, alone or beside another.
#[test]
fn a_token_that_never_fires_costs_nothing() {
    let never = CancelToken::never();
    let stop = CancelSource::new();
    let semaphore = Semaphore::new(0);
    let mut alone = Step::queued(semaphore.acquire(1).cancel_on(&never));
    let mut beside = Step::queued(semaphore.acquire(1).cancel_on(&never).cancel_on(&stop.token()));
    assert_eq!((never.registrations(), stop.token().registrations()), (0, 1));
    fire(&stop, 1);
    assert_eq!(beside.expect_ready().unwrap_err(), WaitError::Cancelled);
    alone.expect_pending();
    semaphore.release(1).unwrap();
    drop(alone.expect_ready().unwrap());
    assert!(!never.is_cancelled() && never.reason().is_none());
    assert_eq!(never.cancelled().timeout(SHORT).wait(), Err(WaitError::TimedOut));
}

/// Its children are sources like any other, and it adds nothing to others.
#[test]
fn children_of_a_token_that_never_fires_fire_by_themselves() {
    let child = CancelToken::never().child();
    let stop = CancelSource::new();
    let either = CancelToken::any([&CancelToken::never(), &stop.token()]);
    let neither = CancelToken::any([&CancelToken::never()]);
    assert!(!child.is_cancelled() && !either.is_cancelled());
    child.cancel();
    stop.cancel();
    assert!(child.is_cancelled() && either.is_cancelled() && !neither.is_cancelled());
    assert!(!CancelToken::never().is_cancelled());
}

/// A source can be a `static`; its clones and tokens are of the same cancellation, whichever came first.
#[test]
fn a_static_source() {
    static STOP: CancelSource = CancelSource::new();
    static LATER: CancelSource = CancelSource::new();
    assert!(!STOP.is_cancelled());
    assert_eq!(format!("{STOP:?}"), "CancelSource { cancelled: false }");
    let waiter = Waiter::on_a_thread(|| STOP.token().cancelled().wait());
    eventually("it waits", || STOP.token().registrations() == 1);
    let copy = STOP.clone();
    copy.cancel_because("the end");
    waiter.join();
    assert!(STOP.is_cancelled());
    assert_eq!(STOP.token().reason().as_deref(), Some("the end"));
    LATER.cancel();
    assert!(LATER.is_cancelled() && LATER.token().is_cancelled());
    let fresh = CancelSource::new();
    fresh.cancel_after(Duration::from_millis(1));
    eventually("it fires", || fresh.is_cancelled());
}

/// What is not a request itself takes them, too: batches, items, handles, tasks, sleeps and
/// queries.
#[test]
fn limits_may_be_none_wherever_there_are_limits() {
    let none: (Option<Duration>, Option<Instant>, Option<&CancelToken>) = (None, None, None);
    let (timeout, deadline, token) = none;
    let queue = leaked(BlockingQueue::from_iter([1, 2, 3]));
    let batch = queue.take_batch(1, Duration::ZERO);
    assert_eq!(batch.timeout(timeout).deadline(deadline).cancel_on(token).wait(), Ok(vec![1]));
    let batch = queue.take_batch(1, Duration::ZERO).timeout(SHORT).timeout(timeout);
    assert_eq!(batch.wait(), Ok(vec![2]));
    let mut items = queue.items().timeout(timeout).deadline(deadline).cancel_on(token);
    assert_eq!(items.next(), Some(3));
    let mut items = queue.items().timeout(SHORT).timeout(timeout).deadline(deadline);
    assert_eq!((items.next(), items.ended_by()), (None, Some(WaitError::TimedOut)));
    let batch = queue.take_batch(1, Duration::ZERO).deadline(Instant::now()).deadline(deadline);
    assert_eq!(batch.cancel_on(token).wait(), Err(WaitError::TimedOut));

    let pool = Pool::builder().threads(1).build().unwrap();
    let task = pool.start().cancel_on(token).spawn(|| 1);
    assert!(matches!(task.timeout(timeout).deadline(deadline).cancel_on(token).wait(), Ok(1)));
    assert!(matches!(pool.spawn(|| 2).deadline(deadline).wait(), Ok(2)));
    assert!(matches!(pool.spawn(|| 3).cancel_on(token).wait(), Ok(3)));
    let within = pool.scope(|scope| scope.start().cancel_on(token).spawn(|| 4).wait().unwrap());
    assert_eq!(within, 4);
    assert_eq!(sleep(Duration::ZERO).cancel_on(token).timeout(timeout).wait(), Ok(()));
    assert_eq!(vec![1, 2].into_parallel().with_cancel(token).sum::<i32>(), Ok(3));
}

//! Every transition that lets requests through, and wakers that panic, also with payloads that panic
//! when they are dropped: the counts are exact, all others are woken, and neither the thread nor the
//! timer nor a pool's worker is the worse for it.

use std::any::Any;
use std::future::Future;
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::support::{
    Bomb, Door, LIMIT, SHORT, Step, eventually, explodes, exploding_waker, in_its_own_process,
    leaked, panicking_waker, pool,
};
use semaforo::tasks::{Mode, Pool};
use semaforo::{
    AutoEvent, Barrier, BlockingQueue, CancelSource, Condition, Event, Exchanger, Latch, Mutex,
    OwnerKey, Phaser, Promise, ReentrantLock, ReentrantRwLock, RwLock, Semaphore, SynchronousQueue,
    TransferQueue,
};

/// What a request yields, to be dropped later.
type Output = Box<dyn Any>;
type Waiting = Pin<Box<dyn Future<Output = Output>>>;

/// Requests that wait, what lets all of them through, and what must be true when they have let go.
struct Transition {
    waiting: Vec<Waiting>,
    run: Box<dyn FnOnce()>,
    /// The wakers run on the thread that lets them through, and their panic comes out there.
    here: bool,
    settled: Box<dyn Fn() -> bool>,
}

impl Transition {
    fn new(
        waiting: Vec<Waiting>,
        run: impl FnOnce() + 'static,
        settled: impl Fn() -> bool + 'static,
    ) -> Self {
        Self { waiting, run: Box::new(run), here: true, settled: Box::new(settled) }
    }

    /// On the timer's thread, or a worker's.
    fn elsewhere(self) -> Self {
        Self { here: false, ..self }
    }

    /// The first half of those who wait (at least one) have bad wakers.
    fn run(self, name: &str, bad_waker: fn() -> Waker) {
        let mut waiting: Vec<_> = self.waiting.into_iter().map(Step::new).collect();
        let bad = waiting.len().div_ceil(2);
        for step in &mut waiting[..bad] {
            assert!(step.poll_with(&bad_waker()).is_pending(), "{name}: has to wait");
        }
        waiting[bad..].iter_mut().for_each(Step::expect_pending);
        let exploded = explodes(self.run);
        assert_eq!(exploded, self.here, "{name}: the panic comes out where it belongs");
        let all_woken = || waiting[bad..].iter().all(|step| step.wakes() == 1);
        if self.here {
            assert!(all_woken(), "{name}: not all were woken");
        } else {
            eventually(&format!("{name}: all are woken"), all_woken);
        }
        let outputs: Vec<_> = waiting.iter_mut().map(output_of).collect();
        drop(outputs);
        assert!((self.settled)(), "{name}: the counts are not exact");
    }
}

/// What it yields, now or soon: its own waker has told nobody.
fn output_of(step: &mut Step<Waiting>) -> Output {
    let end = Instant::now() + LIMIT;
    loop {
        if let Poll::Ready(output) = step.poll() {
            return output;
        }
        assert!(Instant::now() < end, "it was not let through");
        std::thread::yield_now();
    }
}

fn waiting<F: Future<Output: 'static> + 'static>(request: F) -> Waiting {
    Box::pin(async move { Box::new(request.await) as Output })
}

fn four<F: Future<Output: 'static> + 'static>(request: impl Fn() -> F) -> Vec<Waiting> {
    (0..4).map(|_| waiting(request())).collect()
}

/// What must go on: the next wake-up of this thread, the timer, and a pool's worker.
fn expect_all_well(pool: &Pool) {
    let semaphore = Semaphore::new(0);
    let mut next = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    assert_eq!(next.wakes(), 1, "this thread wakes");
    drop(next.expect_ready());
    let _permit = semaphore.try_acquire(1).expect("free");
    let timed = Step::queued(semaphore.acquire(1).timeout(Duration::from_millis(1)));
    eventually("the timer acts", || timed.wakes() == 1);
    assert_eq!(pool.spawn(|| 7).timeout(LIMIT).wait().unwrap(), 7);
}

type Named = (&'static str, fn() -> Transition);

/// Each of the transitions with each kind of bad waker.
fn in_every_way(transitions: &[Named]) {
    let pool = pool(Mode::Stealing, 1);
    for (name, transition) in transitions {
        for bad_waker in [panicking_waker, exploding_waker] {
            transition().run(name, bad_waker);
            expect_all_well(&pool);
        }
    }
}

/// A semaphore with so many permits, and four who want one each, behind `head`, which wants all and one
/// more.
fn behind_a_head<F>(head: impl FnOnce(&'static Semaphore) -> F) -> (&'static Semaphore, Step<F>)
where
    F: Future,
{
    let semaphore = leaked(Semaphore::new(4));
    (semaphore, Step::queued(head(semaphore)))
}

fn is_free(semaphore: &Semaphore) -> bool {
    (semaphore.available(), semaphore.held(), semaphore.waiters()) == (4, 0, 0)
}

#[test]
fn semaphores() {
    in_its_own_process(|| {
        in_every_way(&[
            ("a release", || {
                let semaphore = leaked(Semaphore::new(0));
                let release = || semaphore.release(4).unwrap();
                Transition::new(four(|| semaphore.acquire(1)), release, || is_free(semaphore))
            }),
            ("a permit that is dropped", || {
                let semaphore = leaked(Semaphore::new(4));
                let permit = semaphore.try_acquire(4).unwrap();
                let release = move || drop(permit);
                Transition::new(four(|| semaphore.acquire(1)), release, || is_free(semaphore))
            }),
            ("closing", || {
                let semaphore = leaked(Semaphore::new(0));
                let settled = || (semaphore.held(), semaphore.waiters()) == (0, 0);
                Transition::new(four(|| semaphore.acquire(1)), || semaphore.close(), settled)
            }),
            ("a head that is dropped", || {
                let (semaphore, head) = behind_a_head(|semaphore| semaphore.acquire(5));
                let leave = move || drop(head);
                Transition::new(four(|| semaphore.acquire(1)), leave, || is_free(semaphore))
            }),
            ("a head that is cancelled", || {
                let stop = leaked(CancelSource::new());
                let (semaphore, head) =
                    behind_a_head(|semaphore| semaphore.acquire(5).cancel_on(&stop.token()));
                let settled = move || is_free(semaphore) && head.wakes() == 1;
                Transition::new(four(|| semaphore.acquire(1)), || stop.cancel(), settled)
            }),
            ("a barging one", || {
                let semaphore = leaked(Semaphore::barging(0));
                let settled = || (semaphore.available(), semaphore.waiters()) == (1, 0);
                let release = || semaphore.release(1).unwrap();
                Transition::new(vec![waiting(semaphore.acquire(1))], release, settled)
            }),
        ]);
    });
}

#[test]
fn on_the_timers_thread() {
    in_its_own_process(|| {
        in_every_way(&[
            ("limits", || {
                let semaphore = leaked(Semaphore::new(0));
                let requests = four(|| semaphore.acquire(1).timeout(SHORT));
                Transition::new(requests, || (), || semaphore.waiters() == 0).elsewhere()
            }),
            ("a head whose time is up", || {
                let (semaphore, head) =
                    behind_a_head(|semaphore| semaphore.acquire(5).timeout(SHORT));
                let settled = move || is_free(semaphore) && head.wakes() == 1;
                Transition::new(four(|| semaphore.acquire(1)), || (), settled).elsewhere()
            }),
            ("a grant that is passed on", || {
                let semaphore = leaked(Semaphore::new(0));
                semaphore.set_patience(Duration::from_millis(4));
                let unpolled =
                    leaked(std::sync::Mutex::new(Some(Step::queued(semaphore.acquire(4)))));
                let release = || semaphore.release(4).unwrap();
                Transition::new(four(|| semaphore.acquire(1)), release, || {
                    drop(unpolled.lock().unwrap().take());
                    is_free(semaphore)
                })
                .elsewhere()
            }),
            ("an item that is passed on", || {
                let queue = leaked(TransferQueue::new());
                queue.set_patience(Duration::from_millis(4));
                let unpolled = leaked(std::sync::Mutex::new(Some(Step::queued(queue.take()))));
                let put = || queue.put(1).unwrap();
                Transition::new(vec![waiting(queue.take())], put, || {
                    drop(unpolled.lock().unwrap().take());
                    (queue.len(), queue.waiters()) == (0, 0)
                })
                .elsewhere()
            }),
            ("a token that fires by itself", || {
                let (semaphore, stop) = (leaked(Semaphore::new(0)), leaked(CancelSource::new()));
                let requests = four(|| semaphore.acquire(1).cancel_on(&stop.token()));
                let fire = || stop.cancel_after(Duration::from_millis(2));
                Transition::new(requests, fire, || semaphore.waiters() == 0).elsewhere()
            }),
        ]);
    });
}

#[test]
fn tokens() {
    in_its_own_process(|| {
        in_every_way(&[
            ("cancelling", || {
                let (semaphore, stop) = (leaked(Semaphore::new(0)), leaked(CancelSource::new()));
                let requests = four(|| semaphore.acquire(1).cancel_on(&stop.token()));
                let settled = || (semaphore.waiters(), stop.token().registrations()) == (0, 0);
                Transition::new(requests, || stop.cancel(), settled)
            }),
            ("cancelling a parent", || {
                let (latch, stop) = (leaked(Latch::new(1)), leaked(CancelSource::new()));
                let children = leaked([(); 4].map(|()| stop.token().child()));
                let requests =
                    children.iter().map(|child| waiting(latch.opened().cancel_on(&child.token())));
                let settled = || latch.waiters() == 0;
                Transition::new(requests.collect(), || stop.cancel(), settled)
            }),
            ("waiting for a token", || {
                let stop = leaked(CancelSource::new());
                let token = leaked(stop.token());
                let settled = || token.registrations() == 0;
                Transition::new(four(|| token.cancelled()), || stop.cancel(), settled)
            }),
        ]);
    });
}

#[test]
fn locks() {
    in_its_own_process(|| {
        in_every_way(&[
            ("a mutex", || {
                let lock = leaked(Mutex::new(()));
                let guard = lock.lock().wait();
                let settled = || (lock.is_locked(), lock.waiters()) == (false, 0);
                Transition::new(vec![waiting(lock.lock())], move || drop(guard), settled)
            }),
            ("a barging mutex", || {
                let lock = leaked(Mutex::barging(()));
                let guard = lock.lock().wait();
                let settled = || (lock.is_locked(), lock.waiters()) == (false, 0);
                Transition::new(vec![waiting(lock.lock())], move || drop(guard), settled)
            }),
            ("a re-entrant lock", || {
                let lock = leaked(ReentrantLock::new(()));
                let guard = lock.lock_as(&OwnerKey::new()).wait().unwrap();
                let request = waiting(lock.lock_as(&OwnerKey::new()));
                let settled = || (lock.holds(), lock.waiters()) == (0, 0);
                Transition::new(vec![request], move || drop(guard), settled)
            }),
            ("a writer", || {
                let lock = leaked(RwLock::new(()));
                let guard = lock.write().wait();
                let settled =
                    || (lock.readers(), lock.has_writer(), lock.waiters()) == (0, false, 0);
                Transition::new(four(|| lock.read()), move || drop(guard), settled)
            }),
            ("a writer that becomes a reader", || {
                let lock = leaked(RwLock::new(()));
                let guard = lock.write().wait();
                let settled =
                    || (lock.readers(), lock.has_writer(), lock.waiters()) == (0, false, 0);
                Transition::new(four(|| lock.read()), move || drop(guard.downgrade()), settled)
            }),
            ("a re-entrant writer", || {
                let lock = leaked(ReentrantRwLock::new(()));
                let guard = lock.write_as(&OwnerKey::new()).wait().unwrap();
                let requests = four(|| lock.read_as(&OwnerKey::new()));
                let settled = || (lock.readers(), lock.writes(), lock.waiters()) == (0, 0, 0);
                Transition::new(requests, move || drop(guard), settled)
            }),
            ("a re-entrant writer that becomes a reader", || {
                let lock = leaked(ReentrantRwLock::new(()));
                let guard = lock.write_as(&OwnerKey::new()).wait().unwrap();
                let requests = four(|| lock.read_as(&OwnerKey::new()));
                let settled = || (lock.readers(), lock.writes(), lock.waiters()) == (0, 0, 0);
                Transition::new(requests, move || drop(guard.downgrade()), settled)
            }),
            ("a wait on a condition", || {
                let (lock, condition) = (leaked(Mutex::new(())), leaked(Condition::new()));
                let guard = lock.lock().wait();
                let wait = move || drop(Step::queued(condition.wait(guard)));
                let settled = || (lock.is_locked(), condition.waiters()) == (false, 0);
                Transition::new(vec![waiting(lock.lock())], wait, settled)
            }),
            ("a signal", || {
                let (lock, condition) = (leaked(Mutex::new(())), leaked(Condition::new()));
                let request = waiting(condition.wait(lock.lock().wait()));
                let signal = || {
                    let guard = lock.lock().wait();
                    condition.signal(&guard);
                };
                let settled =
                    || (lock.is_locked(), lock.waiters(), condition.waiters()) == (false, 0, 0);
                Transition::new(vec![request], signal, settled)
            }),
            ("a broadcast", || {
                let (lock, condition) = (leaked(Mutex::new(())), leaked(Condition::new()));
                let request = waiting(condition.wait(lock.lock().wait()));
                let broadcast = || {
                    let guard = lock.lock().wait();
                    condition.broadcast(&guard);
                };
                let settled =
                    || (lock.is_locked(), lock.waiters(), condition.waiters()) == (false, 0, 0);
                Transition::new(vec![request], broadcast, settled)
            }),
            ("a signal and leave", || {
                let (lock, condition) = (leaked(Mutex::new(())), leaked(Condition::new()));
                let request = waiting(condition.wait(lock.lock().wait()));
                let signal = || _ = condition.signal_and_leave(lock.lock().wait());
                let settled =
                    || (lock.is_locked(), lock.waiters(), condition.waiters()) == (false, 0, 0);
                Transition::new(vec![request], signal, settled)
            }),
            ("a signal that is passed on", || {
                let (lock, condition) = (leaked(Mutex::new(())), leaked(Condition::new()));
                let first = Step::queued(condition.wait(lock.lock().wait()));
                let request = waiting(condition.wait(lock.lock().wait()));
                let pass_on = || {
                    condition.signal(&lock.lock().wait());
                    drop(first);
                };
                let settled =
                    || (lock.is_locked(), lock.waiters(), condition.waiters()) == (false, 0, 0);
                Transition::new(vec![request], pass_on, settled)
            }),
            ("an urgent signal", || {
                let (lock, condition) = (leaked(Mutex::new(())), leaked(Condition::new()));
                let request = waiting(condition.wait(lock.lock().wait()));
                let signal = || drop(Step::new(condition.signal_urgent(lock.lock().wait())).poll());
                let settled =
                    || (lock.is_locked(), lock.waiters(), condition.waiters()) == (false, 0, 0);
                Transition::new(vec![request], signal, settled)
            }),
        ]);
    });
}

#[test]
fn events_and_meetings() {
    in_its_own_process(|| {
        in_every_way(&[
            ("a latch", || {
                let latch = leaked(Latch::new(1));
                let settled = || (latch.count(), latch.waiters()) == (0, 0);
                Transition::new(four(|| latch.opened()), || _ = latch.count_down(), settled)
            }),
            ("an event", || {
                let event = leaked(Event::new());
                let settled = || event.is_set() && event.waiters() == 0;
                Transition::new(four(|| event.happened()), || event.set(), settled)
            }),
            ("a pulse", || {
                let event = leaked(AutoEvent::new());
                let settled = || !event.is_set() && event.waiters() == 0;
                Transition::new(four(|| event.happened()), || _ = event.pulse(), settled)
            }),
            ("a signal", || {
                let event = leaked(AutoEvent::new());
                let settled = || !event.is_set() && event.waiters() == 0;
                Transition::new(vec![waiting(event.happened())], || event.set(), settled)
            }),
            ("a promise", || {
                let promise = leaked(Promise::<u32, ()>::new());
                let settled = || promise.is_done() && promise.waiters() == 0;
                Transition::new(four(|| promise.get()), || _ = promise.set(1), settled)
            }),
            ("a promise that fails", || {
                let promise = leaked(Promise::<u32, ()>::new());
                let settled = || promise.is_done() && promise.waiters() == 0;
                Transition::new(four(|| promise.get()), || _ = promise.fail(()), settled)
            }),
            ("a promise that is cancelled", || {
                let promise = leaked(Promise::<u32, ()>::new());
                let settled = || promise.is_done() && promise.waiters() == 0;
                Transition::new(four(|| promise.get()), || _ = promise.cancel(), settled)
            }),
            ("a barrier that is reset", || {
                let barrier = leaked(Barrier::new(6));
                let settled = || (barrier.arrived(), barrier.waiters()) == (0, 0);
                Transition::new(four(|| barrier.arrive()), || barrier.reset(), settled)
            }),
            ("a phaser that ends", || {
                let phaser = leaked(Phaser::new(1));
                let settled = || phaser.is_terminated() && phaser.waiters() == 0;
                Transition::new(four(|| phaser.advanced(0)), || _ = phaser.terminate(), settled)
            }),
            ("the last party of a barrier", || {
                let barrier = leaked(Barrier::new(5));
                let settled =
                    || (barrier.arrived(), barrier.generation(), barrier.waiters()) == (0, 1, 0);
                let arrive = || _ = barrier.arrive().wait();
                Transition::new(four(|| barrier.arrive()), arrive, settled)
            }),
            ("a party that leaves a barrier", || {
                let barrier = leaked(Barrier::new(6));
                let leaves = Step::queued(barrier.arrive());
                let settled = || barrier.is_broken() && barrier.waiters() == 0;
                Transition::new(four(|| barrier.arrive()), move || drop(leaves), settled)
            }),
            ("a phaser", || {
                let phaser = leaked(Phaser::new(1));
                let settled = || (phaser.phase(), phaser.waiters()) == (1, 0);
                Transition::new(four(|| phaser.advanced(0)), || _ = phaser.arrive(), settled)
            }),
            ("an exchange", || {
                let exchanger = leaked(Exchanger::new());
                let settled = || exchanger.waiters() == 0;
                let exchange = || _ = exchanger.exchange(2).wait();
                Transition::new(vec![waiting(exchanger.exchange(1))], exchange, settled)
            }),
        ]);
    });
}

#[test]
fn queues() {
    in_its_own_process(|| {
        in_every_way(&[
            ("an item", || {
                let queue = leaked(BlockingQueue::bounded(4));
                let settled = || (queue.len(), queue.waiters()) == (0, 0);
                Transition::new(vec![waiting(queue.take())], || queue.try_put(1).unwrap(), settled)
            }),
            ("closing a queue", || {
                let queue = leaked(BlockingQueue::<u32>::bounded(4));
                let settled = || (queue.len(), queue.waiters()) == (0, 0);
                Transition::new(four(|| queue.take()), || _ = queue.close(), settled)
            }),
            ("room", || {
                let queue = leaked(BlockingQueue::bounded(4));
                (0..4).for_each(|item| queue.try_put(item).unwrap());
                let settled = || queue.waiters() == 0;
                Transition::new(four(|| queue.put(7)), || _ = queue.drain(), settled)
            }),
            ("an item for one that waits at two queues", || {
                let queues = leaked([BlockingQueue::bounded(4), BlockingQueue::bounded(4)]);
                let settled =
                    || queues.iter().all(|queue| (queue.len(), queue.waiters()) == (0, 0));
                let taker = waiting(BlockingQueue::take_any([&queues[0], &queues[1]]));
                Transition::new(vec![taker], || queues[1].try_put(1).unwrap(), settled)
            }),
            ("room for those who wait at two queues", || {
                let queues = leaked([BlockingQueue::bounded(4), BlockingQueue::bounded(4)]);
                queues.iter().for_each(|queue| assert_eq!(queue.extend_from(0..4), 4));
                // Each has put its item once.
                let settled = || {
                    let items = queues.iter().flat_map(BlockingQueue::drain);
                    items.filter(|item| *item == 7).count() == 4
                        && queues.iter().all(|queue| queue.waiters() == 0)
                };
                let putters = four(|| BlockingQueue::put_any([&queues[0], &queues[1]], 7));
                Transition::new(putters, || _ = queues[0].drain(), settled)
            }),
            ("items that are taken", || {
                let queue = leaked(TransferQueue::new());
                // Nobody has them, because taking has panicked.
                let settled = || (queue.len(), queue.waiters()) == (4, 0);
                Transition::new(four(|| queue.transfer(7)), || _ = queue.drain(), settled)
            }),
            ("closing a transfer queue", || {
                let queue = leaked(TransferQueue::<u32>::new());
                let settled = || (queue.len(), queue.waiters()) == (0, 0);
                Transition::new(four(|| queue.take()), || _ = queue.close(), settled)
            }),
            ("closing a synchronous queue", || {
                let queue = leaked(SynchronousQueue::new());
                let settled = || queue.waiters() == 0;
                Transition::new(four(|| queue.put(7)), || _ = queue.close(), settled)
            }),
        ]);
    });
}

#[test]
fn on_a_worker() {
    in_its_own_process(|| {
        in_every_way(&[
            ("a task that ends", || {
                let (pool, door) = (leaked(pool(Mode::Strict, 1)), Door::new());
                let closed = Arc::clone(&door);
                let handle = leaked(pool.spawn(move || closed.pass()));
                let settled = || pool.spawn(|| 7).timeout(LIMIT).wait().is_ok();
                let ends = move || door.open();
                Transition::new(four(|| handle.finished()), ends, settled).elsewhere()
            }),
            ("a release by a task", || {
                let (pool, semaphore) =
                    (leaked(pool(Mode::Stealing, 1)), leaked(Semaphore::new(0)));
                let release = || pool.execute(|| semaphore.release(4).unwrap());
                let settled =
                    || is_free(semaphore) && pool.spawn(|| 7).timeout(LIMIT).wait().is_ok();
                Transition::new(four(|| semaphore.acquire(1)), release, settled).elsewhere()
            }),
        ]);
    });
}

fn explode() -> ! {
    panic_any(Bomb(3));
}

/// A user's own functions, where an object calls them: all others are called, and woken.
#[test]
fn callbacks_and_actions() {
    in_its_own_process(|| {
        let pool = pool(Mode::Stealing, 1);

        let (promise, called) = (Promise::<u32, ()>::new(), Arc::new(AtomicUsize::new(0)));
        let mut gets = Step::queued(promise.get());
        promise.on_complete(|_| explode());
        promise.on_complete(|_| explode());
        let counts = Arc::clone(&called);
        promise.on_complete(move |_| _ = counts.fetch_add(1, Ordering::SeqCst));
        assert!(explodes(|| promise.set(1).unwrap()));
        assert_eq!((called.load(Ordering::SeqCst), gets.wakes()), (1, 1));
        assert_eq!(gets.expect_ready(), Ok(&1));
        expect_all_well(&pool);

        let barrier = Barrier::with_action(3, || explode());
        let mut parties = [(); 2].map(|()| Step::queued(barrier.arrive()));
        // Whoever runs the action panics; the others learn that the barrier is broken.
        let exploded = explodes(|| _ = barrier.arrive().wait());
        let mut results = parties.iter_mut().map(|party| explodes(|| _ = party.expect_ready()));
        let explosions = results.by_ref().filter(|exploded| *exploded).count();
        assert_eq!(explosions + usize::from(exploded), 1, "one party has run the action");
        assert_eq!((barrier.is_broken(), barrier.waiters()), (true, 0));
        expect_all_well(&pool);

        let phaser = Phaser::with_hook(1, |_, _| explode());
        let mut waits = Step::queued(phaser.advanced(0));
        assert!(explodes(|| _ = phaser.arrive()));
        assert_eq!((waits.wakes(), phaser.waiters()), (1, 0), "the hook has ended the phaser");
        assert!(waits.poll().is_ready());
        expect_all_well(&pool);
    });
}

//! Waiting on a condition: against signals, limits, dropping and those who want the lock.

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;

use super::accounts::Basket;
use super::checker::{explore, explore_within};
use super::race::{For, HOUR, time_passes, two_ticks, with};
use super::side::{Side, on_both_sides};
use super::task::Task;
use super::witness::Witness;
use crate::request::{Limited, Unlimited};
use crate::sync::condition::WaitFor;
use crate::{
    CancelSource, Condition, Mutex, OwnedMutexGuard, OwnerKey, ReentrantCondition, ReentrantLock,
    Request, RwLock, WaitError, WriteCondition,
};

on_both_sides!(a_signal, an_urgent_signal);

/// A lock, and one of its conditions.
#[derive(Default)]
pub(super) struct Place {
    pub(super) lock: Arc<Mutex<u32>>,
    pub(super) condition: Condition,
}

/// A task prepared for one side that waits for a signal, or has signalled urgently.
pub(super) type Waiting<L = Unlimited> = For<Task<Request<WaitFor<OwnedMutexGuard<u32>>, L>>>;

impl Place {
    pub(super) fn enter(&self) -> OwnedMutexGuard<u32> {
        self.lock.lock_owned().wait()
    }

    pub(super) fn waiting(&self) -> Waiting {
        Task::queued(self.condition.wait(self.enter()))
    }

    fn waiting_until(&self, source: &CancelSource) -> Waiting<Limited> {
        Task::queued(self.condition.wait(self.enter()).cancel_on(&source.token()))
    }

    /// Signals one, and leaves.
    pub(super) fn signal(&self, guard: OwnedMutexGuard<u32>) {
        assert!(self.condition.signal(&guard));
    }

    /// The lock, held for one side.
    fn entered(&self) -> For<OwnedMutexGuard<u32>> {
        For::one_side(self.enter())
    }

    /// Nobody waits any more, for the lock or for a signal, and the lock is free.
    pub(super) fn assert_settled(&self) {
        while time_passes() {}
        assert_eq!(self.condition.waiters(), 0, "somebody still waits for a signal");
        assert_eq!((self.lock.waiters(), self.lock.is_locked()), (0, false));
    }
}

/// One waits until something is so, and a thread makes it so. The signal is not lost, and they are
/// not inside together.
fn a_signal<S: Side>() {
    explore_within(4, || {
        let (place, _) = with((Place::default(), Witness::new())).race([
            |(Place { lock, condition }, witness)| {
                let guard = S::finish(lock.lock());
                let guard = S::finish(condition.wait_while(guard, |value| *value == 0));
                witness.change();
                drop(guard);
            },
            |(Place { lock, condition }, witness)| {
                let mut guard = lock.lock().wait();
                witness.change();
                *guard = 1;
                condition.signal(&guard);
            },
        ]);
        place.assert_settled();
    });
}

/// A task waits, and a thread may be about to, and everybody is signalled: both come in, one after the
/// other.
#[test]
fn a_broadcast_against_two() {
    explore_within(3, || {
        let place = Place::default();
        let task = place.waiting();
        let (place, _, witness) = with((place, task, Witness::new())).race([
            |(Place { lock, condition }, task, witness)| {
                let mut guard = lock.lock().wait();
                *guard = 1;
                assert!(condition.broadcast(&guard) > 0);
                drop(guard);
                let _guard = task.take().resume();
                witness.change();
            },
            |(Place { lock, condition }, _, witness)| {
                let guard = lock.lock().wait();
                let _guard = condition.wait_while(guard, |value| *value == 0).wait();
                witness.change();
            },
        ]);
        place.assert_settled();
        assert_eq!(witness.look(), 2);
    });
}

/// A task is cancelled while it is signalled: it has the signal, or the next one has.
#[test]
fn a_signal_against_cancel() {
    explore(|| {
        let (place, source) = (Place::default(), CancelSource::new());
        let (first, second) = (place.waiting_until(&source), place.waiting());
        let guard = place.entered();
        let (place, ..) = with((place, guard, source)).race([
            |(place, guard, _)| place.signal(guard.take()),
            |(_, _, source)| source.cancel(),
        ]);
        match first.left().resume() {
            Ok(_guard) => {
                assert_eq!(place.condition.waiters(), 1);
                drop(second);
            }
            Err(interrupted) => {
                assert_eq!((interrupted.why, place.condition.waiters()), (WaitError::Cancelled, 0));
                drop(interrupted);
                drop(second.left().resume());
            }
        }
        place.assert_settled();
    });
}

/// The same with a thread that may be about to wait; it returns with the lock held, whatever happens.
#[test]
fn a_signal_against_cancel_of_a_thread() {
    explore_within(2, || {
        let objects = (Place::default(), CancelSource::new(), Witness::new(), Basket::default());
        let (place, _, witness, basket) = with(objects).race([
            |(Place { lock, condition }, source, witness, basket)| {
                let waited = condition.wait(lock.lock().wait()).cancel_on(&source.token()).wait();
                witness.change();
                basket.add(waited.is_ok().then_some(1));
            },
            |(_, source, ..)| source.cancel(),
            |(Place { lock, condition }, _, witness, basket)| {
                let guard = lock.lock().wait();
                witness.change();
                basket.add(condition.signal(&guard).then_some(1));
            },
        ]);
        place.assert_settled();
        assert_eq!(witness.look(), 2);
        // Whoever signalled somebody has, and nobody else.
        assert!(matches!(basket.sorted()[..], [] | [1, 1]));
    });
}

/// A task's time is up while it is signalled.
#[test]
fn a_signal_against_time_out() {
    explore(|| {
        let place = Place::default();
        let first = Task::queued(place.condition.wait(place.enter()).timeout(HOUR));
        let second = place.waiting();
        let guard = place.entered();
        let (place, _) = with((place, guard))
            .race([|(place, guard)| place.signal(guard.take()), |_| assert!(time_passes())]);
        match first.left().resume() {
            Ok(_guard) => drop(second),
            Err(interrupted) => {
                assert_eq!(interrupted.why, WaitError::TimedOut);
                drop(interrupted);
                drop(second.left().resume());
            }
        }
        place.assert_settled();
    });
}

/// A thread's time is up while it is signalled.
#[test]
fn a_signal_against_time_out_of_a_thread() {
    explore_within(3, || {
        let objects = (Place::default(), Witness::new(), Basket::default());
        let (place, witness, basket) = with(objects).race([
            |(Place { lock, condition }, witness, basket)| {
                let waited = condition.wait(lock.lock().wait()).timeout(HOUR).wait();
                witness.change();
                basket.add(waited.is_ok().then_some(1));
            },
            |(Place { lock, condition }, witness, basket)| {
                let guard = lock.lock().wait();
                witness.change();
                basket.add(condition.signal(&guard).then_some(1));
            },
        ]);
        place.assert_settled();
        assert_eq!(witness.look(), 2);
        assert!(matches!(basket.sorted()[..], [] | [1, 1]));
    });
}

/// A task is dropped while it is signalled: the signal goes to the next one.
#[test]
fn a_signal_against_drop() {
    explore_within(4, || {
        let place = Place::default();
        let (first, second) = (place.waiting(), place.waiting());
        let guard = place.entered();
        let (place, ..) = with((place, guard, first)).race([
            |(place, guard, _)| place.signal(guard.take()),
            |(_, _, first)| drop(first.take()),
        ]);
        drop(second.left().resume());
        place.assert_settled();
    });
}

/// A task that was signalled and granted the lock is dropped, while somebody comes for the lock: it has
/// that, and the next one has the signal.
#[test]
fn drop_of_a_signalled_task_against_a_newcomer() {
    explore_within(3, || {
        let place = Place::default();
        let (first, second) = (place.waiting(), place.waiting());
        place.signal(place.enter());
        let (place, ..) = with((place, first, second, Witness::new())).race([
            |(place, _, _, witness)| {
                let _guard = place.enter();
                witness.change();
            },
            |(_, first, second, witness)| {
                drop(first.take());
                let _guard = second.take().resume();
                witness.change();
            },
        ]);
        place.assert_settled();
    });
}

/// Everybody is signalled while one of them is dropped: the others come in.
#[test]
fn a_broadcast_against_drop() {
    explore_within(4, || {
        let place = Place::default();
        let (first, second) = (place.waiting(), place.waiting());
        let guard = place.entered();
        let (place, ..) = with((place, guard, first)).race([
            |(place, guard, _)| {
                assert!(matches!(place.condition.broadcast(&guard.take()), 1 | 2));
            },
            |(_, _, first)| drop(first.take()),
        ]);
        drop(second.left().resume());
        place.assert_settled();
    });
}

/// A task that was signalled does not come for the lock while another waits for it: that one is not
/// held up, and the task has the lock after it.
#[test]
fn a_signalled_task_that_does_not_come() {
    explore_within(3, || {
        let place = Place::default();
        let signalled = place.waiting();
        place.signal(place.enter());
        let newcomer = Task::queued(place.lock.lock_owned());
        let (place, ..) = with((place, signalled, newcomer, Witness::new())).race([
            |(_, signalled, _, witness)| {
                let _guard = signalled.take().run();
                witness.change();
            },
            |(_, _, newcomer, witness)| {
                two_ticks();
                let _guard = newcomer.take().resume();
                witness.change();
            },
        ]);
        place.assert_settled();
    });
}

/// Hoare's signal: the one signalled is inside next, the signaller after it, and nobody in between.
#[test]
fn an_urgent_signal_against_a_newcomer() {
    explore_within(2, || {
        let place = Place::default();
        let signalled = place.waiting();
        let (place, _) = with((place, signalled)).race([
            |(place, _)| assert!(matches!(*place.enter(), 0 | 3)),
            |(_, signalled)| {
                let mut guard = signalled.take().resume();
                assert_eq!(std::mem::replace(&mut *guard, 2), 1);
            },
            |(place, _)| {
                let mut guard = place.enter();
                *guard = 1;
                let mut guard = place.condition.signal_urgent(guard).wait();
                assert_eq!(std::mem::replace(&mut *guard, 3), 2);
            },
        ]);
        place.assert_settled();
    });
}

/// The same between two who may both have to wait for the lock.
fn an_urgent_signal<S: Side>() {
    explore_within(3, || {
        let place = with(Place::default()).race([
            |Place { lock, condition }| {
                let guard = S::finish(lock.lock());
                let mut guard = S::finish(condition.wait_while(guard, |value| *value == 0));
                assert!(matches!(*guard, 1 | 4));
                *guard += 1;
            },
            |Place { lock, condition }| {
                let mut guard = S::finish(lock.lock());
                *guard = 1;
                let mut guard = S::finish(condition.signal_urgent(guard));
                *guard += 3;
            },
        ]);
        assert_eq!(*place.enter(), 5);
        place.assert_settled();
    });
}

/// A task that was signalled urgently and has not come, and the task that signalled it.
fn urgent(place: &Place) -> (Waiting, Waiting) {
    let signalled = place.waiting();
    (signalled, Task::queued(place.condition.signal_urgent(place.enter())))
}

/// A task comes for its turn while that is taken back: it has it, or waits for the next signal. In
/// both cases the signaller goes on.
#[test]
fn an_urgent_signal_taken_back_against_claim() {
    explore_within(4, || {
        let place = Place::default();
        let (signalled, signaller) = urgent(&place);
        let (signalled, _) = with((signalled, Witness::new())).race([
            |(signalled, witness)| {
                let mut task = signalled.take();
                match task.poll() {
                    Poll::Ready(_guard) => witness.change(),
                    Poll::Pending => signalled.put(task),
                }
            },
            |_| two_ticks(),
        ]);
        let guard = signaller.left().resume();
        if let Some(missed) = signalled.if_left() {
            assert!(place.condition.signal(&guard));
            drop(guard);
            drop(missed.resume());
        } else {
            drop(guard);
        }
        place.assert_settled();
    });
}

/// A task that was signalled urgently is dropped while its turn is taken back: the signaller goes on.
#[test]
fn an_urgent_signal_taken_back_against_drop() {
    explore_within(4, || {
        let place = Place::default();
        let (signalled, signaller) = urgent(&place);
        with(signalled).race([|signalled| drop(signalled.take()), |_| two_ticks()]);
        drop(signaller.left().resume());
        place.assert_settled();
    });
}

/// A task that was signalled urgently is dropped while its turn is taken back, and another waits: that
/// has the signal, unless the turn was missed. The signaller goes on.
#[test]
fn an_urgent_signal_passed_on() {
    explore_within(4, || {
        let place = Place::default();
        let (signalled, next) = (place.waiting(), place.waiting());
        let signaller = Task::queued(place.condition.signal_urgent(place.enter()));
        with(signalled).race([|signalled| drop(signalled.take()), |_| two_ticks()]);
        let mut next = next.left();
        if place.condition.is_awaited() {
            drop(next);
            drop(signaller.left().resume());
        } else if let Poll::Ready(guard) = next.poll() {
            drop(guard);
            drop(signaller.left().resume());
        } else {
            // It did not come for its turn either.
            drop(signaller.left().resume());
            drop(next.resume());
        }
        place.assert_settled();
    });
}

/// A task that has missed its turn is polled while the next signal comes: that reaches it.
#[test]
fn a_signal_to_one_who_missed_its_turn() {
    explore_within(4, || {
        let place = Place::default();
        let (signalled, signaller) = urgent(&place);
        two_ticks();
        let guard = For::one_side(signaller.left().resume());
        let (place, ..) = with((place, guard, signalled)).race([
            |(place, guard, _)| place.signal(guard.take()),
            |(.., signalled)| drop(signalled.take().run()),
        ]);
        place.assert_settled();
    });
}

/// A task that was signalled urgently is cancelled while its turn is taken back: it is cancelled, and
/// has the lock after the signaller.
#[test]
fn an_urgent_signal_taken_back_against_cancel() {
    explore(|| {
        let (place, source) = (Place::default(), CancelSource::new());
        let signalled = place.waiting_until(&source);
        let signaller = Task::queued(place.condition.signal_urgent(place.enter()));
        with(source).race([CancelSource::cancel, |_| {
            assert!(time_passes() && time_passes());
        }]);
        drop(signaller.left().resume());
        let interrupted = signalled.left().run().unwrap_err();
        assert_eq!(interrupted.why, WaitError::Cancelled);
        drop(interrupted);
        place.assert_settled();
    });
}

/// A task that was signalled urgently comes for its turn while it is cancelled: the signal wins.
#[test]
fn an_urgent_signal_against_cancel() {
    explore(|| {
        let (place, source) = (Place::default(), CancelSource::new());
        let signalled = place.waiting_until(&source);
        let signaller = Task::queued(place.condition.signal_urgent(place.enter()));
        with((source, signalled)).race([
            |(source, _)| source.cancel(),
            |(_, signalled)| drop(signalled.take().resume().unwrap()),
        ]);
        drop(signaller.left().resume());
        place.assert_settled();
    });
}

/// A signaller is dropped before it has the lock back, while the one signalled leaves.
#[test]
fn an_urgent_signal_against_drop_of_the_signaller() {
    explore_within(4, || {
        let place = Place::default();
        let (signalled, signaller) = urgent(&place);
        with((signalled, signaller)).race([
            |(signalled, _)| drop(signalled.take().resume()),
            |(_, signaller)| drop(signaller.take()),
        ]);
        place.assert_settled();
    });
}

/// An owner that holds its lock twice waits, and holds it twice again when it returns.
#[test]
fn a_signal_against_an_owner() {
    explore_within(4, || {
        let lock = ReentrantLock::new(std::sync::atomic::AtomicU32::new(0));
        let (lock, condition) = with((lock, ReentrantCondition::new())).race([
            |(lock, condition)| {
                use std::sync::atomic::Ordering::Relaxed;
                let key = OwnerKey::new();
                let _outer = lock.lock_as(&key).wait().unwrap();
                let inner = lock.lock_as(&key).wait().unwrap();
                let _inner = condition.wait_while(inner, |value| value.load(Relaxed) == 0).wait();
                assert_eq!(lock.holds(), 2);
            },
            |(lock, condition)| {
                let key = OwnerKey::new();
                let guard = lock.lock_as(&key).wait().unwrap();
                guard.store(1, std::sync::atomic::Ordering::Relaxed);
                condition.signal(&guard);
            },
        ]);
        assert_eq!((lock.waiters(), lock.holds(), condition.waiters()), (0, 0, 0));
    });
}

/// One of an owner's two guards is dropped on another thread while it waits with the other, is signalled,
/// and comes back. Nothing is left of its holds afterwards.
#[test]
fn a_dropped_guard_against_a_signal_of_its_owner() {
    explore_within(3, || {
        let lock = Arc::new(ReentrantLock::new(()));
        let (condition, key) = (ReentrantCondition::new(), OwnerKey::new());
        let outer = For::one_side(lock.lock_owned_as(&key).wait().unwrap());
        let waiting = Task::queued(condition.wait(lock.lock_owned_as(&key).wait().unwrap()));
        let guard = For::one_side(lock.lock_owned_as(&OwnerKey::new()).wait().unwrap());
        let (lock, condition, ..) = with((lock, condition, outer, waiting, guard)).race([
            |(lock, condition, _, waiting, guard)| {
                assert!(condition.signal(&guard.take()));
                let guard = waiting.take().resume();
                assert!((1..=2).contains(&lock.holds()));
                drop(guard);
            },
            |(_, _, outer, ..)| drop(outer.take()),
        ]);
        assert_eq!((lock.waiters(), lock.holds(), condition.waiters()), (0, 0, 0));
    });
}

/// The same, while the wait only begins.
#[test]
fn a_dropped_guard_against_the_wait_of_its_owner() {
    explore_within(3, || {
        let lock = Arc::new(ReentrantLock::new(()));
        let (condition, key) = (ReentrantCondition::new(), OwnerKey::new());
        let outer = For::one_side(lock.lock_owned_as(&key).wait().unwrap());
        let inner = For::one_side(lock.lock_owned_as(&key).wait().unwrap());
        let (lock, condition, ..) = with((lock, condition, outer, inner)).race([
            |(lock, condition, _, inner)| {
                let mut waiting = Box::pin(condition.wait(inner.take()));
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                assert!(waiting.as_mut().poll(&mut context).is_pending());
                let other = lock.lock_owned_as(&OwnerKey::new()).wait().unwrap();
                assert!(condition.signal(&other));
                drop(other);
                assert!(waiting.as_mut().poll(&mut context).is_ready());
            },
            |(_, _, outer, _)| drop(outer.take()),
        ]);
        assert_eq!((lock.waiters(), lock.holds(), condition.waiters()), (0, 0, 0));
    });
}

/// A guard is made and dropped while another of its owner begins to wait, is signalled, and comes
/// back: its hold may be given away before the guard has noted that it was made.
#[test]
fn a_new_guard_against_the_wait_of_its_owner() {
    explore_within(3, || {
        let lock = Arc::new(ReentrantLock::new(()));
        let (condition, key) = (ReentrantCondition::new(), OwnerKey::new());
        let guard = For::one_side(lock.lock_owned_as(&key).wait().unwrap());
        let (lock, condition, ..) = with((lock, condition, key, guard)).race([
            |(lock, condition, _, guard)| {
                let mut waiting = Task::new(condition.wait(guard.take()));
                assert!(waiting.poll().is_pending());
                let other = lock.lock_owned_as(&OwnerKey::new()).wait().unwrap();
                assert!(condition.signal(&other));
                drop(other);
                let guard = waiting.resume();
                assert!((1..=2).contains(&lock.holds()));
                drop(guard);
            },
            |(lock, _, key, _)| drop(lock.lock_owned_as(key).wait().unwrap()),
        ]);
        assert_eq!((lock.waiters(), lock.holds(), condition.waiters()), (0, 0, 0));
    });
}

/// A task is signalled by one who leaves, while a newcomer wants the lock: it is the next inside.
#[test]
fn signalling_and_leaving_against_a_newcomer() {
    explore_within(3, || {
        let place = Place::default();
        let (waiting, guard) = (place.waiting(), place.entered());
        let (place, ..) = with((place, waiting, guard, Witness::new())).race([
            |(place, waiting, guard, witness)| {
                let mut guard = guard.take();
                *guard = 1;
                assert!(place.condition.signal_and_leave(guard));
                let mut guard = waiting.take().resume();
                assert_eq!(std::mem::take(&mut *guard), 1, "nobody was in between");
                witness.change();
            },
            |(place, _, _, witness)| {
                let guard = place.enter();
                assert_eq!(*guard, 0);
                witness.change();
            },
        ]);
        place.assert_settled();
    });
}

/// A writer waits on a condition, while another signals it and a reader comes.
#[test]
fn a_signal_against_a_reader() {
    explore_within(3, || {
        let (lock, condition) = (Arc::new(RwLock::new(())), WriteCondition::new());
        let writer = Task::queued(condition.wait(lock.write_owned().wait()));
        let guard = For::one_side(lock.write_owned().wait());
        let (lock, condition, ..) = with((lock, condition, writer, guard, Witness::new())).race([
            |(lock, .., witness)| {
                let _guard = lock.read().wait();
                witness.look();
            },
            |(_, condition, writer, guard, witness)| {
                assert!(condition.signal(&guard.take()));
                let _guard = writer.take().resume();
                witness.change();
            },
        ]);
        assert_eq!((lock.waiters(), lock.readers(), lock.has_writer()), (0, 0, false));
        assert_eq!(condition.waiters(), 0);
    });
}

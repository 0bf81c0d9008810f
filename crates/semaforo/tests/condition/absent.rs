//! The other guards of an owner that waits: they hold nothing meanwhile, and one that is dropped then
//! does not come back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semaforo::policy::OwnedReadWrite;
use semaforo::sync::condition::WaitFor;
use semaforo::sync::reentrant::{Anywhere, Reenter};
use semaforo::sync::reentrant_rwlock::{ReadHold, WriteHold};
use semaforo::{
    Condition, KeyGuard, OwnedKeyGuard, OwnerKey, ReentrantCondition, ReentrantLock,
    ReentrantRwLock,
};

use crate::support::{Random, Step, Waiter, WakerOf, leaked, message_of, panic_of, until_queued};

type Guard = KeyGuard<'static, AtomicUsize>;
type Wait = Step<semaforo::Request<WaitFor<Guard>>>;
type Lock = ReentrantLock<AtomicUsize>;
type Shared = ReentrantRwLock<AtomicUsize>;
type SharedCondition = Condition<OwnedReadWrite>;

fn lock() -> (&'static Lock, &'static ReentrantCondition) {
    (leaked(ReentrantLock::new(AtomicUsize::new(0))), leaked(ReentrantCondition::new()))
}

fn shared() -> (&'static Shared, &'static SharedCondition) {
    (leaked(ReentrantRwLock::new(AtomicUsize::new(0))), leaked(Condition::new()))
}

/// So many holds of this key.
fn hold(lock: &'static Lock, key: &OwnerKey, times: u32) -> Vec<Guard> {
    (0..times).map(|_| lock.lock_as(key).wait().unwrap()).collect()
}

/// Signals with a key of its own.
fn signal(lock: &Lock, condition: &ReentrantCondition) {
    assert!(condition.signal(&lock.try_lock_as(&OwnerKey::new()).unwrap()));
}

#[test]
fn a_guard_that_is_dropped_while_its_owner_waits_does_not_come_back() {
    for (times, dropped) in [(2, 1), (5, 1), (5, 3), (5, 4)] {
        let ((lock, condition), key) = (lock(), OwnerKey::new());
        let mut guards = hold(lock, &key, times);
        let mut waiting = Step::queued(condition.wait(guards.pop().unwrap()));
        guards.truncate((times - 1 - dropped) as usize);
        assert_eq!(lock.holds(), 0);
        signal(lock, condition);
        let guard = waiting.expect_ready();
        assert_eq!(lock.holds(), times - dropped);
        drop((guard, guards));
        assert!(!lock.is_locked(), "nothing is left");
        drop(hold(lock, &OwnerKey::new(), 1));
    }
}

/// A thread can do it while it blocks only by a guard that it lent, but as a task it can.
#[test]
fn a_guard_of_a_thread_that_is_dropped_while_it_waits_does_not_come_back() {
    let (lock, condition) = lock();
    let outer = lock.lock().wait().unwrap();
    let mut waiting = Step::queued(condition.wait(lock.lock().wait().unwrap()));
    drop(outer);
    signal(lock, condition);
    let inner = waiting.expect_ready();
    assert_eq!((lock.holds(), lock.is_held_by_this_thread()), (1, true));
    drop(inner);
    assert!(!lock.is_locked());
}

/// By a limit, a broadcast, and Hoare's signal, and with a wait that never gives the lock away.
#[test]
fn however_the_wait_ends() {
    for end in 0..4 {
        let ((lock, condition), key) = (lock(), OwnerKey::new());
        let mut guards = hold(lock, &key, 3);
        let guard = guards.pop().unwrap();
        let guard = match end {
            0 => {
                let waiting = condition.wait(guard).timeout(Duration::from_millis(5));
                let mut waiting = Step::queued(waiting);
                guards.pop();
                until_queued(condition, 0);
                waiting.expect_ready().unwrap_err().guard
            }
            1 => {
                let mut waiting = Step::queued(condition.wait(guard));
                guards.pop();
                condition.broadcast(&lock.try_lock().unwrap());
                waiting.expect_ready()
            }
            2 => {
                let other = hold(lock, &key, 1).pop().unwrap();
                drop(other);
                let signalled = Waiter::on_a_thread(|| {
                    drop(condition.wait(lock.lock().wait().unwrap()).wait());
                });
                let mut waiting = Step::new(condition.wait(guard));
                waiting.expect_pending();
                until_queued(condition, 2);
                let urgent = lock.lock().wait().unwrap();
                let again = lock.lock().wait().unwrap();
                drop((condition.signal_urgent(urgent).wait(), again));
                guards.pop();
                condition.broadcast(&lock.lock().wait().unwrap());
                signalled.join();
                waiting.expect_ready()
            }
            _ => {
                guards.pop();
                condition.wait(guard).timeout(Duration::ZERO).wait().unwrap_err().guard
            }
        };
        assert_eq!(lock.holds(), 2, "end {end}");
        drop((guard, guards));
        assert!(!lock.is_locked());
    }
}

/// The key has the lock again while it waits: each guard gives back its own hold.
#[test]
fn an_old_guard_takes_nothing_from_a_new_one() {
    let ((lock, condition), key) = (lock(), OwnerKey::new());
    let mut old = hold(lock, &key, 3);
    let mut waiting = Step::queued(condition.wait(old.pop().unwrap()));
    let new = hold(lock, &key, 1);
    assert_eq!(lock.holds(), 1);
    old.pop();
    assert_eq!(lock.holds(), 1, "the new one's");
    assert!(condition.signal(&new[0]));
    drop(new);
    let guard = waiting.expect_ready();
    assert_eq!(lock.holds(), 2);
    drop((guard, old));
    assert!(!lock.is_locked());
}

/// The wait is dropped, and the other guards hold nothing for ever: also not what their owner takes then.
#[test]
fn the_guards_of_an_abandoned_wait_take_nothing_from_new_ones() {
    let ((lock, condition), key) = (lock(), OwnerKey::new());
    let mut old = hold(lock, &key, 4);
    let waiting = Step::queued(condition.wait(old.pop().unwrap()));
    old.pop();
    drop(waiting);
    let mut new = hold(lock, &key, 2);
    old.pop();
    assert_eq!(lock.holds(), 2);
    let mut again = Step::queued(condition.wait(new.pop().unwrap()));
    signal(lock, condition);
    new.push(again.expect_ready());
    assert_eq!(lock.holds(), 2);
    drop(old);
    assert_eq!(lock.holds(), 2);
    drop(new);
    assert!(!lock.is_locked());
}

/// What a wait that panics, or was never polled, would have given away stays.
#[test]
fn a_wait_that_gives_nothing_away_changes_nothing() {
    let ((lock, condition), key) = (lock(), OwnerKey::new());
    let mut guards = hold(lock, &key, 4);
    let mut waiting = Step::queued(condition.wait(guards.pop().unwrap()));
    panic_of(|| drop(condition.wait(guards.pop().unwrap()).wait()));
    drop(condition.wait(guards.pop().unwrap()));
    signal(lock, condition);
    let guard = waiting.expect_ready();
    assert_eq!(lock.holds(), 2, "the one that waited, and the one that was kept");
    drop((guard, guards));
    assert!(!lock.is_locked());
}

/// A writer that reads gives both away: if it kept its reads, no one could write to signal.
#[test]
fn a_writer_that_reads_gives_its_reads_away_too() {
    for urgently in [false, true] {
        let (lock, condition) = shared();
        let (me, other) = (OwnerKey::new(), OwnerKey::new());
        let write = lock.write_as(&me).wait().unwrap();
        let reads = [(); 3].map(|()| lock.read_as(&me).wait().unwrap());
        let again = lock.write_as(&me).wait().unwrap();
        let mut waiting = Step::queued(condition.wait(write));
        assert_eq!((lock.readers(), lock.writes()), (0, 0));
        let signals = lock.try_write_as(&other).unwrap();
        let reading = lock.read_as(&other).wait().unwrap();
        if urgently {
            let mut urgent = Step::queued(condition.signal_urgent(signals));
            assert_eq!((lock.readers(), lock.writes()), (0, 1), "given away with the reads");
            let write = waiting.expect_ready();
            assert_eq!((lock.readers(), lock.writes()), (3, 2));
            drop((write, again, reads));
            let signals = urgent.expect_ready();
            assert_eq!((lock.readers(), lock.writes()), (1, 1));
            drop((signals, reading));
        } else {
            assert!(condition.signal(&signals));
            drop((signals, reading));
            let write = waiting.expect_ready();
            assert_eq!((lock.readers(), lock.writes()), (3, 2));
            drop((write, again));
            assert_eq!((lock.readers(), lock.writes()), (3, 0));
            drop(reads);
        }
        assert!(lock.try_write().is_some());
    }
}

/// A read of a writer that waits is nobody's: dropping it takes nothing from those who read meanwhile,
/// and it cannot be cloned or upgraded, nor a write downgraded.
#[test]
fn a_read_that_is_away_takes_nothing_from_other_readers() {
    let (lock, condition) = shared();
    let me = OwnerKey::new();
    let mut writes: Vec<_> = (0..3).map(|_| lock.write_as(&me).wait().unwrap()).collect();
    let mut reads: Vec<_> = (0..3).map(|_| lock.read_as(&me).wait().unwrap()).collect();
    let mut waiting = Step::queued(condition.wait(writes.pop().unwrap()));
    let other = lock.try_read().unwrap();
    assert!(panic_of(|| reads[0].clone()).contains("waits with another"));
    assert!(panic_of(|| writes.pop().unwrap().downgrade()).contains("waits with another"));
    let refused = reads.pop().unwrap().try_upgrade().unwrap_err();
    reads.push(refused);
    assert_eq!((lock.readers(), lock.writes()), (1, 0));
    drop(other);
    drop(reads.pop());
    assert!(condition.signal(&lock.try_write().unwrap()));
    let write = waiting.expect_ready();
    assert_eq!((lock.readers(), lock.writes()), (2, 2));
    drop((write, writes, reads));
    assert!(lock.try_write().is_some());
}

/// Taken together, an owner's holds of before and of meanwhile may be more than it can have. Those that
/// do not come back are the first to be dropped: the lock is held until the last guard is.
#[test]
fn an_owner_that_holds_too_much_when_it_comes_back_holds_until_its_last_guard() {
    let (lock, condition) = shared();
    let me = OwnerKey::new();
    let most = Shared::MAX_HOLDS;
    let mut old: Vec<_> = (0..most).map(|_| lock.write_as(&me).wait().unwrap()).collect();
    let mut waiting = Step::queued(condition.wait(old.pop().unwrap()));
    let mut new: Vec<_> = (0..3).map(|_| lock.write_as(&me).wait().unwrap()).collect();
    assert!(condition.signal(&new[0]));
    new.pop();
    old.push(waiting.expect_ready());
    assert_eq!((lock.writes(), old.len() + new.len()), (most, most as usize + 2));
    new.pop();
    assert_eq!(lock.writes(), most - 1);
    new.append(&mut old);
    while new.pop().is_some() {
        assert_eq!(lock.writes() > 0, !new.is_empty());
    }
    assert!(lock.try_read().is_some());
}

/// The key has the lock again through a new guard: the old ones hold nothing all the same, so neither
/// waiting nor signalling with them takes the new one's hold.
#[test]
fn an_old_guard_neither_waits_nor_signals_with_the_hold_of_a_new_one() {
    let ((lock, condition), key) = (lock(), OwnerKey::new());
    let mut old = hold(lock, &key, 8);
    let mut waiting = Step::queued(condition.wait(old.pop().unwrap()));
    let unpolled = condition.wait(old.pop().unwrap());
    let new = hold(lock, &key, 1);
    let mut refused = |use_of: &mut dyn FnMut(Guard)| {
        let guard = old.pop().unwrap();
        assert!(panic_of(|| use_of(guard)).contains("waits with another"));
        assert_eq!((lock.holds(), condition.waiters()), (1, 1));
    };
    refused(&mut |guard| drop(condition.wait(guard).timeout(Duration::ZERO).wait()));
    refused(&mut |guard| drop(condition.wait_while(guard, |_| false).wait()));
    refused(&mut |guard| drop(Step::queued(condition.signal_urgent(guard))));
    refused(&mut |guard| assert!(condition.signal(&guard)));
    refused(&mut |guard| assert!(condition.signal_and_leave(guard)));
    let mut polled = Step::new(unpolled);
    assert!(panic_of(|| polled.poll().is_ready()).contains("waits with another"));
    drop(polled);
    assert_eq!((lock.holds(), condition.waiters()), (1, 1));
    assert!(condition.signal(&new[0]));
    drop(new);
    let guard = waiting.expect_ready();
    assert_eq!((lock.holds(), old.len()), (2, 1), "the one that waited, and the one that is left");
    drop((guard, old));
    assert!(!lock.is_locked());
}

/// The same for a writer, while it waits and after the wait was dropped.
#[test]
fn a_guard_whose_hold_is_away_or_lost_does_not_wait_with_a_new_ones() {
    let ((lock, condition), me) = (shared(), OwnerKey::new());
    let mut old: Vec<_> = (0..5).map(|_| lock.write_as(&me).wait().unwrap()).collect();
    let mut waiting = Some(Step::queued(condition.wait(old.pop().unwrap())));
    for waits in [1, 0] {
        let new = lock.write_as(&me).wait().unwrap();
        let (waiter, signaller) = (old.pop().unwrap(), old.pop().unwrap());
        let refused = panic_of(|| drop(condition.wait(waiter).timeout(Duration::ZERO).wait()));
        assert!(refused.contains("waits with another"));
        assert!(panic_of(|| condition.signal(&signaller)).contains("waits with another"));
        drop(signaller);
        assert_eq!((lock.writes(), condition.waiters()), (1, waits));
        drop(new);
        waiting = None;
    }
    assert!(waiting.is_none() && lock.try_read().is_some());
}

/// All its guards are old, and some of its holds could not come back: the owner waits with any of them,
/// because the lock is its own.
#[test]
fn an_owner_that_holds_too_much_can_wait() {
    let ((lock, condition), me) = (shared(), OwnerKey::new());
    let most = Shared::MAX_HOLDS;
    let mut guards: Vec<_> = (0..most).map(|_| lock.write_as(&me).wait().unwrap()).collect();
    let mut waiting = Step::queued(condition.wait(guards.pop().unwrap()));
    let [released, new @ ..] = [(); 3].map(|()| lock.write_as(&me).wait().unwrap());
    assert!(condition.signal(&released));
    drop(released);
    guards.push(waiting.expect_ready());
    guards.extend(new);
    assert_eq!((lock.writes(), guards.len()), (most, most as usize + 2));
    let mut again = Step::queued(condition.wait(guards.swap_remove(0)));
    assert_eq!(lock.writes(), 0);
    guards.truncate(1);
    assert!(condition.signal(&lock.try_write().unwrap()));
    guards.push(again.expect_ready());
    assert!(lock.writes() > 0);
    drop(guards);
    assert!(lock.try_read().is_some());
}

/// A wait of this key, and a request of the same key that was granted before the wait began, and
/// was not claimed.
fn late(
    lock: &'static Lock,
    condition: &'static ReentrantCondition,
    key: &OwnerKey,
) -> (Wait, Step<semaforo::Request<Reenter<&'static Lock, Anywhere>>>) {
    lock.set_patience(Duration::from_secs(3600));
    let other = lock.try_lock_as(&OwnerKey::new()).unwrap();
    let unclaimed = Step::queued(lock.lock_as(key));
    let mut claimed = Step::queued(lock.lock_as(key));
    drop(other);
    let waiting = Step::queued(condition.wait(claimed.expect_ready().unwrap()));
    assert_eq!((lock.holds(), unclaimed.wakes()), (0, 1));
    (waiting, unclaimed)
}

/// While a task begins to wait, its waker drops another guard of the same owner and begins another
/// wait: the first gives nothing away any more, and the second has what is left.
#[test]
fn a_guard_that_is_dropped_before_its_owner_gives_the_lock_away_leaves_no_hold() {
    let ((lock, condition), other) = (lock(), leaked(ReentrantCondition::new()));
    let key: &OwnerKey = leaked(OwnerKey::new());
    let mut guards = hold(lock, key, 2);
    let mut waiting = Step::new(condition.wait(guards.pop().unwrap()));
    let guards = Mutex::new(guards);
    let second: &Mutex<Option<Wait>> = leaked(Mutex::default());
    let begin = move || {
        let Some(guard) = guards.lock().unwrap().pop() else { return };
        drop(guard);
        let new = lock.try_lock_as(key).unwrap();
        *second.lock().unwrap() = Some(Step::queued(other.wait(new)));
    };
    let waker = WakerOf(|| (), begin, || ()).into_waker();
    let refused = panic_of(|| waiting.poll_with(&waker).is_ready());
    assert!(refused.contains("waits with another"));
    drop(waiting);
    signal(lock, other);
    let guard = second.lock().unwrap().take().unwrap().expect_ready();
    assert_eq!(lock.holds(), 1, "the one that waited");
    drop(guard);
    assert!(!lock.is_locked());
}

/// An owner waits twice, and a guard is dropped whose hold is away with the second wait. Whichever
/// wait comes back first, each has its own hold, and no more.
#[test]
fn a_dropped_guard_is_paid_for_by_a_wait_that_has_a_hold_to_spare() {
    for first_comes_first in [true, false] {
        let ((lock, condition), other) = (lock(), leaked(ReentrantCondition::new()));
        let key = OwnerKey::new();
        let mut first = Step::queued(condition.wait(hold(lock, &key, 1).pop().unwrap()));
        let (mut second, mut unclaimed) = late(lock, other, &key);
        drop(unclaimed.expect_ready().unwrap());
        let mut come_back = |is_first: bool| {
            signal(lock, if is_first { condition } else { other });
            let guard = if is_first { &mut first } else { &mut second }.expect_ready();
            assert_eq!(lock.holds(), 1, "first: {is_first}");
            drop(guard);
            assert!(!lock.is_locked(), "first: {is_first}");
        };
        come_back(first_comes_first);
        come_back(!first_comes_first);
    }
}

/// What an owner was granted and has not claimed is given away by its wait. If it is dropped then,
/// it does not come back with the wait; otherwise it has its turn later, with a hold of its own.
#[test]
fn a_grant_that_was_given_away_before_it_was_claimed_leaves_no_hold() {
    for claimed in [true, false] {
        let ((lock, condition), key) = (lock(), OwnerKey::new());
        let (mut waiting, mut unclaimed) = late(lock, condition, &key);
        let guard = claimed.then(|| unclaimed.expect_ready().unwrap());
        assert_eq!(lock.holds(), u32::from(claimed));
        drop(unclaimed);
        match &guard {
            Some(guard) => assert!(condition.signal(guard)),
            None => signal(lock, condition),
        }
        drop(guard);
        let back = waiting.expect_ready();
        assert_eq!(lock.holds(), 1);
        drop(back);
        assert!(!lock.is_locked());
    }
}

/// The same for a wait that was signalled, and whose hold another wait of its owner gives away.
#[test]
fn a_signalled_wait_that_is_dropped_after_its_hold_was_given_away_leaves_no_hold() {
    let ((lock, condition), other) = (lock(), leaked(ReentrantCondition::new()));
    lock.set_patience(Duration::from_secs(3600));
    let key = OwnerKey::new();
    let first = Step::queued(condition.wait(hold(lock, &key, 1).pop().unwrap()));
    signal(lock, condition);
    assert_eq!((lock.holds(), first.wakes()), (1, 1));
    let mut second = Step::queued(other.wait(hold(lock, &key, 1).pop().unwrap()));
    drop(first);
    signal(lock, other);
    let guard = second.expect_ready();
    assert_eq!(lock.holds(), 1);
    drop(guard);
    assert!(!lock.is_locked());
}

/// A guard, and where its hold is.
struct Tracked {
    guard: Option<Guard>,
    owner: usize,
    hold: Hold,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Hold {
    Here,
    /// With the wait of this number.
    Away(u32),
    Lost,
}

/// Random programs with one lock, few keys, and many guards and waits, which also wait several times
/// over, have the lock again while they wait, and drop guards and waits in any order. At every step the
/// lock is held exactly as often as there are guards whose holds are here.
#[test]
fn the_lock_is_held_as_often_as_there_are_guards_whose_holds_are_here() {
    for seed in 1..400 {
        let (lock, condition) = lock();
        lock.set_patience(Duration::from_secs(3600));
        let mut random = Random::new(seed);
        let keys: [OwnerKey; 2] = [OwnerKey::new(), OwnerKey::new()];
        let mut guards: Vec<Tracked> = Vec::new();
        let mut waits: Vec<(Wait, usize, u32)> = Vec::new();
        for step in 1..60 {
            let owner = random.below(2) as usize;
            match random.below(8) {
                0..=2 => {
                    let guard = lock.try_lock_as(&keys[owner]);
                    let hold = Hold::Here;
                    guards.extend(guard.map(|guard| Tracked { guard: Some(guard), owner, hold }));
                }
                3 | 4 if !guards.is_empty() => {
                    drop(guards.swap_remove(random.below(guards.len() as u32) as usize));
                }
                // One key is one party: it does not wait while it is about to come back elsewhere.
                5 if waits.iter().all(|(waiting, ..)| waiting.wakes() == 0) => {
                    let here = guards.iter().position(|tracked| tracked.hold == Hold::Here);
                    let Some(index) = here else { continue };
                    let Tracked { guard, owner, .. } = guards.swap_remove(index);
                    let waiting = Step::queued(condition.wait(guard.unwrap()));
                    waits.push((waiting, owner, step));
                    for tracked in &mut guards {
                        if tracked.owner == owner && tracked.hold == Hold::Here {
                            tracked.hold = Hold::Away(step);
                        }
                    }
                }
                6 => {
                    let here = guards.iter().find(|tracked| tracked.hold == Hold::Here);
                    here.map(|tracked| condition.signal(tracked.guard.as_ref().unwrap()));
                }
                _ if !waits.is_empty() => {
                    let index = random.below(waits.len() as u32) as usize;
                    let (mut waiting, owner, number) = waits.swap_remove(index);
                    let (guard, hold) = match waiting.poll() {
                        std::task::Poll::Ready(guard) => (Some(guard), Hold::Here),
                        std::task::Poll::Pending if random.one_in(2) => (None, Hold::Lost),
                        std::task::Poll::Pending => {
                            waits.push((waiting, owner, number));
                            continue;
                        }
                    };
                    drop(waiting);
                    for tracked in guards.iter_mut().filter(|other| other.owner == owner) {
                        if tracked.hold == Hold::Away(number) {
                            tracked.hold = hold;
                        }
                    }
                    if guard.is_some() {
                        guards.push(Tracked { guard, owner, hold });
                    }
                }
                _ => {}
            }
            // A signalled wait may have been granted the lock, and not have come for it yet.
            let granted = waits.iter().filter(|(waiting, ..)| waiting.wakes() > 0).count() as u32;
            let here = guards.iter().filter(|tracked| tracked.hold == Hold::Here).count() as u32;
            let holds = lock.holds();
            assert!((here..=here + granted).contains(&holds), "seed {seed}, step {step}: {holds}");
        }
        drop(waits);
        let here = guards.iter().filter(|tracked| tracked.hold == Hold::Here).count() as u32;
        assert_eq!(lock.holds(), here, "seed {seed}");
        for left in (0..guards.len()).rev() {
            guards.pop();
            let here = guards[..left].iter().filter(|tracked| tracked.hold == Hold::Here).count();
            assert_eq!(lock.holds() as usize, here, "seed {seed}");
        }
    }
}

/// The same for reads and writes of one key, whose waits another key signals.
#[test]
fn reads_and_writes_are_held_as_often_as_there_are_guards() {
    type Write = WriteHold<&'static Shared, Anywhere>;
    type Read = ReadHold<&'static Shared, Anywhere>;
    for seed in 1..400 {
        let (lock, condition) = shared();
        let mut random = Random::new(seed);
        let (me, other) = (OwnerKey::new(), OwnerKey::new());
        let mut writes: Vec<Write> = vec![lock.write_as(&me).wait().unwrap()];
        let mut reads: Vec<Read> = Vec::new();
        for _ in 0..random.below(6) {
            match random.below(2) {
                0 => writes.push(lock.write_as(&me).wait().unwrap()),
                _ => reads.push(lock.read_as(&me).wait().unwrap()),
            }
        }
        let mut waiting = Step::queued(condition.wait(writes.pop().unwrap()));
        let mut strangers: Vec<Read> =
            (0..random.below(3)).map(|_| lock.read_as(&other).wait().unwrap()).collect();
        while random.one_in(2) {
            reads.pop();
            assert_eq!((lock.readers() as usize, lock.writes()), (strangers.len(), 0));
        }
        while random.one_in(2) {
            writes.pop();
        }
        strangers.clear();
        let comes_back = random.one_in(3);
        if comes_back {
            assert!(condition.signal(&lock.try_write_as(&other).unwrap()));
            writes.push(waiting.expect_ready());
            let held = (lock.readers() as usize, lock.writes() as usize);
            assert_eq!(held, (reads.len(), writes.len()), "seed {seed}");
        }
        drop(waiting);
        let held = (lock.readers() as usize, lock.writes() as usize);
        assert_eq!(held, if comes_back { (reads.len(), writes.len()) } else { (0, 0) });
        let new = if comes_back { None } else { Some(lock.write_as(&me).wait().unwrap()) };
        drop((reads, writes));
        assert_eq!((lock.readers(), lock.writes()), (0, u32::from(new.is_some())), "seed {seed}");
        drop(new);
        assert!(lock.try_write().is_some());
    }
}

/// One guard is dropped on another thread while its owner begins to wait, waits, or comes back with the
/// other: whichever comes first, no hold is left.
#[test]
fn a_guard_that_is_dropped_at_any_moment_of_a_wait_leaves_no_hold() {
    let (lock, condition) = lock();
    for round in 0..2000 {
        let key = OwnerKey::new();
        let [dropped, waits] = [(); 2].map(|()| lock.lock_as(&key).wait().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(move || drop(dropped));
            let waiter = scope.spawn(|| {
                let limit = if round % 4 == 0 { Duration::ZERO } else { Duration::from_secs(60) };
                match condition.wait(waits).timeout(limit).wait() {
                    Ok(guard) => drop(guard),
                    Err(interrupted) => drop(interrupted.guard),
                }
            });
            while !waiter.is_finished() {
                if let Some(guard) = lock.try_lock() {
                    condition.signal(&guard);
                }
                std::thread::yield_now();
            }
        });
        assert_eq!((lock.holds(), condition.waiters()), (0, 0), "round {round}");
    }
}

type Bag = Mutex<Vec<OwnedKeyGuard<AtomicUsize>>>;

/// What threads that share some keys and a bag of guards do at random: take a guard, drop any
/// guard, wait with any guard, signal with any guard. To use a guard whose hold is away is refused.
fn share(
    lock: &Arc<Lock>,
    condition: &ReentrantCondition,
    keys: &[OwnerKey],
    bag: &Bag,
    mut random: Random,
) {
    for _ in 0..60 {
        let key = &keys[random.below(keys.len() as u32) as usize];
        let any = |random: &mut Random| {
            let mut bag = bag.lock().unwrap();
            let number = bag.len() as u32;
            (number > 0).then(|| bag.swap_remove(random.below(number) as usize))
        };
        // Who is signalled waits for the lock to be released, also by its own owner.
        let what = random.below(if keys.len() == 1 { 6 } else { 8 });
        if what < 2 {
            let limit = Duration::from_micros(200);
            let guard = lock.lock_owned_as(key).timeout(limit).wait();
            bag.lock().unwrap().extend(guard);
            continue;
        }
        let Some(guard) = any(&mut random) else { continue };
        let limit = Duration::from_micros(u64::from(random.below(300)));
        let used = catch_unwind(AssertUnwindSafe(|| match what {
            2 | 3 => None,
            4 | 5 => Some(match condition.wait(guard).timeout(limit).wait() {
                Ok(guard) => guard,
                Err(interrupted) => interrupted.guard,
            }),
            6 => {
                condition.signal_and_leave(guard);
                None
            }
            _ => {
                condition.broadcast(&guard);
                Some(guard)
            }
        }));
        match used {
            Ok(guard) => bag.lock().unwrap().extend(guard.filter(|_| random.one_in(2))),
            Err(panic) => {
                let text = message_of(&*panic);
                assert!(text.contains("waits with another"), "{text}");
            }
        }
    }
}

/// Several threads use one key, or two, at once: guards are taken, dropped and waited with at any
/// moment. When the waits are over, one key alone holds the lock exactly as often as it has guards;
/// and when the guards are gone, too, nothing is held.
#[test]
fn keys_that_threads_share_hold_no_more_than_their_guards() {
    for round in 1..=150 {
        for keys in [1, 2] {
            let lock = Arc::new(ReentrantLock::new(AtomicUsize::new(0)));
            let condition = leaked(ReentrantCondition::new());
            let keys: &[OwnerKey] = leaked((0..keys).map(|_| OwnerKey::new()).collect::<Vec<_>>());
            let bag: &Bag = leaked(Bag::default());
            let threads = [1, 2, 3, 4].map(|thread| {
                let (lock, random) = (Arc::clone(&lock), Random::new(round * 8 + thread));
                Waiter::on_a_thread(move || {
                    share(&lock, condition, keys, bag, random);
                    // The waits of others want the lock.
                    if keys.len() > 1 {
                        while bag.lock().unwrap().pop().is_some() {}
                    }
                })
            });
            threads.into_iter().for_each(Waiter::join);
            if keys.len() > 1 {
                bag.lock().unwrap().clear();
            }
            let mut guards = std::mem::take(&mut *bag.lock().unwrap());
            loop {
                assert_eq!(lock.holds() as usize, guards.len(), "round {round}");
                if guards.pop().is_none() {
                    break;
                }
            }
            assert_eq!((lock.waiters(), condition.waiters()), (0, 0), "round {round}");
        }
    }
}

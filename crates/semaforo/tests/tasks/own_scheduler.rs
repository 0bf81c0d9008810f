//! Schedulers of the user's own: whatever they do with what they are given, joiners are answered.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::support::{Random, Tally, watched};
use semaforo::CancelSource;
use semaforo::tasks::{
    JoinError, Limited, Pool, Runnable, Scheduled, Scheduler, Spawn, Spawner, when_all, yield_now,
};

/// Keeps everything, until it is told what to do with it.
#[derive(Clone, Default)]
struct Keeping(Arc<Mutex<VecDeque<Runnable>>>);

impl Scheduler for Keeping {
    fn enqueue(&self, runnable: Runnable) {
        self.0.lock().unwrap().push_back(runnable);
    }

    fn scheduled(&self) -> Vec<Scheduled> {
        self.0.lock().unwrap().iter().filter_map(Scheduled::of).collect()
    }

    fn normal_level(&self) -> u32 {
        3
    }
}

impl Keeping {
    fn next(&self) -> Option<Runnable> {
        self.0.lock().unwrap().pop_front()
    }

    fn run_all(&self) {
        while let Some(runnable) = self.next() {
            runnable.run();
        }
    }
}

#[test]
fn a_runnable_says_what_it_is() {
    let keeping = Keeping::default();
    let plain = keeping.spawn(|| 1);
    let other = Spawner::on(&keeping).at(70).fair().long_running().label("the other");
    let other = other.spawn_future(async { 2 });
    let ids: Vec<_> = keeping.scheduled().iter().map(|task| (task.id, task.level)).collect();
    assert_eq!(ids, [(plain.id(), 3), (other.id(), 70)]);
    let runnable = keeping.next().unwrap();
    assert_eq!((runnable.id(), runnable.level()), (plain.id(), 3));
    assert!(!runnable.is_fair() && !runnable.is_long_running() && !runnable.is_cancelled());
    assert_eq!(runnable.label(), None);
    runnable.run();
    assert_eq!(plain.wait().unwrap(), 1);
    let runnable = keeping.next().unwrap();
    assert!(runnable.is_fair() && runnable.is_long_running());
    assert_eq!(runnable.label(), Some("the other"));
    assert_eq!(Scheduled::of(&runnable).unwrap().label.as_deref(), Some("the other"));
    assert!(format!("{runnable:?}").contains("70"));
    other.cancel();
    assert!(runnable.is_cancelled() && Scheduled::of(&runnable).is_none());
    runnable.run();
    assert!(matches!(other.wait(), Err(JoinError::Cancelled)));
}

#[test]
fn a_runnable_has_the_label_of_what_was_started() {
    let keeping = Keeping::default();
    let start = || keeping.at(3).label("number three");
    let (closure, future) = (start().spawn(|| 1), start().spawn_future(async { 2 }));
    start().execute(|| ());
    for _ in 0..3 {
        let runnable = keeping.next().unwrap();
        assert_eq!(runnable.label(), Some("number three"));
        runnable.run();
    }
    assert_eq!((closure.wait().unwrap(), future.wait().unwrap()), (1, 2));
}

#[test]
fn what_is_dropped_is_cancelled() {
    watched(|| {
        #[derive(Clone)]
        struct Dropping;
        impl Scheduler for Dropping {
            fn enqueue(&self, runnable: Runnable) {
                drop(runnable);
            }
        }
        let tally = Tally::new();
        let (value, other) = (tally.make(), tally.make());
        let closure = Dropping.spawn(move || drop(value));
        let future = Dropping.spawn_future(async move { drop(other) });
        let value = tally.make();
        Dropping.execute(move || panic!("{value:?}"));
        tally.expect_all_dropped();
        assert!(matches!(closure.wait(), Err(JoinError::Cancelled)));
        assert!(matches!(future.wait(), Err(JoinError::Cancelled)));
        let then = Pool::global().spawn(|| 1).then(&Dropping, |_| ());
        assert!(matches!(then.wait(), Err(JoinError::Cancelled)));
        let limited = Limited::new(Dropping, 1);
        assert!(matches!(limited.spawn(|| ()).wait(), Err(JoinError::Cancelled)));
        assert!(matches!(limited.spawn_future(async {}).wait(), Err(JoinError::Cancelled)));
    });
}

/// A future that was polled already, and is not wanted when it is woken.
#[test]
fn what_is_dropped_later_is_cancelled_too() {
    watched(|| {
        let (keeping, tally) = (Keeping::default(), Tally::new());
        let value = tally.make();
        let yields = keeping.spawn_future(async move {
            let _value = value;
            yield_now().await;
        });
        let (value, (sender, receiver)) =
            (tally.make(), futures::channel::oneshot::channel::<()>());
        let waits = keeping.spawn_future(async move {
            let _value = value;
            receiver.await.unwrap();
        });
        for _ in 0..2 {
            keeping.next().unwrap().run();
        }
        assert_eq!(tally.dropped(), []);
        drop(keeping.next().unwrap());
        assert!(matches!(yields.wait(), Err(JoinError::Cancelled)));
        sender.send(()).unwrap();
        drop(keeping.next().unwrap());
        assert!(matches!(waits.wait(), Err(JoinError::Cancelled)));
        tally.expect_all_dropped();
    });
}

/// In any order, from any thread, some of them never: each is answered once.
#[test]
fn runnables_are_run_in_any_order_on_any_thread() {
    watched(|| {
        #[derive(Clone)]
        struct Shuffling(mpsc::Sender<Runnable>);
        impl Scheduler for Shuffling {
            fn enqueue(&self, runnable: Runnable) {
                self.0.send(runnable).unwrap();
            }
        }
        const TASKS: usize = 1000;
        let (sender, receiver) = mpsc::channel();
        let (tally, ran) = (Tally::new(), Arc::new(AtomicUsize::new(0)));
        let shuffling = Shuffling(sender);
        let runner = thread::spawn(move || {
            let mut random = Random::new(11);
            let mut kept = Vec::new();
            let mut dropped = 0;
            while let Ok(runnable) = receiver.recv() {
                kept.push(runnable);
                kept.extend(receiver.try_iter().take(random.below(50) as usize));
                while kept.len() > random.below(20) as usize {
                    let runnable = kept.swap_remove(random.below(kept.len() as u32) as usize);
                    if random.one_in(10) {
                        dropped += 1;
                        drop(runnable);
                    } else {
                        runnable.run();
                    }
                }
                if kept.is_empty() {
                    continue;
                }
                kept.drain(..).for_each(Runnable::run);
            }
            dropped
        });
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (value, ran) = (tally.make(), Arc::clone(&ran));
                if task % 2 == 0 {
                    return shuffling.spawn(move || {
                        drop(value);
                        ran.fetch_add(1, Ordering::SeqCst);
                    });
                }
                shuffling.spawn_future(async move {
                    yield_now().await;
                    drop(value);
                    ran.fetch_add(1, Ordering::SeqCst);
                })
            })
            .collect();
        let outcomes = when_all(tasks).wait().unwrap();
        let finished = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        drop(shuffling);
        let dropped: usize = runner.join().unwrap();
        assert_eq!(outcomes.len(), TASKS);
        assert_eq!((finished, finished + dropped), (ran.load(Ordering::SeqCst), TASKS));
        tally.expect_all_dropped();
    });
}

#[test]
fn schedulers_can_be_shared_and_unnamed() {
    watched(|| {
        let keeping = Keeping::default();
        let unnamed: Arc<dyn Scheduler> = Arc::new(keeping.clone());
        let (one, other) = (unnamed.spawn(|| 1), unnamed.spawn_future(async { 2 }));
        let shared = Arc::new(keeping.clone());
        let stop = CancelSource::new();
        let third = (&&*shared).at(1).cancel_on(&stop.token()).spawn(|| 3);
        let then = one.then(&shared, |n| n.unwrap() + 10);
        assert_eq!((unnamed.normal_level(), unnamed.concurrency()), (3, usize::MAX));
        assert_eq!(unnamed.scheduled().len(), 4);
        keeping.run_all();
        assert_eq!(
            (then.wait().unwrap(), other.wait().unwrap(), third.wait().unwrap()),
            (11, 2, 3)
        );
    });
}

/// A pool behind another scheduler is not asked to run what it waits for, so nothing runs out of turn.
#[test]
fn a_pool_can_be_wrapped() {
    watched(|| {
        #[derive(Clone)]
        struct Counting(Pool, Arc<AtomicUsize>);
        impl Scheduler for Counting {
            fn enqueue(&self, runnable: Runnable) {
                self.1.fetch_add(1, Ordering::SeqCst);
                self.0.enqueue(runnable);
            }
            fn concurrency(&self) -> usize {
                self.0.concurrency()
            }
            fn on_pool(&self) -> Option<&Pool> {
                Some(&self.0)
            }
        }
        let pool = Pool::builder().threads(1).build().unwrap();
        let counting = Counting(pool.clone(), Arc::default());
        let inside = counting.clone();
        let sum = counting.spawn(move || {
            let child = inside.at(9).spawn(|| 40);
            child.wait().unwrap() + inside.spawn_future(async { 2 }).wait().unwrap()
        });
        assert_eq!(sum.wait().unwrap(), 42);
        assert_eq!(counting.1.load(Ordering::SeqCst), 3);
        assert_eq!(Limited::new(counting, 5).concurrency(), 1);
    });
}

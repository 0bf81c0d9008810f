//! Operations of which two cannot wait beside each other, or that are no requests, behind one face.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::{Duration, Instant};

use semaforo::tasks::{Handle, Mode, Pool, Shutdown};
use semaforo::{
    Barrier, BlockingQueue, CancelSource, CancelToken, Condition, Exchanger, Interrupted, Mutex,
    OwnerKey, Phaser, ReentrantCondition, ReentrantLock, RwLock, WriteCondition,
};

use crate::subjects::{Ended, Failure, ended};
use crate::support::{Door, LONG, eventually, pool};

/// The bounds of one wait: all of them, of which most never end it.
#[derive(Clone)]
pub(crate) struct Bounds {
    pub(crate) timeout: Duration,
    pub(crate) deadline: Instant,
    pub(crate) token: CancelToken,
}

impl Bounds {
    /// Those that never end it.
    pub(crate) fn none() -> Self {
        let token = CancelSource::new().token();
        Self { timeout: Duration::MAX, deadline: Instant::now() + LONG, token }
    }
}

pub(crate) type Task = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// An object, and the operation that waits for it.
pub(crate) trait Loner: Send + Sync + 'static {
    /// Whether what is waited for can be there before it is waited for.
    const CAN_BE_THERE_BEFORE: bool;

    /// With nothing there.
    fn new() -> Self;
    fn wait(&'static self, bounds: Bounds) -> Ended;
    fn task(&'static self, bounds: Bounds) -> Task;
    /// Lets the one who waits through.
    fn provide(&'static self);
    /// How many are seen to wait, if that can be seen.
    fn waiters(&self) -> Option<usize>;
}

/// Declares one: its object, what is there before, how it is made, asked for, and provided.
macro_rules! loner {
    (
        $name:ident: $object:ty, there before: $before:expr;
        new: $new:expr;
        ask: |$own:ident| $ask:expr;
        provide: $provide:expr;
        waiters: $waiters:expr;
    ) => {
        pub(crate) struct $name($object);

        impl Loner for $name {
            const CAN_BE_THERE_BEFORE: bool = $before;

            fn new() -> Self {
                Self($new)
            }

            fn wait(&'static self, bounds: Bounds) -> Ended {
                let $own = &self.0;
                let timed = $ask.timeout(bounds.timeout).deadline(bounds.deadline);
                ended(timed.cancel_on(&bounds.token).wait())
            }

            fn task(&'static self, bounds: Bounds) -> Task {
                let $own = &self.0;
                let timed = $ask.timeout(bounds.timeout).deadline(bounds.deadline);
                let request = timed.cancel_on(&bounds.token);
                Box::pin(async move { ended(request.await) })
            }

            fn provide(&'static self) {
                let provide: fn(&'static $object) = $provide;
                provide(&self.0);
            }

            fn waiters(&self) -> Option<usize> {
                let waiters: fn(&$object) -> Option<usize> = $waiters;
                waiters(&self.0)
            }
        }
    };
}

impl<G> From<Interrupted<G>> for Failure {
    fn from(interrupted: Interrupted<G>) -> Self {
        interrupted.why.into()
    }
}

/// The other party, which waits if it is the first.
fn meet<T: Sync>(object: &'static T, other: fn(&'static T), waiters: fn(&T) -> usize) {
    if waiters(object) > 0 {
        return other(object);
    }
    std::thread::spawn(move || other(object));
    eventually("the other party waits", || waiters(object) == 1);
}

loner! {
    Arrive: Barrier, there before: true;
    new: Barrier::new(2);
    ask: |barrier| barrier.arrive();
    provide: |barrier| meet(barrier, |barrier| _ = barrier.arrive().wait(), Barrier::waiters);
    waiters: |barrier| Some(barrier.waiters());
}

loner! {
    Exchange: Exchanger<u32>, there before: true;
    new: Exchanger::new();
    ask: |exchanger| exchanger.exchange(7);
    provide: |exchanger| {
        meet(exchanger, |exchanger| _ = exchanger.exchange(1).wait(), Exchanger::waiters);
    };
    waiters: |exchanger| Some(exchanger.waiters());
}

loner! {
    ArriveAndWait: Phaser, there before: false;
    new: Phaser::new(2);
    ask: |phaser| phaser.arrive_and_wait();
    provide: |phaser| _ = phaser.arrive();
    waiters: |phaser| Some(phaser.waiters());
}

loner! {
    Wait: (Mutex<()>, Condition), there before: false;
    new: (Mutex::new(()), Condition::new());
    ask: |own| own.1.wait(own.0.lock().wait());
    provide: |(lock, condition)| _ = condition.signal(&lock.lock().wait());
    waiters: |(_, condition)| Some(condition.waiters());
}

loner! {
    WaitWhile: (Mutex<bool>, Condition), there before: true;
    new: (Mutex::new(true), Condition::new());
    ask: |own| own.1.wait_while(own.0.lock().wait(), |not_yet| *not_yet);
    provide: |(lock, condition)| {
        let mut guard = lock.lock().wait();
        *guard = false;
        condition.signal(&guard);
    };
    waiters: |(_, condition)| Some(condition.waiters());
}

loner! {
    WaitForKey: (ReentrantLock<()>, ReentrantCondition), there before: false;
    new: (ReentrantLock::new(()), ReentrantCondition::new());
    ask: |own| own.1.wait(own.0.lock_as(&OwnerKey::new()).wait().unwrap());
    provide: |(lock, condition)| {
        condition.signal(&lock.lock_as(&OwnerKey::new()).wait().unwrap());
    };
    waiters: |(_, condition)| Some(condition.waiters());
}

/// A task that has begun, and goes on when its door is opened.
pub(crate) struct Begun {
    pool: Pool,
    door: Arc<Door>,
    handle: StdMutex<Option<Handle<u32>>>,
}

impl Begun {
    fn new() -> Self {
        let (pool, door) = (pool(Mode::Stealing, 1), Door::new());
        let closed = Arc::clone(&door);
        let handle = pool.spawn(move || {
            closed.pass();
            7
        });
        Self { pool, door, handle: StdMutex::new(Some(handle)) }
    }

    fn take(&self) -> Handle<u32> {
        self.handle.lock().unwrap().take().expect("asked once")
    }
}

loner! {
    Join: Begun, there before: false;
    new: Begun::new();
    ask: |begun| begun.take();
    provide: |begun| begun.door.open();
    waiters: |_| None;
}

loner! {
    Finished: (Begun, Handle<u32>), there before: true;
    new: {
        let begun = Begun::new();
        let handle = begun.take();
        (begun, handle)
    };
    ask: |own| own.1.finished();
    provide: |(begun, handle)| {
        begun.door.open();
        handle.finished().wait();
    };
    waiters: |_| None;
}

loner! {
    Leave: Begun, there before: false;
    new: Begun::new();
    ask: |begun| begun.pool.shutdown(Shutdown::Drain);
    provide: |begun| begun.door.open();
    waiters: |_| None;
}

loner! {
    TakeBatch: BlockingQueue<u32>, there before: true;
    new: BlockingQueue::bounded(3);
    ask: |queue| queue.take_batch(2, Duration::ZERO);
    provide: |queue| queue.try_put(1).unwrap();
    waiters: |queue| Some(queue.waiters());
}

loner! {
    TakeAny: [BlockingQueue<u32>; 2], there before: true;
    new: [BlockingQueue::bounded(1), BlockingQueue::bounded(1)];
    ask: |queues| BlockingQueue::take_any([&queues[0], &queues[1]]);
    provide: |queues| queues[1].try_put(1).unwrap();
    waiters: |queues| Some(queues[0].waiters());
}

loner! {
    PutAny: [BlockingQueue<u32>; 2], there before: true;
    new: {
        let queues = [BlockingQueue::bounded(1), BlockingQueue::bounded(1)];
        queues.iter().for_each(|queue| queue.try_put(1).unwrap());
        queues
    };
    ask: |queues| BlockingQueue::put_any([&queues[0], &queues[1]], 7);
    provide: |queues| _ = queues[1].try_take().unwrap();
    waiters: |queues| Some(queues[0].waiters());
}

loner! {
    WaitToWrite: (RwLock<()>, WriteCondition), there before: false;
    new: (RwLock::new(()), WriteCondition::new());
    ask: |own| own.1.wait(own.0.write().wait());
    provide: |(lock, condition)| _ = condition.signal(&lock.write().wait());
    waiters: |(_, condition)| Some(condition.waiters());
}

loner! {
    WaitByPriority: (Mutex<()>, Condition), there before: false;
    new: (Mutex::new(()), Condition::new());
    ask: |own| own.1.wait_by(own.0.lock().wait(), 3);
    provide: |(lock, condition)| _ = condition.signal(&lock.lock().wait());
    waiters: |(_, condition)| Some(condition.waiters());
}

//! Every operation that may wait, behind one face.

use std::sync::Mutex as StdMutex;

use semaforo::policy::Exclusive;
use semaforo::request::{Limited, Operation, Output};
use semaforo::sync::reentrant::{Anywhere, OnThisThread};
use semaforo::sync::reentrant_rwlock::{ReadEntry, WriteEntry, WriteHold};
use semaforo::{
    AutoEvent, BlockingQueue, CancelSource, CancelToken, Event, Latch, Mutex, OwnerKey, Parker,
    Phaser, Promise, ReentrantLock, ReentrantRwLock, Rejected, Request, RwLock, Semaphore,
    Synchronizer, SynchronousQueue, TransferQueue, WaitError,
};

use crate::support::{Kind, Queued, Waiter, eventually, leaked};

/// How a bounded wait ended.
pub(crate) type Ended = Result<(), Failure>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Refused,
    Cancelled,
    TimedOut,
}

/// Something that is not to be had yet, and the operation that waits for it.
pub(crate) trait Subject: Copy + Send + Sync + 'static {
    type Operation: Operation + 'static;

    fn unavailable() -> Self;
    fn request(self) -> Request<Self::Operation>;
    /// Lets one waiter through, or all of them.
    fn provide(self);
    fn queued(self) -> usize;
    /// What must be as before when nothing was granted.
    fn available(self) -> u64;

    /// Waits with bounds, and lets go at once of what it gets.
    fn start<B>(self, kind: Kind, bound: B) -> Waiter<Ended>
    where
        B: FnOnce(Request<Self::Operation>) -> Request<Self::Operation, Limited> + Send + 'static;

    /// What came of a wait with bounds.
    fn ended(output: Output<Self::Operation, Limited>) -> Ended;

    /// Waits without bounds.
    fn start_unbounded(self, kind: Kind) -> Waiter<()>;
}

pub(crate) fn ended<G, E: Into<Failure>>(output: Result<G, E>) -> Ended {
    output.map(drop).map_err(Into::into)
}

impl<R> From<WaitError<R>> for Failure {
    fn from(error: WaitError<R>) -> Self {
        match error {
            WaitError::Refused(_) => Self::Refused,
            WaitError::Cancelled => Self::Cancelled,
            WaitError::TimedOut => Self::TimedOut,
        }
    }
}

/// Whoever brings an item and fails has it back: all of them bring a seven.
impl<R> From<Rejected<u32, WaitError<R>>> for Failure {
    fn from(rejected: Rejected<u32, WaitError<R>>) -> Self {
        assert_eq!(rejected.item, 7);
        rejected.why.into()
    }
}

/// `drop`, but without a warning when there is nothing to drop.
fn let_go<T>(_: T) {}

/// Declares a subject: the object's type, what is held of it at first, the operation, and how the
/// object is made, asked, provided for and looked at.
macro_rules! subject {
    (
        $name:ident($start:ident): $object:ty, $operation:ty;
        new: $new:expr;
        ask: $ask:expr;
        provide: $provide:expr;
        available: $available:expr;
    ) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name(&'static $object);

        impl Subject for $name {
            type Operation = $operation;

            fn unavailable() -> Self {
                let make: fn() -> $object = $new;
                Self(leaked(make()))
            }

            fn request(self) -> Request<$operation> {
                let ask: fn(&'static $object) -> Request<$operation> = $ask;
                ask(self.0)
            }

            fn provide(self) {
                let provide: fn(&'static $object) = $provide;
                provide(self.0);
            }

            fn queued(self) -> usize {
                Queued::queued(self.0)
            }

            fn available(self) -> u64 {
                let available: fn(&'static $object) -> u64 = $available;
                available(self.0)
            }

            fn start<B>(self, kind: Kind, bound: B) -> Waiter<Ended>
            where
                B: FnOnce(Request<$operation>) -> Request<$operation, Limited> + Send + 'static,
            {
                $start!(kind, bound(self.request()), |output| ended(output))
            }

            fn ended(output: Output<$operation, Limited>) -> Ended {
                ended(output)
            }

            fn start_unbounded(self, kind: Kind) -> Waiter<()> {
                $start!(kind, self.request(), |output| let_go(output))
            }
        }
    };
}

/// The request is made here and sent to its waiter.
macro_rules! sent {
    ($kind:expr, $request:expr, $then:expr) => {
        Waiter::start_then($kind, $request, $then)
    };
}

/// The request is made where it is waited on, because it cannot be sent.
macro_rules! made_there {
    ($kind:expr, $request:expr, $then:expr) => {
        Waiter::start_there($kind, move || $request, $then)
    };
}

/// An object, and a guard of it that is let go to provide it.
pub(crate) struct Holding<T: 'static, G> {
    object: &'static T,
    guard: StdMutex<Option<G>>,
}

impl<T, G> Holding<T, G> {
    fn new(object: T, hold: impl FnOnce(&'static T) -> G) -> Self {
        let object = leaked(object);
        Self { object, guard: StdMutex::new(Some(hold(object))) }
    }

    /// Does nothing the second time: whoever got it let go of it.
    fn let_go(&self) {
        let guard = self.guard.lock().unwrap().take();
        drop(guard);
    }
}

impl<T: Queued, G> Queued for Holding<T, G> {
    fn queued(&self) -> usize {
        self.object.queued()
    }
}

type MutexHolding = Holding<Mutex<()>, semaforo::MutexGuard<'static, ()>>;
type ReadHolding = Holding<RwLock<()>, semaforo::RwLockReadGuard<'static, ()>>;
type WriteHolding = Holding<RwLock<()>, semaforo::RwLockWriteGuard<'static, ()>>;
type KeyHolding = Holding<ReentrantLock<()>, semaforo::sync::reentrant::KeyGuard<'static, ()>>;
type KeyWriteHolding =
    Holding<ReentrantRwLock<()>, WriteHold<&'static ReentrantRwLock<()>, Anywhere>>;
type OwnHolding =
    Holding<Synchronizer<Exclusive>, semaforo::Held<&'static Synchronizer<Exclusive>>>;

subject! {
    Acquire(sent): Semaphore, semaforo::sync::semaphore::Acquire<&'static Semaphore>;
    new: || Semaphore::new(0);
    ask: |semaphore| semaphore.acquire(1);
    provide: |semaphore| semaphore.release(1).unwrap();
    available: |semaphore| semaphore.available().into();
}

subject! {
    BargingAcquire(sent): Semaphore, semaforo::sync::semaphore::Acquire<&'static Semaphore>;
    new: || Semaphore::barging(0);
    ask: |semaphore| semaphore.acquire(1);
    provide: |semaphore| semaphore.release(1).unwrap();
    available: |semaphore| semaphore.available().into();
}

subject! {
    Lock(sent): MutexHolding, semaforo::sync::mutex::Lock<&'static Mutex<()>>;
    new: || Holding::new(Mutex::new(()), |lock| lock.lock().wait());
    ask: |holding| holding.object.lock();
    provide: |holding| holding.let_go();
    available: |holding| holding.object.available().into();
}

subject! {
    BargingLock(sent): MutexHolding, semaforo::sync::mutex::Lock<&'static Mutex<()>>;
    new: || Holding::new(Mutex::barging(()), |lock| lock.lock().wait());
    ask: |holding| holding.object.lock();
    provide: |holding| holding.let_go();
    available: |holding| holding.object.available().into();
}

subject! {
    Read(sent): WriteHolding, semaforo::sync::rwlock::Read<&'static RwLock<()>>;
    new: || Holding::new(RwLock::new(()), |lock| lock.write().wait());
    ask: |holding| holding.object.read();
    provide: |holding| holding.let_go();
    available: |holding| holding.object.available().into();
}

subject! {
    Write(sent): ReadHolding, semaforo::sync::rwlock::Write<&'static RwLock<()>>;
    new: || Holding::new(RwLock::new(()), |lock| lock.read().wait());
    ask: |holding| holding.object.write();
    provide: |holding| holding.let_go();
    available: |holding| holding.object.available().into();
}

subject! {
    BargingWrite(sent): ReadHolding, semaforo::sync::rwlock::Write<&'static RwLock<()>>;
    new: || Holding::new(RwLock::barging(()), |lock| lock.read().wait());
    ask: |holding| holding.object.write();
    provide: |holding| holding.let_go();
    available: |holding| holding.object.available().into();
}

subject! {
    BargingRead(sent): WriteHolding, semaforo::sync::rwlock::Read<&'static RwLock<()>>;
    new: || Holding::new(RwLock::barging(()), |lock| lock.write().wait());
    ask: |holding| holding.object.read();
    provide: |holding| holding.let_go();
    available: |holding| holding.object.available().into();
}

/// How often such a lock is held, for reading and for writing.
fn holds(holding: &KeyWriteHolding) -> u64 {
    u64::from(holding.object.readers()) << 32 | u64::from(holding.object.writes())
}

fn held_for_writing() -> KeyWriteHolding {
    Holding::new(ReentrantRwLock::new(()), |lock| lock.write_as(&OwnerKey::new()).wait().unwrap())
}

subject! {
    ReadForThread(made_there): KeyWriteHolding,
        ReadEntry<&'static ReentrantRwLock<()>, OnThisThread>;
    new: held_for_writing;
    ask: |holding| holding.object.read();
    provide: |holding| holding.let_go();
    available: |holding| holds(holding);
}

subject! {
    ReadForKey(sent): KeyWriteHolding, ReadEntry<&'static ReentrantRwLock<()>, Anywhere>;
    new: held_for_writing;
    ask: |holding| holding.object.read_as(&OwnerKey::new());
    provide: |holding| holding.let_go();
    available: |holding| holds(holding);
}

subject! {
    WriteForThread(made_there): KeyWriteHolding,
        WriteEntry<&'static ReentrantRwLock<()>, OnThisThread>;
    new: held_for_writing;
    ask: |holding| holding.object.write();
    provide: |holding| holding.let_go();
    available: |holding| holds(holding);
}

subject! {
    WriteForKey(sent): KeyWriteHolding, WriteEntry<&'static ReentrantRwLock<()>, Anywhere>;
    new: held_for_writing;
    ask: |holding| holding.object.write_as(&OwnerKey::new());
    provide: |holding| holding.let_go();
    available: |holding| holds(holding);
}

subject! {
    LockForThread(made_there): KeyHolding,
        semaforo::sync::reentrant::Reenter<
            &'static ReentrantLock<()>, OnThisThread>;
    new: || Holding::new(ReentrantLock::new(()), |lock| {
        lock.lock_as(&OwnerKey::new()).wait().unwrap()
    });
    ask: |holding| holding.object.lock();
    provide: |holding| holding.let_go();
    available: |holding| holding.object.holds().into();
}

subject! {
    LockForKey(sent): KeyHolding,
        semaforo::sync::reentrant::Reenter<
            &'static ReentrantLock<()>, Anywhere>;
    new: || Holding::new(ReentrantLock::new(()), |lock| {
        lock.lock_as(&OwnerKey::new()).wait().unwrap()
    });
    ask: |holding| holding.object.lock_as(&OwnerKey::new());
    provide: |holding| holding.let_go();
    available: |holding| holding.object.holds().into();
}

subject! {
    Opened(sent): Latch, semaforo::request::Passing<'static, semaforo::policy::CountdownPolicy>;
    new: || Latch::new(1);
    ask: |latch| latch.opened();
    provide: |latch| let_go(latch.count_down());
    available: |latch| latch.count().into();
}

subject! {
    Happened(sent): Event, semaforo::request::Passing<'static, semaforo::policy::Gate>;
    new: Event::new;
    ask: |event| event.happened();
    provide: |event| event.set();
    available: |event| event.available().into();
}

subject! {
    Signalled(sent): AutoEvent, semaforo::request::Passing<'static, semaforo::policy::SignalPolicy>;
    new: AutoEvent::new;
    ask: |event| event.happened();
    provide: |event| event.set();
    available: |event| event.available().into();
}

subject! {
    Get(sent): Promise<u32, ()>, semaforo::sync::promise::Get<'static, u32, ()>;
    new: Promise::new;
    ask: |promise| promise.get();
    provide: |promise| let_go(promise.set(1));
    available: |promise| promise.available().into();
}

subject! {
    Advanced(sent): Phaser, semaforo::sync::phaser::Advanced<&'static Phaser>;
    new: || Phaser::new(1);
    ask: |phaser| phaser.advanced(0);
    provide: |phaser| let_go(phaser.arrive());
    available: |phaser| phaser.phase().into();
}

subject! {
    Park(sent): Parker, semaforo::request::Passing<'static, semaforo::policy::SignalPolicy>;
    new: Parker::new;
    ask: |parker| parker.park();
    provide: |parker| parker.unpark();
    available: |parker| parker.available().into();
}

/// A source and its token.
pub(crate) struct Cancellation(CancelSource, CancelToken);

impl Queued for Cancellation {
    fn queued(&self) -> usize {
        self.1.registrations()
    }
}

subject! {
    Cancelled(sent): Cancellation, semaforo::request::Passing<'static, semaforo::policy::Gate>;
    new: || {
        let source = CancelSource::new();
        let token = source.token();
        Cancellation(source, token)
    };
    ask: |cancellation| cancellation.1.cancelled();
    provide: |cancellation| cancellation.0.cancel();
    available: |cancellation| cancellation.1.is_cancelled().into();
}

subject! {
    Own(sent): OwnHolding, semaforo::request::Acquiring<&'static Synchronizer<Exclusive>>;
    new: || {
        let state = Exclusive::initial(false);
        Holding::new(Synchronizer::new(Exclusive, state), |own| own.acquire(()).wait())
    };
    ask: |holding| holding.object.acquire(());
    provide: |holding| holding.let_go();
    available: |holding| holding.object.state();
}

/// A queue that these have filled.
fn filled(queue: BlockingQueue<u32>) -> BlockingQueue<u32> {
    while queue.try_put(0).is_ok() {}
    queue
}

subject! {
    Take(sent): BlockingQueue<u32>,
        semaforo::queue::blocking::Take<&'static BlockingQueue<u32>>;
    new: || BlockingQueue::bounded(1);
    ask: |queue| queue.take();
    provide: |queue| queue.try_put(1).unwrap();
    available: |queue| queue.len() as u64;
}

subject! {
    TakeUnbounded(sent): BlockingQueue<u32>,
        semaforo::queue::blocking::Take<&'static BlockingQueue<u32>>;
    new: BlockingQueue::unbounded;
    ask: |queue| queue.take();
    provide: |queue| queue.try_put(1).unwrap();
    available: |queue| queue.len() as u64;
}

// What is put cannot be passed on, hence room for all who wait.
subject! {
    Put(sent): BlockingQueue<u32>, semaforo::queue::blocking::Put<&'static BlockingQueue<u32>>;
    new: || filled(BlockingQueue::bounded(3));
    ask: |queue| queue.put(7);
    provide: |queue| let_go(queue.drain());
    available: |queue| queue.remaining().unwrap() as u64;
}

subject! {
    PutByPriority(sent): BlockingQueue<u32>,
        semaforo::queue::blocking::Put<&'static BlockingQueue<u32>>;
    new: || {
        let builder = BlockingQueue::builder().capacity(3);
        filled(builder.by_priority(|item: &u32| *item).build())
    };
    ask: |queue| queue.put(7);
    provide: |queue| let_go(queue.drain());
    available: |queue| queue.remaining().unwrap() as u64;
}

subject! {
    Receive(sent): TransferQueue<u32>,
        semaforo::queue::Receive<&'static TransferQueue<u32>>;
    new: TransferQueue::new;
    ask: |queue| queue.take();
    provide: |queue| queue.put(1).unwrap();
    available: |queue| queue.len() as u64;
}

// Takes the messages of all who wait; if there are none, somebody is there for the next one.
subject! {
    Transfer(sent): TransferQueue<u32>,
        semaforo::queue::Transfer<&'static TransferQueue<u32>>;
    new: TransferQueue::new;
    ask: |queue| queue.transfer(7);
    provide: |queue| {
        if queue.drain().is_empty() {
            std::thread::spawn(|| queue.take().wait());
            eventually("a taker waits", || queue.waiting_consumers() == 1);
        }
    };
    available: |queue| queue.len() as u64;
}

// Somebody is there with an item, for as long as it takes.
subject! {
    ReceiveSynchronously(sent): SynchronousQueue<u32>,
        semaforo::queue::Receive<&'static SynchronousQueue<u32>>;
    new: SynchronousQueue::new;
    ask: |queue| queue.take();
    provide: |queue| {
        if queue.try_put(1).is_err() {
            std::thread::spawn(|| queue.put(1).wait());
            eventually("a putter waits", || queue.waiting_putters() == 1);
        }
    };
    available: |queue| queue.available() as u64;
}

subject! {
    PutSynchronously(sent): SynchronousQueue<u32>,
        semaforo::queue::Transfer<&'static SynchronousQueue<u32>>;
    new: SynchronousQueue::new;
    ask: |queue| queue.put(7);
    provide: |queue| {
        if queue.drain().is_empty() {
            std::thread::spawn(|| queue.take().wait());
            eventually("a taker waits", || queue.waiting_takers() == 1);
        }
    };
    available: |queue| queue.available() as u64;
}

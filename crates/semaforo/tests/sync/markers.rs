//! What may be sent and shared, and what may be a `static`.
//!
//! `Send` and `Sync` are written by hand in places, so each direction is checked: that they are
//! there when they should be, and that they are not when they must not be.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, MutexGuard as StdGuard};

use semaforo::policy::Exclusive;
use semaforo::queue::{
    ItemStream, Items, PutAny, Receive, Receiver, Sender, TakeAny, TakeBatch, Transfer, blocking,
};
use semaforo::request::{Limited, Operation, Unlimited};
use semaforo::sync::condition::WaitFor;
use semaforo::sync::reentrant::{Anywhere, OnThisThread};
use semaforo::sync::reentrant_rwlock::{ReadEntry, ReadHold, WriteEntry, WriteHold};
use semaforo::sync::rwlock::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
use semaforo::sync::{
    WaitWhile, barrier, exchanger, mutex, phaser, promise, reentrant, rwlock, semaphore,
};
use semaforo::tasks::{
    AbortHandle, CurrentThread, Finishing, Handle, Joining, Leaving, Pool, ScopedHandle,
};
use semaforo::{
    AutoEvent, Barrier, BlockingQueue, CancelSource, CancelToken, Condition, Event, Exchanger,
    Held, Interrupted, KeyGuard, Latch, MappedGuard, MappedReadGuard, Monitor, Mutex, MutexGuard,
    OwnedMutexGuard, OwnedPermit, OwnerKey, Parker, Permit, Phaser, Promise, ReentrantCondition,
    ReentrantGuard, ReentrantLock, ReentrantMonitor, ReentrantRwLock, Rejected, Request, RwLock,
    RwLockReadGuard, RwLockWriteGuard, Semaphore, Synchronizer, SynchronousQueue, TransferQueue,
    WriteCondition,
};

/// Asks whether a type implements a marker: the inherent constant hides the trait's, if its bound
/// holds.
struct Asked<T: ?Sized>(PhantomData<T>);

trait Neither {
    const SEND: bool = false;
    const SYNC: bool = false;
    const UNPIN: bool = false;
}
impl<T: ?Sized> Neither for Asked<T> {}

impl<T: ?Sized + Send> Asked<T> {
    const SEND: bool = true;
}
impl<T: ?Sized + Sync> Asked<T> {
    const SYNC: bool = true;
}
impl<T: ?Sized + Unpin> Asked<T> {
    const UNPIN: bool = true;
}

macro_rules! check {
    ($($type:ty: $send:literal $sync:literal),* $(,)?) => {$(
        assert_eq!(
            (<Asked<$type>>::SEND, <Asked<$type>>::SYNC),
            ($send, $sync),
            "Send and Sync of {}", stringify!($type),
        );
    )*};
}

/// Both: an ordinary value.
type Plain = u32;
/// May be sent but not shared.
type SendOnly = Cell<u32>;
/// May be shared but not sent.
type SyncOnly = StdGuard<'static, u32>;
/// Neither.
type Stuck = Rc<u32>;

#[test]
fn the_kinds_of_values_are_what_they_are_called() {
    check! {
        Plain: true true,
        SendOnly: true false,
        SyncOnly: false true,
        Stuck: false false,
    }
}

#[test]
fn a_mutex_is_shared_if_its_value_can_be_sent() {
    check! {
        Mutex<Plain>: true true,
        Mutex<SendOnly>: true true,
        Mutex<SyncOnly>: false false,
        Mutex<Stuck>: false false,
        MutexGuard<'static, Plain>: true true,
        MutexGuard<'static, SendOnly>: true false,
        MutexGuard<'static, SyncOnly>: false false,
        MutexGuard<'static, Stuck>: false false,
        OwnedMutexGuard<Plain>: true true,
        OwnedMutexGuard<SendOnly>: true false,
        OwnedMutexGuard<Stuck>: false false,
    }
}

#[test]
fn a_read_write_lock_is_shared_if_its_value_can_be_sent_and_shared() {
    check! {
        RwLock<Plain>: true true,
        RwLock<SendOnly>: true false,
        RwLock<SyncOnly>: false false,
        RwLock<Stuck>: false false,
        RwLockReadGuard<'static, Plain>: true true,
        RwLockReadGuard<'static, SendOnly>: false false,
        RwLockReadGuard<'static, SyncOnly>: false false,
        RwLockReadGuard<'static, Stuck>: false false,
        RwLockWriteGuard<'static, Plain>: true true,
        RwLockWriteGuard<'static, SendOnly>: false false,
        RwLockWriteGuard<'static, SyncOnly>: false false,
        RwLockWriteGuard<'static, Stuck>: false false,
        OwnedRwLockReadGuard<Plain>: true true,
        OwnedRwLockReadGuard<SendOnly>: false false,
        OwnedRwLockWriteGuard<Plain>: true true,
        OwnedRwLockWriteGuard<SendOnly>: false false,
    }
}

#[test]
fn a_reentrant_lock_keeps_a_threads_guard_on_its_thread() {
    check! {
        ReentrantLock<Plain>: true true,
        ReentrantLock<SendOnly>: true true,
        ReentrantLock<SyncOnly>: false false,
        ReentrantLock<Stuck>: false false,
        ReentrantGuard<'static, Plain>: false false,
        ReentrantGuard<'static, SendOnly>: false false,
        KeyGuard<'static, Plain>: true true,
        reentrant::OwnedKeyGuard<Plain>: true true,
        KeyGuard<'static, Stuck>: false false,
        OwnerKey: true true,
    }
}

/// Its holds give out shared references only, writers' too.
#[test]
fn a_reentrant_read_write_lock_is_shared_if_its_value_can_be() {
    type Read<T, M> = ReadHold<&'static ReentrantRwLock<T>, M>;
    type Write<T, M> = WriteHold<&'static ReentrantRwLock<T>, M>;
    check! {
        ReentrantRwLock<Plain>: true true,
        ReentrantRwLock<SendOnly>: true false,
        ReentrantRwLock<SyncOnly>: false true,
        ReentrantRwLock<Stuck>: false false,
        Read<Plain, OnThisThread>: false false,
        Read<Plain, Anywhere>: true true,
        Read<SendOnly, Anywhere>: false false,
        Read<SyncOnly, Anywhere>: true true,
        Read<Stuck, Anywhere>: false false,
        Write<Plain, OnThisThread>: false false,
        Write<Plain, Anywhere>: true true,
        Write<SendOnly, Anywhere>: false false,
        Write<Stuck, Anywhere>: false false,
        Request<ReadEntry<&'static ReentrantRwLock<Plain>, OnThisThread>>: false false,
        Request<ReadEntry<&'static ReentrantRwLock<Plain>, Anywhere>, Limited>: true true,
        Request<ReadEntry<&'static ReentrantRwLock<SendOnly>, Anywhere>>: false false,
        Request<WriteEntry<&'static ReentrantRwLock<Plain>, OnThisThread>>: false false,
        Request<WriteEntry<&'static ReentrantRwLock<Plain>, Anywhere>>: true true,
        Request<WriteEntry<&'static ReentrantRwLock<Stuck>, Anywhere>, Limited>: false false,
    }
}

/// Only results that can be sent have handles, and are never shared through them.
#[test]
fn a_handle_goes_anywhere() {
    check! {
        Handle<Plain>: true true,
        Handle<SendOnly>: true true,
        ScopedHandle<'static, Plain>: true true,
        ScopedHandle<'static, SendOnly>: true true,
        Request<Joining<Handle<Plain>>, Limited>: true true,
        Request<Joining<Handle<SendOnly>>, Limited>: true true,
        Request<Finishing<'static>>: true true,
        Request<Finishing<'static>, Limited>: true true,
        Request<Leaving>: true true,
    }
}

#[test]
fn a_promise_is_shared_if_its_outcome_can_be() {
    check! {
        Promise<Plain, Plain>: true true,
        Promise<SendOnly, Plain>: true false,
        Promise<Plain, SendOnly>: true false,
        Promise<SyncOnly, Plain>: false false,
        Promise<Stuck, Plain>: false false,
    }
}

#[test]
fn what_holds_no_value_goes_anywhere() {
    check! {
        Semaphore: true true,
        Latch: true true,
        Event: true true,
        AutoEvent: true true,
        Parker: true true,
        CancelSource: true true,
        CancelToken: true true,
        Permit<'static>: true true,
        OwnedPermit: true true,
        Synchronizer<Exclusive>: true true,
        Held<&'static Synchronizer<Exclusive>>: true true,
    }
}

#[test]
fn a_request_goes_where_its_object_may_be_used() {
    check! {
        Request<semaphore::Acquire<&'static Semaphore>>: true true,
        Request<semaphore::Acquire<Arc<Semaphore>>, Limited>: true true,
        Request<mutex::Lock<&'static Mutex<Plain>>>: true true,
        Request<mutex::Lock<&'static Mutex<SendOnly>>>: true true,
        Request<mutex::Lock<&'static Mutex<Stuck>>>: false false,
        Request<mutex::Lock<Arc<Mutex<Stuck>>>, Limited>: false false,
        Request<rwlock::Read<&'static RwLock<SendOnly>>>: false false,
        Request<rwlock::Write<&'static RwLock<Plain>>, Limited>: true true,
        Request<reentrant::Reenter<&'static ReentrantLock<Plain>, OnThisThread>>:
            false false,
        Request<reentrant::Reenter<&'static ReentrantLock<Plain>, Anywhere>>:
            true true,
        Request<promise::Get<'static, SendOnly, Plain>>: false false,
        Request<promise::Get<'static, Plain, Plain>, Limited>: true true,
    }
}

/// Items are sent through a queue, never shared.
#[test]
fn a_queue_is_shared_if_its_items_can_be_sent() {
    check! {
        BlockingQueue<Plain>: true true,
        BlockingQueue<SendOnly>: true true,
        BlockingQueue<SyncOnly>: false false,
        BlockingQueue<Stuck>: false false,
        TransferQueue<Plain>: true true,
        TransferQueue<SendOnly>: true true,
        TransferQueue<SyncOnly>: false false,
        TransferQueue<Stuck>: false false,
        SynchronousQueue<Plain>: true true,
        SynchronousQueue<SendOnly>: true true,
        SynchronousQueue<SyncOnly>: false false,
        SynchronousQueue<Stuck>: false false,
        Rejected<Plain>: true true,
        Rejected<SendOnly>: true false,
        Rejected<Stuck>: false false,
    }
}

/// A request of a queue holds an item, or is going to: it goes where the item may go.
#[test]
fn a_request_of_a_queue_goes_where_its_items_may_go() {
    check! {
        Request<blocking::Put<&'static BlockingQueue<Plain>>>: true true,
        Request<blocking::Put<&'static BlockingQueue<SendOnly>>, Limited>: true true,
        Request<blocking::Put<&'static BlockingQueue<SyncOnly>>>: false false,
        Request<blocking::Put<&'static BlockingQueue<Stuck>>, Limited>: false false,
        Request<blocking::Put<Arc<BlockingQueue<SendOnly>>>>: true true,
        Request<blocking::Put<Arc<BlockingQueue<SyncOnly>>>>: false false,
        Request<blocking::Take<&'static BlockingQueue<SendOnly>>>: true true,
        Request<blocking::Take<&'static BlockingQueue<SyncOnly>>>: false false,
        Request<blocking::Take<Arc<BlockingQueue<Stuck>>>>: false false,
        Request<PutAny<[&'static BlockingQueue<SendOnly>; 2]>>: true true,
        Request<PutAny<Vec<Arc<BlockingQueue<SyncOnly>>>>, Limited>: false false,
        Request<TakeAny<[&'static BlockingQueue<SendOnly>; 2]>, Limited>: true true,
        Request<TakeAny<Vec<Arc<TransferQueue<Stuck>>>>>: false false,
        Sender<BlockingQueue<SendOnly>>: true true,
        Sender<BlockingQueue<SyncOnly>>: false false,
        Receiver<TransferQueue<SendOnly>>: true true,
        Receiver<TransferQueue<Stuck>>: false false,
        Items<&'static BlockingQueue<SendOnly>>: true true,
        Items<&'static BlockingQueue<SyncOnly>>: false false,
        Items<&'static BlockingQueue<Stuck>>: false false,
        ItemStream<&'static BlockingQueue<SendOnly>>: true true,
        ItemStream<&'static BlockingQueue<SyncOnly>>: false false,
        ItemStream<&'static BlockingQueue<Stuck>>: false false,
        TakeBatch<'static, SendOnly>: true true,
        TakeBatch<'static, SyncOnly, Limited>: false false,
        TakeBatch<'static, Stuck>: false false,
        Request<Transfer<&'static TransferQueue<SendOnly>>>:
            true true,
        Request<Transfer<&'static TransferQueue<SyncOnly>>>:
            false false,
        Request<Transfer<Arc<SynchronousQueue<Stuck>>>, Limited>:
            false false,
        Request<Receive<Arc<TransferQueue<SendOnly>>>>:
            true true,
        Request<Receive<&'static TransferQueue<SyncOnly>>>:
            false false,
        Request<Receive<&'static SynchronousQueue<Stuck>>>:
            false false,
    }
}

/// What cannot be sent can still be queued, by tasks of one thread.
#[test]
fn a_queue_may_stay_on_its_thread() {
    let queue = BlockingQueue::bounded(1);
    let item = Rc::new(1);
    let mut taker = crate::support::Step::queued(queue.take());
    queue.try_put(Rc::clone(&item)).unwrap();
    assert_eq!(taker.expect_ready(), Ok(Rc::clone(&item)));
    queue.try_put(Rc::clone(&item)).unwrap();
    let putter = crate::support::Step::queued(queue.put(Rc::clone(&item)));
    assert_eq!(Rc::strong_count(&item), 3);
    drop(putter);
    drop(taker);
    drop(queue);
    assert_eq!(Rc::strong_count(&item), 1);
}

#[test]
fn a_monitor_is_shared_like_its_lock() {
    check! {
        Monitor<Plain>: true true,
        Monitor<SendOnly>: true true,
        Monitor<SyncOnly>: false false,
        Monitor<Stuck>: false false,
        ReentrantMonitor<Plain>: true true,
        ReentrantMonitor<SendOnly>: true true,
        ReentrantMonitor<SyncOnly>: false false,
        ReentrantMonitor<Stuck>: false false,
    }
}

#[test]
fn conditions_and_meeting_places_go_anywhere() {
    check! {
        Condition: true true,
        ReentrantCondition: true true,
        WriteCondition: true true,
        Barrier: true true,
        Phaser: true true,
        Exchanger<Plain>: true true,
        Exchanger<SendOnly>: true true,
        Exchanger<SyncOnly>: false false,
        Exchanger<Stuck>: false false,
    }
}

/// A wait holds the guard, so it goes where that may go. A value that may be sent but not shared may
/// wait inside a mutex; what a thread owns stays there.
#[test]
fn a_wait_goes_where_its_guard_may_go() {
    type Predicate<T> = fn(&T) -> bool;
    check! {
        Request<WaitFor<MutexGuard<'static, Plain>>>: true true,
        Request<WaitFor<MutexGuard<'static, SendOnly>>, Limited>: true false,
        Request<WaitFor<MutexGuard<'static, Stuck>>>: false false,
        Request<WaitFor<OwnedMutexGuard<Plain>>>: true true,
        Request<WaitFor<OwnedMutexGuard<SyncOnly>>>: false false,
        Request<WaitFor<RwLockWriteGuard<'static, Plain>>>: true true,
        Request<WaitFor<RwLockWriteGuard<'static, SendOnly>>>: false false,
        Request<WaitFor<KeyGuard<'static, Plain>>>: true true,
        Request<WaitFor<ReentrantGuard<'static, Plain>>>: false false,
        Interrupted<MutexGuard<'static, SendOnly>>: true false,
        WaitWhile<'static, Exclusive, MutexGuard<'static, Plain>, Predicate<Plain>, Unlimited>:
            true true,
        WaitWhile<'static, Exclusive, MutexGuard<'static, Stuck>, Predicate<Stuck>, Unlimited>:
            false false,
        WaitWhile<'static, Exclusive, MutexGuard<'static, Plain>, Box<dyn FnMut(&Plain) -> bool>,
            Unlimited>: false false,
    }
    const {
        assert!(
            !<Asked<
                WaitWhile<
                    'static,
                    Exclusive,
                    MutexGuard<'static, Plain>,
                    Predicate<Plain>,
                    Unlimited,
                >,
            >>::UNPIN
        );
    };
}

/// An item goes from one thread to another, so it has to be one that can.
#[test]
fn whoever_meets_goes_where_its_meeting_place_may_be_used() {
    check! {
        Request<barrier::Arrive<&'static Barrier>>: true true,
        Request<barrier::Arrive<Arc<Barrier>>, Limited>: true true,
        Request<phaser::Advanced<&'static Phaser>>: true true,
        Request<phaser::ArriveAndWait<Arc<Phaser>>, Limited>: true false,
        Request<exchanger::Exchange<&'static Exchanger<Plain>>>: true true,
        Request<exchanger::Exchange<&'static Exchanger<SendOnly>>>: true true,
        Request<exchanger::Exchange<&'static Exchanger<SyncOnly>>>: false false,
        Request<exchanger::Exchange<Arc<Exchanger<Stuck>>>, Limited>: false false,
    }
}

/// The queue points into a request, so it must stay where it is once it has been polled.
#[test]
fn a_request_is_pinned() {
    type Wait<G> = WaitWhile<'static, Exclusive, G, fn(&Plain) -> bool, Unlimited>;
    let movable = [
        <Asked<Wait<MutexGuard<'static, Plain>>>>::UNPIN,
        <Asked<Request<WaitFor<MutexGuard<'static, Plain>>>>>::UNPIN,
        <Asked<Request<semaphore::Acquire<&'static Semaphore>>>>::UNPIN,
        <Asked<Request<semaphore::Acquire<Arc<Semaphore>>, Limited>>>::UNPIN,
        <Asked<Request<blocking::Take<Arc<BlockingQueue<Plain>>>>>>::UNPIN,
        <Asked<ItemStream<&'static BlockingQueue<Plain>>>>::UNPIN,
        <Asked<Semaphore>>::UNPIN,
        <Asked<Mutex<Plain>>>::UNPIN,
        <Asked<BlockingQueue<Plain>>>::UNPIN,
    ];
    let fixed = movable.iter().filter(|movable| !**movable).count();
    assert_eq!((fixed, &movable[fixed..]), (6, &[true; 3][..]));
}

static SEMAPHORE: Semaphore = Semaphore::new(1);
static LARGEST: Semaphore = Semaphore::with_max(1, Semaphore::MAX_PERMITS);
static BARGING: Semaphore = Semaphore::barging_with_max(1, 1);
static MUTEX: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static BARGING_MUTEX: Mutex<u32> = Mutex::barging(0);
static LOCK: RwLock<u32> = RwLock::new(0);
static BARGING_LOCK: RwLock<u32> = RwLock::barging(0);
static REENTRANT: ReentrantLock<Cell<u32>> = ReentrantLock::new(Cell::new(0));
static LATCH: Latch = Latch::new(1);
static EVENT: Event = Event::new();
static SET: Event = Event::new_set();
static AUTO: AutoEvent = AutoEvent::new_set();
static PROMISE: Promise<u32, String> = Promise::new();
static PARKER: Parker = Parker::new();
static PHASER: Phaser = Phaser::new(1);
static LATE_PHASER: Phaser = Phaser::in_phase(1, Phaser::MAX_PHASE);
static CONDITION: Condition = Condition::new();
static WRITE_CONDITION: WriteCondition = WriteCondition::new();
static REENTRANT_CONDITION: ReentrantCondition = ReentrantCondition::new();
static MONITOR: Monitor<u32> = Monitor::new(0);
static REENTRANT_MONITOR: ReentrantMonitor<u32> = ReentrantMonitor::new(0);
static OWN: Synchronizer<Exclusive> = Synchronizer::new(Exclusive, Exclusive::initial(false));

/// A request for a `static` can be named in full, and sent to a thread.
fn send<O: Operation + Send + 'static>(request: Request<O, Unlimited>)
where
    semaforo::request::Output<O, Unlimited>: Send,
{
    crate::support::Waiter::start_then(crate::support::Kind::Blocking, request, drop).join();
}

#[test]
fn everything_can_be_a_static() {
    for semaphore in [&SEMAPHORE, &LARGEST, &BARGING] {
        send(semaphore.acquire(1));
        assert_eq!(semaphore.available(), 1);
    }
    MUTEX.lock().wait().push(1);
    send(MUTEX.lock());
    *BARGING_MUTEX.lock().wait() += 1;
    *LOCK.write().wait() += 1;
    send(LOCK.read());
    *BARGING_LOCK.write().wait() += 1;
    REENTRANT.lock().wait().unwrap().set(1);
    LATCH.count_down();
    EVENT.set();
    PROMISE.set(1).unwrap();
    PARKER.unpark();
    send(LATCH.opened());
    send(EVENT.happened());
    send(SET.happened());
    send(AUTO.happened());
    send(PARKER.park());
    send(PHASER.arrive_and_wait());
    assert_eq!(LATE_PHASER.arrive_and_wait().wait(), Ok(0));
    assert!(!CONDITION.signal(&MUTEX.lock().wait()));
    assert!(!WRITE_CONDITION.signal(&LOCK.write().wait()));
    assert_eq!(REENTRANT_CONDITION.waiters(), 0);
    assert!(!MONITOR.notify(&MONITOR.enter().wait()));
    assert!(!REENTRANT_MONITOR.notify(&REENTRANT_MONITOR.enter().wait().unwrap()));
    send(OWN.acquire(()));
    assert_eq!(PROMISE.get().wait(), Ok(&1));
}

/// As with the standard library's own, of which a panic leaves nothing half done.
#[test]
fn what_may_be_used_after_a_panic() {
    fn checked<T: ?Sized + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}

    checked::<Mutex<SendOnly>>();
    checked::<RwLock<SendOnly>>();
    checked::<Monitor<SendOnly>>();
    checked::<Mutex<dyn Send>>();
    checked::<ReentrantLock<Plain>>();
    checked::<ReentrantRwLock<Plain>>();
    checked::<ReentrantMonitor<Plain>>();
    checked::<Semaphore>();
    checked::<Latch>();
    checked::<Event>();
    checked::<AutoEvent>();
    checked::<Parker>();
    checked::<Barrier>();
    checked::<Phaser>();
    checked::<Exchanger<SendOnly>>();
    checked::<Promise<Plain, Plain>>();
    checked::<Condition>();
    checked::<ReentrantCondition>();
    checked::<WriteCondition>();
    checked::<Synchronizer<Exclusive>>();
    checked::<CancelSource>();
    checked::<CancelToken>();
    checked::<OwnerKey>();
    // What is in a user's hands, as `MutexGuard`, `JoinHandle` and the ends of a channel.
    checked::<MutexGuard<'static, Plain>>();
    checked::<OwnedMutexGuard<Plain>>();
    checked::<MappedGuard<MutexGuard<'static, Plain>, Plain>>();
    checked::<RwLockReadGuard<'static, Plain>>();
    checked::<RwLockWriteGuard<'static, Plain>>();
    checked::<MappedReadGuard<RwLockReadGuard<'static, Plain>, Plain>>();
    checked::<ReentrantGuard<'static, Plain>>();
    checked::<KeyGuard<'static, Plain>>();
    checked::<Permit<'static>>();
    checked::<OwnedPermit>();
    checked::<Held<&'static Synchronizer<Exclusive>>>();
    checked::<Pool>();
    checked::<Handle<Plain>>();
    checked::<Handle<SendOnly>>();
    checked::<ScopedHandle<'static, SendOnly>>();
    checked::<CurrentThread>();
    checked::<AbortHandle>();
    checked::<Sender<BlockingQueue<SendOnly>>>();
    checked::<Receiver<BlockingQueue<SendOnly>>>();
}

/// Queues, too: an item from one thread to another, through each of them, and through any.
#[test]
fn queues_can_be_static() {
    static BOUNDED: BlockingQueue<String> = BlockingQueue::bounded(2);
    static UNBOUNDED: BlockingQueue<String> = BlockingQueue::unbounded();
    static TRANSFERS: TransferQueue<String> = TransferQueue::new();
    static MEETING: SynchronousQueue<String> = SynchronousQueue::new();
    assert_eq!((BOUNDED.capacity(), BOUNDED.remaining(), BOUNDED.waiters()), (Some(2), Some(2), 0));
    assert_eq!((UNBOUNDED.capacity(), TRANSFERS.len(), MEETING.waiters()), (None, 0, 0));
    let other = std::thread::spawn(|| {
        BOUNDED.put("a".to_owned()).wait().unwrap();
        TRANSFERS.transfer("b".to_owned()).wait().unwrap();
        MEETING.put("c".to_owned()).wait().unwrap();
    });
    let (index, first) = BlockingQueue::take_any([&UNBOUNDED, &BOUNDED]).wait().unwrap();
    assert_eq!((index, first.as_str()), (1, "a"));
    assert_eq!(TRANSFERS.take().wait().unwrap(), "b");
    assert_eq!(MEETING.take().wait().unwrap(), "c");
    other.join().unwrap();
}

/// What allocates nothing until it is used.
#[test]
fn barriers_exchangers_and_sources_can_be_static() {
    static BARRIER: Barrier = Barrier::new(2);
    static TABLE: Exchanger<u32> = Exchanger::new();
    static STOP: CancelSource = CancelSource::new();
    assert_eq!((BARRIER.parties(), BARRIER.available(), TABLE.waiters()), (2, 2, 0));
    let other = std::thread::spawn(|| {
        BARRIER.arrive().wait().unwrap();
        TABLE.exchange(1).wait()
    });
    BARRIER.arrive().wait().unwrap();
    assert_eq!((TABLE.exchange(2).wait(), other.join().unwrap()), (1, 2));
    STOP.cancel();
    assert!(STOP.token().is_cancelled() && !CancelToken::default().is_cancelled());
}

#[test]
fn mapped_guards_are_sent_if_their_parts_can_be() {
    use semaforo::{MappedGuard, MappedReadGuard};

    check! {
        MappedGuard<MutexGuard<'static, Plain>, Plain>: true true,
        MappedGuard<MutexGuard<'static, Plain>, SendOnly>: true false,
        MappedGuard<MutexGuard<'static, Plain>, Stuck>: false false,
        MappedGuard<MutexGuard<'static, Stuck>, Plain>: false false,
        MappedReadGuard<RwLockReadGuard<'static, Plain>, Plain>: true true,
        MappedReadGuard<RwLockReadGuard<'static, Plain>, SendOnly>: false false,
        MappedReadGuard<RwLockReadGuard<'static, Plain>, SyncOnly>: true true,
        MappedReadGuard<ReentrantGuard<'static, Plain>, Plain>: false false,
    }
}

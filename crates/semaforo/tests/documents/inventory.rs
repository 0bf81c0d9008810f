//! The guide to the literature is complete: what the five texts list, name and ask for has its row in
//! the section of its text, and every row is shown by something that runs.

use crate::{GUIDE, Row, code, links, read, rows, words};

/// What the listings of the text on C# declare, by their numbers: *Código 1* to *29*. Some declare nothing.
const CSHARP_LISTINGS: [&[&str]; 29] = [
    &["MainThreadExamples", "DoNothing"],
    &["IncrementCounterLock"],
    &["Semaphore"],
    &["WaitReleaseExample", "WaitOne", "Release"],
    &["WaitReleaseExample", "WaitAsync"],
    &["ProducerConsumerExample"],
    &[],
    &["GetSequential", "GetParallel"],
    &["ExemploForAllPLINQ", "ForAll"],
    &["Sequential"],
    &["Parallel", "AsParallel"],
    &["CafeDaManha", "FritarOvo", "FritarBacon"],
    &["CafeDaManhaAsync", "FritarOvosAsync", "FritarBaconAsync", "WhenAll"],
    &["SimpleTaskScheduler", "ExecuteTask", "QueueTask"],
    &["Main", "StartNew"],
    &["DoSomething"],
    &["MoveNext"],
    &["DoSomething"],
    &["DoubleAsyncAwait"],
    &["FullSync", "FullAsync", "FakeAsync", "GetPrice", "GetPriceAsync", "Search"],
    &["PriorityTask", "CompareTo"],
    &["ConsumerThread"],
    &["QueueTask"],
    &["PrioritySimpleExample"],
    &["MoveNext"],
    &["StockPriceBenchmark"],
    &["PriorityTaskSchedulerManager", "AddScheduler"],
    &["PriorityTaskSchedulerWorker", "TryExecuteTaskInline"],
    &["PriorityQueue", "Enqueue", "TryDequeue", "Dequeue", "Peek", "Count"],
];

/// *Tabela 1* to *5*, and *Figura 1* and *2*.
const CSHARP_TABLES: usize = 5;
const CSHARP_FIGURES: usize = 2;

/// What else is declared or explained there.
const CSHARP: &str = "\
    Thread, Start, Join, IsAlive, ManagedThreadId, Thread.Sleep, managed and native, \
    cannot be started again, lock, one object as the key, acquireLock, liberaLock, Dijkstra, \
    named and unnamed, WaitOne(milliseconds), Release(n), SemaphoreSlim, CurrentCount, \
    ConcurrentBag, ConcurrentDictionary, ConcurrentQueue, ConcurrentStack, \
    BlockingCollection, Add, Take, TryAdd, TryTake, PLINQ, AsParallel, Enumerable.Range, \
    ToArray, ToDictionary, ToList, ForEach, formula 2.1, CheckMultiplicity, AbMatrix, \
    BenchmarkDotNet, TAP, APM, Task, void, Task.Run, Task.WhenAll, TaskScheduler, ThreadPool, \
    QueueUserWorkItem, long-running, GetScheduledTasks, TryExecuteTask, TaskCreationOptions, \
    IAsyncStateMachine, AwaitUnsafeOnCompleted, hot path, IComparable, concurrencyLevel, \
    Environment.ProcessorCount, Interlocked.Increment, continuations, starvation, hospital, \
    ice-cream, future work";

const ASYNCHRONOUS: &str = "\
    SemaphoreAsync, AsyncAcquire, Dispose, SatisfyPendingAsyncAcquires, \
    CompleteSatisfiedAsyncAcquires, AcquireAsync, CancellationToken.Register, \
    CancellationTokenRegistration, Release, AcquireCancellationHandler, \
    TryCancelAcquireAsyncByTask, Acquire, SemaphoreSlim, WaitAsync, TaskCompletionSource, \
    CompletableFuture, ExecuteSynchronously, AggregateException, Task.Result, Delayer, \
    ScheduledThreadPoolExecutor, DaemonThreadFactory, tryCancelAcquireAsync, doAcquireAsync, \
    release, satisfyPendingAsyncAcquires, completeSatisfiedAsyncAcquires, kernel style, \
    Task-based Asynchronous Pattern, constructor, completed futures";

const JAVA: &str = "\
    getState, setState, compareAndSetState, Node, CANCELLED, SIGNAL, CONDITION, PROPAGATE, \
    head, tail, state, tryAcquire, tryRelease, tryAcquireShared, tryReleaseShared, \
    isHeldExclusively, AbstractOwnableSynchronizer, setHead, addWaiter, enq, acquire, \
    acquireQueued, shouldParkAfterFailedAcquire, parkAndCheckInterrupt, release, \
    unparkSuccessor, acquireShared, doAcquireShared, setHeadAndPropagate, doReleaseShared, \
    releaseShared, doAcquireNanos, spinForTimeoutThreshold, acquireInterruptibly, \
    doAcquireInterruptibly, cancelAcquire, selfInterrupt, Sync, CLH, spin locks, LockSupport, \
    InterruptedException, ReentrantLock, Semaphore, CountDownLatch, FutureTask, \
    SynchronousQueue, ReentrantReadWriteLock, CyclicBarrier, Future.get";

const JAVA_EXERCISES: &str = "\
    TwinsLockTest, SimpleLock, ClhSpinLock, LockSupportTest, MutexTest";

const MONITORS: &str = "\
    SyncUtils.AdjustTimeout, Semaphore, Semaphore_2, Semaphore_FIFO, ReadersWriters, \
    StartRead, EndRead, StartWrite, EndWrite, SimpleBatchReqQueue, NewBatch, \
    ReadersWriters_2, BatchReqQueue, BrokenBarrierException, BarrierAction, CyclicBarrier, \
    IsBroken, Reset, SyncUtils.EnterUninterruptibly, Wait, Notify, Broadcast, \
    Semaphore_FIFO_SN, Semaphore_FIFO_SN_2, Lock, Condition, await, awaitNanos, awaitUntil, \
    awaitUninterruptibly, ReentrantLock, newCondition, ConditionObject, finally, \
    Semaphore_FIFO_Java, ReadersWriters_Java_NS, WrReq, okToRead, okToWrite, Monitor.Enter, \
    Exit, Monitor.TryEnter, Monitor.Wait, Monitor.Pulse, PulseAll, synchronized, Object.wait, \
    notify, notifyAll, MethodImplOption.Synchronized, entry procedures, condition variables, \
    scheduled waits, barging, broadcast, intrinsic monitors, recursive entry, \
    execution delegation, request items, specific notification, Cargill, section 3.5";

const HOARES: &str = "\
    single resource, bounded buffer, alarm clock, buffer allocator, disk head, \
    readers and writers";

const SERVERS: &str = "\
    single-threaded, multi-threaded, TcpListener, TcpClient, graceful shutdown, \
    a bounded number of connections, low priority, TcpMultiThreadedTapEchoServer, \
    ThreadLocal<Random>, ServeConnectionAsync, Task.Delay, ListenAsync, AcceptTcpClientAsync, \
    WhenAny, WhenAll, a semaphore, ObjectDisposedException, ShutdownAndWaitTerminationAsync, \
    WAIT_FOR_IDLE_TIME, POLLING_INTERVAL, requestCount, Interlocked.Increment, \
    TransferQueueAsync, AsyncRequest, AsyncTake, AsyncTransfer, Message, \
    the client of the echo server";

const SERVER_EXERCISES: &str = "\
    JSON, transfer queues";

/// The rows of one text.
struct Section(Vec<Row>);

impl Section {
    fn of(title: &str) -> Self {
        let rows: Vec<_> =
            rows(&read(GUIDE)).into_iter().filter(|row| row.text.starts_with(title)).collect();
        assert!(!rows.is_empty(), "there is no section {title}");
        Self(rows)
    }

    /// Which of these no row says, of one kind or of any.
    fn missing(&self, names: &'static str, kind: Option<&str>) -> Vec<&'static str> {
        let of_kind = |row: &&Row| kind.is_none_or(|kind| row.kind == kind);
        let said = |name: &str| self.0.iter().filter(of_kind).any(|row| says(&row.said, name));
        names.split(", ").filter(|name| !said(name)).collect()
    }

    /// The one row of this kind that begins with a number, or the like.
    fn numbered(&self, kind: &str, number: &str) -> &Row {
        let begins = |row: &&Row| row.kind == kind && row.said.starts_with(number);
        let found: Vec<_> = self.0.iter().filter(begins).collect();
        assert_eq!(found.len(), 1, "{kind} {number:?}: {found:#?}");
        found[0]
    }
}

/// Whether a cell has this name in it, as a word of its own if it is one.
fn says(cell: &str, name: &str) -> bool {
    let is_word = words(name).eq([name]);
    if is_word { words(cell).any(|word| word == name) } else { cell.contains(name) }
}

#[test]
fn every_listing_table_and_figure_of_the_text_on_csharp_has_its_row() {
    let section = Section::of("Concurrency mechanisms of C#");
    for (number, names) in (1..).zip(CSHARP_LISTINGS) {
        let row = section.numbered("listing", &format!("{number}, "));
        for name in names {
            assert!(says(&row.said, name), "listing {number}, {name}: {}", row.said);
        }
    }
    for number in 1..=CSHARP_TABLES {
        section.numbered("table", &format!("{number}, "));
    }
    for number in 1..=CSHARP_FIGURES {
        section.numbered("table", &format!("figure {number}, "));
    }
}

#[test]
fn everything_that_the_texts_name_has_its_row() {
    let none = Vec::<&str>::new();
    for (title, names) in [
        ("Synchronizers with an asynchronous interface", ASYNCHRONOUS),
        ("Concurrency mechanisms of C#", CSHARP),
        ("Java's", JAVA),
        ("Monitors", MONITORS),
        ("Scalable TCP servers", SERVERS),
    ] {
        assert_eq!(Section::of(title).missing(names, None), none, "{title}");
    }
}

#[test]
fn every_exercise_has_its_row() {
    let none = Vec::<&str>::new();
    for (title, names) in [
        ("Java's", JAVA_EXERCISES),
        ("Monitors", HOARES),
        ("Scalable TCP servers", SERVER_EXERCISES),
    ] {
        let section = Section::of(title);
        assert_eq!(section.missing(names, Some("exercise")), none, "{title}");
        assert!(
            section.0.iter().filter(|row| row.kind == "exercise").count()
                >= names.split(", ").count()
        );
    }
}

/// A source file that is linked to can be read, and shows nothing by itself.
#[test]
fn every_row_is_shown_by_something_that_runs() {
    for row in rows(&read(GUIDE)) {
        let reason = row.shown.starts_with("none: ");
        let runs = |link: &str| link.contains("/examples/") || link.contains("/src/models/");
        let shown = code(&row.shown).count() > 0 || links(&row.shown).any(runs);
        assert!(reason || shown, "{}: {:?}", row.number, row.shown);
    }
}

#[test]
fn nothing_is_left_for_later_on_the_way_from_elsewhere() {
    let text = read("docs/coming-from.md");
    let left: Vec<_> =
        text.lines().filter(|line| line.to_lowercase().contains("not yet")).collect();
    assert!(left.is_empty(), "{left:#?}");
}

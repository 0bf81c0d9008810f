//! Whoever searches the documentation for a name from elsewhere finds something.

use std::path::Path;

fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

fn lead_somewhere(names: &[&str]) {
    let mut text = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut text);
    for name in names {
        assert!(text.contains(&format!("#[doc(alias = \"{name}\")]")), "{name}");
    }
}

#[test]
fn foreign_names_of_synchronizers_lead_somewhere() {
    lead_somewhere(&[
        "AbstractQueuedSynchronizer",
        "AutoResetEvent",
        "CancellationToken",
        "CancellationTokenSource",
        "Condvar",
        "CountDownLatch",
        "CountdownEvent",
        "CyclicBarrier",
        "LockSupport",
        "ManualResetEvent",
        "ManualResetEventSlim",
        "Monitor.Enter",
        "Notify",
        "Pulse",
        "PulseAll",
        "ReaderWriterLockSlim",
        "ReentrantReadWriteLock",
        "Release",
        "SemaphoreSlim",
        "StampedLock",
        "TaskCompletionSource",
        "WaitGroup",
        "WaitOne",
        "notify_one",
        "oneshot",
        "pthread_cond_broadcast",
        "pthread_cond_signal",
        "pthread_cond_wait",
        "tryAcquireShared",
        "tryReleaseShared",
    ]);
}

/// Of the texts that `docs/from-the-literature.md` is about.
#[test]
fn names_of_the_literature_lead_somewhere() {
    lead_somewhere(&[
        "All",
        "Any",
        "AsParallel",
        "AsyncAcquire",
        "BlockingCollection",
        "BrokenBarrierException",
        "CancellationToken.Register",
        "ConcurrentBag",
        "ConcurrentDictionary",
        "ConcurrentQueue",
        "ConcurrentStack",
        "ConditionObject",
        "ContinueWith",
        "Delayer",
        "First",
        "ForAll",
        "GetConsumingEnumerable",
        "GetScheduledTasks",
        "InterruptedException",
        "LINQ",
        "OperationCanceledException",
        "PLINQ",
        "ParallelQuery",
        "PriorityQueue",
        "PriorityTaskScheduler",
        "QueueTask",
        "QueueUserWorkItem",
        "Select",
        "SemaphoreAsync",
        "SemaphoreFullException",
        "StartNew",
        "Task.Delay",
        "Task.WhenAll",
        "Task.WhenAny",
        "TaskScheduler",
        "Thread.Interrupt",
        "ThreadInterruptedException",
        "TimeoutException",
        "TransferQueueAsync",
        "TryExecuteTask",
        "TryExecuteTaskInline",
        "Where",
        "awaitNanos",
        "concurrencyLevel",
        "isHeldExclusively",
        "lockInterruptibly",
        "newCondition",
        "scheduled wait",
        "signalAll",
        "tryCancelAcquireAsync",
    ]);
}

#[test]
fn foreign_names_of_queues_lead_somewhere() {
    lead_somewhere(&[
        "Add",
        "AddToAny",
        "ArrayBlockingQueue",
        "BlockingCollection",
        "BoundedCapacity",
        "CompleteAdding",
        "GetConsumingEnumerable",
        "IsAddingCompleted",
        "IsCompleted",
        "LinkedBlockingQueue",
        "LinkedTransferQueue",
        "PriorityBlockingQueue",
        "Take",
        "TakeFromAny",
        "TryAdd",
        "TryAddToAny",
        "TryPeek",
        "TryTake",
        "TryTakeFromAny",
        "drainTo",
        "getWaitingConsumerCount",
        "mpsc",
        "remainingCapacity",
        "tryTransfer",
        "try_recv",
        "try_send",
    ]);
}

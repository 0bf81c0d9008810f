//! Every lock with conditions whose guards can be sent, behind one face.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use semaforo::policy::{Exclusive, Owned, OwnedReadWrite, ReadWrite};
use semaforo::sync::condition::LockGuard;
use semaforo::sync::reentrant::Anywhere;
use semaforo::sync::reentrant_rwlock::WriteHold;
use semaforo::{Condition, Mutex, OwnerKey, Policy, ReentrantLock, ReentrantRwLock, RwLock};

use crate::support::{Kind, LONG, Waiter, leaked};

pub(crate) trait Lock: Copy + Send + Sync + 'static {
    type Policy: Policy;
    type Guard: LockGuard<Policy = Self::Policy> + Deref<Target = AtomicUsize> + Send + 'static;

    fn new() -> Self;
    fn lock(self) -> Self::Guard;
    fn try_lock(self) -> Option<Self::Guard>;
    /// A request for the lock, to be polled by hand.
    fn ask(self) -> Pin<Box<dyn Future<Output = Self::Guard> + Send>>;
    /// Waits for the lock, and does something with it.
    fn start<T: Send + 'static>(
        self,
        kind: Kind,
        then: impl FnOnce(Self::Guard) -> T + Send + 'static,
    ) -> Waiter<T>;
    fn waiters(self) -> usize;
    fn is_locked(self) -> bool;
    fn set_patience(self, patience: Duration);

    /// A lock and a condition of its own.
    fn with_condition() -> (Self, &'static Condition<Self::Policy>) {
        (Self::new(), leaked(Condition::new()))
    }
}

macro_rules! lock {
    (
        $name:ident: $object:ty, $policy:ty, $guard:ty;
        new: $new:expr;
        ask: |$lock:ident| $request:expr;
        try_lock: $try_lock:expr;
        guard: $guard_of:expr;
        is_locked: $is_locked:expr;
    ) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name(&'static $object);

        impl Lock for $name {
            type Policy = $policy;
            type Guard = $guard;

            /// Its tasks may take their time, unless a test says otherwise.
            fn new() -> Self {
                let lock: &'static $object = leaked($new);
                lock.set_patience(LONG);
                Self(lock)
            }
            fn lock(self) -> $guard {
                let $lock = self.0;
                $guard_of($request.wait())
            }
            fn try_lock(self) -> Option<$guard> {
                let try_lock: fn(&'static $object) -> Option<$guard> = $try_lock;
                try_lock(self.0)
            }
            fn ask(self) -> Pin<Box<dyn Future<Output = $guard> + Send>> {
                let $lock = self.0;
                let request = $request;
                Box::pin(async move { $guard_of(request.await) })
            }
            fn start<T: Send + 'static>(
                self,
                kind: Kind,
                then: impl FnOnce($guard) -> T + Send + 'static,
            ) -> Waiter<T> {
                let $lock = self.0;
                Waiter::start_then(kind, $request, |output| then($guard_of(output)))
            }
            fn waiters(self) -> usize {
                self.0.waiters()
            }
            fn is_locked(self) -> bool {
                let is_locked: fn(&'static $object) -> bool = $is_locked;
                is_locked(self.0)
            }
            fn set_patience(self, patience: Duration) {
                self.0.set_patience(patience);
            }
        }
    };
}

fn itself<G>(guard: G) -> G {
    guard
}

lock! {
    Strict: Mutex<AtomicUsize>, Exclusive, semaforo::MutexGuard<'static, AtomicUsize>;
    new: Mutex::new(AtomicUsize::new(0));
    ask: |lock| lock.lock();
    try_lock: |lock| lock.try_lock();
    guard: itself;
    is_locked: |lock| lock.is_locked();
}

lock! {
    Barging: Mutex<AtomicUsize>, Exclusive, semaforo::MutexGuard<'static, AtomicUsize>;
    new: Mutex::barging(AtomicUsize::new(0));
    ask: |lock| lock.lock();
    try_lock: |lock| lock.try_lock();
    guard: itself;
    is_locked: |lock| lock.is_locked();
}

lock! {
    OwnedGuard: Arc<Mutex<AtomicUsize>>, Exclusive, semaforo::OwnedMutexGuard<AtomicUsize>;
    new: Arc::new(Mutex::new(AtomicUsize::new(0)));
    ask: |lock| lock.lock_owned();
    try_lock: |lock| lock.try_lock_owned();
    guard: itself;
    is_locked: |lock| lock.is_locked();
}

lock! {
    WriteSide: RwLock<AtomicUsize>, ReadWrite, semaforo::RwLockWriteGuard<'static, AtomicUsize>;
    new: RwLock::new(AtomicUsize::new(0));
    ask: |lock| lock.write();
    try_lock: |lock| lock.try_write();
    guard: itself;
    is_locked: |lock| lock.has_writer();
}

lock! {
    BargingWriteSide: RwLock<AtomicUsize>, ReadWrite,
        semaforo::RwLockWriteGuard<'static, AtomicUsize>;
    new: RwLock::barging(AtomicUsize::new(0));
    ask: |lock| lock.write();
    try_lock: |lock| lock.try_write();
    guard: itself;
    is_locked: |lock| lock.has_writer();
}

// Everyone has a key of its own.
lock! {
    Keyed: ReentrantLock<AtomicUsize>, Owned, semaforo::KeyGuard<'static, AtomicUsize>;
    new: ReentrantLock::new(AtomicUsize::new(0));
    ask: |lock| lock.lock_as(&OwnerKey::new());
    try_lock: |lock| lock.try_lock_as(&OwnerKey::new());
    guard: Result::unwrap;
    is_locked: |lock| lock.is_locked();
}

lock! {
    KeyedWriteSide: ReentrantRwLock<AtomicUsize>, OwnedReadWrite,
        WriteHold<&'static ReentrantRwLock<AtomicUsize>, Anywhere>;
    new: ReentrantRwLock::new(AtomicUsize::new(0));
    ask: |lock| lock.write_as(&OwnerKey::new());
    try_lock: |lock| lock.try_write_as(&OwnerKey::new());
    guard: Result::unwrap;
    is_locked: |lock| lock.writes() > 0;
}

//! What `run` holds.

use std::fmt;
use std::time::Instant;

use semaforo::CancelToken;

use semaforo_client::{Call, Client, Error, Hold, LockGuard, Permit, ReadGuard, WriteGuard};

/// What is to be held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Lock(String),
    ReadWriteLock { name: String, write: bool },
    Semaphore { name: String, of: Option<u32>, units: u32 },
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = self.place();
        write!(f, "{kind} {name}")
    }
}

impl Wanted {
    /// Kind and name: every `run` that wants several things asks for them in this order.
    pub(super) fn place(&self) -> (&'static str, &str) {
        match self {
            Self::Lock(name) => ("lock", name),
            Self::ReadWriteLock { name, .. } => ("rwlock", name),
            Self::Semaphore { name, .. } => ("semaphore", name),
        }
    }

    pub(super) fn path(&self) -> String {
        let (kind, name) = self.place();
        format!("/{kind}s/{name}")
    }

    /// Waits until it is granted.
    pub(super) fn acquire(
        &self,
        client: &Client,
        deadline: Option<Instant>,
        cancel: &CancelToken,
    ) -> Result<Held, Error> {
        let guard = match self {
            Self::Lock(name) => {
                Guard::Lock(bounded(client.lock(name).acquire(), deadline, cancel)?)
            }
            Self::ReadWriteLock { name, write: true } => {
                Guard::Write(bounded(client.rwlock(name).write(), deadline, cancel)?)
            }
            Self::ReadWriteLock { name, write: false } => {
                Guard::Read(bounded(client.rwlock(name).read(), deadline, cancel)?)
            }
            Self::Semaphore { name, of, units } => {
                let semaphore = client.semaphore(name);
                if let Some(permits) = of {
                    bounded(semaphore.create(*permits), deadline, cancel)?;
                }
                Guard::Permits(bounded(semaphore.acquire(*units), deadline, cancel)?)
            }
        };
        Ok(Held { wanted: self.clone(), guard })
    }
}

fn bounded<T>(call: Call<T>, deadline: Option<Instant>, cancel: &CancelToken) -> Result<T, Error> {
    let call = call.cancel_on(cancel);
    match deadline {
        Some(deadline) => call.deadline(deadline).wait(),
        None => call.wait(),
    }
}

/// What is held, until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    wanted: Wanted,
    guard: Guard,
}

#[derive(Debug)]
enum Guard {
    Lock(LockGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permits(Permit),
}

impl Held {
    pub(super) fn hold(&self) -> &Hold {
        match &self.guard {
            Guard::Lock(guard) => guard,
            Guard::Read(guard) => guard,
            Guard::Write(guard) => guard,
            Guard::Permits(guard) => guard,
        }
    }

    fn is_exclusive(&self) -> bool {
        matches!(self.guard, Guard::Lock(_) | Guard::Write(_))
    }
}

/// The fence that a resource can check: of the first that is held alone, or of the first.
pub(super) fn fence(held: &[Held]) -> Option<u64> {
    let exclusive = held.iter().find(|held| held.is_exclusive());
    exclusive.or(held.first()).map(|held| held.hold().fence())
}

/// All that is held: `lock:deploy=17 semaphore:gpu=18`.
pub(super) fn list(held: &[Held]) -> String {
    let words = held.iter().map(|held| {
        let (kind, name) = held.wanted.place();
        format!("{kind}:{name}={}", held.hold().fence())
    });
    words.collect::<Vec<_>>().join(" ")
}

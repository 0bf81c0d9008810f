//! How long a session lives for sure.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semaforo::{CancelSource, CancelToken};

use super::moment::Moment;

/// What the holds of a session know of it.
///
/// The server counts from the arrival of a request, we from its sending: if we think that the
/// session lives, it does.
pub(super) struct Lease {
    /// Which of the client's sessions this is.
    pub(super) number: u64,
    /// What the server calls it, once it is open.
    id: OnceLock<String>,
    /// What the clock of [`Moment`]s shows then.
    ends: AtomicU64,
    lost: CancelSource,
}

impl Lease {
    /// For a session that is not open yet, and therefore does not end.
    pub(super) fn new(number: u64) -> Self {
        let (id, ends) = (OnceLock::new(), AtomicU64::new(u64::MAX));
        Self { number, id, ends, lost: CancelSource::new() }
    }

    /// The server has given it its name, which never changes.
    pub(super) fn opened(&self, id: &str) {
        let _ = self.id.set(id.to_owned());
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.id.get().map(String::as_str)
    }

    /// A request that was sent then has renewed the session. The first time, it is the one that
    /// opened it.
    pub(super) fn renew(&self, sent: Moment, ttl: Duration) {
        let ends = sent.after(ttl).shown();
        // Only the client's own thread writes.
        let before = self.ends.load(Ordering::Relaxed);
        if before == u64::MAX || before < ends {
            self.ends.store(ends, Ordering::Release);
        }
    }

    /// When it ends, unless it is renewed; none before it has begun.
    pub(super) fn ends(&self) -> Option<Moment> {
        match self.ends.load(Ordering::Acquire) {
            u64::MAX => None,
            ends => Some(Moment::at(ends)),
        }
    }

    /// Whether it is over, also if the client's own thread has not noticed yet.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_cancelled() || self.ends().is_some_and(|ends| ends <= Moment::now())
    }

    pub(super) fn lose(&self) {
        // As for outcomes: the client's thread goes on, whatever a waker does.
        let _ = catch_unwind(AssertUnwindSafe(|| self.lost.cancel()));
    }

    /// Fires when it is over.
    pub(super) fn lost(&self) -> CancelToken {
        self.lost.token()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id is a secret.
        f.debug_struct("Lease")
            .field("number", &self.number)
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::moment::tests::sleep;

    #[test]
    fn it_counts_from_the_sending() {
        let lease = Lease::new(1);
        assert_eq!((lease.id(), lease.ends(), lease.is_lost()), (None, None, false));
        lease.opened("s1");
        assert_eq!(lease.id(), Some("s1"));
        let sent = Moment::now();
        lease.renew(sent, Duration::from_secs(60));
        assert!(!lease.is_lost());
        let ends = lease.ends().unwrap();
        assert_eq!(ends, sent.after(Duration::from_secs(60)));
        // An answer to something older changes nothing.
        lease.renew(sent, Duration::from_secs(59));
        assert_eq!(lease.ends().unwrap(), ends);
        lease.lose();
        assert!(lease.is_lost());
        assert!(lease.lost().is_cancelled());

        let late = Lease::new(2);
        late.renew(Moment::now(), Duration::ZERO);
        assert!(late.is_lost());
    }

    /// The server has heard nothing for as long as the machine slept, and has given what was held
    /// to others.
    #[test]
    fn it_ends_while_the_machine_sleeps() {
        let lease = Lease::new(1);
        lease.renew(Moment::now(), Duration::from_secs(60));
        sleep(Duration::from_secs(30));
        assert!(!lease.is_lost());
        assert!(lease.ends().unwrap().instant() < Instant::now() + Duration::from_secs(31));
        sleep(Duration::from_secs(31));
        assert!(lease.is_lost());
        assert!(lease.ends().unwrap().instant() < Instant::now());
    }
}

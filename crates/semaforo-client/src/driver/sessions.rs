//! The client's named sessions.
//!
//! Usually there is one. Another is opened when it is lost, and also when the numbers of one run
//! out: the server remembers the answers to [`MAX_OUTSTANDING`] numbers, counted from the oldest
//! that is unanswered, and that one may wait for a long time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use semaforo_protocol::limits::MAX_OUTSTANDING;

use crate::lease::Lease;
use crate::moment::Moment;

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) lease: Arc<Lease>,
    pub(super) ttl: Duration,
    /// When a keep-alive was sent that is not answered yet.
    pub(super) keep_alive_sent: Option<Moment>,
    /// The request that opens it is on its way.
    pub(super) is_opening: bool,
    /// When something was last sent by which the server has renewed it.
    confirmed: Moment,
    next: u64,
    unanswered: BTreeSet<u64>,
    /// What the server was last told.
    told: u64,
    /// How many requests without numbers are on their way.
    pub(super) others: usize,
}

impl Session {
    fn new(number: u64, ttl: Duration) -> Self {
        Self {
            lease: Arc::new(Lease::new(number)),
            ttl,
            keep_alive_sent: None,
            is_opening: false,
            confirmed: Moment::now(),
            next: 1,
            unanswered: BTreeSet::new(),
            told: 0,
            others: 0,
        }
    }

    /// What the server calls it, once it is open.
    pub(super) fn id(&self) -> Option<&str> {
        self.lease.id()
    }

    /// All answers up to this number have arrived.
    pub(super) fn acked(&self) -> u64 {
        self.unanswered.first().map_or(self.next, |oldest| *oldest) - 1
    }

    /// [`acked`](Self::acked), if the server does not know it yet.
    pub(super) fn news(&mut self) -> Option<u64> {
        let acked = self.acked();
        (std::mem::replace(&mut self.told, acked) != acked).then_some(acked)
    }

    pub(super) fn has_number(&self) -> bool {
        self.next - self.acked() <= MAX_OUTSTANDING
    }

    /// The next number, unless none is left.
    pub(super) fn take_number(&mut self) -> Option<u64> {
        if !self.has_number() {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.unanswered.insert(number);
        Some(number)
    }

    pub(super) fn answered(&mut self, number: u64) {
        self.unanswered.remove(&number);
    }

    /// The server has renewed it, because of something that was sent then.
    pub(super) fn confirm(&mut self, sent: Moment) {
        self.confirmed = self.confirmed.max(sent);
        self.lease.renew(sent, self.ttl);
    }

    /// When the next keep-alive is due; none while there is one under way.
    pub(super) fn keep_alive_due(&self) -> Option<Moment> {
        self.id()?;
        if self.keep_alive_sent.is_some() {
            return None;
        }
        Some(self.confirmed.after(self.ttl / 3))
    }

    /// When the answer to the keep-alive that is under way is so late that the connection is dead.
    pub(super) fn keep_alive_limit(&self) -> Option<Moment> {
        self.keep_alive_sent.map(|sent| sent.after(self.ttl / 3))
    }

    /// The connection is gone, and with it what was under way on it.
    pub(super) fn disconnected(&mut self) {
        self.keep_alive_sent = None;
        self.is_opening = false;
        self.tell_again();
    }

    /// What the server was last told may not have arrived.
    pub(super) fn tell_again(&mut self) {
        self.told = 0;
    }

    /// Whether no request, guard or delivery needs it, if it is not the one in use.
    fn is_unused(&self) -> bool {
        // A guard, or a granted request, has the lease, too.
        self.unanswered.is_empty() && self.others == 0 && Arc::strong_count(&self.lease) == 1
    }
}

/// All sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    all: BTreeMap<u64, Session>,
    /// The one for new requests.
    current: Option<u64>,
    last: u64,
    ttl: Duration,
}

impl Sessions {
    pub(super) const fn new(ttl: Duration) -> Self {
        Self { all: BTreeMap::new(), current: None, last: 0, ttl }
    }

    pub(super) fn get(&mut self, number: u64) -> Option<&mut Session> {
        self.all.get_mut(&number)
    }

    pub(super) fn iter(&mut self) -> impl Iterator<Item = (u64, &mut Session)> {
        self.all.iter_mut().map(|(number, session)| (*number, session))
    }

    /// The session for a new request: one that has a number left.
    pub(super) fn current(&mut self) -> u64 {
        if let Some(current) = self.current
            && self.all.get(&current).is_some_and(Session::has_number)
        {
            return current;
        }
        self.last += 1;
        self.all.insert(self.last, Session::new(self.last, self.ttl));
        self.current = Some(self.last);
        self.last
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Session> {
        if self.current == Some(number) {
            self.current = None;
        }
        self.all.remove(&number)
    }

    /// A session that was replaced, and is not needed any more.
    pub(super) fn remove_unused(&mut self) -> Option<Session> {
        let current = self.current;
        let mut all = self.all.iter();
        let unused = all.find(|(number, session)| Some(**number) != current && session.is_unused());
        let number = *unused?.0;
        self.remove(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_run_out_and_a_session_follows() {
        let mut sessions = Sessions::new(Duration::from_secs(30));
        let first = sessions.current();
        let session = sessions.get(first).unwrap();
        for number in 1..=MAX_OUTSTANDING {
            assert_eq!(session.take_number(), Some(number));
        }
        for number in 2..=MAX_OUTSTANDING {
            session.answered(number);
        }
        assert_eq!(session.acked(), 0);
        assert_eq!(session.take_number(), None);

        let second = sessions.current();
        assert_ne!(first, second);
        assert_eq!(sessions.current(), second);
        assert!(sessions.remove_unused().is_none());

        let session = sessions.get(first).unwrap();
        session.answered(1);
        assert_eq!(session.acked(), MAX_OUTSTANDING);
        assert_eq!(session.news(), Some(MAX_OUTSTANDING));
        assert_eq!(session.news(), None);
        let guard = Arc::clone(&session.lease);
        assert!(sessions.remove_unused().is_none());
        drop(guard);
        assert_eq!(sessions.remove_unused().unwrap().lease.number, first);
        assert!(sessions.remove_unused().is_none());
    }
}

//! A journal that does as the test says: it stops the server in the middle of a turn, after
//! everything was decided and before anything is sent; or it lets the server go on and completes
//! later.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use semaforo_server::journal::{Journal, Position};
use semaforo_server::kernel::State;
use semaforo_server::server::{self, Options};

use super::{LONG, Server, until};

#[derive(Clone, Default)]
pub struct Held {
    shared: Arc<(Mutex<Shared>, Condvar)>,
}

#[derive(Default)]
struct Shared {
    submitted: Position,
    holds: bool,
    /// The server stands still.
    stands: bool,
    /// Batches are durable when the test says so.
    later: bool,
    durable: Position,
    turns: u64,
    /// So many bytes of events fit, if not all.
    left: Option<usize>,
}

impl Held {
    /// A server with this journal.
    pub fn server(&self, options: Options) -> Server {
        let journal = Box::new(self.clone());
        Server::run(server::Server::with_journal(options, State::default(), journal, 0).unwrap())
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.0.lock().unwrap()
    }

    /// The next turn that changes something will not end.
    pub fn hold(&self) {
        self.lock().holds = true;
    }

    /// Waits until there is such a turn.
    pub fn await_standstill(&self) {
        let (lock, changed) = &*self.shared;
        let shared = lock.lock().unwrap();
        let (shared, _) =
            changed.wait_timeout_while(shared, LONG, |shared| !shared.stands).unwrap();
        assert!(shared.stands, "the server has nothing to write down");
    }

    /// Lets it end.
    pub fn release(&self) {
        self.lock().holds = false;
        self.shared.1.notify_all();
    }

    /// From now on a batch is durable when [`complete`](Self::complete) is called, or at once
    /// again.
    pub fn later(&self, later: bool) {
        let mut shared = self.lock();
        shared.later = later;
        shared.durable = shared.submitted;
    }

    /// What is in flight is durable.
    pub fn complete(&self) {
        let mut shared = self.lock();
        shared.durable = shared.submitted;
    }

    /// There is space for so many bytes of events and no more, or for all again.
    pub fn leave(&self, left: Option<usize>) {
        self.lock().left = left;
    }

    /// Waits until a batch after this one is in flight, and says which.
    pub fn await_submitted(&self, after: Position) -> Position {
        until("a batch is submitted", || self.submitted() > after);
        self.submitted()
    }

    /// Waits until the server has read whatever was sent so far: a turn that began afterwards has
    /// ended.
    pub fn await_turn(&self) {
        let before = self.lock().turns;
        until("the loop turns", || self.lock().turns > before + 1);
    }
}

impl Journal for Held {
    fn submit(&mut self, events: &[u8], _: u64, _: bool) -> io::Result<Position> {
        assert!(!events.is_empty());
        let (lock, changed) = &*self.shared;
        let mut shared = lock.lock().unwrap();
        if let Some(left) = &mut shared.left {
            assert!(events.len() <= *left, "{} bytes where {left} fit", events.len());
            *left -= events.len();
        }
        shared.submitted += 1;
        shared.stands = shared.holds;
        changed.notify_all();
        let (mut shared, waited) =
            changed.wait_timeout_while(shared, LONG, |shared| shared.holds).unwrap();
        assert!(!waited.timed_out(), "nobody let the server go on");
        shared.stands = false;
        if !shared.later {
            shared.durable = shared.submitted;
        }
        Ok(shared.submitted)
    }

    fn is_idle(&self) -> bool {
        let shared = self.lock();
        shared.durable == shared.submitted
    }

    fn submitted(&self) -> Position {
        self.lock().submitted
    }

    fn durable(&mut self) -> io::Result<Position> {
        Ok(self.lock().durable)
    }

    fn turn(&mut self, _: Instant) -> io::Result<()> {
        self.lock().turns += 1;
        Ok(())
    }

    fn next_turn(&self) -> Option<Instant> {
        self.lock().later.then(|| Instant::now() + Duration::from_millis(1))
    }

    fn fits(&mut self, bytes: usize) -> bool {
        self.lock().left.is_none_or(|left| bytes <= left)
    }

    fn space(&mut self, wanted: usize) -> usize {
        self.lock().left.unwrap_or(wanted).min(wanted)
    }

    fn is_short_of_space(&self) -> bool {
        self.lock().left.is_some()
    }

    fn close(self: Box<Self>, _: u64) -> io::Result<()> {
        Ok(())
    }
}

//! A journal that stops the server in the middle of a turn: after everything was decided, before anything is sent.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use semaforo_server::journal::{Journal, Position};
use semaforo_server::kernel::State;
use semaforo_server::server::{self, Options};

use super::{LONG, Server};

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
}

impl Held {
    /// A server with this journal.
    pub fn server(&self, options: Options) -> Server {
        let journal = Box::new(self.clone());
        Server::run(server::Server::with_journal(options, State::default(), journal, 0).unwrap())
    }

    /// The next turn that changes something will not end.
    pub fn hold(&self) {
        self.shared.0.lock().unwrap().holds = true;
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
        self.shared.0.lock().unwrap().holds = false;
        self.shared.1.notify_all();
    }
}

impl Journal for Held {
    fn submit(&mut self, events: &[u8], _: u64, _: bool) -> io::Result<Position> {
        assert!(!events.is_empty());
        let (lock, changed) = &*self.shared;
        let mut shared = lock.lock().unwrap();
        shared.submitted += 1;
        shared.stands = shared.holds;
        changed.notify_all();
        let (mut shared, waited) =
            changed.wait_timeout_while(shared, LONG, |shared| shared.holds).unwrap();
        assert!(!waited.timed_out(), "nobody let the server go on");
        shared.stands = false;
        Ok(shared.submitted)
    }

    fn submitted(&self) -> Position {
        self.shared.0.lock().unwrap().submitted
    }

    fn durable(&mut self) -> io::Result<Position> {
        Ok(self.submitted())
    }

    fn has_room(&mut self, _: usize) -> bool {
        true
    }

    fn close(self: Box<Self>, _: u64) -> io::Result<()> {
        Ok(())
    }
}

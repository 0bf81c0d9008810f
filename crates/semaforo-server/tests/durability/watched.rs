//! A journal that a test looks at.

use std::io;

use semaforo_server::journal::{Journal, MemoryJournal, Position};

/// Keeps nothing, and tells what it is asked.
pub(crate) struct Watched {
    pub(crate) journal: MemoryJournal,
    /// Gets the size of each batch.
    pub(crate) submitted: Box<dyn FnMut(usize) + Send>,
    /// Gets how much room was asked for; until it returns, the loop stands still.
    pub(crate) asked_for: Box<dyn FnMut(usize) + Send>,
}

impl Default for Watched {
    fn default() -> Self {
        let journal = MemoryJournal::default();
        Self { journal, submitted: Box::new(|_| ()), asked_for: Box::new(|_| ()) }
    }
}

impl Journal for Watched {
    fn submit(&mut self, events: &[u8], time: u64, urgent: bool) -> io::Result<Position> {
        (self.submitted)(events.len());
        self.journal.submit(events, time, urgent)
    }

    fn submitted(&self) -> Position {
        self.journal.submitted()
    }

    fn durable(&mut self) -> io::Result<Position> {
        self.journal.durable()
    }

    fn fits(&mut self, bytes: usize) -> bool {
        self.journal.fits(bytes)
    }

    fn space(&mut self, wanted: usize) -> usize {
        (self.asked_for)(wanted);
        self.journal.space(wanted)
    }

    fn close(self: Box<Self>, time: u64) -> io::Result<()> {
        Box::new(self.journal).close(time)
    }
}

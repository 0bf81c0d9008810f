//! A journal that forgets.

use std::io;

use super::{Journal, Position};

/// Keeps nothing: for tests, and for servers whose state may die with them.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    submitted: Position,
}

impl MemoryJournal {
    /// A journal at position 0.
    pub const fn new() -> Self {
        Self { submitted: 0 }
    }
}

impl Journal for MemoryJournal {
    fn submit(&mut self, _events: &[u8], _time: u64, _urgent: bool) -> io::Result<Position> {
        self.submitted += 1;
        Ok(self.submitted)
    }

    fn submitted(&self) -> Position {
        self.submitted
    }

    fn durable(&mut self) -> io::Result<Position> {
        Ok(self.submitted)
    }

    fn fits(&mut self, _bytes: usize) -> bool {
        true
    }

    fn close(self: Box<Self>, _time: u64) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_is_durable_at_once() {
        let mut journal = MemoryJournal::new();
        assert_eq!(journal.durable().unwrap(), 0);
        assert_eq!(journal.submit(b"one", 1, false).unwrap(), 1);
        assert_eq!(journal.submit(b"two", 2, true).unwrap(), 2);
        assert_eq!((journal.submitted(), journal.durable().unwrap()), (2, 2));
        assert!(journal.is_idle() && journal.fits(usize::MAX));
        Box::new(journal).close(3).unwrap();
    }
}

//! A door that a test opens.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Something that opens once, in a way that the pool cannot see.
pub(crate) struct Door {
    opener: Mutex<Option<Sender<()>>>,
    closed: Mutex<Receiver<()>>,
}

impl Door {
    pub(crate) fn new() -> Arc<Self> {
        let (opener, closed) = channel();
        Arc::new(Self { opener: Mutex::new(Some(opener)), closed: Mutex::new(closed) })
    }

    pub(crate) fn open(&self) {
        drop(self.opener.lock().unwrap().take());
    }

    pub(crate) fn pass(&self) {
        let _ = self.closed.lock().unwrap().recv();
    }
}

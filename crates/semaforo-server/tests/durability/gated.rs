//! A disk on which later segments are made when the test says so.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

use semaforo_server::journal::simulated_disk::{SimulatedDisk, SimulatedFile, SimulatedLock};
use semaforo_server::journal::{Disk, LockError};

/// A simulated disk. All segments but the first wait at a gate before they are made.
#[derive(Clone, Debug)]
pub(crate) struct Gated {
    disk: SimulatedDisk,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Gated {
    /// With a gate that is closed.
    pub(crate) fn new() -> Self {
        Self { disk: SimulatedDisk::new(), gate: Arc::default() }
    }

    /// Opens the gate at the end of a test at the latest: a server does not end before its threads.
    pub(crate) fn open_at_last(&self) -> impl Drop {
        struct AtLast(Gated);
        impl Drop for AtLast {
            fn drop(&mut self) {
                self.0.open();
            }
        }
        AtLast(self.clone())
    }

    /// From now on segments are made at once.
    pub(crate) fn open(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }
}

impl Disk for Gated {
    type File = SimulatedFile;
    type Lock = SimulatedLock;

    fn lock(&self) -> Result<SimulatedLock, LockError> {
        self.disk.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        if name.starts_with("segment-") && !name.ends_with("01.new") {
            let (is_open, changed) = &*self.gate;
            let is_open = is_open.lock().unwrap();
            drop(changed.wait_while(is_open, |is_open| !*is_open).unwrap());
        }
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<SimulatedFile> {
        Disk::open(&self.disk, name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.path(name)
    }
}

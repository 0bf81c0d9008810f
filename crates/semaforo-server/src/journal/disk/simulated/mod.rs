//! A disk for tests, in memory, that remembers what was synced and forgets the rest in a crash.
//!
//! It is as malicious as a real one may be: what was not synced survives in any combination. Of a
//! write any sectors may be there, and any of the creations, renames and removals.

mod inode;
mod luck;

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::{Disk, DiskFile, LockError};
use inode::Inode;
pub use luck::Luck;

/// A disk in memory. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// A thread that was held may go on.
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    /// As processes see it.
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Changes of names that were not synced, in order; those of a rename belong together.
    pending: Vec<Vec<Change>>,
    /// Counts restarts: what was opened before is of no use any more.
    life: u64,
    locked: bool,
    crashed: bool,
    operations: u64,
    crash_at: Option<u64>,
    fault: Option<(u64, io::ErrorKind)>,
    capacity: Option<u64>,
    held: Option<String>,
    waiting: usize,
}

/// A name gets another file, or none.
type Change = (String, Option<usize>);

/// An operation that changes something.
enum Operation<'a> {
    Write(usize, &'a [u8], u64),
    Sync(usize),
    Names(Vec<Change>),
    SyncNames,
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panicking test has its own message.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many operations so far have changed something or synced.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// The power fails during the `n`-th operation from now, counting from 0: it may have happened
    /// or not, and so may all that was not synced; everything after it fails.
    pub fn crash_at(&self, n: u64) {
        let mut state = self.state();
        state.crash_at = Some(state.operations + n);
    }

    /// Whether the power has failed.
    pub fn has_crashed(&self) -> bool {
        self.state().crashed
    }

    /// The `n`-th operation from now, counting from 0, does not happen and fails with this error.
    pub fn fail_at(&self, n: u64, error: io::ErrorKind) {
        let mut state = self.state();
        state.fault = Some((state.operations + n, error));
    }

    /// No more than so many bytes in all files together.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// How many bytes all files have together.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Operations on files whose name begins like this wait until [`release`](Self::release): a
    /// very slow disk.
    pub fn hold(&self, prefix: &str) {
        self.state().held = Some(prefix.to_owned());
    }

    /// Lets those go on that were held.
    pub fn release(&self) {
        self.state().held = None;
        self.shared.released.notify_all();
    }

    /// Waits until a thread is held.
    pub fn wait_until_held(&self) {
        let state = self.state();
        let waited = self.shared.released.wait_while(state, |state| state.waiting == 0);
        drop(waited);
    }

    /// The process dies, but not the machine: all is as written, and not more durable than before.
    /// After a crash, this is what makes it the process's alone.
    pub fn kill(&self) {
        let mut state = self.state();
        state.end_life();
    }

    /// The machine starts again. `luck` decides what is there of that which was not synced.
    pub fn restart(&self, luck: Luck) {
        let mut state = self.state();
        let mut luck = luck.begin();
        let mut names = std::mem::take(&mut state.durable_names);
        for changes in std::mem::take(&mut state.pending) {
            if luck.keeps_names() {
                apply(&mut names, changes);
            }
        }
        for inode in &mut state.inodes {
            inode.restart(&mut luck);
        }
        state.durable_names.clone_from(&names);
        state.names = names;
        state.end_life();
    }

    /// The bytes of a file, as a process sees them.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        Some(state.inodes.get(*state.names.get(name)?)?.current.clone())
    }

    /// Puts a file there, durably, or in place of one.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let inode = state.inodes.len();
        state.inodes.push(Inode::durable(bytes.to_vec()));
        state.names.insert(name.to_owned(), inode);
        state.durable_names.insert(name.to_owned(), inode);
    }

    /// A disk of its own with the same files, all durable.
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        let state = self.state();
        for (name, &inode) in &state.names {
            copy.put(name, state.inodes.get(inode).map_or(&[], |inode| &inode.current));
        }
        copy
    }

    /// Does an operation on the file `name`, unless something speaks against it.
    fn operate(&self, name: &str, life: Option<u64>, operation: Operation<'_>) -> io::Result<()> {
        let mut state = self.state();
        while state.held.as_ref().is_some_and(|prefix| name.starts_with(prefix)) {
            state.waiting += 1;
            self.shared.released.notify_all();
            state = self.shared.released.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.operate(life, operation)
    }
}

impl State {
    fn used(&self) -> u64 {
        let sizes = self.names.values().filter_map(|&inode| self.inodes.get(inode));
        sizes.map(|inode| inode.current.len() as u64).sum()
    }

    fn end_life(&mut self) {
        self.life += 1;
        (self.locked, self.crashed, self.crash_at, self.fault) = (false, false, None, None);
    }

    fn check(&self, life: Option<u64>) -> io::Result<()> {
        match life {
            _ if self.crashed => Err(io::Error::other("the simulated machine has no power")),
            Some(life) if life != self.life => Err(io::Error::other("opened before the restart")),
            _ => Ok(()),
        }
    }

    fn operate(&mut self, life: Option<u64>, operation: Operation<'_>) -> io::Result<()> {
        self.check(life)?;
        let number = self.operations;
        self.operations += 1;
        if let Some((_, error)) = self.fault.take_if(|(at, _)| *at == number) {
            if let Operation::Sync(inode) = operation {
                // As Linux does it: what could not be written is not tried again.
                self.inodes[inode].pending.clear();
            }
            return Err(error.into());
        }
        self.crashed = self.crash_at == Some(number);
        match operation {
            Operation::Write(inode, bytes, offset) => {
                let growth = (offset + bytes.len() as u64)
                    .saturating_sub(self.inodes[inode].current.len() as u64);
                if self.capacity.is_some_and(|capacity| self.used() + growth > capacity) {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                self.inodes[inode].write(bytes, offset);
            }
            Operation::Sync(inode) if !self.crashed => self.inodes[inode].sync(),
            Operation::SyncNames if !self.crashed => {
                self.durable_names.clone_from(&self.names);
                self.pending.clear();
            }
            Operation::Sync(_) | Operation::SyncNames => {}
            Operation::Names(changes) => {
                apply(&mut self.names, changes.clone());
                self.pending.push(changes);
            }
        }
        self.check(life)
    }
}

fn apply(names: &mut BTreeMap<String, usize>, changes: Vec<Change>) {
    for (name, inode) in changes {
        match inode {
            Some(inode) => names.insert(name, inode),
            None => names.remove(&name),
        };
    }
}

/// An open file of a [`SimulatedDisk`].
#[derive(Debug)]
pub struct SimulatedFile {
    disk: SimulatedDisk,
    name: String,
    inode: usize,
    life: u64,
}

/// The lock of a [`SimulatedDisk`].
#[derive(Debug)]
pub struct SimulatedLock {
    disk: SimulatedDisk,
    life: u64,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.life == self.life {
            state.locked = false;
        }
    }
}

impl Disk for SimulatedDisk {
    type File = SimulatedFile;
    type Lock = SimulatedLock;

    fn lock(&self) -> Result<SimulatedLock, LockError> {
        let mut state = self.state();
        if state.locked {
            return Err(LockError::Held("4711".into()));
        }
        state.locked = true;
        Ok(SimulatedLock { disk: self.clone(), life: state.life })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.check(None)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        let inode = {
            let mut state = self.state();
            state.inodes.push(Inode::default());
            state.inodes.len() - 1
        };
        self.operate(name, None, Operation::Names(vec![(name.to_owned(), Some(inode))]))?;
        self.open(name)
    }

    fn open(&self, name: &str) -> io::Result<SimulatedFile> {
        let state = self.state();
        state.check(None)?;
        let inode = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(SimulatedFile { disk: self.clone(), name: name.to_owned(), inode, life: state.life })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let inode = *self.state().names.get(from).ok_or(io::ErrorKind::NotFound)?;
        let changes = vec![(from.to_owned(), None), (to.to_owned(), Some(inode))];
        self.operate(to, None, Operation::Names(changes))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if !self.state().names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.operate(name, None, Operation::Names(vec![(name.to_owned(), None)]))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.operate("", None, Operation::SyncNames)
    }

    fn available(&self) -> Option<u64> {
        let state = self.state();
        Some(state.capacity?.saturating_sub(state.used()))
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("/simulated").join(name)
    }
}

impl DiskFile for SimulatedFile {
    fn size(&self) -> io::Result<u64> {
        let state = self.disk.state();
        state.check(Some(self.life))?;
        Ok(state.inodes[self.inode].current.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.disk.state();
        state.check(Some(self.life))?;
        state.inodes[self.inode].read(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.operate(&self.name, Some(self.life), Operation::Write(self.inode, bytes, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.operate(&self.name, Some(self.life), Operation::Sync(self.inode))
    }
}

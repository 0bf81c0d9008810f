//! What the journal asks of a disk, so that tests can put a simulated one in its place.

mod real;
mod simulated;

use std::{fmt, io, path::PathBuf};

pub use real::RealDisk;
pub(crate) use real::open_no_link;
pub use simulated::{Luck, SimulatedDisk, SimulatedFile, SimulatedLock};

/// A directory on a disk. Names are plain file names in it.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;
    /// Keeps the directory locked until it is dropped.
    type Lock: fmt::Debug + Send;

    /// Makes this process the only user of the directory.
    fn lock(&self) -> Result<Self::Lock, LockError>;
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Creates an empty file, in place of one that has the name.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Renames a file, in place of one that has the new name. Durable after `sync_directory`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. Durable after `sync_directory`.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names durable: all creations, renames and removals so far.
    fn sync_directory(&self) -> io::Result<()>;
    /// How many bytes more there is space for, if that is known.
    fn available(&self) -> Option<u64> {
        None
    }
    /// The full path of a file, for messages.
    fn path(&self, name: &str) -> PathBuf;
}

/// An open file.
pub trait DiskFile: fmt::Debug + Send + 'static {
    /// The size in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Fills `buffer` with the bytes from `offset` on; an error if there are not so many.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`. Durable after `sync`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the bytes durable, and the size if it has changed; but not the name.
    fn sync(&self) -> io::Result<()>;
    /// Asks to forget what is cached, so that the next read comes from the disk itself. A mere
    /// hint.
    fn forget_cache(&self) {}
}

/// Why a directory could not be locked.
#[derive(Debug)]
pub enum LockError {
    /// Another process has it; what it wrote into the lock file.
    Held(String),
    /// The lock file could not be used.
    Io(io::Error),
}

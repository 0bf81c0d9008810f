//! What a start found.

use std::{fmt, path::PathBuf, time::Duration};

use super::{Disk, FileJournal, Position, RealDisk};

/// A journal that was opened, and what it remembered.
#[derive(Debug)]
pub struct Recovered<F, D: Disk = RealDisk> {
    /// All events, folded.
    pub state: F,
    /// The kernel's clock must not start before this, in milliseconds.
    pub time: u64,
    /// The journal, ready for more.
    pub journal: FileJournal<D>,
    /// What was found, for the log.
    pub report: Report,
}

/// What a start found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The position of the last batch.
    pub position: Position,
    /// How many segments had to be read.
    pub segments: usize,
    /// How many batches were in them.
    pub batches: u64,
    /// How many bytes these batches took.
    pub bytes: u64,
    /// The snapshot that was used.
    pub snapshot: Option<SnapshotUsed>,
    /// What a crash had torn.
    pub cut: Option<Cut>,
    /// Whether the last server stopped cleanly. True for a new journal.
    pub clean: bool,
    /// How many files were left over from unfinished work, or replaced by the snapshot.
    pub removed: usize,
    /// How long it took.
    pub took: Duration,
}

/// The snapshot with which a start began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotUsed {
    /// The file.
    pub file: PathBuf,
    /// The last batch that is in it.
    pub position: Position,
    /// How big it is.
    pub bytes: u64,
}

/// A torn tail, which was cut: bytes that a crash interrupted and that had not been confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: PathBuf,
    /// From where on.
    pub offset: u64,
    /// How many bytes, up to the last one that was not zero.
    pub bytes: u64,
    /// What stood there.
    pub found: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.position == 0 && self.cut.is_none() {
            return write!(f, "the journal is new");
        }
        if let Some(snapshot) = &self.snapshot {
            write!(f, "snapshot of {} bytes up to batch {}, ", snapshot.bytes, snapshot.position)?;
        }
        let Self { segments, batches, bytes, position, took, .. } = self;
        write!(
            f,
            "{batches} batches ({bytes} bytes) in {segments} segments, the last is {position}, read in {took:.1?}"
        )?;
        f.write_str(if self.clean {
            "; it was stopped cleanly"
        } else {
            "; it was not stopped cleanly"
        })?;
        if let Some(Cut { file, offset, bytes, found }) = &self.cut {
            write!(
                f,
                "; cut {bytes} bytes of an unfinished batch from {} at byte {offset} ({found})",
                file.display()
            )?;
        }
        Ok(())
    }
}

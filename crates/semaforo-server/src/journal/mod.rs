//! The journal: what has to be remembered, in the order in which it was decided.
//!
//! The server's state is never written; the *events* that changed it are. The main thread hands all
//! events of one turn of its loop to [`Journal::submit`] as one *batch*, and lets no answer go
//! before [`Journal::durable`] covers the batch that the answer saw. A batch is atomic: after a
//! crash it is there whole or not at all. Batches are numbered from 1 without gaps; the number is
//! the [`Position`].
//!
//! # Files of the file journal
//!
//! ```text
//! lock                              held while a server uses the directory; contains its process id
//! segment-00000000000000000007      batches, one behind the other, then zeros up to the file's size
//! segment-00000000000000000008      the next one, all zeros, made ahead of time
//! snapshot-00000000000000000006     what all segments up to and including number 6 amount to
//! *.new                             being made; removed when found at a start
//! ```
//!
//! Whatever else lies in the directory is left alone. Every file begins with a version.
//!
//! # Why it can be trusted
//!
//! * A segment's zeros are written and synced, and its name is synced, before its first batch. An
//!   append therefore changes neither the file's size nor its blocks: one write, one `fdatasync`,
//!   no metadata. It also cannot run out of space: that is found out while preparing, when nothing
//!   depends on it yet. (On file systems that copy on write, such as btrfs, space is not reserved
//!   that way.)
//! * Segments are made anew rather than recycled. Old batches in a recycled file would have to be
//!   told from new ones at every start; in a file of zeros everything that is not zero was written
//!   for this segment.
//! * Every batch has checksums of its header and of its events, seeded with the identity of the
//!   journal and the number of the segment, so that bytes from elsewhere (another segment, another
//!   journal, a message that imitates a batch) never pass for a batch.
//! * Every batch says up to which position everything was synced when it was written (its *mark*).
//!   A damaged batch at position `p` is a *torn tail* if nothing after it has a mark of `p` or
//!   more: it was never reported durable, and is cut. Otherwise it had been synced: that is
//!   *corruption*, which is refused with file and offset. With [`Durability::Always`] each mark is
//!   the position before, so a successor is the proof; with the others several batches may be lost
//!   at once, and exactly the longest intact prefix is kept. A segment is synced before its
//!   successor is written. A clean stop, and a second in which nothing comes after a sync, leave an
//!   empty batch with such a mark, so that the last batch does not pass for torn if it rots later.
//!   What is left: a batch that rots within that second, or together with the mark behind it; and
//!   with [`Durability::Memory`] what was not synced when the process was killed.
//! * What recovery accepts, it makes durable before anything is built on it: the batches that no
//!   mark covers are written again (after a failed sync they may exist in the page cache only), the
//!   rest is zeroed, both are synced.
//! * A snapshot is written, synced, read back, checked and folded before it gets its name; its name
//!   is synced before anything that it replaces is removed. A crash in between leaves more than
//!   needed, never less.
//! * A failed write or sync is final: the journal refuses everything after it. Trying again is not
//!   safe, since the kernel may have dropped the pages.
//!
//! It is assumed that a disk writes 512 bytes wholly or not at all, and that after a sync they
//! stay.

mod batch;
mod compaction;
pub(crate) mod disk;
mod error;
mod file;
mod heading;
mod inventory;
mod memory;
mod names;
mod recovery;
mod report;
mod segment;
mod snapshot;
mod worker;

use std::{borrow::Cow, fmt, io, time::Duration, time::Instant};

pub use batch::MAXIMUM_BATCH;
pub use disk::{Disk, DiskFile, LockError, RealDisk};
pub use error::OpenError;
pub use file::{FileJournal, Options};
pub use heading::VERSION;
pub use memory::MemoryJournal;
pub use report::{Cut, Recovered, Report, SnapshotUsed};
pub use worker::Background;

/// A disk in memory, which forgets at a crash what was not synced: for the tests of the journal, of
/// the server and for fuzzing.
#[doc(hidden)]
pub mod simulated_disk {
    pub use super::disk::{Luck, SimulatedDisk, SimulatedFile, SimulatedLock};
}

/// The number of a batch: 1 is the first one, 0 is before all of them.
pub type Position = u64;

/// What events are folded into.
pub trait Fold: Default + Send + 'static {
    /// Applies the events of a batch, or of a piece of a snapshot, which lie back to back.
    fn apply(&mut self, events: &[u8]) -> Result<(), BadEvent>;

    /// Writes events that rebuild this state from the default one: each call of `sink` gets one or
    /// more whole events, at most [`MAXIMUM_BATCH`] bytes of them.
    fn dump(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>;
}

/// Why a state cannot take an event: the journal is from another program, or there is a defect in
/// this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadEvent {
    /// Where the event begins, counted from the first byte that was given to [`Fold::apply`].
    pub offset: usize,
    /// What was wrong and what would have been right.
    pub reason: Cow<'static, str>,
}

impl BadEvent {
    /// An event at `offset` that cannot be applied because of `reason`.
    pub fn new(offset: usize, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { offset, reason: reason.into() }
    }
}

impl fmt::Display for BadEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the event at byte {} of its batch: {}", self.offset, self.reason)
    }
}

impl std::error::Error for BadEvent {}

/// Where events go before an answer that depends on them may leave.
pub trait Journal: Send {
    /// Takes the events of a turn as one batch, which is kept whole or not at all.
    ///
    /// `time` is the kernel's clock in milliseconds; it is kept with the batch, so that the clock
    /// never goes back. `urgent` batches are synced whatever the durability asked for is (blocks of
    /// fences).
    ///
    /// It has to [fit](Self::fits). An error is final: what is on the disk is not
    /// known any more, and the process must end.
    fn submit(&mut self, events: &[u8], time: u64, urgent: bool) -> io::Result<Position>;

    /// Whether a batch can be submitted now. A journal that completes later has one in flight at
    /// most.
    fn is_idle(&self) -> bool {
        true
    }

    /// The position of the last batch that was submitted.
    fn submitted(&self) -> Position;

    /// Up to which position answers may go: everything before it is as safe as the durability
    /// promises.
    fn durable(&mut self) -> io::Result<Position>;

    /// Whether a batch with so many bytes of events is sure to find its space. What must never be
    /// refused (releasing, taking, ending) asks for less than what may be, so that a full disk can
    /// be emptied: a server should ask with a generous margin before it accepts a message.
    fn fits(&mut self, bytes: usize) -> bool;

    /// How many bytes of events the next batch is sure to find space for, and not more than are
    /// wanted.
    fn space(&mut self, wanted: usize) -> usize {
        if self.fits(wanted) { wanted } else { 0 }
    }

    /// Whether there will be more space than there is now, or [it is
    /// known](Self::is_short_of_space) that there will not, after some more [turns](Self::turn):
    /// what does not find its space can wait for that.
    fn is_preparing(&self) -> bool {
        false
    }

    /// A batch with so many bytes of events waits for its place: one that is large enough is made
    /// in the background, if it would not come by itself.
    fn prepare_for(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Whether the space that there is will not be followed by more.
    fn is_short_of_space(&self) -> bool {
        false
    }

    /// To be called once per turn of the loop, after `submit`: syncs at intervals, takes up what
    /// the background has finished.
    fn turn(&mut self, now: Instant) -> io::Result<()> {
        let _ = now;
        Ok(())
    }

    /// When [`turn`](Self::turn) has to be called again, at the latest.
    fn next_turn(&self) -> Option<Instant> {
        None
    }

    /// Something that the operator may want to see in the log; to be called until there is nothing
    /// more.
    fn notice(&mut self) -> Option<Notice> {
        None
    }

    /// Marks a clean stop, makes everything durable and gives up the files.
    fn close(self: Box<Self>, time: u64) -> io::Result<()>;
}

/// When a batch is synced to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Before it counts as durable: nothing that was answered is lost, whatever happens.
    Always,
    /// At the latest so long after it was written: a crash of the machine can lose that much, a
    /// crash of the process nothing.
    Interval(Duration),
    /// When a segment is full and at a clean stop: a crash of the machine can lose a segment's
    /// worth, a crash of the process nothing.
    Memory,
}

/// News from the background, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The next segment could not be prepared; `fits` will say no when the current one is full.
    SpaceMissing {
        /// What the file system said.
        reason: String,
    },
    /// The next segment could be prepared after all.
    SpaceFound,
    /// A snapshot replaced old files.
    Snapshot {
        /// The last batch that is in it.
        position: Position,
        /// How big it is.
        bytes: u64,
        /// How many segments it replaced.
        segments: usize,
        /// How long it took in the background.
        took: Duration,
    },
    /// A snapshot could not be made; the files that it would have replaced are kept.
    SnapshotFailed {
        /// Why, and of which file.
        reason: String,
    },
}

impl Notice {
    /// Whether a person should do something about it.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        matches!(self, Self::SpaceMissing { .. } | Self::SnapshotFailed { .. })
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SpaceMissing { reason } => {
                write!(
                    f,
                    "journal: no space for the next segment ({reason}); requests that need more will be answered 507 until there is"
                )
            }
            Self::SpaceFound => f.write_str("journal: the next segment has its space again"),
            Self::Snapshot { position, bytes, segments, took } => write!(
                f,
                "journal: snapshot of {bytes} bytes up to batch {position} replaced {segments} segments, in {took:.1?}"
            ),
            Self::SnapshotFailed { reason } => {
                write!(f, "journal: no snapshot could be made, older files are kept: {reason}")
            }
        }
    }
}

//! Why a journal cannot be opened.

use std::{error::Error, fmt, io, path::PathBuf};

use super::{BadEvent, Position};

/// Why a journal cannot be opened. Nothing in the directory was changed, except after an
/// [`Io`](Self::Io) error.
#[derive(Debug)]
pub enum OpenError {
    /// Another process uses the directory.
    Locked {
        /// The lock file.
        file: PathBuf,
        /// What the other process wrote into it: its process id.
        holder: String,
    },
    /// A file was written by a newer version of this program.
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A file is damaged where a crash cannot have done it.
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there, and why it is no torn tail.
        found: String,
    },
    /// A file that the others build upon is not there.
    Missing {
        /// The file.
        file: PathBuf,
        /// Why it should be there.
        because: String,
    },
    /// A file belongs to another journal.
    Mixed {
        /// The file.
        file: PathBuf,
        /// A file of the journal to which it does not belong.
        other: PathBuf,
    },
    /// An intact event that the state does not accept.
    BadEvent {
        /// The file.
        file: PathBuf,
        /// Where its batch, or its piece of a snapshot, begins.
        offset: u64,
        /// The batch; in a snapshot, the last one that went into it.
        position: Position,
        /// What the state said.
        error: BadEvent,
    },
    /// The file system refused something.
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        file: PathBuf,
        /// What it said.
        error: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { file, holder } => {
                write!(f, "the journal is in use by ")?;
                match holder.as_str() {
                    "" => f.write_str("another process")?,
                    holder => write!(f, "process {holder}")?,
                }
                write!(f, " ({} is locked); stop it, or choose another directory", file.display())
            }
            Self::Newer { file, version } => write!(
                f,
                "{} was written by a newer version of this program (its format is {version}, this program reads up to {}); use that version, or another directory",
                file.display(),
                super::VERSION,
            ),
            Self::Corrupt { file, offset, found } => write!(
                f,
                "the journal is damaged: {}, at byte {offset}: {found}. Nothing was changed. Restore the directory from a backup; or, to go on with what was recorded before this file and lose all that came later (fences will repeat), move this file, and all segments with a higher number, out of the directory",
                file.display(),
            ),
            Self::Missing { file, because } => write!(
                f,
                "the journal is incomplete: {} is not there, but {because}. Nothing was changed. Restore the directory from a backup",
                file.display(),
            ),
            Self::Mixed { file, other } => write!(
                f,
                "{} and {} belong to different journals. Nothing was changed. Move those that do not belong here out of the directory",
                file.display(),
                other.display(),
            ),
            Self::BadEvent { file, offset, position, error } => write!(
                f,
                "{}, at byte {offset}, batch {position}, is intact but cannot be used: {error}. Nothing was changed. Was it written by another version of this program?",
                file.display(),
            ),
            Self::Io { doing, file, error } => {
                write!(f, "cannot {doing} {}: {error}", file.display())
            }
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::BadEvent { error, .. } => Some(error),
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

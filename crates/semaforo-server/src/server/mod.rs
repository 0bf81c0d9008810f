//! The server: sockets, the kernel, the journal.

pub mod access;
mod clock;
mod digest;
mod engine;
pub mod limits;
mod options;
mod render;
mod start;
mod tcp;
mod translate;

pub use clock::Clock;
pub use options::{JournalKind, Options};
pub use start::{Server, StartError};

use std::io;

/// The exit status after the journal has failed: an input or output error, as in `sysexits.h`.
pub const JOURNAL_FAILED: i32 = 74;

/// Ends the process: what was decided could not be made durable, and to go on would be to guess.
fn die(failure: Option<&io::Error>) -> ! {
    let reason = failure.map_or_else(String::new, ToString::to_string);
    eprintln!("semaforo: the journal failed, nothing can be promised any more: {reason}");
    std::process::exit(JOURNAL_FAILED);
}

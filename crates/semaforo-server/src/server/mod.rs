//! The server: sockets, the kernel, the journal.

pub mod access;
mod calendar;
mod clock;
mod dispatcher;
mod engine;
mod fences;
pub mod files;
pub mod http;
mod http_channels;
mod http_clients;
mod json;
pub mod limits;
pub mod log;
mod options;
mod quotas;
mod refusals;
mod render;
mod request_digest;
mod start;
mod statistics;
mod translate;

pub use clock::Clock;
pub use options::{JournalKind, Options, Reload};
pub use start::{Server, StartError};

use std::io;

use self::log::Log;

/// The exit status after the journal has failed: an input or output error, as in `sysexits.h`.
pub const JOURNAL_FAILED: i32 = 74;

/// Ends the process: what was decided could not be made durable, and to go on would be to guess.
fn die(failure: &io::Error, log: &Log) -> ! {
    let lost = log.wait_until_written();
    let text =
        format!("semaforo: the journal failed, nothing can be promised any more: {failure}\n");
    // The pipe may be broken, or full: it is the status that counts.
    log::say_last(io::stderr(), text);
    log::tell_lost(lost);
    std::process::exit(JOURNAL_FAILED);
}

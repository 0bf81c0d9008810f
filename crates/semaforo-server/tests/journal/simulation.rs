//! Journals on a simulated disk, with small segments so that much happens with few batches.

use semaforo_server::journal::simulated_disk::SimulatedDisk;
use semaforo_server::journal::{
    Background, Durability, FileJournal, Journal, OpenError, Options, Recovered,
};

use crate::ledger::{Ledger, event};

pub(crate) type Simulated = Recovered<Ledger, SimulatedDisk>;
pub(crate) type SimulatedJournal = FileJournal<SimulatedDisk>;

/// Segments of 8 KiB, of which 4 KiB are for batches; snapshots after three of them.
pub(crate) const SMALL: Options = Options {
    durability: Durability::Always,
    segment_size: 8 << 10,
    least_segment: 8 << 10,
    snapshot_after: 9 << 10,
    background: Background::Inline,
};

/// As `SMALL`, but no snapshot is ever made.
pub(crate) const NO_SNAPSHOTS: Options = Options { snapshot_after: u64::MAX, ..SMALL };

pub(crate) fn try_open(disk: &SimulatedDisk, options: Options) -> Result<Simulated, OpenError> {
    FileJournal::open_on(disk.clone(), options)
}

pub(crate) fn open(disk: &SimulatedDisk, options: Options) -> Simulated {
    try_open(disk, options).unwrap_or_else(|error| panic!("{error}"))
}

/// The error of a journal that must not open.
pub(crate) fn refused(disk: &SimulatedDisk) -> OpenError {
    match try_open(disk, SMALL) {
        Ok(recovered) => panic!("opened, with {}", recovered.report),
        Err(error) => error,
    }
}

/// How many bytes come with a number: all kinds of small batches, and some that fill most of a
/// segment.
pub(crate) fn length(number: u64) -> usize {
    match number % 10 {
        3 => 0,
        7 => 3000,
        rest => 100 * rest as usize + number as usize % 8,
    }
}

/// Lets the background prepare the segment that it is about to prepare.
pub(crate) fn settle(journal: &mut SimulatedJournal) -> std::io::Result<()> {
    while journal.is_preparing() {
        journal.turn(std::time::Instant::now())?;
        std::thread::yield_now();
    }
    Ok(())
}

/// Submits a number as a batch of its own; its time is the number.
pub(crate) fn submit(journal: &mut SimulatedJournal, number: u64) -> std::io::Result<u64> {
    settle(journal)?;
    journal.submit(&event(number, length(number)), number, false)
}

/// Submits the numbers up to `last`, with a turn after each, until something fails. The last one
/// that was confirmed.
pub(crate) fn submit_up_to(journal: &mut SimulatedJournal, first: u64, last: u64) -> u64 {
    let now = std::time::Instant::now();
    for number in first..=last {
        if submit(journal, number).is_err() || journal.turn(now).is_err() {
            return number - 1;
        }
    }
    last
}

/// A disk on which the numbers up to `last` were submitted, and the server was killed.
pub(crate) fn disk_with(last: u64, options: Options) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, options).journal;
    assert_eq!(submit_up_to(&mut journal, 1, last), last);
    disk.kill();
    disk
}

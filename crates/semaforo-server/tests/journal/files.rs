//! The file journal in a real directory.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use semaforo_server::journal::{FileJournal, Journal, OpenError, Options, Recovered};

use crate::ledger::{Ledger, event};

/// A directory that is removed afterwards.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("semaforo-journal-{}-{count}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn open(&self) -> Recovered<Ledger> {
        open(&self.0).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(directory: &Path) -> Result<Recovered<Ledger>, OpenError> {
    let options =
        Options { segment_size: 64 << 10, snapshot_after: 256 << 10, ..Options::default() };
    FileJournal::open(directory, options)
}

#[test]
fn what_was_submitted_is_there_after_a_restart() {
    let directory = Directory::new();
    let Recovered { state, time, mut journal, report } = directory.open();
    assert_eq!((state, time, report.position), (Ledger::default(), 0, 0));
    assert_eq!(report.to_string(), "the journal is new");
    for number in 1..=100 {
        assert!(journal.fits(120));
        assert_eq!(journal.submit(&event(number, 100), 1000 + number, false).unwrap(), number);
        assert_eq!(journal.durable().unwrap(), number);
        assert_eq!(journal.synced(), number);
    }
    drop(journal);
    let Recovered { state, time, journal, report } = directory.open();
    assert_eq!((state.last, time, report.clean), (100, 1100, false));
    Box::new(journal).close(2000).unwrap();
    let Recovered { state, time, report, .. } = directory.open();
    assert_eq!((state.last, time, report.clean), (100, 2000, true));
    assert_eq!((report.position, report.batches, report.cut), (101, 101, None));
}

#[test]
fn a_life_with_many_segments_and_snapshots() {
    let directory = Directory::new();
    let mut journal = directory.open().journal;
    for number in 1..=1000 {
        while !journal.fits(1000) {
            assert!(journal.is_preparing());
            journal.turn(std::time::Instant::now()).unwrap();
        }
        journal.submit(&event(number, 900), number, false).unwrap();
        journal.turn(std::time::Instant::now()).unwrap();
    }
    drop(journal);
    let opened = directory.open();
    assert_eq!((opened.state.last, opened.time), (1000, 1000));
    drop(opened);
    let names = fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().file_name());
    let unfinished = names.filter(|name| name.to_string_lossy().ends_with(".new"));
    assert_eq!(unfinished.count(), 0);
}

#[test]
fn the_directory_is_private_and_locked_by_a_process_that_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new();
    let opened = directory.open();
    let error = open(&directory.0).unwrap_err();
    assert!(matches!(&error, OpenError::Locked { .. }), "{error}");
    let expected = format!("in use by process {}", std::process::id());
    assert!(error.to_string().contains(&expected), "{error}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory.0), 0o700);
    assert_eq!(mode(&directory.0.join("segment-00000000000000000001")), 0o600);
    drop(opened);
    directory.open();
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let directory = Directory::new();
    fs::create_dir_all(&directory.0).unwrap();
    let file = directory.0.join("file");
    fs::write(&file, b"").unwrap();
    let error = open(&file).unwrap_err().to_string();
    assert!(error.contains("cannot use the directory") && error.contains("file"), "{error}");
}

#[test]
fn appending_changes_neither_the_size_nor_the_blocks_of_the_file() {
    use std::os::unix::fs::MetadataExt;
    let directory = Directory::new();
    let mut journal = directory.open().journal;
    let file = directory.0.join("segment-00000000000000000001");
    let before = fs::metadata(&file).unwrap();
    assert!(before.blocks() * 512 >= before.size(), "the zeros are really there");
    for number in 1..=50 {
        journal.submit(&event(number, 500), number, false).unwrap();
    }
    let after = fs::metadata(&file).unwrap();
    assert_eq!((before.size(), before.blocks()), (after.size(), after.blocks()));
}

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
        assert!(journal.has_room(120));
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

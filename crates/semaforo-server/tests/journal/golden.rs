//! Journals that earlier versions wrote, kept as files: every version must read them.
//!
//! `SEMAFORO_GOLDEN=1 cargo test -p semaforo-server --test journal golden` makes the directory of
//! the present version if it is not there; what is there is never changed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use semaforo_server::journal::simulated_disk::SimulatedDisk;
use semaforo_server::journal::{Disk, Journal, VERSION};

use crate::simulation::{SMALL, Simulated, open, submit, submit_up_to};

/// With a snapshot, a full segment, one in use, an empty one.
const LAST: u64 = 39;

fn directory(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/journal-{version}"))
}

fn load(version: u32) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    for entry in
        fs::read_dir(directory(version)).expect("the golden files belong to the repository")
    {
        let entry = entry.unwrap();
        disk.put(&entry.file_name().into_string().unwrap(), &fs::read(entry.path()).unwrap());
    }
    disk
}

#[test]
fn journals_of_all_versions_are_read() {
    if std::env::var_os("SEMAFORO_GOLDEN").is_some() && !directory(VERSION).exists() {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk, SMALL).journal;
        assert_eq!(submit_up_to(&mut journal, 1, LAST), LAST);
        Box::new(journal).close(1000).unwrap();
        fs::create_dir_all(directory(VERSION)).unwrap();
        for name in disk.list().unwrap() {
            fs::write(directory(VERSION).join(&name), disk.contents(&name).unwrap()).unwrap();
        }
    }
    for version in 1..=VERSION {
        let disk = load(version);
        let Simulated { state, time, mut journal, report } = open(&disk, SMALL);
        assert_eq!((state.last, time, report.clean), (LAST, 1000, true), "{version}: {report}");
        assert!(report.snapshot.is_some() && report.segments >= 2, "{version}: {report}");
        assert_eq!(report.position, LAST + 1);
        submit(&mut journal, LAST + 1).unwrap();
        drop(journal);
        assert_eq!(open(&disk, SMALL).state.last, LAST + 1);
    }
}

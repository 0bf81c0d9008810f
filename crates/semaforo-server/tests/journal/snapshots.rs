//! Snapshots: made in the background, checked, and only then in place of what they stand for.

use std::{io, time::Instant};

use semaforo_server::journal::simulated_disk::{Luck, SimulatedDisk};
use semaforo_server::journal::{
    Background, BadEvent, FileJournal, Fold, Journal, Notice, OpenError, Options, Recovered,
};

use crate::{
    ledger::{Hoard, Ledger, event, kept},
    simulation::{SMALL, Simulated, disk_with, open, refused, submit_up_to},
};

const THREADS: Options = Options { background: Background::Threads, ..SMALL };

fn names(disk: &SimulatedDisk) -> Vec<String> {
    use semaforo_server::journal::Disk;
    disk.list().unwrap()
}

#[test]
fn a_snapshot_replaces_the_segments_that_are_in_it() {
    let disk = disk_with(200, SMALL);
    let names = names(&disk);
    assert_eq!(names.iter().filter(|name| name.starts_with("snapshot")).count(), 1, "{names:?}");
    assert!(names.iter().filter(|name| name.starts_with("segment")).count() <= 5, "{names:?}");
    let Simulated { state, time, report, .. } = open(&disk, SMALL);
    assert_eq!((state.last, time, report.position), (200, 200, 200));
    assert!(report.to_string().starts_with("snapshot of "), "{report}");
}

/// The slowest disk in the world: the snapshot waits, and nothing else does.
#[test]
fn the_main_thread_does_not_wait_for_a_snapshot() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, THREADS).journal;
    disk.hold("snapshot-");
    assert_eq!(submit_up_to(&mut journal, 1, 40), 40);
    disk.wait_until_held();
    assert_eq!(submit_up_to(&mut journal, 41, 80), 80);
    assert_eq!(journal.notice(), None);
    disk.release();
    let notice = loop {
        journal.turn(Instant::now()).unwrap();
        match journal.notice() {
            Some(notice) => break notice,
            None => std::thread::yield_now(),
        }
    };
    assert!(matches!(notice, Notice::Snapshot { .. }), "{notice}");
    drop(journal);
    assert_eq!(open(&disk, SMALL).state.last, 80);
}

#[test]
fn stopping_does_not_wait_for_a_snapshot_to_be_finished() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, THREADS).journal;
    disk.hold("snapshot-");
    assert_eq!(submit_up_to(&mut journal, 1, 40), 40);
    disk.wait_until_held();
    // It is given up at the next opportunity, and its file goes away.
    let closing = std::thread::spawn(move || Box::new(journal).close(41));
    disk.release();
    closing.join().unwrap().unwrap();
    assert!(!names(&disk).iter().any(|name| name.ends_with(".new")));
    let opened = open(&disk, SMALL);
    assert_eq!((opened.state.last, opened.report.clean), (40, true));
}

#[test]
fn a_snapshot_that_fails_leaves_everything_as_it_was() {
    // The operations of the first snapshot: those between the two counts.
    let count = |options| {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk, options).journal;
        let mut last = 0;
        while !matches!(journal.notice(), Some(Notice::Snapshot { .. })) && last < 40 {
            last += 1;
            submit_up_to(&mut journal, last, last);
        }
        (disk.operations(), last)
    };
    let (_, last) = count(SMALL);
    let mut failed = 0;
    for n in 0.. {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk, SMALL).journal;
        assert_eq!(submit_up_to(&mut journal, 1, last - 1), last - 1);
        let before = disk.operations();
        disk.fail_at(n, io::ErrorKind::StorageFull);
        let confirmed = submit_up_to(&mut journal, last, last + 30);
        let done = disk.operations() - before;
        while let Some(notice) = journal.notice() {
            failed += usize::from(matches!(notice, Notice::SnapshotFailed { .. }));
        }
        drop(journal);
        disk.restart(Luck::Lost);
        let state = open(&disk, SMALL).state;
        assert!(state.last >= confirmed, "operation {n}: {state:?} of {confirmed}");
        if n > done || n > 40 {
            break;
        }
    }
    assert!(failed >= 3, "{failed} snapshots failed");
}

/// A state whose snapshot cannot be read back.
#[derive(Debug, Default)]
struct Forgetful(Ledger);

impl Fold for Forgetful {
    fn apply(&mut self, events: &[u8]) -> Result<(), BadEvent> {
        self.0.apply(events)
    }

    fn dump(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        sink(&event(self.0.last, 1))
    }
}

#[test]
fn a_snapshot_that_cannot_be_folded_is_not_used() {
    let disk = SimulatedDisk::new();
    let Recovered { mut journal, .. } =
        FileJournal::open_on::<Forgetful>(disk.clone(), SMALL).unwrap();
    assert_eq!(submit_up_to(&mut journal, 1, 40), 40);
    match journal.notice() {
        Some(Notice::SnapshotFailed { reason }) => assert!(reason.contains("number"), "{reason}"),
        other => panic!("{other:?}"),
    }
    drop(journal);
    assert!(!names(&disk).iter().any(|name| name.starts_with("snapshot")), "{:?}", names(&disk));
    assert_eq!(open(&disk, SMALL).state.last, 40);
}

#[test]
fn damage_in_a_full_segment_is_found_and_nothing_is_removed() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, SMALL).journal;
    assert_eq!(submit_up_to(&mut journal, 1, 10), 10);
    let name = "segment-00000000000000000001";
    let mut bytes = disk.contents(name).unwrap();
    bytes[4200] ^= 1;
    disk.put(name, &bytes);
    assert_eq!(submit_up_to(&mut journal, 11, 40), 40, "the server goes on");
    let notice = journal.notice().unwrap().to_string();
    assert!(notice.contains(name) && notice.contains("at byte 4096"), "{notice}");
    drop(journal);
    assert!(names(&disk).contains(&name.to_owned()));
    assert!(matches!(refused(&disk), OpenError::Corrupt { .. }));
}

/// The same file system after a crash just before old files are removed, or while they are.
#[test]
fn what_a_snapshot_replaces_may_still_be_there() {
    let before = disk_with(24, Options { snapshot_after: u64::MAX, ..SMALL });
    let after = before.copy();
    let mut journal = open(&after, SMALL).journal;
    assert_eq!(submit_up_to(&mut journal, 25, 45), 45);
    drop(journal);
    assert!(names(&after).iter().any(|name| name.starts_with("snapshot")));
    let old: Vec<String> =
        names(&before).into_iter().filter(|name| after.contents(name).is_none()).collect();
    assert!(old.len() > 2, "{old:?}");
    for kept in 0..1_u32 << old.len() {
        let disk = after.copy();
        for (index, name) in old.iter().enumerate().filter(|(index, _)| kept >> index & 1 == 1) {
            let mut bytes = before.contents(name).unwrap();
            // Even if damaged, it is of no interest any more.
            bytes[4100 + index] ^= 1;
            bytes[30] ^= kept as u8 & 1;
            disk.put(name, &bytes);
        }
        let Simulated { state, report, .. } = open(&disk, SMALL);
        assert_eq!((state.last, report.removed), (45, kept.count_ones() as usize));
        assert!(old.iter().all(|name| disk.contents(name).is_none()));
    }
}

#[test]
fn a_snapshot_alone_is_a_journal() {
    let disk = disk_with(60, SMALL);
    let copy = SimulatedDisk::new();
    let name = names(&disk).into_iter().find(|name| name.starts_with("snapshot")).unwrap();
    copy.put(&name, &disk.contents(&name).unwrap());
    let Simulated { state, mut journal, report, .. } = open(&copy, SMALL);
    assert!(state.last > 20 && report.segments == 0, "{report}");
    let next = state.last + 1;
    assert_eq!(submit_up_to(&mut journal, next, next + 10), next + 10);
    drop(journal);
    assert_eq!(open(&copy, SMALL).state.last, next + 10);
}

#[test]
fn a_big_snapshot_has_many_pieces_and_every_one_is_checked() {
    let disk = SimulatedDisk::new();
    let options = Options { segment_size: 1 << 20, snapshot_after: 2 << 20, ..SMALL };
    let mut journal = FileJournal::open_on::<Hoard>(disk.clone(), options).unwrap().journal;
    let mut expected = Hoard::default();
    for number in 0..40_u32 {
        // Also one that is bigger than a piece.
        let length = if number == 7 { 600_000 } else { 70_000 };
        let event = kept(number as u8, length);
        journal.submit(&event, 1, false).unwrap();
        journal.turn(Instant::now()).unwrap();
        expected.apply(&event).unwrap();
    }
    assert!(matches!(journal.notice(), Some(Notice::Snapshot { .. })));
    drop(journal);
    let name = names(&disk).into_iter().find(|name| name.starts_with("snapshot")).unwrap();
    let bytes = disk.contents(&name).unwrap();
    assert!(bytes.len() > 1 << 20);
    assert_eq!(FileJournal::open_on::<Hoard>(disk.copy(), options).unwrap().state, expected);
    for at in (0..bytes.len()).step_by(200_021).chain([bytes.len() - 1]) {
        let copy = disk.copy();
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        copy.put(&name, &damaged);
        let error = FileJournal::open_on::<Hoard>(copy, options).unwrap_err();
        assert!(
            matches!(error, OpenError::Corrupt { .. } | OpenError::Newer { .. }),
            "{at}: {error}"
        );
    }
    for size in [0, 63, 64, 70, 300_000, bytes.len() - 1] {
        let copy = disk.copy();
        copy.put(&name, &bytes[..size]);
        let error = FileJournal::open_on::<Hoard>(copy, options).unwrap_err();
        assert!(matches!(error, OpenError::Corrupt { .. }), "{size}: {error}");
    }
}

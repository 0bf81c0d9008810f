//! A full disk: said in time, survived, and over when there is space again.

use std::{
    io,
    time::{Duration, Instant},
};

use semaforo_server::journal::simulated_disk::{Luck, SimulatedDisk};
use semaforo_server::journal::{Background, FileJournal, Journal, MAXIMUM_BATCH, Notice, Options};

use crate::{
    ledger::{Hoard, event, kept},
    simulation::{NO_SNAPSHOTS, SMALL, Simulated, open, settle, submit, try_open},
};

/// A journal whose snapshots are as big as what they replace, so that only more space helps.
fn hoarding(disk: &SimulatedDisk, background: Background) -> (Hoard, FileJournal<SimulatedDisk>) {
    let options = Options { background, ..NO_SNAPSHOTS };
    let opened =
        FileJournal::open_on(disk.clone(), options).unwrap_or_else(|error| panic!("{error}"));
    (opened.state, opened.journal)
}

/// Submits while there is room; says how many.
fn fill(journal: &mut FileJournal<SimulatedDisk>) -> usize {
    let event = kept(1, 500);
    for count in 0..1000 {
        settle(journal).unwrap();
        if !journal.fits(event.len()) {
            return count;
        }
        journal.submit(&event, 1, false).unwrap();
        journal.turn(Instant::now()).unwrap();
    }
    panic!("there is room without end");
}

fn notices(journal: &mut impl Journal) -> Vec<Notice> {
    std::iter::from_fn(|| journal.notice()).collect()
}

#[test]
fn no_room_is_said_before_it_is_too_late_and_room_comes_back() {
    for background in [Background::Inline, Background::Threads] {
        let disk = SimulatedDisk::new();
        // Three segments.
        disk.set_capacity(Some(25 << 10));
        let (_, mut journal) = hoarding(&disk, background);
        let written = fill(&mut journal);
        assert_eq!(written, 3 * 7, "seven in each of three segments");
        assert!(!journal.fits(5000) && journal.fits(10), "something small still fits");

        // It is tried again from time to time, and reported once.
        let now = Instant::now();
        let mut seen = Vec::new();
        for second in 0..5 {
            journal.turn(now + Duration::from_secs(2 * second)).unwrap();
            assert!(!journal.fits(500));
            seen.extend(notices(&mut journal));
        }
        let missing = |notice: &&Notice| matches!(notice, Notice::SpaceMissing { .. });
        assert_eq!(seen.iter().filter(missing).count(), 1, "{seen:?}");
        disk.set_capacity(None);
        let mut later = now + Duration::from_secs(60);
        while !journal.fits(500) {
            journal.turn(later).unwrap();
            later += Duration::from_secs(2);
        }
        assert!(notices(&mut journal).contains(&Notice::SpaceFound));
        journal.submit(&kept(2, 500), 1, false).unwrap();
        drop(journal);
        disk.restart(Luck::Lost);
        let (state, _journal) = hoarding(&disk, background);
        assert_eq!(state.0.len(), written + 1);
    }
}

#[test]
fn submitting_without_room_fails_and_harms_nothing() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(17 << 10));
    let (_, mut journal) = hoarding(&disk, Background::Inline);
    let written = fill(&mut journal);
    let error = journal.submit(&kept(2, 500), 1, false).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    // What is small has its place, also the mark of a clean stop.
    journal.submit(&kept(3, 1), 1, false).unwrap();
    Box::new(journal).close(2).unwrap();
    let opened = FileJournal::open_on::<Hoard>(disk, NO_SNAPSHOTS).unwrap();
    assert_eq!((opened.state.0.len(), opened.report.clean), (written + 1, true));
}

#[test]
fn a_full_disk_is_reason_enough_for_a_snapshot() {
    let disk = SimulatedDisk::new();
    // Three segments, and never a snapshot for other reasons: forever enough, since this state is
    // small.
    disk.set_capacity(Some(25 << 10));
    let mut journal = open(&disk, NO_SNAPSHOTS).journal;
    let mut now = Instant::now();
    for number in 1..=200 {
        for _ in 0..3 {
            now += Duration::from_secs(2);
            journal.turn(now).unwrap();
        }
        assert!(journal.fits(512), "{number}");
        journal.submit(&event(number, 500), number, false).unwrap();
    }
    drop(journal);
    assert_eq!(open(&disk, SMALL).state.last, 200);
}

/// Before the space is gone, while there still is some for the snapshot itself.
#[test]
fn little_space_is_reason_enough_for_a_snapshot() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(44 << 10));
    let mut journal = open(&disk, NO_SNAPSHOTS).journal;
    for number in 1..=200 {
        assert!(journal.fits(512), "{number}");
        journal.submit(&event(number, 500), number, false).unwrap();
        journal.turn(Instant::now()).unwrap();
    }
    let seen = notices(&mut journal);
    assert!(seen.len() > 3, "{seen:?}");
    assert!(seen.iter().all(|notice| matches!(notice, Notice::Snapshot { .. })), "{seen:?}");
    assert!(!journal.is_short_of_space());
    drop(journal);
    assert_eq!(open(&disk, SMALL).state.last, 200);
}

#[test]
fn a_new_journal_needs_space_for_a_segment() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(5 << 10));
    let error = try_open(&disk, SMALL).unwrap_err().to_string();
    assert!(error.starts_with("cannot prepare /simulated/segment-"), "{error}");
    disk.set_capacity(None);
    assert_eq!(open(&disk, SMALL).report.position, 0);
}

#[test]
fn a_batch_may_be_bigger_than_a_segment() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, SMALL).journal;
    submit(&mut journal, 1).unwrap();
    for number in 2..=6 {
        let event = event(number, 10_000 * number as usize);
        assert!(!journal.fits(event.len()), "it is not there by itself");
        journal.prepare_for(event.len());
        assert!(journal.fits(event.len()));
        journal.submit(&event, number, false).unwrap();
        journal.turn(Instant::now()).unwrap();
    }
    submit(&mut journal, 7).unwrap();
    drop(journal);
    disk.restart(Luck::Lost);
    assert_eq!(open(&disk, SMALL).state.last, 7);
}

#[test]
fn crashes_around_a_batch_that_is_bigger_than_a_segment() {
    let live = |disk: &SimulatedDisk| -> u64 {
        let Ok(Simulated { mut journal, .. }) = try_open(disk, SMALL) else { return 0 };
        for number in 1..=5 {
            let length = if number == 3 { 20_000 } else { 1500 };
            journal.prepare_for(length + 100);
            if journal.submit(&event(number, length), number, false).is_err() {
                return number - 1;
            }
        }
        5
    };
    let disk = SimulatedDisk::new();
    assert_eq!(live(&disk), 5);
    for n in 0..disk.operations() {
        for luck in [Luck::Lost, Luck::Kept, Luck::Random(n)] {
            let disk = SimulatedDisk::new();
            disk.crash_at(n);
            let confirmed = live(&disk);
            disk.restart(luck);
            let last = open(&disk, SMALL).state.last;
            assert!(
                (confirmed..=confirmed + 1).contains(&last),
                "operation {n}, {luck:?}: {last} of {confirmed}"
            );
        }
    }
}

#[test]
fn there_is_a_maximum() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, SMALL).journal;
    assert!(!journal.fits(MAXIMUM_BATCH + 1));
    let error = journal.submit(&vec![0; MAXIMUM_BATCH + 1], 1, false).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    submit(&mut journal, 1).unwrap();
}

#[test]
fn a_big_batch_for_which_there_is_no_space_is_refused_and_small_ones_go_on() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(40 << 10));
    let mut journal = open(&disk, SMALL).journal;
    journal.prepare_for(50_000);
    assert!(!journal.fits(50_000));
    let mut now = Instant::now();
    for number in 1..=10 {
        now += Duration::from_secs(2);
        journal.turn(now).unwrap();
        assert!(journal.fits(1000), "{number}");
        journal.submit(&event(number, 1000), number, false).unwrap();
    }
}

#[test]
fn every_failing_operation_is_survived_or_reported() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, SMALL).journal;
    crate::simulation::submit_up_to(&mut journal, 1, 30);
    drop(journal);
    for n in 0..disk.operations() {
        for error in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
            let disk = SimulatedDisk::new();
            disk.fail_at(n, error);
            let confirmed = match try_open(&disk, SMALL) {
                Ok(Simulated { mut journal, .. }) => {
                    crate::simulation::submit_up_to(&mut journal, 1, 30)
                }
                Err(_) => 0,
            };
            disk.kill();
            let seen = open(&disk, SMALL).state;
            assert!(
                (confirmed..=confirmed + 1).contains(&seen.last),
                "operation {n}: {seen:?} of {confirmed}"
            );
            disk.restart(Luck::Lost);
            assert_eq!(open(&disk, SMALL).state, seen, "operation {n}");
        }
    }
}

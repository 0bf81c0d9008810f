//! Flipped bits, files that are gone, files from elsewhere: refused if anything that was promised
//! is missing.

use std::time::{Duration, Instant};

use semaforo_server::journal::simulated_disk::{Luck, SimulatedDisk};
use semaforo_server::journal::{Durability, Journal, OpenError, Options};

use crate::{
    ledger::event,
    simulation::{NO_SNAPSHOTS, SMALL, disk_with, open, refused, submit_up_to, try_open},
};

const LAST: u64 = 20;

fn segment(number: u64) -> String {
    format!("segment-{number:020}")
}

/// A copy of a disk with one byte of a file changed.
fn with_flip(disk: &SimulatedDisk, name: &str, byte: usize, bit: usize) -> SimulatedDisk {
    let copy = disk.copy();
    let mut bytes = disk.contents(name).unwrap();
    bytes[byte] ^= 1 << bit;
    copy.put(name, &bytes);
    copy
}

#[test]
fn a_flipped_bit_never_changes_what_is_remembered() {
    // With a snapshot, full segments, one in use, and an empty one.
    let disk = disk_with(40, SMALL);
    let whole = open(&disk.copy(), SMALL).state;
    let names: Vec<String> = (0..20)
        .flat_map(|n| [segment(n), format!("snapshot-{n:020}")])
        .filter(|name| disk.contents(name).is_some())
        .collect();
    assert!(names.len() >= 3, "{names:?}");
    let (mut refusals, mut cuts, mut harmless) = (0, 0, 0);
    for name in &names {
        let size = disk.contents(name).unwrap().len();
        // Every byte of the headings and of some batches, and a selection of the others.
        let closely =
            |byte: &usize| *byte < 64 || (4096..4700).contains(byte) || byte.is_multiple_of(37);
        for byte in (0..size).filter(closely) {
            let damaged = with_flip(&disk, name, byte, byte % 8);
            match try_open(&damaged, SMALL) {
                Err(OpenError::Corrupt { file, .. }) => {
                    assert!(file.ends_with(name), "byte {byte} of {name}: {}", file.display());
                    refusals += 1;
                }
                Err(OpenError::Newer { .. }) if byte == 8 => refusals += 1,
                Err(other) => panic!("byte {byte} of {name}: {other}"),
                Ok(opened) if opened.state == whole => harmless += 1,
                // The very last batch: what is left of it looks as if the power had failed.
                Ok(opened) => {
                    assert_eq!(opened.state.last, whole.last - 1, "byte {byte} of {name}");
                    assert!(opened.report.cut.is_some());
                    cuts += 1;
                }
            }
        }
    }
    assert!(refusals > 500 && cuts > 0 && harmless > 0, "{refusals} {cuts} {harmless}");
}

#[test]
fn after_a_clean_stop_not_even_the_last_batch_can_be_lost() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, NO_SNAPSHOTS).journal;
    assert_eq!(submit_up_to(&mut journal, 1, 2), 2);
    Box::new(journal).close(9).unwrap();
    // The second batch begins behind the first, which has 48 + 12 + 101 bytes.
    let second = 4096 + 168;
    let error = refused(&with_flip(&disk, &segment(1), second + 60, 0));
    let message = error.to_string();
    assert!(
        matches!(&error, OpenError::Corrupt { offset, .. } if *offset == second as u64),
        "{message}"
    );
    assert!(
        message.contains("batch 2: the checksum of its events does not match; batch 3"),
        "{message}"
    );
    assert!(message.contains("backup"), "{message}");
}

#[test]
fn a_refusal_changes_nothing() {
    let disk = disk_with(LAST, NO_SNAPSHOTS);
    let damaged = with_flip(&disk, &segment(2), 5000, 3);
    let before = damaged.operations();
    refused(&damaged);
    refused(&damaged);
    assert_eq!(damaged.operations(), before);
}

#[test]
fn a_torn_batch_before_another_segment_is_damage() {
    let disk = disk_with(LAST, NO_SNAPSHOTS);
    // The last batch of a full segment: nothing follows it there.
    let mut bytes = disk.contents(&segment(1)).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    bytes[end] ^= 1;
    disk.put(&segment(1), &bytes);
    let message = refused(&disk).to_string();
    assert!(message.contains(&format!("{} was begun only after", segment(2))), "{message}");
}

#[test]
fn a_batch_that_is_gone_without_a_trace_is_missed() {
    let disk = disk_with(LAST, NO_SNAPSHOTS);
    let mut bytes = disk.contents(&segment(2)).unwrap();
    bytes[4096..].fill(0);
    disk.put(&segment(2), &bytes);
    let message = refused(&disk).to_string();
    assert!(message.contains(&segment(2)) && message.contains("this is empty"), "{message}");
}

#[test]
fn a_missing_segment_is_named() {
    let disk = disk_with(LAST, NO_SNAPSHOTS);
    let copy = SimulatedDisk::new();
    for number in [1, 3, 4] {
        copy.put(&segment(number), &disk.contents(&segment(number)).unwrap());
    }
    let error = refused(&copy);
    assert!(
        matches!(&error, OpenError::Missing { file, .. } if file.ends_with(segment(2))),
        "{error}"
    );
}

#[test]
fn a_shortened_segment_is_damage() {
    let disk = disk_with(3, NO_SNAPSHOTS);
    let bytes = disk.contents(&segment(1)).unwrap();
    for size in [0, 10, 63, 64, 4096, 5000, bytes.len() - 1] {
        let copy = disk.copy();
        copy.put(&segment(1), &bytes[..size]);
        let error = refused(&copy);
        assert!(matches!(&error, OpenError::Corrupt { .. }), "{size}: {error}");
    }
}

#[test]
fn files_of_two_journals_do_not_mix() {
    let disk = disk_with(LAST, NO_SNAPSHOTS);
    let other = disk_with(LAST, NO_SNAPSHOTS);
    disk.put(&segment(2), &other.contents(&segment(2)).unwrap());
    assert!(matches!(refused(&disk), OpenError::Mixed { .. }));
}

#[test]
fn a_segment_under_another_name_is_damage() {
    let disk = disk_with(LAST, NO_SNAPSHOTS);
    disk.put(&segment(2), &disk.contents(&segment(1)).unwrap());
    let message = refused(&disk).to_string();
    assert!(message.contains("says that it is Segment 1"), "{message}");
}

#[test]
fn a_newer_version_is_refused_and_says_so() {
    for number in [1, 2] {
        let disk = disk_with(LAST, NO_SNAPSHOTS);
        let mut bytes = disk.contents(&segment(number)).unwrap();
        bytes[8] = 2;
        disk.put(&segment(number), &bytes);
        let error = refused(&disk);
        assert!(matches!(&error, OpenError::Newer { version: 2, .. }), "{error}");
        assert!(error.to_string().contains("newer version"), "{error}");
    }
}

#[test]
fn an_event_that_makes_no_sense_is_not_skipped() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, SMALL).journal;
    journal.submit(&event(1, 5), 1, false).unwrap();
    journal.submit(&event(3, 5), 2, false).unwrap();
    drop(journal);
    let error = refused(&disk);
    assert!(matches!(&error, OpenError::BadEvent { position: 2, .. }), "{error}");
    assert!(error.to_string().contains("number 3 after 1"), "{error}");
}

/// A message may contain anything, also the bytes of a batch.
#[test]
fn a_message_that_looks_like_a_batch_does_not_pass_for_one() {
    let disk = disk_with(3, NO_SNAPSHOTS);
    let mut journal = open(&disk, NO_SNAPSHOTS).journal;
    // The batches of another journal, which is as much as an attacker outside can know.
    let imitation = disk_with(6, NO_SNAPSHOTS).contents(&segment(1)).unwrap();
    let mut bytes = 4_u64.to_le_bytes().to_vec();
    bytes.extend(3000_u32.to_le_bytes());
    bytes.extend(&imitation[4096..4096 + 3000]);
    disk.crash_at(1);
    journal.submit(&bytes, 4, false).unwrap_err();
    disk.restart(Luck::Torn(1500));
    drop(journal);
    let opened = open(&disk, SMALL);
    assert_eq!(opened.state.last, 3);
    assert!(opened.report.cut.is_some());
}

/// The way out that the message offers.
#[test]
fn moving_the_damaged_segment_and_those_after_it_away_helps() {
    let disk = disk_with(LAST, NO_SNAPSHOTS);
    let damaged = with_flip(&disk, &segment(3), 4200, 0);
    let message = refused(&damaged).to_string();
    assert!(message.contains(&segment(3)) && message.contains("move this file"), "{message}");
    let mended = SimulatedDisk::new();
    for number in [1, 2] {
        mended.put(&segment(number), &disk.contents(&segment(number)).unwrap());
    }
    let opened = open(&mended, NO_SNAPSHOTS);
    assert!((1..LAST).contains(&opened.state.last), "{}", opened.report);
    let (mut journal, next) = (opened.journal, opened.state.last + 1);
    assert_eq!(submit_up_to(&mut journal, next, next + 20), next + 20);
}

const DURABILITIES: [Durability; 3] =
    [Durability::Always, Durability::Interval(Duration::from_secs(1)), Durability::Memory];

/// Where the last batch with events begins, of the first segment.
fn last_batch(disk: &SimulatedDisk) -> usize {
    let bytes = disk.contents(&segment(1)).unwrap();
    let is_batch = |at: &usize| bytes[*at..at + 3] == *b"BAT" && bytes[at + 8..at + 12] != [0; 4];
    (4096..bytes.len()).step_by(8).rfind(is_batch).unwrap()
}

/// The last batch was synced, which something after it proves: if it rots it is not cut.
fn is_missed_if_it_rots(disk: &SimulatedDisk) -> bool {
    let last = last_batch(disk);
    match try_open(&with_flip(disk, &segment(1), last + 60, 0), SMALL) {
        Err(OpenError::Corrupt { offset, .. }) => offset == last as u64,
        Err(other) => panic!("{other}"),
        Ok(opened) => {
            assert!(opened.report.cut.is_some());
            false
        }
    }
}

#[test]
fn what_was_there_at_a_clean_stop_is_missed_if_it_rots() {
    for durability in DURABILITIES {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk, Options { durability, ..NO_SNAPSHOTS }).journal;
        assert_eq!(submit_up_to(&mut journal, 1, 5), 5);
        Box::new(journal).close(9).unwrap();
        assert!(is_missed_if_it_rots(&disk), "{durability:?}");
    }
}

/// A server that was killed, and had nothing to do for a while before.
#[test]
fn what_was_synced_and_followed_by_silence_is_missed_if_it_rots() {
    for durability in DURABILITIES {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk, Options { durability, ..NO_SNAPSHOTS }).journal;
        assert_eq!(submit_up_to(&mut journal, 1, 5), 5);
        let now = Instant::now();
        for tenth in 0..30 {
            journal.turn(now + Duration::from_millis(100) * tenth).unwrap();
        }
        disk.kill();
        // In memory nothing is promised, and nothing was synced.
        let is_synced = durability != Durability::Memory;
        assert_eq!(is_missed_if_it_rots(&disk), is_synced, "{durability:?}");
        // One mark is enough for all the time in which nothing comes.
        let batches = open(&disk, NO_SNAPSHOTS).report.batches;
        assert_eq!(batches, 5 + u64::from(is_synced), "{durability:?}");
        drop(journal);
    }
}

/// What a start has found and made durable is no torn tail later, either.
#[test]
fn what_a_start_has_found_is_missed_if_it_rots() {
    let disk = disk_with(5, NO_SNAPSHOTS);
    assert!(!is_missed_if_it_rots(&disk));
    let mut journal = open(&disk, NO_SNAPSHOTS).journal;
    let now = Instant::now();
    journal.turn(now).unwrap();
    assert_eq!(journal.next_turn(), Some(now + Duration::from_secs(1)));
    journal.turn(now + Duration::from_secs(1)).unwrap();
    assert_eq!(journal.next_turn(), None);
    disk.kill();
    assert!(is_missed_if_it_rots(&disk));
    drop(journal);
}

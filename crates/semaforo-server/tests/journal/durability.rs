//! What is synced when, and what may be lost if it is not.

use std::{
    io,
    time::{Duration, Instant},
};

use semaforo_server::journal::simulated_disk::{Luck, SimulatedDisk};
use semaforo_server::journal::{Durability, Journal, OpenError, Options};

use crate::{
    ledger::event,
    simulation::{
        NO_SNAPSHOTS, SMALL, Simulated, SimulatedJournal, open, submit, submit_up_to, try_open,
    },
};

const SECOND: Duration = Duration::from_secs(1);
const EVERY_SECOND: Options = Options { durability: Durability::Interval(SECOND), ..SMALL };
const NEVER: Options = Options { durability: Durability::Memory, ..SMALL };

fn new(options: Options) -> (SimulatedDisk, SimulatedJournal) {
    let disk = SimulatedDisk::new();
    let journal = open(&disk, options).journal;
    (disk, journal)
}

#[test]
fn always_is_one_write_and_one_sync() {
    let (disk, mut journal) = new(NO_SNAPSHOTS);
    for number in 1..=6 {
        let before = disk.operations();
        assert_eq!(submit(&mut journal, number).unwrap(), number);
        assert_eq!(disk.operations() - before, 2);
        assert_eq!((journal.durable().unwrap(), journal.synced()), (number, number));
    }
}

#[test]
fn at_intervals_a_turn_syncs_when_it_is_time() {
    let (disk, mut journal) = new(EVERY_SECOND);
    let start = Instant::now();
    journal.turn(start).unwrap();
    assert_eq!(journal.next_turn(), None);
    let before = disk.operations();
    submit(&mut journal, 1).unwrap();
    journal.turn(start).unwrap();
    assert_eq!(journal.next_turn(), Some(start + SECOND));
    submit(&mut journal, 2).unwrap();
    journal.turn(start + SECOND / 2).unwrap();
    assert_eq!(disk.operations() - before, 2, "two writes, no sync");
    assert_eq!((journal.durable().unwrap(), journal.synced()), (2, 0), "answers need not wait");
    journal.turn(start + SECOND).unwrap();
    assert_eq!(journal.synced(), 2);
    assert_eq!(disk.operations() - before, 3);
    // Then it only remains to be written that everything is synced, if nothing else comes.
    assert_eq!(journal.next_turn(), Some(start + SECOND / 2 + SECOND));
    drop(journal);
    disk.restart(Luck::Lost);
    assert_eq!(open(&disk, SMALL).state.last, 2);
}

#[test]
fn urgent_batches_are_always_synced() {
    for options in [SMALL, EVERY_SECOND, NEVER] {
        let (disk, mut journal) = new(options);
        submit(&mut journal, 1).unwrap();
        journal.submit(&event(2, 10), 2, true).unwrap();
        assert_eq!(journal.synced(), 2);
        submit(&mut journal, 3).unwrap();
        drop(journal);
        disk.restart(Luck::Lost);
        assert!(open(&disk, SMALL).state.last >= 2, "{options:?}");
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    for options in [SMALL, EVERY_SECOND, NEVER] {
        let (disk, mut journal) = new(options);
        assert_eq!(submit_up_to(&mut journal, 1, 30), 30);
        disk.kill();
        assert_eq!(open(&disk, SMALL).state.last, 30);
    }
}

#[test]
fn a_clean_stop_syncs() {
    let (disk, mut journal) = new(NEVER);
    submit(&mut journal, 1).unwrap();
    Box::new(journal).close(5).unwrap();
    disk.restart(Luck::Lost);
    let Simulated { state, time, report, .. } = open(&disk, SMALL);
    assert_eq!((state.last, time, report.clean), (1, 5, true));
}

/// Several batches may be lost at once then: exactly those after the first one that is not whole.
#[test]
fn without_syncs_the_longest_whole_prefix_remains() {
    let name = "segment-00000000000000000001";
    let mut seen = [0; 7];
    for seed in 0..300 {
        let (disk, mut journal) = new(NEVER);
        let mut ends = Vec::new();
        for number in 1..=6 {
            submit(&mut journal, number).unwrap();
            ends.push(
                disk.contents(name).unwrap().iter().rposition(|&byte| byte != 0).unwrap() + 1,
            );
        }
        let whole = disk.contents(name).unwrap();
        disk.restart(Luck::Random(seed));
        let left = disk.contents(name).unwrap_or_default();
        let expected =
            ends.iter().take_while(|&&end| left.get(..end) == Some(&whole[..end])).count();
        let Simulated { state, report, .. } = open(&disk, SMALL);
        assert_eq!((state.last, report.batches), (expected as u64, expected as u64), "{seed}");
        seen[expected] += 1;
        disk.restart(Luck::Lost);
        let Simulated { state: again, report, .. } = open(&disk, SMALL);
        assert_eq!((again, report.cut), (state, None), "{seed}: what was cut was zeroed durably");
        drop(journal);
    }
    assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
}

#[test]
fn crashes_at_every_operation_lose_only_what_was_not_synced() {
    let life = |disk: &SimulatedDisk| -> (u64, u64) {
        let Ok(Simulated { mut journal, .. }) = try_open(disk, EVERY_SECOND) else {
            return (0, 0);
        };
        let start = Instant::now();
        for number in 1..=30_u64 {
            let urgent = number % 11 == 0;
            let length = 40 * number as usize;
            // A tenth of a second per batch.
            let now = start + SECOND * number as u32 / 10;
            if journal.submit(&event(number, length), number, urgent).is_err()
                || journal.turn(now).is_err()
            {
                return (journal.synced(), number);
            }
        }
        (journal.synced(), 30)
    };
    let disk = SimulatedDisk::new();
    life(&disk);
    for n in 0..disk.operations() {
        for luck in
            [Luck::Lost, Luck::Kept, Luck::Torn(100), Luck::Random(n), Luck::Random(n + 1000)]
        {
            let disk = SimulatedDisk::new();
            disk.crash_at(n);
            let (synced, tried) = life(&disk);
            disk.restart(luck);
            let state = open(&disk, SMALL).state;
            assert!(
                (synced..=tried).contains(&state.last),
                "operation {n}, {luck:?}: {state:?}, {synced} synced"
            );
            disk.restart(Luck::Lost);
            assert_eq!(open(&disk, SMALL).state, state, "operation {n}, {luck:?}");
        }
    }
}

/// A later mark says that a batch was durable: then its loss is no torn tail, although it was
/// written without a sync.
#[test]
fn a_mark_proves_that_earlier_batches_were_durable() {
    let (disk, mut journal) = new(NEVER);
    assert_eq!(submit_up_to(&mut journal, 1, 3), 3);
    journal.submit(&event(4, 10), 4, true).unwrap();
    journal.submit(&event(5, 10), 5, false).unwrap();
    journal.submit(&event(6, 10), 6, false).unwrap();
    disk.kill();
    let name = "segment-00000000000000000001";
    let whole = disk.contents(name).unwrap();
    let start_of = |number: u64| {
        // Each event begins with its number, behind a header of 48 bytes with the position at its
        // byte 16.
        let position = number.to_le_bytes();
        (4096..)
            .step_by(8)
            .find(|&at| whole[at..at + 3] == *b"BAT" && whole[at + 16..at + 24] == position)
            .unwrap()
    };
    for number in 1..=6 {
        let copy = disk.copy();
        let mut bytes = whole.clone();
        bytes[start_of(number) + 48] ^= 1;
        copy.put(name, &bytes);
        match try_open(&copy, SMALL) {
            // 5 has the mark 4: it was written after the sync.
            Err(OpenError::Corrupt { offset, .. }) => {
                assert!(number <= 4, "{number}");
                assert_eq!(offset, start_of(number) as u64);
            }
            Err(other) => panic!("{number}: {other}"),
            Ok(opened) => {
                assert!(number > 4, "{number}");
                assert_eq!(opened.state.last, number - 1);
            }
        }
    }
}

#[test]
fn a_failed_write_or_sync_is_final() {
    for (n, error) in [(0, io::ErrorKind::StorageFull), (1, io::ErrorKind::Other)] {
        let (disk, mut journal) = new(SMALL);
        submit(&mut journal, 1).unwrap();
        disk.fail_at(n, error);
        assert_eq!(submit(&mut journal, 2).unwrap_err().kind(), error);
        let before = disk.operations();
        let message = submit(&mut journal, 2).unwrap_err().to_string();
        assert!(message.contains("failed before"), "{message}");
        Box::new(journal).close(3).unwrap_err();
        assert_eq!(disk.operations(), before, "nothing more is tried");
    }
}

/// After a failed sync the pages may be called clean although they are not on the disk. A restarted
/// server reads them, answers with what they say, and only then the power fails.
#[test]
fn what_only_the_cache_knows_is_written_again() {
    let (disk, mut journal) = new(SMALL);
    submit(&mut journal, 1).unwrap();
    disk.fail_at(1, io::ErrorKind::Other);
    submit(&mut journal, 2).unwrap_err();
    drop(journal);
    disk.kill();
    let seen = open(&disk, SMALL).state;
    assert_eq!(seen.last, 2);
    disk.restart(Luck::Lost);
    assert_eq!(open(&disk, SMALL).state, seen);
}

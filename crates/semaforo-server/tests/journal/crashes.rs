//! The power fails at every operation of a life with appends, new segments and snapshots.

use semaforo_server::journal::{Background, Journal, Luck, Notice, Options, SimulatedDisk};

use crate::{
    ledger::Ledger,
    simulation::{NO_SNAPSHOTS, SMALL, Simulated, open, submit, submit_up_to, try_open},
};

/// Enough for seven segments and two snapshots.
const LAST: u64 = 40;

const LUCK: [Luck; 8] = [
    Luck::Lost,
    Luck::Kept,
    Luck::Torn(1),
    Luck::Torn(48),
    Luck::Torn(600),
    Luck::Random(1),
    Luck::Random(2),
    Luck::Random(3),
];

/// A whole life: what was confirmed in it.
fn live(disk: &SimulatedDisk, options: Options) -> u64 {
    let Ok(Simulated { mut journal, state, .. }) = try_open(disk, options) else {
        return 0;
    };
    let confirmed = submit_up_to(&mut journal, state.last + 1, LAST);
    if confirmed == LAST {
        // Whether a clean stop was noted makes no difference here.
        let _ = Box::new(journal).close(LAST);
    }
    confirmed
}

/// How many operations a life takes that nothing interrupts.
fn operations(options: Options) -> u64 {
    let disk = SimulatedDisk::new();
    assert_eq!(live(&disk, options), LAST);
    disk.operations()
}

/// What must hold after a restart, and that life goes on.
fn check(disk: &SimulatedDisk, confirmed: u64, what: &str) {
    let Simulated { state, time, report, .. } =
        try_open(disk, SMALL).unwrap_or_else(|error| panic!("{what}: {error}"));
    let last = state.last;
    assert!(
        (confirmed..=confirmed + 1).contains(&last),
        "{what}: {confirmed} were confirmed, {last} are there; {report}"
    );
    assert!(time >= last, "{what}: the clock went back to {time}");
    // What was found is durable, and so is what comes after it.
    disk.restart(Luck::Lost);
    let Simulated { state: again, mut journal, .. } = open(disk, SMALL);
    assert_eq!(again, state, "{what}: it had not been made durable");
    submit(&mut journal, last + 1).unwrap();
    submit(&mut journal, last + 2).unwrap();
    disk.restart(Luck::Lost);
    assert_eq!(open(disk, SMALL).state.last, last + 2, "{what}: more was lost");
}

#[test]
fn at_every_operation() {
    for n in 0..operations(SMALL) {
        for luck in LUCK {
            let disk = SimulatedDisk::new();
            disk.crash_at(n);
            let confirmed = live(&disk, SMALL);
            assert!(disk.has_crashed());
            disk.restart(luck);
            check(&disk, confirmed, &format!("operation {n}, {luck:?}"));
        }
    }
}

#[test]
fn and_again_at_every_operation_of_the_recovery() {
    for n in (0..operations(SMALL)).step_by(3) {
        for luck in [Luck::Kept, Luck::Torn(70), Luck::Random(n)] {
            for second in 0..6 {
                let disk = SimulatedDisk::new();
                disk.crash_at(n);
                let confirmed = live(&disk, SMALL);
                disk.restart(luck);
                disk.crash_at(second);
                let more = live(&disk, SMALL).max(confirmed);
                disk.restart(Luck::Random(n * 7 + second));
                check(&disk, more, &format!("operations {n}, then {second}, {luck:?}"));
            }
        }
    }
}

#[test]
fn with_threads_that_get_in_each_others_way() {
    let options = Options { background: Background::Threads, ..SMALL };
    // How the threads interleave is different every time; how many operations there are is not quite.
    let all = operations(SMALL);
    for n in 0..all {
        let disk = SimulatedDisk::new();
        disk.crash_at(n);
        let confirmed = live(&disk, options);
        disk.restart(Luck::Random(n));
        check(&disk, confirmed, &format!("operation {n} with threads"));
    }
}

#[test]
fn the_last_batch_cut_at_every_byte() {
    let whole = SimulatedDisk::new();
    let mut journal = open(&whole, NO_SNAPSHOTS).journal;
    assert_eq!(submit_up_to(&mut journal, 1, 5), 5);
    drop(journal);
    let size = 48 + 12 + 505_usize;
    for kept in 0..=size.next_multiple_of(8) {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk, NO_SNAPSHOTS).journal;
        assert_eq!(submit_up_to(&mut journal, 1, 4), 4);
        disk.crash_at(1);
        submit(&mut journal, 5).unwrap_err();
        disk.restart(Luck::Torn(kept));
        let Simulated { state, report, .. } = open(&disk, SMALL);
        // The bytes that are left over after the last one that is not zero make no difference.
        let expected = if kept >= size { 5 } else { 4 };
        assert_eq!(state.last, expected, "{kept} bytes kept");
        assert_eq!(report.cut.is_some(), kept > 0 && kept < size, "{kept} bytes kept");
        drop(journal);
    }
}

/// Nothing in the scenario above is in vain.
#[test]
fn the_life_has_everything_in_it() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, SMALL).journal;
    assert_eq!(submit_up_to(&mut journal, 1, LAST), LAST);
    let mut snapshots = 0;
    while let Some(notice) = journal.notice() {
        assert!(matches!(notice, Notice::Snapshot { .. }), "{notice}");
        snapshots += 1;
    }
    assert!(snapshots >= 2, "{snapshots} snapshots");
    drop(journal);
    let Simulated { state, report, .. } = open(&disk, SMALL);
    assert_eq!(state.last, LAST);
    assert_ne!(state, Ledger::default());
    assert!(report.snapshot.is_some() && report.segments >= 1, "{report}");
}

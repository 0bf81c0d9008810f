//! The power fails at every operation of a life with appends, new segments and snapshots.

use std::time::{Duration, Instant};

use semaforo_server::journal::simulated_disk::{Luck, SimulatedDisk};
use semaforo_server::journal::{Background, Durability, Journal, Notice, Options};

use crate::{
    ledger::{Ledger, event},
    simulation::{NO_SNAPSHOTS, SMALL, Simulated, open, settle, submit, submit_up_to, try_open},
};

/// Enough for seven segments and two snapshots.
const LAST: u64 = 40;

const LUCK: [Luck; 7] = [
    Luck::Lost,
    Luck::Kept,
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

/// A life on a disk that has space for two segments and little more: snapshots are made of the
/// segment in use, too.
fn live_cramped(disk: &SimulatedDisk) -> u64 {
    disk.set_capacity(Some(18 << 10));
    let Ok(Simulated { mut journal, state, .. }) = try_open(disk, NO_SNAPSHOTS) else {
        return 0;
    };
    let (mut confirmed, mut now) = (state.last, Instant::now());
    while confirmed < LAST {
        // As often as a segment is tried again.
        for _ in 0..4 {
            now += Duration::from_secs(2);
            if journal.turn(now).is_err() {
                return confirmed;
            }
        }
        let event = event(confirmed + 1, 700);
        if !journal.fits(event.len()) || journal.submit(&event, confirmed + 1, false).is_err() {
            return confirmed;
        }
        confirmed += 1;
    }
    confirmed
}

#[test]
fn at_every_operation_on_a_disk_that_is_almost_full() {
    let disk = SimulatedDisk::new();
    assert_eq!(live_cramped(&disk), LAST);
    for n in 0..disk.operations() {
        for luck in LUCK {
            let disk = SimulatedDisk::new();
            disk.crash_at(n);
            let confirmed = live_cramped(&disk);
            assert!(disk.has_crashed());
            disk.restart(luck);
            disk.set_capacity(None);
            check(&disk, confirmed, &format!("operation {n}, {luck:?}"));
        }
    }
}

#[test]
fn and_again_at_every_operation_of_the_recovery() {
    for n in (0..operations(SMALL)).step_by(5) {
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

/// The process is killed, a new one is started at once, and while it starts the power fails: what
/// the first one had done and not synced is still not durable.
#[test]
fn killed_and_then_while_starting_again() {
    for n in 0..operations(SMALL) {
        for second in 0..6 {
            let disk = SimulatedDisk::new();
            disk.crash_at(n);
            let confirmed = live(&disk, SMALL);
            disk.kill();
            disk.crash_at(second);
            drop(try_open(&disk, SMALL));
            disk.restart(Luck::Random(n * 7 + second));
            let what = format!("killed at operation {n}, then a crash at {second}");
            let state =
                try_open(&disk, SMALL).unwrap_or_else(|error| panic!("{what}: {error}")).state;
            assert!(
                (confirmed..=confirmed + 1).contains(&state.last),
                "{what}: {state:?} of {confirmed}"
            );
        }
    }
}

#[test]
fn with_threads_that_get_in_each_others_way() {
    let options = Options { background: Background::Threads, ..SMALL };
    // How the threads interleave is different every time; how many operations there are is not
    // quite.
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

/// Many lives on one disk, each ending in another way, with options that change in between.
#[test]
fn many_lives() {
    for seed in 0..50 {
        let mut random = Random(seed);
        let disk = SimulatedDisk::new();
        let (mut safe, mut tried) = (0, 0);
        for life in 0..8 {
            let durability = match random.below(3) {
                0 => Durability::Always,
                1 => Durability::Interval(Duration::from_secs(1)),
                _ => Durability::Memory,
            };
            let background =
                if random.below(4) == 0 { Background::Threads } else { Background::Inline };
            let segment_size = (2 + random.below(3) as usize) << 12;
            let options = Options { durability, background, segment_size, ..SMALL };
            if random.below(3) > 0 {
                disk.crash_at(random.below(120));
            }
            if let Ok(Simulated { mut journal, state, .. }) = try_open(&disk, options) {
                let what = format!("seed {seed}, life {life}, {options:?}");
                assert!((safe..=tried).contains(&state.last), "{what}: {state:?}, {safe} are safe");
                // Opening makes durable what it finds.
                (safe, tried) = (state.last, state.last);
                let mut now = Instant::now();
                for number in state.last + 1..=state.last + random.below(40) {
                    tried = number;
                    now += Duration::from_millis(300);
                    let event = event(number, random.below(900) as usize);
                    let urgent = random.below(10) == 0;
                    if settle(&mut journal).is_err()
                        || journal.submit(&event, number, urgent).is_err()
                        || journal.turn(now).is_err()
                    {
                        break;
                    }
                    if urgent || durability == Durability::Always {
                        safe = number;
                    }
                }
                if random.below(3) == 0
                    && !disk.has_crashed()
                    && Box::new(journal).close(tried).is_ok()
                {
                    safe = tried;
                }
            } else {
                assert!(disk.has_crashed(), "seed {seed}, life {life}");
            }
            match random.below(5) {
                0 if !disk.has_crashed() => {
                    disk.kill();
                    safe = tried;
                }
                1 => disk.restart(Luck::Lost),
                2 => disk.restart(Luck::Kept),
                _ => disk.restart(Luck::Random(random.below(1 << 40))),
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
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

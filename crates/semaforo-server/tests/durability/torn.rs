//! The kernel on a disk that forgets what was not synced, and loses its power at every moment.

use std::time::Instant;

use semaforo_server::journal::simulated_disk::{Luck, SimulatedDisk};
use semaforo_server::journal::{Background, Durability, FileJournal, Journal, Options, Position};
use semaforo_server::kernel::{
    Charge, Command, ConnectionKey, HoldMode, Kernel, Kind, Limits, Operation, Origin, Output,
    Retry, SessionId, Settings, State, Verb,
};

/// Small segments and early snapshots, so that much happens with few batches.
const SMALL: Options = Options {
    durability: Durability::Always,
    segment_size: 8 << 10,
    least_segment: 8 << 10,
    snapshot_after: 9 << 10,
    background: Background::Inline,
};

/// As many turns as it takes to fill several segments and make a snapshot.
const TURNS: u64 = 200;

fn dump(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state
        .dump(&mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
    bytes
}

/// What a session does in a turn: everything that the journal knows, in changing proportions.
fn command(turn: u64, payload: &[u8]) -> Command<'_> {
    let object = |kind, name, verb| Operation::Object { kind, name, verb };
    let session = SessionId(u128::from(turn % 3));
    let operation = match turn % 13 {
        0 => Operation::Open { id: session, ttl: 10_000, label: "somebody" },
        1 => object(Kind::Queue, "q", Verb::Create(Settings::Queue { capacity: 0 })),
        2 => object(Kind::Semaphore, "s", Verb::Create(Settings::Semaphore { permits: 100 })),
        3 | 4 | 6 | 11 => object(Kind::Queue, "q", Verb::Put { payload, priority: 0, delay: 0 }),
        5 => object(Kind::Queue, "q", Verb::Take { manual: turn.is_multiple_of(2) }),
        7 => object(Kind::Semaphore, "s", Verb::Acquire(HoldMode::Permits(2))),
        8 => object(Kind::Lock, "l", Verb::Acquire(HoldMode::Permits(1))),
        9 => object(Kind::Lock, "l", Verb::Release { fence: None, permits: None }),
        10 => object(Kind::Latch, "c", Verb::Create(Settings::Latch { count: 9 })),
        _ => object(Kind::Latch, "c", Verb::Down { by: 1 }),
    };
    let named = !turn.is_multiple_of(4) && !matches!(operation, Operation::Open { .. });
    Command {
        session: named.then_some(session),
        retry: named.then_some(Retry { seq: turn + 1, digest: turn }),
        acked: None,
        timeout: Some(0),
        charge: Charge::default(),
        operation,
    }
}

/// Lives until the power fails, or for all turns. What was confirmed, and the events of each batch:
/// the last one may be there or not.
fn live(disk: &SimulatedDisk) -> (Position, Vec<Vec<u8>>) {
    let mut batches = Vec::new();
    let Ok(recovered) = FileJournal::open_on::<State>(disk.clone(), SMALL) else {
        return (0, batches);
    };
    let mut journal = recovered.journal;
    let mut confirmed = 0;
    let mut kernel = Kernel::new(recovered.state, Limits::default(), 1000, 1);
    let mut out = Output::default();
    for turn in 0..TURNS {
        let payload = vec![b'7'; (turn % 7 * 60) as usize];
        let origin = Origin { connection: ConnectionKey(turn % 2), ticket: turn };
        kernel.decide(1000 + turn, origin, &command(turn, &payload), &mut out);
        if turn % 29 == 28 {
            kernel.disconnected(1000 + turn, ConnectionKey(turn % 2), &mut out);
        }
        if out.events.is_empty() {
            continue;
        }
        batches.push(out.events.clone());
        let Ok(position) = journal.submit(&out.events, 1000 + turn, out.urgent) else { break };
        out.events.clear();
        assert_eq!(journal.durable().unwrap(), position);
        confirmed = position;
        if journal.turn(Instant::now()).is_err() {
            break;
        }
    }
    (confirmed, batches)
}

#[test]
fn whatever_was_confirmed_is_there_after_the_power_fails_at_any_operation() {
    let untouched = SimulatedDisk::new();
    let (confirmed, _) = live(&untouched);
    let operations = untouched.operations();
    assert!(confirmed > 50 && operations > 150, "{confirmed} batches, {operations} operations");
    for n in 0..operations {
        for luck in [Luck::Lost, Luck::Kept, Luck::Torn(100), Luck::Random(n)] {
            let disk = SimulatedDisk::new();
            disk.crash_at(n);
            let (confirmed, batches) = live(&disk);
            disk.restart(luck);
            let recovered = FileJournal::open_on::<State>(disk.clone(), SMALL)
                .unwrap_or_else(|error| panic!("after operation {n}: {error}"));
            let position = recovered.journal.submitted();
            let known = confirmed..=batches.len() as Position;
            assert!(known.contains(&position), "operation {n}: {position} not in {known:?}");
            let mut expected = State::default();
            for events in &batches[..position as usize] {
                expected.apply_all(events).unwrap();
            }
            assert!(dump(&recovered.state) == dump(&expected), "operation {n}: another state");
        }
    }
}

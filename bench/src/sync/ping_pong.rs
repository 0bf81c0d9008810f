//! Two sides hand a turn to and fro over two semaphores, or two channels of one place.

use crate::java;
use crate::placement::Placement;
use crate::row::{Bar, Contestant, Row};
use crate::workload::busy::beside_busy_processes;
use crate::workload::{tasks, two_threads};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = alone();
    // Elsewhere there is no `nice`.
    if cfg!(unix) {
        rows.extend(busy());
    }
    rows
}

/// The same beside processes that yielding gives the core to.
fn busy() -> [Row; 2] {
    [
        Row::new(
            "ping-pong-busy-apart",
            "ping-pong-apart, beside one busy process of lower priority per core",
            || beside_busy_processes(semaphores(Placement::Apart)),
        )
        .bar(Bar::against("saa", 1.5)),
        Row::new(
            "ping-pong-busy-free",
            "ping-pong-free, beside one busy process of lower priority per core",
            || beside_busy_processes(with_java(Placement::Free)),
        )
        .bar(Bar::against("java", 1.5)),
    ]
}

fn alone() -> Vec<Row> {
    vec![
        Row::new(
            "ping-pong-apart",
            "2 threads ping-pong over two semaphores, pinned to two cores, one way",
            || with_java(Placement::Apart),
        )
        .bar(Bar::against("saa", 0.3)),
        Row::new("ping-pong-free", "the same, not pinned", || with_java(Placement::Free)),
        Row::new(
            "ping-pong-together",
            "the same, both on one core: spinning must not hurt",
            || with_channels(Placement::Together),
        )
        .bar(Bar::against("tokio", 1.1)),
        Row::new(
            "ping-pong-tasks",
            "2 tasks ping-pong over two semaphores, tokio with 2 workers, one way",
            between_tasks,
        )
        .bar(Bar::against("futures-intrusive", 1.1)),
    ]
}

fn with_java(placement: Placement) -> Vec<Contestant> {
    let mut contestants = semaphores(placement);
    contestants.extend(java::timed("java", "ping-pong", placement));
    contestants
}

fn with_channels(placement: Placement) -> Vec<Contestant> {
    let mut contestants = semaphores(placement);
    contestants.extend([
        Contestant::peer(
            "kanal",
            two_threads::ping_pong(
                placement,
                || kanal::bounded(1),
                |(_, receiver)| receiver.recv().unwrap(),
                |(sender, _)| sender.send(()).unwrap(),
            ),
        ),
        Contestant::peer(
            "crossbeam",
            two_threads::ping_pong(
                placement,
                || crossbeam_channel::bounded(1),
                |(_, receiver)| receiver.recv().unwrap(),
                |(sender, _)| sender.send(()).unwrap(),
            ),
        ),
    ]);
    contestants
}

fn semaphores(placement: Placement) -> Vec<Contestant> {
    vec![
        Contestant::ours(two_threads::ping_pong(
            placement,
            || semaforo::Semaphore::new(0),
            |semaphore| semaphore.acquire(1).wait().unwrap().forget(),
            |semaphore| semaphore.release(1).unwrap(),
        )),
        Contestant::peer(
            "saa",
            two_threads::ping_pong(
                placement,
                || saa::Semaphore::with_permits(0),
                |semaphore| semaphore.acquire_sync(),
                |semaphore| assert!(semaphore.release()),
            ),
        ),
        Contestant::peer(
            "tokio",
            two_threads::ping_pong(
                placement,
                || tokio::sync::Semaphore::new(0),
                |semaphore| semaphore.blocking_acquire().unwrap().forget(),
                |semaphore| semaphore.add_permits(1),
            ),
        ),
        Contestant::peer(
            "async-lock",
            two_threads::ping_pong(
                placement,
                || async_lock::Semaphore::new(0),
                |semaphore| semaphore.acquire_blocking().forget(),
                |semaphore| semaphore.add_permits(1),
            ),
        ),
    ]
}

fn between_tasks() -> Vec<Contestant> {
    vec![
        Contestant::ours(tasks::ping_pong(
            || semaforo::Semaphore::new(0),
            |semaphore| async { semaphore.acquire(1).await.unwrap().forget() },
            |semaphore| semaphore.release(1).unwrap(),
        )),
        Contestant::peer(
            "futures-intrusive",
            tasks::ping_pong(
                || futures_intrusive::sync::Semaphore::new(true, 0),
                |semaphore| async {
                    semaphore.acquire(1).await.disarm();
                },
                |semaphore| semaphore.release(1),
            ),
        ),
        Contestant::peer(
            "tokio",
            tasks::ping_pong(
                || tokio::sync::Semaphore::new(0),
                |semaphore| async { semaphore.acquire().await.unwrap().forget() },
                |semaphore| semaphore.add_permits(1),
            ),
        ),
    ]
}

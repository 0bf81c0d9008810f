//! The shapes with which tokio measures its own scheduler, in `benches/rt_multi_threaded.rs`.
//!
//! With two workers instead of four, and the same channels for everybody: what
//! differs is who runs the tasks.

use tokio::sync::oneshot;

use super::countdown::{Countdown, counted_down};
use super::executor::{AsyncExecutor, Executor, Pool, Tokio};
use super::ours::Ours;
use crate::row::{Bar, Contestant, Row, Work};

/// Trips under way at the same time, as in tokio's shape.
const PINGS: u64 = 1_000;
const LINKS: u64 = 1_000;
const YIELDING: u64 = 200;
const YIELDS: u64 = 1_000;

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "ping-pong",
            "1 000 tasks, each starts another and exchanges a message with it, per pair",
            || {
                contestants(
                    ping_pong(Ours::stealing()),
                    ping_pong(Tokio),
                    ping_pong(AsyncExecutor::get()),
                )
            },
        )
        .bar(Bar::against("tokio", 1.1)),
        Row::new("chained-spawn", "a task starts the next, 1 000 times over, per task", || {
            contestants(chain(Ours::stealing()), chain(Tokio), chain(AsyncExecutor::get()))
        })
        .bar(Bar::against("tokio", 1.1)),
        Row::new("yield-many", "200 tasks yield 1 000 times each, per yield", || {
            contestants(
                yield_many(Ours::stealing()),
                yield_many(Tokio),
                yield_many(AsyncExecutor::get()),
            )
        })
        .bar(Bar::against("tokio", 1.1)),
    ]
}

fn contestants(ours: Work, tokio: Work, async_executor: Work) -> Vec<Contestant> {
    vec![
        Contestant::ours(ours),
        Contestant::peer("tokio", tokio),
        Contestant::peer("async-executor", async_executor),
    ]
}

fn ping_pong(executor: impl Executor) -> Work {
    counted_down(PINGS, PINGS, move |countdown| {
        executor.execute(move || {
            for _ in 0..PINGS {
                executor.execute_future(async move {
                    let (ping, pinged) = oneshot::channel();
                    let (pong, ponged) = oneshot::channel();
                    executor.execute_future(async {
                        pinged.await.expect("the other side sends");
                        pong.send(()).expect("the other side receives");
                    });
                    ping.send(()).expect("the other side receives");
                    ponged.await.expect("the other side sends");
                    countdown.one_has_ended();
                });
            }
        });
    })
}

fn chain(pool: impl Pool) -> Work {
    counted_down(1, LINKS, move |countdown| link(pool, countdown, LINKS))
}

fn link(pool: impl Pool, countdown: &'static Countdown, links: u64) {
    match links {
        0 => countdown.one_has_ended(),
        _ => pool.execute(move || link(pool, countdown, links - 1)),
    }
}

fn yield_many<E: Executor>(executor: E) -> Work {
    counted_down(YIELDING, YIELDING * YIELDS, move |countdown| {
        for _ in 0..YIELDING {
            executor.execute_future(async move {
                for _ in 0..YIELDS {
                    E::yield_now().await;
                }
                countdown.one_has_ended();
            });
        }
    })
}

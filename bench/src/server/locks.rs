//! Locks taken and given back per second, by 16 clients.

use super::crowd::Crowd;
use super::dialects::{Dialect, Etcd, Redis, Semaforo, Step};
use super::peers::{self, Kept};
use super::{contestant, contestants, ours};
use crate::row::{Bar, Contestant, Row, Side};

const CLIENTS: usize = 16;
const CYCLE: &[Step] = &[Step::Lock, Step::Unlock];

/// What all of them fight for, if they do.
const ONE_NAME: &str = "one";

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "lock-own",
            "locked and unlocked: 16 clients, each a name of its own; in memory",
            in_memory,
        )
        .per_second()
        .bar(Bar::at_least(1.0, "redis")),
        Row::new(
            "lock-own-durable",
            "the same, held by named sessions, on disk with every answer",
            on_disk,
        )
        .per_second()
        .bar(Bar::at_least(5.0, "etcd")),
        Row::new(
            "lock-fifo-durable",
            "the same, one name, first come first served",
            first_come_first_served,
        )
        .per_second()
        .bar(Bar::at_least(30.0, "etcd")),
    ]
}

fn in_memory() -> Vec<Contestant> {
    let named = contestant(ours::semaforo(Kept::InMemory), |server| {
        crowd(|number| Semaforo::with_session(&own(number))).prepared().sampler(server)
    });
    contestants([
        contestant(ours::semaforo(Kept::InMemory), |server| {
            crowd(|number| Semaforo::new(&own(number))).sampler(server)
        }),
        named.map(|named| Contestant { name: "named-sessions", side: Side::Sibling, ..named }),
        contestant(peers::redis(Kept::InMemory), |server| {
            crowd(|number| Redis::new(&own(number))).sampler(server)
        })
        .map(|redis| redis.caveat("redis: SET NX PX, and DEL, which does not check who holds it")),
    ])
}

fn on_disk() -> Vec<Contestant> {
    contestants([
        contestant(ours::semaforo(Kept::OnDisk), |server| {
            crowd(|number| Semaforo::with_session(&own(number))).prepared().sampler(server)
        }),
        contestant(peers::etcd(), |server| {
            let client = |number| Etcd::with_transactions(&own(number), lease(number));
            crowd(client).prepared().sampler(server)
        })
        .map(|etcd| {
            etcd.caveat("etcd, over gRPC: a transaction creates the key with a lease, then delete")
        }),
        contestant(peers::redis(Kept::OnDisk), |server| {
            crowd(|number| Redis::new(&own(number))).sampler(server)
        })
        .map(|redis| redis.caveat("redis: SET NX PX, and DEL, which does not check who holds it")),
    ])
}

fn first_come_first_served() -> Vec<Contestant> {
    contestants([
        contestant(ours::semaforo(Kept::OnDisk), |server| {
            crowd(|_| Semaforo::with_session(ONE_NAME)).prepared().until_done().sampler(server)
        }),
        contestant(peers::etcd(), |server| {
            let client = |number| Etcd::with_lock_service(ONE_NAME, lease(number));
            crowd(client).prepared().until_done().sampler(server)
        })
        .map(|etcd| etcd.caveat("etcd, over gRPC: its lock service, with a lease per client")),
    ])
}

/// Locked and unlocked is one operation.
fn crowd<D: Dialect + 'static>(new: impl Fn(usize) -> D) -> Crowd<D> {
    Crowd::counting(&[Step::Unlock]).with(CLIENTS, CYCLE, new)
}

fn own(number: usize) -> String {
    format!("l{number}")
}

fn lease(number: usize) -> u64 {
    1000 + number as u64
}

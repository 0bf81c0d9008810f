//! Requests and messages per second.

use super::crowd::{Crowd, TAKER};
use super::dialects::{Beanstalkd, Dialect, Echo, Nats, Redis, Semaforo, Step};
use super::peers::{self, Kept};
use super::{contestant, contestant_apart, contestants, ours};
use crate::row::{Bar, Contestant, Row, Side};

const PRODUCERS: usize = 25;
const TAKERS: usize = 25;
const PRODUCER: &[Step] = &[Step::Put];
/// A message is two operations, also where it has to be deleted as well.
const COUNTED: &[Step] = &[Step::Put, Step::Take];
/// The column of ours without encryption.
const PLAIN: &str = "plain";
const UNDER_WAY: usize = 16;

pub(super) fn rows() -> Vec<Row> {
    let row = |id, about, contestants: fn() -> Vec<Contestant>, bar| {
        Row::new(id, about, contestants).per_second().bar(Bar::at_least(bar, "redis"))
    };
    vec![
        row(
            "ping",
            "requests: one connection, request and answer; a core for each side",
            ping,
            0.95,
        ),
        row(
            "put-take",
            "puts and takes: 25 connections put, 25 take and wait; in memory",
            put_take,
            1.0,
        ),
        row("put-take-durable", "the same, on disk with every answer", put_take_durable, 1.1),
        Row::new("put-take-tls", "in memory, encrypted; ours without beside it", put_take_tls)
            .per_second()
            .bar(Bar::at_least(0.5, PLAIN)),
        row("put-take-pipelined", "in memory, 16 requests under way each", put_take_pipelined, 1.0),
    ]
}

fn ping() -> Vec<Contestant> {
    fn one<D: Dialect + 'static>(new: fn(usize) -> D) -> Crowd<D> {
        Crowd::counting(&[Step::Ping]).with(1, &[Step::Ping], new)
    }
    let echo = contestant_apart(peers::echo(), |server| one(|_| Echo).sampler(server));
    contestants([
        contestant_apart(ours::semaforo(Kept::InMemory), |server| {
            one(|_| Semaforo::new("")).sampler(server)
        }),
        contestant_apart(peers::redis(Kept::InMemory), |server| {
            one(|_| Redis::new("")).sampler(server)
        }),
        contestant_apart(peers::nats(), |server| one(|_| Nats).sampler(server)),
        echo.map(|echo| {
            let beside = Contestant { side: Side::Beside, ..echo };
            beside.caveat("echo: a bare loop of read and write, for one client")
        }),
    ])
}

fn put_take() -> Vec<Contestant> {
    let beanstalkd = contestant(peers::beanstalkd(Kept::InMemory), |server| {
        cycles(PRODUCERS + TAKERS).sampler(server)
    });
    contestants([
        contestant(ours::semaforo(Kept::InMemory), |server| ours().sampler(server)),
        contestant(peers::redis(Kept::InMemory), |server| redis().sampler(server)),
        beanstalkd.map(|beanstalkd| {
            beanstalkd.caveat("beanstalkd: 50 connections that each put, reserve and delete")
        }),
    ])
}

fn put_take_durable() -> Vec<Contestant> {
    let beanstalkd =
        contestant(peers::beanstalkd(Kept::OnDisk), |server| cycles(1).sampler(server));
    contestants([
        contestant(ours::semaforo(Kept::OnDisk), |server| ours().sampler(server)),
        contestant(peers::redis(Kept::OnDisk), |server| redis().sampler(server)),
        beanstalkd.map(|beanstalkd| {
            beanstalkd.caveat("beanstalkd -f 0: one connection that puts, reserves and deletes")
        }),
    ])
}

fn put_take_tls() -> Vec<Contestant> {
    let plain = ours::semaforo(Kept::InMemory).map(|recipe| recipe.called(PLAIN));
    let plain = contestant(plain, |server| ours().sampler(server));
    contestants([
        contestant(ours::encrypted(), |server| ours().sampler(server)),
        plain.map(|plain| Contestant { side: Side::Sibling, ..plain }),
    ])
}

fn put_take_pipelined() -> Vec<Contestant> {
    contestants([
        contestant(ours::semaforo(Kept::InMemory), |server| {
            ours().pipelined(UNDER_WAY).sampler(server)
        }),
        contestant(peers::redis(Kept::InMemory), |server| {
            redis().pipelined(UNDER_WAY).sampler(server)
        }),
    ])
}

fn ours() -> Crowd<Semaforo> {
    put_and_take(|| Semaforo::new("")).prepared()
}

fn redis() -> Crowd<Redis> {
    put_and_take(|| Redis::new(""))
}

fn put_and_take<D: Dialect + 'static>(new: fn() -> D) -> Crowd<D> {
    let takers = Crowd::counting(COUNTED).with(TAKERS, TAKER, |_| new());
    takers.with(PRODUCERS, PRODUCER, |_| new())
}

fn cycles(clients: usize) -> Crowd<Beanstalkd> {
    const CYCLE: &[Step] = &[Step::Put, Step::Take, Step::Acknowledge];
    Crowd::counting(COUNTED).with(clients, CYCLE, |_| Beanstalkd::default())
}

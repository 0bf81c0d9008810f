//! What those who do nothing cost: the memory of the server divided by their number.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::dialects::{Beanstalkd, Dialect, Nats, Redis, Semaforo, Step};
use super::load::{Failure, Load};
use super::peers::{self, Kept};
use super::process::Server;
use super::{Sampler, contestant, contestants, ours};
use crate::row::{Bar, Contestant, Row};

const WAITING: usize = 100_000;
const CONNECTIONS_OF_WAITING: usize = 100;
const IDLE: usize = 10_000;
/// Fewer than a listener lets queue: a connection too many is only tried again after a second.
const AT_ONCE: usize = 100;

pub(super) fn rows() -> Vec<Row> {
    let row = |id, about, contestants: fn() -> Vec<Contestant>, bar| {
        Row::new(id, about, contestants).unit("bytes").bar(Bar::limit(bar)).at_most_rounds(1)
    };
    vec![
        row(
            "waiting",
            "memory per request: 100 000 wait for a lock over 100 connections; one release, one grant",
            || contestants([contestant(ours::semaforo(Kept::InMemory), waiting)]),
            1024.0,
        ),
        row("idle", "memory per connection: 10 000 that have said one thing", idle, 20.0 * 1024.0),
    ]
}

fn waiting(server: Server) -> Result<Sampler, Failure> {
    const NAME: &str = "one";
    let mut load = Load::new(server.address)?;
    load.connect([Semaforo::new(NAME)])?;
    let holder = 0;
    load.ask(holder, Step::Lock)?;
    load.connect((0..CONNECTIONS_OF_WAITING).map(|_| Semaforo::with_ids(NAME)))?;

    let waiters = 1..=CONNECTIONS_OF_WAITING;
    for who in waiters.clone() {
        load.send(who, Step::Lock, WAITING / CONNECTIONS_OF_WAITING)?;
        // An answer to what came later: the others have been read, and wait.
        load.send(who, Step::Ping, 1)?;
        answers(&mut load, 1)?;
    }
    let bytes = server.resident_bytes()? / WAITING as f64;

    load.send(holder, Step::Unlock, 1)?;
    answers(&mut load, 2)?;
    // Nobody else has been woken, or the answer would be there before these are.
    waiters.into_iter().try_for_each(|who| load.send(who, Step::Ping, 1))?;
    answers(&mut load, CONNECTIONS_OF_WAITING)?;
    Ok(Box::new(move |_length| Ok(bytes)))
}

/// Waits for so many, and fails if more have come: they are requests that should wait.
fn answers<D: Dialect>(load: &mut Load<D>, expected: usize) -> Result<(), Failure> {
    let mut arrived = 0;
    while arrived < expected {
        load.turn(|_, _| {
            arrived += 1;
            None
        })?;
    }
    match arrived == expected {
        true => Ok(()),
        false => Err(Failure(format!("{arrived} answers instead of {expected}: too many woken"))),
    }
}

fn idle() -> Vec<Contestant> {
    contestants([
        contestant(ours::semaforo(Kept::InMemory), |server| resting(server, || Semaforo::new(""))),
        contestant(peers::redis(Kept::InMemory), |server| resting(server, || Redis::new(""))),
        contestant(peers::beanstalkd(Kept::InMemory), |server| {
            resting(server, Beanstalkd::default)
        }),
        contestant(peers::nats(), |server| resting(server, || Nats)),
    ])
}

fn resting<D: Dialect>(server: Server, new: fn() -> D) -> Result<Sampler, Failure> {
    let mut load = Load::new(server.address)?;
    for first in (0..IDLE).step_by(AT_ONCE) {
        let newcomers = first..first + AT_ONCE;
        load.connect(newcomers.clone().map(|_| new()))?;
        for who in newcomers.clone() {
            load.send(who, Step::Ping, 1)?;
        }
        newcomers.into_iter().try_for_each(|who| load.settle(who))?;
    }
    let bytes = server.resident_bytes()? / IDLE as f64;
    Ok(Box::new(move |_length| Ok(bytes)))
}

/// As many files as the system allows, for this process and for those that it starts.
pub(super) fn raise_the_limit_of_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it cannot be raised, the row that needs it says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

//! How long a message takes to somebody who waits for it.
//!
//! In lock-step: the taker waits, the producer puts one message, the taker has it; and again.
//! Nothing else is going on, so that the figure is mostly that of waking two processes up, each on
//! a core of its own.

use std::time::{Duration, Instant};

use super::dialects::{Beanstalkd, Dialect, Redis, Semaforo, Step};
use super::load::{Failure, Load};
use super::peers::{self, Kept};
use super::process::Server;
use super::{Sampler, contestant_apart, contestants, ours};
use crate::measure::percentile;
use crate::row::{Bar, Contestant, Row};

const TAKER: usize = 0;
const PRODUCER: usize = 1;

pub(super) fn rows() -> Vec<Row> {
    let bar = || Bar::against("redis", 1.1);
    vec![
        Row::new(
            "hand-off-p50",
            "from putting a message until one who waits has it, median",
            || hand_off(50),
        )
        .unit("us")
        .bar(bar()),
        Row::new("hand-off-p99", "the same, 99th percentile", || hand_off(99))
            .unit("us")
            .bar(bar()),
    ]
}

fn hand_off(percent: usize) -> Vec<Contestant> {
    contestants([
        contestant_apart(ours::semaforo(Kept::InMemory), |server| {
            lock_step(server, || Semaforo::new(""), Some(Step::Prepare), None, percent)
        }),
        contestant_apart(peers::redis(Kept::InMemory), |server| {
            lock_step(server, || Redis::new(""), None, None, percent)
        }),
        contestant_apart(peers::beanstalkd(Kept::InMemory), |server| {
            lock_step(server, Beanstalkd::default, None, Some(Step::Acknowledge), percent)
        }),
    ])
}

/// `before` is asked once, `after` with every message.
fn lock_step<D: Dialect + 'static>(
    server: Server,
    new: fn() -> D,
    before: Option<Step>,
    after: Option<Step>,
    percent: usize,
) -> Result<Sampler, Failure> {
    let mut load = Load::new(server.address)?;
    load.connect([new(), new()])?;
    before.into_iter().try_for_each(|step| load.all_ask(step))?;
    let mut hand_offs = HandOffs { _server: server, load, after };
    Ok(Box::new(move |length| {
        let mut waits = hand_offs.microseconds(length)?;
        waits.sort_by(f64::total_cmp);
        Ok(percentile(&waits, percent))
    }))
}

struct HandOffs<D> {
    _server: Server,
    load: Load<D>,
    after: Option<Step>,
}

impl<D: Dialect> HandOffs<D> {
    fn microseconds(&mut self, length: Duration) -> Result<Vec<f64>, Failure> {
        let load = &mut self.load;
        let mut waits = Vec::new();
        let end = Instant::now() + length;
        while Instant::now() < end {
            load.send(TAKER, Step::Take, 1)?;
            // When this is answered, what was sent before it has been read.
            load.ask(PRODUCER, Step::Ping)?;
            let begin = Instant::now();
            load.send(PRODUCER, Step::Put, 1)?;
            load.settle(TAKER)?;
            waits.push(begin.elapsed().as_nanos() as f64 / 1e3);
            load.settle(PRODUCER)?;
            self.after.into_iter().try_for_each(|step| load.ask(TAKER, step))?;
        }
        Ok(waits)
    }
}

//! From the start of a process to its first answer: with nothing to do, and with messages to load.

use std::time::Duration;

use super::dialects::{Dialect, Redis, Semaforo, Step};
use super::load::{Failure, Load};
use super::peers::{self, Kept};
use super::process::{Directory, Recipe};
use super::{Sampler, contestant_of, contestants, ours};
use crate::measure::Plan;
use crate::row::{Bar, Contestant, Row, Side};

const MESSAGES: u64 = 1_000_000;
const FEWER_MESSAGES: u64 = 200_000;
/// How many of them are under way while they are put.
const UNDER_WAY: u64 = 2_000;

const START_MILLISECONDS: f64 = 50.0;

pub(super) fn rows(plan: &Plan) -> Vec<Row> {
    let (messages, about) = match plan.quick {
        false => (MESSAGES, "from start to first answer with 1 000 000 queued messages on disk"),
        true => (FEWER_MESSAGES, "from start to first answer with 200 000 queued messages on disk"),
    };
    vec![
        Row::new("recovery", about, move || recovery(messages))
            .unit("ms")
            .bar(Bar::against("redis", 1.0))
            .at_most_rounds(5),
        Row::new("start", "from start to first answer, with nothing on disk", start)
            .unit("ms")
            .bar(Bar::limit(START_MILLISECONDS)),
    ]
}

fn recovery(messages: u64) -> Vec<Contestant> {
    let snapshot = contestant_of(peers::redis(Kept::InMemory), |recipe| {
        recovering(recipe, Redis::appending, None, messages, Some(Step::Save))
    });
    let ours = contestant_of(ours::semaforo(Kept::OnDisk), |recipe| {
        recovering(recipe, || Semaforo::new(""), Some(Step::Prepare), messages, None)
    });
    contestants([
        ours.map(|ours| match messages {
            FEWER_MESSAGES => ours.caveat("recovery: 200 000 messages instead of 1 000 000"),
            _ => ours,
        }),
        contestant_of(peers::redis(Kept::OnDisk), |recipe| {
            recovering(recipe, Redis::appending, None, messages, None)
        })
        .map(|redis| redis.caveat("redis: an append-only file of RPUSH commands")),
        snapshot.map(|snapshot| {
            let beside = Contestant { name: "redis-snapshot", side: Side::Beside, ..snapshot };
            beside.caveat("redis-snapshot: the same messages, saved at once and compressed")
        }),
    ])
}

/// `before` and `after` the messages something else may have to be asked for.
fn recovering<D: Dialect + 'static>(
    recipe: Recipe<D>,
    new: fn() -> D,
    before: Option<Step>,
    messages: u64,
    after: Option<Step>,
) -> Result<Sampler, Failure> {
    let directory = Directory::new()?;
    {
        let server = recipe.start_in(&directory)?;
        let mut load = Load::new(server.address)?;
        load.connect([new()])?;
        before.into_iter().try_for_each(|step| load.ask(0, step))?;
        put(&mut load, messages)?;
        after.into_iter().try_for_each(|step| load.ask(0, step))?;
    }
    let mut checked = false;
    Ok(Box::new(move |_length| {
        let server = recipe.start_in(&directory)?;
        if !checked {
            let mut load = Load::new(server.address)?;
            load.connect([new()])?;
            load.ask(0, Step::Count(messages))?;
            checked = true;
        }
        Ok(milliseconds(server.started_within))
    }))
}

fn put<D: Dialect>(load: &mut Load<D>, messages: u64) -> Result<(), Failure> {
    let mut sent = messages.min(UNDER_WAY);
    load.send(0, Step::Put, sent as usize)?;
    while load.outstanding(0) > 0 {
        load.turn(|_, _| {
            let more = sent < messages;
            sent += u64::from(more);
            more.then_some(Step::Put)
        })?;
    }
    Ok(())
}

fn start() -> Vec<Contestant> {
    contestants([
        contestant_of(ours::semaforo(Kept::OnDisk), starting),
        contestant_of(peers::redis(Kept::OnDisk), starting),
        contestant_of(peers::beanstalkd(Kept::OnDisk), starting),
        contestant_of(peers::nats(), starting),
    ])
}

fn starting<D: Dialect + 'static>(recipe: Recipe<D>) -> Result<Sampler, Failure> {
    Ok(Box::new(move |_length| Ok(milliseconds(recipe.start()?.started_within))))
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

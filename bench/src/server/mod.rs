//! `bench server`: ours and its peers as processes of their own, over loopback.
//!
//! Each contestant is started when its row begins, with its data on the same disk as the others',
//! and ended with the row. All are loaded by the same single thread.

mod crowd;
mod dialects;
mod disguise;
mod latency;
mod limits;
mod load;
mod locks;
mod memory;
mod ours;
mod peers;
mod process;
mod starts;
mod stream;
mod throughput;

use std::time::Duration;

pub(crate) use disguise::disguised;

use crate::measure::Plan;
use crate::row::{Contestant, Row, Side, Work};
use dialects::Dialect;
use load::Failure;
use process::{Recipe, Server, apart};

pub(crate) fn rows(plan: &Plan) -> Vec<Row> {
    memory::raise_the_limit_of_files();
    [throughput::rows(), latency::rows(), locks::rows(), starts::rows(plan), memory::rows()]
        .into_iter()
        .flatten()
        .collect()
}

/// What `--limits` measures.
pub(crate) fn limits(plan: &Plan) -> Vec<Row> {
    limits::rows(plan)
}

/// Long enough samples for percentiles, and for a server that answers a hundred times a second.
pub(crate) fn plan(quick: bool) -> Plan {
    match quick {
        true => Plan { rounds: 7, sample: Duration::from_millis(80), quick },
        false => Plan { rounds: 15, sample: Duration::from_millis(250), quick },
    }
}

/// Takes a sample of about so long.
type Sampler = Box<dyn FnMut(Duration) -> Result<f64, Failure>>;

fn contestants<const COUNT: usize>(them: [Option<Contestant>; COUNT]) -> Vec<Contestant> {
    them.into_iter().flatten().collect()
}

/// A server that runs for as long as its row does; see [`contestant_of`].
fn contestant<D: Dialect>(
    recipe: Option<Recipe<D>>,
    sampler: impl FnOnce(Server) -> Result<Sampler, Failure>,
) -> Option<Contestant> {
    contestant_of(recipe, |recipe| sampler(recipe.start()?))
}

/// The same, with a core for the server and one for the clients.
fn contestant_apart<D: Dialect>(
    recipe: Option<Recipe<D>>,
    sampler: impl FnOnce(Server) -> Result<Sampler, Failure>,
) -> Option<Contestant> {
    contestant_of(recipe, |recipe| {
        let mut sampler = sampler(recipe.start_apart()?)?;
        Ok(Box::new(move |length| apart(|| sampler(length))))
    })
}

/// A peer that is not installed, or fails, is left out. Ours has a place that stays empty.
fn contestant_of<D: Dialect>(
    recipe: Option<Recipe<D>>,
    sampler: impl FnOnce(Recipe<D>) -> Result<Sampler, Failure>,
) -> Option<Contestant> {
    let recipe = recipe?;
    let name = recipe.name;
    let sampler = sampler(recipe).map_err(|failure| report(name, &failure));
    let side = if name == ours::CONTESTANT { Side::Ours } else { Side::Peer };
    let work = match sampler {
        Ok(mut sampler) => Work::timed(move |length| {
            sampler(length).unwrap_or_else(|failure| {
                report(name, &failure);
                f64::INFINITY
            })
        }),
        Err(()) if side == Side::Ours => Work::Known(f64::INFINITY),
        Err(()) => return None,
    };
    Some(Contestant { name, side, work, caveat: None })
}

fn report(name: &str, Failure(reason): &Failure) {
    eprintln!("bench: {name}: {reason}");
}

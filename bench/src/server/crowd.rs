//! Clients that ask again as soon as they are answered, and how many operations they get done.

use std::time::{Duration, Instant};

use super::Sampler;
use super::dialects::{Dialect, Step};
use super::load::{Failure, Load};
use super::process::Server;

/// What a client does over and over.
type Cycle = &'static [Step];

/// The cycle of one who only waits for messages.
pub(super) const TAKER: Cycle = &[Step::Take];

pub(super) struct Crowd<D> {
    clients: Vec<(D, Cycle)>,
    /// How many requests each has under way.
    window: usize,
    prepared: bool,
    /// What is counted is the answers to these.
    counted: &'static [Step],
    /// Whether it counts until everybody has finished what was begun.
    until_done: bool,
}

impl<D: Dialect + 'static> Crowd<D> {
    pub(super) fn counting(counted: &'static [Step]) -> Crowd<D> {
        Crowd { clients: Vec::new(), window: 1, prepared: false, counted, until_done: false }
    }

    /// More of them, each with a number of its own.
    pub(super) fn with(mut self, count: usize, cycle: Cycle, new: impl Fn(usize) -> D) -> Crowd<D> {
        let first = self.clients.len();
        self.clients.extend((first..first + count).map(|number| (new(number), cycle)));
        self
    }

    /// Only for cycles of one step: the others need an answer before they go on.
    pub(super) fn pipelined(self, window: usize) -> Crowd<D> {
        Crowd { window, ..self }
    }

    /// Everybody asks for [`Step::Prepare`] first.
    pub(super) fn prepared(self) -> Crowd<D> {
        Crowd { prepared: true, ..self }
    }

    /// For what is so slow that most clients get only one turn in a sample.
    pub(super) fn until_done(self) -> Crowd<D> {
        Crowd { until_done: true, ..self }
    }

    /// The figure is the time per operation, in microseconds.
    pub(super) fn sampler(self, server: Server) -> Result<Sampler, Failure> {
        let (dialects, cycles): (Vec<D>, Vec<Cycle>) = self.clients.into_iter().unzip();
        let mut load = Load::new(server.address)?.encrypted(server.encrypted.clone());
        load.connect(dialects)?;
        if self.prepared {
            load.all_ask(Step::Prepare)?;
        }
        let mut crowd = Busy {
            _server: server,
            load,
            cycles,
            window: self.window,
            counted: self.counted,
            until_done: self.until_done,
            put: 0,
            taken: 0,
        };
        Ok(Box::new(move |length| crowd.run(length)))
    }
}

/// A crowd at work.
struct Busy<D> {
    _server: Server,
    load: Load<D>,
    cycles: Vec<Cycle>,
    window: usize,
    counted: &'static [Step],
    until_done: bool,
    put: u64,
    taken: u64,
}

impl<D: Dialect> Busy<D> {
    fn run(&mut self, length: Duration) -> Result<f64, Failure> {
        let begin = Instant::now();
        for who in 0..self.cycles.len() {
            // Those who take may still be waiting, from the sample before.
            let missing = self.window - self.load.outstanding(who);
            self.load.send(who, self.cycles[who][0], missing)?;
        }
        let (mut operations, mut elapsed) = (0, Duration::ZERO);
        while elapsed < length {
            operations += self.turn(true)?;
            elapsed = begin.elapsed();
        }
        // Usually in the time of nobody: the server should be quiet while others are measured.
        while !self.is_quiet() {
            let more = self.turn(false)?;
            if self.until_done {
                operations += more;
                elapsed = begin.elapsed();
            }
        }
        Ok(elapsed.as_nanos() as f64 / 1e3 / operations as f64)
    }

    /// Returns the number of operations. Cycles are finished, but begun only if `begins`; messages
    /// are always taken.
    fn turn(&mut self, begins: bool) -> Result<u64, Failure> {
        let Busy { load, cycles, counted, put, taken, .. } = self;
        let mut operations = 0;
        load.turn(|who, step| {
            operations += u64::from(counted.contains(&step));
            *put += u64::from(step == Step::Put);
            *taken += u64::from(step == Step::Take);
            let cycle = cycles[who];
            let next = following(cycle, step);
            (begins || next != cycle[0] || cycle == TAKER).then_some(next)
        })?;
        Ok(operations)
    }

    /// Nothing is under way, except for those who wait for messages that nobody has put.
    fn is_quiet(&self) -> bool {
        let waiting = |who: usize| if self.cycles[who] == TAKER { self.window } else { 0 };
        let mut everybody = 0..self.cycles.len();
        self.put == self.taken && everybody.all(|who| self.load.outstanding(who) == waiting(who))
    }
}

fn following(cycle: Cycle, step: Step) -> Step {
    let place = cycle.iter().position(|&other| other == step);
    cycle[place.map_or(0, |place| (place + 1) % cycle.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_begins_again() {
        let cycle: Cycle = &[Step::Put, Step::Take, Step::Acknowledge];
        assert_eq!(following(cycle, Step::Put), Step::Take);
        assert_eq!(following(cycle, Step::Take), Step::Acknowledge);
        assert_eq!(following(cycle, Step::Acknowledge), Step::Put);
        assert_eq!(following(TAKER, Step::Take), Step::Take);
    }
}

//! Rounds: every contestant of a row takes one sample per round, in turns.
//!
//! A disturbance (another process, a change of clock speed) then falls on all
//! contestants alike, and the median over the rounds forgets it.

use std::time::{Duration, Instant};

use crate::row::{Contestant, Row, Side, Work};

/// Enough for a sample of any operation; a stop for work that costs nothing.
const MOST_OPERATIONS: u64 = 1 << 28;

/// How much to measure.
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) sample: Duration,
    /// Whether work that takes seconds should be cut down.
    pub(crate) quick: bool,
}

impl Plan {
    pub(crate) fn thorough() -> Plan {
        Plan { rounds: 15, sample: Duration::from_millis(30), quick: false }
    }

    pub(crate) fn quick() -> Plan {
        Plan { rounds: 9, sample: Duration::from_millis(7), quick: true }
    }

    /// As many rounds as there is time for if a sample takes a good part of a second.
    pub(crate) fn few_rounds(&self) -> usize {
        self.rounds / 3
    }
}

/// A measured row.
pub(crate) struct Outcome<'row> {
    pub(crate) row: &'row Row,
    pub(crate) figures: Vec<Figure>,
}

pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) side: Side,
    pub(crate) caveat: Option<&'static str>,
    pub(crate) median: f64,
    pub(crate) tenth_percentile: f64,
    pub(crate) ninetieth_percentile: f64,
    /// A sample did not end; what there is comes from the samples before.
    pub(crate) hung: bool,
}

pub(crate) fn run<'row>(row: &'row Row, plan: &Plan) -> Outcome<'row> {
    let mut entrants: Vec<Entrant> = (row.contestants)().into_iter().map(Entrant::new).collect();
    for entrant in &mut entrants {
        entrant.calibrate(plan.sample);
    }
    for round in 0..row.most_rounds.min(plan.rounds * row.patience) {
        // The first place in a round rotates too: nobody always follows the same neighbour.
        let count = entrants.len();
        for place in 0..count {
            entrants[(round + place) % count].sample(plan.sample);
        }
    }
    Outcome { row, figures: entrants.into_iter().map(Entrant::figure).collect() }
}

/// A contestant with what is known of it so far.
struct Entrant {
    contestant: Contestant,
    operations: u64,
    samples: Vec<f64>,
    hung: bool,
}

impl Entrant {
    fn new(contestant: Contestant) -> Entrant {
        Entrant { contestant, operations: 1, samples: Vec::new(), hung: false }
    }

    /// Warms the contestant up and finds out how many operations fill a sample.
    fn calibrate(&mut self, length: Duration) {
        match &mut self.contestant.work {
            Work::Counted(sample) => loop {
                let begin = Instant::now();
                self.hung = sample(self.operations).is_infinite();
                let took = begin.elapsed();
                if self.hung {
                    return;
                }
                if took >= length / 4 || self.operations >= MOST_OPERATIONS {
                    self.operations = scaled(self.operations, took, length);
                    return;
                }
                self.operations *= 4;
            },
            Work::Timed(sample) => {
                sample(length / 2);
            }
            Work::Known(_) => {}
        }
    }

    fn sample(&mut self, length: Duration) {
        if self.hung {
            return;
        }
        let figure = match &mut self.contestant.work {
            Work::Counted(sample) => {
                let begin = Instant::now();
                let figure = sample(self.operations);
                let took = begin.elapsed();
                // Calibrated in a lucky moment, one contestant could eat the time of all; in an
                // unlucky one, its figure would be that of starting threads and tasks.
                if took > length * 3 || took < length / 3 {
                    self.operations = scaled(self.operations, took, length);
                }
                figure
            }
            Work::Timed(sample) => sample(length),
            Work::Known(figure) => *figure,
        };
        match figure.is_infinite() {
            true => self.hung = true,
            false => self.samples.push(figure),
        }
    }

    fn figure(mut self) -> Figure {
        self.samples.sort_by(f64::total_cmp);
        Figure {
            name: self.contestant.name,
            side: self.contestant.side,
            caveat: self.contestant.caveat,
            median: percentile(&self.samples, 50),
            tenth_percentile: percentile(&self.samples, 10),
            ninetieth_percentile: percentile(&self.samples, 90),
            hung: self.hung,
        }
    }
}

fn scaled(operations: u64, took: Duration, length: Duration) -> u64 {
    let factor = length.as_secs_f64() / took.as_secs_f64().max(1e-9);
    ((operations as f64 * factor) as u64).clamp(1, MOST_OPERATIONS)
}

/// Not a number if there are no samples: nobody may look fast for want of a figure.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last * percent + 50) / 100).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(contestants: fn() -> Vec<Contestant>) -> Row {
        Row::new("test", "a row of the tests", contestants)
    }

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<f64> = (0..11).map(f64::from).collect();
        assert_eq!(percentile(&samples, 10), 1.0);
        assert_eq!(percentile(&samples, 50), 5.0);
        assert_eq!(percentile(&samples, 90), 9.0);
        assert_eq!(percentile(&[7.0], 90), 7.0);
        assert!(percentile(&[], 50).is_nan());
    }

    #[test]
    fn whoever_hangs_is_out() {
        let row = row(|| {
            let mut samples = [1.0, 2.0, f64::INFINITY, 4.0].into_iter();
            let hangs_after_two = move |_| samples.next().expect("not asked after it hung");
            vec![
                Contestant::ours(Work::Counted(Box::new(|_| 3.0))),
                Contestant::peer("later", Work::timed(hangs_after_two)),
                Contestant::peer("at-once", Work::counted(|_| f64::INFINITY)),
            ]
        });
        let plan = Plan { rounds: 3, sample: Duration::from_micros(1), quick: true };
        let figures = run(&row, &plan).figures;
        let hung: Vec<bool> = figures.iter().map(|figure| figure.hung).collect();
        assert_eq!(hung, [false, true, true]);
        // The first of its two went into warming up.
        assert_eq!(figures[1].median, 2.0);
        assert!(figures[2].median.is_nan());
    }

    #[test]
    fn every_contestant_gets_a_figure() {
        let row = row(|| {
            vec![
                Contestant::ours(Work::counted(|_| 3.0)),
                Contestant::sibling("sibling", Work::timed(|_| 2.0)),
                Contestant::peer("peer", Work::Known(1.0)),
            ]
        });
        let plan = Plan { rounds: 3, sample: Duration::from_micros(1), quick: true };
        let medians: Vec<f64> =
            run(&row, &plan).figures.iter().map(|figure| figure.median).collect();
        assert_eq!(medians, [3.0, 2.0, 1.0]);
    }

    #[test]
    fn operations_are_scaled_to_fill_a_sample() {
        let length = Duration::from_millis(30);
        assert_eq!(scaled(100, Duration::from_millis(15), length), 200);
        assert_eq!(scaled(1, Duration::from_secs(9), length), 1);
        assert_eq!(scaled(u64::MAX, Duration::ZERO, length), MOST_OPERATIONS);
    }
}

//! What is compared: rows, the contestants of a row, and the bar ours should clear.

use std::time::Duration;

/// One line of the table: the same work for ours and every peer.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) about: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) bar: Option<Bar>,
    /// Figures are microseconds, and people read them as operations per second.
    pub(crate) per_second: bool,
    /// How many times the usual number of rounds; above one where figures are bimodal.
    pub(crate) patience: usize,
    /// For work so long that a few samples say enough.
    pub(crate) most_rounds: usize,
    /// Sets the contestants up. Called when the row's turn comes, not before: some
    /// queue 100 000 requests first, or start a Java machine.
    pub(crate) contestants: Box<dyn Fn() -> Vec<Contestant>>,
}

impl Row {
    /// A row measured in nanoseconds.
    pub(crate) fn new(
        id: &'static str,
        about: &'static str,
        contestants: impl Fn() -> Vec<Contestant> + 'static,
    ) -> Row {
        let contestants = Box::new(contestants);
        let (unit, bar, per_second) = ("ns", None, false);
        let (patience, most_rounds) = (1, usize::MAX);
        Row { id, about, unit, bar, per_second, patience, most_rounds, contestants }
    }

    pub(crate) fn unit(self, unit: &'static str) -> Row {
        Row { unit, ..self }
    }

    /// A row measured in microseconds per operation, and shown as operations per second.
    pub(crate) fn per_second(self) -> Row {
        Row { unit: "us", per_second: true, ..self }
    }

    pub(crate) fn bar(self, bar: Bar) -> Row {
        Row { bar: Some(bar), ..self }
    }

    pub(crate) fn patience(self, patience: usize) -> Row {
        Row { patience, ..self }
    }

    pub(crate) fn at_most_rounds(self, most_rounds: usize) -> Row {
        Row { most_rounds, ..self }
    }
}

pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) side: Side,
    pub(crate) work: Work,
    /// What the figure does not tell and a fair comparison has to.
    pub(crate) caveat: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The figure the row is about.
    Ours,
    /// Another of ours, shown for comparison.
    Sibling,
    Peer,
    /// Not the same work, or not from this run: shown, but never the best peer.
    Beside,
}

impl Contestant {
    pub(crate) fn ours(work: Work) -> Contestant {
        Contestant { name: "ours", side: Side::Ours, work, caveat: None }
    }

    pub(crate) fn sibling(name: &'static str, work: Work) -> Contestant {
        Contestant { name, side: Side::Sibling, work, caveat: None }
    }

    pub(crate) fn peer(name: &'static str, work: Work) -> Contestant {
        Contestant { name, side: Side::Peer, work, caveat: None }
    }

    pub(crate) fn beside(name: &'static str, work: Work) -> Contestant {
        Contestant { name, side: Side::Beside, work, caveat: None }
    }

    pub(crate) fn caveat(self, caveat: &'static str) -> Contestant {
        Contestant { caveat: Some(caveat), ..self }
    }
}

/// Takes one sample and returns its figure in the row's unit, infinite if it does
/// not end. Whoever hangs loses its place in the row, but does not hold up the run.
pub(crate) enum Work {
    /// Does so many operations. For costs that vary little.
    Counted(Box<dyn FnMut(u64) -> f64>),
    /// Works for about so long. For fights, whose cost per operation jumps by a
    /// factor of a hundred when the loser begins to park.
    Timed(Box<dyn FnMut(Duration) -> f64>),
    /// Not measured but known, such as a size.
    Known(f64),
}

impl Work {
    pub(crate) fn counted(sample: impl FnMut(u64) -> f64 + 'static) -> Work {
        Work::Counted(Box::new(sample))
    }

    pub(crate) fn timed(sample: impl FnMut(Duration) -> f64 + 'static) -> Work {
        Work::Timed(Box::new(sample))
    }
}

/// What ours should reach: a ratio to somebody's figure.
pub(crate) struct Bar {
    pub(crate) against: Against,
    pub(crate) at_most: f64,
    /// The most that ours' 90th percentile may be of its 10th.
    pub(crate) spread: Option<f64>,
}

pub(crate) enum Against {
    Contestant(&'static str),
    /// The best of these: like is compared with like, fair with fair.
    BestOf(&'static [&'static str]),
    /// A figure in the row's unit.
    Limit(f64),
    /// The same, where this contestant stays within it; else the machine does not allow it.
    LimitReachedBy(&'static str, f64),
}

impl Bar {
    pub(crate) fn against(name: &'static str, at_most: f64) -> Bar {
        Bar { against: Against::Contestant(name), at_most, spread: None }
    }

    /// So many times as many operations per second.
    pub(crate) fn at_least(times: f64, name: &'static str) -> Bar {
        Bar::against(name, 1.0 / times)
    }

    pub(crate) fn best_of(names: &'static [&'static str], at_most: f64) -> Bar {
        Bar { against: Against::BestOf(names), at_most, spread: None }
    }

    pub(crate) fn limit(figure: f64) -> Bar {
        Bar { against: Against::Limit(figure), at_most: 1.0, spread: None }
    }

    pub(crate) fn limit_reached_by(name: &'static str, figure: f64) -> Bar {
        Bar { against: Against::LimitReachedBy(name, figure), at_most: 1.0, spread: None }
    }

    pub(crate) fn spread_within(self, spread: f64) -> Bar {
        Bar { spread: Some(spread), ..self }
    }
}

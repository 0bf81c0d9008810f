//! Two threads swap items.

use super::ours;
use crate::java;
use crate::placement::Placement::Apart;
use crate::row::{Bar, Contestant, Row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("exchanger", "2 threads swap items, per swap, pinned to two cores", contestants)
            .bar(Bar::against("java", 1.5)),
    ]
}

fn contestants() -> Vec<Contestant> {
    let mut contestants = vec![Contestant::ours(ours::exchanger())];
    contestants.extend(java::timed("java", "exchanger", Apart));
    contestants
}

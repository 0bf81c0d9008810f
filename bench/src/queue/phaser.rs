//! A phaser with two parties that arrive and wait, phase after phase.

use super::ours;
use crate::java;
use crate::placement::Placement::Apart;
use crate::row::{Bar, Contestant, Row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("phaser", "2 threads at a phaser, per phase, pinned to two cores", contestants)
            .bar(Bar::against("java", 1.3)),
    ]
}

fn contestants() -> Vec<Contestant> {
    let mut contestants = vec![Contestant::ours(ours::phaser())];
    contestants.extend(java::timed("java", "phaser", Apart));
    contestants
}

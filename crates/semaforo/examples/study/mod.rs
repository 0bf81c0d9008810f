//! What the examples that repeat a study share: the summary of several runs, and charts.

#![allow(dead_code, reason = "every study uses its own part of this")]

pub(crate) mod chart;
pub(crate) mod summary;

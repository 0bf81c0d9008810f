//! What holds for every operation that may wait, whatever goes wrong.

mod faulty_policies;
mod hostile_policies;
mod late_ends;
mod model;
mod panics;
mod promises;
#[path = "../support/mod.rs"]
mod support;
mod wakers;

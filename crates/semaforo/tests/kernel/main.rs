//! What holds for every operation that may wait, whatever goes wrong.

mod alone;
mod bad_wakers;
mod blocking_wakers;
mod faulty_policies;
mod hostile_policies;
mod late_ends;
mod leaving_by_panic;
mod model;
mod panics;
mod patience;
mod promises;
#[path = "../support/mod.rs"]
mod support;
mod timer_thread;
mod wakers;

//! The shapes of work: what is repeated, by whom, and how it becomes a figure.
//!
//! A shape is generic over the primitive and the operation, so that each
//! contestant gets a compiled loop of its own while all loops are written once.
//! Primitives are leaked: requests queue on them, threads and tasks share them,
//! and a benchmark is over before that matters.

pub(crate) mod busy;
pub(crate) mod one_thread;
pub(crate) mod tasks;
pub(crate) mod two_threads;

use std::time::Instant;

use crate::row::Work;

/// Work that only makes sense as a whole, of so many parts. Nanoseconds per part.
pub(crate) fn whole(parts: u64, mut work: impl FnMut() + 'static) -> Work {
    Work::counted(move |repetitions| {
        let begin = Instant::now();
        for _ in 0..repetitions {
            work();
        }
        begin.elapsed().as_nanos() as f64 / (repetitions * parts) as f64
    })
}

/// Work that only makes sense as a whole, in milliseconds.
pub(crate) fn milliseconds(work: impl FnMut() + 'static) -> Work {
    const NANOSECONDS: u64 = 1_000_000;
    whole(NANOSECONDS, work)
}

/// Moves a primitive to an address that no neighbour shares: two cache lines, as
/// processors fetch them in pairs.
pub(crate) fn settle<P: 'static>(primitive: P) -> &'static P {
    #[repr(align(128))]
    struct Apart<P>(P);
    &Box::leak(Box::new(Apart(primitive))).0
}

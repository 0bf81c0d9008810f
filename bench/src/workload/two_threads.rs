//! Two threads that fight over one primitive, hand a turn to and fro, pass items
//! one way, or meet.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::settle;
use crate::placement::Placement;
use crate::row::Work;

/// Both threads take turn after turn; the operation is told the number of the
/// turn. Nanoseconds per turn of either.
pub(crate) fn fight<P: Sync + 'static>(
    placement: Placement,
    primitive: P,
    turn: impl Fn(&'static P, u64) + Sync + 'static,
) -> Work {
    let primitive = settle(primitive);
    Work::timed(move |length| {
        let stop = AtomicBool::new(false);
        let side = |first| turns_until(&stop, primitive, &turn, first);
        // Numbered differently, so that turns of a special kind do not fall together.
        together(placement, length, &stop, || side(0), || side(7))
    })
}

#[inline(never)]
fn turns_until<P>(
    stop: &AtomicBool,
    primitive: &'static P,
    turn: &impl Fn(&'static P, u64),
    first: u64,
) -> u64 {
    let mut number = first;
    loop {
        turn(black_box(primitive), number);
        number += 1;
        if stop.load(Ordering::Relaxed) {
            return number - first;
        }
    }
}

/// A pair of primitives; each side gives on one and takes from the other.
/// Nanoseconds one way.
pub(crate) fn ping_pong<P: Sync + 'static>(
    placement: Placement,
    new: impl Fn() -> P,
    take: impl Fn(&'static P) + Sync + 'static,
    give: impl Fn(&'static P) + Sync + 'static,
) -> Work {
    let (there, back) = (settle(new()), settle(new()));
    Work::timed(move |length| {
        let stop = AtomicBool::new(false);
        let last = AtomicBool::new(false);
        let serve = || {
            let mut trips = 0;
            loop {
                give(there);
                take(back);
                trips += 2;
                if stop.load(Ordering::Relaxed) {
                    last.store(true, Ordering::Release);
                    give(there);
                    return trips;
                }
            }
        };
        let answer = || {
            loop {
                take(there);
                if last.load(Ordering::Acquire) {
                    return 0;
                }
                give(back);
            }
        };
        together(placement, length, &stop, serve, answer)
    })
}

/// The item that tells the taking side to stop.
const LAST_ITEM: u64 = u64::MAX;

/// One side puts into its end, the other takes from its own, in order.
/// Nanoseconds per item, until the last has been taken.
pub(crate) fn pipe<S: Send + 'static, R: Send + 'static>(
    placement: Placement,
    (mut entrance, mut exit): (S, R),
    put: impl Fn(&mut S, u64) + Sync + 'static,
    take: impl Fn(&mut R) -> u64 + Sync + 'static,
) -> Work {
    Work::timed(move |length| {
        let stop = AtomicBool::new(false);
        let produce = || puts_until(&stop, &mut entrance, &put);
        let consume = || {
            takes(&mut exit, &take);
            0
        };
        together(placement, length, &stop, produce, consume)
    })
}

#[inline(never)]
fn puts_until<S>(stop: &AtomicBool, entrance: &mut S, put: &impl Fn(&mut S, u64)) -> u64 {
    let mut number = 0;
    loop {
        put(entrance, number);
        number += 1;
        if stop.load(Ordering::Relaxed) {
            put(entrance, LAST_ITEM);
            return number;
        }
    }
}

#[inline(never)]
fn takes<R>(exit: &mut R, take: &impl Fn(&mut R) -> u64) {
    for expected in 0.. {
        match take(exit) {
            LAST_ITEM => return,
            item => assert_eq!(item, expected, "items come out in the order they went in"),
        }
    }
}

/// Both sides meet again and again; the operation is told the number of the
/// meeting. Nanoseconds per meeting.
pub(crate) fn meet<P: Sync + 'static>(
    placement: Placement,
    primitive: P,
    arrive: impl Fn(&'static P, u64) + Sync + 'static,
) -> Work {
    let primitive = settle(primitive);
    Work::timed(move |length| {
        let stop = AtomicBool::new(false);
        let last = AtomicU64::new(u64::MAX);
        let lead = || meetings_until(&last, primitive, &arrive, Some(&stop));
        let follow = || {
            meetings_until(&last, primitive, &arrive, None);
            0
        };
        together(placement, length, &stop, lead, follow)
    })
}

/// The leading side is the one that is told to stop. It announces the last meeting
/// by its number and before it takes place, so that nobody waits there alone.
#[inline(never)]
fn meetings_until<P>(
    last: &AtomicU64,
    primitive: &'static P,
    arrive: &impl Fn(&'static P, u64),
    stop: Option<&AtomicBool>,
) -> u64 {
    let mut number = 0;
    loop {
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            last.store(number, Ordering::Release);
        }
        arrive(black_box(primitive), number);
        if last.load(Ordering::Acquire) == number {
            return number + 1;
        }
        number += 1;
    }
}

/// What one side did, and when.
struct Stint {
    begin: Instant,
    end: Instant,
    operations: u64,
}

/// Runs both sides at the same time until `length` has passed: the time from the
/// first begin to the last end, per operation of both.
fn together(
    placement: Placement,
    length: Duration,
    stop: &AtomicBool,
    left: impl FnOnce() -> u64 + Send,
    right: impl FnOnce() -> u64 + Send,
) -> f64 {
    let gate = Gate::default();
    let stints = thread::scope(|scope| {
        let left = scope.spawn(|| gate.stint(placement, 0, left));
        let right = scope.spawn(|| gate.stint(placement, 1, right));
        thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        [left, right].map(|side| side.join().expect("a side does not panic"))
    });
    let begin = stints.iter().map(|stint| stint.begin).min();
    let end = stints.iter().map(|stint| stint.end).max();
    let operations: u64 = stints.iter().map(|stint| stint.operations).sum();
    (end.unwrap() - begin.unwrap()).as_nanos() as f64 / operations as f64
}

/// Lets both sides begin together. It spins, as waking a parked thread would give
/// the other side a head start of thousands of turns.
#[derive(Default)]
struct Gate {
    arrived: AtomicUsize,
}

impl Gate {
    fn stint(&self, placement: Placement, member: usize, side: impl FnOnce() -> u64) -> Stint {
        placement.place_this_thread(member);
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while self.arrived.load(Ordering::Acquire) < 2 {
            // The other side may need this very core to arrive.
            thread::yield_now();
        }
        let begin = Instant::now();
        let operations = side();
        Stint { begin, end: Instant::now(), operations }
    }
}

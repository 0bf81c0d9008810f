//! How long an urgent task waits while a pool is busy with what is not.
//!
//! A backlog of tasks of 10 us at the last level; then, from a thread outside and
//! now and then, a task at the first level. Nobody is interrupted, so the length of
//! a task is what urgency cannot save.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::countdown::Countdown;
use super::executor::{Pool, Tokio};
use super::one_lock::OneLock;
use super::ours::Ours;
use crate::measure::percentile;
use crate::row::{Bar, Contestant, Row, Work};

const BACKLOG: u64 = 100_000;
const TASK: Duration = Duration::from_micros(10);
const URGENT: u32 = 0;
const UNHURRIED: u32 = 9;

/// Far enough apart that they do not wait for each other; the backlog outlasts them.
const PROBES: u64 = 400;
const BETWEEN_PROBES: Duration = Duration::from_micros(150);
/// Where each has to wait for the whole backlog, which takes half a second.
const FEW_PROBES: u64 = 20;

/// One task, and what waking and handing over may take on a busy machine.
const LIMIT_MICROSECONDS: f64 = 10.0 + 200.0;

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "latency-p99",
            "until a task of level 0 starts, 100 000 of level 9 and 10 us before it, 99th percentile",
            || contestants(99),
        )
        .unit("us")
        .bar(Bar::limit(LIMIT_MICROSECONDS))
        .at_most_rounds(3),
        Row::new("latency-p50", "the same, median", || contestants(50))
            .unit("us")
            .at_most_rounds(3),
    ]
}

fn contestants(percent: usize) -> Vec<Contestant> {
    vec![
        Contestant::ours(latency(Ours::stealing(), PROBES, percent)),
        Contestant::sibling("strict", latency(Ours::strict(), PROBES, percent)),
        Contestant::peer("one-lock", latency(OneLock::start(), PROBES, percent)),
        Contestant::peer("tokio", measured_once(latency(Tokio, FEW_PROBES, percent)))
            .caveat("tokio has no priorities: an urgent task waits for its turn like any other"),
    ]
}

/// Runs closures, those of smaller levels first.
pub(super) trait Prioritized: Copy + Send + Sync + 'static {
    fn execute_at(self, level: u32, task: impl FnOnce() + Send + 'static);
}

impl Prioritized for Tokio {
    fn execute_at(self, _level: u32, task: impl FnOnce() + Send + 'static) {
        self.execute(task);
    }
}

fn latency(pool: impl Prioritized, probes: u64, percent: usize) -> Work {
    let (backlog, started) = (Countdown::new(), Countdown::new());
    Work::timed(move |_length| {
        let hurry = Arc::new(AtomicBool::new(false));
        backlog.begin(BACKLOG);
        for _ in 0..BACKLOG {
            let hurry = Arc::clone(&hurry);
            pool.execute_at(UNHURRIED, move || {
                busy(&hurry);
                backlog.one_has_ended();
            });
        }

        started.begin(probes);
        let waits: Arc<[AtomicU64]> = (0..probes).map(|_| AtomicU64::new(0)).collect();
        for probe in 0..probes as usize {
            thread::sleep(BETWEEN_PROBES);
            let waits = Arc::clone(&waits);
            let begin = Instant::now();
            pool.execute_at(URGENT, move || {
                waits[probe].store(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
                started.one_has_ended();
            });
        }
        let all_started = started.wait();
        hurry.store(true, Ordering::Relaxed);
        if !all_started || !backlog.wait() {
            return f64::INFINITY;
        }

        let microseconds = |wait: &AtomicU64| wait.load(Ordering::Relaxed) as f64 / 1e3;
        let mut waits: Vec<f64> = waits.iter().map(microseconds).collect();
        waits.sort_by(f64::total_cmp);
        percentile(&waits, percent)
    })
}

/// For work so long that more samples would take the time of everybody else.
fn measured_once(work: Work) -> Work {
    let Work::Timed(mut sample) = work else { unreachable!("latency is timed") };
    let mut figure = None;
    Work::timed(move |length| *figure.get_or_insert_with(|| sample(length)))
}

/// Takes as long as a task takes, or no time once the probes are through.
fn busy(hurry: &AtomicBool) {
    let begin = Instant::now();
    while !hurry.load(Ordering::Relaxed) && begin.elapsed() < TASK {
        std::hint::spin_loop();
    }
}

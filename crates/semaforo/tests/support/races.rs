//! What tests share that let requests end in every way at random: how long, by which token, and how a
//! request is given up.

use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use semaforo::request::{Limited, Operation, Output};
use semaforo::{CancelSource, CancelToken, Request};

use super::{Random, Waiter};

/// How long the races of a test program may take: `SEMAFORO_STRESS_SECONDS`, if it is set.
pub(crate) fn stress_seconds(by_default: f64) -> Duration {
    let seconds = std::env::var("SEMAFORO_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(by_default))
}

/// Sources that are fired and replaced at random, so that every moment is hit.
pub(crate) struct Cancellers {
    sources: [Mutex<CancelSource>; 4],
    done: AtomicBool,
}

impl Cancellers {
    pub(crate) fn new() -> Self {
        let sources = [(); 4].map(|()| Mutex::new(CancelSource::new()));
        Self { sources, done: AtomicBool::new(false) }
    }

    pub(crate) fn token(&self, random: &mut Random) -> CancelToken {
        self.sources[random.below(4) as usize].lock().unwrap().token()
    }

    /// Fires sources until it is [stopped](Self::stop).
    pub(crate) fn start(&'static self) -> Waiter<()> {
        Waiter::on_a_thread(|| {
            let mut random = Random::new(99);
            while !self.done.load(Ordering::Relaxed) {
                let slot = &self.sources[random.below(4) as usize];
                let source = std::mem::replace(&mut *slot.lock().unwrap(), CancelSource::new());
                source.cancel();
                assert_eq!(source.token().registrations(), 0);
                std::thread::sleep(Duration::from_micros(random.below(300).into()));
            }
        })
    }

    /// All requests have ended, and the tokens know of none.
    pub(crate) fn stop(&self, canceller: Waiter<()>) {
        self.done.store(true, Ordering::Relaxed);
        canceller.join();
        let known = |source: &Mutex<CancelSource>| source.lock().unwrap().token().registrations();
        assert_eq!(self.sources.iter().map(known).sum::<usize>(), 0, "registrations left");
    }
}

/// Polls by hand: once, and perhaps once more after a while, which one time in so many is long enough
/// for a grant to be taken back. What is not ready then is dropped, pending or granted.
pub(crate) fn abandon<O: Operation>(
    request: Request<O, Limited>,
    patience: Duration,
    one_in: u32,
    random: &mut Random,
) -> Option<Output<O, Limited>> {
    let mut context = Context::from_waker(Waker::noop());
    let mut request = pin!(request);
    if let Poll::Ready(output) = request.as_mut().poll(&mut context) {
        return Some(output);
    }
    match random.below(one_in) {
        0 => std::thread::sleep(3 * patience),
        drawn if drawn <= one_in / 2 => std::thread::yield_now(),
        _ => {}
    }
    if random.one_in(2) {
        return None;
    }
    match request.poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

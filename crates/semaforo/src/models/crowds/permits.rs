//! Permits asked for in every way, cancelled, timed out, dropped, left unclaimed and released.

use std::sync::{Arc, Mutex};
use std::task::Poll;

use super::{crowd, draw, finish};
use crate::models::accounts::settled;
use crate::models::checker::explore_crowd;
use crate::models::race::HOUR;
use crate::models::task::Task;
use crate::request::Limited;
use crate::sync::semaphore::Acquire;
use crate::{AcquireError, CancelSource, OwnedPermit, Request, Semaphore, WaitError};

const PERMITS: u32 = 3;

type Bounded = Request<Acquire<Arc<Semaphore>>, Limited>;

struct Shared {
    semaphore: Arc<Semaphore>,
    /// The one that requests are made with, until it fires.
    source: Mutex<CancelSource>,
}

/// A request that its thread has queued, and has no time to poll.
#[derive(Default)]
struct Pocket(Option<Task<Bounded>>);

impl Shared {
    fn new(semaphore: Semaphore) -> Self {
        Self { semaphore: Arc::new(semaphore), source: Mutex::new(CancelSource::new()) }
    }

    /// Asks for 1, 2 or 3 permits, with a token, and perhaps a time limit.
    fn ask(&self) -> Bounded {
        let token = self.source.lock().unwrap().token();
        let request = self.semaphore.acquire_owned(draw(PERMITS) + 1).cancel_on(&token);
        if draw(2) == 0 { request.timeout(HOUR) } else { request }
    }

    fn cancel(&self) {
        let source = std::mem::take(&mut *self.source.lock().unwrap());
        source.cancel();
    }

    /// What was granted is there, and is given back, or replaced.
    fn use_up(&self, outcome: Result<OwnedPermit, WaitError<AcquireError>>) {
        match outcome {
            Ok(permit) => {
                assert!(self.semaphore.held() >= permit.permits());
                assert!(self.semaphore.held() <= PERMITS, "more is held than there is");
                if draw(3) == 0 {
                    let permits = permit.permits();
                    permit.forget();
                    self.semaphore.release(permits).unwrap();
                }
            }
            Err(WaitError::Refused(error)) => {
                assert_eq!(error, AcquireError::Closed);
                assert!(self.semaphore.is_closed());
            }
            Err(WaitError::Cancelled | WaitError::TimedOut) => {}
        }
    }

    fn operate(self: &Arc<Self>, pocket: &mut Pocket) {
        match draw(9) {
            0 | 1 => self.use_up(finish(self.ask())),
            2 => {
                let permit = self.semaphore.acquire_owned(1).wait();
                self.use_up(permit.map_err(WaitError::Refused));
            }
            3 => {
                let permit = Task::new(self.semaphore.acquire_owned(2)).run();
                self.use_up(permit.map_err(WaitError::Refused));
            }
            4 => drop(self.semaphore.try_acquire(draw(PERMITS) + 1)),
            5 => self.cancel(),
            // Polled once or twice, and dropped.
            6 => {
                let mut task = Task::new(self.ask());
                if let Poll::Ready(outcome) = task.poll() {
                    self.use_up(outcome);
                } else if draw(2) == 0 {
                    if let Poll::Ready(outcome) = task.poll() {
                        self.use_up(outcome);
                    }
                }
            }
            // Put into the pocket; what was there is run or dropped.
            7 => {
                let mut task = Task::new(self.ask());
                match task.poll() {
                    Poll::Ready(outcome) => self.use_up(outcome),
                    Poll::Pending => drop(pocket.0.replace(task)),
                }
            }
            _ => {
                if let Some(task) = pocket.0.take() {
                    self.use_up(task.run());
                }
            }
        }
    }
}

/// All of it at once, in strict order: no permit is lost or gained, and nobody waits for ever.
#[test]
fn permits_in_strict_order() {
    explore_crowd(|| {
        let shared = crowd(Shared::new(Semaphore::with_max(PERMITS, PERMITS)), Shared::operate);
        settled(&shared.semaphore, PERMITS, 0);
    });
}

/// The same in barging mode.
#[test]
fn permits_barging() {
    explore_crowd(|| {
        let semaphore = Semaphore::barging_with_max(PERMITS, PERMITS);
        let shared = crowd(Shared::new(semaphore), Shared::operate);
        settled(&shared.semaphore, PERMITS, 0);
    });
}

/// The same, and sooner or later somebody closes it: everybody is refused, and the permits are there.
#[test]
fn permits_until_closed() {
    explore_crowd(|| {
        let semaphore = Semaphore::with_max(PERMITS, PERMITS);
        let shared = crowd(Shared::new(semaphore), |shared: &Arc<Shared>, pocket| {
            if draw(10) == 0 {
                shared.semaphore.close();
            }
            shared.operate(pocket);
        });
        settled(&shared.semaphore, PERMITS, 0);
    });
}

//! Requests polled, moved between threads, dropped, timed out and cancelled at random; in the end
//! nothing is lost and nobody is left. `SEMAFORO_STRESS_SECONDS` makes it longer; meant for the
//! address sanitizer too.

mod support;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use semaforo::{CancelSource, RwLock, Semaphore};
use support::{Random, eventually, waker_that};

type Held = Box<dyn Send>;
type Pending = Pin<Box<dyn Future<Output = Option<Held>> + Send>>;

fn seconds() -> u64 {
    std::env::var("SEMAFORO_STRESS_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1)
}

/// `ask(kind, blocking, milliseconds, token)` makes a request, or waits for it.
fn stress(ask: impl Fn(&mut Random, &CancelSource, bool) -> Result<Pending, Option<Held>> + Sync) {
    let pool: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
    let source = Mutex::new(CancelSource::new());
    let end = Instant::now() + Duration::from_secs(seconds());
    thread::scope(|scope| {
        for seed in 0..4 {
            let (pool, source, ask) = (&pool, &source, &ask);
            scope.spawn(move || {
                let mut random = Random::new(seed * 7919 + 13);
                let waker = waker_that(|| {});
                let mut held: Vec<Held> = Vec::new();
                while Instant::now() < end {
                    let token = source.lock().unwrap().clone();
                    match random.below(16) {
                        0..=4 => {
                            let Ok(mut request) = ask(&mut random, &token, false) else { continue };
                            match request.as_mut().poll(&mut Context::from_waker(&waker)) {
                                Poll::Ready(grant) => held.extend(grant),
                                Poll::Pending => pool.lock().unwrap().push(request),
                            }
                        }
                        5..=9 => {
                            let taken = {
                                let mut pool = pool.lock().unwrap();
                                let len = pool.len() as u32;
                                (len > 0).then(|| pool.swap_remove(random.below(len) as usize))
                            };
                            let Some(mut request) = taken else { continue };
                            match request.as_mut().poll(&mut Context::from_waker(&waker)) {
                                Poll::Ready(grant) => held.extend(grant),
                                Poll::Pending if random.one_in(3) => drop(request),
                                Poll::Pending => pool.lock().unwrap().push(request),
                            }
                        }
                        10 => {
                            let dropped: Vec<_> = {
                                let mut pool = pool.lock().unwrap();
                                let from = pool.len() / 2;
                                pool.drain(from..).collect()
                            };
                            drop(dropped);
                        }
                        11..=12 => {
                            held.clear();
                            let _ =
                                ask(&mut random, &token, true).map_err(|grant| held.extend(grant));
                        }
                        13 if random.one_in(8) => {
                            let old = std::mem::take(&mut *source.lock().unwrap());
                            old.cancel();
                        }
                        14 if random.one_in(20) => thread::sleep(Duration::from_millis(3)),
                        _ => held.clear(),
                    }
                }
            });
        }
    });
    drop(pool);
}

#[test]
fn semaphores() {
    for barging in [false, true] {
        let semaphore = Arc::new(if barging { Semaphore::barging(3) } else { Semaphore::new(3) });
        semaphore.set_patience(Duration::from_millis(2));
        stress(|random, source, blocking| {
            let request = semaphore.acquire_owned(1 + random.below(3));
            let limit = Duration::from_micros(u64::from(random.below(5000)));
            let request = match random.below(3) {
                _ if blocking => request.timeout(limit).cancel_on(&source.token()),
                0 => request.timeout(limit),
                1 => request.cancel_on(&source.token()),
                _ => request.timeout(limit).cancel_on(&source.token()),
            };
            if blocking {
                return Err(request.wait().ok().map(|permit| Box::new(permit) as Held));
            }
            Ok(Box::pin(async move { request.await.ok().map(|permit| Box::new(permit) as Held) }))
        });
        eventually("all permits are back", || semaphore.available() == 3 && semaphore.held() == 0);
        assert_eq!(semaphore.waiters(), 0);
        drop(semaphore.try_acquire(3).unwrap());
    }
}

#[test]
fn read_write_locks() {
    for barging in [false, true] {
        let lock = Arc::new(if barging { RwLock::barging(0_u64) } else { RwLock::new(0_u64) });
        lock.set_patience(Duration::from_millis(2));
        stress(|random, source, blocking| {
            let limit = Duration::from_micros(u64::from(random.below(5000)));
            if random.one_in(2) {
                let request = lock.read_owned().timeout(limit).cancel_on(&source.token());
                if blocking {
                    return Err(request.wait().ok().map(|guard| Box::new(guard) as Held));
                }
                Ok(Box::pin(async move { request.await.ok().map(|guard| Box::new(guard) as Held) }))
            } else {
                let request = lock.write_owned().timeout(limit).cancel_on(&source.token());
                let down = random.one_in(3);
                let work = move |mut guard: semaforo::sync::rwlock::OwnedRwLockWriteGuard<u64>| {
                    *guard += 1;
                    if down { Box::new(guard.downgrade()) as Held } else { Box::new(guard) as Held }
                };
                if blocking {
                    return Err(request.wait().ok().map(work));
                }
                Ok(Box::pin(async move { request.await.ok().map(work) }))
            }
        });
        eventually("nobody is in", || lock.readers() == 0 && !lock.has_writer());
        assert_eq!(lock.waiters(), 0);
        drop(lock.try_write().unwrap());
    }
}

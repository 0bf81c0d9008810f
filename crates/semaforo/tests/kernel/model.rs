//! Promise 6 step by step: random sequences of operations, compared after each step with a model
//! that is simple enough to be believed. Everything runs on one thread, so every run with the same
//! seed is the same.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::support::{LONG, Random};
use semaforo::request::{Limited, Operation};
use semaforo::{
    CancelSource, Permit, Request, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, WaitError,
};

const SEEDS: u64 = 150;
const STEPS: u32 = 300;

/// A request that may have to wait, and the source that can cancel it.
struct Pending<O: Operation> {
    request: Pin<Box<Request<O, Limited>>>,
    source: CancelSource,
}

impl<O: Operation> Pending<O> {
    fn new(bound: impl FnOnce(&CancelSource) -> Request<O, Limited>) -> Self {
        let source = CancelSource::new();
        Self { request: Box::pin(bound(&source)), source }
    }

    fn poll(&mut self) -> Poll<<Request<O, Limited> as Future>::Output> {
        self.request.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }
}

fn any_key<V>(map: &BTreeMap<u32, V>, random: &mut Random) -> Option<u32> {
    let len = u32::try_from(map.len()).unwrap();
    (len > 0).then(|| *map.keys().nth(random.below(len) as usize).unwrap())
}

/// What a fair semaphore is: a number, and a line of requests of which only the first is looked at.
#[derive(Default)]
struct SemaphoreModel {
    available: u32,
    line: VecDeque<(u32, u32)>,
    granted: BTreeMap<u32, u32>,
    held: u32,
}

impl SemaphoreModel {
    fn settle(&mut self) {
        while let Some((name, permits)) = self.line.front().copied() {
            if permits > self.available {
                return;
            }
            self.line.pop_front();
            self.take(permits);
            self.granted.insert(name, permits);
        }
    }

    fn take(&mut self, permits: u32) {
        self.available -= permits;
        self.held += permits;
    }

    fn give(&mut self, permits: u32) {
        self.available += permits;
        self.held -= permits;
        self.settle();
    }

    fn could_take(&self, permits: u32) -> bool {
        permits == 0 || (self.line.is_empty() && self.available >= permits)
    }

    /// The request leaves, waiting or granted.
    fn withdraw(&mut self, name: u32) {
        self.line.retain(|(waiting, _)| *waiting != name);
        match self.granted.remove(&name) {
            Some(permits) => self.give(permits),
            None => self.settle(),
        }
    }
}

fn walk_semaphore(seed: u64) {
    let mut random = Random::new(seed);
    let semaphore = Semaphore::new(3);
    // Nothing is taken back while the test takes its time.
    semaphore.set_patience(LONG);
    let mut model = SemaphoreModel { available: 3, ..Default::default() };
    let mut pending = BTreeMap::new();
    let mut permits: BTreeMap<u32, Permit<'_>> = BTreeMap::new();
    for name in 0..STEPS {
        match random.below(12) {
            0..=3 => {
                let asked = random.below(5);
                let mut request = Pending::new(|source| {
                    semaphore.acquire(asked).timeout(LONG).cancel_on(&source.token())
                });
                match request.poll() {
                    Poll::Ready(permit) => {
                        assert!(model.could_take(asked));
                        model.take(asked);
                        permits.insert(name, permit.unwrap());
                    }
                    Poll::Pending => {
                        assert!(!model.could_take(asked));
                        model.line.push_back((name, asked));
                        pending.insert(name, request);
                    }
                }
            }
            4 => {
                let asked = random.below(3);
                let permit = semaphore.try_acquire(asked);
                assert_eq!(permit.is_ok(), model.could_take(asked));
                if let Ok(permit) = permit {
                    model.take(asked);
                    permits.insert(name, permit);
                }
            }
            5 | 6 => {
                let Some(chosen) = any_key(&pending, &mut random) else { continue };
                let polled = pending.get_mut(&chosen).unwrap().poll();
                let expected = model.granted.remove(&chosen);
                assert_eq!(polled.is_ready(), expected.is_some());
                if let Poll::Ready(permit) = polled {
                    permits.insert(chosen, permit.unwrap());
                    pending.remove(&chosen);
                }
            }
            7 => {
                let Some(chosen) = any_key(&pending, &mut random) else { continue };
                pending.remove(&chosen);
                model.withdraw(chosen);
            }
            8 => {
                let Some(chosen) = any_key(&pending, &mut random) else { continue };
                let mut request = pending.remove(&chosen).unwrap();
                request.source.cancel();
                let Poll::Ready(outcome) = request.poll() else { panic!("it was cancelled") };
                match outcome {
                    Ok(permit) => {
                        assert!(model.granted.remove(&chosen).is_some(), "a grant wins");
                        permits.insert(chosen, permit);
                    }
                    Err(error) => {
                        assert_eq!(error, WaitError::Cancelled);
                        assert!(!model.granted.contains_key(&chosen));
                        model.withdraw(chosen);
                    }
                }
            }
            9 | 10 => {
                let Some(chosen) = any_key(&permits, &mut random) else { continue };
                let permit = permits.remove(&chosen).unwrap();
                let count = permit.permits();
                if random.one_in(8) {
                    permit.forget();
                    model.held -= count;
                } else {
                    drop(permit);
                    model.give(count);
                }
            }
            _ if random.one_in(2) => {
                let reduced = semaphore.reduce(1);
                assert_eq!(reduced, model.available.min(1));
                model.available -= reduced;
            }
            _ => {
                semaphore.release(1).unwrap();
                model.available += 1;
                model.settle();
            }
        }
        let now = (semaphore.available(), semaphore.held(), semaphore.waiters());
        assert_eq!(now, (model.available, model.held, model.line.len()), "seed {seed} step {name}");
    }
    let total = model.available + model.held;
    drop((pending, permits));
    assert_eq!((semaphore.available(), semaphore.held(), semaphore.waiters()), (total, 0, 0));
}

#[test]
fn a_semaphore_does_what_its_model_does() {
    (1..=SEEDS).for_each(walk_semaphore);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Read,
    Write,
}

enum Hold<'a> {
    Read(RwLockReadGuard<'a, ()>),
    Write(RwLockWriteGuard<'a, ()>),
}

/// What Hoare's rule is: who is in, and two lines.
#[derive(Default)]
struct LockModel {
    readers: u32,
    writer: bool,
    reading_line: VecDeque<u32>,
    writing_line: VecDeque<u32>,
    granted: BTreeMap<u32, Mode>,
}

impl LockModel {
    fn could_enter(&self, mode: Mode) -> bool {
        let nobody_waits = self.reading_line.is_empty() && self.writing_line.is_empty();
        nobody_waits && !self.writer && (mode == Mode::Read || self.readers == 0)
    }

    fn enter(&mut self, mode: Mode) {
        match mode {
            Mode::Read => self.readers += 1,
            Mode::Write => self.writer = true,
        }
    }

    /// After a write the readers that wait go in; otherwise a waiting writer stops them.
    fn settle(&mut self, write_ended: bool) {
        if !self.writer && (write_ended || self.writing_line.is_empty()) {
            while let Some(name) = self.reading_line.pop_front() {
                self.enter(Mode::Read);
                self.granted.insert(name, Mode::Read);
            }
        }
        if !self.writer && self.readers == 0 {
            if let Some(name) = self.writing_line.pop_front() {
                self.enter(Mode::Write);
                self.granted.insert(name, Mode::Write);
            }
        }
    }

    fn leave(&mut self, mode: Mode) {
        match mode {
            Mode::Read => self.readers -= 1,
            Mode::Write => self.writer = false,
        }
        self.settle(mode == Mode::Write);
    }

    fn withdraw(&mut self, name: u32) {
        self.reading_line.retain(|waiting| *waiting != name);
        self.writing_line.retain(|waiting| *waiting != name);
        match self.granted.remove(&name) {
            Some(mode) => self.leave(mode),
            None => self.settle(false),
        }
    }
}

fn walk_lock(seed: u64) {
    let mut random = Random::new(seed);
    let lock = RwLock::new(());
    lock.set_patience(LONG);
    let mut model = LockModel::default();
    let mut readers = BTreeMap::new();
    let mut writers = BTreeMap::new();
    let mut holds: BTreeMap<u32, Hold<'_>> = BTreeMap::new();
    for name in 0..STEPS {
        match random.below(11) {
            0..=2 => {
                let mut request = Pending::new(|source| lock.read().cancel_on(&source.token()));
                match request.poll() {
                    Poll::Ready(guard) => {
                        assert!(model.could_enter(Mode::Read));
                        model.enter(Mode::Read);
                        holds.insert(name, Hold::Read(guard.unwrap()));
                    }
                    Poll::Pending => {
                        assert!(!model.could_enter(Mode::Read));
                        model.reading_line.push_back(name);
                        readers.insert(name, request);
                    }
                }
            }
            3 | 4 => {
                let mut request = Pending::new(|source| lock.write().cancel_on(&source.token()));
                match request.poll() {
                    Poll::Ready(guard) => {
                        assert!(model.could_enter(Mode::Write));
                        model.enter(Mode::Write);
                        holds.insert(name, Hold::Write(guard.unwrap()));
                    }
                    Poll::Pending => {
                        assert!(!model.could_enter(Mode::Write));
                        model.writing_line.push_back(name);
                        writers.insert(name, request);
                    }
                }
            }
            5 => {
                // Whoever was granted comes for it.
                if let Some(chosen) = any_key(&readers, &mut random) {
                    let polled = readers.get_mut(&chosen).unwrap().poll();
                    assert_eq!(polled.is_ready(), model.granted.remove(&chosen).is_some());
                    if let Poll::Ready(guard) = polled {
                        holds.insert(chosen, Hold::Read(guard.unwrap()));
                        readers.remove(&chosen);
                    }
                }
                if let Some(chosen) = any_key(&writers, &mut random) {
                    let polled = writers.get_mut(&chosen).unwrap().poll();
                    assert_eq!(polled.is_ready(), model.granted.remove(&chosen).is_some());
                    if let Poll::Ready(guard) = polled {
                        holds.insert(chosen, Hold::Write(guard.unwrap()));
                        writers.remove(&chosen);
                    }
                }
            }
            6 => {
                if let Some(chosen) = any_key(&writers, &mut random) {
                    let request = writers.remove(&chosen).unwrap();
                    // A token withdraws only what was not granted.
                    if random.one_in(2) {
                        request.source.cancel();
                    }
                    drop(request);
                    model.withdraw(chosen);
                }
            }
            7 => {
                if let Some(chosen) = any_key(&readers, &mut random) {
                    readers.remove(&chosen);
                    model.withdraw(chosen);
                }
            }
            8 if random.one_in(2) => {
                let Some(chosen) = any_key(&holds, &mut random) else { continue };
                let changed = match holds.remove(&chosen).unwrap() {
                    Hold::Write(guard) => {
                        (model.writer, model.readers) = (false, model.readers + 1);
                        model.settle(true);
                        Hold::Read(guard.downgrade())
                    }
                    Hold::Read(guard) => match guard.try_upgrade() {
                        Ok(guard) => {
                            assert_eq!(model.readers, 1);
                            (model.writer, model.readers) = (true, 0);
                            Hold::Write(guard)
                        }
                        Err(guard) => {
                            assert!(model.readers > 1);
                            Hold::Read(guard)
                        }
                    },
                };
                holds.insert(chosen, changed);
            }
            _ => {
                let Some(chosen) = any_key(&holds, &mut random) else { continue };
                let mode = match holds.remove(&chosen).unwrap() {
                    Hold::Read(_) => Mode::Read,
                    Hold::Write(_) => Mode::Write,
                };
                model.leave(mode);
            }
        }
        let now =
            (lock.readers(), lock.has_writer(), lock.waiting_readers(), lock.waiting_writers());
        let (reading, writing) = (model.reading_line.len(), model.writing_line.len());
        let expected = (model.readers, model.writer, reading, writing);
        assert_eq!(now, expected, "seed {seed} step {name}");
    }
    drop((readers, writers, holds));
    assert_eq!((lock.readers(), lock.has_writer(), lock.waiters()), (0, false, 0));
}

#[test]
fn a_read_write_lock_does_what_its_model_does() {
    (1..=SEEDS).for_each(walk_lock);
}

//! Requests that are answered together share one request item: a batch. Two synchronizers by hand
//! that live of it, in a monitor, with execution delegation and specific notification:
//!
//! - *readers and writers* in Hoare's order: when a write ends, exactly the readers that wait then
//!   go in, as one batch, and who comes later waits for the next writer;
//! - *a cyclic barrier*, whose parties all get the same answer: passed, or broken, because one of
//!   them gave up or the action failed.
//!
//! (The library's `RwLock` and `Barrier` are ready to use, for threads and tasks.)
//!
//! `cargo run --release -p semaforo --example batch_requests`

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use semaforo::{Condition, Monitor, MutexGuard};

/// The answer that a whole batch waits for.
type Answer<T> = Arc<OnceLock<T>>;

/// Requests of which all are answered at once, with the same answer.
struct BatchQueue<T> {
    answer: Answer<T>,
    count: usize,
}

impl<T> BatchQueue<T> {
    fn new() -> Self {
        Self { answer: Arc::default(), count: 0 }
    }

    /// Joins the current batch.
    fn add(&mut self) -> Answer<T> {
        self.count += 1;
        Arc::clone(&self.answer)
    }

    /// Leaves the current batch; false if that has been answered.
    fn remove(&mut self, request: &Answer<T>) -> bool {
        let current = Arc::ptr_eq(&self.answer, request);
        self.count -= usize::from(current);
        current
    }

    /// Answers the current batch, and begins the next one. Returns how many that were.
    fn complete(&mut self, answer: T) -> usize {
        let batch = std::mem::replace(self, Self::new());
        assert!(batch.answer.set(answer).is_ok(), "a batch is answered once");
        batch.count
    }
}

/// What the monitor of the readers and writers protects.
struct Room {
    readers: usize,
    writing: bool,
    waiting_readers: BatchQueue<()>,
    waiting_writers: VecDeque<Arc<Writer>>,
    /// Who came in, in this order; a writer's name is in capitals.
    visitors: Vec<char>,
}

/// The request item of a writer: each is answered, and woken, by itself.
#[derive(Default)]
struct Writer {
    granted: OnceLock<()>,
    condition: Condition,
}

struct ReadersAndWriters {
    room: Monitor<Room>,
    /// All readers of a batch go on together, so that one condition is specific enough.
    readers_go_in: Condition,
}

type Inside<'a> = MutexGuard<'a, Room>;

impl ReadersAndWriters {
    fn new() -> Self {
        let waiting_readers = BatchQueue::new();
        let waiting_writers = VecDeque::new();
        let (readers, writing, visitors) = (0, false, Vec::new());
        let room = Room { readers, writing, waiting_readers, waiting_writers, visitors };
        Self { room: Monitor::new(room), readers_go_in: Condition::new() }
    }

    /// False if the time was up.
    fn start_read(&self, name: char, deadline: Instant) -> bool {
        let mut room = self.room.enter().wait();
        if room.writing || !room.waiting_writers.is_empty() {
            let request = room.waiting_readers.add();
            while request.get().is_none() {
                match self.readers_go_in.wait(room).deadline(deadline).wait() {
                    Ok(woken) => room = woken,
                    Err(interrupted) => {
                        room = interrupted.into_guard();
                        if room.waiting_readers.remove(&request) {
                            return false;
                        }
                    }
                }
            }
        } else {
            room.readers += 1;
        }
        room.visitors.push(name);
        true
    }

    /// False if the time was up.
    fn start_write(&self, name: char, deadline: Instant) -> bool {
        let mut room = self.room.enter().wait();
        if room.writing || room.readers > 0 || !room.waiting_writers.is_empty() {
            let request = Arc::new(Writer::default());
            room.waiting_writers.push_back(Arc::clone(&request));
            while request.granted.get().is_none() {
                match request.condition.wait(room).deadline(deadline).wait() {
                    Ok(woken) => room = woken,
                    Err(interrupted) => {
                        room = interrupted.into_guard();
                        if request.granted.get().is_none() {
                            room.waiting_writers.retain(|writer| !Arc::ptr_eq(writer, &request));
                            // The readers that waited only for this writer wait no longer.
                            if !room.writing && room.waiting_writers.is_empty() {
                                self.let_readers_in(&mut room);
                            }
                            return false;
                        }
                    }
                }
            }
        } else {
            room.writing = true;
        }
        room.visitors.push(name);
        true
    }

    fn end_read(&self) {
        let mut room = self.room.enter().wait();
        room.readers -= 1;
        if room.readers == 0 {
            Self::let_a_writer_in(&mut room);
        }
    }

    fn end_write(&self) {
        let mut room = self.room.enter().wait();
        room.writing = false;
        if !self.let_readers_in(&mut room) {
            Self::let_a_writer_in(&mut room);
        }
    }

    /// The batch reads from now on, before any of its threads has run: no writer comes in between.
    fn let_readers_in(&self, room: &mut Inside<'_>) -> bool {
        let batch = room.waiting_readers.complete(());
        room.readers += batch;
        self.readers_go_in.broadcast(room);
        batch > 0
    }

    fn let_a_writer_in(room: &mut Inside<'_>) {
        if let Some(writer) = room.waiting_writers.pop_front() {
            room.writing = true;
            writer.granted.set(()).expect("a request is granted once");
            writer.condition.signal(room);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Passed,
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BarrierError {
    /// Another party has broken it.
    Broken,
    /// This one did: its time was up.
    TimedOut,
}

/// A barrier that can be used again and again.
struct CyclicBarrier<F> {
    parties: usize,
    gathering: Monitor<Gathering<F>>,
}

struct Gathering<F> {
    action: F,
    arrived: BatchQueue<Answered>,
    broken: bool,
}

impl<F: FnMut() -> bool> CyclicBarrier<F> {
    /// The last one to arrive executes the action before anybody goes on; if that says false, the
    /// barrier breaks.
    fn new(parties: usize, action: F) -> Self {
        let gathering = Gathering { action, arrived: BatchQueue::new(), broken: false };
        Self { parties, gathering: Monitor::new(gathering) }
    }

    /// Waits for all parties. Returns how many had come before.
    fn arrive(&self, deadline: Instant) -> Result<usize, BarrierError> {
        let mut inside = self.gathering.enter().wait();
        if inside.broken {
            return Err(BarrierError::Broken);
        }
        let index = inside.arrived.count;
        if index + 1 == self.parties {
            let passed = (inside.action)();
            let answer = if passed { Answered::Passed } else { Answered::Broken };
            self.end(&mut inside, answer);
            return if passed { Ok(index) } else { Err(BarrierError::Broken) };
        }
        let request = inside.arrived.add();
        loop {
            match request.get() {
                Some(Answered::Passed) => return Ok(index),
                Some(Answered::Broken) => return Err(BarrierError::Broken),
                None => {}
            }
            match self.gathering.wait(inside).deadline(deadline).wait() {
                Ok(woken) => inside = woken,
                Err(interrupted) => {
                    inside = interrupted.into_guard();
                    // Who is answered in the same moment has not given up.
                    if inside.arrived.remove(&request) {
                        self.end(&mut inside, Answered::Broken);
                        return Err(BarrierError::TimedOut);
                    }
                }
            }
        }
    }

    /// One answer for all who wait; who comes next belongs to the next batch.
    fn end(&self, inside: &mut MutexGuard<'_, Gathering<F>>, answer: Answered) {
        inside.arrived.complete(answer);
        inside.broken = answer == Answered::Broken;
        self.gathering.notify_all(inside);
    }

    fn is_broken(&self) -> bool {
        self.gathering.enter().wait().broken
    }

    /// Breaks it for the parties that wait now, and makes it whole for those that come.
    fn reset(&self) {
        let mut inside = self.gathering.enter().wait();
        self.end(&mut inside, Answered::Broken);
        inside.broken = false;
    }

    fn waiting(&self) -> usize {
        self.gathering.enter().wait().arrived.count
    }
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn until(seen: impl Fn() -> bool) {
    while !seen() {
        thread::yield_now();
    }
}

/// The order in which these go in who come one after another while a writer is inside.
fn order_of_entry(names: &str) -> String {
    let rules = &ReadersAndWriters::new();
    assert!(rules.start_write('W', far()));
    let waiting = || {
        let room = rules.room.enter().wait();
        room.waiting_readers.count + room.waiting_writers.len()
    };
    thread::scope(|scope| {
        for (before, name) in names.chars().enumerate() {
            scope.spawn(move || {
                if name.is_uppercase() {
                    assert!(rules.start_write(name, far()));
                    rules.end_write();
                } else {
                    assert!(rules.start_read(name, far()));
                    rules.end_read();
                }
            });
            until(|| waiting() == before + 1);
        }
        rules.end_write();
    });
    rules.room.enter().wait().visitors.iter().collect()
}

/// Three threads meet again and again; the last one counts the rounds. The rounds that were
/// counted, and whether everyone saw each of them.
fn rounds(threads: usize, rounds: usize) -> (usize, bool) {
    let counted = AtomicUsize::new(0);
    let barrier = CyclicBarrier::new(threads, || {
        counted.fetch_add(1, Ordering::Relaxed);
        true
    });
    let seen = thread::scope(|scope| {
        let parties: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    (1..=rounds).all(|round| {
                        barrier.arrive(far()).is_ok() && counted.load(Ordering::Relaxed) >= round
                    })
                })
            })
            .collect();
        parties.into_iter().all(|party| party.join().expect("no panic"))
    });
    (counted.load(Ordering::Relaxed), seen)
}

fn main() {
    println!("Small letters read, capitals write. While W writes, the others come.");
    println!("coming:   WaXbYc");
    println!("going in: {}", order_of_entry("aXbYc"));

    let (counted, seen) = rounds(3, 100);
    println!("3 threads met {counted} times; all saw what the action had done: {seen}");
    let barrier = CyclicBarrier::new(3, || true);
    thread::scope(|scope| {
        let patient = scope.spawn(|| barrier.arrive(far()));
        until(|| barrier.waiting() == 1);
        let hasty = barrier.arrive(Instant::now() + Duration::from_millis(20));
        let patient = patient.join().expect("no panic");
        println!("one who left after 20 ms: {hasty:?}; who waited with it: {patient:?}");
    });
    println!("broken: {}", barrier.is_broken());
    barrier.reset();
    println!("after a reset: {}", barrier.is_broken());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readers_that_wait_when_a_write_ends_go_in_as_one_batch() {
        let order = order_of_entry("aXbYc");
        // The readers of a batch have no order among themselves.
        let mut batch: Vec<_> = order[1..4].chars().collect();
        batch.sort_unstable();
        assert_eq!(batch, ['a', 'b', 'c'], "{order}");
        assert_eq!(&order[4..], "XY");
    }

    #[test]
    fn a_writer_that_gives_up_lets_the_readers_in_that_waited_for_it() {
        let rules = &ReadersAndWriters::new();
        assert!(rules.start_read('r', far()));
        thread::scope(|scope| {
            let deadline = Instant::now() + Duration::from_millis(50);
            let writer = scope.spawn(move || rules.start_write('W', deadline));
            until(|| !rules.room.enter().wait().waiting_writers.is_empty() || writer.is_finished());
            let reader = scope.spawn(|| rules.start_read('a', far()));
            assert!(!writer.join().unwrap());
            assert!(reader.join().unwrap());
        });
        assert_eq!(rules.room.enter().wait().readers, 2);
    }

    #[test]
    fn a_reader_that_gives_up_leaves_its_batch() {
        let rules = ReadersAndWriters::new();
        assert!(rules.start_write('W', far()));
        assert!(!rules.start_read('a', Instant::now()));
        assert_eq!(rules.room.enter().wait().waiting_readers.count, 0);
        rules.end_write();
        assert_eq!(rules.room.enter().wait().readers, 0);
    }

    #[test]
    fn a_barrier_is_used_again_and_again() {
        assert_eq!(rounds(3, 50), (50, true));
    }

    #[test]
    fn who_gives_up_breaks_the_barrier_for_all() {
        let barrier = &CyclicBarrier::new(3, || true);
        thread::scope(|scope| {
            let patient = scope.spawn(|| barrier.arrive(far()));
            until(|| barrier.waiting() == 1);
            assert_eq!(barrier.arrive(Instant::now()), Err(BarrierError::TimedOut));
            assert_eq!(patient.join().unwrap(), Err(BarrierError::Broken));
        });
        assert_eq!(barrier.arrive(far()), Err(BarrierError::Broken));
        barrier.reset();
        assert!(!barrier.is_broken());
    }

    #[test]
    fn an_action_that_fails_breaks_the_barrier() {
        let barrier = CyclicBarrier::new(1, || false);
        assert_eq!(barrier.arrive(far()), Err(BarrierError::Broken));
        assert!(barrier.is_broken());
    }
}

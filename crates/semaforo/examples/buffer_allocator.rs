//! Hoare's buffer allocator: streams of data share a pool of buffers, and the stream that has the
//! fewest gets the next one, so that one whose consumer is slow cannot starve the others.
//!
//! After C. A. R. Hoare, "Monitors: an operating system structuring concept", 1974.
//!
//! `cargo run --release -p semaforo --example buffer_allocator`

use std::thread;

use semaforo::{BlockingQueue, Condition, Monitor};

/// The number of a buffer.
type Buffer = usize;

struct Allocator {
    pool: Monitor<Pool>,
    nonempty: Condition,
}

struct Pool {
    free: Vec<Buffer>,
    /// How many buffers each stream has.
    count: Vec<u64>,
}

impl Allocator {
    fn new(buffers: usize, streams: usize) -> Self {
        let pool = Pool { free: (0..buffers).collect(), count: vec![0; streams] };
        Self { pool: Monitor::new(pool), nonempty: Condition::new() }
    }

    /// A buffer for this stream, when it is its turn.
    fn acquire(&self, stream: usize) -> Buffer {
        let mut pool = self.pool.enter().wait();
        if pool.free.is_empty() {
            let count = pool.count[stream];
            pool = self.nonempty.wait_by(pool, count).wait();
        }
        pool.count[stream] += 1;
        pool.free.pop().expect("nobody comes between the signal and the signalled")
    }

    fn release(&self, stream: usize, buffer: Buffer) {
        let mut pool = self.pool.enter().wait();
        pool.count[stream] -= 1;
        pool.free.push(buffer);
        self.nonempty.signal_and_leave(pool);
    }
}

/// The streams that ask for one more buffer each, in the order in which they get it. Before that, each
/// stream takes as many as `held` says, until the pool is empty; then stream 0 gives back one by one.
fn contend(held: &[usize], asking: &[usize]) -> Vec<usize> {
    let allocator = Allocator::new(held.iter().sum(), held.len());
    let mut of_first = Vec::new();
    for (stream, &held) in held.iter().enumerate() {
        let buffers: Vec<_> = (0..held).map(|_| allocator.acquire(stream)).collect();
        if stream == 0 {
            of_first = buffers;
        }
    }

    let served = BlockingQueue::unbounded();
    thread::scope(|scope| {
        for (before, &stream) in asking.iter().enumerate() {
            let (allocator, served) = (&allocator, &served);
            scope.spawn(move || {
                allocator.acquire(stream);
                served.put(stream).wait().expect("the queue stays open");
            });
            while allocator.nonempty.waiters() <= before {
                thread::yield_now();
            }
        }
        let give_back = of_first.into_iter().take(asking.len());
        give_back
            .map(|buffer| {
                allocator.release(0, buffer);
                served.take().wait().expect("the queue stays open")
            })
            .collect()
    })
}

const NAMES: [&str; 3] = ["film", "music", "mail"];

fn main() {
    let (held, asking) = ([6, 2, 0], [0, 0, 1, 2]);
    for (name, held) in NAMES.iter().zip(held) {
        println!("{name:<5} has {held} of the 8 buffers");
    }
    println!("They ask in this order: {}.", asking.map(|stream| NAMES[stream]).join(", "));
    for stream in contend(&held, &asking) {
        println!("film gives one back: it goes to {}", NAMES[stream]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_with_the_fewest_comes_first() {
        assert_eq!(contend(&[6, 2, 0], &[0, 0, 1, 2]), [2, 1, 0, 0]);
    }

    #[test]
    fn equals_are_served_in_the_order_of_coming() {
        assert_eq!(contend(&[3, 3, 3], &[2, 0, 1]), [2, 0, 1]);
    }

    #[test]
    fn who_waited_comes_before_who_stands_at_the_door() {
        let allocator = &Allocator::new(1, 3);
        let buffer = allocator.acquire(0);
        thread::scope(|scope| {
            let waited = scope.spawn(|| allocator.acquire(1));
            until(|| allocator.nonempty.waiters() == 1);
            let inside = allocator.pool.enter().wait();
            scope.spawn(|| allocator.release(0, buffer));
            until(|| allocator.pool.waiters() == 1);
            let at_the_door = scope.spawn(|| allocator.acquire(2));
            until(|| allocator.pool.waiters() == 2);
            drop(inside);
            assert_eq!(waited.join().unwrap(), buffer);
            assert_eq!(allocator.pool.enter().wait().count, [0, 1, 0]);
            allocator.release(1, buffer);
            assert_eq!(at_the_door.join().unwrap(), buffer);
        });
        assert_eq!(allocator.pool.enter().wait().count, [0, 0, 1]);
    }

    fn until(seen: impl Fn() -> bool) {
        while !seen() {
            thread::yield_now();
        }
    }
}

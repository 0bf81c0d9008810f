//! Hoare's readers and writers: a waiting writer stops new readers, and when it has written, all the
//! readers that waited go in before the next writer, so that neither side starves the other.
//!
//! After C. A. R. Hoare, "Monitors: an operating system structuring concept", 1974. The library's
//! `RwLock` has the same rules, ready to use, and is shown beside it.
//!
//! `cargo run --release -p semaforo --example readers_writers`

use std::sync::Mutex;
use std::thread;

use semaforo::{Condition, Monitor, RwLock};

#[derive(Default)]
struct Room {
    readers: u32,
    writing: bool,
    /// Who came in, in this order; a writer's name is in capitals.
    visitors: Vec<char>,
}

#[derive(Default)]
struct ReadersAndWriters {
    room: Monitor<Room>,
    ok_to_read: Condition,
    ok_to_write: Condition,
}

impl ReadersAndWriters {
    fn start_read(&self, name: char) {
        let mut room = self.room.enter().wait();
        if room.writing || self.ok_to_write.is_awaited() {
            room = self.ok_to_read.wait(room).wait();
        }
        room.readers += 1;
        room.visitors.push(name);
        // Where one reader may go in, all may: each one calls the next.
        self.ok_to_read.signal_and_leave(room);
    }

    fn end_read(&self) {
        let mut room = self.room.enter().wait();
        room.readers -= 1;
        if room.readers == 0 {
            self.ok_to_write.signal_and_leave(room);
        }
    }

    fn start_write(&self, name: char) {
        let mut room = self.room.enter().wait();
        if room.writing || room.readers > 0 {
            room = self.ok_to_write.wait(room).wait();
        }
        room.writing = true;
        room.visitors.push(name);
    }

    fn end_write(&self) {
        let mut room = self.room.enter().wait();
        room.writing = false;
        let next = if self.ok_to_read.is_awaited() { &self.ok_to_read } else { &self.ok_to_write };
        next.signal_and_leave(room);
    }

    fn visit(&self, name: char, inside: impl FnOnce()) {
        if name.is_uppercase() {
            self.start_write(name);
            inside();
            self.end_write();
        } else {
            self.start_read(name);
            inside();
            self.end_read();
        }
    }

    fn waiters(&self) -> usize {
        self.ok_to_read.waiters() + self.ok_to_write.waiters()
    }
}

/// The order in which these go in who come one after another while the first of them is inside.
fn order_of_entry(names: &str) -> String {
    let rules = ReadersAndWriters::default();
    let mut names = names.chars();
    let Some(first) = names.next() else { return String::new() };
    thread::scope(|scope| {
        rules.visit(first, || {
            for (queued, name) in names.enumerate() {
                let rules = &rules;
                scope.spawn(move || rules.visit(name, || ()));
                while rules.waiters() <= queued {
                    thread::yield_now();
                }
            }
        });
    });
    let room = rules.room.enter().wait();
    room.visitors.iter().collect()
}

/// The same by the library's own lock. Readers that are let in together may tell so in any order: here it is
/// that of the alphabet.
fn order_by_lock(names: &str) -> String {
    let (lock, visitors) = (&RwLock::new(()), &Mutex::new(Vec::new()));
    let tell = |name| visitors.lock().unwrap().push(name);
    let visit = |name: char, inside: &dyn Fn()| {
        if name.is_uppercase() {
            let _writes = lock.write().wait();
            tell(name);
            inside();
        } else {
            let _reads = lock.read().wait();
            tell(name);
            inside();
        }
    };
    let mut names = names.chars();
    let Some(first) = names.next() else { return String::new() };
    let others: Vec<_> = names.collect();
    thread::scope(|scope| {
        visit(first, &|| {
            for (queued, name) in others.iter().enumerate() {
                scope.spawn(|| visit(*name, &|| ()));
                while lock.waiters() <= queued {
                    thread::yield_now();
                }
            }
        });
    });
    let mut order = visitors.lock().unwrap();
    order
        .chunk_by_mut(|a, b| a.is_lowercase() && b.is_lowercase())
        .for_each(<[char]>::sort_unstable);
    order.iter().collect()
}

fn main() {
    let coming = "WaXbYc";
    println!("Small letters read, capitals write. While {} writes, the others come.", &coming[..1]);
    println!("coming:   {coming}");
    println!("going in: {}", order_of_entry(coming));
    println!("RwLock:   {}", order_by_lock(coming));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI32, Ordering};

    #[test]
    fn all_readers_that_waited_go_before_the_next_writer() {
        assert_eq!(order_of_entry("WaXbYc"), "WabcXY");
    }

    #[test]
    fn the_librarys_lock_has_the_same_order() {
        for coming in ["WaXbYc", "rWa", "WXaYb", "W"] {
            assert_eq!(order_by_lock(coming), order_of_entry(coming), "{coming}");
        }
    }

    #[test]
    fn a_waiting_writer_stops_new_readers() {
        assert_eq!(order_of_entry("rWa"), "rWa");
    }

    #[test]
    fn a_waiting_writer_comes_before_a_reader_at_the_door() {
        for (first, end) in
            [('W', ReadersAndWriters::end_write as fn(&_)), ('r', ReadersAndWriters::end_read)]
        {
            let rules = &ReadersAndWriters::default();
            if first == 'W' {
                rules.start_write(first)
            } else {
                rules.start_read(first)
            }
            thread::scope(|scope| {
                scope.spawn(|| rules.visit('X', || ()));
                until(|| rules.waiters() == 1);
                let inside = rules.room.enter().wait();
                scope.spawn(move || end(rules));
                until(|| rules.room.waiters() == 1);
                scope.spawn(|| rules.visit('a', || ()));
                until(|| rules.room.waiters() == 2);
                drop(inside);
            });
            assert_eq!(rules.room.enter().wait().visitors, [first, 'X', 'a']);
        }
    }

    #[test]
    fn writers_are_alone() {
        let rules = &ReadersAndWriters::default();
        // Readers count upwards, a writer is -1.
        let inside = &AtomicI32::new(0);
        thread::scope(|scope| {
            for name in "abcXY".chars() {
                scope.spawn(move || {
                    for _ in 0..200 {
                        let (mine, allowed) =
                            if name.is_uppercase() { (-1, 0..1) } else { (1, 0..3) };
                        rules.visit(name, || {
                            let before = inside.fetch_add(mine, Ordering::Relaxed);
                            assert!(allowed.contains(&before), "{name} met {before}");
                            thread::yield_now();
                            inside.fetch_sub(mine, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(rules.room.enter().wait().visitors.len(), 5 * 200);
    }

    fn until(seen: impl Fn() -> bool) {
        while !seen() {
            thread::yield_now();
        }
    }
}

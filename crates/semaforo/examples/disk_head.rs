//! Hoare's disk-head scheduler: the head sweeps like an elevator, because those who wait ahead of it
//! and those behind it wait on two conditions, each in the order in which the head comes by.
//!
//! After C. A. R. Hoare, "Monitors: an operating system structuring concept", 1974.
//!
//! `cargo run --release -p semaforo --example disk_head`

use std::thread;

use semaforo::{Condition, Monitor};

const LAST_CYLINDER: u64 = 199;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

struct Head {
    cylinder: u64,
    direction: Direction,
    busy: bool,
    /// The cylinders in the order in which they were visited.
    visited: Vec<u64>,
}

struct Disk {
    head: Monitor<Head>,
    upsweep: Condition,
    downsweep: Condition,
}

impl Disk {
    fn new() -> Self {
        let head = Head { cylinder: 0, direction: Direction::Up, busy: false, visited: Vec::new() };
        Self { head: Monitor::new(head), upsweep: Condition::new(), downsweep: Condition::new() }
    }

    /// Moves the head to a cylinder, when it is its turn.
    fn request(&self, cylinder: u64) {
        let mut head = self.head.enter().wait();
        if head.busy {
            let up = head.cylinder < cylinder
                || head.cylinder == cylinder && head.direction == Direction::Up;
            let turn = if up {
                self.upsweep.wait_by(head, cylinder)
            } else {
                self.downsweep.wait_by(head, LAST_CYLINDER - cylinder)
            };
            head = turn.wait();
        }
        head.busy = true;
        head.cylinder = cylinder;
        head.visited.push(cylinder);
    }

    /// The transfer is done: the head goes on in its direction, or turns if nobody waits there.
    fn release(&self) {
        let mut head = self.head.enter().wait();
        head.busy = false;
        let (ahead, behind, turned) = match head.direction {
            Direction::Up => (&self.upsweep, &self.downsweep, Direction::Down),
            Direction::Down => (&self.downsweep, &self.upsweep, Direction::Up),
        };
        let next = if ahead.is_awaited() {
            ahead
        } else {
            head.direction = turned;
            behind
        };
        next.signal_and_leave(head);
    }

    fn waiters(&self) -> usize {
        self.upsweep.waiters() + self.downsweep.waiters()
    }
}

/// The order of visits if these ask while the head is busy at the first of them; each of `late` is a
/// cylinder that is asked for only while the head is at another one.
fn visits(cylinders: &[u64], late: &[(u64, u64)]) -> Vec<u64> {
    let disk = &Disk::new();
    disk.request(cylinders[0]);
    thread::scope(|scope| {
        let ask = |cylinder| {
            let before = disk.waiters();
            scope.spawn(move || disk.request(cylinder));
            while disk.waiters() == before {
                thread::yield_now();
            }
        };
        cylinders[1..].iter().copied().for_each(ask);
        for _ in 0..cylinders.len() + late.len() {
            let at = disk.head.enter().wait().cylinder;
            late.iter().filter(|(seen, _)| *seen == at).for_each(|(_, cylinder)| ask(*cylinder));
            // When this returns, the next one has the head: its signal is Hoare's.
            disk.release();
        }
    });
    disk.head.enter().wait().visited.clone()
}

fn distance(visited: &[u64]) -> u64 {
    visited.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum()
}

fn main() {
    let asked = [50, 95, 180, 34, 119, 11, 123, 62, 64];
    let visited = visits(&asked, &[]);
    println!("asked   {asked:?}: {} cylinders to travel", distance(&asked));
    println!("visited {visited:?}: {} cylinders", distance(&visited));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_sweeps_up_and_then_down() {
        let visited = visits(&[50, 95, 180, 34, 119, 11, 123, 62, 64], &[]);
        assert_eq!(visited, [50, 62, 64, 95, 119, 123, 180, 34, 11]);
        assert_eq!(distance(&visited), 130 + 169);
    }

    #[test]
    fn latecomers_ahead_are_met_on_the_way_and_those_behind_on_the_way_back() {
        let visited = visits(&[50, 100, 150], &[(100, 120), (100, 60), (150, 199)]);
        assert_eq!(visited, [50, 100, 120, 150, 199, 60]);
    }

    #[test]
    fn who_waited_comes_before_who_stands_at_the_door() {
        let disk = &Disk::new();
        disk.request(50);
        thread::scope(|scope| {
            scope.spawn(|| disk.request(100));
            until(|| disk.waiters() == 1);
            let inside = disk.head.enter().wait();
            scope.spawn(|| disk.release());
            until(|| disk.head.waiters() == 1);
            scope.spawn(|| disk.request(10));
            until(|| disk.head.waiters() == 2);
            drop(inside);
            disk.release();
        });
        assert_eq!(disk.head.enter().wait().visited, [50, 100, 10]);
    }

    fn until(seen: impl Fn() -> bool) {
        while !seen() {
            thread::yield_now();
        }
    }
}

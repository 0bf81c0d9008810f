//! A pool with priorities as `QueuedTaskScheduler` has it, of Microsoft's samples for
//! parallel programming: a queue per level, all of them under one lock.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::thread;

use super::latency::Prioritized;
use crate::workload::settle;
use crate::workload::tasks::WORKERS;

const LEVELS: usize = 10;

type Task = Box<dyn FnOnce() + Send>;

#[derive(Clone, Copy)]
pub(super) struct OneLock(&'static Shared);

#[derive(Default)]
struct Shared {
    levels: Mutex<[VecDeque<Task>; LEVELS]>,
    filled: Condvar,
}

impl OneLock {
    /// Its threads end with the process.
    pub(super) fn start() -> OneLock {
        let pool = OneLock(settle(Shared::default()));
        for _ in 0..WORKERS {
            thread::spawn(move || pool.work());
        }
        pool
    }

    fn work(self) {
        loop {
            self.next()();
        }
    }

    fn next(self) -> Task {
        let mut levels = self.0.levels.lock().expect("no task runs under the lock");
        loop {
            match levels.iter_mut().find_map(VecDeque::pop_front) {
                Some(task) => return task,
                None => levels = self.0.filled.wait(levels).expect("no task runs under the lock"),
            }
        }
    }
}

impl Prioritized for OneLock {
    fn execute_at(self, level: u32, task: impl FnOnce() + Send + 'static) {
        let mut levels = self.0.levels.lock().expect("no task runs under the lock");
        levels[level as usize].push_back(Box::new(task));
        drop(levels);
        self.0.filled.notify_one();
    }
}

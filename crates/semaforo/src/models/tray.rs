//! A scheduler of the models: tasks lie there until a side runs them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::primitive::{Condvar, Mutex};
use crate::tasks::head::Run;
use crate::tasks::{Runnable, Scheduler};

/// Keeps what it was given until the model is over, so that it is dropped after all sides have ended:
/// loom does not follow the counts of the standard library's `Arc`.
#[derive(Clone)]
pub(super) struct Tray {
    inner: Arc<Inner>,
}

struct Inner {
    tasks: Mutex<Tasks>,
    changed: Condvar,
}

#[derive(Default)]
struct Tasks {
    all: Vec<Arc<dyn Run>>,
    /// How many of them have been taken.
    taken: usize,
    closed: bool,
}

impl Scheduler for Tray {
    fn enqueue(&self, runnable: Runnable) {
        self.inner.tasks.lock().unwrap().all.push(runnable.into_task());
        self.inner.changed.notify_one();
    }
}

impl Tray {
    pub(super) fn new() -> Self {
        let (tasks, changed) = (Mutex::new(Tasks::default()), Condvar::new());
        Self { inner: Arc::new(Inner { tasks, changed }) }
    }

    /// The first task, taken or not.
    pub(super) fn first(&self) -> Arc<dyn Run> {
        Arc::clone(&self.inner.tasks.lock().unwrap().all[0])
    }

    /// How many tasks it was given.
    pub(super) fn len(&self) -> usize {
        self.inner.tasks.lock().unwrap().all.len()
    }

    /// Runs the next task, if there is one.
    pub(super) fn run(&self) {
        let task = {
            let mut tasks = self.inner.tasks.lock().unwrap();
            let task = tasks.all.get(tasks.taken).cloned();
            tasks.taken += usize::from(task.is_some());
            task
        };
        if let Some(task) = task {
            task.run();
        }
    }

    /// Runs tasks as they come, until the tray is closed and nothing is left.
    pub(super) fn serve(&self) {
        loop {
            let mut tasks = self.inner.tasks.lock().unwrap();
            while tasks.taken == tasks.all.len() && !tasks.closed {
                tasks = self.inner.changed.wait(tasks).unwrap();
            }
            let Some(task) = tasks.all.get(tasks.taken).cloned() else { return };
            tasks.taken += 1;
            drop(tasks);
            task.run();
        }
    }

    /// Nothing comes any more.
    pub(super) fn close(&self) {
        self.inner.tasks.lock().unwrap().closed = true;
        self.inner.changed.notify_all();
    }
}

/// Counts how often something happens.
#[derive(Clone, Default)]
pub(super) struct Count(Arc<AtomicU32>);

impl Count {
    pub(super) fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Something that counts when it is dropped.
    pub(super) fn drops(&self) -> Dropped {
        Dropped(self.clone())
    }
}

/// Counts when it is dropped.
pub(super) struct Dropped(Count);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.up();
    }
}

/// Something that happens once, and that threads wait for in a way that no pool can see.
#[derive(Clone)]
pub(super) struct Signal(Arc<(Mutex<bool>, Condvar)>);

impl Signal {
    pub(super) fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    pub(super) fn set(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(super) fn wait(&self) {
        let mut set = self.0.0.lock().unwrap();
        while !*set {
            set = self.0.1.wait(set).unwrap();
        }
    }
}

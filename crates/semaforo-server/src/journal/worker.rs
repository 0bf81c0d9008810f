//! One job at a time, out of the main thread's way.

use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

/// Where the journal's background work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// By threads, as a server wants it.
    Threads,
    /// By the caller, at once: every run does the same in the same order, which tests want.
    Inline,
}

/// Tells work that its result is not wanted any more.
#[derive(Debug, Clone, Default)]
pub(super) struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The work panicked. The panic itself has said why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Panicked;

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the background work panicked")
    }
}

type Outcome<R> = Result<R, Panicked>;
type Work<J, R> = Box<dyn FnMut(J) -> R + Send>;

/// Does one job after another. At most one is under way; dropping it cancels that one and waits
/// until it has stopped.
pub(super) struct Worker<J, R> {
    place: Place<J, R>,
    busy: bool,
    cancelled: Cancelled,
}

enum Place<J, R> {
    Thread {
        jobs: Option<SyncSender<J>>,
        results: Receiver<Outcome<R>>,
        thread: Option<JoinHandle<()>>,
    },
    Inline {
        work: Work<J, R>,
        result: Option<R>,
    },
}

impl<J: Send + 'static, R: Send + 'static> Worker<J, R> {
    /// The work should look at what `make_work` is given now and then, and give up when it is set.
    pub(super) fn new<W>(
        name: &str,
        background: Background,
        make_work: impl FnOnce(Cancelled) -> W,
    ) -> io::Result<Self>
    where
        W: FnMut(J) -> R + Send + 'static,
    {
        let cancelled = Cancelled::default();
        let mut work = make_work(cancelled.clone());
        let place = match background {
            Background::Inline => Place::Inline { work: Box::new(work), result: None },
            Background::Threads => {
                let (jobs, queue) = sync_channel(1);
                let (finished, results) = sync_channel(1);
                let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
                    lower_priority();
                    while let Ok(job) = queue.recv() {
                        // One bad job shall not end the others: each begins anew.
                        let outcome = catch_unwind(AssertUnwindSafe(|| work(job)));
                        if finished.send(outcome.map_err(|_| Panicked)).is_err() {
                            return;
                        }
                    }
                })?;
                Place::Thread { jobs: Some(jobs), results, thread: Some(thread) }
            }
        };
        Ok(Self { place, busy: false, cancelled })
    }
}

impl<J, R> Worker<J, R> {
    /// Whether a job was given whose result was not taken.
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Starts a job. There must be none.
    pub(super) fn start(&mut self, job: J) {
        debug_assert!(!self.busy);
        self.busy = true;
        match &mut self.place {
            Place::Inline { work, result } => *result = Some(work(job)),
            // The thread lives as long as this, and its queue is empty.
            Place::Thread { jobs, .. } => drop(jobs.as_ref().map(|jobs| jobs.try_send(job))),
        }
    }

    /// The result, if it is there.
    pub(super) fn poll(&mut self) -> Option<Outcome<R>> {
        let result = match &mut self.place {
            Place::Inline { result, .. } => result.take().map(Ok),
            Place::Thread { results, .. } => results.try_recv().ok(),
        };
        self.busy &= result.is_none();
        result
    }
}

impl<J, R> Drop for Worker<J, R> {
    fn drop(&mut self) {
        self.cancelled.0.store(true, Ordering::Relaxed);
        if let Place::Thread { jobs, thread, .. } = &mut self.place {
            *jobs = None;
            if let Some(thread) = thread.take() {
                // It has no more to say than that it panicked, which the panic itself has said.
                let _ = thread.join();
            }
        }
    }
}

impl<J, R> fmt::Debug for Worker<J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("busy", &self.busy).finish_non_exhaustive()
    }
}

/// The main thread goes first where there are not enough processors.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    // On Linux a thread's own id stands for the thread alone.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubling(background: Background) -> Worker<u32, u32> {
        Worker::new("doubling", background, |_| {
            |job| {
                assert_ne!(job, 13, "unlucky");
                job * 2
            }
        })
        .unwrap()
    }

    /// The result, when it is there.
    fn result<R>(worker: &mut Worker<u32, R>) -> Outcome<R> {
        loop {
            if let Some(result) = worker.poll() {
                return result;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn one_job_after_another() {
        for background in [Background::Threads, Background::Inline] {
            let mut worker = doubling(background);
            assert_eq!(worker.poll(), None);
            for job in 0..10 {
                worker.start(job);
                assert!(worker.is_busy());
                assert_eq!(result(&mut worker), Ok(job * 2));
                assert!(!worker.is_busy());
            }
            worker.start(7);
        }
    }

    #[test]
    fn a_panic_ends_one_job_only() {
        let mut worker = doubling(Background::Threads);
        worker.start(13);
        assert_eq!(result(&mut worker), Err(Panicked));
        worker.start(4);
        assert_eq!(result(&mut worker), Ok(8));
    }
}

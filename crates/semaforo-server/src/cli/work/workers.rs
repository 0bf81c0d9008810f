//! The threads that take messages, and run one command each at a time.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow};
use semaforo::CancelSource;
use semaforo_client::{Client, Delivery, Error};

use super::Work;
use crate::cli::context::Context;
use crate::cli::output::Output;
use crate::cli::process::group::Group;
use crate::cli::process::guarded_session::GuardedSession;
use crate::cli::process::guardian::Guardian;

/// A worker thread that was granted no message asks again after this time at the earliest.
const BREATH: Duration = Duration::from_millis(100);

/// What all worker threads share.
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) work: Work,
    pub(super) output: Output,
    /// Where the server is.
    pub(super) server: String,
    pub(super) client: Client,
    stop: CancelSource,
    /// Commands are terminated, so that a failure is not the fault of a message.
    terminates: AtomicBool,
    taken: AtomicU64,
    running: Mutex<Running>,
}

/// The commands that run.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) groups: HashSet<Group>,
    pub(super) guardian: Option<Guardian>,
}

impl Workers {
    pub(super) fn new(work: Work, context: &Context, client: Client, guardian: Guardian) -> Self {
        let running = Running { groups: HashSet::new(), guardian: Some(guardian) };
        Self {
            work,
            output: context.output,
            server: context.connection.server.clone(),
            client,
            stop: CancelSource::new(),
            terminates: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            running: Mutex::new(running),
        }
    }

    pub(super) fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes messages until there is a reason not to.
    pub(super) fn work(&self) -> Result<()> {
        while let Some(delivery) = self.take()? {
            self.handle(delivery)?;
        }
        Ok(())
    }

    fn take(&self) -> Result<Option<Delivery>> {
        // One that is there would be granted all the same.
        if self.stop.is_cancelled() {
            return Ok(None);
        }
        if let Some(max) = self.work.max
            && self.taken.fetch_add(1, Ordering::Relaxed) >= max
        {
            return Ok(None);
        }
        let queue = self.client.queue(&self.work.queue);
        let mut idle = self.work.idle_exit;
        loop {
            let mut call = queue.take_manual().cancel_on(&self.stop.token());
            if let Some(idle) = idle {
                call = call.timeout(idle);
            }
            match call.wait() {
                Ok(delivery) if self.stop.is_cancelled() => {
                    // It was granted, and another worker may want it.
                    let _ = delivery.give_back().wait();
                    return Ok(None);
                }
                Ok(delivery) => return Ok(Some(delivery)),
                Err(Error::Cancelled | Error::SessionLost) => return Ok(None),
                // As long as a command runs, its message may come back.
                Err(Error::TimedOut) if !self.running().groups.is_empty() => {
                    idle = idle.map(|idle| idle.max(BREATH));
                }
                Err(Error::TimedOut) => return Ok(None),
                // The server has no space to keep it in. Others make some.
                Err(Error::Refused { status: 507, .. }) => {
                    let _ = self.stop.token().cancelled().timeout(BREATH).wait();
                }
                Err(error) => return Err(anyhow!(error).context("cannot take a message")),
            }
        }
    }

    /// No more messages are taken.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// And the commands that run are asked to end. No other is started.
    pub(super) fn terminate(&self) {
        self.stop();
        let running = self.running();
        self.terminates.store(true, Ordering::SeqCst);
        for group in &running.groups {
            group.terminate();
        }
    }

    /// And ended.
    pub(super) fn kill(&self) {
        for group in &self.running().groups {
            group.kill();
        }
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.terminates.load(Ordering::SeqCst)
    }

    /// The session lives longer than the guardian knows.
    pub(super) fn renewed(&self, session: &GuardedSession) {
        let mut running = self.running();
        let Running { groups, guardian: Some(guardian) } = &mut *running else { return };
        session.replace_if_gone(guardian, groups.iter().copied());
        guardian.until(session.ends());
    }

    /// The guardian, once no command runs any more.
    pub(super) fn take_guardian(&self) -> Option<Guardian> {
        self.running().guardian.take()
    }
}

//! What every subcommand works with, and the way of a simple request.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use anyhow::Result;
use semaforo::{CancelSource, CancelToken};
use semaforo_client::{Client, Error, Raw, Reply};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::connection::Connection;
use super::exit::Failure;
use super::output::Output;
use super::process::signals;

/// How long a session outlives a client that was killed while it waited.
const WAITING_TTL: Duration = Duration::from_secs(10);

/// What was said before, or after, the subcommand.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) connection: Connection,
    pub(super) output: Output,
}

impl Context {
    /// Connects for one or two requests.
    pub(super) fn open(&self) -> Result<Client> {
        self.connection.open(WAITING_TTL)
    }

    /// Asks what is answered at once, and prints the answer.
    pub(super) fn ask(&self, request: impl FnOnce(&Client) -> Raw) -> Result<()> {
        let reply = self.answer(request)?;
        self.output.answer(&reply)
    }

    /// Asks what is answered at once.
    pub(super) fn answer(&self, request: impl FnOnce(&Client) -> Raw) -> Result<Reply> {
        let client = self.open()?;
        let result = request(&client).wait();
        self.settle(client, result, None)
    }

    /// Asks something that may have to wait, in a session, so that it goes on waiting when the
    /// connection is lost. Prints the answer.
    pub(super) fn wait(
        &self,
        timeout: Option<Duration>,
        request: impl FnOnce(&Client) -> Raw,
    ) -> Result<()> {
        let client = self.open()?;
        let interrupt = Interrupt::watch()?;
        let mut raw = request(&client).in_session();
        if let Some(timeout) = timeout {
            raw = raw.timeout(timeout);
        }
        let result = raw.send().cancel_on(&interrupt.token()).wait();
        let reply = self.settle(client, result, Some(&interrupt))?;
        self.output.answer(&reply)
    }

    /// Ends the session, and makes of an error what the command line says about it.
    pub(super) fn settle<T>(
        &self,
        client: Client,
        result: Result<T, Error>,
        interrupt: Option<&Interrupt>,
    ) -> Result<T> {
        let _ = client.close().wait();
        result.or_else(|error| {
            if let (Error::Cancelled, Some(signal)) =
                (&error, interrupt.and_then(Interrupt::signal))
            {
                return Err(Failure::signalled(signal));
            }
            self.output.refusal(&error)?;
            Err(error.into())
        })
    }
}

/// Signals that end a wait.
#[derive(Debug)]
pub(super) struct Interrupt {
    source: Arc<CancelSource>,
    signal: Arc<AtomicI32>,
}

impl Interrupt {
    /// From now on these signals end the wait, and not the process.
    pub(super) fn watch() -> Result<Self> {
        let (source, signal) = (Arc::new(CancelSource::new()), Arc::new(AtomicI32::new(0)));
        let (cancel, number) = (Arc::clone(&source), Arc::clone(&signal));
        signals::watch(&[SIGINT, SIGTERM, SIGHUP], move |arrived| {
            number.store(arrived, Ordering::SeqCst);
            cancel.cancel();
        })?;
        Ok(Self { source, signal })
    }

    pub(super) fn token(&self) -> CancelToken {
        self.source.token()
    }

    /// The one that arrived.
    pub(super) fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}

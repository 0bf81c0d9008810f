//! Acquiring, releasing and checking by hand, in a session that outlives the command: what locks,
//! reader-writer locks and semaphores have in common.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use semaforo_client::{Client, Error, Raw, Reply};

use super::context::{Context, Interrupt};
use super::duration;
use super::held_session::{self, NewFile, SESSION_VARIABLE};

/// A session is not waited for in a line: also a caller that does not want to wait gives the server
/// this time to open or find one.
const SHORTEST_OPENING: Duration = Duration::from_secs(1);

/// Something that is acquired.
#[derive(Args, Debug)]
#[group(id = "acquired")]
pub(super) struct Acquire {
    /// Its name
    pub(super) name: String,
    /// The session that is to hold it, of `session open` or an earlier acquire; otherwise one is
    /// opened and printed
    #[arg(long, value_name = "S", env = SESSION_VARIABLE, hide_env_values = true)]
    session: Option<String>,
    /// A file that has the session; if it is not there one is opened, and written to it instead of
    /// being printed
    #[arg(long, value_name = "FILE")]
    session_file: Option<PathBuf>,
    /// How long the opened session lives, unless it is kept alive with `session keepalive`
    #[arg(long, value_name = "DURATION", value_parser = duration::time_to_live, default_value = "60s", conflicts_with = "session")]
    ttl: Duration,
    /// How long to wait; 0s: now or not at all
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    timeout: Option<Duration>,
}

/// Something that is held.
#[derive(Args, Debug)]
#[group(id = "held")]
pub(super) struct Held {
    /// Its name
    pub(super) name: String,
    /// The session that holds it; other users can see it in the arguments of a process
    #[arg(
        long,
        value_name = "S",
        env = SESSION_VARIABLE,
        hide_env_values = true,
        required_unless_present = "session_file"
    )]
    session: Option<String>,
    /// A file that has the session
    #[arg(long, value_name = "FILE")]
    session_file: Option<PathBuf>,
    /// Which hold; may be left out if the session has only one of it
    #[arg(long, value_name = "F")]
    fence: Option<u64>,
}

/// A hold that may exist.
#[derive(Args, Debug)]
#[group(id = "checked")]
pub(super) struct Check {
    /// Its name
    pub(super) name: String,
    /// The hold
    #[arg(long, value_name = "F")]
    pub(super) fence: u64,
}

impl Acquire {
    /// Acquires, and prints the session and the fence.
    pub(super) fn run(
        self,
        context: &Context,
        path: &str,
        headers: &[(&str, String)],
    ) -> Result<()> {
        let said = match &self.session_file {
            Some(file) => held_session::read(file)?,
            None => self.session.clone(),
        };
        match said {
            Some(session) => self.in_session(context, &session, path, headers),
            None => {
                let file = self.session_file.as_deref().map(NewFile::create).transpose()?;
                self.in_new_session(context, path, headers, file)
            }
        }
    }

    fn request(&self, client: &Client, path: &str, headers: &[(&str, String)]) -> Raw {
        let mut request = client.request("ACQUIRE", path);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        match self.timeout {
            Some(timeout) => request.timeout(timeout),
            None => request,
        }
    }

    fn opening_limit(&self) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.max(SHORTEST_OPENING))
    }

    /// The client's own session: it looks after it while it waits, and then leaves it behind.
    fn in_new_session(
        &self,
        context: &Context,
        path: &str,
        headers: &[(&str, String)],
        file: Option<NewFile>,
    ) -> Result<()> {
        let client = context.connection.open(self.ttl)?;
        let interrupt = Interrupt::watch()?;
        let token = interrupt.token();
        let request = self.request(&client, path, headers).in_session().send();
        let mut opening = client.session().cancel_on(&token);
        if let Some(limit) = self.opening_limit() {
            opening = opening.timeout(limit);
        }
        let acquire = || {
            let session = opening.wait()?;
            let reply = request.cancel_on(&token).wait()?;
            // The time to live counts from here.
            client.session().cancel_on(&token).wait()?;
            if session.is_lost() { Err(Error::SessionLost) } else { Ok((session, reply)) }
        };
        let (session, mut reply) = match acquire() {
            Ok(acquired) => acquired,
            Err(error) => return context.settle(client, Err(error), Some(&interrupt)),
        };
        if reply.header("fence").is_none() {
            // Permits of an open semaphore: nothing is held, and no session is left behind.
            let told = context.output.answer(&reply);
            let _ = client.close().wait();
            return told;
        }
        let told = match file {
            Some(file) => file.write(session.id()).and_then(|()| context.output.answer(&reply)),
            None => {
                reply.headers.insert(0, ("session".to_owned(), session.id().to_owned()));
                context.output.answer(&reply)
            }
        };
        // If it is not printed, no process can release it.
        if let Err(error) = told {
            let _ = client.close().wait();
            return Err(error);
        }
        // A client that is dropped ends its session.
        std::mem::forget(client);
        Ok(())
    }

    /// Another process's session, which must not end while this waits.
    fn in_session(
        &self,
        context: &Context,
        session: &str,
        path: &str,
        headers: &[(&str, String)],
    ) -> Result<()> {
        let client = context.open()?;
        let interrupt = Interrupt::watch()?;
        let token = interrupt.token();
        let keep_alive = |limit: Option<Duration>| {
            let request = client.request("KEEPALIVE", "/sessions").header("session", session);
            let call = request.send().cancel_on(&token);
            match limit {
                Some(limit) => call.timeout(limit).wait(),
                None => call.wait(),
            }
        };
        let ttl = match keep_alive(self.opening_limit()) {
            Ok(reply) => time_to_live(&reply),
            Err(error) => return context.settle(client, Err(error), Some(&interrupt)),
        };
        let request = self.request(&client, path, headers).header("session", session).send();
        let request = request.cancel_on(&token);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(request.wait()));
        let result = loop {
            match receiver.recv_timeout(ttl / 3) {
                Ok(result) => break result,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    // The answer to the request, or a signal, is not to be missed for it.
                    let _ = keep_alive(Some(ttl / 3));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break Err(Error::Disconnected),
            }
        };
        let reply = context.settle(client, result, Some(&interrupt))?;
        context.output.answer(&reply)
    }
}

fn time_to_live(reply: &Reply) -> Duration {
    let ttl = reply.header("ttl").and_then(|ttl| ttl.parse().ok());
    Duration::from_millis(ttl.unwrap_or(semaforo_protocol::limits::DEFAULT_TTL))
}

impl Held {
    /// The session that holds it.
    pub(super) fn session(&self) -> Result<String> {
        held_session::of(self.session.as_deref(), self.session_file.as_deref())
    }

    /// Does something with the hold of a session.
    pub(super) fn request(
        &self,
        client: &Client,
        session: &str,
        method: &str,
        path: String,
    ) -> Raw {
        let request = client.request(method, path).header("session", session);
        match self.fence {
            Some(fence) => request.header("fence", fence),
            None => request,
        }
    }
}

impl Check {
    /// Whether the hold exists: the exit status tells.
    pub(super) fn run(&self, context: &Context, path: String) -> Result<()> {
        context.ask(|client| client.request("CHECK", path).header("fence", self.fence))
    }
}

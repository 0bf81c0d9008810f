//! Until everything is held.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use semaforo::{CancelSource, CancelToken};
use semaforo_client::{Client, Error};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;

use super::Event;
use super::holdings::{Held, Wanted};
use super::progress::Progress;
use crate::cli::exit::Failure;

/// How often the holders and the line are looked at, for people.
const GLANCE: Duration = Duration::from_secs(1);

/// Waits until everything is held, and says so on the terminal.
pub(super) fn acquire(
    client: &Client,
    wanted: &[Wanted],
    deadline: Option<Instant>,
    quiet: bool,
    sender: &Sender<Event>,
    events: &Receiver<Event>,
) -> Result<Vec<Held>> {
    let stop = CancelSource::new();
    let mut progress = Progress::new(quiet);
    begin(client, wanted, deadline, stop.token(), sender);
    let mut asking = 0;
    let mut signalled = None;
    loop {
        match events.recv_timeout(GLANCE) {
            Ok(Event::Signal(signal @ (SIGINT | SIGTERM | SIGHUP | SIGQUIT))) => {
                signalled = Some(signal);
                stop.cancel();
            }
            Ok(Event::Signal(SIGTSTP)) => {
                let _ = emulate_default_handler(SIGTSTP);
            }
            Ok(Event::Asking(index)) => asking = index,
            Ok(Event::Acquired(held)) => {
                progress.clear();
                return match signalled {
                    Some(signal) => Err(Failure::signalled(signal)),
                    None => Ok(held),
                };
            }
            Ok(Event::Refused(index, error)) => {
                progress.clear();
                if let (Some(signal), Error::Cancelled) = (signalled, &error) {
                    return Err(Failure::signalled(signal));
                }
                if matches!(error, Error::SessionLost) && signalled.is_none() {
                    // Nothing was running yet, so nothing is lost but the place in line.
                    begin(client, wanted, deadline, stop.token(), sender);
                    continue;
                }
                let what = wanted.get(index).map_or_else(String::new, ToString::to_string);
                return Err(anyhow!(error)).context(what);
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => {
                if let Some(wanted) = wanted.get(asking) {
                    progress.show(client, wanted);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("nobody waits any more")),
        }
    }
}

/// Asks for one after the other, on a thread.
fn begin(
    client: &Client,
    wanted: &[Wanted],
    deadline: Option<Instant>,
    cancel: CancelToken,
    sender: &Sender<Event>,
) {
    let (client, wanted, sender) = (client.clone(), wanted.to_vec(), sender.clone());
    thread::spawn(move || {
        let mut held = Vec::new();
        for (index, wanted) in wanted.iter().enumerate() {
            let _ = sender.send(Event::Asking(index));
            match wanted.acquire(&client, deadline, &cancel) {
                Ok(one) => held.push(one),
                Err(error) => {
                    // First of all others can have what this one has in vain.
                    held.clear();
                    let _ = sender.send(Event::Refused(index, error));
                    return;
                }
            }
        }
        let _ = sender.send(Event::Acquired(held));
    });
}

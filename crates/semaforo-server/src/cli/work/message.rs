//! What becomes of one message.

use std::io::Write;
use std::process::ChildStdin;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::WaitStatus;
use semaforo_client::{Delivery, Error};
use serde_json::json;

use super::workers::Workers;
use crate::cli::exit::{not_started, say};
use crate::cli::process::group::Group;
use crate::cli::queue;

/// A pipe takes at least so much before its reader reads.
const FITS_INTO_PIPE: usize = 4096;
/// So many deliveries above the limit a message is given up without being run. Below, they may not
/// be the message's fault: also one that was returned because a worker was told to end, or died,
/// counts as delivered. Without this a message that kills its worker would never be given up.
const SPARE_DELIVERIES: u64 = 10;
/// How long a message that is given up waits for space where it is to go.
const DEAD_QUEUE_LIMIT: Duration = Duration::from_secs(2);
/// How often it is looked meanwhile whether the worker is to end.
const ROUND: Duration = Duration::from_millis(250);

impl Workers {
    /// Runs the command for a message, and says to the queue what came of it.
    pub(super) fn handle(&self, delivery: Delivery) -> Result<()> {
        let limit = self.work.max_deliveries;
        let most = limit.map(|limit| limit.saturating_add(SPARE_DELIVERIES));
        if most.is_some_and(|most| delivery.deliveries > most) {
            // The workers that had it before died of it, or with it.
            return self.give_up(delivery, "was delivered too often");
        }
        let status = match self.run(&delivery) {
            Ok(Some(status)) => status,
            Ok(None) => return self.give_back(delivery, "the worker ends", None, false),
            Err(error) => {
                let _ = delivery.give_back().wait();
                return Err(error);
            }
        };
        if status.exit_status() == Some(0) {
            return self.finish(delivery, status);
        }
        let reason = describe(status);
        if self.is_terminating() {
            return self.give_back(delivery, &reason, Some(status), false);
        }
        if limit.is_some_and(|limit| delivery.deliveries >= limit) {
            return self.give_up(delivery, &reason);
        }
        self.give_back(delivery, &reason, Some(status), true)
    }

    /// Blocks until the command has ended; none if it is too late to start it.
    fn run(&self, delivery: &Delivery) -> Result<Option<WaitStatus>> {
        let mut command = self.work.command();
        command
            .env("SEMAFORO_SERVER", &self.server)
            .env("SEMAFORO_QUEUE", &self.work.queue)
            .env("SEMAFORO_MESSAGE", delivery.number.to_string())
            .env("SEMAFORO_DELIVERIES", delivery.deliveries.to_string());
        let (group, input) = {
            let mut running = self.running();
            // Terminated between being taken and being started: the commands that ran have been
            // told already.
            if self.is_terminating() {
                return Ok(None);
            }
            if delivery.is_lost() {
                self.stop();
                return Ok(None);
            }
            let guardian = running.guardian.as_ref().map(|guardian| guardian.pipe());
            let (group, mut child) = Group::start(&mut command, guardian, None)
                .map_err(|error| not_started(&command, &error))?;
            running.groups.insert(group);
            (group, child.stdin.take())
        };
        if let Some(input) = input {
            feed(input, queue::text(delivery, self.work.raw));
        }
        let status = loop {
            match group.wait() {
                Ok(status) if status.stopped() => {}
                ended => break ended,
            }
        };
        let mut running = self.running();
        if self.is_terminating() {
            drop(running);
            // Nothing of what it started may go on when its message is delivered again. All of it
            // is killed in time.
            group.outlast(|| {});
            running = self.running();
        }
        running.groups.remove(&group);
        if let Some(guardian) = &mut running.guardian {
            guardian.ended(group);
        }
        Ok(Some(status?))
    }

    fn finish(&self, delivery: Delivery, status: WaitStatus) -> Result<()> {
        let (number, deliveries) = (delivery.number, delivery.deliveries);
        match delivery.ack().wait() {
            Ok(()) => self.tell(number, deliveries, "acknowledged", Some(status)),
            Err(error) => {
                say(&format!("message {number} is done, and may be delivered again: {error}"));
                self.tell(number, deliveries, "unknown", Some(status))
            }
        }
    }

    fn give_back(
        &self,
        delivery: Delivery,
        reason: &str,
        status: Option<WaitStatus>,
        rests: bool,
    ) -> Result<()> {
        let (number, deliveries) = (delivery.number, delivery.deliveries);
        let returned = if rests && !self.work.retry_delay.is_zero() {
            delivery.give_back_after(self.work.retry_delay)
        } else {
            delivery.give_back()
        };
        // If it cannot be said, the session is lost, and the message returns for that reason.
        let _ = returned.wait();
        say(&format!("message {number} (delivery {deliveries}): {reason}; it is returned"));
        self.tell(number, deliveries, "returned", status)
    }

    fn give_up(&self, delivery: Delivery, reason: &str) -> Result<()> {
        let (number, deliveries) = (delivery.number, delivery.deliveries);
        if let Some(dead) = &self.work.dead
            && let Err(error) = self.put_into_dead_queue(dead, &delivery.payload)
        {
            say(&format!("message {number} cannot be put into {dead:?}: {error}"));
            return self.give_back(delivery, reason, None, true);
        }
        if let Err(error @ (Error::Gone(_) | Error::SessionLost)) = delivery.ack().wait() {
            say(&format!("message {number} is given up, and may be delivered again: {error}"));
        }
        let fate = match &self.work.dead {
            Some(dead) => format!("it is in queue {dead} now"),
            None => "it is dropped".to_owned(),
        };
        say(&format!("message {number} (delivery {deliveries}): {reason}; {fate}"));
        self.tell(number, deliveries, "dead", None)
    }

    /// Puts a message where those go that are given up. That may be full, also for ever.
    fn put_into_dead_queue(&self, dead: &str, payload: &str) -> Result<(), Error> {
        let limit = Instant::now() + DEAD_QUEUE_LIMIT;
        let dead = self.client.queue(dead);
        loop {
            // The server says whether it happened. Of a put that is cancelled here it would not be
            // known.
            match dead.put(payload).timeout(ROUND).wait() {
                Err(Error::TimedOut) if !self.is_stopping() && Instant::now() < limit => {}
                result => return result.map(drop),
            }
        }
    }

    /// For programs: a line about each message.
    fn tell(
        &self,
        message: u64,
        deliveries: u64,
        outcome: &str,
        status: Option<WaitStatus>,
    ) -> Result<()> {
        if !self.output.json {
            return Ok(());
        }
        let mut object = json!({"message": message, "deliveries": deliveries, "outcome": outcome});
        if let Some(code) = status.and_then(WaitStatus::exit_status) {
            object["exit"] = code.into();
        }
        if let Some(signal) = status.and_then(WaitStatus::terminating_signal) {
            object["signal"] = signal.into();
        }
        self.output.line(&object.to_string())
    }
}

/// Writes the message for a command that reads it, or does not.
fn feed(mut input: ChildStdin, mut text: String) {
    text.push('\n');
    if text.len() <= FITS_INTO_PIPE {
        let _ = input.write_all(text.as_bytes());
    } else {
        thread::spawn(move || input.write_all(text.as_bytes()));
    }
}

fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("the command exited with {code}"),
        (None, Some(signal)) => format!("the command died of signal {signal}"),
        (None, None) => "the command ended".to_owned(),
    }
}

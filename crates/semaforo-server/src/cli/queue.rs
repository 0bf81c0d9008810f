//! `semaforo queue`.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use semaforo_client::{Client, Message, Raw};
use serde_json::Value;

use super::context::{Context, Interrupt};
use super::duration;
use super::exit::Failure;
use super::show;

/// Puts messages into a queue, and takes them
#[derive(Debug, Subcommand)]
pub(super) enum Queue {
    /// Makes a queue; prints created=..., false if it was there already
    Create {
        /// Its name
        name: String,
        /// The most messages that it takes; 0: no bound of its own
        #[arg(long, value_name = "N", default_value_t = 0)]
        capacity: u64,
    },
    /// Puts a message; waits for space if the queue is full
    Put {
        #[command(flatten)]
        message: Sent,
        /// When it can be taken at the earliest
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        delay: Option<Duration>,
    },
    /// Puts a message, and waits until a consumer has taken it; otherwise it is withdrawn
    Transfer {
        #[command(flatten)]
        message: Sent,
    },
    /// Takes a message, waits for one if need be, and prints it
    ///
    /// It is acknowledged once it is printed: if that is not possible, it returns to its place.
    Take {
        /// The queue
        name: String,
        /// How long to wait; 0s: now or not at all
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        timeout: Option<Duration>,
        /// Prints a message that is a JSON string as its text
        #[arg(long)]
        raw: bool,
    },
    /// Shows how many messages there are, and who waits
    Show {
        /// The queue
        name: String,
    },
    /// Deletes the queue, with its messages
    Delete {
        /// The queue
        name: String,
    },
}

/// A message to be sent.
#[derive(Args, Debug)]
pub(super) struct Sent {
    /// The queue
    name: String,
    /// The message, which has to be JSON; -: the standard input; nothing: null
    payload: Option<String>,
    /// The message is text, and is sent as a JSON string
    #[arg(long)]
    raw: bool,
    /// Smaller ones are taken first
    #[arg(long, value_name = "P", allow_negative_numbers = true, default_value_t = 0)]
    priority: i32,
    /// How long to wait; 0s: now or not at all
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    timeout: Option<Duration>,
}

impl Sent {
    fn payload(&self) -> Result<String> {
        let text = match self.payload.as_deref() {
            None => return Ok("null".to_owned()),
            Some("-") => {
                let mut text = String::new();
                std::io::stdin()
                    .read_to_string(&mut text)
                    .context("cannot read the message from the standard input")?;
                text
            }
            Some(text) => text.to_owned(),
        };
        if self.raw {
            // A line of text is what stands in it.
            let text = text.strip_suffix('\n').unwrap_or(&text);
            return Ok(Value::from(text).to_string());
        }
        match serde_json::from_str::<Value>(&text) {
            Ok(_) => Ok(text),
            Err(error) => {
                let shown: String = text.chars().take(40).collect();
                Err(Failure::usage(format!(
                    "the message {shown:?} is not JSON ({error}); --raw sends it as text"
                )))
            }
        }
    }

    fn request(&self, method: &str, client: &Client, payload: String) -> Raw {
        let request = client.request(method, path(&self.name)).payload(payload);
        request.header("priority", self.priority)
    }
}

fn path(name: &str) -> String {
    format!("/queues/{name}")
}

impl Queue {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Create { name, capacity } => context.wait(None, |client| {
                client.request("CREATE", path(&name)).header("capacity", capacity)
            })?,
            Self::Put { message, delay } => {
                let payload = message.payload()?;
                context.wait(message.timeout, |client| {
                    let request = message.request("PUT", client, payload);
                    match delay {
                        Some(delay) => request.header("delay", delay.as_millis()),
                        None => request,
                    }
                })?;
            }
            Self::Transfer { message } => {
                let payload = message.payload()?;
                context
                    .wait(message.timeout, |client| message.request("TRANSFER", client, payload))?;
            }
            Self::Take { name, timeout, raw } => take(context, &name, timeout, raw)?,
            Self::Show { name } => show::object(context, &path(&name))?,
            Self::Delete { name } => {
                context.ask(|client| client.request("DELETE", path(&name)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn take(context: &Context, name: &str, timeout: Option<Duration>, raw: bool) -> Result<()> {
    let client = context.open()?;
    let interrupt = Interrupt::watch()?;
    let mut call = client.queue(name).take_manual().cancel_on(&interrupt.token());
    if let Some(timeout) = timeout {
        call = call.timeout(timeout);
    }
    let delivery = match call.wait() {
        Ok(delivery) => delivery,
        Err(error) => return context.settle(client, Err(error), Some(&interrupt)),
    };
    let printed = if context.output.json {
        // As it came, but in one line: in JSON a line can end between words only.
        let payload = delivery.payload.replace(['\n', '\r', '\t'], " ");
        let (message, deliveries) = (delivery.number, delivery.deliveries);
        context.output.shown(&format!(
            r#"{{"status":200,"message":{message},"deliveries":{deliveries},"payload":{payload}}}"#
        ))
    } else {
        context.output.message(&text(&delivery, raw))
    };
    if let Err(error) = printed {
        let returned = delivery.give_back().wait();
        let _ = context.settle(client, returned, None);
        return Err(error);
    }
    let acknowledged = delivery.ack().wait();
    context.settle(client, acknowledged, None)
}

/// A message as people want to see it.
pub(super) fn text(message: &Message, raw: bool) -> String {
    match serde_json::from_str(&message.payload) {
        Ok(Value::String(text)) if raw => text,
        _ => message.payload.clone(),
    }
}

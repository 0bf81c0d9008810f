//! How long a session lives for sure, and how long before that its children have to end.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::client::{Client, Error};

/// A renewal that could not be sent is tried again after this time.
const PAUSE: Duration = Duration::from_millis(50);

/// What becomes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Lifetime {
    /// It lives until then for sure, since the server counts from something later.
    Until(Instant),
    /// The server says that it is over.
    Over,
}

/// How long before the certain end of a session a child is asked to end, so that it has ended by then: not at once
/// when the connection is lost, since it may come back, and not so late that it has no time to tidy up.
pub(in crate::cli) fn notice(ttl: Duration, grace: Duration) -> Duration {
    grace.min(ttl / 5)
}

/// The id of the client's session, which is opened if need be.
pub(in crate::cli) fn session(client: &Client) -> Result<String> {
    // The server sends back what it was sent, and that says the session.
    let reply = client.request("ECHO", "/").in_session().wait()?;
    let request: Value = serde_json::from_str(reply.payload.as_deref().unwrap_or_default())?;
    let session = request.get("Headers").and_then(|headers| headers.get("session"));
    let session =
        session.and_then(Value::as_str).context("the server has forgotten the session")?;
    Ok(session.to_owned())
}

/// Asks the server to renew the session.
fn renew(client: &Client, session: &str, ttl: Duration) -> Result<Lifetime, Error> {
    let asked = Instant::now();
    let request = client.request("KEEPALIVE", "/sessions").header("session", session);
    match request.send().timeout(ttl / 3).wait() {
        Ok(_) => Ok(Lifetime::Until(asked + ttl)),
        Err(Error::Gone(_)) => Ok(Lifetime::Over),
        Err(error) => Err(error),
    }
}

/// Renews the session again and again, on a thread, for as long as `report` wants to know. What the first renewal
/// came to is returned.
pub(in crate::cli) fn watch(
    client: &Client,
    session: &str,
    ttl: Duration,
    mut report: impl FnMut(Lifetime) -> bool + Send + 'static,
) -> Result<Lifetime> {
    let first = renew(client, session, ttl)?;
    let (client, session) = (client.clone(), session.to_owned());
    thread::Builder::new().name("lifetime".to_owned()).spawn(move || {
        let mut pause = ttl / 4;
        loop {
            thread::sleep(pause);
            match renew(&client, &session, ttl) {
                Ok(lifetime) => {
                    if !report(lifetime) || lifetime == Lifetime::Over {
                        return;
                    }
                    pause = ttl / 4;
                }
                // Until somebody hears, or it does not matter any more.
                Err(_) => pause = PAUSE.min(ttl / 4),
            }
        }
    })?;
    Ok(first)
}

/// The machine's clock, in milliseconds. It goes on while the machine sleeps, and other processes read the same.
pub(super) fn clock() -> u64 {
    #[cfg(target_os = "linux")]
    let time = clock_gettime(ClockId::Boottime);
    #[cfg(not(target_os = "linux"))]
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// What the machine's clock will show at this instant.
pub(super) fn on_the_clock(instant: Instant) -> u64 {
    let left = instant.saturating_duration_since(Instant::now());
    clock().saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_asked_in_time_and_not_too_early() {
        let seconds = Duration::from_secs;
        assert_eq!(notice(seconds(10), seconds(10)), seconds(2));
        assert_eq!(notice(seconds(10), seconds(1)), seconds(1));
        assert_eq!(notice(seconds(10), seconds(0)), seconds(0));
    }

    #[test]
    fn clocks_agree() {
        let (before, after) = (clock(), on_the_clock(Instant::now() + Duration::from_secs(60)));
        assert!((before + 59_000..=before + 61_000).contains(&after));
    }
}

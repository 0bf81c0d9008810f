//! What is said while waiting: how many are before us, and who holds it.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use semaforo_client::Client;
use serde_json::Value;

use super::holdings::Wanted;
use crate::cli::connection::label;
use crate::cli::visible::visible;

/// So many holders are named.
const NAMED: usize = 3;
/// An answer that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// What has been said so far.
#[derive(Debug)]
pub(super) struct Progress {
    quiet: bool,
    on_terminal: bool,
    /// On a terminal: a line that can be overwritten. Otherwise: the one line that is said.
    has_spoken: bool,
    own: String,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        Self { quiet, on_terminal, has_spoken: false, own: label() }
    }

    /// Says what this one waits for.
    pub(super) fn show(&mut self, client: &Client, wanted: &Wanted) {
        if self.quiet || (self.has_spoken && !self.on_terminal) {
            return;
        }
        let Ok(state) = client.show(&wanted.path()).timeout(PATIENCE).wait() else { return };
        let Ok(state) = serde_json::from_str(&state) else { return };
        let line = line(wanted, &state, &self.own);
        let line = visible(&line);
        let mut output = std::io::stderr().lock();
        // The reader may be gone.
        let _ = if self.on_terminal {
            let width = tcgetwinsize(&output).map_or(0, |size| usize::from(size.ws_col));
            // A terminal that does not know its width says 0.
            let width = if width == 0 { 80 } else { width };
            let line: String = line.chars().take(width - 1).collect();
            write!(output, "\r{line}\x1b[K")
        } else {
            writeln!(output, "semaforo: {line}")
        };
        self.has_spoken = true;
    }

    /// Takes back what can be taken back.
    pub(super) fn clear(&mut self) {
        if self.on_terminal && std::mem::take(&mut self.has_spoken) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// `waiting for lock deploy: 2nd in line, held by ana@host:17`.
fn line(wanted: &Wanted, state: &Value, own: &str) -> String {
    let list = |name: &str| state.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let place = list("waiters").iter().position(|waiter| waiter.as_str() == Some(own));
    let mut line = format!("waiting for {wanted}");
    if let Some(place) = place {
        line.push_str(&format!(": {} in line", ordinal(place + 1)));
    }
    let holders = list("holders");
    let count = state.get("held").and_then(Value::as_u64).unwrap_or(holders.len() as u64);
    let names: Vec<_> = holders
        .iter()
        .filter_map(|holder| holder.get("who").and_then(Value::as_str))
        .take(NAMED)
        .collect();
    if !names.is_empty() {
        line.push_str(&format!(", held by {}", names.join(", ")));
        let others = count.saturating_sub(names.len() as u64);
        if others > 0 {
            line.push_str(&format!(" and {others} more"));
        }
    }
    line
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_is_before_us() {
        let state = json!({"held": 1, "holders": [{"who": "ana@a:1", "fence": 3}],
            "waiting": 2, "waiters": ["bea@b:2", "me@c:3"]});
        let wanted = Wanted::Lock("deploy".into());
        assert_eq!(
            line(&wanted, &state, "me@c:3"),
            "waiting for lock deploy: 2nd in line, held by ana@a:1"
        );
        let many: Vec<_> = (0..9).map(|number| json!({"who": format!("w:{number}")})).collect();
        let state = json!({"held": 9, "holders": many, "waiters": ["me"]});
        let wanted = Wanted::Semaphore { name: "gpu".into(), of: None, units: 1 };
        assert_eq!(
            line(&wanted, &state, "me"),
            "waiting for semaphore gpu: 1st in line, held by w:0, w:1, w:2 and 6 more"
        );
        assert_eq!(line(&wanted, &json!({}), "me"), "waiting for semaphore gpu");
    }

    #[test]
    fn places_in_line() {
        let places = [1, 2, 3, 4, 11, 12, 13, 21, 101, 111, 122];
        let words: Vec<_> = places.map(ordinal).into();
        assert_eq!(words.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 101st 111th 122nd");
    }
}

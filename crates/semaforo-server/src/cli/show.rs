//! `semaforo show`.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::Value;

use super::context::Context;
use super::kind::Kind;

/// Shows one object, who holds it and who waits; or, without a name, the server
#[derive(Args, Debug)]
pub(super) struct Show {
    /// Its kind
    #[arg(value_enum, requires = "name")]
    kind: Option<Kind>,
    /// Its name
    name: Option<String>,
}

impl Show {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        match (self.kind, self.name) {
            (Some(kind), Some(name)) => object(context, &format!("{}/{name}", kind.path()))?,
            _ => object(context, "/")?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows what is there.
pub(super) fn object(context: &Context, path: &str) -> Result<()> {
    let reply = context.answer(|client| client.request("SHOW", path))?;
    let state: Value = serde_json::from_str(reply.payload.as_deref().unwrap_or_default())
        .context("what the server shows makes no sense")?;
    if context.output.json {
        return context.output.json(&state);
    }
    for line in lines(&state) {
        context.output.shown(&line)?;
    }
    Ok(())
}

/// The state as people read it: what it is, then its members, then holders and waiters.
fn lines(state: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut lines = Vec::new();
    if let (Some(kind), Some(name)) = (state.get("kind"), state.get("name")) {
        lines.push(format!("{} {}", text(kind), text(name)));
    }
    let members = state.as_object().into_iter().flatten();
    for (name, value) in members {
        match (name.as_str(), value) {
            ("kind" | "name", _) if !lines.is_empty() => {}
            ("holders", Value::Array(holders)) => {
                for holder in holders {
                    let mut line = "  held by".to_owned();
                    for (name, value) in holder.as_object().into_iter().flatten() {
                        let value = text(value);
                        line.push_str(&match name.as_str() {
                            "who" => format!(" {value}"),
                            _ => format!(", {name} {value}"),
                        });
                    }
                    lines.push(line);
                }
            }
            ("waiters", Value::Array(waiters)) => {
                let waiters = waiters.iter().enumerate();
                lines.extend(
                    waiters.map(|(index, who)| format!("  waiter {}: {}", index + 1, text(who))),
                );
            }
            (_, value) => lines.push(format!("  {name}: {}", text(value))),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_state_as_people_read_it() {
        let state = json!({"kind": "semaphore", "name": "gpu", "permits": 2, "held": 1,
            "holders": [{"who": "ana@a:1", "fence": 7, "permits": 2}],
            "waiting": 1, "waiters": ["bea@b:2"]});
        let expected = "\
semaphore gpu
  permits: 2
  held: 1
  held by ana@a:1, fence 7, permits 2
  waiting: 1
  waiter 1: bea@b:2";
        assert_eq!(lines(&state).join("\n"), expected);
        assert_eq!(lines(&json!({"sessions": 3})), ["  sessions: 3"]);
    }
}

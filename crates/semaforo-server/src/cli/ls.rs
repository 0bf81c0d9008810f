//! `semaforo ls`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use semaforo_client::{Client, Error};
use semaforo_protocol::limits::MAX_LIST;
use serde_json::Value;

use super::context::Context;
use super::kind::Kind;

/// Lists what there is: how many hold it (of a queue: how many messages it has), and how many wait
#[derive(Args, Debug)]
pub(super) struct Ls {
    /// Only of this kind
    #[arg(value_enum)]
    kind: Option<Kind>,
    /// Only names that begin so
    #[arg(long, value_name = "P", default_value = "")]
    prefix: String,
}

impl Ls {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        let client = context.open()?;
        let list = self.list(&client);
        let list = context.settle(client, list, None)?;
        if context.output.json {
            for entry in list {
                context.output.json(&entry)?;
            }
        } else if !list.is_empty() {
            for line in table(&list) {
                context.output.shown(&line)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Ls {
    /// What there is, answer after answer: a long list comes in several.
    fn list(&self, client: &Client) -> Result<Vec<Value>, Error> {
        let path = self.kind.map_or_else(|| "/".to_owned(), Kind::path);
        let mut list = Vec::new();
        let mut after = None;
        loop {
            let mut request = client.request("LIST", &*path).header("limit", MAX_LIST);
            if !self.prefix.is_empty() {
                request = request.header("prefix", &*self.prefix);
            }
            if let Some(after) = &after {
                request = request.header("after", after);
            }
            let reply = request.wait()?;
            let payload = reply.payload.as_deref().unwrap_or("[]");
            let entries: Vec<Value> = serde_json::from_str(payload)
                .map_err(|wrong| Error::Nonsense(format!("the server's list: {wrong}")))?;
            list.extend(entries);
            let next = reply.header("after").map(str::to_owned);
            if next.is_none() || next == after {
                return Ok(list);
            }
            after = next;
        }
    }
}

fn table(list: &[Value]) -> Vec<String> {
    let cell = |entry: &Value, name: &str| match entry.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let width = list.iter().map(|entry| cell(entry, "name").chars().count()).max().unwrap_or(0);
    let width = width.max("NAME".len());
    let heading = format!("{:<9}  {:<width$}  {:>6}  {:>7}", "KIND", "NAME", "HELD", "WAITING");
    let rows = list.iter().map(|entry| {
        let [kind, name, held, waiting] =
            ["kind", "name", "held", "waiting"].map(|name| cell(entry, name));
        format!("{kind:<9}  {name:<width$}  {held:>6}  {waiting:>7}")
    });
    std::iter::once(heading).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_as_wide_as_their_names() {
        let list = [
            json!({"kind": "lock", "name": "deploy/production", "held": 1, "waiting": 12}),
            json!({"kind": "semaphore", "name": "gpu", "held": 2, "waiting": 0}),
        ];
        let expected = "\
KIND       NAME                 HELD  WAITING
lock       deploy/production       1       12
semaphore  gpu                     2        0";
        assert_eq!(table(&list).join("\n"), expected);
    }
}

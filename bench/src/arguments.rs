//! The command line: an area, and how much of it to run.

use std::fs::File;
use std::path::Path;

use lexopt::prelude::*;

use crate::measure::Plan;
use crate::row::Row;
#[cfg(target_os = "linux")]
use crate::server;
use crate::{query, queue, sync, tasks};

pub(crate) const USAGE: &str = "\
usage: bench AREA [--limits] [--quick] [--only SUBSTRING] [--json FILE] [--list]

areas:
  sync              semaphores, mutexes, read-write locks
  queue             queues, transfers, barriers, exchanger, phaser
  tasks             spawning and joining, priorities, skynet, a search as a task
  query             matrix multiplication, filter and sum, group, join, order
  server            messages, locks, recovery and memory, beside the servers that are installed
                    here: redis, beanstalkd, etcd, nats (only on Linux)

options:
  --limits          server: what one client can do to others, and what much of everything costs
  --quick           fewer and shorter samples: under 40 s for all rows, server under 60 s
  --only SUBSTRING  only rows whose name contains SUBSTRING
  --json FILE       also write the figures to FILE
  --list            name the rows and stop
  --help            show this and stop";

const AREAS: &str = "there are: sync, queue, tasks, query, server (only on Linux)";

/// The rows of an area, by its name on the command line.
fn rows_of(area: &str, limits: bool, plan: &Plan) -> Result<Vec<Row>, String> {
    match area {
        #[cfg(target_os = "linux")]
        "server" if limits => Ok(server::limits(plan)),
        _ if limits => Err(format!("--limits is of the area server, and not of {area}")),
        "sync" => Ok(sync::rows()),
        "queue" => Ok(queue::rows()),
        "tasks" => Ok(tasks::rows(plan)),
        "query" => Ok(query::rows(plan)),
        #[cfg(target_os = "linux")]
        "server" => Ok(server::rows(plan)),
        unknown => Err(format!("there is no area {unknown:?}; {AREAS}")),
    }
}

fn plan_of(area: &str, quick: bool) -> Plan {
    match area {
        #[cfg(target_os = "linux")]
        "server" => server::plan(quick),
        _ if quick => Plan::quick(),
        _ => Plan::thorough(),
    }
}

pub(crate) enum Command {
    Help,
    List(Vec<Row>),
    Run(Run),
}

pub(crate) struct Run {
    pub(crate) rows: Vec<Row>,
    pub(crate) plan: Plan,
    pub(crate) json: Option<File>,
}

pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Command, String> {
    let (mut area, mut only, mut json) = (None, None, None);
    let (mut quick, mut list, mut limits) = (false, false, false);
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Value(name) if area.is_none() => area = Some(name.to_string_lossy().into_owned()),
            Long("quick") => quick = true,
            Long("list") => list = true,
            Long("limits") => limits = true,
            Long("only") => only = Some(text_after("--only", &mut parser)?),
            Long("json") => json = Some(text_after("--json", &mut parser)?),
            Long("help") | Short('h') => return Ok(Command::Help),
            unknown => return Err(unknown.unexpected().to_string()),
        }
    }

    let area = area.ok_or_else(|| format!("which area? {AREAS}"))?;
    let plan = plan_of(&area, quick);
    let rows = selected(area, limits, only, &plan)?;
    if list {
        return Ok(Command::List(rows));
    }
    // Opened before the first measurement: a mistyped path should not cost a run.
    let json = json.map(|path| create(Path::new(&path))).transpose()?;
    Ok(Command::Run(Run { rows, plan, json }))
}

fn text_after(option: &str, parser: &mut lexopt::Parser) -> Result<String, String> {
    let value = parser.value().map_err(|error| error.to_string())?;
    value.into_string().map_err(|value| format!("{option} {value:?} is not valid UTF-8"))
}

fn selected(
    area: String,
    limits: bool,
    only: Option<String>,
    plan: &Plan,
) -> Result<Vec<Row>, String> {
    let mut rows = rows_of(&area, limits, plan)?;
    if let Some(part) = only {
        rows.retain(|row| row.id.contains(&part));
        if rows.is_empty() {
            return Err(format!("no row of {area} contains {part:?}; --list names them"));
        }
    }
    Ok(rows)
}

fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| format!("--json {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(arguments: &[&str]) -> String {
        match parse(lexopt::Parser::from_args(arguments)) {
            Ok(_) => panic!("{arguments:?} was accepted"),
            Err(message) => message,
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        assert!(refusal(&[]).contains("which area"));
        assert!(refusal(&["sink"]).contains("\"sink\""));
        assert!(refusal(&["sync", "tasks"]).contains("\"tasks\""));
        assert!(refusal(&["sync", "--fast"]).contains("--fast"));
        assert!(refusal(&["sync", "--limits"]).contains("--limits"));
        assert!(refusal(&["sync", "--only"]).contains("--only"));
        assert!(refusal(&["sync", "--only", "nothing-like-it"]).contains("nothing-like-it"));
        assert!(refusal(&["sync", "--json", "/nowhere/at/all"]).contains("/nowhere/at/all"));
    }

    #[test]
    fn rows_are_chosen_by_a_part_of_their_name() {
        let Ok(Command::List(rows)) =
            parse(lexopt::Parser::from_args(["sync", "--list", "--only", "queue-behind"]))
        else {
            panic!("a list was asked for");
        };
        let names: Vec<&str> = rows.iter().map(|row| row.id).collect();
        assert_eq!(names, ["queue-behind-0", "queue-behind-100000"]);
    }
}

//! Semaforo beside its peers: `cargo run --release -p bench -- sync`.
//!
//! One command per area. Each row of an area gives the same work to ours and to
//! every peer, in turns within one run, so that a busy or slow machine hurts all
//! of them alike. Figures are medians; a missed bar is shown, not punished.

mod arguments;
mod java;
mod measure;
mod placement;
mod query;
mod queue;
mod report;
mod row;
#[cfg(target_os = "linux")]
mod server;
mod sync;
mod tasks;
mod workload;

use std::process::ExitCode;

use arguments::{Command, Run, USAGE};

/// EX_USAGE of BSD's sysexits.h.
const BAD_USAGE: u8 = 64;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = server::disguised() {
        return code;
    }
    match arguments::parse(lexopt::Parser::from_env()) {
        Ok(Command::Help) => println!("{USAGE}"),
        Ok(Command::List(rows)) => report::list(&rows),
        Ok(Command::Run(run)) => compare(run),
        Err(message) => {
            eprintln!("bench: {message}\n\n{USAGE}");
            return ExitCode::from(BAD_USAGE);
        }
    }
    ExitCode::SUCCESS
}

fn compare(run: Run) {
    let table = report::Table::begin(&run.rows, &run.plan);
    let measured = run.rows.iter().map(|row| measure::run(row, &run.plan));
    let outcomes: Vec<_> = measured.inspect(|outcome| table.line(outcome)).collect();
    table.end(&outcomes);
    java::stop();
    if let Some(file) = run.json {
        report::write_json(&outcomes, file).expect("the report's file takes what is written");
    }
}

//! Ours, which is this very program under another name: the same build, the same profile.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use super::dialects::Semaforo;
use super::disguise::Program;
use super::load::Failure;
use super::peers::{Kept, MOST_CONNECTIONS, words};
use super::process::Recipe;
use super::stream;

/// Its column.
pub(super) const CONTESTANT: &str = "ours";

/// The name by which the program knows that it is to be the server.
pub(super) const NAME: &str = "semaforo";

/// What the binary `semaforo` does.
pub(super) fn main() -> ExitCode {
    semaforo_server::cli::main(std::env::args_os())
}

pub(super) fn semaforo(kept: Kept) -> Option<Recipe<Semaforo>> {
    let arguments = move |port: &str, path: &Path| arguments(kept, port, path);
    Some(Recipe::new(CONTESTANT, Program::Myself(NAME), arguments, || Semaforo::new("")))
}

/// In memory, with clients that are encrypted.
pub(super) fn encrypted() -> Option<Recipe<Semaforo>> {
    let config = stream::client_config()
        .map_err(|reason| super::report(CONTESTANT, &Failure(reason)))
        .ok()?;
    let arguments = move |port: &str, path: &Path| {
        let mut arguments = arguments(Kept::InMemory, port, path);
        for (option, name, text) in [
            ("--tls-cert", "certificate.pem", stream::CERTIFICATE),
            ("--tls-key", "key.pem", stream::KEY),
        ] {
            let file = path.join(name);
            let mut options = File::options();
            options.write(true).create(true).truncate(true).mode(0o600);
            // Without it the server does not start, and says why.
            let _ = options.open(&file).and_then(|mut file| file.write_all(text.as_bytes()));
            arguments.extend([option.into(), file.into()]);
        }
        arguments
    };
    let recipe = Recipe::new(CONTESTANT, Program::Myself(NAME), arguments, || Semaforo::new(""));
    Some(recipe.encrypted(config))
}

fn arguments(kept: Kept, port: &str, path: &Path) -> Vec<OsString> {
    let listen = format!("127.0.0.1:{port}");
    let mut arguments = words(&["serve", "--listen", &listen, "--http", "127.0.0.1:0"]);
    arguments.extend(words(&["--max-connections", MOST_CONNECTIONS]));
    arguments.extend(match kept {
        Kept::InMemory => words(&["--journal", "memory", "--data"]),
        Kept::OnDisk => words(&["--journal", "file", "--durability", "always", "--data"]),
    });
    arguments.push(path.join("data").into());
    arguments
}

/// With places for more than a million of everything, and a journal that is synced when a segment is full.
pub(super) fn in_abundance() -> Option<Recipe<Semaforo>> {
    let arguments = move |port: &str, path: &Path| {
        let listen = format!("127.0.0.1:{port}");
        let mut arguments = words(&["serve", "--listen", &listen, "--http", "127.0.0.1:0"]);
        arguments.extend(words(&["--max-objects", "3000000", "--max-holds", "3000000"]));
        arguments.extend(words(&["--max-waits", "3000000"]));
        arguments.extend(words(&["--durability", "memory", "--data"]));
        arguments.push(path.join("data").into());
        arguments
    };
    Some(Recipe::new(CONTESTANT, Program::Myself(NAME), arguments, || Semaforo::new("")))
}

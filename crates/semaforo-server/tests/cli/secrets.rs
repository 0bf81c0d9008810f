//! Files with secrets, and secrets that other users of the machine must not see.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use super::support::{Directory, Ended, Program, SEMAFORO, Server, attentive};

const TOKEN: &str = "0123456789abcdef";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Starts a server that is to refuse its files.
fn refused(arguments: &[&str]) -> Ended {
    let mut command = attentive(SEMAFORO);
    command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]).args(arguments);
    let ended = Program::start(command.stdin(Stdio::null())).wait();
    assert_ne!(ended.code(), 0);
    assert_eq!(ended.stdout, "", "it does not listen");
    ended
}

#[test]
fn a_token_file_that_others_can_read_or_write_is_refused() {
    let directory = Directory::new();
    let tokens = directory.secret("tokens", &format!("{TOKEN}\n"));
    let serve = ["--journal", "memory", "--tokens", tokens.to_str().unwrap()];
    for (wrong, what) in [
        (0o644, "read"),
        (0o604, "read"),
        (0o620, "written"),
        (0o602, "written"),
        (0o660, "written"),
        (0o666, "written"),
    ] {
        set_mode(&tokens, wrong);
        let ended = refused(&serve);
        let expected = [what, &format!("{wrong:o}"), tokens.to_str().unwrap(), "chmod 600"];
        for word in expected {
            assert!(ended.stderr.contains(word), "{wrong:o} {word}: {}", ended.stderr);
        }
    }
    for right in [0o600, 0o400] {
        set_mode(&tokens, right);
        let server = Server::with(&serve);
        server.print(&["ls", "--token-file", tokens.to_str().unwrap()]);
    }
    // The same for the file of a client.
    set_mode(&tokens, 0o600);
    let server = Server::with(&serve);
    set_mode(&tokens, 0o644);
    let ended = server.semaforo(&["ls", "--token-file", tokens.to_str().unwrap()]);
    assert_eq!(ended.code(), 1);
    assert!(ended.stderr.contains("chmod 600"), "{}", ended.stderr);
}

#[test]
fn links_and_things_that_are_not_files_are_refused() {
    let directory = Directory::new();
    let tokens = directory.secret("tokens", &format!("{TOKEN}\n"));
    let link = directory.file("link");
    symlink(&tokens, &link).unwrap();
    let ended = refused(&["--journal", "memory", "--tokens", link.to_str().unwrap()]);
    assert!(ended.stderr.contains("is a link"), "{}", ended.stderr);
    let pipe = directory.file("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    for path in [&*pipe, directory.path()] {
        let ended = refused(&["--journal", "memory", "--tokens", path.to_str().unwrap()]);
        assert!(ended.stderr.contains("not a file"), "{}", ended.stderr);
    }
}

#[test]
fn a_key_that_others_can_read_and_a_certificate_that_they_can_write_are_refused() {
    let directory = Directory::new();
    let [certificate, key] = directory.certificate();
    let [certificate_text, key_text] = [&certificate, &key].map(|path| path.to_str().unwrap());
    let serve = ["--journal", "memory", "--tls-cert", certificate_text, "--tls-key", key_text];
    set_mode(&key, 0o644);
    let ended = refused(&serve);
    assert!(ended.stderr.contains("read") && ended.stderr.contains(key_text), "{}", ended.stderr);
    set_mode(&key, 0o600);
    set_mode(&certificate, 0o666);
    let ended = refused(&serve);
    assert!(ended.stderr.contains("written"), "{}", ended.stderr);
    assert!(ended.stderr.contains(certificate_text), "{}", ended.stderr);
    // It is no secret.
    set_mode(&certificate, 0o644);
    let server = Server::with(&serve);
    server.print(&["ls", "--ca", certificate_text]);
}

#[test]
fn a_data_directory_that_others_can_write_is_refused_and_a_new_one_is_closed_to_them() {
    let directory = Directory::new();
    let data = directory.file("data");
    fs::create_dir(&data).unwrap();
    for wrong in [0o777, 0o770, 0o702] {
        set_mode(&data, wrong);
        let ended = refused(&["--data", data.to_str().unwrap()]);
        for word in [data.to_str().unwrap(), "written", &format!("{wrong:o}")] {
            assert!(ended.stderr.contains(word), "{wrong:o} {word}: {}", ended.stderr);
        }
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "nothing is begun in it");
    }
    let new = directory.file("some/new");
    let server = Server::with(&["--data", new.to_str().unwrap()]);
    server.print(&["queue", "create", "q"]);
    assert_eq!(mode(&new), 0o700);
    let files: Vec<_> = fs::read_dir(&new).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}: there are sessions in it", file.display());
    }
}

/// There are secrets of sessions in it; where only fences are, other users may look.
#[test]
fn a_data_directory_that_others_can_read_is_refused_if_there_is_a_journal_in_it() {
    let directory = Directory::new();
    let data = directory.file("data");
    let data_text = data.to_str().unwrap();
    drop(Server::with(&["--data", data_text]));
    for wrong in [0o755, 0o750, 0o701, 0o704] {
        set_mode(&data, wrong);
        let ended = refused(&["--data", data_text]);
        let fix = format!("(mode {wrong:o}): chmod 700 {data_text}");
        assert!(ended.stderr.contains("can be read") && ended.stderr.contains(&fix), "{wrong:o}");
        drop(Server::with(&["--journal", "memory", "--data", data_text]));
    }
    set_mode(&data, 0o700);
    drop(Server::with(&["--data", data_text]));
}

/// A user who can write there decides which fences are given out.
#[test]
fn without_a_journal_the_directory_of_the_fences_is_looked_at_too() {
    let directory = Directory::new();
    let data = directory.file("data");
    fs::create_dir(&data).unwrap();
    for wrong in [0o777, 0o770, 0o702] {
        set_mode(&data, wrong);
        let ended = refused(&["--journal", "memory", "--data", data.to_str().unwrap()]);
        assert!(ended.stderr.contains("written"), "{wrong:o}: {}", ended.stderr);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "nothing is begun in it");
    }
}

#[test]
fn a_data_directory_that_is_a_link_is_refused() {
    let directory = Directory::new();
    let [data, link, nowhere] = ["data", "link", "nowhere"].map(|name| directory.file(name));
    drop(Server::with(&["--data", data.to_str().unwrap()]));
    symlink(&data, &link).unwrap();
    symlink(directory.file("missing"), &nowhere).unwrap();
    let link = link.to_str().unwrap();
    for path in [link, &format!("{link}/"), &format!("{link}/.")] {
        for journal in ["memory", "file"] {
            let ended = refused(&["--journal", journal, "--data", path]);
            assert!(ended.stderr.contains("is a link"), "{path}: {}", ended.stderr);
        }
    }
    let ended = refused(&["--journal", "memory", "--data", nowhere.to_str().unwrap()]);
    assert!(ended.stderr.contains("is a link"), "{}", ended.stderr);
}

/// A file of the journal is a file: what a link leads to is neither read nor written.
#[test]
fn a_file_of_the_journal_that_is_a_link_is_refused() {
    let directory = Directory::new();
    let data = directory.file("data");
    let serve = ["--data", data.to_str().unwrap()];
    let server = Server::with(&serve);
    server.print(&["queue", "create", "q"]);
    drop(server);
    let names: Vec<_> =
        fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.len() >= 2, "a lock and a segment: {names:?}");
    for name in &names {
        let (file, elsewhere) = (data.join(name), directory.file("elsewhere"));
        fs::rename(&file, &elsewhere).unwrap();
        let before = fs::read(&elsewhere).unwrap();
        symlink(&elsewhere, &file).unwrap();
        let ended = refused(&serve);
        let expected = format!("{} is a link", file.display());
        assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
        assert!(before == fs::read(&elsewhere).unwrap(), "{name:?} was written to");
        fs::remove_file(&file).unwrap();
        fs::rename(&elsewhere, &file).unwrap();
    }
    let server = Server::with(&serve);
    server.print(&["queue", "show", "q"]);
}

/// It is warned about as every other place where they cannot be kept.
#[test]
fn fences_are_not_reserved_behind_a_link() {
    let directory = Directory::new();
    let [data, elsewhere] = ["data", "elsewhere"].map(|name| directory.file(name));
    fs::create_dir(&data).unwrap();
    fs::write(&elsewhere, "precious").unwrap();
    symlink(&elsewhere, data.join("fences")).unwrap();
    let server = Server::with(&["--journal", "memory", "--data", data.to_str().unwrap()]);
    server.wait_for_log("fences cannot be reserved", "is a link");
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");
}

#[test]
fn a_session_is_passed_on_in_the_environment() {
    let server = Server::start();
    let opened = server.json(&["session", "open"]);
    let with_session = |arguments: &[&str]| {
        let mut command = server.command(arguments);
        command.env("SEMAFORO_SESSION", opened["session"].as_str().unwrap());
        let ended = Program::start(&mut command).wait();
        assert_eq!(ended.code(), 0, "{arguments:?}: {}", ended.stderr);
        ended.stdout
    };
    let printed = with_session(&["lock", "acquire", "a"]);
    assert!(printed.starts_with("fence=") && printed.lines().count() == 1, "{printed}");
    with_session(&["session", "keepalive"]);
    with_session(&["lock", "release", "a"]);
    with_session(&["session", "close"]);
}

#[test]
fn a_session_is_kept_in_a_file() {
    let server = Server::start();
    let file = server.directory.file("session");
    let file_text = file.to_str().unwrap();
    fn with<'a>(arguments: &[&'a str], file: &'a str) -> Vec<&'a str> {
        [arguments, &["--session-file", file]].concat()
    }
    // The first to come makes it.
    let printed = server.print(&with(&["lock", "acquire", "a"], file_text));
    assert!(printed.starts_with("fence=") && printed.lines().count() == 1, "{printed}");
    assert_eq!(mode(&file), 0o600);
    let session = fs::read_to_string(&file).unwrap();
    assert_eq!(session.trim_end().len(), 32);
    server.print(&with(&["lock", "acquire", "b"], file_text));
    assert_eq!(fs::read_to_string(&file).unwrap(), session);
    server.print(&with(&["session", "keepalive"], file_text));
    server.print(&with(&["lock", "release", "a"], file_text));
    assert_eq!(server.semaforo(&with(&["session", "open"], file_text)).code(), 1, "there is one");
    server.print(&with(&["session", "close"], file_text));
    assert!(!file.exists(), "it is of no use any more");
    assert_eq!(server.semaforo(&["lock", "show", "b"]).code(), 1, "it was in the session");

    assert_eq!(server.print(&with(&["session", "open", "--ttl", "5m"], file_text)), "ttl=300000\n");
    set_mode(&file, 0o644);
    let ended = server.semaforo(&with(&["lock", "acquire", "a"], file_text));
    assert_eq!(ended.code(), 1);
    assert!(ended.stderr.contains("chmod 600"), "{}", ended.stderr);
    set_mode(&file, 0o600);
    let closed = server.json(&with(&["session", "close"], file_text));
    assert_eq!(closed, json!({"status": 200}));

    // What is not granted leaves nothing behind.
    server.print(&["lock", "acquire", "c"]);
    let ended = server.semaforo(&with(&["lock", "acquire", "c", "--timeout", "0s"], file_text));
    assert_eq!(ended.code(), 124);
    assert!(!file.exists());
    let ended = server.semaforo(&with(&["lock", "release", "c"], file_text));
    assert_eq!(ended.code(), 1);
    assert!(ended.stderr.contains(file_text), "{}", ended.stderr);
    assert_eq!(server.semaforo(&["lock", "release", "c"]).code(), 64);
}

#[test]
fn children_are_not_told_the_token() {
    let directory = Directory::new();
    let tokens = directory.secret("tokens", &format!("{TOKEN}\n"));
    let server = Server::with(&["--journal", "memory", "--tokens", tokens.to_str().unwrap()]);
    let print = |arguments: &[&str]| {
        let ended = Program::start(server.command(arguments).env("SEMAFORO_TOKEN", TOKEN)).wait();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        ended.stdout
    };
    print(&["queue", "create", "q"]);
    print(&["queue", "put", "q", "1"]);
    let run = print(&["run", "--lock", "a", "--", "env"]);
    let work = print(&["work", "q", "--max", "1", "--", "env"]);
    for environment in [run, work] {
        assert!(environment.contains("SEMAFORO_SERVER="));
        assert!(!environment.contains("SEMAFORO_TOKEN"));
        assert!(!environment.contains(TOKEN));
    }
}

//! The simple commands: what they print, as text and as JSON, and how they end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{LIMIT, Program, SEMAFORO, Server, wait_until};

/// What an acquire prints, for a shell to evaluate.
fn session_and_fence(printed: &str) -> (String, String) {
    let mut lines = printed.lines();
    let mut value = |name: &str| {
        let line = lines.next().unwrap();
        line.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')).unwrap().to_owned()
    };
    (value("session"), value("fence"))
}

#[test]
fn locks() {
    let server = Server::start();
    let (session, fence) = session_and_fence(&server.print(&["lock", "acquire", "a"]));
    assert_eq!(session.len(), 32);
    assert_eq!(server.print(&["lock", "check", "a", "--fence", &fence]), "");
    assert_eq!(server.semaforo(&["lock", "acquire", "a", "--timeout", "0s"]).code(), 124);
    let refused = server.json(&["lock", "acquire", "a", "--timeout", "10ms"]);
    assert_eq!(refused, json!({"status": 204}));

    let shown = server.print(&["lock", "show", "a"]);
    assert!(shown.starts_with("lock a\n  held: 1\n  held by tester@"), "{shown}");
    assert!(shown.contains(&format!("fence {fence}")), "{shown}");

    // Another lock in the same session.
    let other = server.print(&["lock", "acquire", "b", "--session", &session]);
    assert!(other.starts_with("fence="), "{other}");
    server.print(&["lock", "release", "a", "--session", &session, "--fence", &fence]);
    let ended = server.semaforo(&["lock", "check", "a", "--fence", &fence]);
    assert_eq!((ended.code(), &*ended.stdout), (1, ""));
    assert!(ended.stderr.starts_with("semaforo: gone: "), "{}", ended.stderr);
    let gone = server.json(&["lock", "release", "a", "--session", &session]);
    assert_eq!(gone["status"], 410);

    let waiting = server.start_program(&["lock", "acquire", "b"]);
    server.wait_for_waiting("lock", "b", 1);
    server.print(&["session", "close", &session]);
    let ended = waiting.wait();
    assert_eq!(ended.code(), 0);
    let (session, _) = session_and_fence(&ended.stdout);
    let closed = server.json(&["session", "close", &session]);
    assert_eq!(closed, json!({"status": 200}));
    assert_eq!(server.semaforo(&["lock", "show", "b"]).code(), 1, "it has vanished");
}

#[test]
fn a_wait_in_somebodys_session_keeps_it_alive() {
    let server = Server::start();
    let opened = server.json(&["session", "open", "--ttl", "300ms", "--label", "shell"]);
    assert_eq!(opened["ttl"], 300);
    let session = opened["session"].as_str().unwrap();
    let (holder, _) = session_and_fence(&server.print(&["lock", "acquire", "a"]));
    let arguments = ["lock", "acquire", "a", "--session", session, "--timeout", "1s"];
    assert_eq!(server.semaforo(&arguments).code(), 124, "it was alive for more than its ttl");
    let waiting = server.start_program(&arguments[..5]);
    server.wait_for_waiting("lock", "a", 1);
    waiting.signal(Signal::INT);
    assert_eq!(waiting.wait().code(), 130);
    server.wait_for_waiting("lock", "a", 0);
    server.print(&["session", "close", &holder]);
    wait_until("it is over", || {
        server.semaforo(&["session", "keepalive", session]).code() == 1 || {
            // Each of these has kept it alive.
            std::thread::sleep(Duration::from_millis(310));
            false
        }
    });
}

#[test]
fn a_server_that_hangs_does_not_keep_anybody_from_interrupting_a_wait() {
    let server = Server::start();
    let opened = server.json(&["session", "open", "--ttl", "300ms"]);
    let session = opened["session"].as_str().unwrap();
    server.print(&["lock", "acquire", "a"]);
    let waiting = server.start_program(&["lock", "acquire", "a", "--session", session]);
    server.wait_for_waiting("lock", "a", 1);
    server.signal(Signal::STOP);
    // Until the session is to be kept alive.
    let stopped = Instant::now();
    wait_until("a third of its time", || stopped.elapsed() > Duration::from_millis(150));
    waiting.signal(Signal::INT);
    assert_eq!(waiting.wait().code(), 130);
}

#[test]
fn reader_writer_locks() {
    let server = Server::start();
    let read = ["rwlock", "acquire", "w", "--read"];
    let (one, fence) = session_and_fence(&server.print(&read));
    let (two, _) = session_and_fence(&server.print(&read));
    let write = ["rwlock", "acquire", "w", "--write", "--timeout", "0s"];
    assert_eq!(server.semaforo(&write).code(), 124);
    let refused = server.json(&["rwlock", "upgrade", "w", "--session", &one]);
    assert_eq!(refused["status"], 409);
    server.print(&["rwlock", "release", "w", "--session", &two]);
    let upgraded = server.print(&["rwlock", "upgrade", "w", "--session", &one]);
    assert!(upgraded.starts_with("fence="), "{upgraded}");
    assert_eq!(server.semaforo(&["rwlock", "check", "w", "--fence", &fence]).code(), 1);
    let downgraded = server.json(&["rwlock", "downgrade", "w", "--session", &one]);
    assert_eq!(downgraded["status"], 200);
    let shown = server.print(&["rwlock", "show", "w"]);
    assert!(shown.contains("mode read"), "{shown}");
    assert_eq!(server.semaforo(&["rwlock", "acquire", "w"]).code(), 64);
    assert_eq!(server.semaforo(&["rwlock", "acquire", "w", "--read", "--write"]).code(), 64);
}

#[test]
fn semaphores() {
    let server = Server::start();
    let create = ["semaphore", "create", "s", "--permits", "3"];
    assert_eq!(server.print(&create), "created=true\n");
    assert_eq!(server.print(&create), "created=false\n");
    assert_eq!(server.json(&create), json!({"status": 200, "created": false}));
    let other = server.json(&["semaphore", "create", "s", "--permits", "4"]);
    assert_eq!(other["status"], 409);
    let acquired = server.json(&["semaphore", "acquire", "s", "--units", "2"]);
    let (session, fence) = (acquired["session"].as_str().unwrap(), acquired["fence"].to_string());
    assert_eq!(server.state("semaphore", "s", "available").unwrap(), 1);
    server.print(&["semaphore", "release", "s", "--session", session, "--units", "1"]);
    server.print(&["semaphore", "check", "s", "--fence", &fence]);
    assert_eq!(server.state("semaphore", "s", "available").unwrap(), 2);
    let most = server.semaforo(&["semaphore", "acquire", "s", "--units", "4"]);
    assert_eq!(most.code(), 1, "{}", most.stderr);
    server.print(&["semaphore", "delete", "s"]);
    assert_eq!(server.semaforo(&["semaphore", "show", "s"]).code(), 1);
    assert_eq!(server.semaforo(&["semaphore", "create", "s"]).code(), 64);
}

#[test]
fn open_semaphores() {
    let server = Server::start();
    let create = ["semaphore", "create", "s", "--permits", "3", "--open", "--initial", "0"];
    assert_eq!(server.print(&create), "created=true\n");
    assert_eq!(server.print(&create), "created=false\n");
    let acquire = ["semaphore", "acquire", "s"];
    assert_eq!(server.semaforo(&[&acquire[..], &["--timeout", "0s"]].concat()).code(), 124);
    let waiting = server.start_program(&acquire);
    server.wait_for_waiting("semaphore", "s", 1);
    assert_eq!(server.print(&["semaphore", "add", "s", "--units", "2"]), "");
    let ended = waiting.wait();
    assert_eq!((ended.code(), &*ended.stdout), (0, ""), "{}", ended.stderr);
    assert_eq!(server.state("semaphore", "s", "available").unwrap(), 1);
    let full = server.json(&["semaphore", "add", "s", "--units", "3"]);
    assert_eq!(full["status"], 409);

    // Neither a session nor its file is left behind, since nothing is held.
    let file = server.directory.path().join("session");
    server.print(&[&acquire[..], &["--session-file", file.to_str().unwrap()]].concat());
    assert!(!file.exists());
    assert_eq!(server.state("semaphore", "s", "available").unwrap(), 0);
    server.print(&["semaphore", "add", "s"]);
    let ended = server.semaforo(&["run", "--semaphore", "s", "--", "true"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.stderr.contains("it is open"), "{}", ended.stderr);
    assert_eq!(server.state("semaphore", "s", "available").unwrap(), 1);
    let shown = server.print(&["semaphore", "show", "s"]);
    assert!(shown.contains("open: true"), "{shown}");
    let wrong = ["semaphore", "create", "t", "--permits", "3", "--initial", "0"];
    assert_eq!(server.semaforo(&wrong).code(), 64);
    let above = [&create[..5], &["--open", "--initial", "4"]].concat();
    assert_eq!(server.semaforo(&above).code(), 1);
}

#[test]
fn semaphores_change_their_size() {
    let server = Server::start();
    server.print(&["semaphore", "create", "s", "--permits", "1"]);
    let resize =
        |permits| server.semaforo(&["semaphore", "resize", "s", "--permits", permits]).code();
    assert_eq!(resize("0"), 1);
    let (session, _) = session_and_fence(&server.print(&["semaphore", "acquire", "s"]));
    let waiting = server.start_program(&["semaphore", "acquire", "s"]);
    server.wait_for_waiting("semaphore", "s", 1);
    assert_eq!(resize("2"), 0);
    assert_eq!(waiting.wait().code(), 0);
    assert_eq!(resize("1"), 0);
    server.print(&["semaphore", "release", "s", "--session", &session]);
    assert_eq!(server.state("semaphore", "s", "available").unwrap(), 0);
    assert_eq!(server.semaforo(&["semaphore", "resize", "none", "--permits", "1"]).code(), 1);
    assert_eq!(server.semaforo(&["semaphore", "resize", "s"]).code(), 64);
    assert_eq!(server.semaforo(&["semaphore", "add", "s"]).code(), 1, "it is not open");
}

#[test]
fn latches() {
    let server = Server::start();
    server.print(&["latch", "create", "ready", "--count", "3"]);
    let waiting = server.start_program(&["latch", "wait", "ready"]);
    server.wait_for_waiting("latch", "ready", 1);
    assert_eq!(server.print(&["latch", "down", "ready"]), "count=2\n");
    assert_eq!(server.semaforo(&["latch", "wait", "ready", "--timeout", "0s"]).code(), 124);
    let down = server.json(&["latch", "down", "ready", "--by", "2"]);
    assert_eq!(down, json!({"status": 200, "count": 0}));
    assert_eq!(waiting.wait().code(), 0);
    server.print(&["latch", "wait", "ready"]);
    server.print(&["latch", "reset", "ready", "--count", "1"]);
    assert_eq!(server.print(&["latch", "down", "ready"]), "count=0\n");
    server.print(&["latch", "reset", "ready"]);
    let shown = server.print(&["latch", "show", "ready"]);
    assert!(shown.contains("count: 3"), "{shown}");
    server.print(&["latch", "delete", "ready"]);
    assert_eq!(server.semaforo(&["latch", "down", "ready"]).code(), 1);
}

#[test]
fn barriers() {
    let server = Server::start();
    let arguments = ["barrier", "wait", "phase", "--parties", "3"];
    let mut parties = Vec::new();
    for arrived in 1..3 {
        parties.push(server.start_program(&arguments));
        server.wait_for_waiting("barrier", "phase", arrived);
    }
    let shown = server.print(&["barrier", "show", "phase"]);
    assert!(shown.contains("parties: 3"), "{shown}");
    let last = server.json(&arguments);
    assert_eq!((&last["status"], &last["index"]), (&json!(200), &json!(2)));
    for (index, party) in parties.into_iter().enumerate() {
        let ended = party.wait();
        assert_eq!(ended.code(), 0);
        assert!(ended.stdout.contains(&format!("index={index}\n")), "{}", ended.stdout);
    }

    // One that gives up breaks it.
    let party = server.start_program(&arguments);
    server.wait_for_waiting("barrier", "phase", 1);
    party.signal(Signal::INT);
    assert_eq!(party.wait().code(), 130);
    let ended = server.semaforo(&arguments);
    assert_eq!(ended.code(), 1);
    assert!(ended.stderr.contains("broken"), "{}", ended.stderr);
    server.print(&["barrier", "reset", "phase"]);
    let timed_out = server.semaforo(&[&arguments[..], &["--timeout", "10ms"]].concat());
    assert_eq!(timed_out.code(), 124);
}

#[test]
fn events() {
    let server = Server::start();
    server.print(&["event", "create", "go"]);
    assert_eq!(server.semaforo(&["event", "wait", "go", "--timeout", "0s"]).code(), 124);
    let waiting = server.start_program(&["event", "wait", "go"]);
    server.wait_for_waiting("event", "go", 1);
    server.print(&["event", "set", "go"]);
    assert_eq!(waiting.wait().code(), 0);
    assert_eq!(server.state("event", "go", "set").unwrap(), true);
    server.print(&["event", "reset", "go"]);
    assert_eq!(server.state("event", "go", "set").unwrap(), false);
    server.print(&["event", "create", "once", "--auto", "--set"]);
    server.print(&["event", "wait", "once"]);
    assert_eq!(server.semaforo(&["event", "wait", "once", "--timeout", "0s"]).code(), 124);
    let shown = server.print(&["event", "show", "once"]);
    assert!(shown.contains("reset: auto"), "{shown}");
    server.print(&["event", "delete", "once"]);
    assert_eq!(server.semaforo(&["event", "set", "once"]).code(), 1);
}

#[test]
fn queues() {
    let server = Server::start();
    server.print(&["queue", "create", "q", "--capacity", "2"]);
    assert_eq!(server.print(&["queue", "put", "q", r#"{"n": 1}"#]), "message=1\n");
    let put = ["queue", "put", "q", "soon", "--raw", "--priority", "-1"];
    assert_eq!(server.json(&put), json!({"status": 200, "message": 2}));
    assert_eq!(server.semaforo(&["queue", "put", "q", "3", "--timeout", "0s"]).code(), 124);
    assert_eq!(server.print(&["queue", "take", "q", "--raw"]), "soon\n");
    let taken = server.json(&["queue", "take", "q"]);
    let expected = json!({"status": 200, "message": 1, "deliveries": 1, "payload": {"n": 1}});
    assert_eq!(taken, expected);
    assert_eq!(server.semaforo(&["queue", "take", "q", "--timeout", "0s"]).code(), 124);

    // From the standard input, and later.
    let mut command = server.command(&["queue", "put", "q", "-", "--delay", "1h"]);
    let mut program = Program::start(command.stdin(Stdio::piped()));
    program.feed("[1,\n2]\n");
    assert_eq!(program.wait().code(), 0);
    assert_eq!(server.state("queue", "q", "delayed").unwrap(), 1);
    let taking = server.start_program(&["queue", "take", "q", "--json"]);
    server.wait_for_waiting("queue", "q", 1);
    server.print(&["queue", "transfer", "q", "[1,\n2]"]);
    let ended = taking.wait();
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    let taken: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(taken["payload"], json!([1, 2]));

    let transfer = ["queue", "transfer", "q", "1", "--timeout", "10ms"];
    assert_eq!(server.semaforo(&transfer).code(), 124);
    assert_eq!(server.state("queue", "q", "ready").unwrap(), 0);
    for arguments in [&["queue", "put", "q", "{"][..], &["queue", "put", "q", "hello"]] {
        let ended = server.semaforo(arguments);
        assert_eq!(ended.code(), 64);
        assert!(ended.stderr.contains("--raw"), "{}", ended.stderr);
    }
    let shown = server.print(&["queue", "show", "q"]);
    assert!(shown.starts_with("queue q\n  capacity: 2\n"), "{shown}");
    server.print(&["queue", "delete", "q"]);
    let missing = server.json(&["queue", "put", "q", "1"]);
    assert_eq!(missing["status"], 404);
    assert_eq!(server.semaforo(&["queue", "take", "q"]).code(), 1);
}

#[test]
fn a_message_that_nobody_could_read_returns() {
    let server = Server::start();
    server.print(&["queue", "create", "q"]);
    server.print(&["queue", "put", "q", "1"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = server.command(&["queue", "take", "q"]);
    command.stdout(writer).stderr(Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(141), &b""[..]));
    assert_eq!(server.print(&["queue", "take", "q", "--timeout", "0s"]), "1\n");
}

#[test]
fn lists() {
    let server = Server::start();
    assert_eq!(server.print(&["ls"]), "");
    server.print(&["queue", "create", "ci/jobs"]);
    server.print(&["queue", "put", "ci/jobs", "1"]);
    server.print(&["semaphore", "create", "gpu", "--permits", "2"]);
    server.print(&["lock", "acquire", "ci/deploy"]);
    let expected = "\
KIND       NAME         HELD  WAITING
lock       ci/deploy       1        0
semaphore  gpu             0        0
queue      ci/jobs         1        0
";
    assert_eq!(server.print(&["ls"]), expected);
    let only = server.print(&["ls", "--prefix", "ci/", "--json", "queue"]);
    assert_eq!(only, "{\"kind\":\"queue\",\"name\":\"ci/jobs\",\"held\":1,\"waiting\":0}\n");
    assert_eq!(server.semaforo(&["ls", "things"]).code(), 64);
    assert_eq!(server.json(&["show"])["objects"], 3);
    assert!(server.print(&["show"]).contains("objects: 3"));
    assert_eq!(server.semaforo(&["show", "queue"]).code(), 64);
    let shown = server.print(&["show", "semaphore", "gpu"]);
    assert!(shown.starts_with("semaphore gpu\n  permits: 2\n"), "{shown}");
}

#[test]
fn nobody_answers() {
    let mut server = Server::start();
    server.kill();
    for arguments in [&["ls"][..], &["queue", "take", "q"], &["run", "--lock", "a", "--", "true"]] {
        let ended = server.semaforo(arguments);
        assert_eq!(ended.code(), 69, "{arguments:?}");
        assert!(ended.stderr.contains(&server.address), "{}", ended.stderr);
    }
    // One who listens, and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let arguments = ["ls", "--server", &address, "--connect-timeout", "50ms"];
    let ended = server.semaforo(&arguments);
    assert_eq!(ended.code(), 69);
    assert!(ended.stderr.contains("no answer within 50ms"), "{}", ended.stderr);
}

#[test]
fn tokens() {
    let tokens = super::support::Directory::new();
    let (limited, all) = ("0123456789abcdef", "fedcba9876543210");
    let lines = format!("{limited} prefix=ci/ rights=use\n{all} rights=use,create\n");
    let (file, own) = (tokens.secret("tokens", &lines), tokens.secret("own", limited));
    let arguments = ["--journal", "memory", "--tokens", file.to_str().unwrap()];
    let server = Server::with(&arguments);
    assert_eq!(server.semaforo(&["ls", "--prefix", "ci/"]).code(), 77);
    let own = own.to_str().unwrap();
    server.print(&["ls", "--prefix", "ci/", "--token-file", own]);
    let refused = server.json(&["queue", "create", "ci/q", "--token", limited]);
    assert_eq!(refused["status"], 403);
    assert_eq!(server.semaforo(&["--token", limited, "queue", "create", "ci/q"]).code(), 77);
    assert_eq!(server.semaforo(&["ls", "--token", "this is not one"]).code(), 77);
    server.print(&["queue", "create", "ci/q", "--token", all]);
    // Before the command, after it, or in the environment; the guardian knows it, too.
    let mut command = server.command(&["run", "--lock", "ci/a", "--", "true"]);
    let ended = Program::start(command.env("SEMAFORO_TOKEN", limited)).wait();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
}

#[test]
fn encrypted_connections() {
    let directory = super::support::Directory::new();
    let [certificate, key] = directory.certificate().map(|path| path.to_str().unwrap().to_owned());
    let server =
        Server::with(&["--journal", "memory", "--tls-cert", &certificate, "--tls-key", &key]);
    assert_eq!(server.print(&["ls", "--ca", &certificate]), "");
    assert_eq!(
        server.print(&["--ca", &certificate, "run", "--lock", "a", "--", "echo", "yes"]),
        "yes\n"
    );
    let ended = server.semaforo(&["ls", "--connect-timeout", "1s"]);
    assert_eq!(ended.code(), 69, "{}", ended.stderr);
    let ended = server.semaforo(&["ls", "--ca", &key]);
    assert_eq!(ended.code(), 69, "{}", ended.stderr);
    assert!(ended.stderr.contains(&key), "{}", ended.stderr);
}

#[test]
fn help_manual_and_completions() {
    let server = Server::start();
    let help = server.print(&["--help"]);
    for word in ["Exit status:", "124", "SEMAFORO_SERVER", "barrier", "completions"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    assert!(!help.contains("guardian"), "{help}");
    assert!(server.print(&["--version"]).starts_with("semaforo "));
    assert!(server.print(&["man"]).contains(".TH semaforo 1"));
    let pages = server.directory.file("man");
    server.print(&["man", "--dir", pages.to_str().unwrap()]);
    for page in ["semaforo.1", "semaforo-run.1", "semaforo-queue-take.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = server.print(&["completions", shell]);
        assert!(script.contains("semaforo") && !script.contains("guardian"), "{shell}");
    }
    assert_eq!(server.semaforo(&["completions", "cmd"]).code(), 64);
}

/// 256 of them are kept for other things than connections, and a quarter of the rest is for HTTP.
#[test]
fn a_low_limit_of_open_files_is_told() {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"ulimit -n 300; exec "$0" "$@""#, SEMAFORO]);
    let server = Server::by(&mut shell, &["--journal", "memory"]);
    server.wait_for_log("warning", "the limit of open files");
    let log = server.log();
    for number in ["300", "33 connections instead of 10000", "0 over HTTP instead of 1000", "11272"]
    {
        assert!(log.contains(number), "{number}: {log}");
    }
    assert_eq!(server.json(&["show"])["max_connections"], 33);
    // So many there are.
    let mut connections: Vec<TcpStream> =
        (0..33).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    let ping = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(b"{\"Method\":\"PING\"}").unwrap();
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"{\"Status\":200}\n");
    };
    connections.iter_mut().for_each(ping);
    let ended = server.semaforo(&["ls", "--connect-timeout", "50ms"]);
    assert_eq!(ended.code(), 69, "there is no place");
    connections.pop();
    server.print(&["ls"]);

    let server = Server::with(&["--journal", "memory", "--max-connections", "100"]);
    assert_eq!(server.json(&["show"])["max_connections"], 100);
    assert!(!server.log().contains("open files"), "{}", server.log());
}

//! Tokens and certificates that change while the server runs, and the lines that tell who did what.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::support::{Directory, LIMIT, Program, Server, wait_until};

const ADMINISTRATOR: &str = "fedcba9876543210";
const FIRST: &str = "0123456789abcdef";
const SECOND: &str = "00112233445566778899";

/// A connection that writes bytes.
pub(crate) struct Connection(pub(crate) TcpStream);

impl Connection {
    pub(crate) fn new(server: &Server) -> Self {
        let stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self(stream)
    }

    /// The status of the answer; none at the end.
    pub(crate) fn ask(&mut self, request: &str) -> Option<u64> {
        self.0.write_all(request.as_bytes()).unwrap();
        self.answer().map(|answer| answer["Status"].as_u64().unwrap())
    }

    pub(crate) fn auth(server: &Server, token: &str) -> Self {
        let mut connection = Self::new(server);
        let request = format!(r#"{{"Method":"AUTH","Headers":{{"token":"{token}"}}}}"#);
        assert_eq!(connection.ask(&request), Some(200));
        connection
    }

    pub(crate) fn answer(&mut self) -> Option<Value> {
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') {
            if self.0.read(&mut byte).unwrap() == 0 {
                assert!(line.is_empty(), "cut off");
                return None;
            }
            line.push(byte[0]);
        }
        Some(serde_json::from_slice(&line).unwrap())
    }

    fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }
}

const PING: &str = r#"{"Method":"PING"}"#;
const CREATE: &str = r#"{"Method":"CREATE","Path":"q"}"#;
const WAIT: &str = r#"{"Method":"ACQUIRE","Path":"/locks/a","Headers":{"id":1}}"#;

struct Guarded {
    server: Server,
    directory: Directory,
}

impl Guarded {
    fn start() -> Self {
        let directory = Directory::new();
        let lines = format!("{ADMINISTRATOR} rights=use,admin name=ada\n{FIRST}\n");
        let tokens = directory.secret("tokens", &lines);
        let arguments = ["--journal", "memory", "--tokens", tokens.to_str().unwrap()];
        Self { server: Server::with(&arguments), directory }
    }

    /// Replaces the file, as editors do.
    fn write(&self, lines: &str) {
        let new = self.directory.secret("tokens.new", lines);
        fs::rename(new, self.directory.file("tokens")).unwrap();
    }

    fn status(&self, token: &str) -> i32 {
        self.server.semaforo(&["ls", "--token", token]).code()
    }

    fn reload(&self, token: &str) -> super::support::Ended {
        Program::start(self.server.command(&["reload"]).env("SEMAFORO_TOKEN", token)).wait()
    }
}

#[test]
fn an_administrator_needs_no_other_right() {
    let guarded = Guarded::start();
    guarded.write(&format!("{ADMINISTRATOR} rights=admin name=ada\n{FIRST}\n"));
    guarded.server.signal(Signal::HUP);
    wait_until("it may not use anything", || guarded.status(ADMINISTRATOR) == 77);
    assert_eq!(guarded.reload(ADMINISTRATOR).code(), 0);
    assert_eq!(guarded.reload(FIRST).code(), 77);
}

#[test]
fn tokens_are_read_again() {
    let guarded = Guarded::start();
    let server = &guarded.server;
    let mut stays = Connection::auth(server, ADMINISTRATOR);
    let mut goes = Connection::auth(server, FIRST);
    assert_eq!(stays.ask(r#"{"Method":"ACQUIRE","Path":"/locks/a"}"#), Some(200));
    goes.0.write_all(WAIT.as_bytes()).unwrap();
    let mut with_each = Connection::new(server);
    let wait = WAIT.replace("\"id\":1", &format!("\"token\":\"{FIRST}\""));
    with_each.0.write_all(wait.as_bytes()).unwrap();
    wait_until("they wait", || {
        let shown = server.semaforo(&["show", "lock", "a", "--json", "--token", FIRST]).stdout;
        shown.contains("\"waiting\":2")
    });
    assert_eq!(stays.ask(CREATE), Some(403));

    guarded.write(&format!("{ADMINISTRATOR} rights=use,create,admin\n{SECOND}\n"));
    server.signal(Signal::HUP);
    wait_until("the new token is known", || guarded.status(SECOND) == 0);
    assert_eq!(guarded.status(FIRST), 77);
    // Its connection ends, with an answer to what waited.
    assert_eq!(goes.answer().unwrap()["Status"], 204);
    assert_eq!(goes.answer(), None);
    // One that has shown a token with each request may show another.
    assert_eq!(with_each.answer().unwrap()["Status"], 204);
    let ping = format!(r#"{{"Method":"PING","Headers":{{"token":"{SECOND}"}}}}"#);
    assert_eq!(with_each.ask(&ping), Some(200));
    // That of the other goes on, with what its token allows now.
    assert_eq!(stays.ask(CREATE), Some(200));

    // The command does the same, and is for administrators.
    guarded.write(&format!("{ADMINISTRATOR} rights=use,admin\n{FIRST}\n"));
    assert_eq!(guarded.reload(SECOND).code(), 77);
    assert_eq!(guarded.status(FIRST), 77);
    let ended = guarded.reload(ADMINISTRATOR);
    assert_eq!((ended.code(), &*ended.stdout), (0, ""), "{}", ended.stderr);
    assert_eq!((guarded.status(FIRST), guarded.status(SECOND)), (0, 77));
}

/// Also what waits over HTTP does not go on waiting.
#[test]
fn a_long_poll_with_a_token_that_goes_ends() {
    let guarded = Guarded::start();
    let server = &guarded.server;
    let create = ["queue", "create", "q", "--token", FIRST];
    assert_eq!(server.semaforo(&create).code(), 0);
    let mut taker = TcpStream::connect(&server.http).unwrap();
    taker.set_read_timeout(Some(LIMIT)).unwrap();
    let head = format!("Host: localhost\r\nAuthorization: Bearer {FIRST}\r\n");
    let text = format!("POST /v1/queues/q/TAKE HTTP/1.1\r\n{head}Connection: close\r\n\r\n");
    taker.write_all(text.as_bytes()).unwrap();
    let show = ["show", "queue", "q", "--json", "--token", FIRST];
    wait_until("it waits", || server.semaforo(&show).stdout.contains("\"waiting\":1"));
    guarded.write(&format!("{ADMINISTRATOR} rights=use,admin\n"));
    assert_eq!(guarded.reload(ADMINISTRATOR).code(), 0);
    let mut answer = String::new();
    taker.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
}

/// A connection over HTTP that is known by a token in the head of its requests.
#[test]
fn an_idle_connection_over_http_ends_with_its_token() {
    let guarded = Guarded::start();
    let known = |token: &str| {
        let mut stream = TcpStream::connect(&guarded.server.http).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let text = ping_over_http(token);
        stream.write_all(text.as_bytes()).unwrap();
        assert!(read_head(&mut stream).starts_with("HTTP/1.1 200 "));
        stream
    };
    let (mut goes, mut stays) = (known(FIRST), known(ADMINISTRATOR));
    // Also one that has begun another request.
    let mut halfway = known(FIRST);
    halfway.write_all(b"POST /v1/PING HTTP/1.1\r\n").unwrap();
    guarded.write(&format!("{ADMINISTRATOR} rights=use,admin\n"));
    assert_eq!(guarded.reload(ADMINISTRATOR).code(), 0);
    for stream in [&mut goes, &mut halfway] {
        assert_eq!(
            stream.read(&mut [0]).unwrap(),
            0,
            "it is closed, long before it is idle too long"
        );
    }
    stays.write_all(ping_over_http(ADMINISTRATOR).as_bytes()).unwrap();
    assert!(read_head(&mut stays).starts_with("HTTP/1.1 200 "));
}

fn ping_over_http(token: &str) -> String {
    let head = format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n");
    format!("POST /v1/PING HTTP/1.1\r\n{head}\r\n")
}

/// The head of an answer without a body.
fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn an_administrator_that_reloads_without_its_own_token_is_answered() {
    let guarded = Guarded::start();
    let mut last = Connection::auth(&guarded.server, ADMINISTRATOR);
    guarded.write(&format!("{SECOND}\n"));
    assert_eq!(last.ask(r#"{"Method":"RELOAD","Path":"/"}"#), Some(200));
    assert_eq!(last.answer(), None);
    assert_eq!(guarded.status(SECOND), 0);
}

#[test]
fn a_file_that_makes_no_sense_changes_nothing() {
    let guarded = Guarded::start();
    let mut connection = Connection::auth(&guarded.server, FIRST);
    for (lines, reason) in [("short\n", "fewer than 16 characters"), ("", "no token")] {
        guarded.write(lines);
        let ended = guarded.reload(ADMINISTRATOR);
        assert_eq!(ended.code(), 1);
        assert!(ended.stderr.contains(reason), "{}", ended.stderr);
        guarded.server.signal(Signal::HUP);
        guarded.server.wait_for_log("reload by signal 1", "the old ones stay");
        guarded.server.wait_for_log("reload by signal 1", reason);
    }
    fs::remove_file(guarded.directory.file("tokens")).unwrap();
    assert_eq!(guarded.reload(ADMINISTRATOR).code(), 1);
    assert_eq!(connection.ask(PING), Some(200));
    assert_eq!((guarded.status(FIRST), guarded.status(SECOND)), (0, 77));
}

#[test]
fn certificates_are_read_again() {
    let directory = Directory::new();
    let [certificate, key] = directory.certificate();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let serve =
        ["--journal", "memory", "--tls-cert", &text(&certificate), "--tls-key", &text(&key)];
    let server = Server::with(&serve);
    let support = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/net_support"));
    let [old, new] =
        ["certificate.pem", "other_certificate.pem"].map(|name| text(&support.join(name)));
    let trusts = |ca: &str| server.semaforo(&["ls", "--ca", ca]).code() == 0;
    assert!(trusts(&old) && !trusts(&new));
    // A key that is not that of the certificate: nothing changes.
    fs::write(&key, fs::read(support.join("other_key.pem")).unwrap()).unwrap();
    let ended = server.semaforo(&["reload", "--ca", &old]);
    assert_eq!(ended.code(), 1);
    assert!(ended.stderr.contains("key.pem"), "{}", ended.stderr);
    assert!(trusts(&old) && !trusts(&new));
    fs::write(&certificate, fs::read(&new).unwrap()).unwrap();
    server.signal(Signal::HUP);
    wait_until("the new certificate is shown", || trusts(&new));
    assert!(!trusts(&old));
}

#[test]
fn who_was_refused_and_who_administers_is_written_down() {
    let guarded = Guarded::start();
    let server = &guarded.server;
    let mut connection = Connection::new(server);
    let from = format!("from {}", connection.address());
    assert_eq!(connection.ask(PING), Some(401));
    server.wait_for_log(&format!("audit 401 by no token {from}: PING: "), "");
    assert_eq!(connection.ask(r#"{"Method":"DANCE","Path":"/nowhere"}"#), Some(401));
    server.wait_for_log(&format!("audit 401 by no token {from}: DANCE \"/nowhere\": "), "");
    assert_eq!(connection.ask("{}"), Some(401));
    server.wait_for_log(&format!("audit 401 by no token {from}: a request that is none: "), "");
    let unknown = "this-is-not-a-token";
    let request = format!(r#"{{"Method":"TAKE","Path":"q","Headers":{{"token":"{unknown}"}}}}"#);
    assert_eq!(connection.ask(&request), Some(401));
    server.wait_for_log("audit 401 by token #", &format!(" {from}: TAKE \"q\": "));
    let request =
        format!(r#"{{"Method":"CREATE","Path":"q","Headers":{{"token":"{ADMINISTRATOR}"}}}}"#);
    assert_eq!(connection.ask(&request), Some(403));
    server.wait_for_log(&format!("audit 403 by ada {from}: CREATE \"q\": "), "");
    let request = format!(r#"{{"Method":"RELOAD","Headers":{{"token":"{FIRST}"}}}}"#);
    assert_eq!(connection.ask(&request), Some(403));
    server.wait_for_log("audit 403 by token #", &format!(" {from}: RELOAD: "));
    // The same token is the same name, also of one that is not known any more.
    let log = server.log();
    let name =
        log.lines().find_map(|line| line.split("403 by token ").nth(1)?.split(" from").next());
    let name = format!("token {}", name.unwrap());
    assert_eq!(name.len(), "token #12345678".len());

    // Over HTTP, too.
    for (headers, status, who) in [
        (String::new(), 401, "by no token"),
        (format!("Authorization: Bearer {FIRST}\r\n"), 403, &*format!("by {name}")),
    ] {
        for line in ["GET /metrics", "POST /v1/SHUTDOWN"] {
            let mut stream = TcpStream::connect(&server.http).unwrap();
            let from = format!("from {}", stream.local_addr().unwrap());
            let text =
                format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
            stream.write_all(text.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            server.wait_for_log(&format!("audit {status} "), &format!("{who} {from}: "));
        }
    }

    guarded.write(&format!("{ADMINISTRATOR} rights=use,admin name=eve\n"));
    assert_eq!(guarded.reload(ADMINISTRATOR).code(), 0);
    server.wait_for_log("audit 200 by ada from 127.0.0.1:", ": RELOAD \"/\"");
    assert_eq!(connection.ask(&request), Some(401));
    server.wait_for_log(&format!("audit 401 by {name} {from}: RELOAD: "), "");
    server.signal(Signal::HUP);
    server.wait_for_log("audit reload by signal 1", "");
    let shutdown = format!(r#"{{"Method":"SHUTDOWN","Headers":{{"token":"{ADMINISTRATOR}"}}}}"#);
    assert_eq!(connection.ask(&shutdown), Some(200));
    server.wait_for_log(&format!("audit 200 by eve {from}: SHUTDOWN"), "");
    let log = server.log();
    for secret in [ADMINISTRATOR, FIRST, SECOND, unknown] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn a_stop_by_a_signal_is_written_down_and_a_server_without_files_has_nothing_to_reload() {
    let server = Server::start();
    server.signal(Signal::HUP);
    server.wait_for_log("audit reload by signal 1", "");
    server.print(&["reload"]);
    server.wait_for_log("audit 200 by no token from 127.0.0.1:", ": RELOAD \"/\"");
    server.signal(Signal::TERM);
    server.wait_for_log("audit stop by signal 15", "");
}

/// Whatever else is not logged; and acts over HTTP are written down as others are.
#[test]
fn the_audit_is_written_also_with_log_error_and_over_http() {
    let directory = Directory::new();
    let lines = format!("{ADMINISTRATOR} rights=admin name=ada\n");
    let tokens = directory.secret("tokens", &lines);
    let tokens = tokens.to_str().unwrap();
    let arguments = ["--journal", "memory", "--log", "error", "--log-json", "--tokens", tokens];
    let server = Server::with(&arguments);
    let mut from = Vec::new();
    for (what, status, token) in
        [("RELOAD", 401, FIRST), ("RELOAD", 200, ADMINISTRATOR), ("SHUTDOWN", 200, ADMINISTRATOR)]
    {
        let mut stream = TcpStream::connect(&server.http).unwrap();
        from.push(stream.local_addr().unwrap());
        let head = format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n");
        let text = format!("POST /v1/{what} HTTP/1.1\r\n{head}Connection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    server.wait_for_log("SHUTDOWN", "");
    let expected =
        [("401 by token #", "RELOAD"), ("200 by ada", "RELOAD"), ("200 by ada", "SHUTDOWN")];
    let log = server.log();
    assert_eq!(log.lines().count(), expected.len(), "{log}");
    for ((line, (who, what)), from) in log.lines().zip(expected).zip(from) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["level"], "audit");
        let text = line["text"].as_str().unwrap();
        assert!(text.starts_with(who) && text.contains(&format!(" from {from}: {what}")), "{text}");
    }
}

/// A flood of them hides nothing else, and is told.
#[test]
fn refusals_are_counted_when_there_are_too_many() {
    const REFUSED: usize = 5000;
    let guarded = Guarded::start();
    let server = &guarded.server;
    let mut stranger = Connection::new(server);
    for _ in 0..REFUSED / 100 {
        stranger.0.write_all(PING.repeat(100).as_bytes()).unwrap();
        for _ in 0..100 {
            assert_eq!(stranger.answer().unwrap()["Status"], 401);
        }
    }
    let mut told = 0;
    wait_until("all of them are told", || {
        let log = server.log();
        let written = log.lines().filter(|line| line.contains("audit 401 by no token")).count();
        let counted =
            log.lines().filter_map(|line| line.split("audit ").nth(1)).filter_map(|text| {
                text.strip_suffix(" more refusals within a second")?.parse::<usize>().ok()
            });
        told = written + counted.sum::<usize>();
        told >= REFUSED
    });
    assert_eq!(told, REFUSED);
    let written = server.log().lines().filter(|line| line.contains("audit 401")).count();
    assert!(written < REFUSED / 2, "{written}");
    assert!(!server.log().contains("were dropped"), "no line was lost");
}

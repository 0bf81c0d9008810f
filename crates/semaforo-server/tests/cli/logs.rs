//! What `--log debug` says, in lines of text and of JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use semaforo_server::server::{JOURNAL_FAILED, http};
use serde_json::Value;

use super::support::{Directory, LIMIT, SEMAFORO, Server, wait_until};

fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// Connections that come and go, what is refused, and sessions that begin and end, and why.
#[test]
fn debug_tells_of_connections_refusals_and_sessions() {
    for json in [false, true] {
        let mut arguments = vec!["--journal", "memory", "--log", "debug"];
        arguments.extend(json.then_some("--log-json"));
        let server = Server::with(&arguments);
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let address = stream.local_addr().unwrap();
        let open = |label: &str, ttl: u32| {
            format!(
                r#"{{"Method":"OPEN","Path":"/sessions","Headers":{{"label":"{label}","ttl":{ttl}}}}}"#
            )
        };
        let opened = ask(&mut stream, &open("first", 60_000));
        let session = opened.split(r#""session":""#).nth(1).unwrap()[..32].to_owned();
        ask(&mut stream, &open("second", 100));
        let close = format!(
            r#"{{"Method":"CLOSE","Path":"/sessions","Headers":{{"session":"{session}"}}}}"#
        );
        ask(&mut stream, &close);
        assert!(ask(&mut stream, r#"{"Method":"TAKE","Path":"none"}"#).contains("404"));
        drop(stream);
        let texts = || -> Vec<String> {
            let log = server.log();
            // The last line may not be there as a whole yet.
            let lines = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let text = |line: &str| match json {
                false => line.splitn(3, ' ').nth(2).unwrap().trim_end().to_owned(),
                true => {
                    let line: Value = serde_json::from_str(line).unwrap();
                    line["text"].as_str().unwrap().to_owned()
                }
            };
            lines.map(text).collect()
        };
        for expected in [
            &*format!("has connected from {address}"),
            "session \"first\" has begun, for 60000 ms",
            "session \"first\" was closed",
            "404: there is no queue \"none\"",
            "is gone: finished",
            "session \"second\" has ended: nothing was heard of it",
        ] {
            wait_until(expected, || texts().iter().any(|line| line.ends_with(expected)));
        }
        assert!(!server.log().contains(&session), "a session's name is a secret");
    }
}

/// What an HTTP server says to these bytes until it closes the connection, and the address that
/// they came from.
fn exchange(server: &Server, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(&server.http).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let address = stream.local_addr().unwrap().to_string();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer, address)
}

/// Connections over HTTP come and go as others do; what is refused before anything is decided is
/// told.
#[test]
fn debug_tells_of_http_connections_and_what_is_refused_there() {
    let arguments = ["--journal", "memory", "--log", "debug", "--max-frame", "1000"];
    let server = Server::with(&arguments);
    let host = "Host: localhost\r\nConnection: close\r\n";
    let json = "Content-Type: application/json\r\n";
    let long = "x".repeat(http::HEAD);
    for (request, status) in [
        (format!("GET /healthz HTTP/1.1\r\n{host}\r\n"), 200),
        (format!("NONSENSE\r\n{host}\r\n"), 400),
        (format!("DELETE /metrics HTTP/1.1\r\n{host}\r\n"), 405),
        (format!("POST /v1 HTTP/1.1\r\n{host}Content-Length: 9\r\n\r\n"), 415),
        (format!("POST /v1 HTTP/1.1\r\n{host}{json}Content-Length: 9999999\r\n\r\n"), 413),
        (format!("POST /v1/PING HTTP/1.1\r\n{}\r\n", host.replace("localhost", "else")), 421),
        (format!("GET /healthz HTTP/1.1\r\n{host}X: {long}\r\n\r\n"), 431),
        (format!("POST /v1/queues/none/TAKE HTTP/1.1\r\n{host}\r\n"), 404),
    ] {
        let (answer, address) = exchange(&server, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
        server.wait_for_log(" debug http: ", &format!("has connected from {address}"));
        match status {
            200 => {}
            404 => server.wait_for_log(" debug http: 404: ", "there is no queue \"none\""),
            _ => server.wait_for_log(" debug http: ", &format!("{status} to {address}: ")),
        }
    }
    wait_until("all of them are gone", || {
        let log = server.log();
        let count = |what: &str| {
            log.lines().filter(|line| line.contains(" debug http: ") && line.contains(what)).count()
        };
        count("has connected from") == 8 && count("is gone: ") == 8
    });
}

/// A server that logs into a pipe from which nothing is read.
struct Stuck {
    child: Child,
    lines: Box<dyn Iterator<Item = String>>,
    address: String,
    _pipe: std::process::ChildStderr,
}

impl Stuck {
    fn start(arguments: &[&str]) -> Self {
        // A file that would become too large is an error then, and not a signal.
        let mut child = Command::new("sh")
            .args(["-c", r#"trap "" XFSZ; exec "$@""#, "sh", SEMAFORO])
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "debug"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = child.stderr.take().unwrap();
        let output: BufReader<_> = BufReader::new(child.stdout.take().unwrap());
        let mut lines = Box::new(output.lines().map_while(Result::ok));
        let listening = |line: String| line.strip_prefix("listening on ").map(str::to_owned);
        let address = lines.find_map(listening).unwrap();
        Self { child, lines, address, _pipe: pipe }
    }

    /// Has more lines logged than the pipe and the queue have room for: none of them delays an
    /// answer.
    fn fill(&self) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        for _ in 0..8000 {
            assert!(ask(&mut stream, r#"{"Method":"TAKE","Path":"none"}"#).contains("404"));
        }
        stream
    }

    /// The status, and how many lines are said to be lost.
    fn end(mut self) -> (Option<i32>, u64) {
        let mut status = None;
        wait_until("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let lost = self.lines.find_map(|line| {
            line.strip_suffix(" lines of the log were lost: it is written too slowly")?.parse().ok()
        });
        (status.and_then(|status| status.code()), lost.unwrap_or(0))
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_log_that_is_stuck_neither_delays_requests_nor_keeps_the_process() {
    let stuck = Stuck::start(&["--journal", "memory"]);
    let stream = stuck.fill();
    kill_process(Pid::from_child(&stuck.child), Signal::TERM).unwrap();
    drop(stream);
    let (status, lost) = stuck.end();
    assert_eq!(status, Some(0));
    assert!(lost > 4096, "{lost}");
}

#[test]
fn nor_does_it_keep_a_process_whose_journal_has_failed() {
    let directory = Directory::new();
    let stuck = Stuck::start(&["--data", directory.path().to_str().unwrap()]);
    let mut stream = stuck.fill();
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    prlimit(Some(Pid::from_child(&stuck.child)), Resource::Fsize, none).unwrap();
    stream.write_all(br#"{"Method":"CREATE","Path":"q"}"#).unwrap();
    let (status, lost) = stuck.end();
    assert_eq!(status, Some(JOURNAL_FAILED));
    assert!(lost > 4096, "{lost}");
}

/// Statistics without a token, and nothing else.
#[test]
fn open_metrics_need_no_token() {
    let directory = Directory::new();
    let tokens = directory.secret("tokens", "0123456789abcdef\n");
    let serve = ["--journal", "memory", "--tokens", tokens.to_str().unwrap()];
    let get = |server: &Server, method: &str, path: &str| {
        let head = "Host: localhost\r\nConnection: close\r\n";
        exchange(server, &format!("{method} {path} HTTP/1.1\r\n{head}\r\n")).0
    };
    let closed = Server::with(&serve);
    assert!(get(&closed, "GET", "/metrics").starts_with("HTTP/1.1 401 "));
    let open = Server::with(&[&serve[..], &["--open-metrics"]].concat());
    let shown = get(&open, "GET", "/metrics");
    assert!(shown.starts_with("HTTP/1.1 200 ") && shown.contains("semaforo_objects"), "{shown}");
    assert!(get(&open, "POST", "/v1/PING").starts_with("HTTP/1.1 401 "));
}

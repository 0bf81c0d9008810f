//! What a web page, or a client behind a proxy, could try with requests that can be read in two
//! ways.

use std::io::Read;

use super::real::Browser;
use crate::support::{Folder, Process};

/// Everything that the server says to these bytes until it closes, and the statuses among it.
fn statuses(server: &Process, bytes: &str) -> Vec<String> {
    let mut browser = Browser::connect(server.http);
    browser.write(bytes);
    browser.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    browser.stream.read_to_string(&mut answers).unwrap();
    let lines = answers.split("HTTP/1.1 ").skip(1);
    lines.map(|answer| answer.split(' ').next().unwrap().to_owned()).collect()
}

fn memory(arguments: &[&str]) -> (Folder, Process) {
    let folder = Folder::new();
    let server = Process::with(folder.path(), &[&["--journal", "memory"], arguments].concat());
    (folder, server)
}

const POST: &str =
    "POST /v1/ECHO HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
/// What would be a request of its own for a reader that ends the body before it.
const SMUGGLED: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn a_chunked_body_is_read_in_one_way_only() {
    let (_folder, server) = memory(&[]);
    let chunked = |body: &str| statuses(&server, &format!("{POST}{CHUNKED}\r\n{body}{SMUGGLED}"));
    for right in [
        "3\r\n[1]\r\n0\r\n\r\n",
        "1\r\n[\r\n2\r\n1]\r\n0\r\n\r\n",
        "0003\r\n[1]\r\n000\r\n\r\n",
        "3;name\r\n[1]\r\n0;a=b;c=\"d;\\\"\"\r\n\r\n",
        "3 ; a = b\r\n[1]\r\n0\r\n\r\n",
        "3\r\n[1]\r\n0\r\nTrailer: x\r\nEmpty:\r\n\r\n",
    ] {
        assert_eq!(chunked(right), ["200", "200"], "{right:?}");
    }
    for wrong in [
        // A line that ends with a line feed alone, or not where a carriage return says.
        "3\n[1]\r\n0\r\n\r\n",
        "3\r\n[1]\n0\r\n\r\n",
        "3\r\n[1]\r\n0\n\r\n",
        "3\r\n[1]\r\n0\r\n\n",
        "3\r[1]\r\n0\r\n\r\n",
        "3\r\r\n[1]\r\n0\r\n\r\n",
        "3;a\rb\r\n[1]\r\n0\r\n\r\n",
        "3;a\nb\r\n[1]\r\n0\r\n\r\n",
        "3\r\n[1]\r0\r\n\r\n",
        "3\r\n[1]\r\n0\r\nX: a\n\r\n",
        "3\r\n[1]\r\n0\r\nX: a\rb\r\n\r\n",
        // Sizes that are none, or one of which others may read a part.
        " 3\r\n[1]\r\n0\r\n\r\n",
        "3 \r\n[1]\r\n0\r\n\r\n",
        "+3\r\n[1]\r\n0\r\n\r\n",
        "0x3\r\n[1]\r\n0\r\n\r\n",
        "3_\r\n[1]\r\n0\r\n\r\n",
        "\r\n3\r\n[1]\r\n0\r\n\r\n",
        "10000000000000003\r\n[1]\r\n0\r\n\r\n",
        "3;\r\n[1]\r\n0\r\n\r\n",
        "3;a=\r\n[1]\r\n0\r\n\r\n",
        "3;a=\"b\r\n[1]\r\n0\r\n\r\n",
        "3;a\u{0}\r\n[1]\r\n0\r\n\r\n",
        "3,3\r\n[1]\r\n0\r\n\r\n",
        // Chunks that are longer or shorter than they say.
        "2\r\n[1]\r\n0\r\n\r\n",
        "4\r\n[1]\r\n0\r\n\r\n",
        // Trailers that are none.
        "3\r\n[1]\r\n0\r\n X: a\r\n\r\n",
        "3\r\n[1]\r\n0\r\nX\r\n\r\n",
        "3\r\n[1]\r\n0\r\nX : a\r\n\r\n",
        "3\r\n[1]\r\n0\r\n: a\r\n\r\n",
    ] {
        assert_eq!(chunked(wrong), ["400"], "{wrong:?}: and nothing behind it is read");
    }
}

#[test]
fn a_length_that_is_said_in_two_ways_is_refused() {
    let (_folder, server) = memory(&[]);
    let with = |headers: &str, body: &str| {
        statuses(&server, &format!("{POST}{headers}\r\n{body}{SMUGGLED}"))
    };
    let body = "3\r\n[1]\r\n0\r\n\r\n";
    assert_eq!(with(&format!("{CHUNKED}{CHUNKED}"), body), ["400"]);
    assert_eq!(with(&format!("{CHUNKED}Content-Length: 13\r\n"), body), ["400"]);
    assert_eq!(with(&format!("Content-Length: 13\r\n{CHUNKED}"), body), ["400"]);
    assert_eq!(with("Content-Length: 3, 3\r\n", "[1]"), ["400"]);
    assert_eq!(with("Transfer-Encoding: chunked, identity\r\n", body), ["501"]);
    assert_eq!(with("X: a\rContent-Length: 3\r\n", "[1]"), ["400"]);
    assert_eq!(with("X: a\r\n Content-Length: 3\r\n", "[1]"), ["400"]);
    assert_eq!(with("Content-Length : 3\r\n", "[1]"), ["400"]);
    // HTTP/1.0 has no chunks: a proxy that speaks it may have passed the header on without
    // understanding it.
    let old = POST.replace("HTTP/1.1", "HTTP/1.0");
    for keep_alive in ["", "Connection: keep-alive\r\n"] {
        let request = format!("{old}{CHUNKED}{keep_alive}\r\n{body}{SMUGGLED}");
        assert_eq!(statuses(&server, &request), ["400"]);
    }
}

#[test]
fn only_names_that_cannot_be_pointed_here_by_others_are_allowed() {
    let (_folder, server) = memory(&["--host", "Semaforo.example.org", "--host", "box"]);
    let host = |host: &str| {
        let bytes = format!("POST /v1/PING HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        statuses(&server, &bytes).concat()
    };
    for allowed in [
        "127.0.0.1:13080",
        "[::1]:13080",
        "192.0.2.7",
        "localhost",
        "LOCALHOST:13080",
        "a.localhost",
        "semaforo.example.org:443",
        "box:13080",
    ] {
        assert_eq!(host(allowed), "200", "{allowed}");
    }
    for refused in [
        "semaforo",
        "router",
        "box.local",
        "printer.local:13080",
        "db.internal",
        "metadata.google.internal",
        "evil.example.com",
        "localhost.evil.example.com",
        "evil-localhost",
        "127.0.0.1.evil.example.com",
        "user@localhost",
    ] {
        assert_eq!(host(refused), "421", "{refused}");
    }
    // What counts is the host of the address, if the whole address is said.
    let whole = |from: &str| {
        let line = format!("POST http://{from}/v1/PING HTTP/1.1\r\nHost: localhost\r\n");
        statuses(&server, &format!("{line}Connection: close\r\n\r\n")).concat()
    };
    assert_eq!(whole("localhost:13080"), "200");
    assert_eq!(whole("evil.example.com"), "421");
}

#[test]
fn a_method_that_is_not_allowed_is_told_which_are() {
    let (_folder, server) = memory(&[]);
    let mut browser = Browser::connect(server.http);
    for (line, allowed) in [
        ("POST /healthz", "GET, HEAD"),
        ("DELETE /metrics", "GET, HEAD"),
        ("PUT /openapi.json", "GET, HEAD"),
        ("GET /v1", "POST"),
        ("OPTIONS /v1/locks/a/ACQUIRE", "POST"),
        // A method of the protocol that there is not: nothing is allowed there.
        ("POST /v1/locks/a/DANCE", ""),
    ] {
        browser.write(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let answer = browser.answer();
        assert_eq!((answer.status, answer.header("Allow").trim()), (405, allowed), "{line}");
    }
    browser.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = browser.answer();
    assert!(answer.status == 200 && !answer.head.contains("Allow:"), "{}", answer.head);
}

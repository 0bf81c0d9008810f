//! HTTP clients that no token has made known: what they may cost, and what they see.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use semaforo_server::net::limits;
use semaforo_server::server::access::Tokens;
use semaforo_server::server::limits::STRANGER_FRAME;
use semaforo_server::server::{self, Options};

use super::real::{Browser, post_with};
use crate::support::{Folder, LONG, Process, Server, until};

const ALL: &str = "fedcba9876543210";
const OBSERVER: &str = "0123456789abcdef";

/// A server that wants tokens, and where it speaks HTTP.
pub(crate) fn guarded(options: Options) -> (Server, SocketAddr) {
    let file = format!("{ALL} rights=use,create,admin\n{OBSERVER} rights=observe\n");
    let tokens = Some(Tokens::parse(&file).unwrap());
    let http = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = server::Server::start(Options { http, tokens, ..options }).unwrap();
    let address = server.http_address().unwrap();
    (Server::run_with_token(server, ALL), address)
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn a_stranger_gives_up_its_place_however_much_it_asks() {
    let limit = Duration::from_millis(200);
    let (_server, address) = guarded(Options { first_request: limit, ..Options::default() });
    let mut known = Browser::connect(address);
    known.send("POST /v1/PING", &bearer(ALL), "");
    assert_eq!(known.answer().status, 200);
    let mut by_object = Browser::connect(address);
    let object = format!(r#"{{"Method":"PING","Headers":{{"token":"{ALL}"}}}}"#);
    assert_eq!(by_object.post("/v1", &object).status, 200);
    // Also with what makes no sense, and would be answered otherwise.
    for (line, body) in [
        ("GET /healthz", ""),
        ("POST /v1/PING", ""),
        ("POST /v1/DANCE", ""),
        ("POST /v1/nothing/x/SHOW", ""),
        ("POST /v1/PING?timeout=x", ""),
        ("POST /v1", "{}"),
        ("POST /v1", r#"{"Method":"PING","Headers":{"id":[]}}"#),
    ] {
        if line.starts_with("POST") {
            let (_, path) = line.split_once(' ').unwrap();
            assert_eq!(post_with(address, path, "", body).status, 401, "{line} {body}");
        }
        let (start, mut stranger) = (Instant::now(), Browser::connect(address));
        let mut buffer = [0; 4096];
        while stranger.try_send(line, "", body).is_ok()
            && stranger.stream.read(&mut buffer).is_ok_and(|count| count > 0)
        {
            assert!(start.elapsed() < LONG, "{line}");
        }
        assert!(start.elapsed() >= limit, "{line}");
    }
    known.send("POST /v1/PING", &bearer(ALL), "");
    assert_eq!(known.answer().status, 200);
    assert_eq!(by_object.post("/v1", &object).status, 200);
}

#[test]
fn the_bodies_of_a_stranger_are_small() {
    let (_server, address) = guarded(Options::default());
    let body = |size: usize| format!("\"{}\"", "x".repeat(size - 2));
    let post =
        |token: &str, size| post_with(address, "/v1/ECHO", &bearer(token), &body(size)).status;
    assert_eq!(post(ALL, 500_000), 200);
    assert_eq!(post("0000000000000000", STRANGER_FRAME), 401);
    assert_eq!(post("0000000000000000", STRANGER_FRAME + 1), 413);
    assert_eq!(post_with(address, "/v1/ECHO", "", &body(STRANGER_FRAME + 1)).status, 413);
    let chunked = "Transfer-Encoding: chunked\r\n";
    let mut stranger = Browser::connect(address);
    let head = "POST /v1/ECHO HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    stranger.write(&format!("{head}{chunked}\r\n1001\r\n"));
    assert_eq!(stranger.answer().status, 413);
}

#[test]
fn strangers_make_room_for_others_when_places_run_out() {
    let (_server, address) = guarded(Options { http_connections: 3, ..Options::default() });
    let mut known = Browser::connect(address);
    known.send("POST /v1/PING", &bearer(ALL), "");
    assert_eq!(known.answer().status, 200);
    let mut strangers = [Browser::connect(address), Browser::connect(address)];
    for stranger in &mut strangers {
        assert_eq!(stranger.post("/v1/PING", "").status, 401);
    }
    let start = Instant::now();
    let mut tries = 0;
    until("a stranger has made room", || {
        tries += 1;
        let mut newcomer = Browser::connect(address);
        newcomer.send("POST /v1/locks/a/SHOW", &bearer(ALL), "");
        let status = newcomer.answer().status;
        assert!(matches!(status, 404 | 503), "{status}");
        status == 404
    });
    assert!(tries > 1, "each of them was given a moment");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(strangers[0].stream.read(&mut [0]).unwrap_or(0), 0, "the one that came first");
    known.send("POST /v1/PING", &bearer(ALL), "");
    assert_eq!(known.answer().status, 200);
}

/// The attack on a real server: every place is taken by a client that asks for what makes no sense.
#[test]
fn parked_connections_do_not_keep_others_out() {
    const PLACES: usize = 50;
    let folder = Folder::new();
    let file = folder.path().join("tokens");
    let options = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
    options.open(&file).unwrap().write_all(format!("{ALL}\n").as_bytes()).unwrap();
    let (places, file) = (PLACES.to_string(), file.to_str().unwrap());
    let arguments = ["--journal", "memory", "--tokens", file, "--log", "error"];
    let limit = ["--max-http-connections", &places];
    let server = Process::with(folder.path(), &[&arguments[..], &limit].concat());
    let lines = ["POST /v1/DANCE", "POST /v1/nothing/x/SHOW", "POST /v1/PING?timeout=x"];
    let mut parked: Vec<Browser> = (0..PLACES).map(|_| Browser::connect(server.http)).collect();
    for (stranger, line) in parked.iter_mut().zip(lines.iter().cycle()) {
        stranger.send(line, "", "");
        assert_eq!(stranger.answer().status, 401, "{line}");
    }
    let start = Instant::now();
    let mut clients = Vec::new();
    until("strangers have made room", || {
        let mut client = Browser::connect(server.http);
        client.send("POST /v1/locks/a/SHOW", &bearer(ALL), "");
        let status = client.answer().status;
        assert!(matches!(status, 404 | 503), "{status}");
        clients.extend((status == 404).then_some(client));
        clients.len() == 10
    });
    assert!(start.elapsed() < limits::FIRST_REQUEST / 2, "{:?}", start.elapsed());
}

#[test]
fn figures_are_for_those_who_may_observe() {
    let (server, address) = guarded(Options::default());
    let metrics = |headers: &str| {
        let mut browser = Browser::connect(address);
        browser.send("GET /metrics", headers, "");
        browser.answer()
    };
    let refused = metrics("");
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("WWW-Authenticate"), "Bearer");
    assert!(!refused.body.contains("semaforo_uptime_seconds"), "{}", refused.body);
    assert_eq!(metrics(&bearer("0000000000000000")).status, 401);
    let refused = metrics(&bearer(ALL));
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("observe"), "{}", refused.body);
    let shown = metrics(&bearer(OBSERVER));
    assert_eq!(shown.status, 200);
    assert!(shown.body.contains("semaforo_uptime_seconds"), "{}", shown.body);
    // It may do nothing else, and health needs no token.
    assert_eq!(post_with(address, "/v1/PING", &bearer(OBSERVER), "").status, 403);
    let mut browser = Browser::connect(address);
    for path in ["/healthz", "/readyz"] {
        browser.send(&format!("GET {path}"), "", "");
        assert_eq!(browser.answer().status, 200);
    }
    drop(server);

    let (_server, address) = guarded(Options { open_metrics: true, ..Options::default() });
    let mut browser = Browser::connect(address);
    browser.send("GET /metrics", "", "");
    assert_eq!(browser.answer().status, 200);
}

#[test]
fn a_stranger_is_not_answered_much_at_a_time() {
    let (_server, address) = guarded(Options::default());
    let mut stranger = Browser::connect(address);
    stranger.send("GET /openapi.json", "", "");
    let answer = stranger.answer();
    assert_eq!((answer.status, answer.header("Connection")), (200, "close"));
    let mut known = Browser::connect(address);
    for _ in 0..3 {
        known.send("GET /openapi.json", &bearer(ALL), "");
        let answer = known.answer();
        assert!(answer.status == 200 && !answer.head.contains("Connection: close"));
    }
    let mut stranger = Browser::connect(address);
    for _ in 0..3 {
        assert_eq!(stranger.post("/v1/PING", "").status, 401);
    }
}

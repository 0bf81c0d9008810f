//! HTTP in front of the real server: the same requests, the same answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use semaforo_protocol::wire;

use crate::support::{LONG, Server, until};
use semaforo_server::server::access::Tokens;
use semaforo_server::server::http::RESERVED;
use semaforo_server::server::{self, Options};

/// A server with HTTP, and where that is.
pub(crate) fn start(options: Options) -> (Server, SocketAddr) {
    let http = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = server::Server::start(Options { http, ..options }).unwrap();
    let address = server.http_address().unwrap();
    (Server::run(server), address)
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        found.next().unwrap_or_else(|| panic!("no {name} in {}", self.head)).1
    }
}

/// One request on a connection of its own.
pub(crate) fn post_with(address: SocketAddr, path: &str, headers: &str, body: &str) -> Answer {
    let mut browser = Browser::connect(address);
    browser.send(&format!("POST {path}"), headers, body);
    browser.answer()
}

pub(crate) struct Browser {
    pub(crate) stream: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Browser {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let answers = BufReader::new(stream.try_clone().unwrap());
        Self { stream, answers }
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn send(&mut self, line: &str, headers: &str, body: &str) {
        self.try_send(line, headers, body).unwrap();
    }

    pub(crate) fn try_send(&mut self, line: &str, headers: &str, body: &str) -> io::Result<()> {
        let length = body.len();
        let text = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(text.as_bytes())
    }

    pub(crate) fn answer(&mut self) -> Answer {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.answers.read_line(&mut head).unwrap(), 0, "closed after {head:?}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        if status != 204 {
            let mut body = vec![0; answer.header("content-length").parse().unwrap()];
            self.answers.read_exact(&mut body).unwrap();
            answer.body = String::from_utf8(body).unwrap();
        }
        answer
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send(&format!("POST {path}"), "", body);
        self.answer()
    }
}

fn open(browser: &mut Browser) -> String {
    let answer = browser.post("/v1/sessions/OPEN?ttl=60000", "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.header("semaforo-session").to_owned()
}

#[test]
fn holds_belong_to_named_sessions_and_waiting_is_long_polling() {
    let (server, address) = start(Options::default());
    let mut first = Browser::connect(address);
    assert_eq!(first.post("/v1/locks/a/ACQUIRE", "").status, 400);
    let (one, two) = (open(&mut first), open(&mut first));
    let held = first.post(&format!("/v1/locks/a/ACQUIRE?session={one}"), "");
    assert_eq!(held.status, 200);
    let fence: u64 = held.header("semaforo-fence").parse().unwrap();

    let mut second = Browser::connect(address);
    second.send(&format!("POST /v1/locks/a/ACQUIRE?session={two}"), "", "");
    server.connect().until_waiting("/locks/a", 1);
    let released = first.post(&format!("/v1/locks/a/RELEASE?session={one}&fence={fence}"), "");
    assert_eq!(released.status, 200);
    let granted = second.answer();
    assert_eq!(granted.status, 200);
    assert!(granted.header("semaforo-fence").parse::<u64>().unwrap() > fence);
    // A TCP client sees the same lock.
    let request = r#"{"Method":"ACQUIRE","Path":"/locks/a","Headers":{"timeout":0}}"#;
    assert_eq!(server.connect().ask(request).status, 204);
    let timed = first.post(&format!("/v1/locks/a/ACQUIRE?session={one}&timeout=10"), "");
    assert_eq!(timed.status, 204);
}

#[test]
fn who_goes_away_waits_no_more_and_takes_nothing() {
    let (server, address) = start(Options::default());
    let mut producer = server.connect();
    producer.done(r#"{"Method":"CREATE","Path":"q"}"#);
    let mut gone = Browser::connect(address);
    gone.send("POST /v1/queues/q/TAKE", "", "");
    producer.until_waiting("/queues/q", 1);
    drop(gone);
    producer.until_waiting("/queues/q", 0);
    producer.done(r#"{"Method":"PUT","Path":"q","Payload":{"n": 1}}"#);
    let taken = Browser::connect(address).post("/v1/queues/q/TAKE?timeout=0", "");
    assert_eq!((taken.status, taken.body.as_str()), (200, r#"{"n": 1}"#));
}

#[test]
fn a_numbered_request_of_a_session_keeps_its_place_over_a_lost_connection() {
    let (server, address) = start(Options::default());
    let mut browser = Browser::connect(address);
    browser.post("/v1/queues/q/CREATE", "");
    let session = open(&mut browser);
    let take = format!("POST /v1/queues/q/TAKE?session={session}&seq=1");
    let mut lost = Browser::connect(address);
    lost.send(&take, "", "");
    let mut other = server.connect();
    other.until_waiting("/queues/q", 1);
    other.send(r#"{"Method":"TAKE","Path":"q"}"#);
    let mut observer = server.connect();
    observer.until_waiting("/queues/q", 2);
    drop(lost);
    until("the lost one is passed over", || {
        let shown = observer.show("/queues/q").unwrap();
        shown["waiting"] == 2 && shown["waiters"].as_array().unwrap().len() == 1
    });
    let mut again = Browser::connect(address);
    again.send(&take, "", "");
    until("it stands in line again", || {
        observer.show("/queues/q").unwrap()["waiters"].as_array().unwrap().len() == 2
    });
    observer.done(r#"{"Method":"PUT","Path":"q","Payload":1}"#);
    observer.done(r#"{"Method":"PUT","Path":"q","Payload":2}"#);
    assert_eq!(again.answer().body, "1");
    assert_eq!(other.answer().payload(), Some("2"));
}

#[test]
fn tokens_come_in_the_authorization_header_and_shutdown_needs_one() {
    let (server, address) = start(Options::default());
    let refused = Browser::connect(address).post("/v1", r#"{"Method":"SHUTDOWN"}"#);
    assert_eq!(refused.status, 403, "{}", refused.body);
    drop(server);

    let tokens = "0123456789abcdef prefix=ci/ rights=use\nfedcba9876543210 rights=use,create,admin";
    let tokens = Some(Tokens::parse(tokens).unwrap());
    let http = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = server::Server::start(Options { http, tokens, ..Options::default() }).unwrap();
    let address = server.http_address().unwrap();
    let running = thread::spawn(move || server.run());
    let mut browser = Browser::connect(address);
    assert_eq!(browser.post("/v1/queues/q/CREATE", "").status, 401);
    let mut with = |token: &str, line: &str, body: &str| {
        browser.send(line, &format!("Authorization: Bearer {token}\r\n"), body);
        browser.answer()
    };
    assert_eq!(with("0000000000000000", "POST /v1/queues/q/CREATE", "").status, 401);
    assert_eq!(with("0123456789abcdef", "POST /v1/queues/q/CREATE", "").status, 403);
    assert_eq!(with("0123456789abcdef", "POST /v1/locks/ci%2Fa/SHOW", "").status, 404);
    assert_eq!(with("0123456789abcdef", "POST /v1", r#"{"Method":"SHUTDOWN"}"#).status, 403);
    let stopped = with("fedcba9876543210", "POST /v1", r#"{"Method":"SHUTDOWN"}"#);
    assert_eq!(stopped.status, 200, "{}", stopped.body);
    running.join().unwrap().unwrap();
}

#[test]
fn a_full_server_still_says_how_it_is() {
    let (server, address) = start(Options { max_connections: 1, ..Options::default() });
    let mut only = server.connect();
    only.done(r#"{"Method":"CREATE","Path":"q"}"#);
    let mut browser = Browser::connect(address);
    for path in ["/healthz", "/readyz"] {
        browser.send(&format!("GET {path}"), "", "");
        assert_eq!(browser.answer().status, 200);
    }
    until("the figures show the queue", || {
        browser.send("GET /metrics", "", "");
        browser.answer().body.contains("semaforo_objects{kind=\"queue\"} 1")
    });
    // The connection that is there is the place of the next one.
    drop(only);
    server.connect().done(r#"{"Method":"PING"}"#);
}

/// Also those whose requests arrive when the main loop has no connection left to serve, and has
/// ended.
#[test]
fn a_server_that_stops_answers_whoever_asks_meanwhile() {
    const TOKEN: &str = "Authorization: Bearer 0123456789abcdef\r\n";
    for _ in 0..30 {
        let tokens = Some(Tokens::parse("0123456789abcdef rights=use,create,admin").unwrap());
        let (server, address) = start(Options { tokens, ..Options::default() });
        let busy = [(); 3].map(|()| {
            let mut browser = Browser::connect(address);
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                // Until it is told to go.
                while browser.try_send("POST /v1", TOKEN, r#"{"Method":"PING"}"#).is_ok()
                    && browser.stream.read(&mut buffer).is_ok_and(|count| count > 0)
                {
                }
            })
        });
        let mut browser = Browser::connect(address);
        browser.send("POST /v1", TOKEN, r#"{"Method":"SHUTDOWN"}"#);
        assert_eq!(browser.answer().status, 200);
        server.join();
        for thread in busy {
            thread.join().unwrap();
        }
    }
}

/// They were accepted by the system, and not yet by the server, when it was told to stop.
#[test]
fn connections_that_wait_for_a_place_are_answered_when_the_server_stops() {
    let (server, address) = start(Options { http_connections: 1, ..Options::default() });
    let mut client = server.connect();
    client.done("CREATE q");
    let mut taker = Browser::connect(address);
    taker.send("POST /v1", "", r#"{"Method":"TAKE","Path":"q"}"#);
    client.until_waiting("/queues/q", 1);
    let _reserved: Vec<Browser> = (0..RESERVED).map(|_| Browser::connect(address)).collect();
    let mut outside: Vec<Browser> = (0..10).map(|_| Browser::connect(address)).collect();
    for browser in &mut outside {
        browser.send("POST /v1", "", r#"{"Method":"PING"}"#);
    }
    client.done("SHUTDOWN /");
    assert_eq!(taker.answer().status, 503);
    for browser in &mut outside {
        assert_eq!(browser.answer().status, 503);
    }
    server.join();
}

#[test]
fn an_object_is_answered_with_its_id_at_once_and_later() {
    let (server, address) = start(Options::default());
    let mut browser = Browser::connect(address);
    browser.send("POST /v1", "", r#"{"Method":"CREATE","Path":"q","Headers":{"id":"a"}}"#);
    let created = r#"{"Status":200,"Headers":{"id":"a","created":"true"}}"#;
    assert_eq!(browser.answer().body.trim(), created);
    browser.send("POST /v1", "", r#"{"Method":"ECHO","Headers":{"id":"b"}}"#);
    assert!(browser.answer().body.contains(r#""Headers":{"id":"b"}"#));
    browser.send("POST /v1", "", r#"{"Method":"TAKE","Path":"q","Headers":{"id":"c"}}"#);
    let mut client = server.connect();
    until("it waits", || client.done("SHOW q").value()["waiting"] == 1);
    client.done("PUT q | 1");
    let taken = browser.answer().body;
    assert!(taken.contains(r#""id":"c""#) && taken.contains(r#""Payload":1"#), "{taken}");
}

#[test]
fn the_deepest_request_is_the_same_as_over_tcp() {
    let frames = wire::Limits { depth: 3, ..wire::Limits::default() };
    let (_server, address) = start(Options { frames, ..Options::default() });
    let mut browser = Browser::connect(address);
    browser.send("POST /v1", "", r#"{"Method":"ECHO","Payload":[[1]]}"#);
    assert_eq!(browser.answer().status, 200);
    browser.send("POST /v1", "", r#"{"Method":"ECHO","Payload":[[[1]]]}"#);
    assert_eq!(browser.answer().status, 413);
}

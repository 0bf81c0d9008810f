//! Clients that no token has made known, and clients that are slow: what they may cost.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::{Duration, Instant};

use semaforo_server::net::limits;
use semaforo_server::server::Options;
use semaforo_server::server::access::Tokens;
use semaforo_server::server::limits::STRANGER_FRAME;

use crate::support::{Client, Folder, LONG, Process, Server, frame, until};

const ALL: &str = "fedcba9876543210";
const USER: &str = "0123456789abcdef";

/// A server that wants tokens.
fn guarded(options: Options) -> Server {
    let file = format!("{ALL} rights=use,create,admin\n{USER}\n");
    let tokens = Some(Tokens::parse(&file).unwrap());
    Server::with_token(Options { tokens, ..options }, ALL)
}

fn known(server: &Server) -> Client {
    let mut client = server.connect();
    client.done(&format!("AUTH / token={ALL}"));
    client
}

/// How many connections the server has.
fn connections(client: &mut Client) -> u64 {
    client.show("/").unwrap()["connections"].as_u64().unwrap()
}

#[test]
fn a_client_that_no_token_makes_known_gives_up_its_place_however_much_it_asks() {
    let limit = Duration::from_millis(150);
    let server = guarded(Options { first_request: limit, ..Options::default() });
    let (mut by_connection, mut by_request) = (known(&server), server.connect());
    by_request.done(&format!("PING / token={USER}"));
    for request in ["PING", "PING / token=no-such-token-here", "AUTH", "DANCE", "SHOW /nowhere"] {
        let (start, mut stranger) = (Instant::now(), server.connect());
        // What is sent when the connection has just been closed resets it.
        while stranger.stream.write_all(&frame(request)).is_ok() {
            let Some(answer) = stranger.try_answer() else { break };
            answer.is(401);
            assert!(start.elapsed() < LONG, "{request}");
        }
        assert!(start.elapsed() >= limit, "{request}");
    }
    by_connection.done("PING");
    by_request.done(&format!("PING / token={USER}"));
    until("the strangers are gone", || connections(&mut by_connection) == 2);
}

#[test]
fn the_requests_of_a_stranger_are_small() {
    assert_eq!(STRANGER_FRAME, 4096);
    let server = guarded(Options::default());
    let mut client = known(&server);
    client.done("CREATE q");
    let put = |size: usize| format!("PUT q token={ALL} | \"{}\"", "x".repeat(size));
    let small = STRANGER_FRAME - frame(&put(0)).len();
    server.connect().done(&put(small));
    let mut stranger = server.connect();
    stranger.ask(&put(small + 1)).is(413);
    assert!(stranger.ended());

    // Once it is known it may send as much as others, also in the same piece.
    let mut client = server.connect();
    client.send_bytes(&[frame(&format!("AUTH / token={ALL}")), frame(&put(500_000))].concat());
    assert_eq!(client.answers(2).iter().map(|answer| answer.status).collect::<Vec<_>>(), [200; 2]);
    let open = Server::start();
    open.connect().done(&format!("ECHO / | \"{}\"", "x".repeat(500_000)));
}

#[test]
fn a_request_that_does_not_come_to_its_end_is_refused() {
    assert_eq!(Options::default().unfinished, limits::UNFINISHED);
    assert_eq!(limits::UNFINISHED, Duration::from_secs(30));
    let limit = Duration::from_millis(150);
    let server = Server::with(Options { unfinished: limit, ..Options::default() });
    let mut other = server.connect();
    other.done("CREATE q");
    let (mut slow, mut busy) = (server.connect(), server.connect());
    slow.done("PING");
    slow.send("TAKE q id=waits");
    other.until_waiting("/queues/q", 1);
    let start = Instant::now();
    slow.send_bytes(b" \n {\"Method\":");
    // Not those between two requests, nor those that wait.
    busy.done("PING");
    busy.send("TAKE q id=waits");
    assert_eq!(slow.answer().is(204).id(), Some("waits"), "it is told first what it gave up");
    assert!(slow.answer().is(408).text.contains("too long to arrive"));
    assert!(slow.ended());
    assert!(start.elapsed() >= limit);
    other.done("PUT q | 1");
    assert_eq!(busy.answer().is(200).payload(), Some("1"));

    // Each request has its own time, however it is cut into pieces.
    let start = Instant::now();
    let half = b"}{\"Method\":\"PING\"";
    busy.send_bytes(&half[1..]);
    while start.elapsed() < limit * 3 {
        busy.send_bytes(half);
        busy.answer().is(200);
    }
    busy.send_bytes(b"}");
    busy.answer().is(200);
}

#[test]
fn a_larger_request_has_more_time() {
    let frames = semaforo_protocol::wire::Limits { size: 8 << 20, depth: 64 };
    let unfinished = Duration::from_millis(100);
    let server = Server::with(Options { frames, unfinished, ..Options::default() });
    let mut slow = server.connect();
    slow.done("PING");
    let start = Instant::now();
    slow.send_bytes(b"{");
    slow.answer().is(408);
    assert!(start.elapsed() >= unfinished * 8);
}

#[test]
fn strangers_make_room_for_others_when_places_run_out() {
    let server = guarded(Options { max_connections: 4, ..Options::default() });
    let mut known = known(&server);
    let mut strangers: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    strangers.iter_mut().for_each(|stranger| drop(stranger.ask("PING").is(401)));
    // Long before their time is up.
    let start = Instant::now();
    let mut newcomer = server.connect();
    newcomer.done(&format!("AUTH / token={ALL}"));
    assert!(start.elapsed() < limits::FIRST_REQUEST / 2, "{:?}", start.elapsed());
    assert!(strangers.remove(0).ended(), "the one that came first");
    strangers.iter_mut().for_each(|stranger| drop(stranger.ask("PING").is(401)));
    known.done("PING");
    newcomer.done("PING");
}

#[test]
fn slow_clients_make_room_for_others_when_places_run_out() {
    let server = Server::with(Options { max_connections: 2, ..Options::default() });
    let (mut idle, mut slow) = (server.connect(), server.connect());
    idle.done("PING");
    slow.done("PING");
    slow.send_bytes(b"{\"Method\":");
    let start = Instant::now();
    let mut newcomer = server.connect();
    newcomer.done("PING");
    assert!(start.elapsed() < limits::UNFINISHED / 2, "{:?}", start.elapsed());
    assert!(slow.ended());
    idle.done("PING");
    // There is no other that could make room.
    let mut last = server.connect();
    last.send("PING");
    assert!(last.is_silent());
    drop(idle);
    last.answer().is(200);
}

#[test]
fn a_client_that_has_just_come_is_given_a_moment() {
    let server = Server::with(Options { max_connections: 1, ..Options::default() });
    let (start, mut first) = (Instant::now(), server.connect());
    let mut second = server.connect();
    second.done("PING");
    assert!((limits::MOMENT..limits::FIRST_REQUEST / 2).contains(&start.elapsed()));
    assert!(first.ended());
    drop(second);
}

/// The attack on a real server: every place is taken by a client that is refused, and parks what it
/// may.
#[test]
fn parked_connections_do_not_keep_others_out() {
    const PLACES: usize = 200;
    let folder = Folder::new();
    let file = folder.path().join("tokens");
    let options = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
    options.open(&file).unwrap().write_all(format!("{ALL}\n").as_bytes()).unwrap();
    let places = PLACES.to_string();
    let file = file.to_str().unwrap();
    let arguments =
        ["--journal", "memory", "--tokens", file, "--max-connections", &places, "--log", "error"];
    let server = Process::with(folder.path(), &arguments);
    let before = server.resident();
    let mut parked: Vec<Client> = (0..PLACES).map(|_| server.connect()).collect();
    for stranger in &mut parked {
        stranger.ask("PING").is(401);
        stranger.send_bytes(&frame(&format!("ECHO / | \"{}\"", "x".repeat(3900)))[..3900]);
    }
    let start = Instant::now();
    let mut clients: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.done(&format!("AUTH / token={ALL}"));
    }
    assert!(start.elapsed() < limits::FIRST_REQUEST / 2, "{:?}", start.elapsed());
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 16 << 20, "{PLACES} strangers cost {grown} bytes");
    // More than that they cannot park.
    let mut stranger = parked.pop().unwrap();
    stranger.send_bytes(&[b'x'; 300]);
    stranger.answer().is(413);
    assert!(stranger.ended());
}

/// What a stranger is answered costs as little as what it sends, also if it does not read.
#[test]
fn a_stranger_that_does_not_read_is_closed() {
    let server = guarded(Options::default());
    let mut known = known(&server);
    let mut stranger = server.connect();
    let refused = frame("PING").repeat(100_000);
    let mut sender = stranger.twin();
    let sending = thread::spawn(move || sender.stream.write_all(&refused));
    let mut answers = 0;
    while let Some(answer) = stranger.try_answer() {
        answer.is(401);
        answers += 1;
    }
    // It is told why, at least once, and not as often as it asks.
    assert!((1..100_000).contains(&answers), "{answers}");
    let _ = sending.join().unwrap();
    until("it is gone", || connections(&mut known) == 1);
    // One that is known may ask as much as it wants to.
    known.send_bytes(&frame("PING / id=1").repeat(2000));
    assert_eq!(known.answers(2000).iter().filter(|answer| answer.status == 200).count(), 2000);
}

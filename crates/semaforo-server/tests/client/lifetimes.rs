//! How long a session lives, and a connection, in the eyes of the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use semaforo_client::{Client, Error};

use crate::client_support::LONG;
use crate::client_support::script::Script;
use crate::scripted::grant;

#[test]
fn a_session_is_kept_alive_and_lost_when_nobody_answers() {
    let script = Script::new();
    let address = script.address.to_string();
    let ttl = Duration::from_millis(600);
    let client = thread::spawn(move || Client::connect(address).ttl(ttl).wait().unwrap());
    let mut server = script.greet();
    let client = client.join().unwrap();
    let lost = client.session_lost();
    let (acquiring, waiting) = (client.lock("x").acquire(), client.lock("y").acquire());
    let acquiring = thread::spawn(move || acquiring.wait().unwrap());
    server.open("s1", 600);
    let asked = server.expect("ACQUIRE");
    grant(&mut server, &asked, "3");
    let guard = acquiring.join().unwrap();
    let began = Instant::now();
    for _ in 0..3 {
        let keep_alive = server.next().unwrap();
        assert_eq!((&*keep_alive.method, &*keep_alive.path), ("KEEPALIVE", "/sessions"));
        assert_eq!(keep_alive.header("session"), Some("s1"));
        server.answer(&keep_alive, 200, &[("ttl", "600")], None);
    }
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    assert!(!guard.is_lost());

    // Now the server does not answer any more.
    let silent = Instant::now();
    assert!(matches!(waiting.wait(), Err(Error::SessionLost)));
    assert!(guard.is_lost());
    assert!(lost.is_cancelled() && guard.lost().is_cancelled());
    assert!(silent.elapsed() <= Duration::from_millis(600) + LONG / 10);
    assert!(!client.session_lost().is_cancelled(), "the next one is not lost");
    drop(server);

    // The next request has a new session, and the old hold is not given back.
    drop(guard);
    let acquiring = thread::spawn(move || client.lock("x").acquire().wait());
    let mut server = loop {
        // Those that the client gave up are still in the queue.
        let mut server = script.accept();
        if let Some(asked) = server.next() {
            server.answer(&asked, 200, &[], None);
            if server.next().is_some_and(|asked| {
                let is_opening = asked.method == "OPEN";
                server.answer(&asked, 200, &[("session", "s2"), ("ttl", "600")], None);
                is_opening
            }) {
                break server;
            }
        }
    };
    let asked = server.expect("ACQUIRE");
    assert_eq!((asked.header("session"), asked.header("seq")), (Some("s2"), Some("1")));
    server.answer(&asked, 410, &[], None);
    assert!(matches!(acquiring.join().unwrap(), Err(Error::SessionLost)));
}

/// Without a session there are no keep-alives that would notice.
#[test]
fn a_connection_that_is_dead_without_a_word_is_given_up() {
    let script = Script::new();
    let address = script.address.to_string();
    let connect = Client::connect(address).ttl(Duration::from_millis(900)).patience(LONG);
    let client = thread::spawn(move || connect.wait().unwrap());
    let mut server = script.greet();
    let client = client.join().unwrap();
    let waiting = thread::spawn(move || client.latch("x").wait().wait());
    let first = server.expect("WAIT");
    assert_eq!(server.next().unwrap().method, "PING");
    assert!(server.next().is_none(), "it has hung up");
    assert!(
        server.is_reset,
        "what is still on its way comes with the next connection, and only there"
    );
    drop(server);
    let mut server = script.greet();
    let second = server.expect("WAIT");
    assert_eq!(second.path, first.path);
    server.answer(&second, 200, &[], None);
    waiting.join().unwrap().unwrap();
}

/// The server refuses much without looking at the session, and answers some things without one.
#[test]
fn what_is_refused_keeps_no_session_alive() {
    let script = Script::new();
    let address = script.address.to_string();
    let ttl = Duration::from_millis(600);
    let client = thread::spawn(move || Client::connect(address).ttl(ttl).wait().unwrap());
    let mut server = script.greet();
    let client = client.join().unwrap();
    let lock = client.lock("x");
    let acquiring = thread::spawn(move || lock.acquire().wait().unwrap());
    server.open("s1", 600);
    let asked = server.expect("ACQUIRE");
    grant(&mut server, &asked, "3");
    let guard = acquiring.join().unwrap();
    let granted = Instant::now();
    let is_over = Arc::new(AtomicBool::new(false));
    let asking = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            while !is_over.load(Ordering::SeqCst) {
                let _ = client.queue("jobs").put("1").wait();
                let _ = client.request("ECHO", "").in_session().wait();
            }
        }
    });
    let mut keep_alives = 0;
    while !guard.lost().is_cancelled() {
        assert!(granted.elapsed() < LONG, "it counts what was refused");
        let Some(asked) = server.next() else {
            // The keep-alive was not answered. The next connection is as bad.
            server = script.accept();
            continue;
        };
        match &*asked.method {
            "KEEPALIVE" => keep_alives += 1,
            "PUT" => server.answer(&asked, 507, &[], None),
            _ => server.answer(&asked, 200, &[], None),
        }
    }
    assert!(keep_alives > 0);
    is_over.store(true, Ordering::SeqCst);
    drop((server, script));
    asking.join().unwrap();
}

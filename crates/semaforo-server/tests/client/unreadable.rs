//! A request that the server could not read, and the search for it among others.

use std::thread;

use semaforo_client::Error;

use crate::client_support::script::Script;
use crate::client_support::{LONG, block_on, poll_once};
use crate::scripted::{connected, grant};

/// What the server says, without a word on which request it means, before it hangs up.
const TOO_LARGE: &[u8] = b"{\"Status\":413,\"Payload\":{\"error\":\"too large\"}}\n";

/// Nobody else is taken for it.
#[test]
fn what_could_not_be_read_may_have_been_forgotten() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let mut dropped = client.request("NEWS", "/first").send();
    assert!(poll_once(&mut dropped).is_pending());
    assert_eq!(server.expect("NEWS").path, "/first");
    drop(dropped);
    server.expect("CANCEL");
    let second = client.request("NEWS", "/second");
    let asking = thread::spawn(move || second.wait());
    assert_eq!(server.expect("NEWS").path, "/second");
    server.send(TOO_LARGE);
    let failed = asking.join().unwrap();
    assert!(matches!(failed, Err(Error::Disconnected)), "{failed:?}");
    drop(server);

    let mut server = script.greet();
    let mut dropped = client.latch("x").wait();
    assert!(poll_once(&mut dropped).is_pending());
    server.expect("WAIT");
    drop(dropped);
    server.expect("CANCEL");
    let acquiring =
        thread::spawn(move || client.lock("x").acquire().wait().map(|guard| guard.fence()));
    server.expect("OPEN");
    server.send(TOO_LARGE);
    drop(server);
    let mut server = script.greet();
    server.open("s1", 30_000);
    let asked = server.expect("ACQUIRE");
    grant(&mut server, &asked, "3");
    assert_eq!(acquiring.join().unwrap().unwrap(), 3);
}

/// Others wait for it, and it is never what could not be read.
#[test]
fn what_gives_back_is_not_held_up_by_a_search() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let mut guards = Vec::new();
    for fence in ["3", "4"] {
        let acquiring = client.lock(fence).acquire();
        let acquiring = thread::spawn(move || acquiring.wait().unwrap());
        if fence == "3" {
            server.open("s1", 30_000);
        }
        let asked = server.expect("ACQUIRE");
        grant(&mut server, &asked, fence);
        guards.push(acquiring.join().unwrap());
    }
    let mut putting =
        [client.queue("jobs").put("1").timeout(LONG), client.queue("jobs").put("2").timeout(LONG)];
    for putting in &mut putting {
        assert!(poll_once(putting).is_pending());
        server.expect("PUT");
    }
    drop(guards.pop());
    server.expect("RELEASE");
    server.send(TOO_LARGE);
    drop(server);

    let mut server = script.greet();
    let release = server.expect("RELEASE");
    assert_eq!(release.header("fence"), Some("4"));
    let first = server.expect("PUT");
    assert_eq!(first.payload.as_deref(), Some("1"));
    let trial = server.next().unwrap();
    assert_eq!(trial.method, "PING");
    drop(guards.pop());
    let release = server.expect("RELEASE");
    assert_eq!(release.header("fence"), Some("3"));
    server.answer(&trial, 200, &[], None);
    assert_eq!(server.expect("PUT").payload.as_deref(), Some("2"));
    assert_eq!(server.next().unwrap().method, "PING");
    server.send(TOO_LARGE);
    let refused = block_on(putting.into_iter().next_back().unwrap());
    assert!(matches!(refused, Err(Error::Refused { status: 413, .. })), "{refused:?}");
}

/// The search for what could not be read begins behind what has been read for sure.
#[test]
fn many_that_are_sent_again_are_not_all_suspected() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let mut waiting: Vec<_> =
        (0..40).map(|number| client.latch(&number.to_string()).wait()).collect();
    for waiting in &mut waiting {
        assert!(poll_once(waiting).is_pending());
        server.expect("WAIT");
    }
    drop(server);

    let mut server = script.greet();
    for _ in 0..32 {
        assert_eq!(server.next().unwrap().method, "WAIT");
    }
    let ping = server.next().unwrap();
    assert_eq!(ping.method, "PING");
    server.answer(&ping, 200, &[], None);
    for _ in 32..40 {
        server.expect("WAIT");
    }
    server.send(TOO_LARGE);
    drop(server);

    let mut server = script.greet();
    assert_eq!(server.expect("WAIT").path, "/latches/32");
    assert_eq!(server.next().unwrap().method, "PING");
}

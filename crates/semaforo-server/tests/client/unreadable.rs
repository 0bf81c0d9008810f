//! Requests that the server cannot read: they are not sent, because it has said what it can. A
//! server that has not said so tells that there was one, but not which.

use std::thread;

use semaforo_client::{Client, Error};
use semaforo_protocol::wire::Limits;
use semaforo_server::server::Options;

use crate::client_support::script::{Conversation, Script};
use crate::client_support::{LONG, Running, block_on, poll_once};
use crate::scripted::{connected, grant};

/// What the server says, without a word on which request it means, before it hangs up.
const TOO_LARGE: &[u8] = b"{\"Status\":413,\"Payload\":{\"error\":\"too large\"}}\n";

fn is_too_large<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::Refused { status: 413, .. })), "{result:?}");
}

fn text(length: usize) -> String {
    format!("\"{}\"", "x".repeat(length))
}

/// A client of this script, which is told these limits.
fn told(script: &Script, limits: &[(&str, &str)]) -> (Client, Conversation) {
    let address = script.address.to_string();
    let client = thread::spawn(move || Client::connect(address).wait().unwrap());
    let conversation = script.greet_with(limits);
    (client.join().unwrap(), conversation)
}

#[test]
fn what_is_too_large_or_too_deep_for_this_server_is_not_sent() {
    let script = Script::new();
    let (client, mut server) = told(&script, &[("max-frame", "200"), ("max-depth", "3")]);
    is_too_large(client.request("NEWS", "/x").payload(text(200)).wait());
    is_too_large(client.request("NEWS", "/x").payload("[[[]]]").wait());
    // What fits does so to the byte.
    let frame = |payload: &str| {
        format!(r#"{{"Method":"NEWS","Path":"/x","Headers":{{"id":"3"}},"Payload":{payload}}}"#)
    };
    let most = 200 - frame(&text(0)).len();
    let asking = client.request("NEWS", "/x").payload(text(most));
    let asked = server.serve("NEWS", move || asking.wait());
    assert_eq!((asked.number("id"), asked.payload.as_deref()), (3, Some(&*text(most))));
    is_too_large(client.request("NEWS", "/x").payload(text(most + 1)).wait());
    let asking = client.request("NEWS", "/x").payload("[[]]");
    server.serve("NEWS", move || asking.wait());
}

#[test]
fn a_server_that_names_no_limits_has_the_usual_ones() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    is_too_large(client.request("NEWS", "/x").payload(text(Limits::SIZE)).wait());
    let asking = client.request("NEWS", "/x").payload(text(Limits::SIZE / 2));
    server.serve("NEWS", move || asking.wait());
}

/// What was asked of one server may be too large for the next.
#[test]
fn the_limits_are_those_of_the_connection() {
    let script = Script::new();
    let (client, mut server) = told(&script, &[("max-frame", "5000000"), ("max-depth", "64")]);
    let putting = client.queue("jobs").put(text(2 << 20)).timeout(LONG);
    let mut others = [client.latch("x").wait(), client.latch("y").wait()];
    assert!(poll_once(&mut others[0]).is_pending());
    let putting = thread::spawn(move || putting.wait());
    server.expect("WAIT");
    server.open("s1", 30_000);
    server.next_of(5_000_000);
    drop(server);

    let mut server = script.greet();
    assert!(poll_once(&mut others[1]).is_pending());
    for _ in &others {
        let asked = server.expect("WAIT");
        server.answer(&asked, 200, &[], None);
    }
    is_too_large(putting.join().unwrap());
    for other in others {
        block_on(other).unwrap();
    }
}

#[test]
fn a_token_is_shown_and_the_limits_are_told() {
    let tokens = "0123456789abcdef rights=use,create,admin";
    let tokens = Some(semaforo_server::server::access::Tokens::parse(tokens).unwrap());
    let frames = Limits { size: 6000, depth: 8 };
    let token = "0123456789abcdef";
    let server = Running::with(Options { frames, tokens, ..Options::default() }, Some(token));
    let client = Client::connect(server.address.to_string()).token(token).wait().unwrap();
    let jobs = client.queue("jobs");
    jobs.create(0).wait().unwrap();
    // More than a stranger may say, less than the server takes.
    jobs.put(text(5000)).timeout(LONG).wait().unwrap();
    is_too_large(jobs.put(text(6000)).timeout(LONG).wait());
    is_too_large(jobs.put("[[[[[[[[]]]]]]]]").timeout(LONG).wait());
    assert_eq!(jobs.take().timeout(LONG).wait().unwrap().payload, text(5000));
}

/// It may have been any of those that are not answered: they are sent once more.
#[test]
fn what_an_old_server_cannot_read_twice_is_refused() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let once = client.request("NEWS", "/once");
    let once = thread::spawn(move || once.wait());
    server.expect("NEWS");
    let acquiring = client.lock("x").acquire();
    let acquiring = thread::spawn(move || acquiring.wait());
    server.open("s1", 30_000);
    let asked = server.expect("ACQUIRE");
    grant(&mut server, &asked, "3");
    let guard = acquiring.join().unwrap().unwrap();
    let mut putting = client.queue("jobs").put("1").timeout(LONG);
    assert!(poll_once(&mut putting).is_pending());
    server.expect("PUT");
    drop(guard);
    server.expect("RELEASE");
    server.send(TOO_LARGE);
    // It is not sent a second time, so this is all that can be said of it.
    is_too_large(once.join().unwrap());
    drop(server);

    let mut server = script.greet();
    assert_eq!(server.expect("PUT").payload.as_deref(), Some("1"));
    server.expect("RELEASE");
    let mut other = client.queue("jobs").put("2").timeout(LONG);
    assert!(poll_once(&mut other).is_pending());
    assert_eq!(server.expect("PUT").payload.as_deref(), Some("2"));
    server.send(TOO_LARGE);
    is_too_large(block_on(putting));
    drop(server);

    // What gives back has nothing in it that the server has not read before.
    let mut server = script.greet();
    assert_eq!(server.expect("RELEASE").header("fence"), Some("3"));
    let asked = server.expect("PUT");
    assert_eq!(asked.payload.as_deref(), Some("2"));
    server.answer(&asked, 200, &[("message", "1")], None);
    assert_eq!(block_on(other).unwrap(), 1);
}

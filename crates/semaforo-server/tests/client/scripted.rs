//! What the client says, word for word, to a server of a few written words.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use semaforo_client::{Call, Client, Error};

use crate::client_support::script::{Asked, Conversation, Script};
use crate::client_support::{LONG, block_on, poll_once, until};
use semaforo::CancelSource;

/// A client of this script, which has greeted it.
pub(crate) fn connected(script: &Script) -> (Client, Conversation) {
    let address = script.address.to_string();
    let client = thread::spawn(move || Client::connect(address).wait().unwrap());
    let conversation = script.greet();
    (client.join().unwrap(), conversation)
}

pub(crate) fn grant(conversation: &mut Conversation, asked: &Asked, fence: &str) {
    conversation.answer(asked, 200, &[("fence", fence)], None);
}

#[test]
fn a_lock_is_acquired_and_released() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let lock = client.lock("a/b");
    let acquiring = thread::spawn(move || lock.acquire().wait().unwrap());
    let opening = server.open("s1", 30_000);
    assert_eq!((&*opening.path, opening.number("ttl")), ("/sessions", 30_000));

    let asked = server.expect("ACQUIRE");
    assert_eq!(asked.path, "/locks/a/b");
    assert_eq!(asked.header("session"), Some("s1"));
    assert_eq!(asked.header("seq"), Some("1"));
    assert_eq!(asked.header("timeout"), None);
    grant(&mut server, &asked, "7");
    let guard = acquiring.join().unwrap();
    assert_eq!(guard.fence(), 7);
    assert!(!guard.is_lost());

    let releasing = guard.release();
    let asked = server.expect("RELEASE");
    assert_eq!(asked.header("fence"), Some("7"));
    assert_eq!(asked.header("session"), Some("s1"));
    assert_eq!(asked.header("acked"), Some("1"));
    server.answer(&asked, 200, &[], None);
    releasing.wait().unwrap();

    let closing = client.close();
    let asked = server.expect("CLOSE");
    assert_eq!(asked.header("session"), Some("s1"));
    server.answer(&asked, 200, &[], None);
    closing.wait().unwrap();
    assert!(server.next().is_none() && !server.is_reset);
}

#[test]
fn a_request_that_is_dropped_is_cancelled() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let mut acquiring = client.lock("x").acquire();
    assert!(poll_once(&mut acquiring).is_pending());
    server.open("s1", 30_000);
    let asked = server.expect("ACQUIRE");
    drop(acquiring);
    let cancel = server.expect("CANCEL");
    assert_eq!(cancel.header("session"), Some("s1"));
    assert_eq!(cancel.header("seq"), asked.header("seq"));
    // Too late: it was granted, and is given back.
    grant(&mut server, &asked, "9");
    server.answer(&cancel, 404, &[], None);
    let release = server.expect("RELEASE");
    assert_eq!((&*release.path, release.header("fence")), ("/locks/x", Some("9")));
}

/// Also in another client's session, which would hold it for ever, or for the connection.
#[test]
fn what_a_raw_request_was_granted_too_late_is_given_back() {
    for session in [Some("theirs"), None] {
        let script = Script::new();
        let (client, mut server) = connected(&script);
        let mut request = client.request("acquire", "/locks/x");
        if let Some(session) = session {
            request = request.header("session", session);
        }
        let mut acquiring = request.send();
        assert!(poll_once(&mut acquiring).is_pending());
        let asked = server.expect("acquire");
        drop(acquiring);
        let cancel = server.expect("CANCEL");
        assert_eq!(cancel.header("request"), asked.header("id"));
        // The client goes away, but not before this is settled.
        drop(client);
        grant(&mut server, &asked, "9");
        server.answer(&cancel, 404, &[], None);
        let release = server.expect("RELEASE");
        assert_eq!((&*release.path, release.header("fence")), ("/locks/x", Some("9")));
        assert_eq!(release.header("session"), session);
        server.answer(&release, 200, &[], None);
        assert!(server.next().is_none());
    }
}

#[test]
fn a_grant_that_nobody_claims_is_given_back() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let mut taking = client.queue("jobs").take();
    assert!(poll_once(&mut taking).is_pending());
    server.open("s1", 30_000);
    let asked = server.expect("TAKE");
    assert_eq!(asked.header("ack"), Some("manual"));
    let headers = [("message", "5"), ("deliveries", "1")];
    server.answer(&asked, 200, &headers, Some("{\"n\":1}"));
    // The answer to something later has arrived, so this one has, too.
    let pinging = client.ping();
    server.serve("PING", move || pinging.wait());
    drop(taking);
    let returning = server.expect("RETURN");
    assert_eq!(returning.header("message"), Some("5"));
}

#[test]
fn a_request_that_was_never_polled_was_never_asked() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    drop(client.lock("x").acquire());
    let pinging = client.ping();
    server.serve("PING", move || pinging.wait());
}

#[test]
fn a_token_cancels() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let stop = CancelSource::new();
    let token = stop.token();
    let acquiring = thread::spawn(move || block_on(client.lock("x").acquire().cancel_on(&token)));
    server.open("s1", 30_000);
    let asked = server.expect("ACQUIRE");
    stop.cancel();
    assert!(matches!(acquiring.join().unwrap(), Err(Error::Cancelled)));
    let cancel = server.expect("CANCEL");
    server.answer(&asked, 204, &[], None);
    server.answer(&cancel, 200, &[], None);
    // The client is gone with its last request.
    server.expect("CLOSE");
}

#[test]
fn what_was_not_answered_is_asked_again() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let queue = client.queue("jobs");
    let putting = queue.put("[1]").priority(-3).timeout(LONG);
    let putting = thread::spawn(move || putting.wait());
    server.open("s1", 30_000);
    let first = server.expect("PUT");
    assert_eq!(first.payload.as_deref(), Some("[1]"));
    assert!(first.number("timeout") <= LONG.as_millis() as u64);
    drop(server);

    let mut server = script.greet();
    let second = server.expect("PUT");
    for header in ["session", "seq", "priority"] {
        assert_eq!(first.header(header), second.header(header), "{header}");
    }
    assert_eq!(second.payload.as_deref(), Some("[1]"));
    assert!(second.number("timeout") <= first.number("timeout"));
    server.answer(&second, 200, &[("message", "12")], None);
    assert_eq!(putting.join().unwrap().unwrap(), 12);
}

#[test]
fn what_was_abandoned_meanwhile_is_only_looked_after() {
    fn abandon<T>(begin: impl FnOnce(&Client) -> Call<T>) {
        let script = Script::new();
        let (client, mut server) = connected(&script);
        let mut acquiring = begin(&client);
        assert!(poll_once(&mut acquiring).is_pending());
        server.open("s1", 30_000);
        let first = server.expect("ACQUIRE");
        drop(server);
        drop(acquiring);
        let mut server = script.greet();
        let second = server.expect("ACQUIRE");
        assert_eq!(first.header("seq"), second.header("seq"));
        assert_eq!(second.header("timeout"), Some("0"), "it does not wait");
        grant(&mut server, &second, "3");
        assert_eq!(server.expect("RELEASE").header("fence"), Some("3"));
    }
    abandon(|client| client.lock("x").acquire());
    abandon(|client| client.request("ACQUIRE", "/locks/x").in_session().send());
    abandon(|client| {
        client.request("ACQUIRE", "/locks/x").header("Timeout", 60_000).in_session().send()
    });
}

/// The caller was told that it is not done, and may have asked again.
#[test]
fn what_was_abandoned_and_cannot_be_undone_is_not_done_later() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let queue = client.queue("jobs");
    let stop = CancelSource::new();
    let putting = queue.put("1").cancel_on(&stop.token());
    let putting = thread::spawn(move || putting.wait());
    server.open("s1", 30_000);
    let first = server.expect("PUT");
    drop(server);
    stop.cancel();
    assert!(matches!(putting.join().unwrap(), Err(Error::Cancelled)));

    let mut server = script.greet();
    let cancel = server.expect("CANCEL");
    for header in ["session", "seq"] {
        assert_eq!(cancel.header(header), first.header(header), "{header}");
    }
    assert_eq!(cancel.header("acked"), Some("1"), "it comes too late from now on");
    assert_eq!(cancel.header("request"), None);
    drop(server);

    // It has to be heard. What the answer is does not matter.
    let mut server = script.greet();
    let cancel = server.expect("CANCEL");
    server.answer(&cancel, 404, &[], None);
    let putting = thread::spawn(move || queue.put("2").wait());
    let asked = server.expect("PUT");
    assert_eq!((asked.payload.as_deref(), asked.header("seq")), (Some("2"), Some("2")));
    server.answer(&asked, 200, &[("message", "1")], None);
    putting.join().unwrap().unwrap();
    let closing = client.close();
    let asked = server.expect("CLOSE");
    server.answer(&asked, 200, &[], None);
    closing.wait().unwrap();
}

#[test]
fn a_release_whose_answer_was_lost_is_done() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let acquiring = thread::spawn(move || client.lock("x").acquire().wait().unwrap());
    server.open("s1", 30_000);
    let asked = server.expect("ACQUIRE");
    grant(&mut server, &asked, "3");
    let releasing = acquiring.join().unwrap().release();
    server.expect("RELEASE");
    drop(server);
    let mut server = script.greet();
    let asked = server.expect("RELEASE");
    server.answer(&asked, 410, &[], None);
    releasing.wait().unwrap();
}

/// A waker that panics is its owner's affair.
#[test]
fn a_waker_that_panics_harms_nobody_else() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let mut pinging = client.ping();
    let waker = Waker::from(Arc::new(Panics));
    assert!(Pin::new(&mut pinging).poll(&mut Context::from_waker(&waker)).is_pending());
    let asked = server.expect("PING");
    server.answer(&asked, 200, &[], None);
    until("the answer is there", || poll_once(&mut pinging).is_ready());
    server.serve("PING", move || client.ping().wait());
}

#[test]
fn a_raw_request_is_not_asked_again() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let asking = client.request("NEWS", "/x").header("a", 1).payload("{}");
    let asking = thread::spawn(move || asking.wait());
    let asked = server.expect("NEWS");
    assert_eq!((asked.header("a"), asked.header("session")), (Some("1"), None));
    drop(server);
    assert!(matches!(asking.join().unwrap(), Err(Error::Disconnected)));
}

/// The server says so also to requests that wait when it closes a connection.
#[test]
fn what_has_no_time_limit_does_not_time_out() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let mut ask = |timeout: Option<u64>| {
        let mut request = client.request("ACQUIRE", "/locks/x");
        if let Some(timeout) = timeout {
            request = request.header("timeout", timeout);
        }
        let asking = thread::spawn(move || request.wait().map(drop));
        let asked = server.expect("ACQUIRE");
        server.answer(&asked, 204, &[], None);
        asking.join().unwrap()
    };
    assert!(matches!(ask(Some(5)), Err(Error::TimedOut)));
    assert!(matches!(ask(None), Err(Error::Disconnected)));
}

#[test]
fn time_runs_out_without_a_connection() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let lock = client.lock("x");
    let acquiring =
        thread::spawn(move || lock.acquire().timeout(Duration::from_millis(300)).wait());
    server.open("s1", 30_000);
    assert!(server.expect("ACQUIRE").number("timeout") <= 300);
    drop(server);
    drop(script);
    assert!(matches!(acquiring.join().unwrap(), Err(Error::TimedOut)));
}

#[test]
fn a_stopping_server_is_not_the_end() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let acquiring = thread::spawn(move || client.lock("x").acquire().wait());
    server.open("s1", 30_000);
    let asked = server.expect("ACQUIRE");
    server.answer(&asked, 503, &[], None);
    assert!(server.next().is_none());
    let mut server = script.greet();
    let asked = server.expect("ACQUIRE");
    grant(&mut server, &asked, "4");
    assert_eq!(acquiring.join().unwrap().unwrap().fence(), 4);
}

#[test]
fn statuses_are_errors() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let mut ask = |status: u16| {
        let showing = client.show("/locks/x");
        let showing = thread::spawn(move || showing.wait().unwrap_err());
        let asked = server.expect("SHOW");
        server.answer(&asked, status, &[], Some("{\"error\":\"so \\\"it\\\" is\"}"));
        showing.join().unwrap()
    };
    let is_so = |message: &str| message == "so \"it\" is";
    assert!(matches!(ask(404), Error::NotFound(message) if is_so(&message)));
    assert!(matches!(ask(409), Error::Conflict(message) if is_so(&message)));
    assert!(matches!(ask(410), Error::Gone(message) if is_so(&message)));
    let refused = ask(403);
    assert!(matches!(&refused, Error::Refused { status: 403, message } if is_so(message)));
    assert_eq!(refused.to_string(), "refused (403): so \"it\" is");
}

#[test]
fn nonsense_ends_the_connection_not_the_request() {
    for nonsense in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"[1]", b"{}", b"{\"Status\":400}"] {
        let script = Script::new();
        let (client, mut server) = connected(&script);
        let pinging = thread::spawn(move || client.ping().wait());
        server.expect("PING");
        server.send(nonsense);
        let mut server = script.greet();
        let asked = server.expect("PING");
        server.answer(&asked, 200, &[], None);
        pinging.join().unwrap().unwrap();
    }
}

#[test]
fn who_cannot_be_reached_or_refuses() {
    let script = Script::new();
    let address = script.address.to_string();
    let connecting = thread::spawn({
        let address = address.clone();
        move || Client::connect(address).token("secret").wait().map(drop)
    });
    let mut server = script.accept();
    let asked = server.expect("AUTH");
    assert_eq!(asked.header("token"), Some("secret"));
    server.answer(&asked, 401, &[], Some("{\"error\":\"no\"}"));
    let refused = connecting.join().unwrap().unwrap_err();
    assert!(matches!(refused, Error::Refused { status: 401, .. }), "{refused}");

    drop((script, server));
    let refused = block_on(async { Client::connect(address).await }).map(drop).unwrap_err();
    assert!(matches!(refused, Error::CannotConnect(_)), "{refused}");
}

#[test]
fn patience_ends() {
    let script = Script::new();
    let address = script.address.to_string();
    let connect = Client::connect(address).patience(Duration::from_millis(200));
    let client = thread::spawn(move || connect.wait().unwrap());
    let server = script.greet();
    let client = client.join().unwrap();
    drop((server, script));
    let asked = Instant::now();
    assert!(matches!(client.ping().wait(), Err(Error::Disconnected)));
    assert!(asked.elapsed() < LONG / 2);
    // One that comes later waits as long.
    let asked = Instant::now();
    assert!(matches!(block_on(client.ping()), Err(Error::Disconnected)));
    assert!(asked.elapsed() >= Duration::from_millis(200));
}

/// The server keeps 1024 answers. One that waits for long must not stop all the others.
#[test]
fn a_long_wait_does_not_use_up_the_numbers() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let mut waiting = client.lock("x").acquire();
    assert!(poll_once(&mut waiting).is_pending());
    server.open("s1", 30_000);
    let long = server.expect("ACQUIRE");
    let putter = client.clone();
    let putting = thread::spawn(move || {
        for number in 0..1100_u64 {
            assert_eq!(putter.queue("jobs").put("1").wait().unwrap(), number);
        }
    });
    for number in 0..1100_u64 {
        if number == 1023 {
            server.open("s2", 30_000);
        }
        let asked = server.expect("PUT");
        let session = if number < 1023 { "s1" } else { "s2" };
        assert_eq!(asked.header("session"), Some(session));
        assert!(asked.number("seq") <= 1024);
        server.answer(&asked, 200, &[("message", &number.to_string())], None);
    }
    putting.join().unwrap();
    grant(&mut server, &long, "5");
    let guard = block_on(waiting).unwrap();
    drop(guard);
    let asked = server.expect("RELEASE");
    assert_eq!(asked.header("session"), Some("s1"));
    server.answer(&asked, 200, &[], None);
    // The first one is not needed any more.
    assert_eq!(server.expect("CLOSE").header("session"), Some("s1"));
}

#[test]
fn after_closing_everything_fails() {
    let script = Script::new();
    let (client, mut server) = connected(&script);
    let other = client.clone();
    let waiting = {
        let client = client.clone();
        thread::spawn(move || client.latch("x").wait().wait())
    };
    let asked = server.expect("WAIT");
    assert_eq!(asked.header("session"), None);
    let closing = client.close();
    assert!(matches!(waiting.join().unwrap(), Err(Error::Disconnected)));
    closing.wait().unwrap();
    assert!(matches!(other.ping().wait(), Err(Error::Disconnected)));
    until("the connection is closed", || server.next().is_none());
}

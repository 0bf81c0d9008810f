//! Every status, and limits that lead to some of them.

use std::thread;
use std::time::Duration;

use semaforo_server::kernel;
use semaforo_server::server::access::Tokens;
use semaforo_server::server::limits::MAX_WAITS;
use semaforo_server::server::{JournalKind, Options};

use crate::support::{Held, Server, frame, until};

#[test]
fn statuses_of_objects() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    for (status, request) in [
        (200, "CREATE /semaphores/s permits=2"),
        (200, "CREATE /semaphores/s permits=2"),
        (409, "CREATE /semaphores/s permits=3"),
        (400, "CREATE /semaphores/t permits=0"),
        (400, "CREATE /semaphores/t permits=1073741824"),
        (400, "CREATE /semaphores/t permits=two"),
        (400, "CREATE /semaphores/t"),
        (400, "CREATE /semaphores/t permits=3 initial=0"),
        (400, "CREATE /semaphores/t permits=3 initial=4 open=true"),
        (400, "CREATE /semaphores/t permits=3 initial=-1 open=true"),
        (400, "CREATE /semaphores/t permits=3 open=perhaps"),
        (404, "RESIZE /semaphores/t permits=3"),
        (200, "CREATE /semaphores/o permits=3 initial=0 open=true"),
        (204, "ACQUIRE /semaphores/o timeout=0"),
        (200, "RELEASE /semaphores/o permits=2"),
        (409, "RELEASE /semaphores/o permits=2"),
        (410, "RELEASE /semaphores/o fence=1"),
        (200, "ACQUIRE /semaphores/o permits=2 timeout=0"),
        (409, "CREATE /semaphores/o permits=3 initial=1 open=true"),
        (409, "CREATE /semaphores/o permits=3"),
        (200, "RESIZE /semaphores/o permits=1"),
        (400, "ACQUIRE /semaphores/o permits=2"),
        (400, "RESIZE /semaphores/o permits=0"),
        (400, "RESIZE /semaphores/o permits=-1"),
        (400, "RESIZE /semaphores/o permits=1073741824"),
        (400, "RESIZE /semaphores/o"),
        (405, "RESIZE /locks/l permits=1"),
        (405, "RESIZE /queues/q permits=1"),
        (200, "CREATE /semaphores/u permits=3 initial=3"),
        (400, "ACQUIRE /semaphores/s permits=3"),
        (400, "ACQUIRE /semaphores/s permits=-1"),
        (400, "ACQUIRE /semaphores/s timeout=soon"),
        (404, "ACQUIRE /semaphores/t"),
        (404, "SHOW /semaphores/t"),
        (404, "DELETE /semaphores/t"),
        (200, "ACQUIRE /semaphores/s permits=2"),
        (204, "ACQUIRE /semaphores/s timeout=0"),
        (204, "ACQUIRE /semaphores/s timeout=5"),
        (410, "CHECK /semaphores/s fence=9007199254740992"),
        (400, "CHECK /semaphores/s fence=0"),
        (400, "CHECK /semaphores/s"),
        (400, "RELEASE /semaphores/s permits=3"),
        (200, "RELEASE /semaphores/s permits=1"),
        (200, "RELEASE /semaphores/s"),
        (410, "RELEASE /semaphores/s"),
        (405, "CREATE /locks/l"),
        (405, "DELETE /locks/l"),
        (405, "TAKE /locks/l"),
        (405, "NONSENSE /locks/l"),
        (405, "NONSENSE /"),
        (405, "ACQUIRE /locks"),
        (405, "OPEN /"),
        (405, "LIST /sessions"),
        (410, "RELEASE /locks/l"),
        (404, "SHOW /locks/l"),
        (404, "ACQUIRE /lock/l"),
        (404, "ACQUIRE /nothing"),
        (404, "SHOW /sessions/label"),
        (400, "ACQUIRE /locks/"),
        (200, "ACQUIRE /rwlocks/r mode=read"),
        (409, "DOWNGRADE /rwlocks/r"),
        (400, "ACQUIRE /rwlocks/r mode=both"),
        (200, "CREATE /latches/c count=1"),
        (400, "DOWN /latches/c by=2"),
        (200, "CREATE /events/e"),
        (400, "CREATE /events/f reset=never"),
        (400, "CREATE /events/f set=perhaps"),
        (204, "WAIT /events/e timeout=0"),
        (400, "ARRIVE /barriers/b"),
        (400, "ARRIVE /barriers/b parties=0"),
        (400, "ARRIVE /barriers/b parties=1048577"),
        (204, "ARRIVE /barriers/b parties=2 timeout=0"),
        (409, "ARRIVE /barriers/b parties=2"),
        (200, "CREATE q capacity=1"),
        (410, "ACK q message=1"),
        (400, "ACK q"),
        (400, "PUT q priority=2147483648"),
        (400, "PUT q delay=forever"),
        (200, "PUT q priority=-2147483648"),
        (204, "PUT q timeout=0"),
        (400, "TAKE q ack=perhaps"),
        (400, "OPEN /sessions ttl=99"),
        (400, "OPEN /sessions ttl=86400001"),
        (400, "KEEPALIVE /sessions"),
        (400, "KEEPALIVE /sessions session=12"),
        (410, "KEEPALIVE /sessions session=00000000000000000000000000000000"),
        (410, "CLOSE /sessions session=00000000000000000000000000000000"),
        (410, "ACQUIRE /locks/l session=00000000000000000000000000000000"),
        (400, "ACQUIRE /locks/l seq=1"),
        (400, "ACQUIRE /locks/l acked=1"),
        (400, "LIST / limit=-1"),
        (400, "LIST / limit=100001"),
    ] {
        let answer = client.ask(request);
        assert_eq!(answer.status, status, "{request}: {}", answer.text);
    }
    let longest = "n".repeat(255);
    client.done(&format!("ACQUIRE /locks/{longest}"));
    client.ask(&format!("ACQUIRE /locks/{longest}n")).is(400);
    client.ask(r#"{"Method":"ACQUIRE","Path":"/locks/a\nb"}"#).is(400);
    client.done(r#"{"Method":"ACQUIRE","Path":"/locks/a/b c/é"}"#);

    // Deleted while it waited.
    client.send("TAKE r");
    client.answer().is(404);
    other.done("CREATE r");
    client.send("TAKE r");
    other.until_waiting("/queues/r", 1);
    other.done("DELETE r");
    client.answer().is(404);
}

#[test]
fn over_the_limit_of_holds() {
    let limits = kernel::Limits { holds: 2, ..kernel::Limits::default() };
    let server = Server::with(Options { limits, ..Options::default() });
    let mut client = server.connect();
    client.done("CREATE /semaphores/s permits=9");
    let fence = client.done("ACQUIRE /semaphores/s permits=0").fence();
    client.done("ACQUIRE /rwlocks/r mode=read");
    client.ask("ACQUIRE /semaphores/s permits=0").is(429);
    client.ask("ACQUIRE /locks/a").is(429);
    client.done(&format!("RELEASE /semaphores/s fence={fence}"));
    client.done("ACQUIRE /locks/a");
}

#[test]
fn messages_that_are_kept_with_answers_need_space_until_they_are_acknowledged() {
    let limits = kernel::Limits { bytes: 100, ..kernel::Limits::default() };
    let server = Server::with(Options { limits, ..Options::default() });
    let mut client = server.connect();
    client.done("CREATE q");
    let session = client.done("OPEN /sessions").header("session").unwrap().to_owned();
    let filling = format!("PUT q | \"{}\"", "x".repeat(58));
    client.done(&filling);
    client.done(&format!("TAKE q session={session} seq=1"));
    client.ask(&filling).is(507);
    client.done(&format!("KEEPALIVE /sessions session={session} acked=1"));
    client.done(&filling);
    client.done(&format!("TAKE q session={session} seq=2"));
    client.ask(&filling).is(507);
    client.done(&format!("CLOSE /sessions session={session}"));
    client.done(&filling);
}

#[test]
fn over_the_limits_of_the_kernel() {
    let limits = kernel::Limits {
        objects: 3,
        sessions: 1,
        waits: 2,
        messages: 2,
        bytes: 100,
        ..kernel::Limits::default()
    };
    let server = Server::with(Options { limits, ..Options::default() });
    let (mut client, mut other) = (server.connect(), server.connect());
    client.done("CREATE q");
    client.done("ACQUIRE /locks/a");
    client.done("ACQUIRE /locks/b");
    client.ask("ACQUIRE /locks/c").is(429);
    client.ask("CREATE r").is(429);
    client.ask("ARRIVE /barriers/b parties=2").is(429);
    client.done("RELEASE /locks/b");

    let session = client.done("OPEN /sessions").header("session").unwrap().to_owned();
    client.ask("OPEN /sessions").is(429);
    client.done(&format!("CLOSE /sessions session={session}"));
    client.done("OPEN /sessions");

    other.send("ACQUIRE /locks/a id=1");
    other.send("ACQUIRE /locks/a id=2");
    client.until_waiting("/locks/a", 2);
    client.ask("ACQUIRE /locks/a").is(429);
    client.ask("ACQUIRE /locks/a timeout=0").is(204);

    let filling = format!("PUT q | \"{}\"", "x".repeat(58));
    client.done(&filling);
    client.ask(&filling).is(507);
    client.done("PUT q | 1");
    client.ask("PUT q | 2").is(507);
    client.ask("TRANSFER q | 2").is(507);
    client.done("TAKE q");
    client.done("PUT q | 2");
}

#[test]
fn without_space_for_the_journal_nothing_is_added_and_everything_can_end() {
    let journal = Held::default();
    let server = journal.server(Options::default());
    let mut client = server.connect();
    let session = client.done("OPEN /sessions").header("session").unwrap().to_owned();
    client.done("CREATE q");
    client.done("PUT q | 1");
    client.done("PUT q | 2");
    let put = format!("PUT q session={session} seq=1 | 3");
    let message = client.done(&put).number("message");
    client.done(&format!("ACQUIRE /locks/a session={session}"));
    client.done("CREATE /events/e");
    client.done("CREATE /latches/l count=2");
    // Below the reserve: what needs more is refused, what gives back goes on.
    journal.leave(Some(256 << 10));
    for request in [
        "PUT q | 4",
        "TRANSFER q | 4",
        "CREATE r",
        "ACQUIRE /locks/b",
        "OPEN /sessions",
        "SET /events/e",
        "RESET /events/e",
        "DOWN /latches/l",
        "RESET /latches/l",
        "ARRIVE /barriers/b parties=2",
    ] {
        client.ask(request).is(507);
    }
    // It was done when there was space.
    assert_eq!(client.done(&put).number("message"), message);
    client.ask(&format!("PUT q session={session} seq=1 | 4")).is(409);
    client.done("TAKE q");
    let taken = client.done("TAKE q ack=manual").number("message");
    client.done(&format!("ACK q message={taken}"));
    client.done(&format!("RELEASE /locks/a session={session}"));
    client.done(&format!("CLOSE /sessions session={session}"));
    client.done("DELETE q");
    journal.leave(None);
    client.done("CREATE r");
}

/// Not even what gives space back has any: the server refuses it, and ends neither itself nor a
/// session.
#[test]
fn without_any_space_for_the_journal_everything_is_refused_and_goes_on_later() {
    let journal = Held::default();
    let server = journal.server(Options::default());
    let (mut client, mut party, mut waiting) =
        (server.connect(), server.connect(), server.connect());
    let session = client.done("OPEN /sessions ttl=300").header("session").unwrap().to_owned();
    let other = client.done("OPEN /sessions ttl=86400000").header("session").unwrap().to_owned();
    let fence = client.done(&format!("ACQUIRE /locks/a session={session}")).fence();
    client.done("CREATE q");
    client.done("PUT q | 1");
    let taken = client.done(&format!("TAKE q ack=manual session={other}")).number("message");
    client.done("PUT q | 2");
    client.done(&format!("ACQUIRE /locks/b session={other}"));
    waiting.send(&format!("ACQUIRE /locks/a session={other} seq=1"));
    client.until_waiting("/locks/a", 1);
    party.send("ARRIVE /barriers/b parties=2");
    client.until_waiting("/barriers/b", 1);

    journal.leave(Some(0));
    for request in [
        "TAKE q".to_owned(),
        "DELETE q".to_owned(),
        "SET /events/none".to_owned(),
        format!("ACK q message={taken} session={other}"),
        format!("RETURN q message={taken} session={other}"),
        format!("RELEASE /locks/b session={other}"),
        format!("CLOSE /sessions session={other}"),
    ] {
        client.ask(&request).is(507);
    }
    // What needs none goes on, also for a session that says what has arrived.
    client.done("PING");
    client.done("SHOW q");
    client.done(&format!("KEEPALIVE /sessions session={other} acked=1"));
    // A party goes away, and a session is silent for longer than it lives.
    party.reset();
    let mut watcher = server.connect();
    until("the barrier counts as broken", || {
        watcher.show("/barriers/b").is_some_and(|state| state["waiting"] == 0)
    });
    watcher.ask("ARRIVE /barriers/b parties=2").is(507);
    thread::sleep(Duration::from_millis(400));
    watcher.done(&format!("CHECK /locks/a fence={fence}"));

    journal.leave(None);
    assert!(waiting.answer().is(200).fence() > fence, "the session has ended after all");
    watcher.ask(&format!("KEEPALIVE /sessions session={session}")).is(410);
    until("the barrier is broken", || {
        watcher.show("/barriers/b").is_some_and(|state| state["broken"] == true)
    });
    client.done(&format!("ACK q message={taken} session={other}"));
    assert_eq!(client.done("TAKE q").payload(), Some("2"));
    client.done(&format!("CLOSE /sessions session={other}"));
}

#[test]
fn one_connection_cannot_wait_for_everything() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.done("CREATE q");
    client.done("ACQUIRE /locks/a");
    let takes = frame("TAKE q id=t").repeat(1000);
    for _ in 0..MAX_WAITS / 1000 {
        client.send_bytes(&takes);
    }
    other.until_waiting("/queues/q", MAX_WAITS as u64);
    let answer = client.ask("TAKE q id=more");
    assert_eq!((answer.id(), answer.status), (Some("more"), 429));
    assert_eq!(client.done("RELEASE /locks/a id=released").id(), Some("released"));
    other.done("PUT q | 1");
    client.answer().is(200);
    client.send("TAKE q id=more");
    other.until_waiting("/queues/q", MAX_WAITS as u64);
}

const TOKENS: &str = "\
0123456789abcdef prefix=ci/ rights=use
fedcba9876543210 prefix=ci/
00000000000000000 rights=use,create,admin
1111111111111111 rights=admin
";

fn guarded() -> Server {
    let tokens = Some(Tokens::parse(TOKENS).unwrap());
    Server::with_token(Options { tokens, ..Options::default() }, "00000000000000000")
}

#[test]
fn without_a_token_nothing_is_allowed() {
    let server = guarded();
    let mut client = server.connect();
    let known = ["PING /", "ECHO /", "SHOW /", "LIST /", "OPEN /sessions", "AUTH /", "SHUTDOWN /"];
    // A stranger does not learn either what there is.
    let unknown = ["DANCE /", "SHOW /nowhere", "CREATE /locks/a", "PING / seq=x", "CANCEL /"];
    for request in known.into_iter().chain(unknown) {
        client.ask(request).is(401);
        client.ask(&format!("{request} token=0123456789abcdee")).is(401);
    }
    client.ask("AUTH / token=0123456789abcde").is(401);
    client.ask("PING").is(401);
    client.done("AUTH / token=0123456789abcdef");
    client.done("PING");
    // It is this connection that has said who it is.
    let mut other = server.connect();
    other.ask("PING").is(401);
    other.send_bytes(b"{}");
    other.answer().is(401);
    client.send_bytes(b"{}");
    client.answer().is(400);
}

#[test]
fn a_refused_auth_changes_nothing() {
    let server = guarded();
    let mut client = server.connect();
    client.ask("AUTH / token=not-one-of-them-all").is(401);
    client.ask("PING").is(401);
    client.done("AUTH / token=0123456789abcdef");
    client.ask("AUTH / token=not-one-of-them-all").is(401);
    client.done("ACQUIRE /locks/ci/a");
    client.ask("ACQUIRE /locks/a").is(403);
    client.ask("CREATE ci/q").is(403);
    client.done("AUTH / token=fedcba9876543210");
    client.done("CREATE ci/q");
}

#[test]
fn every_token_may_say_who_it_is() {
    let server = guarded();
    let mut client = server.connect();
    client.done("AUTH / token=1111111111111111");
    client.ask("PING").is(403);
    client.ask("ACQUIRE /locks/a").is(403);
    client.ask("CREATE q").is(403);
    client.done("RELOAD /");
    client.done("PING / token=0123456789abcdef");
    client.ask("PING").is(403);
}

#[test]
fn a_token_allows_what_its_line_says() {
    let server = guarded();
    let mut client = server.connect();
    client.done("AUTH / token=0123456789abcdef");
    client.done("ACQUIRE /locks/ci/a");
    client.ask("ACQUIRE /locks/a").is(403);
    client.ask("SHOW /locks/a").is(403);
    client.ask("CREATE ci/q").is(403);
    client.ask("SHUTDOWN /").is(403);
    client.ask("PUT ci/q").is(404);
    // What belongs to no name is for every client with a token, wherever it is said.
    client.done("PING /locks/a");
    client.done("ECHO /no/where");
    // A token of one request is for that request.
    client.done("CREATE ci/q token=fedcba9876543210");
    client.ask("CREATE ci/r").is(403);
    client.ask("CREATE q token=fedcba9876543210").is(403);
    client.done("CREATE q token=00000000000000000");
    client.ask("SHUTDOWN / token=fedcba9876543210").is(403);
}

#[test]
fn a_list_shows_only_what_the_token_may_see() {
    let server = guarded();
    let mut client = server.connect();
    for name in ["ci/q", "other"] {
        client.done(&format!("CREATE {name} token=00000000000000000"));
    }
    for list in ["LIST /", "LIST /queues"] {
        assert_eq!(
            client
                .done(&format!("{list} token=00000000000000000"))
                .value()
                .as_array()
                .unwrap()
                .len(),
            2
        );
        client.ask(&format!("{list} token=0123456789abcdef")).is(403);
        client.ask(&format!("{list} token=0123456789abcdef prefix=o")).is(403);
        let answer = client.done(&format!("{list} token=0123456789abcdef prefix=ci/"));
        assert_eq!(answer.value().as_array().unwrap().len(), 1);
    }
    // The request's token counts, not the connection's.
    client.done("AUTH / token=00000000000000000");
    client.ask("LIST / token=0123456789abcdef").is(403);
}

#[test]
fn shutting_down_answers_those_who_wait() {
    let server = Server::start();
    let (mut client, mut waiter, mut idle) = (server.connect(), server.connect(), server.connect());
    idle.done("PING");
    client.done("ACQUIRE /locks/a");
    waiter.send("ACQUIRE /locks/a id=1");
    waiter.send("ACQUIRE /locks/a");
    client.until_waiting("/locks/a", 1);
    client.done("SHUTDOWN");
    assert_eq!(waiter.answer().is(503).id(), Some("1"));
    for mut client in [client, waiter, idle] {
        assert!(client.ended());
    }
    server.join();
}

#[test]
fn a_stop_is_clean() {
    let folder = crate::support::Folder::new();
    let journal = JournalKind::File {
        directory: folder.path().into(),
        durability: semaforo_server::journal::Durability::Always,
    };
    let options = Options { journal, ..Options::default() };
    let server = Server::with(options.clone());
    let mut client = server.connect();
    client.done("CREATE q");
    client.done("PUT q | 1");
    server.stop();
    assert!(client.ended());
    let server = Server::with(options);
    assert_eq!(server.connect().done("TAKE q timeout=0").payload(), Some("1"));
}

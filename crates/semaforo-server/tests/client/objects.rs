//! The client and the server, object by object.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use semaforo_client::{
    Arrival, Call, Client, Connecting, Delivery, Error, Lock, LockGuard, Permit, Queue, Session,
};
use semaforo_protocol::wire::Limits;

use crate::client_support::{LONG, Running, block_on, poll_once, shown, until};
use semaforo_server::net::tls::server_config;
use semaforo_server::server::Options;
use semaforo_server::server::access::Tokens;

const NOW: Duration = Duration::ZERO;
const SOON: Duration = Duration::from_millis(30);
/// Leases count in these.
const MILLISECOND: Duration = Duration::from_millis(1);

fn timed_out<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::TimedOut)), "{result:?}");
}

/// Everything can go to, and be used from, any thread.
#[test]
fn all_is_send() {
    fn is_send<T: Send + 'static>() {}
    fn is_sync<T: Sync>() {}
    is_send::<(Client, Lock, Queue, LockGuard, Permit, Delivery, Error, Session)>();
    is_sync::<(Client, Lock, Queue, LockGuard, Permit, Delivery, Session)>();
    is_send::<(Call<LockGuard>, Call<()>, Connecting)>();
}

#[test]
fn locks() {
    let server = Running::start();
    let client = server.client();
    let lock = client.lock("deploy");
    let guard = lock.acquire().wait().unwrap();
    guard.check().wait().unwrap();
    timed_out(lock.acquire().timeout(NOW).wait());
    timed_out(block_on(lock.acquire().timeout(SOON)));

    let other = server.client();
    let waiting = thread::spawn(move || block_on(other.lock("deploy").acquire()).unwrap());
    until("somebody waits", || shown(&client, "/locks/deploy", "waiting") == 1);
    let first = guard.fence();
    drop(guard);
    let guard = waiting.join().unwrap();
    assert!(guard.fence() > first);
    guard.release().wait().unwrap();
    assert!(matches!(lock.show().wait(), Err(Error::NotFound(_))));
}

/// A hold that is gone is not the end of the session.
#[test]
fn a_raw_request_about_a_hold_that_is_gone_costs_no_other_hold() {
    let server = Running::start();
    let client = server.client();
    let guard = client.lock("held").acquire().wait().unwrap();
    for method in ["CHECK", "RELEASE"] {
        let request = client.request(method, "/locks/other").header("fence", 1).in_session();
        assert!(matches!(request.wait(), Err(Error::Gone(_))));
    }
    client.ping().wait().unwrap();
    assert!(!guard.is_lost());
    guard.check().wait().unwrap();
}

#[test]
fn a_dropped_request_holds_nothing_up() {
    let server = Running::start();
    let client = server.client();
    let lock = client.lock("x");
    let guard = lock.acquire().wait().unwrap();
    let mut dropped = lock.acquire();
    assert!(poll_once(&mut dropped).is_pending());
    until("it waits", || shown(&client, "/locks/x", "waiting") == 1);
    drop(dropped);
    until("it does not wait", || shown(&client, "/locks/x", "waiting") == 0);
    drop(guard);
    lock.acquire().wait().unwrap().release().wait().unwrap();
}

#[test]
fn a_raw_request_that_is_dropped_holds_nothing_up() {
    let server = Running::start();
    let client = server.client();
    let other = server.client();
    let session = other.session().wait().unwrap();
    let requests = || {
        [
            client.request("ACQUIRE", "/locks/x"),
            client.request("ACQUIRE", "/locks/x").header("session", session.id()),
            client.request("ACQUIRE", "/locks/x").in_session(),
        ]
    };
    for (request, is_granted) in
        requests().into_iter().zip([false; 3]).chain(requests().into_iter().zip([true; 3]))
    {
        let guard = client.lock("x").acquire().timeout(LONG).wait().unwrap();
        let mut dropped = request.send();
        assert!(poll_once(&mut dropped).is_pending());
        until("it waits", || shown(&client, "/locks/x", "waiting") == 1);
        if is_granted {
            guard.release().wait().unwrap();
            drop(dropped);
        } else {
            drop(dropped);
            until("it does not wait", || shown(&client, "/locks/x", "waiting") == 0);
        }
    }
    client.lock("x").acquire().timeout(LONG).wait().unwrap().release().wait().unwrap();
}

#[test]
fn semaphores() {
    let server = Running::start();
    let client = server.client();
    let gpus = client.semaphore("gpu");
    assert!(matches!(gpus.acquire(1).wait(), Err(Error::NotFound(_))));
    assert!(gpus.create(3).wait().unwrap());
    assert!(!gpus.create(3).wait().unwrap());
    assert!(matches!(gpus.create(4).wait(), Err(Error::Conflict(_))));
    assert!(matches!(gpus.acquire(4).wait(), Err(Error::Refused { status: 400, .. })));
    gpus.acquire(0).wait().unwrap().release().wait().unwrap();
    let two = gpus.acquire(2).wait().unwrap();
    assert_eq!(two.permits(), 2);
    timed_out(gpus.acquire(2).timeout(NOW).wait());
    let one = gpus.acquire(1).wait().unwrap();
    two.release().wait().unwrap();
    let two = gpus.acquire(2).wait().unwrap();
    drop((one, two));
    gpus.acquire(3).wait().unwrap().release().wait().unwrap();
    gpus.delete().wait().unwrap();
    assert!(matches!(gpus.show().wait(), Err(Error::NotFound(_))));
}

/// Listing 3 of the study of C#: initial counts below the maximum, and who has made it.
#[test]
fn named_semaphores_are_made_as_in_the_study() {
    let server = Running::start();
    let (client, other) = (server.client(), server.client());
    assert!(client.semaphore("global1").create_open(1, 3).wait().unwrap());
    let global2 = client.semaphore("global2");
    assert!(global2.create_open(2, 3).wait().unwrap());
    assert!(!other.semaphore("global2").create_open(2, 3).wait().unwrap());
    for _ in 0..2 {
        global2.take(1).timeout(LONG).wait().unwrap();
    }
    timed_out(global2.take(1).timeout(NOW).wait());
    other.semaphore("global2").add(3).wait().unwrap();
    assert!(matches!(other.semaphore("global2").add(1).wait(), Err(Error::Conflict(_))));
}

/// Lets a request for a permit of an open semaphore that has none be granted, and drops it.
fn give_up_what_is_granted<T>(client: &Client, mut call: Call<T>) {
    let items = client.semaphore("items");
    assert!(poll_once(&mut call).is_pending());
    until("it waits", || shown(client, "/semaphores/items", "waiting") == 1);
    items.add(1).wait().unwrap();
    assert_eq!(shown(client, "/semaphores/items", "waiting"), 0);
    drop(call);
    items.take(1).timeout(LONG).wait().unwrap();
}

#[test]
fn open_semaphores() {
    let server = Running::start();
    let (client, other) = (server.client(), server.client());
    let items = client.semaphore("items");
    assert!(items.create_open(0, 3).wait().unwrap());
    assert!(!other.semaphore("items").create_open(0, 3).wait().unwrap());
    assert!(matches!(items.create_open(1, 3).wait(), Err(Error::Conflict(_))));
    assert!(matches!(items.create(3).wait(), Err(Error::Conflict(_))));
    timed_out(items.take(1).timeout(NOW).wait());
    let taken = other.semaphore("items");
    let taking = thread::spawn(move || taken.take(2).wait());
    until("it waits", || shown(&client, "/semaphores/items", "waiting") == 1);
    items.add(1).wait().unwrap();
    items.add(2).wait().unwrap();
    taking.join().unwrap().unwrap();
    let available = || shown(&client, "/semaphores/items", "available");
    assert_eq!(available(), 1);
    assert!(matches!(items.add(3).wait(), Err(Error::Conflict(_))));

    // What is not claimed, and what is not held, is added again.
    items.take(1).wait().unwrap();
    give_up_what_is_granted(&client, items.take(1));
    give_up_what_is_granted(&client, client.request("ACQUIRE", "/semaphores/items").send());
    items.add(1).wait().unwrap();
    assert!(matches!(items.acquire(1).wait(), Err(Error::Conflict(_))));
    until("it is not held", || available() == 1);

    let gpus = client.semaphore("gpu");
    gpus.create(2).wait().unwrap();
    assert!(matches!(gpus.take(2).wait(), Err(Error::Conflict(_))));
    until("it is given back", || shown(&client, "/semaphores/gpu", "available") == 2);
    assert!(matches!(gpus.add(1).wait(), Err(Error::Gone(_))));

    // Nothing comes back with a session.
    other.semaphore("items").take(1).wait().unwrap();
    other.close().wait().unwrap();
    assert_eq!(available(), 0);
}

#[test]
fn semaphores_change_their_size() {
    let server = Running::start();
    let client = server.client();
    let gpus = client.semaphore("gpu");
    assert!(matches!(gpus.resize(1).wait(), Err(Error::NotFound(_))));
    gpus.create(1).wait().unwrap();
    let one = gpus.acquire(1).wait().unwrap();
    let second = gpus.clone();
    let waiting = thread::spawn(move || second.acquire(2).wait());
    assert!(matches!(waiting.join().unwrap(), Err(Error::Refused { status: 400, .. })));
    gpus.resize(3).wait().unwrap();
    let two = gpus.acquire(2).wait().unwrap();
    let third = gpus.clone();
    let waiting = thread::spawn(move || third.acquire(2).wait());
    until("it waits", || shown(&client, "/semaphores/gpu", "waiting") == 1);
    gpus.resize(1).wait().unwrap();
    assert!(matches!(waiting.join().unwrap(), Err(Error::Refused { status: 400, .. })));
    two.release().wait().unwrap();
    timed_out(gpus.acquire(1).timeout(NOW).wait());
    one.release().wait().unwrap();
    gpus.acquire(1).wait().unwrap().release().wait().unwrap();
    assert!(matches!(gpus.resize(0).wait(), Err(Error::Refused { status: 400, .. })));
}

#[test]
fn reader_writer_locks() {
    let server = Running::start();
    let client = server.client();
    let lock = client.rwlock("table");
    let reading = lock.read().wait().unwrap();
    let also_reading = lock.read().wait().unwrap();
    timed_out(lock.write().timeout(NOW).wait());
    let reading = reading.upgrade().wait().unwrap().unwrap_err();
    also_reading.release().wait().unwrap();
    let before = reading.fence();
    let writing = reading.upgrade().wait().unwrap().unwrap();
    assert!(writing.fence() > before);
    timed_out(lock.read().timeout(NOW).wait());
    let reading = writing.downgrade().wait().unwrap();
    drop(lock.read().wait().unwrap());
    drop(reading);
    block_on(lock.write()).unwrap().release().wait().unwrap();

    // An upgrade whose call was dropped leaves nothing behind.
    let mut upgrading = lock.read().wait().unwrap().upgrade();
    let _ = poll_once(&mut upgrading);
    drop(upgrading);
    lock.write().timeout(LONG).wait().unwrap().release().wait().unwrap();
    drop(lock.read().wait().unwrap().upgrade());
    lock.write().timeout(LONG).wait().unwrap().release().wait().unwrap();
}

#[test]
fn latches() {
    let server = Running::start();
    let client = server.client();
    let latch = client.latch("ready");
    latch.create(3).wait().unwrap();
    assert_eq!(latch.down(1).wait().unwrap(), 2);
    timed_out(latch.wait().timeout(SOON).wait());
    let waiting = thread::spawn({
        let latch = latch.clone();
        move || latch.wait().wait()
    });
    until("somebody waits", || shown(&client, "/latches/ready", "waiting") == 1);
    assert_eq!(latch.down(2).wait().unwrap(), 0);
    waiting.join().unwrap().unwrap();
    latch.reset(None).wait().unwrap();
    timed_out(latch.wait().timeout(NOW).wait());
    latch.reset(Some(0)).wait().unwrap();
    latch.wait().wait().unwrap();
    latch.delete().wait().unwrap();
}

#[test]
fn events() {
    let server = Running::start();
    let client = server.client();
    let door = client.event("door");
    door.create().wait().unwrap();
    assert!(matches!(door.create_auto().wait(), Err(Error::Conflict(_))));
    timed_out(door.wait().timeout(NOW).wait());
    door.set().wait().unwrap();
    door.wait().wait().unwrap();
    door.wait().wait().unwrap();
    door.reset().wait().unwrap();
    timed_out(door.wait().timeout(NOW).wait());

    let turnstile = client.event("turnstile");
    turnstile.create_auto().wait().unwrap();
    turnstile.set().wait().unwrap();
    turnstile.wait().wait().unwrap();
    timed_out(turnstile.wait().timeout(NOW).wait());
    turnstile.delete().wait().unwrap();
}

#[test]
fn barriers() {
    let server = Running::start();
    let client = server.client();
    let mut arrivals: Vec<Arrival> = thread::scope(|scope| {
        let arriving = (0..3).map(|_| scope.spawn(|| client.barrier("b", 3).arrive().wait()));
        let arriving: Vec<_> = arriving.collect();
        arriving.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    arrivals.sort_by_key(|arrival| arrival.index);
    let indices: Vec<u64> = arrivals.iter().map(|arrival| arrival.index).collect();
    assert_eq!(indices, [0, 1, 2]);
    assert!(arrivals.iter().all(|arrival| arrival.generation == arrivals[0].generation));

    timed_out(client.barrier("b", 2).arrive().timeout(SOON).wait());
    assert!(matches!(client.barrier("b", 2).arrive().wait(), Err(Error::Conflict(_))));
    client.barrier("b", 2).reset().wait().unwrap();
}

#[test]
fn queues() {
    let server = Running::start();
    let client = server.client();
    let jobs = client.queue("jobs");
    assert!(matches!(jobs.put("1").wait(), Err(Error::NotFound(_))));
    jobs.create(3).wait().unwrap();
    let first = jobs.put("{\"n\": 1}").wait().unwrap();
    jobs.put("2").priority(-1).wait().unwrap();
    block_on(jobs.put("3").into_future()).unwrap();
    timed_out(jobs.put("4").timeout(NOW).wait());

    let taken = jobs.take().wait().unwrap();
    assert_eq!((&*taken.payload, taken.deliveries), ("2", 1));
    let delivery = jobs.take_manual().wait().unwrap();
    assert_eq!((&*delivery.payload, delivery.number), ("{\"n\": 1}", first));
    drop(delivery);
    let delivery = jobs.take_manual().wait().unwrap();
    assert_eq!((delivery.number, delivery.deliveries), (first, 2));
    delivery.give_back().wait().unwrap();
    let delivery = jobs.take_manual().wait().unwrap();
    assert_eq!((delivery.number, delivery.deliveries), (first, 3));
    delivery.ack().wait().unwrap();
    assert_eq!(jobs.take().wait().unwrap().payload, "3");
    timed_out(jobs.take().timeout(NOW).wait());

    jobs.put("5").delay(SOON).wait().unwrap();
    timed_out(jobs.take().timeout(NOW).wait());
    let delivery = jobs.take_manual().timeout(LONG).wait().unwrap();
    delivery.give_back_after(SOON).wait().unwrap();
    assert_eq!(jobs.take().timeout(LONG).wait().unwrap().payload, "5");
    jobs.delete().wait().unwrap();
}

/// Says so when it is dropped, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Each of these is refused, with these words, and no other request notices.
fn refused_beside_others(client: &Client, payloads: &[(&str, u16, &str)]) {
    let jobs = client.queue("jobs");
    jobs.create(0).wait().unwrap();
    let is_over = AtomicBool::new(false);
    let (rounds, held) = (AtomicU64::new(0), client.lock("held").acquire().wait().unwrap());
    let mut waiting = client.lock("held").acquire();
    assert!(poll_once(&mut waiting).is_pending());
    let mut passing = client.latch("gate").wait();
    client.latch("gate").create(1).wait().unwrap();
    assert!(poll_once(&mut passing).is_pending());
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let guard = client.lock("x").acquire().timeout(LONG).wait().unwrap();
                guard.release().timeout(LONG).wait().unwrap();
                rounds.fetch_add(1, Ordering::SeqCst);
            }
        });
        let over = Over(&is_over);
        for (payload, expected, words) in payloads {
            let refused = jobs.put(*payload).timeout(LONG).wait();
            let Err(Error::Refused { status, message }) = refused else { panic!("{refused:?}") };
            assert_eq!(status, *expected, "{message}");
            assert!(message.contains(words), "{message}");
            let before = rounds.load(Ordering::SeqCst);
            until("the others go on", || rounds.load(Ordering::SeqCst) > before + 1);
        }
        drop(over);
        other.join().unwrap();
    });
    // The waiting requests have not been told anything.
    assert!(poll_once(&mut waiting).is_pending() && poll_once(&mut passing).is_pending());
    held.release().wait().unwrap();
    block_on(waiting.timeout(LONG)).unwrap().release().wait().unwrap();
    client.latch("gate").down(1).wait().unwrap();
    block_on(passing.timeout(LONG)).unwrap();
    jobs.put("1").wait().unwrap();
    assert_eq!(jobs.take().wait().unwrap().payload, "1");
    timed_out(jobs.take().timeout(NOW).wait());
}

#[test]
fn what_no_server_can_read_is_refused_before_it_is_sent() {
    let server = Running::start();
    let client = server.client();
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let payloads = [
        ("hello", 400, "the payload: malformed JSON at byte 0"),
        (&*deep, 413, "nested deeper than the limit of 64"),
    ];
    refused_beside_others(&client, &payloads);
    let twice = client.request("PING", "").header("id", 5).wait();
    assert!(matches!(twice, Err(Error::Refused { status: 400, .. })), "{twice:?}");
    let deep = format!("{}{}", "[".repeat(63), "]".repeat(63));
    assert!(matches!(client.echo(&*deep).wait(), Err(Error::Refused { status: 413, .. })));
    client.echo(&deep[1..62 * 2 + 1]).wait().unwrap();
}

fn text(length: usize) -> String {
    format!("\"{}\"", "x".repeat(length))
}

/// How much a server takes is for the server to say.
#[test]
fn what_another_server_could_read_is_refused_by_what_this_one_has_said() {
    let server = Running::start();
    let large = text(2 << 20);
    let payloads = [(&*large, 413, "larger than the limit of 1048576 bytes")];
    refused_beside_others(&server.client(), &payloads);

    let frames = Limits { size: 8 << 20, ..Limits::default() };
    let server = Running::with(Options { frames, ..Options::default() }, None);
    let jobs = server.client().queue("jobs");
    jobs.create(0).wait().unwrap();
    jobs.put(&*large).timeout(LONG).wait().unwrap();
    assert!(jobs.take().timeout(LONG).wait().unwrap().payload == large);
}

/// Or how little.
#[test]
fn what_this_server_cannot_read_is_not_sent() {
    let frames = Limits { size: 1000, depth: 4 };
    let server = Running::with(Options { frames, ..Options::default() }, None);
    let client = server.client();
    let large = text(300_000);
    let payloads = [
        (&*large, 413, "larger than the limit of 1000 bytes"),
        ("[[[[]]]]", 413, "nested deeper than the limit of 4"),
    ];
    refused_beside_others(&client, &payloads);
    let raw = client.request("PUT", "/queues/jobs").payload("[[[[]]]]").wait();
    assert!(matches!(raw, Err(Error::Refused { status: 413, .. })), "{raw:?}");

    // Not even a session can be had with such a label.
    let connect = Client::connect(server.address.to_string()).label("x".repeat(1000));
    let labelled = connect.wait().unwrap();
    let refused = labelled.lock("x").acquire().timeout(LONG).wait().map(drop);
    assert!(matches!(refused, Err(Error::Refused { status: 413, .. })), "{refused:?}");
    labelled.ping().wait().unwrap();
}

#[test]
fn transfers() {
    let server = Running::start();
    let client = server.client();
    let jobs = client.queue("jobs");
    jobs.create(0).wait().unwrap();
    timed_out(jobs.transfer("0").timeout(SOON).wait());
    timed_out(jobs.take().timeout(NOW).wait());
    let transferring = thread::spawn({
        let jobs = jobs.clone();
        move || jobs.transfer("\"x\"").priority(1).wait()
    });
    assert_eq!(jobs.take().wait().unwrap().payload, "\"x\"");
    transferring.join().unwrap().unwrap();
}

/// A message that was handed over to a call that was dropped is not lost.
#[test]
fn a_taker_that_goes_away_loses_nothing() {
    let server = Running::start();
    let client = server.client();
    let jobs = client.queue("jobs");
    jobs.create(0).wait().unwrap();
    let mut taking = jobs.take();
    assert!(poll_once(&mut taking).is_pending());
    until("it waits", || shown(&client, "/queues/jobs", "waiting") == 1);
    jobs.put("1").wait().unwrap();
    drop(taking);
    assert_eq!(jobs.take().timeout(LONG).wait().unwrap().payload, "1");
}

#[test]
fn everything_else() {
    let server = Running::start();
    let client = server.client();
    client.ping().wait().unwrap();
    let echoed = client.echo("[1, 2]").wait().unwrap();
    assert!(echoed.contains("[1, 2]"), "{echoed}");
    client.latch("a1").create(1).wait().unwrap();
    client.latch("b1").create(1).wait().unwrap();
    let listed = client.list("/latches", "a").wait().unwrap();
    assert!(listed.contains("a1") && !listed.contains("b1"), "{listed}");
    assert!(client.show("/").wait().unwrap().starts_with('{'));
    let reply = client.request("down", "/latches/a1").header("by", 1).in_session();
    assert_eq!(reply.wait().unwrap().header("Count"), Some("0"));
    let refused = client.request("DANCE", "/latches/a1").wait().unwrap_err();
    assert!(matches!(refused, Error::Refused { status: 405, .. }), "{refused}");
}

#[test]
fn a_session_says_who_it_is_and_how_long_it_lives() {
    let server = Running::start();
    let client = Client::connect(server.address.to_string()).ttl(LONG).wait().unwrap();
    let asked = Instant::now();
    let session = client.session().wait().unwrap();
    let answered = Instant::now();
    assert!((asked + LONG - MILLISECOND..=answered + LONG).contains(&session.ends()));

    // What is asked in its name by another client is done for it.
    let guard = client.lock("x").acquire().wait().unwrap();
    let other = server.client();
    let release = other.request("RELEASE", "/locks/x").header("session", session.id());
    release.header("fence", guard.fence()).wait().unwrap();
    assert!(matches!(guard.check().wait(), Err(Error::Gone(_))));

    // Every answer in it renews it, and asking again finds the same.
    let before = session.ends();
    until("time passes", || Instant::now() > answered + 2 * MILLISECOND);
    let again = client.session().wait().unwrap();
    assert_eq!(again.id(), session.id());
    assert!(session.ends() > before);

    assert!(!session.is_lost());
    client.queue("q").create(0).wait().unwrap();
    client.queue("q").put("1").wait().unwrap();
    let delivery = client.queue("q").take_manual().wait().unwrap();
    let shown = format!("{session:?} {delivery:?} {client:?}");
    assert!(!shown.contains(session.id()), "it is a secret: {shown}");
    let lost = session.lost();
    client.close().wait().unwrap();
    assert!(session.is_lost() && lost.is_cancelled() && session.ends() <= Instant::now());
}

#[test]
fn a_client_that_goes_away_releases_everything() {
    let server = Running::start();
    let client = server.client();
    let guard = client.lock("x").acquire().wait().unwrap();
    let other = server.client();
    let waiting = thread::spawn(move || other.lock("x").acquire().timeout(LONG).wait().map(drop));
    until("somebody waits", || shown(&client, "/locks/x", "waiting") == 1);
    // Not dropped, but the session is closed.
    client.close().wait().unwrap();
    assert!(guard.is_lost());
    waiting.join().unwrap().unwrap();
}

#[test]
fn many_requests_on_one_connection() {
    let server = Running::start();
    let client = server.client();
    let semaphore = client.semaphore("s");
    semaphore.create(1).wait().unwrap();
    let permit = semaphore.acquire(1).wait().unwrap();
    let calls: Vec<_> = (0..2000)
        .map(|_| {
            let mut call = semaphore.acquire(1);
            assert!(poll_once(&mut call).is_pending());
            call
        })
        .collect();
    until("all wait", || shown(&client, "/semaphores/s", "waiting") == 2000);
    drop(permit);
    let mut last = 0;
    for call in calls {
        let permit = block_on(call).unwrap();
        assert!(permit.fence() > last);
        last = permit.fence();
    }
}

#[test]
fn through_tls_with_a_token() {
    let file =
        |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/net_support").join(name);
    let config = server_config(&file("certificate.pem"), &file("key.pem"), &[]).unwrap();
    let secret = "a-secret-of-some-length-0123456789";
    let tokens = Tokens::parse(&format!("{secret} rights=use,create,admin")).unwrap();
    let options = Options { tls: Some(config), tokens: Some(tokens), ..Options::default() };
    let server = semaforo_server::server::Server::start(options).unwrap();
    let address = format!("localhost:{}", server.address().port());
    let running = thread::spawn(move || server.run().unwrap());
    let connect = Client::connect(address).certificate_authority(file("certificate.pem"));

    let refused = connect.clone().token("another-secret-of-some-length-01").wait().map(drop);
    assert!(matches!(refused, Err(Error::Refused { status: 401, .. })), "{refused:?}");

    let client = Arc::new(connect.token(secret).wait().unwrap());
    let text = text(300_000);
    assert!(client.echo(&*text).wait().unwrap().contains(&text));
    client.lock("x").acquire().wait().unwrap().release().wait().unwrap();
    client.request("SHUTDOWN", "/").wait().unwrap();
    running.join().unwrap();
}

/// Nothing leaves this machine all the same: systems take this address for their own.
#[test]
fn a_token_goes_to_this_machine_only_unless_it_is_encrypted() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let address = format!("0.0.0.0:{}", silent.local_addr().unwrap().port());
    let refused = Client::connect(&address).token("a-secret-of-some-length").wait().map(drop);
    let Err(Error::CannotConnect(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("unencrypted"), "{error}");
    let accepted = silent.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(accepted, Err(std::io::ErrorKind::WouldBlock));

    let secret = "a-secret-of-some-length-0123456789";
    let tokens = Tokens::parse(&format!("{secret} rights=use,create,admin")).unwrap();
    let server =
        Running::with(Options { tokens: Some(tokens), ..Options::default() }, Some(secret));
    let address = format!("0.0.0.0:{}", server.address.port());
    Client::connect(&address).token(secret).insecure().wait().unwrap().ping().wait().unwrap();
}

/// That of a single request is no less secret than that of the connection.
#[test]
fn a_token_of_one_request_goes_to_this_machine_only_unless_it_is_encrypted() {
    let server = Running::start();
    let elsewhere = format!("0.0.0.0:{}", server.address.port());
    let secret = "a-secret-of-some-length";
    let echo =
        |client: &Client, header: &str| client.request("ECHO", "").header(header, secret).wait();
    let client = Client::connect(&elsewhere).wait().unwrap();
    for header in ["token", "Token"] {
        let refused = echo(&client, header);
        let Err(Error::CannotConnect(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("unencrypted"), "{error}");
    }
    let auth = client.request("AUTH", "").header("token", secret).in_session().wait();
    assert!(matches!(auth, Err(Error::CannotConnect(_))), "{auth:?}");
    // Nothing else suffers from it.
    assert!(echo(&client, "tokens").is_ok());
    client.lock("x").acquire().wait().unwrap().release().wait().unwrap();
    assert!(echo(&Client::connect(&elsewhere).insecure().wait().unwrap(), "token").is_ok());
    let here = server.address.to_string();
    assert!(echo(&Client::connect(&here).wait().unwrap(), "token").is_ok());
}

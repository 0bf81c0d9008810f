//! The client and the server, with a network between them that fails.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use semaforo_client::{Client, Error, Semaphore};

use crate::client_support::proxy::Proxy;
use crate::client_support::{LONG, Running, block_on, poll_once, shown, until};
use semaforo::CancelSource;
use semaforo_server::server::{JournalKind, Options};

fn through(proxy: &Proxy) -> Client {
    Client::connect(proxy.address.to_string()).wait().unwrap()
}

#[test]
fn a_hold_outlives_its_connection() {
    let server = Running::start();
    let proxy = Proxy::start(server.address);
    let client = through(&proxy);
    let guard = client.lock("x").acquire().wait().unwrap();
    proxy.cut();
    client.ping().wait().unwrap();
    assert_eq!(proxy.connections(), 2);
    guard.check().wait().unwrap();
    assert!(!guard.is_lost());
    guard.release().wait().unwrap();
}

#[test]
fn a_waiting_request_keeps_its_place() {
    let server = Running::start();
    let proxy = Proxy::start(server.address);
    let client = through(&proxy);
    let watcher = server.client();
    let guard = watcher.lock("x").acquire().wait().unwrap();
    let mut first = client.lock("x").acquire();
    assert!(poll_once(&mut first).is_pending());
    until("the first waits", || shown(&watcher, "/locks/x", "waiting") == 1);
    let mut second = watcher.lock("x").acquire();
    assert!(poll_once(&mut second).is_pending());
    until("the second waits", || shown(&watcher, "/locks/x", "waiting") == 2);
    proxy.cut();
    client.ping().wait().unwrap();
    until("both wait", || shown(&watcher, "/locks/x", "waiting") == 2);
    drop(guard);
    let guard = block_on(first.timeout(LONG)).unwrap();
    assert!(poll_once(&mut second).is_pending());
    drop(guard);
    block_on(second).unwrap().release().wait().unwrap();
}

/// What the server did and the client did not hear of is not done again.
#[test]
fn an_answer_that_was_lost_is_heard_the_next_time() {
    let server = Running::start();
    let proxy = Proxy::start(server.address);
    let client = through(&proxy);
    let queue = client.queue("jobs");
    queue.create(0).wait().unwrap();
    queue.put("0").wait().unwrap();
    for number in 1..20_u64 {
        let heard = proxy.answers();
        proxy.set_deaf(true);
        let queue = queue.clone();
        let putting = thread::spawn(move || queue.put(number.to_string()).wait());
        until("the server has answered", || proxy.answers() > heard);
        proxy.set_deaf(false);
        proxy.cut();
        putting.join().unwrap().unwrap();
    }
    let taken: Vec<String> = (0..20).map(|_| queue.take().wait().unwrap().payload).collect();
    let put: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    assert_eq!(taken, put);
    assert!(matches!(queue.take().timeout(Duration::ZERO).wait(), Err(Error::TimedOut)));
}

/// To do it twice would not be the same as once.
#[test]
fn permits_are_added_and_taken_once_also_if_answers_are_lost() {
    let server = Running::start();
    let proxy = Proxy::start(server.address);
    let client = through(&proxy);
    let items = client.semaphore("items");
    let without_answer = |ask: fn(&Semaphore) -> Result<(), Error>| {
        let heard = proxy.answers();
        proxy.set_deaf(true);
        let items = items.clone();
        let asking = thread::spawn(move || ask(&items));
        until("the server has answered", || proxy.answers() > heard);
        proxy.set_deaf(false);
        proxy.cut();
        asking.join().unwrap().unwrap();
    };
    client.session().wait().unwrap();
    without_answer(|items| {
        let created = items.create_open(0, 100).wait()?;
        assert!(created, "it was this request that has made it");
        Ok(())
    });
    for _ in 0..5 {
        without_answer(|items| items.add(3).wait());
        without_answer(|items| items.take(1).wait());
    }
    assert_eq!(shown(&server.client(), "/semaphores/items", "available"), 10);
}

/// It is done if the server has done it before, and otherwise never.
#[test]
fn what_was_withdrawn_during_an_outage_is_not_done_after_it() {
    let server = Running::start();
    let proxy = Proxy::start(server.address);
    let client = through(&proxy);
    let jobs = client.queue("jobs");
    jobs.create(1).wait().unwrap();
    jobs.put("1").wait().unwrap();
    // Waits for space, dormant during the outage.
    let stop = CancelSource::new();
    let putting = jobs.put("2").cancel_on(&stop.token());
    let putting = thread::spawn(move || putting.wait());
    let other = server.client();
    until("it waits", || shown(&other, "/queues/jobs", "waiting") == 1);
    proxy.set_shut(true);
    proxy.cut();
    stop.cancel();
    assert!(matches!(putting.join().unwrap(), Err(Error::Cancelled)));
    assert_eq!(other.queue("jobs").take().wait().unwrap().payload, "1");
    proxy.set_shut(false);
    client.ping().wait().unwrap();
    until("nobody waits", || shown(&other, "/queues/jobs", "waiting") == 0);
    jobs.put("3").timeout(LONG).wait().unwrap();
    assert_eq!(jobs.take().timeout(LONG).wait().unwrap().payload, "3");
    assert!(matches!(jobs.take().timeout(Duration::ZERO).wait(), Err(Error::TimedOut)));
}

#[test]
fn a_session_that_nobody_hears_of_is_lost_on_both_sides() {
    let server = Running::start();
    let proxy = Proxy::start(server.address);
    let connect = Client::connect(proxy.address.to_string()).ttl(Duration::from_millis(500));
    let client = connect.wait().unwrap();
    let guard = client.lock("x").acquire().wait().unwrap();
    let lost = client.session_lost();
    let session = client.session().wait().unwrap();
    proxy.set_shut(true);
    proxy.cut();

    let other = server.client();
    let next = other.lock("x").acquire().timeout(LONG).wait().unwrap();
    let (ends, now) = (session.ends(), Instant::now());
    assert!(ends < now, "nobody else has it while the session lives: {:?}", ends - now);
    assert!(guard.is_lost(), "the server must not think so before the client");
    assert!(next.fence() > guard.fence());
    until("the token fires", || lost.is_cancelled());

    proxy.set_shut(false);
    next.release().wait().unwrap();
    let again = client.lock("x").acquire().timeout(LONG).wait().unwrap();
    assert!(!again.is_lost() && session.is_lost());
    assert_ne!(client.session().wait().unwrap().id(), session.id());
    drop(guard);
    again.check().wait().unwrap();
}

#[test]
fn a_restart_of_the_server_is_an_outage_like_any_other() {
    let directory = std::env::temp_dir().join(format!("semaforo-client-{}", std::process::id()));
    let options = || Options {
        journal: JournalKind::File {
            directory: directory.clone(),
            durability: semaforo_server::journal::Durability::Always,
        },
        ..Options::default()
    };
    let mut first = Running::with(options(), None);
    let proxy = Proxy::start(first.address);
    let client = through(&proxy);
    let guard = client.lock("x").acquire().wait().unwrap();
    let mut waiting = client.lock("x").acquire();
    assert!(poll_once(&mut waiting).is_pending());
    until("it waits", || shown(&client, "/locks/x", "waiting") == 1);
    first.stop();

    let second = Running::with(options(), None);
    proxy.set_target(second.address);
    guard.check().wait().unwrap();
    until("it waits again", || shown(&client, "/locks/x", "waiting") == 1);
    guard.release().wait().unwrap();
    block_on(waiting).unwrap().release().wait().unwrap();
    client.close().wait().unwrap();
    drop(second);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Connections are cut all the time; all the same every message arrives once, and no two hold the
/// lock at once.
#[test]
fn under_constant_outages_everything_adds_up() {
    const WORKERS: u64 = 4;
    const EACH: u64 = 25;
    let server = Running::start();
    let proxy = Proxy::start(server.address);
    let setup = server.client();
    setup.queue("jobs").create(0).wait().unwrap();
    let is_over = AtomicBool::new(false);
    let (inside, highest) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(15));
                proxy.cut();
            }
        });
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (proxy, inside, highest) = (&proxy, &inside, &highest);
                scope.spawn(move || {
                    let client = loop {
                        // The first connection may be cut as well.
                        if let Ok(client) = Client::connect(proxy.address.to_string()).wait() {
                            break client;
                        }
                    };
                    for number in 0..EACH {
                        let guard = client.lock("x").acquire().timeout(LONG).wait().unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        assert!(highest.swap(guard.fence(), Ordering::SeqCst) < guard.fence());
                        client
                            .queue("jobs")
                            .put((worker * EACH + number).to_string())
                            .wait()
                            .unwrap();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(guard);
                    }
                    client.close().wait().unwrap();
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let jobs = setup.queue("jobs");
    let taken: Vec<String> =
        (0..WORKERS * EACH).map(|_| jobs.take().timeout(LONG).wait().unwrap().payload).collect();
    let different: HashSet<&String> = taken.iter().collect();
    assert_eq!(different.len(), taken.len());
    assert!(matches!(jobs.take().timeout(Duration::ZERO).wait(), Err(Error::TimedOut)));
}

/// The answer to a RETURN is lost, and meanwhile the same session has the message again. The RETURN
/// that the client sends once more is about the first delivery: two workers must not have the
/// message at once.
#[test]
fn a_message_that_is_returned_twice_goes_to_one_worker() {
    let server = Running::start();
    let proxy = Proxy::start(server.address);
    let (client, other) = (through(&proxy), server.client());
    let queue = client.queue("jobs");
    queue.create(0).wait().unwrap();
    for round in 0..10 {
        queue.put("1").wait().unwrap();
        let first = queue.take_manual().wait().unwrap();
        let mut second = queue.take_manual();
        assert!(poll_once(&mut second).is_pending());
        until("the second waits", || shown(&other, "/queues/jobs", "waiting") == 1);
        let heard = proxy.answers();
        proxy.set_deaf(true);
        let returning = first.give_back();
        until("the message is out again", || {
            proxy.answers() > heard && shown(&other, "/queues/jobs", "waiting") == 0
        });
        proxy.set_deaf(false);
        proxy.cut();
        returning.wait().unwrap();
        let second = block_on(second.timeout(LONG)).unwrap();
        assert_eq!(second.deliveries, 2);
        let stolen = other.queue("jobs").take_manual().timeout(Duration::ZERO).wait();
        assert!(matches!(stolen, Err(Error::TimedOut)), "round {round}: both have it: {stolen:?}");
        assert!(!second.is_lost());
        second.ack().wait().unwrap();
    }
}

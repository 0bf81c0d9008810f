//! Real clients, over TCP and HTTP, on connections that they half close now and then; a real server
//! process that is killed with -9 at random moments, also while it recovers, stopped, paused and
//! started again; and what the clients remember: nothing that was acknowledged is lost, nothing is
//! delivered twice that must not be, no two clients hold a lock at once, fences only grow,
//! and messages keep their order.
//!
//! `SEMAFORO_CRASHES` sets how often something happens to the server.

mod client;
#[path = "../client_support/mod.rs"]
mod client_support;
mod history;
mod lies;
mod process;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use client::{Session, Way};
use history::{Exclusion, Fences, Ledger};
use process::{Process, Randomness};

/// What a client does until it is told to stop.
type Runner = Box<dyn FnOnce(&AtomicBool) + Send>;

/// Clients of each kind.
const PRODUCERS: u64 = 3;
const CONSUMERS: u64 = 2;
const LOCKERS: u64 = 4;

fn crashes() -> u32 {
    std::env::var("SEMAFORO_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// Runs clients while the server suffers again and again, tells them to stop, and waits for them.
fn survive(server: &mut Process, clients: Vec<Runner>) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for client in clients {
            scope.spawn(|| client(&stop));
        }
        suffer(server, crashes());
        stop.store(true, Ordering::SeqCst);
    });
}

/// Something happens to the server, so many times.
fn suffer(server: &mut Process, times: u32) {
    let mut random = Randomness::new();
    for _ in 0..times {
        thread::sleep(Duration::from_millis(20 + random.below(200)));
        match random.below(5) {
            0 => server.pause(Duration::from_millis(random.below(400))),
            1 => {
                server.stop();
                server.start();
            }
            2 => {
                server.kill();
                for _ in 0..=random.below(2) {
                    server.start_and_kill(Duration::from_millis(random.below(25)));
                }
                server.start();
            }
            _ => {
                server.kill();
                server.start();
            }
        }
    }
}

/// Clients that put, and write down what was put for sure.
fn producers(server: &Process, queue: &'static str, ledger: &Ledger) -> Vec<Runner> {
    let producer = |producer| -> Runner {
        let ledger = ledger.clone();
        let way = Way::of(server, producer);
        Box::new(move |stop| {
            let mut session = Session::open(way);
            for number in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let payload = format!("[{producer},{number}]");
                let answer = session.call("PUT", queue, "", &payload);
                assert_eq!(answer.status, 200, "{answer:?}");
                ledger.put(producer, number);
            }
        })
    };
    (0..PRODUCERS).map(producer).collect()
}

#[test]
fn numbered_requests_are_done_exactly_once_through_crashes() {
    let mut server = Process::new();
    let (tcp, http) = (Way::of(&server, 0), Way::of(&server, 1));
    let ledger = Ledger::default();
    Session::open(tcp).call("CREATE", "/queues/work", "", "");
    let mut clients = producers(&server, "/queues/work", &ledger);
    // One takes for good, and sees every producer's messages in their order; its answers are kept
    // until it says that it knows them.
    let taken = ledger.clone();
    clients.push(Box::new(move |stop| {
        let mut session = Session::open(http);
        loop {
            let finished = stop.load(Ordering::SeqCst);
            let answer = session.call("TAKE", "/queues/work", r#""timeout":50"#, "");
            match answer.status {
                200 => taken.taken_in_order(&answer.payload),
                204 if finished => break,
                204 => {}
                status => panic!("{status}: {answer:?}"),
            }
        }
    }));
    survive(&mut server, clients);
    // Producers may have put something after the last look.
    let mut session = Session::open(tcp);
    loop {
        let answer = session.call("TAKE", "/queues/work", r#""timeout":0"#, "");
        if answer.status != 200 {
            break;
        }
        ledger.taken_in_order(&answer.payload);
    }
    ledger.each_was_taken_once();
}

#[test]
fn messages_that_are_acknowledged_are_done_and_others_return() {
    let mut server = Process::new();
    let (tcp, http) = (Way::of(&server, 0), Way::of(&server, 1));
    let ledger = Ledger::default();
    Session::open(http).call("CREATE", "/queues/jobs", "", "");
    let mut clients = producers(&server, "/queues/jobs", &ledger);
    for consumer in 0..CONSUMERS {
        let (ledger, way) = (ledger.clone(), Way::of(&server, consumer));
        clients.push(Box::new(move |stop| {
            let mut session = Session::open(way);
            let mut random = Randomness::new();
            loop {
                let finished = stop.load(Ordering::SeqCst);
                let headers = r#""timeout":50,"ack":"manual""#;
                let answer = session.call("TAKE", "/queues/jobs", headers, "");
                if answer.status == 204 {
                    if finished {
                        break;
                    }
                    continue;
                }
                assert_eq!(answer.status, 200, "{answer:?}");
                let message = format!(r#""message":{}"#, answer.header("message"));
                if consumer == 0 && random.below(4) == 0 {
                    assert_eq!(session.call("RETURN", "/queues/jobs", &message, "").status, 200);
                } else {
                    assert_eq!(session.call("ACK", "/queues/jobs", &message, "").status, 200);
                    ledger.taken(&answer.payload);
                }
            }
        }));
    }
    survive(&mut server, clients);
    let mut session = Session::open(tcp);
    loop {
        let answer = session.call("TAKE", "/queues/jobs", r#""timeout":0"#, "");
        if answer.status != 200 {
            break;
        }
        ledger.taken(&answer.payload);
    }
    ledger.each_was_taken_once();
}

#[test]
fn a_lock_has_one_holder_through_crashes_and_fences_grow() {
    let mut server = Process::new();
    let tcp = Way::of(&server, 0);
    let (exclusion, fences) = (Exclusion::default(), Fences::default());
    let mut clients: Vec<Runner> = Vec::new();
    for locker in 0..LOCKERS {
        let (exclusion, fences) = (exclusion.clone(), fences.clone());
        let way = Way::of(&server, locker);
        clients.push(Box::new(move |stop| {
            let mut session = Session::open(way);
            while !stop.load(Ordering::SeqCst) {
                let answer = session.call("ACQUIRE", "/locks/one", "", "");
                assert_eq!(answer.status, 200, "{answer:?}");
                let fence = answer.header("fence");
                exclusion.enter();
                fences.exclusive(fence);
                exclusion.leave();
                let headers = format!(r#""fence":{fence}"#);
                assert_eq!(session.call("RELEASE", "/locks/one", &headers, "").status, 200);
            }
        }));
    }
    // Holds of connections end with the server; their fences must not come again all the same.
    for _ in 0..2 {
        let fences = fences.clone();
        clients.push(Box::new(move |stop| {
            while !stop.load(Ordering::SeqCst) {
                if let Some(answer) = client::once(tcp, "ACQUIRE", "/locks/other", "", "") {
                    assert_eq!(answer.status, 200);
                    fences.unique(answer.header("fence"));
                }
            }
        }));
    }
    survive(&mut server, clients);
    assert!(fences.count() > 0);
}

#[test]
fn without_numbers_only_what_was_being_taken_can_be_lost() {
    let mut server = Process::new();
    let tcp = Way::of(&server, 0);
    let ledger = Ledger::default();
    Session::open(tcp).call("CREATE", "/queues/plain", "", "");
    let mut clients: Vec<Runner> = Vec::new();
    for producer in 0..PRODUCERS {
        let (ledger, way) = (ledger.clone(), Way::of(&server, producer));
        clients.push(Box::new(move |stop| {
            for number in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let payload = format!("[{producer},{number}]");
                match client::once(way, "PUT", "/queues/plain", "", &payload) {
                    Some(answer) => {
                        assert_eq!(answer.status, 200, "{answer:?}");
                        ledger.put(producer, number);
                    }
                    None => ledger.maybe_put(producer, number),
                }
            }
        }));
    }
    for consumer in 0..CONSUMERS {
        let (ledger, way) = (ledger.clone(), Way::of(&server, consumer));
        clients.push(Box::new(move |stop| {
            while !stop.load(Ordering::SeqCst) {
                match client::once(way, "TAKE", "/queues/plain", r#""timeout":20"#, "") {
                    Some(answer) if answer.status == 200 => ledger.taken(&answer.payload),
                    Some(answer) => assert_eq!(answer.status, 204, "{answer:?}"),
                    None => ledger.maybe_taken(),
                }
            }
        }));
    }
    survive(&mut server, clients);
    while let Some(answer) = client::once(tcp, "TAKE", "/queues/plain", r#""timeout":0"#, "")
        && answer.status == 200
    {
        ledger.taken(&answer.payload);
    }
    ledger.at_most_those_in_flight_are_missing();
}

/// A server that stands still for longer than sessions live ends none of them: no client can be
/// blamed for a silence that it would not have heard.
#[test]
fn a_server_that_is_paused_for_long_ends_no_session() {
    const TTL: u64 = 1500;
    let mut server = Process::new();
    let ways = [Way::of(&server, 0), Way::of(&server, 1)];
    let (exclusion, fences) = (Exclusion::default(), Fences::default());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for locker in 0..LOCKERS {
            let (exclusion, fences, stop) = (exclusion.clone(), fences.clone(), &stop);
            let way = ways[locker as usize % 2];
            scope.spawn(move || {
                let mut session = Session::living(way, TTL);
                while !stop.load(Ordering::SeqCst) {
                    let answer = session.call("ACQUIRE", "/locks/one", "", "");
                    assert_eq!(answer.status, 200, "{answer:?}");
                    exclusion.enter();
                    fences.exclusive(answer.header("fence"));
                    exclusion.leave();
                    let headers = format!(r#""fence":{}"#, answer.header("fence"));
                    assert_eq!(session.call("RELEASE", "/locks/one", &headers, "").status, 200);
                }
            });
        }
        for round in 0..2 {
            thread::sleep(Duration::from_millis(100));
            // Longer than the time to live, and than what is taken for a busy machine.
            server.pause(Duration::from_millis(TTL + 1500));
            if round == 0 {
                thread::sleep(Duration::from_millis(100));
                server.kill();
                server.start();
            }
        }
        thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::SeqCst);
    });
    assert!(fences.count() > 0);
}

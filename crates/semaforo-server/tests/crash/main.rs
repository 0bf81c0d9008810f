//! Real clients, a real server process that is killed with -9 at random moments and started again, and
//! what the clients remember: nothing that was acknowledged is lost, nothing is delivered twice that must not
//! be, nobody holds a lock together with another, fences only grow, and messages keep their order.
//!
//! `SEMAFORO_CRASHES` sets how often the server is killed.

mod client;
mod history;
mod process;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use client::Session;
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

/// Runs clients while the server is killed again and again, tells them to stop, and waits for them.
fn survive(server: &mut Process, clients: Vec<Runner>) {
    let stop = AtomicBool::new(false);
    let mut random = Randomness::new();
    thread::scope(|scope| {
        for client in clients {
            scope.spawn(|| client(&stop));
        }
        for _ in 0..crashes() {
            thread::sleep(Duration::from_millis(20 + random.below(200)));
            server.kill();
            server.start();
        }
        stop.store(true, Ordering::SeqCst);
    });
}

/// Clients that put, and write down what was put for sure.
fn producers(address: SocketAddr, queue: &'static str, ledger: &Ledger) -> Vec<Runner> {
    let producer = |producer| -> Runner {
        let ledger = ledger.clone();
        Box::new(move |stop| {
            let mut session = Session::open(address);
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
    let address = server.address();
    let ledger = Ledger::default();
    Session::open(address).call("CREATE", "/queues/work", "", "");
    let mut clients = producers(address, "/queues/work", &ledger);
    // One takes for good, and sees every producer's messages in their order; its answers are kept until it says
    // that it knows them.
    let taken = ledger.clone();
    clients.push(Box::new(move |stop| {
        let mut session = Session::open(address);
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
    let mut session = Session::open(address);
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
    let address = server.address();
    let ledger = Ledger::default();
    Session::open(address).call("CREATE", "/queues/jobs", "", "");
    let mut clients = producers(address, "/queues/jobs", &ledger);
    for consumer in 0..CONSUMERS {
        let ledger = ledger.clone();
        clients.push(Box::new(move |stop| {
            let mut session = Session::open(address);
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
    let mut session = Session::open(address);
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
    let address = server.address();
    let (exclusion, fences) = (Exclusion::default(), Fences::default());
    let mut clients: Vec<Runner> = Vec::new();
    for _ in 0..LOCKERS {
        let (exclusion, fences) = (exclusion.clone(), fences.clone());
        clients.push(Box::new(move |stop| {
            let mut session = Session::open(address);
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
                if let Some(answer) = client::once(address, "ACQUIRE", "/locks/other", "", "") {
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
    let address = server.address();
    let ledger = Ledger::default();
    Session::open(address).call("CREATE", "/queues/plain", "", "");
    let mut clients: Vec<Runner> = Vec::new();
    for producer in 0..PRODUCERS {
        let ledger = ledger.clone();
        clients.push(Box::new(move |stop| {
            for number in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let payload = format!("[{producer},{number}]");
                match client::once(address, "PUT", "/queues/plain", "", &payload) {
                    Some(answer) => {
                        assert_eq!(answer.status, 200, "{answer:?}");
                        ledger.put(producer, number);
                    }
                    None => ledger.maybe_put(producer, number),
                }
            }
        }));
    }
    for _ in 0..CONSUMERS {
        let ledger = ledger.clone();
        clients.push(Box::new(move |stop| {
            while !stop.load(Ordering::SeqCst) {
                match client::once(address, "TAKE", "/queues/plain", r#""timeout":20"#, "") {
                    Some(answer) if answer.status == 200 => ledger.taken(&answer.payload),
                    Some(answer) => assert_eq!(answer.status, 204, "{answer:?}"),
                    None => ledger.maybe_taken(),
                }
            }
        }));
    }
    survive(&mut server, clients);
    while let Some(answer) = client::once(address, "TAKE", "/queues/plain", r#""timeout":0"#, "")
        && answer.status == 200
    {
        ledger.taken(&answer.payload);
    }
    ledger.at_most_those_in_flight_are_missing();
}

//! The Rust client on a network that lies about one answer at a time, and on a server that dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use semaforo_client::{Client, Error};

use crate::client_support::liar::{Liar, Lie, Speaker};
use crate::client_support::{shown, until};
use crate::history::{Exclusion, Fences, Ledger};
use crate::process::{Process, Randomness};
use crate::{crashes, suffer};

const WORKERS: u64 = 3;
/// Longer than any outage, and short enough to wait for its end.
const TTL: Duration = Duration::from_secs(12);
const LIES: [Lie; 4] = [Lie::Drop, Lie::Repeat, Lie::Reorder, Lie::Truncate];

/// A proxy that lies about one of so many answers, and how often it did so, by kind.
fn liar(server: &Process, one_of: u64) -> (Liar, Arc<[AtomicU64; LIES.len()]>) {
    let counts = Arc::<[AtomicU64; LIES.len()]>::default();
    let counted = Arc::clone(&counts);
    let seed = AtomicU64::new(Randomness::new().below(u64::MAX));
    let told = AtomicU64::new(Randomness::new().below(LIES.len() as u64));
    let lies = move |speaker, _: &[u8]| {
        let mut random = Randomness::seeded(seed.fetch_add(1, Ordering::Relaxed));
        if speaker == Speaker::Client || random.below(one_of) != 0 {
            return Lie::Pass;
        }
        // By turns: a slow machine may not see many of them.
        let kind = told.fetch_add(1, Ordering::Relaxed) as usize % LIES.len();
        counted[kind].fetch_add(1, Ordering::Relaxed);
        LIES[kind]
    };
    (Liar::start(server.address(), lies), counts)
}

/// A client that gets through at last.
fn connect(liar: &Liar) -> Client {
    for _ in 0..1000 {
        let address = liar.address.to_string();
        let connect = Client::connect(address).patience(Duration::from_secs(60)).ttl(TTL);
        match connect.wait() {
            Ok(client) => return client,
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
    panic!("nobody can connect");
}

/// Everything that was put is taken once, in the end; no two hold the lock at once; fences grow.
#[test]
fn the_client_gets_it_right_whatever_it_is_told() {
    let mut server = Process::new();
    let (liar, counts) = liar(&server, 25);
    let (ledger, exclusion, fences) = (Ledger::default(), Exclusion::default(), Fences::default());
    let setup = connect(&liar);
    setup.queue("jobs").create(0).wait().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (ledger, exclusion, fences) = (ledger.clone(), exclusion.clone(), fences.clone());
            let (liar, stop) = (&liar, &stop);
            scope.spawn(move || {
                let client = connect(liar);
                let mut number = 0;
                while !stop.load(Ordering::SeqCst) {
                    let guard = client.lock("x").acquire().wait().unwrap();
                    exclusion.enter();
                    fences.exclusive(guard.fence());
                    client.queue("jobs").put(format!("[{worker},{number}]")).wait().unwrap();
                    ledger.put(worker, number);
                    exclusion.leave();
                    guard.release().wait().unwrap();
                    number += 1;
                }
                client.close().wait().unwrap();
            });
        }
        for _ in 0..2 {
            let (ledger, liar, stop) = (ledger.clone(), &liar, &stop);
            scope.spawn(move || {
                let client = connect(liar);
                let (queue, mut random) = (client.queue("jobs"), Randomness::new());
                loop {
                    let is_over = stop.load(Ordering::SeqCst);
                    match queue.take_manual().timeout(Duration::from_millis(50)).wait() {
                        Ok(delivery) if random.below(4) == 0 => {
                            delivery.give_back().wait().unwrap();
                        }
                        Ok(delivery) => {
                            let payload = delivery.payload.clone();
                            delivery.ack().wait().unwrap();
                            ledger.taken(&payload);
                        }
                        Err(Error::TimedOut) if is_over => break,
                        Err(Error::TimedOut) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                client.close().wait().unwrap();
            });
        }
        suffer(&mut server, crashes());
        until("each lie was told", || counts.iter().all(|count| count.load(Ordering::Relaxed) > 0));
        stop.store(true, Ordering::SeqCst);
    });
    // Without lies, and until nothing is there or out: a farewell may have been lied about, too,
    // and then a session has its messages until its time to live is over.
    let direct = Client::connect(server.address().to_string()).wait().unwrap();
    let queue = direct.queue("jobs");
    until("the queue is empty", || {
        while let Ok(delivery) = queue.take_manual().timeout(Duration::ZERO).wait() {
            let payload = delivery.payload.clone();
            delivery.ack().wait().unwrap();
            ledger.taken(&payload);
        }
        // In the order in which a message goes: one that comes back in between is seen where it
        // was, or is.
        ["out", "delayed", "ready"].iter().all(|it| shown(&direct, "/queues/jobs", it) == 0)
    });
    ledger.each_was_taken_once();
}

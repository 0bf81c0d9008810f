//! A small disk, and many requests of every method: the server refuses what it has no space for,
//! never ends, and loses nothing.
//!
//! `SEMAFORO_FULL_REQUESTS` says how many.

use std::time::{Duration, Instant};

use semaforo_server::journal::simulated_disk::SimulatedDisk;
use semaforo_server::journal::{Background, FileJournal, Options as JournalOptions};
use semaforo_server::kernel::State;
use semaforo_server::server::{Options, Server};

use crate::everything::{Tally, Worker};

/// As small as the disk of a very small machine.
const DISK: u64 = 40 << 20;

fn open(disk: &SimulatedDisk) -> crate::support::Server {
    let options = JournalOptions { background: Background::Threads, ..JournalOptions::default() };
    let recovered = FileJournal::open_on::<State>(disk.clone(), options).unwrap();
    let journal = Box::new(recovered.journal);
    let (options, state, time) = (Options::default(), recovered.state, recovered.time);
    crate::support::Server::run(Server::with_journal(options, state, journal, time).unwrap())
}

/// How many requests there are to be at least.
pub(crate) fn requests(usual: u64) -> u64 {
    std::env::var("SEMAFORO_FULL_REQUESTS")
        .map_or(usual, |text| text.parse().expect("SEMAFORO_FULL_REQUESTS"))
}

#[test]
fn a_small_disk_and_requests_of_every_method() {
    let requests = requests(8_000);
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(DISK));
    let mut server = open(&disk);
    let mut client = server.connect();
    let mut worker = Worker::new(1, &mut client);
    while worker.tally.asked < requests {
        let (until, refused) = (worker.tally.asked + 20_000, worker.tally.refused + 200);
        while worker.tally.refused < refused {
            // Something else takes all that is left of the disk, again and again.
            disk.set_capacity(Some(disk.used()));
            worker.window(&mut client);
            assert!(worker.tally.asked < until, "the disk is never full");
        }
        // It ends, and begins again on a full disk.
        server.stop();
        server = open(&disk);
        client = server.connect();
        for _ in 0..10 {
            worker.window(&mut client);
        }
        // There is as much as before: it goes on, if only what is there is small enough.
        disk.set_capacity(Some(DISK));
        let (done, begun) = (worker.tally.done + 2_000, Instant::now());
        while worker.tally.done < done && begun.elapsed() < Duration::from_secs(5) {
            worker.window(&mut client);
        }
    }
    let Tally { asked, done, refused } = worker.tally;
    println!("{asked} requests, {done} done, {refused} refused");
    disk.set_capacity(None);
    let begun = Instant::now();
    while client.ask("CREATE /semaphores/goes-on permits=1").status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not go on");
        client.done("PING");
    }
    server.stop();
    let server = open(&disk);
    worker.check(&mut server.connect());
}

//! A small disk, and many requests of every method: the server refuses what it has no space for, never ends, and
//! loses nothing.
//!
//! `SEMAFORO_FULL_REQUESTS` says how many.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use semaforo_server::journal::{Background, FileJournal, Options as JournalOptions, SimulatedDisk};
use semaforo_server::kernel::State;
use semaforo_server::server::{Options, Server};

use crate::support::{Answer, Client};

/// As small as the disk of a very small machine.
const DISK: u64 = 40 << 20;

/// Numbers without a pattern, the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// What the client knows from the answers that it got.
#[derive(Default)]
struct Known {
    /// Messages that are in the queue: their numbers within their payloads.
    queued: BTreeSet<u64>,
    /// Messages that are out to the session, by their numbers in the queue.
    out: BTreeMap<u64, u64>,
    /// Locks that the session holds, and their fences.
    held: BTreeMap<u64, u64>,
    latch: u64,
    is_set: bool,
    refused: u64,
    done: u64,
}

fn number(answer: &Answer) -> u64 {
    let payload: String = answer.value().as_str().unwrap().into();
    payload.trim_end_matches('x').parse().unwrap()
}

fn open(disk: &SimulatedDisk) -> crate::support::Server {
    let options = JournalOptions { background: Background::Threads, ..JournalOptions::default() };
    let recovered = FileJournal::open_on::<State>(disk.clone(), options).unwrap();
    let journal = Box::new(recovered.journal);
    let (options, state, time) = (Options::default(), recovered.state, recovered.time);
    crate::support::Server::run(Server::with_journal(options, state, journal, time).unwrap())
}

impl Known {
    /// One request, whichever.
    fn step(&mut self, step: u64, client: &mut Client, session: &str, random: &mut Random) {
        let some = random.below(16);
        let request = match random.below(20) {
            0..5 => {
                let payload = "x".repeat(1 + random.below(40_000) as usize);
                format!("PUT q session={session} | \"{step}{payload}\"")
            }
            5..8 => "TAKE q timeout=0".into(),
            8 => format!("TAKE q timeout=0 ack=manual session={session}"),
            9 => match self.out.first_key_value() {
                Some((message, _)) => format!("ACK q message={message} session={session}"),
                None => return,
            },
            10 => match self.out.last_key_value() {
                Some((message, _)) => format!("RETURN q message={message} session={session}"),
                None => return,
            },
            11..13 if self.held.contains_key(&some) => {
                format!("RELEASE /locks/{some} session={session}")
            }
            11..13 => format!("ACQUIRE /locks/{some} session={session} timeout=0"),
            13 => "DOWN /latches/l".into(),
            14 => "RESET /latches/l".into(),
            15 if self.is_set => "RESET /events/e".into(),
            15 => "SET /events/e".into(),
            16 => "ARRIVE /barriers/b parties=2 timeout=0".into(),
            17 => "RESET /barriers/b".into(),
            18 => "TRANSFER q timeout=0 | 1".into(),
            _ => format!("CREATE /semaphores/{some} permits=3"),
        };
        let answer = client.ask(&request);
        match answer.status {
            507 => {
                self.refused += 1;
                return;
            }
            204 => return,
            200 => self.done += 1,
            409 if request.contains("barriers") => return,
            other => panic!("{other}: {request:.100}: {:.200}", answer.text),
        }
        match request.split(' ').next().unwrap() {
            "PUT" => assert!(self.queued.insert(step)),
            "TAKE" if request.contains("manual") => {
                let taken = number(&answer);
                assert!(self.queued.remove(&taken), "message {taken} was never put");
                assert_eq!(self.out.insert(answer.number("message"), taken), None);
            }
            "TAKE" => {
                let taken = number(&answer);
                assert!(self.queued.remove(&taken), "message {taken} was never put");
            }
            "ACK" => drop(self.out.pop_first()),
            "RETURN" => {
                let (_, back) = self.out.pop_last().unwrap();
                self.queued.insert(back);
            }
            "ACQUIRE" => assert_eq!(self.held.insert(some, answer.fence()), None),
            "RELEASE" => assert!(self.held.remove(&some).is_some()),
            "DOWN" => self.latch = answer.number("count"),
            "RESET" if request.contains("latches") => self.latch = answer.number("count"),
            "RESET" if request.contains("events") => self.is_set = false,
            "SET" => self.is_set = true,
            _ => {}
        }
    }

    /// Everything is as the answers said.
    fn check(&mut self, client: &mut Client, session: &str) {
        for (lock, fence) in &self.held {
            client.done(&format!("CHECK /locks/{lock} fence={fence}"));
        }
        assert_eq!(client.show("/latches/l").unwrap()["count"], self.latch);
        assert_eq!(client.show("/events/e").unwrap()["set"], self.is_set);
        for message in self.out.keys() {
            client.done(&format!("ACK q message={message} session={session}"));
        }
        let mut queued = BTreeSet::new();
        loop {
            let answer = client.ask("TAKE q timeout=0");
            if answer.status == 204 {
                break;
            }
            assert!(queued.insert(number(&answer.is(200))));
        }
        assert_eq!(queued, self.queued);
    }
}

#[test]
fn a_small_disk_and_requests_of_every_method() {
    let requests = std::env::var("SEMAFORO_FULL_REQUESTS")
        .map_or(8_000, |text| text.parse().expect("SEMAFORO_FULL_REQUESTS"));
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(DISK));
    let mut server = open(&disk);
    let mut client = server.connect();
    let session = client.done("OPEN /sessions ttl=86400000").header("session").unwrap().to_owned();
    client.done("CREATE q");
    client.done("CREATE /latches/l count=3");
    client.done("CREATE /events/e");
    let mut known = Known { latch: 3, ..Known::default() };
    let (mut random, mut step) = (Random(1), 0);
    while step < requests {
        // Something else takes all that is left of the disk.
        disk.set_capacity(Some(disk.used()));
        let until = step + 20_000;
        let refused = known.refused + 200;
        while known.refused < refused {
            known.step(step, &mut client, &session, &mut random);
            step += 1;
            assert!(step < until, "the disk is never full");
        }
        // It ends, and begins again on a full disk.
        server.stop();
        server = open(&disk);
        client = server.connect();
        for _ in 0..200 {
            known.step(step, &mut client, &session, &mut random);
            step += 1;
        }
        // There is as much as before: it goes on, if only what is there is small enough.
        disk.set_capacity(Some(DISK));
        let done = known.done + 2_000;
        let begun = Instant::now();
        while known.done < done && begun.elapsed() < Duration::from_secs(5) {
            known.step(step, &mut client, &session, &mut random);
            step += 1;
        }
    }
    println!("{step} requests, {} done, {} refused", known.done, known.refused);
    disk.set_capacity(None);
    let begun = Instant::now();
    while client.ask("CREATE /semaphores/goes-on permits=1").status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not go on");
        client.done("PING");
    }
    server.stop();
    let server = open(&disk);
    known.check(&mut server.connect(), &session);
}

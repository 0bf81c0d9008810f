//! A disk that is full: what would need space is refused with 507, what gives some back is not.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;

use semaforo_server::journal::simulated_disk::SimulatedDisk;
use semaforo_server::journal::{Background, Durability, FileJournal, Options as JournalOptions};
use semaforo_server::kernel::State;
use semaforo_server::server::{Options, Server};

use crate::support::until;

#[test]
fn a_full_disk_refuses_and_recovers_and_nothing_answered_is_lost() {
    let disk = SimulatedDisk::new();
    let options = JournalOptions {
        durability: Durability::Always,
        segment_size: 4 << 20,
        least_segment: 4 << 20,
        snapshot_after: 8 << 20,
        background: Background::Threads,
    };
    let recovered = FileJournal::open_on::<State>(disk.clone(), options).unwrap();
    // No third segment, and no snapshot.
    disk.set_capacity(Some(9 << 20));
    let journal = Box::new(recovered.journal);
    let server = Server::with_journal(Options::default(), recovered.state, journal, 0).unwrap();
    let stream = TcpStream::connect(server.address()).unwrap();
    let running = thread::spawn(move || server.run());
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut call = |request: &str| {
        (&stream).write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        line
    };
    assert!(call(r#"{"Method":"CREATE","Path":"q"}"#).contains("200"));
    let opened = call(r#"{"Method":"OPEN","Path":"/sessions"}"#);
    let opened: serde_json::Value = serde_json::from_str(&opened).unwrap();
    let session = &opened["Headers"]["session"];
    let payload = "x".repeat(100_000);
    let put = format!(r#"{{"Method":"PUT","Path":"q","Payload":"{payload}"}}"#);
    let mut accepted = 0;
    let refusal = loop {
        let answer = call(&put);
        if !answer.contains(r#""Status":200"#) {
            break answer;
        }
        accepted += 1;
        assert!(accepted < 1000, "the disk is never full");
    };
    assert!(refusal.contains(r#""Status":507"#) && refusal.contains("no space"), "{refusal}");
    assert!(accepted > 20);
    // Reading and taking go on; giving back makes no new space on the disk by itself.
    assert!(call(r#"{"Method":"SHOW","Path":"q"}"#).contains(&format!(r#""ready":{accepted}"#)));
    let take = r#"{"Method":"TAKE","Path":"q","Headers":{"timeout":0}}"#;
    assert!(call(take).contains(r#""Status":200"#));
    assert!(call(&put).contains(r#""Status":507"#));
    // A message that is kept with its answer needs space, too; what needs none goes on.
    let kept = |seq: u32| {
        format!(
            r#"{{"Method":"TAKE","Path":"q","Headers":{{"session":{session},"seq":{seq},"timeout":0}}}}"#
        )
    };
    let refused = (1..).find(|seq| !call(&kept(*seq)).contains(r#""Status":200"#)).unwrap();
    assert!(refused < 30 && call(&kept(refused)).contains(r#""Status":507"#), "{refused}");
    assert!(call(&kept(1)).contains("Payload") || refused == 1);
    assert!(call(r#"{"Method":"SHOW","Path":"q"}"#).contains(r#""Status":200"#));
    // Space is made.
    disk.set_capacity(None);
    while !call(&put).contains(r#""Status":200"#) {
        thread::yield_now();
    }
    assert!(call(r#"{"Method":"SHUTDOWN"}"#).contains("200"));
    running.join().unwrap().unwrap();
    let recovered = FileJournal::open_on::<State>(disk, options).unwrap();
    let mut pieces = 0;
    recovered
        .state
        .dump(&mut |piece| {
            pieces += usize::from(piece.len() > 100_000);
            Ok(())
        })
        .unwrap();
    assert_eq!(pieces, accepted, "as many messages as were put and not taken");
}

/// Requests that wait for space in a queue wait on when there is none for the journal, and are let
/// in when there is.
#[test]
fn on_a_full_disk_nobody_is_let_in_who_waits() {
    let disk = SimulatedDisk::new();
    let options = JournalOptions { background: Background::Threads, ..JournalOptions::default() };
    let recovered = FileJournal::open_on::<State>(disk.clone(), options).unwrap();
    let journal = Box::new(recovered.journal);
    let server = Server::with_journal(Options::default(), recovered.state, journal, 0).unwrap();
    let server = crate::support::Server::run(server);
    let mut worker = server.connect();
    worker.done("CREATE small capacity=8");
    worker.done("CREATE large");
    for _ in 0..8 {
        worker.done("PUT small | 1");
    }
    let payload = format!("\"{}\"", "x".repeat(1_000_000));
    let mut producer = server.connect();
    for id in 0..8 {
        producer.send(&format!("PUT small id={id} | {payload}"));
    }
    let waiting = |count: u64| {
        let shown = server.connect().done("SHOW small").value();
        shown["waiting"] == count
    };
    until("all of them wait", || waiting(8));
    disk.set_capacity(Some(disk.used()));
    let mut filler = server.connect();
    while filler.ask(&format!("PUT large | {payload}")).status == 200 {}

    // There is space in the queue now, and none for the journal.
    for _ in 0..8 {
        worker.done("TAKE small");
    }
    worker.done("PING");
    assert!(waiting(8));
    disk.set_capacity(None);
    until("all of them are let in", || waiting(0));
    for _ in 0..8 {
        assert_eq!(producer.answer().status, 200);
    }
}

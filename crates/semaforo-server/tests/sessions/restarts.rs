//! Servers that are killed and paused.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::named::open;
use crate::support::{Client, Folder, Process, frame};
use rustix::process::Signal;

#[test]
fn a_session_outlives_the_server() {
    let folder = Folder::new();
    let server = Process::start(folder.path());
    let mut client = server.connect();
    let session = open(&mut client, 60_000);
    for create in ["CREATE q", "CREATE /semaphores/s permits=3"] {
        client.done(create);
    }
    for number in 1..=3 {
        client.done(&format!("PUT q | {number}"));
    }
    let requests = [
        format!("ACQUIRE /locks/a session={session} seq=1"),
        format!("ACQUIRE /semaphores/s permits=2 session={session} seq=2"),
        format!("PUT q session={session} seq=3 | 4"),
        format!("TAKE q session={session} seq=4"),
        format!("TAKE q ack=manual session={session} seq=5"),
    ];
    let answers = requests.clone().map(|request| client.done(&request).text);
    // This one's answer is never read.
    let unread = format!("ACQUIRE /rwlocks/r mode=read session={session} seq=6");
    client.send(&unread);
    let mut other = server.connect();
    other.until_shown("/rwlocks/r", "held", 1);
    let shown = other.show("/rwlocks/r").unwrap();
    // A connection's own does not outlive it.
    other.done("ACQUIRE /locks/b");
    other.done("TAKE q ack=manual");
    server.kill();

    let server = Process::start(folder.path());
    let mut client = server.connect();
    for (request, answer) in requests.iter().zip(&answers) {
        assert_eq!(client.ask(request).text, *answer, "{request}");
    }
    let fence = client.done(&unread).fence();
    assert_eq!(shown["holders"][0]["fence"], fence);
    client.ask("ACQUIRE /locks/a timeout=0").is(204);
    client.ask("ACQUIRE /semaphores/s permits=2 timeout=0").is(204);
    assert!(client.done("ACQUIRE /locks/b").fence() > fence);
    let state = client.show("/queues/q").unwrap();
    assert_eq!((state["ready"].as_u64(), state["out"].as_u64()), (Some(2), Some(1)));
    client.done(&format!("ACK q message=2 session={session}"));
    for expected in ["3", "4"] {
        assert_eq!(client.done("TAKE q").payload(), Some(expected));
    }
    client.done(&format!("CLOSE /sessions session={session}"));
    client.done("ACQUIRE /locks/a timeout=0");
    assert_eq!(client.show("/semaphores/s").unwrap()["available"], 3);
}

#[test]
fn what_was_acknowledged_stays_unknown_after_a_restart() {
    let folder = Folder::new();
    let server = Process::start(folder.path());
    let mut client = server.connect();
    let session = open(&mut client, 60_000);
    client.done("CREATE q");
    client.done(&format!("PUT q session={session} seq=1 | 1"));
    client.done(&format!("PUT q session={session} seq=2 acked=1 | 2"));
    server.kill();
    let server = Process::start(folder.path());
    let mut client = server.connect();
    client.done(&format!("PUT q session={session} seq=2 | 2"));
    client.send(&format!("PUT q session={session} seq=1 | 1"));
    assert!(client.ended());
    assert_eq!(server.connect().show("/queues/q").unwrap()["ready"], 2);
}

#[test]
fn what_waits_ends_with_the_server_and_can_be_asked_for_again() {
    let folder = Folder::new();
    let server = Process::start(folder.path());
    let (mut client, mut other) = (server.connect(), server.connect());
    let (holder, session) = (open(&mut client, 60_000), open(&mut client, 60_000));
    client.done("CREATE q");
    client.done(&format!("ACQUIRE /locks/a session={holder}"));
    let acquire = format!("ACQUIRE /locks/a session={session} seq=1");
    client.send(&format!("{acquire} id=acquire"));
    client.send("TRANSFER q id=transfer | 1");
    client.send("ARRIVE /barriers/b parties=2 id=arrive");
    other.until_waiting("/locks/a", 1);
    other.until_waiting("/queues/q", 1);
    other.until_waiting("/barriers/b", 1);
    let generation = other.show("/barriers/b").unwrap()["generation"].clone();
    server.kill();

    let server = Process::start(folder.path());
    let (mut client, mut other) = (server.connect(), server.connect());
    assert_eq!(other.show("/queues/q").unwrap()["ready"], 0, "a transfer ends with the server");
    other.done(&format!("CHECK /locks/a fence={}", holders_fence(&mut client)));
    client.send(&acquire);
    other.until_waiting("/locks/a", 1);
    other.done(&format!("RELEASE /locks/a session={holder}"));
    client.answer().is(200);
    // The parties that had arrived are forgotten, and no session is to blame.
    let barrier = other.show("/barriers/b").unwrap();
    assert_eq!((&barrier["generation"], &barrier["broken"]), (&generation, &false.into()));
    let arrive = format!("ARRIVE /barriers/b parties=2 generation={generation}");
    client.send(&arrive);
    other.until_waiting("/barriers/b", 1);
    assert_eq!(other.done(&arrive).number("index"), 1);
    assert_eq!(client.answer().is(200).number("index"), 0);
    // A party that did not hear of it asks again.
    assert_eq!(other.done(&arrive).header("index"), None);
}

/// The fence of who holds the lock.
fn holders_fence(client: &mut Client) -> u64 {
    client.show("/locks/a").unwrap()["holders"][0]["fence"].as_u64().unwrap()
}

#[test]
fn fences_grow_across_restarts() {
    let folder = Folder::new();
    let mut last = 0;
    for round in 0..4 {
        let durability = ["always", "interval", "memory"][round % 3];
        let server = Process::with(folder.path(), &["--durability", durability]);
        let mut client = server.connect();
        for _ in 0..20 {
            let fence = client.done("ACQUIRE /locks/a").fence();
            assert!(fence > last, "{fence} after {last}");
            assert!(fence < 1 << 53);
            last = fence;
            client.done("RELEASE /locks/a");
        }
        // Killed while more are being given out.
        client.send_bytes(
            &[frame("ACQUIRE /locks/a"), frame("RELEASE /locks/a")].concat().repeat(50),
        );
        last = last.max(client.answer().fence());
        server.kill();
        while let Some(answer) = client.try_whole_answer() {
            last = last.max(answer.header("fence").map_or(0, |fence| fence.parse().unwrap()));
        }
    }
}

#[test]
fn after_a_restart_a_session_has_its_whole_time_again() {
    let folder = Folder::new();
    let server = Process::start(folder.path());
    let ttl = Duration::from_millis(1500);
    let mut client = server.connect();
    let session = open(&mut client, 1500);
    let fence = client.done(&format!("ACQUIRE /locks/a session={session}")).fence();
    let opened = Instant::now();
    server.kill();
    // The time that the server was not there does not count.
    thread::sleep(ttl);
    let server = Process::start(folder.path());
    let mut client = server.connect();
    client.done(&format!("CHECK /locks/a fence={fence}"));
    client.done("ACQUIRE /locks/a");
    assert!(opened.elapsed() > ttl * 2 - Duration::from_millis(100));
}

#[test]
fn a_paused_server_ends_no_session_that_spoke_meanwhile() {
    let folder = Folder::new();
    let server = Process::start(folder.path());
    let (mut client, mut silent) = (server.connect(), server.connect());
    let session = open(&mut client, 300);
    let fence = client.done(&format!("ACQUIRE /locks/a session={session}")).fence();
    server.pause();
    // Longer than the time to live, but too short to be noticed as a pause.
    for _ in 0..4 {
        thread::sleep(Duration::from_millis(120));
        client.send(&format!("KEEPALIVE /sessions session={session}"));
    }
    server.resume();
    for _ in 0..4 {
        client.answer().is(200);
    }
    client.done(&format!("CHECK /locks/a fence={fence}"));

    // After a long pause no session is blamed, whether it spoke or not.
    let quiet = open(&mut silent, 300);
    silent.done(&format!("ACQUIRE /locks/b session={quiet}"));
    client.done(&format!("KEEPALIVE /sessions session={session}"));
    server.pause();
    thread::sleep(Duration::from_millis(1500));
    client.send(&format!("KEEPALIVE /sessions session={session}"));
    server.resume();
    client.answer().is(200);
    silent.done(&format!("KEEPALIVE /sessions session={quiet}"));
    client.done(&format!("CHECK /locks/a fence={fence}"));
}

#[test]
fn a_signal_stops_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = Folder::new();
        let server = Process::start(folder.path());
        let (mut client, mut waiter) = (server.connect(), server.connect());
        client.done("ACQUIRE /locks/a");
        client.done("CREATE q");
        client.done("PUT q | 1");
        waiter.send("ACQUIRE /locks/a");
        client.until_waiting("/locks/a", 1);
        server.signal(signal);
        waiter.answer().is(503);
        assert!(waiter.ended() && client.ended());
        assert_eq!(server.wait().code(), Some(0));
        let server = Process::start(folder.path());
        assert_eq!(server.connect().done("TAKE q timeout=0").payload(), Some("1"));
    }
}

/// Twenty have places, and the others were accepted by the system only.
#[test]
fn a_signal_resets_no_connection_that_waits_for_a_place() {
    let folder = Folder::new();
    let server = Process::with(folder.path(), &["--max-connections", "20"]);
    let mut inside: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for client in &mut inside {
        client.done("PING");
    }
    let mut outside: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for client in &mut outside {
        client.send("PING");
    }
    server.signal(Signal::TERM);
    for client in &mut outside {
        client.answer().is(503);
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(server.wait().code(), Some(0));
}

/// Numbers of messages are never given out twice: also those of transfers, which
/// are not journaled, and also if the queue is deleted and made again.
#[test]
fn no_message_has_the_number_of_an_earlier_one() {
    let folder = Folder::new();
    let mut numbers = HashSet::new();
    for round in 0..4 {
        let server = Process::start(folder.path());
        let (mut client, mut sender) = (server.connect(), server.connect());
        client.done("CREATE q");
        let mut note = |number: u64| {
            assert!(numbers.insert(number), "{number} came twice, in round {round}");
            assert!(number < 1 << 53);
        };
        for ack in ["auto", "manual"] {
            sender.send("TRANSFER q | 1");
            client.until_waiting("/queues/q", 1);
            let number = client.done(&format!("TAKE q ack={ack}")).number("message");
            note(number);
            if ack == "manual" {
                client.done(&format!("ACK q message={number}"));
            }
            sender.answer().is(200);
        }
        note(client.done("PUT q | 2").number("message"));
        client.done("TAKE q");
        sender.send("TRANSFER q | 3");
        client.until_waiting("/queues/q", 1);
        if round % 2 == 0 {
            client.done("DELETE q");
            sender.answer().is(404);
            client.done("CREATE q");
            note(client.done("PUT q | 4").number("message"));
            client.done("TAKE q");
        } else {
            note(client.done("TAKE q").number("message"));
        }
        server.kill();
    }
}

/// A session that took a transfer and then lost the server, or the queue, cannot settle another
/// message with its late ACK.
#[test]
fn a_late_acknowledgement_settles_nothing_else() {
    let folder = Folder::new();
    let server = Process::start(folder.path());
    let (mut client, mut sender) = (server.connect(), server.connect());
    let session = open(&mut client, 60_000);
    client.done("CREATE q");
    sender.send("TRANSFER q | 1");
    let take = format!("TAKE q ack=manual session={session}");
    let first = client.done(&take).number("message");
    server.kill();
    let server = Process::start(folder.path());
    let mut client = server.connect();
    client.done("PUT q | 2");
    let second = client.done(&take);
    assert_eq!((second.payload(), second.number("deliveries")), (Some("2"), 1));
    client.ask(&format!("ACK q message={first} session={session}")).is(410);
    let first = second.number("message");
    client.done("DELETE q");
    client.done("CREATE q");
    client.done("PUT q | 3");
    let third = client.done(&take);
    assert_eq!((third.payload(), third.number("deliveries")), (Some("3"), 1));
    client.ask(&format!("ACK q message={first} session={session}")).is(410);
    client.done(&format!("ACK q message={} session={session}", third.number("message")));
}

/// A consumer that counts deliveries to find a poisonous message counts on a number that never goes
/// down.
#[test]
fn deliveries_are_not_forgotten() {
    let folder = Folder::new();
    let mut deliveries = 0;
    for round in 0..6 {
        let server = Process::start(folder.path());
        let mut client = server.connect();
        if round == 0 {
            client.done("CREATE q");
            client.done("PUT q delay=1 | 1");
        }
        let session = open(&mut client, 60_000);
        for owner in [String::new(), format!(" session={session}")] {
            for method in ["RETURN q", "RETURN q delay=1"] {
                let answer = client.done(&format!("TAKE q ack=manual{owner}"));
                deliveries += 1;
                let number = answer.number("message");
                assert_eq!(answer.number("deliveries"), deliveries, "round {round}");
                client.done(&format!("{method} message={number}{owner}"));
            }
        }
        // And this one is out to a connection when the server dies.
        assert_eq!(client.done("TAKE q ack=manual").number("deliveries"), deliveries + 1);
        deliveries += 1;
        server.kill();
    }
}

/// A server that keeps nothing keeps that: however fast one follows another, no fence comes again.
#[test]
fn without_a_journal_fences_grow_across_restarts_too() {
    let folder = Folder::new();
    let mut last = 0;
    for _ in 0..5 {
        let server = Process::with(folder.path(), &["--journal", "memory"]);
        let mut client = server.connect();
        for _ in 0..20 {
            let fence = client.done("ACQUIRE /locks/a").fence();
            assert!(fence > last, "{fence} after {last}");
            assert!(fence < 1 << 53);
            last = fence;
            client.done("RELEASE /locks/a");
        }
        server.kill();
    }
}

/// Where the file cannot be, a server without a journal runs all the same, and says what that
/// means.
#[test]
fn fences_without_a_place_to_be_kept_are_warned_about() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_semaforo"))
        .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
        .args(["--journal", "memory", "--data", "/dev/null/nowhere"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains("warning") && line.contains("/dev/null/nowhere"), "{line}");
}

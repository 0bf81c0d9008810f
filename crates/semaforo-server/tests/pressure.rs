//! One client asks for much, and another one is not kept waiting.
//!
//! `SEMAFORO_PRESSURE_OBJECTS` and `SEMAFORO_PRESSURE_WAITS` say among how many objects and waiting requests. What
//! a request waits at most is measured by `bench server --limits`; here it only must not be kept waiting for as long
//! as it once was, which was minutes.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::{Folder, LONG, Process, frame};

/// Another client's request is answered within this time, on a busy machine and in a slow build.
const FROZEN: Duration = Duration::from_secs(5);

fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().map_or(usual, |text| text.parse().expect(name))
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(6 * LONG)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends all requests while another thread reads; how many of the answers had which status.
fn pipeline(address: SocketAddr, requests: impl Iterator<Item = String>) -> Tally {
    let mut stream = connect(address);
    let mut bytes = Vec::new();
    let mut count = 0;
    for request in requests {
        bytes.extend_from_slice(&frame(&request));
        count += 1;
    }
    let twin = stream.try_clone().unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(move || tally(twin, count));
        stream.write_all(&bytes).unwrap();
        reader.join().unwrap()
    })
}

type Attack = Box<dyn FnOnce() + Send>;

#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    done: usize,
    others: usize,
}

/// Reads so many answers.
fn tally(mut stream: TcpStream, count: usize) -> Tally {
    let mut tally = Tally::default();
    let mut buffer = vec![0; 1 << 20];
    let mut line = Vec::new();
    while tally.done + tally.others < count {
        let read = stream.read(&mut buffer).unwrap();
        assert_ne!(read, 0, "closed after {tally:?}");
        for piece in buffer[..read].split_inclusive(|byte| *byte == b'\n') {
            // The beginning says how it went.
            line.extend_from_slice(&piece[..piece.len().min(32)]);
            if piece.ends_with(b"\n") {
                let done = line.starts_with(b"{\"Status\":200");
                *(if done { &mut tally.done } else { &mut tally.others }) += 1;
                line.clear();
            }
        }
    }
    tally
}

/// Pings while the attack goes on; the longest time until an answer.
fn longest_ping(address: SocketAddr, attack: impl FnOnce() + Send) -> Duration {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let pings = scope.spawn(|| {
            let mut stream = connect(address);
            let mut longest = Duration::ZERO;
            let mut answer = [0; 64];
            while !over.load(Ordering::SeqCst) {
                let asked = Instant::now();
                stream.write_all(&frame("PING")).unwrap();
                let mut length = 0;
                while !answer[..length].ends_with(b"\n") {
                    length += stream.read(&mut answer[length..]).unwrap();
                }
                longest = longest.max(asked.elapsed());
            }
            longest
        });
        attack();
        over.store(true, Ordering::SeqCst);
        pings.join().unwrap()
    })
}

#[test]
fn no_request_keeps_others_waiting() {
    let objects = setting("SEMAFORO_PRESSURE_OBJECTS", 50_000);
    let waits = setting("SEMAFORO_PRESSURE_WAITS", 10_000);
    let folder = Folder::new();
    let limits = ["--durability", "memory", "--max-objects", "3000000", "--max-holds", "3000000"];
    let server = Process::with(folder.path(), &limits);
    let address = server.address;
    let mut client = server.connect();
    let owner = client.done("OPEN /sessions ttl=86400000").header("session").unwrap().to_owned();
    let held = |verb: &str, range: std::ops::Range<usize>| {
        let owner = owner.clone();
        let verb = verb.to_owned();
        range.map(move |number| format!("{verb} /locks/{number:07} session={owner}"))
    };
    let all = |count| Tally { done: count, others: 0 };
    assert_eq!(pipeline(address, held("ACQUIRE", 0..objects)), all(objects));

    // Requests that wait, and that nothing lets through until the end. The last locks have none.
    assert!(waits + 1250 <= objects);
    let mut waiting = connect(address);
    for number in 0..waits {
        let request = format!("ACQUIRE /locks/{:07} id=w{number}", number % objects);
        waiting.write_all(&frame(&request)).unwrap();
    }
    client.until_shown("/", "waiting", waits as u64);

    let burst = 1250;
    let same = |request: &str| {
        let request = request.to_owned();
        move || assert_eq!(pipeline(address, vec![request; burst].into_iter()), all(burst))
    };
    let own = objects - burst..objects;
    let attacks: Vec<(&str, Attack)> = vec![
        ("LIST of one", Box::new(same("LIST / limit=1"))),
        ("LIST of none", Box::new(same("LIST / prefix=zz"))),
        ("LIST of all", {
            let lists = vec!["LIST / limit=100000".to_owned(); 40];
            Box::new(move || assert_eq!(pipeline(address, lists.into_iter()), all(40)))
        }),
        ("SHOW of all", Box::new(same("SHOW /"))),
        ("CREATE and DELETE", {
            let both = |number| {
                let name = format!("/semaphores/s{number}");
                [format!("CREATE {name} permits=1"), format!("DELETE {name}")]
            };
            let requests: Vec<_> = (0..burst).flat_map(both).collect();
            let count = requests.len();
            Box::new(move || assert_eq!(pipeline(address, requests.into_iter()), all(count)))
        }),
        ("RELEASE without a fence", {
            let requests: Vec<_> =
                held("RELEASE", own.clone()).chain(held("ACQUIRE", own)).collect();
            let count = requests.len();
            Box::new(move || assert_eq!(pipeline(address, requests.into_iter()), all(count)))
        }),
    ];
    for (name, attack) in attacks {
        let begun = Instant::now();
        let longest = longest_ping(address, attack);
        println!("{name}: longest ping {longest:?}, attack {:?}", begun.elapsed());
        assert!(longest < FROZEN, "{name}: a PING took {longest:?}");
    }

    // One hold is given back, and all who wait there are let in, or through.
    client.done("CREATE /latches/go count=1");
    client.done("ACQUIRE /rwlocks/table mode=write");
    for (object, wait, release) in [
        ("/rwlocks/table", "ACQUIRE /rwlocks/table mode=read", "RELEASE /rwlocks/table"),
        ("/latches/go", "WAIT /latches/go", "DOWN /latches/go"),
    ] {
        let mut crowd = connect(address);
        for number in 0..waits {
            crowd.write_all(&frame(&format!("{wait} id={number}"))).unwrap();
        }
        client.until_waiting(object, waits as u64);
        let begun = Instant::now();
        let longest = longest_ping(address, || {
            client.done(release);
            assert_eq!(tally(crowd.try_clone().unwrap(), waits), all(waits));
            client.until_waiting(object, 0);
        });
        println!("{release}: longest ping {longest:?}, attack {:?}", begun.elapsed());
        assert!(longest < FROZEN, "{release}: a PING took {longest:?}");
        let longest = longest_ping(address, || {
            drop(crowd);
            client.until_shown("/", "waiting", waits as u64);
        });
        println!("disconnecting: longest ping {longest:?}");
        assert!(longest < FROZEN);
    }
    let longest = longest_ping(address, || {
        client.done(&format!("CLOSE /sessions session={owner}"));
        assert_eq!(tally(waiting, waits), all(waits));
        client.until_shown("/", "waiting", 0);
    });
    println!("CLOSE of all: longest ping {longest:?}");
    assert!(longest < FROZEN);
}

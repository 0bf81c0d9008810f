//! One client asks for much, and another one is not kept waiting.
//!
//! `SEMAFORO_PRESSURE_OBJECTS` and `SEMAFORO_PRESSURE_WAITS` say among how many objects and waiting
//! requests. If they do, the other client waits for at most [`BAR`] in 99 of 100 cases. Otherwise,
//! on a machine that has other things to do and in a slow build, it only must not be kept waiting
//! for as long as it once was, which was minutes.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use support::{Client, Folder, LONG, Process, frame};

/// Another client's request is answered within this time, on a busy machine and in a slow build.
const FROZEN: Duration = Duration::from_secs(5);

/// And 99 of 100 within this one, if nothing else is going on.
const BAR: Duration = Duration::from_millis(50);

const OBJECTS: &str = "SEMAFORO_PRESSURE_OBJECTS";
const WAITS: &str = "SEMAFORO_PRESSURE_WAITS";

fn setting(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
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

/// How long answers to another client took while an attack went on.
#[derive(Debug)]
struct Pings {
    longest: Duration,
    /// 99 of 100 took no longer: all but one, if there are fewer.
    most: Duration,
}

/// Pings while the attack goes on.
fn pings(address: SocketAddr, attack: impl FnOnce() + Send) -> Pings {
    let over = AtomicBool::new(false);
    let mut all = thread::scope(|scope| {
        let pings = scope.spawn(|| {
            let mut stream = connect(address);
            let mut all = Vec::new();
            let mut answer = [0; 64];
            while !over.load(Ordering::SeqCst) || all.is_empty() {
                let asked = Instant::now();
                stream.write_all(&frame("PING")).unwrap();
                let mut length = 0;
                while !answer[..length].ends_with(b"\n") {
                    length += stream.read(&mut answer[length..]).unwrap();
                }
                all.push(asked.elapsed());
            }
            all
        });
        attack();
        over.store(true, Ordering::SeqCst);
        pings.join().unwrap()
    });
    all.sort_unstable();
    let last = all.len() - 1;
    Pings { longest: all[last], most: all[last.saturating_sub(all.len().div_ceil(100))] }
}

/// Does something to the server, and looks how others fare.
#[track_caller]
fn under(address: SocketAddr, name: &str, attack: impl FnOnce() + Send) {
    let begun = Instant::now();
    let pings = pings(address, attack);
    println!("{name}: {pings:?} in {:?}", begun.elapsed());
    assert!(pings.longest < FROZEN, "{name}: {pings:?}");
    if setting(OBJECTS).is_some() {
        assert!(pings.most < BAR, "{name}: {pings:?}");
    }
}

/// A connection with so many requests that wait at an object.
fn crowd(client: &mut Client, address: SocketAddr, wait: &str, count: usize) -> TcpStream {
    let object = wait.split(' ').nth(1).unwrap();
    let mut stream = connect(address);
    for number in 0..count {
        stream.write_all(&frame(&format!("{wait} id={number}"))).unwrap();
    }
    client.until_waiting(object, count as u64);
    stream
}

/// So many requests are answered, none of them 200, and the connection is closed.
fn assert_told(mut stream: TcpStream, count: usize) {
    assert_eq!(tally(stream.try_clone().unwrap(), count), Tally { done: 0, others: count });
    assert_eq!(stream.read(&mut [0; 64]).unwrap(), 0, "and nothing more");
}

fn all(count: usize) -> Tally {
    Tally { done: count, others: 0 }
}

#[test]
fn no_request_keeps_others_waiting() {
    let objects = setting(OBJECTS).unwrap_or(50_000);
    let waits = setting(WAITS).unwrap_or(10_000);
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
        under(address, name, attack);
    }
    under(address, "GET /metrics", || {
        for _ in 0..100 {
            let mut stream = connect(server.http);
            let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            stream.write_all(request).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    });

    // One hold is given back, and all who wait there are let in, or through.
    client.done("CREATE /latches/go count=1");
    client.done("ACQUIRE /rwlocks/table mode=write");
    for (object, wait, release) in [
        ("/rwlocks/table", "ACQUIRE /rwlocks/table mode=read", "RELEASE /rwlocks/table"),
        ("/latches/go", "WAIT /latches/go", "DOWN /latches/go"),
    ] {
        let crowd = crowd(&mut client, address, wait, waits);
        under(address, release, || {
            client.done(release);
            assert_eq!(tally(crowd.try_clone().unwrap(), waits), all(waits));
            client.until_waiting(object, 0);
        });
        under(address, &format!("who was let through by {release} is gone"), || {
            drop(crowd);
            client.until_shown("/", "waiting", waits as u64);
        });
    }

    // Connections end while very many of their requests wait, among others that wait there.
    client.done("CREATE /queues/work");
    client.done("ACQUIRE /rwlocks/table mode=write");
    for wait in [
        "ACQUIRE /rwlocks/table mode=read",
        "TRANSFER /queues/work",
        "TAKE /queues/empty",
        "ARRIVE /barriers/start parties=1000000",
    ] {
        client.done("CREATE /queues/empty");
        for how in ["half closed", "closed by the server", "cut"] {
            let mut crowd = crowd(&mut client, address, wait, waits);
            under(address, &format!("{wait}, {how}"), || {
                match how {
                    "cut" => {
                        sockopt::set_socket_linger(&crowd, Some(Duration::ZERO)).unwrap();
                        drop(crowd);
                    }
                    "half closed" => {
                        crowd.shutdown(Shutdown::Write).unwrap();
                        assert_told(crowd, waits);
                    }
                    _ => {
                        crowd.write_all(b"no request").unwrap();
                        assert_told(crowd, waits + 1);
                    }
                }
                client.until_shown("/", "waiting", waits as u64);
            });
            client.done("RESET /barriers/start");
        }
    }

    // Objects are deleted at which very many requests wait, or with very many messages.
    client.done("CREATE /semaphores/few permits=1");
    client.done("ACQUIRE /semaphores/few");
    let waiting_there = crowd(&mut client, address, "ACQUIRE /semaphores/few", waits);
    under(address, "DELETE with many waiting", || {
        client.done("DELETE /semaphores/few");
        assert_eq!(tally(waiting_there, waits), Tally { done: 0, others: waits });
    });
    let puts = (0..objects).map(|_| "PUT /queues/work | 1".to_owned());
    assert_eq!(pipeline(address, puts), all(objects));
    under(address, "DELETE with many messages", || {
        client.done("DELETE /queues/work");
        client.until_shown("/", "messages", 0);
    });

    under(address, "CLOSE of all", || {
        client.done(&format!("CLOSE /sessions session={owner}"));
        assert_eq!(tally(waiting, waits), all(waits));
        client.until_shown("/", "waiting", 0);
    });
}

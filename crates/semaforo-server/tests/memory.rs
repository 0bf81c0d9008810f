//! What the limit of memory bounds: whatever a server is filled with, it needs little more than that.
//!
//! `SEMAFORO_MEMORY_MIB` says how much that is.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use support::{Folder, LONG, Process, frame};

/// So much more may it be, beside what the program itself needs.
const SLACK: f64 = 1.5;

/// So many requests are sent at a time that their refusals fit into the output of a connection.
const BATCH: usize = 2000;

fn limit() -> u64 {
    let text = std::env::var("SEMAFORO_MEMORY_MIB");
    text.map_or(64, |text| text.parse().expect("SEMAFORO_MEMORY_MIB")) << 20
}

/// Sends requests, many at a time, until one is answered 507. How many were done.
fn fill(server: &Process, requests: impl Iterator<Item = String>) -> usize {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut requests = requests.peekable();
    let (mut done, mut line) = (0, String::new());
    while requests.peek().is_some() {
        let mut bytes = Vec::new();
        let mut sent = 0;
        for request in requests.by_ref().take(200) {
            bytes.extend_from_slice(&frame(&request));
            sent += 1;
        }
        stream.write_all(&bytes).unwrap();
        for _ in 0..sent {
            line.clear();
            answers.read_line(&mut line).unwrap();
            match &line[..13] {
                "{\"Status\":200" => done += 1,
                "{\"Status\":507" => return done,
                _ => panic!("{line}"),
            }
        }
    }
    panic!("{done} requests, and there is still memory");
}

/// The same for requests that wait: it is asked how many do.
fn fill_with_waits(server: &Process) -> usize {
    let mut client = server.connect();
    client.done("ACQUIRE /locks/a");
    let mut connections = Vec::new();
    loop {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let before = waiting(server);
        for number in 0..BATCH {
            stream.write_all(&frame(&format!("ACQUIRE /locks/a id={number}"))).unwrap();
        }
        stream.write_all(&frame("PING / id=last")).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        let mut refused = 0;
        while !line.contains("last") {
            line.clear();
            answers.read_line(&mut line).unwrap();
            refused += usize::from(line.starts_with("{\"Status\":507"));
        }
        connections.push(stream);
        assert_eq!(waiting(server) - before, BATCH - refused);
        if refused > 0 {
            return waiting(server);
        }
    }
}

fn waiting(server: &Process) -> usize {
    let shown = server.connect().done("SHOW /").value();
    shown["waiting"].as_u64().unwrap() as usize
}

fn session(server: &Process) -> String {
    let opened = server.connect().done("OPEN /sessions ttl=86400000");
    opened.header("session").unwrap().to_owned()
}

#[test]
fn whatever_a_server_is_filled_with_its_memory_is_bounded() {
    type Fill = fn(&Process) -> usize;
    let fills: [(&str, Fill); 9] = [
        ("semaphores", |server| {
            fill(server, (0..).map(|n| format!("CREATE /semaphores/{n} permits=1")))
        }),
        ("queues with long names", |server| {
            let name = "n".repeat(240);
            fill(server, (0..).map(move |n| format!("CREATE {name}{n}")))
        }),
        ("locks that are held", |server| {
            let session = session(server);
            fill(server, (0..).map(move |n| format!("ACQUIRE /locks/{n} session={session}")))
        }),
        ("sessions", |server| {
            let label = "l".repeat(100);
            fill(server, (0..).map(move |_| format!("OPEN /sessions ttl=86400000 label={label}")))
        }),
        ("small messages", |server| {
            server.connect().done("CREATE q");
            fill(server, (0..).map(|_| "PUT q | 1".into()))
        }),
        ("large messages", |server| {
            server.connect().done("CREATE q");
            let payload = "x".repeat(50_000);
            fill(server, (0..).map(move |_| format!("PUT q | \"{payload}\"")))
        }),
        ("messages of a priority each", |server| {
            server.connect().done("CREATE q");
            fill(server, (0..).map(|n| format!("PUT q priority={n} | 1")))
        }),
        ("outcomes", |server| {
            server.connect().done("CREATE q");
            let mut current = (session(server), 0);
            let mut next = move |server: &Process| {
                current.1 += 1;
                if current.1 > 1000 {
                    current = (session(server), 1);
                }
                format!("PUT q session={} seq={} | 1", current.0, current.1)
            };
            // Each of them makes a message, too.
            fill(server, std::iter::repeat_with(|| next(server)))
        }),
        ("requests that wait", fill_with_waits),
    ];
    let limit = limit();
    for (name, fill) in fills {
        let folder = Folder::new();
        let most = limit.to_string();
        let server = Process::with(
            folder.path(),
            &[
                "--durability",
                "memory",
                "--max-memory",
                &most,
                "--max-objects",
                "4000000",
                "--max-sessions",
                "4000000",
                "--max-holds",
                "4000000",
                "--max-waits",
                "4000000",
            ],
        );
        server.connect().done("PING");
        let empty = server.resident();
        let count = fill(&server);
        let used = server.resident() - empty;
        let each = used / count as u64;
        println!("{name}: {count}, {used} bytes of {limit}, {each} each");
        assert!((used as f64) < SLACK * limit as f64, "{name}: {used} bytes, {limit} may be");
        // What is refused leaves what is there alone, and what can be given back makes room.
        server.connect().done("PING");
    }
}

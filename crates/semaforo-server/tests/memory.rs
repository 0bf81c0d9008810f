//! What the limit of memory bounds: whatever a server is filled with, it needs little more than
//! that.
//!
//! `SEMAFORO_MEMORY_MIB` says how much that is.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
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

/// The same for requests that wait, each with a number of its own: it is asked how many do.
fn fill_with_waits(server: &Process, request: impl Fn(usize) -> String) -> usize {
    let mut connections = Vec::new();
    let mut numbers = 0..;
    loop {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let before = waiting(server);
        for number in numbers.by_ref().take(BATCH) {
            stream.write_all(&frame(&request(number))).unwrap();
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

/// Fills it with messages over HTTP.
fn fill_over_http(server: &Process) -> usize {
    server.connect().done("CREATE q");
    let body = format!("\"{}\"", "x".repeat(50_000));
    for done in 0.. {
        let mut stream = TcpStream::connect(server.http).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(http_put("q", body.len()).as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        match &answer[..12] {
            "HTTP/1.1 200" => {}
            "HTTP/1.1 507" => return done,
            _ => panic!("{answer}"),
        }
    }
    unreachable!("there is still memory")
}

/// The head of a request that puts a message of so many bytes.
fn http_put(queue: &str, length: usize) -> String {
    let headers = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    format!("POST /v1/queues/{queue}/PUT HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n")
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
    let fills: [(&str, Fill); 19] = [
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
        ("requests that wait", |server| {
            let mut holder = server.connect();
            holder.done("ACQUIRE /locks/a");
            fill_with_waits(server, |n| format!("ACQUIRE /locks/a id={n}"))
        }),
        ("requests with long ids that wait", |server| {
            let mut holder = server.connect();
            holder.done("ACQUIRE /locks/a");
            fill_with_waits(server, |n| format!("ACQUIRE /locks/a id={n:0>128}"))
        }),
        ("transfers", |server| {
            server.connect().done("CREATE q");
            let payload = "x".repeat(1000);
            fill_with_waits(server, |n| format!("TRANSFER q id={n} | \"{payload}\""))
        }),
        ("messages that wait for room", |server| {
            let mut client = server.connect();
            client.done("CREATE q capacity=1");
            client.done("PUT q | 1");
            let payload = "x".repeat(1000);
            fill_with_waits(server, |n| format!("PUT q id={n} | \"{payload}\""))
        }),
        ("barriers with one party", |server| {
            fill_with_waits(server, |n| format!("ARRIVE /barriers/{n} parties=2 id={n}"))
        }),
        ("delayed messages", |server| {
            server.connect().done("CREATE q");
            fill(server, (0..).map(|_| "PUT q delay=86400000 | 1".into()))
        }),
        ("messages that are out", |server| {
            server.connect().done("CREATE q");
            let session = session(server);
            let both = move |_| {
                ["PUT q | 1".to_owned(), format!("TAKE q ack=manual session={session} timeout=0")]
            };
            fill(server, (0..).flat_map(both))
        }),
        ("latches", |server| fill(server, (0..).map(|n| format!("CREATE /latches/{n} count=1")))),
        ("readers", |server| {
            let session = session(server);
            let read = move |_| format!("ACQUIRE /rwlocks/a mode=read session={session}");
            fill(server, (0..).map(read))
        }),
        ("locks that a connection holds", |server| {
            fill(server, (0..).map(|n| format!("ACQUIRE /locks/{n}")))
        }),
        ("messages over HTTP", fill_over_http),
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

/// A server with so much memory and buffers, and what it needs when it is empty.
fn with_buffers(folder: &Folder, memory: u64, buffers: u64) -> (Process, u64) {
    let [memory, buffers] = [memory, buffers].map(|bytes| bytes.to_string());
    let arguments = ["--max-memory", &memory, "--max-buffers", &buffers];
    let server =
        Process::with(folder.path(), &[&["--durability", "memory"], &arguments[..]].concat());
    server.connect().done("PING");
    let empty = server.resident();
    (server, empty)
}

/// Opens connections to an address, does something with each that may be cut short, and keeps them.
fn crowd(
    address: std::net::SocketAddr,
    count: usize,
    act: impl Fn(&mut TcpStream) -> std::io::Result<()>,
) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_write_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
        // What the server does not read any more is not sent.
        let _ = act(&mut stream);
        stream
    };
    (0..count).map(open).collect()
}

/// What clients send and do not finish, and what they ask for and do not read, is bounded as a
/// whole; a client that asks little and reads the answers is served all the time.
#[test]
fn whatever_connections_are_filled_with_their_buffers_are_bounded() {
    const CROWD: usize = 80;
    type Fill = fn(&Process) -> Vec<TcpStream>;
    let fills: [(&str, Fill); 4] = [
        ("half requests", |server| {
            let half = format!("{{\"Method\":\"ECHO\",\"Payload\":\"{}", "x".repeat(900_000));
            crowd(server.address, CROWD, |stream| stream.write_all(half.as_bytes()))
        }),
        ("half requests over HTTP", |server| {
            let half = http_put("q", 1_000_000) + &"1".repeat(900_000);
            crowd(server.http, CROWD, |stream| stream.write_all(half.as_bytes()))
        }),
        ("answers that are not read", |server| {
            let mut echo = "{\"Method\":\"ECHO\",\"Payload\":\"".to_owned();
            echo += &"x".repeat(500_000);
            let echo = echo + "\"}";
            crowd(server.address, CROWD, |stream| {
                (0..12).try_for_each(|_| stream.write_all(echo.as_bytes()))
            })
        }),
        ("answers over HTTP that are not read", |server| {
            let get = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
            crowd(server.http, CROWD, |stream| stream.write_all(get.as_bytes()))
        }),
    ];
    let (memory, buffers) = (8 << 20, 16 << 20);
    for (name, fill) in fills {
        let folder = Folder::new();
        let (server, empty) = with_buffers(&folder, memory, buffers);
        let mut client = server.connect();
        client.done("CREATE q");
        let crowd = fill(&server);
        client.done("PUT q | 1");
        client.done("TAKE q");
        // More than is allowed in the long run, and it does not stay.
        support::until("a quarter is free", || buffered(&server) < buffers as f64 * 0.75);
        let used = server.most_resident() - empty;
        println!("{name}: {used} bytes of {memory} and {buffers}");
        let most = SLACK * (memory + buffers) as f64;
        assert!((used as f64) < most, "{name}: {used} bytes");
        server.connect().done("PING");
        drop(crowd);
    }
}

/// How many bytes buffers have, as the server says.
fn buffered(server: &Process) -> f64 {
    let mut stream = TcpStream::connect(server.http).unwrap();
    let head = "Host: localhost\r\nConnection: close\r\n";
    stream.write_all(format!("GET /metrics HTTP/1.1\r\n{head}\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let figure = text.lines().find_map(|line| line.strip_prefix("semaforo_buffer_bytes "));
    figure.unwrap().parse().unwrap()
}

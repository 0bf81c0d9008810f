//! Many connections for some time: no error, and no growth.
//!
//! `SEMAFORO_LOAD_CONNECTIONS` and `SEMAFORO_LOAD_SECONDS` say how many and for how long.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use support::{Folder, LONG, Process};

const THREADS: usize = 8;

fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().map_or(usual, |text| text.parse().expect(name))
}

/// One request and its answer, on each of these connections, and on all of them at once.
fn round(streams: &mut [TcpStream], request: &str) {
    for stream in &mut *streams {
        stream.write_all(request.as_bytes()).unwrap();
    }
    let mut answer = [0; 512];
    for stream in streams {
        let mut length = 0;
        while !answer[..length].ends_with(b"\n") {
            let read = stream.read(&mut answer[length..]).unwrap();
            assert_ne!(read, 0, "closed");
            length += read;
        }
        assert!(answer.starts_with(b"{\"Status\":200"), "{:?}", answer[..length].escape_ascii());
    }
}

/// What a connection does in one round after the other: nothing of it stays.
fn requests(thread: usize) -> [String; 5] {
    [
        format!(r#"{{"Method":"ACQUIRE","Path":"/semaphores/load{thread}"}}"#),
        format!(r#"{{"Method":"RELEASE","Path":"/semaphores/load{thread}"}}"#),
        format!(r#"{{"Method":"PUT","Path":"load{thread}","Payload":{{"n":1}}}}"#),
        format!(r#"{{"Method":"TAKE","Path":"load{thread}"}}"#),
        r#"{"Method":"PING"}"#.to_owned(),
    ]
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

#[test]
fn many_connections_for_a_while() {
    let connections = setting("SEMAFORO_LOAD_CONNECTIONS", 400);
    let seconds = setting("SEMAFORO_LOAD_SECONDS", 2) as u64;
    assert!(semaforo_server::net::raise_open_files(connections + 100) >= connections);
    let folder = Folder::new();
    let limit = (connections + 1).to_string();
    let server = Process::with(folder.path(), &["--max-connections", &limit]);
    let address = server.address;
    let mut first = vec![connect(address)];
    for thread in 0..THREADS {
        let create = r#"{"Method":"CREATE","Path":"#;
        round(&mut first, &format!(r#"{create}"load{thread}"}}"#));
        let headers = format!(r#""Headers":{{"permits":{connections}}}"#);
        round(&mut first, &format!(r#"{create}"/semaphores/load{thread}",{headers}}}"#));
    }
    let warm = Barrier::new(THREADS + 1);
    let (before, rounds) = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let warm = &warm;
                scope.spawn(move || {
                    let requests = requests(thread);
                    let count = connections / THREADS;
                    let mut streams: Vec<_> = (0..count).map(|_| connect(address)).collect();
                    for request in &requests {
                        round(&mut streams, request);
                    }
                    warm.wait();
                    let end = Instant::now() + Duration::from_secs(seconds);
                    let mut rounds = 0_u64;
                    while Instant::now() < end {
                        for request in &requests {
                            round(&mut streams, request);
                        }
                        rounds += 1;
                    }
                    rounds
                })
            })
            .collect();
        warm.wait();
        let before = server.resident();
        (before, threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>())
    });
    assert!(rounds > 0);
    let after = server.resident();
    // A fifth and 4 MiB more than after everything was used once: buffers, not growth.
    assert!(after <= before + before / 5 + (4 << 20), "{before} bytes, then {after}");
    round(&mut first, r#"{"Method":"PING"}"#);
}

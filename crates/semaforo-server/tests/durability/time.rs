//! The wall clock was moved by an hour, either way, while the server was down.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use semaforo_server::journal::MemoryJournal;
use semaforo_server::kernel::State;
use semaforo_server::server::{Options, Server};

const HOUR: u64 = 3_600_000;

fn call(stream: &TcpStream, request: &str) -> String {
    (&*stream).write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn limits_and_sessions_last_as_long_as_they_should() {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    for journaled in [wall + HOUR, wall - HOUR] {
        let journal = Box::new(MemoryJournal::default());
        let server =
            Server::with_journal(Options::default(), State::default(), journal, journaled).unwrap();
        let (one, two) = (
            TcpStream::connect(server.address()).unwrap(),
            TcpStream::connect(server.address()).unwrap(),
        );
        let running = thread::spawn(move || server.run());
        let opened = call(&one, r#"{"Method":"OPEN","Path":"/sessions","Headers":{"ttl":400}}"#);
        let session = opened.split(r#""session":""#).nth(1).unwrap()[..32].to_owned();
        let begin = Instant::now();
        let acquire = format!(
            r#"{{"Method":"ACQUIRE","Path":"/locks/a","Headers":{{"session":"{session}"}}}}"#
        );
        assert!(call(&one, &acquire).contains(r#""Status":200"#));
        let limited = r#"{"Method":"ACQUIRE","Path":"/locks/a","Headers":{"timeout":100}}"#;
        assert!(call(&two, limited).contains(r#""Status":204"#));
        assert!(begin.elapsed() >= Duration::from_millis(100));
        // The session is silent, and ends.
        assert!(call(&two, r#"{"Method":"ACQUIRE","Path":"/locks/a"}"#).contains("200"));
        assert!(begin.elapsed() >= Duration::from_millis(400));
        assert!(call(&two, r#"{"Method":"SHUTDOWN"}"#).contains("200"));
        running.join().unwrap().unwrap();
    }
}

//! What `--log debug` says, in lines of text and of JSON.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::support::{LIMIT, Server, wait_until};

fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// Connections that come and go, what is refused, and sessions that begin and end, and why.
#[test]
fn debug_tells_of_connections_refusals_and_sessions() {
    for json in [false, true] {
        let mut arguments = vec!["--journal", "memory", "--log", "debug"];
        arguments.extend(json.then_some("--log-json"));
        let server = Server::with(&arguments);
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let address = stream.local_addr().unwrap();
        let open = |label: &str, ttl: u32| {
            format!(
                r#"{{"Method":"OPEN","Path":"/sessions","Headers":{{"label":"{label}","ttl":{ttl}}}}}"#
            )
        };
        let opened = ask(&mut stream, &open("first", 60_000));
        let session = opened.split(r#""session":""#).nth(1).unwrap()[..32].to_owned();
        ask(&mut stream, &open("second", 100));
        let close = format!(
            r#"{{"Method":"CLOSE","Path":"/sessions","Headers":{{"session":"{session}"}}}}"#
        );
        ask(&mut stream, &close);
        assert!(ask(&mut stream, r#"{"Method":"TAKE","Path":"none"}"#).contains("404"));
        drop(stream);
        let texts = || -> Vec<String> {
            let log = server.log();
            // The last line may not be there as a whole yet.
            let lines = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let text = |line: &str| match json {
                false => line.splitn(3, ' ').nth(2).unwrap().trim_end().to_owned(),
                true => {
                    let line: Value = serde_json::from_str(line).unwrap();
                    line["text"].as_str().unwrap().to_owned()
                }
            };
            lines.map(text).collect()
        };
        for expected in [
            &*format!("has connected from {address}"),
            "session \"first\" has begun, for 60000 ms",
            "session \"first\" was closed",
            "404: there is no queue \"none\"",
            "is gone: finished",
            "session \"second\" has ended: nothing was heard of it",
        ] {
            wait_until(expected, || texts().iter().any(|line| line.ends_with(expected)));
        }
        assert!(!server.log().contains(&session), "a session's name is a secret");
    }
}

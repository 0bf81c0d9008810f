//! How much a token may have.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use super::reload::Connection;
use super::support::{Directory, Server, wait_until};

const ADA: &str = "fedcba9876543210";
const GUEST: &str = "0123456789abcdef";

struct Limited {
    server: Server,
    directory: Directory,
}

fn lines(quotas: &str) -> String {
    format!("{ADA} rights=use,create,admin,observe name=ada\n{GUEST} name=guest {quotas}\n")
}

impl Limited {
    fn start(quotas: &str) -> Self {
        let directory = Directory::new();
        let tokens = directory.secret("tokens", &lines(quotas));
        let arguments = ["--journal", "memory", "--tokens", tokens.to_str().unwrap()];
        Self { server: Server::with(&arguments), directory }
    }

    fn reload(&self, quotas: &str) {
        fs::write(self.directory.file("tokens"), lines(quotas)).unwrap();
        assert_eq!(self.server.semaforo(&["reload", "--token", ADA]).code(), 0);
    }

    /// What the figures say of the guest; nothing if they are too old.
    fn used(&self, what: &str) -> String {
        // They are published after a request.
        let mut ada = Connection::auth(&self.server, ADA);
        assert_eq!(ada.ask(&request("PING", "", "")), Some(200));
        let mut stream = TcpStream::connect(&self.server.http).unwrap();
        let head =
            format!("Host: localhost\r\nAuthorization: Bearer {ADA}\r\nConnection: close\r\n");
        stream.write_all(format!("GET /metrics HTTP/1.1\r\n{head}\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let name = format!("semaforo_token_used{{token=\"guest\",what=\"{what}\"}} ");
        let figure = text.lines().find_map(|line| line.strip_prefix(&name));
        figure.unwrap_or_default().to_owned()
    }
}

fn request(method: &str, path: &str, headers: &str) -> String {
    format!(r#"{{"Method":"{method}","Path":"{path}","Headers":{{{headers}}}}}"#)
}

#[test]
fn objects_count_from_their_creation_to_their_end() {
    let limited = Limited::start("objects=2");
    let mut guest = Connection::auth(&limited.server, GUEST);
    let mut ada = Connection::auth(&limited.server, ADA);
    let create = |name: &str| request("CREATE", name, "");
    for name in ["a", "b"] {
        assert_eq!(guest.ask(&create(name)), Some(200));
    }
    guest.0.write_all(create("c").as_bytes()).unwrap();
    let refused = guest.answer().unwrap();
    assert_eq!(refused["Status"], 429);
    let reason = refused["Payload"]["error"].as_str().unwrap();
    assert!(
        reason.contains("guest") && reason.contains("objects") && reason.contains('2'),
        "{reason}"
    );
    assert_eq!(guest.ask(&create("a")), Some(200), "it is there already");
    assert_eq!(ada.ask(&create("of-ada")), Some(200), "another has its own account");
    wait_until("it is shown", || limited.used("objects") == "2");
    // Also if another token deletes it.
    assert_eq!(ada.ask(&request("DELETE", "a", "")), Some(200));
    assert_eq!(guest.ask(&create("c")), Some(200));
    assert_eq!(guest.ask(&create("d")), Some(429));

    // New quotas count at once, and nothing is taken away.
    limited.reload("objects=3");
    assert_eq!(guest.ask(&create("d")), Some(200));
    limited.reload("objects=1");
    assert_eq!(guest.ask(&request("SHOW", "b", "")), Some(200));
    for name in ["b", "c"] {
        assert_eq!(guest.ask(&request("DELETE", name, "")), Some(200));
    }
    assert_eq!(guest.ask(&create("e")), Some(429), "there is still one");
    limited.reload("");
    assert_eq!(guest.ask(&create("e")), Some(200));
}

#[test]
fn sessions_count_until_they_end() {
    let limited = Limited::start("sessions=1");
    let mut guest = Connection::auth(&limited.server, GUEST);
    let open = |ttl: u32| request("OPEN", "/sessions", &format!("\"ttl\":{ttl}"));
    guest.0.write_all(open(60_000).as_bytes()).unwrap();
    let session = guest.answer().unwrap()["Headers"]["session"].as_str().unwrap().to_owned();
    assert_eq!(guest.ask(&open(60_000)), Some(429));
    // One that ends in the very same turn makes room.
    let close = request("CLOSE", "/sessions", &format!("\"session\":\"{session}\""));
    guest.0.write_all(format!("{close}{}", open(100)).as_bytes()).unwrap();
    assert_eq!(guest.answer().unwrap()["Status"], 200);
    assert_eq!(guest.answer().unwrap()["Status"], 200);
    wait_until("nothing was heard of it", || guest.ask(&open(60_000)) == Some(200));
    wait_until("it is shown", || limited.used("sessions") == "1");
}

#[test]
fn bytes_count_until_the_message_is_gone() {
    let limited = Limited::start("bytes=20");
    let mut guest = Connection::auth(&limited.server, GUEST);
    let mut ada = Connection::auth(&limited.server, ADA);
    assert_eq!(ada.ask(&request("CREATE", "q", "\"capacity\":1")), Some(200));
    let put = |payload: &str, headers: &str| {
        format!(r#"{{"Method":"PUT","Path":"q","Headers":{{{headers}}},"Payload":{payload}}}"#)
    };
    guest.0.write_all(put("\"more than twenty bytes\"", "").as_bytes()).unwrap();
    let refused = guest.answer().unwrap();
    assert_eq!(refused["Status"], 429);
    let reason = refused["Payload"]["error"].as_str().unwrap();
    assert!(
        reason.contains("guest") && reason.contains("bytes") && reason.contains("20"),
        "{reason}"
    );
    assert_eq!(guest.ask(&put("\"ten bytes\"", "")), Some(200), "eleven with its quotes");
    assert_eq!(guest.ask(&put("\"ten bytes\"", "")), Some(429), "twenty-two together");
    assert_eq!(ada.ask(&put("1", "\"timeout\":0")), Some(204), "it is full");

    // What waits for space counts, too; what was withdrawn does not, nor what could not wait.
    assert_eq!(guest.ask(&put("123456789", "\"timeout\":0")), Some(204));
    guest.0.write_all(put("123456789", "\"id\":1").as_bytes()).unwrap();
    wait_until("it waits", || limited.used("bytes") == "20");
    let mut other = Connection::auth(&limited.server, GUEST);
    assert_eq!(other.ask(&put("1", "\"timeout\":0")), Some(429));
    guest.0.write_all(request("CANCEL", "", "\"id\":2,\"request\":1").as_bytes()).unwrap();
    assert_eq!(guest.answer().unwrap()["Status"], 204);
    assert_eq!(guest.answer().unwrap()["Status"], 200);
    wait_until("it is withdrawn", || limited.used("bytes") == "11");

    // Also if another token takes it: one that is out counts until it is acknowledged.
    assert_eq!(ada.ask(&request("TAKE", "q", "\"ack\":\"manual\"")), Some(200));
    assert_eq!(guest.ask(&put("1234567890", "\"timeout\":0")), Some(429));
    assert_eq!(ada.ask(&request("ACK", "q", "\"message\":1")), Some(200));
    wait_until("it is gone", || limited.used("bytes") == "0");
    assert_eq!(guest.ask(&put("12345678901234567890", "")), Some(200));
    assert_eq!(ada.ask(&request("DELETE", "q", "")), Some(200));
    wait_until("all of them are gone", || limited.used("bytes") == "0");
}

#[test]
fn requests_count_while_they_wait() {
    let limited = Limited::start("waits=1");
    let mut ada = Connection::auth(&limited.server, ADA);
    let acquire = |more: &str| request("ACQUIRE", "/locks/l", more);
    assert_eq!(ada.ask(&acquire("")), Some(200));
    let mut first = Connection::auth(&limited.server, GUEST);
    let mut second = Connection::auth(&limited.server, GUEST);
    first.0.write_all(acquire("\"id\":1").as_bytes()).unwrap();
    wait_until("it waits", || limited.used("waits") == "1");
    assert_eq!(second.ask(&acquire("\"id\":2")), Some(429));
    assert_eq!(second.ask(&acquire("\"timeout\":0")), Some(204), "it does not wait");
    // Cancelled, let through, or gone with its connection: it waits no more.
    first.0.write_all(request("CANCEL", "", "\"id\":3,\"request\":1").as_bytes()).unwrap();
    assert_eq!(first.answer().unwrap()["Status"], 204);
    assert_eq!(first.answer().unwrap()["Status"], 200);
    second.0.write_all(acquire("\"id\":4").as_bytes()).unwrap();
    wait_until("it waits", || limited.used("waits") == "1");
    assert_eq!(ada.ask(&request("RELEASE", "/locks/l", "")), Some(200));
    assert_eq!(second.answer().unwrap()["Status"], 200);
    first.0.write_all(acquire("\"id\":5").as_bytes()).unwrap();
    wait_until("it waits", || limited.used("waits") == "1");
    drop(first);
    wait_until("it is gone", || limited.used("waits") == "0");
    // Over HTTP, too.
    let mut poll = TcpStream::connect(&limited.server.http).unwrap();
    let head = format!("Host: localhost\r\nAuthorization: Bearer {GUEST}\r\n");
    let wait = format!("POST /v1/barriers/b/ARRIVE?parties=2 HTTP/1.1\r\n{head}\r\n");
    poll.write_all(wait.as_bytes()).unwrap();
    wait_until("it waits", || limited.used("waits") == "1");
    drop(poll);
    wait_until("it is gone", || limited.used("waits") == "0");
}

//! A server that lies: what it says is neither run by a shell nor obeyed by a terminal.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::thread::{self, JoinHandle};

use rustix::process::Signal;

use super::client_support::script::{Asked, Conversation, Script};
use super::support::{Directory, Ended, Program, SEMAFORO, Server, attentive, wait_until};

/// A session's id as servers give them.
const SESSION: &str = "0123456789abcdef0123456789abcdef";

/// The headers, the status and the payload that a liar answers with.
struct Lie {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    payload: Option<&'static str>,
}

/// Answers one client until it hangs up: as a server would, except to this method.
struct Liar {
    address: String,
    directory: Directory,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    fn new(method: &'static str, lie: Lie) -> Self {
        let script = Script::new();
        let address = script.address.to_string();
        let thread = Some(thread::spawn(move || {
            let mut conversation = script.accept();
            while let Some(asked) = conversation.next() {
                if asked.method == method {
                    conversation.answer(&asked, lie.status, &lie.headers, lie.payload);
                } else {
                    honest(&mut conversation, &asked);
                }
            }
        }));
        Self { address, directory: Directory::new(), thread }
    }

    /// Runs this in a shell, with the program as `semaforo`.
    fn shell(&self, line: &str) -> Ended {
        let mut shell = attentive("sh");
        shell
            .args(["-c", &format!("semaforo() {{ {SEMAFORO} \"$@\"; }}; {line}")])
            .env("SEMAFORO_SERVER", &self.address)
            .env_remove("SEMAFORO_TOKEN")
            .env_remove("SEMAFORO_SESSION")
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        Program::start(&mut shell).wait()
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        let ended = self.thread.take().unwrap().join();
        if !thread::panicking() {
            ended.unwrap();
        }
    }
}

fn honest(conversation: &mut Conversation, asked: &Asked) {
    let headers: &[_] = match &*asked.method {
        "OPEN" => &[("session", SESSION), ("ttl", "60000")],
        "ACQUIRE" => &[("fence", "7")],
        _ => &[],
    };
    conversation.answer(asked, 200, headers, None);
}

fn granted(headers: &[(&'static str, &'static str)]) -> Lie {
    Lie { status: 200, headers: headers.to_vec(), payload: None }
}

#[test]
fn headers_that_are_not_known_are_not_printed() {
    let lie = [("fence", "7"), ("PATH", "/nowhere"), ("x;touch ran;y", "1"), ("z", "$(touch ran)")];
    let liar = Liar::new("ACQUIRE", granted(&lie));
    let ended = liar.shell(r#"eval "$(semaforo lock acquire a)"; echo "$session $fence $z"; ls"#);
    assert_eq!(ended.stdout, format!("{SESSION} 7 \n"), "{}", ended.stderr);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);

    // A program that reads JSON gets the same.
    let liar = Liar::new("ACQUIRE", granted(&lie));
    let ended = liar.shell("semaforo lock acquire a --json");
    let expected = format!("{{\"status\":200,\"session\":\"{SESSION}\",\"fence\":7}}\n");
    assert_eq!(ended.stdout, expected, "{}", ended.stderr);
}

#[test]
fn a_header_that_is_not_what_it_has_to_be_is_an_error() {
    let values =
        ["7;touch ran", "$(touch ran)", "`touch ran`", "7\ntouch ran", "-7", "+7", "", "seven"];
    for value in values {
        for command in [
            r#"eval "$(semaforo lock acquire a)""#,
            "semaforo lock acquire a --json",
            "SEMAFORO_SESSION=0123456789abcdef0123456789abcdef semaforo lock acquire a",
        ] {
            let liar = Liar::new("ACQUIRE", granted(&[("fence", value)]));
            let ended = liar.shell(command);
            assert_eq!(ended.stdout, "", "{value:?} {command}");
            assert!(ended.stderr.contains("makes no sense"), "{value:?}: {}", ended.stderr);
            assert!(!liar.path().join("ran").exists(), "{value:?} {command}");
        }
    }
    for session in ["0123456789abcdef0123456789abcde;touch ran", "0123456789ABCDEF0123456789ABCDEF"]
    {
        let lie = granted(&[("session", session), ("ttl", "60000")]);
        let liar = Liar::new("OPEN", lie);
        let ended = liar.shell(r#"eval "$(semaforo session open)""#);
        assert_eq!(ended.stdout, "");
        assert!(ended.stderr.contains("makes no sense"), "{}", ended.stderr);
        assert!(!liar.path().join("ran").exists());
    }
}

#[test]
fn nothing_that_a_server_says_moves_the_cursor_or_forges_a_line() {
    let error = r#"{"error":"no\u001b[2J\nsemaforo: all is well\u009b2J\u202e"}"#;
    let lie = Lie { status: 404, headers: Vec::new(), payload: Some(error) };
    let liar = Liar::new("DOWN", lie);
    let ended = liar.shell("semaforo latch down a");
    let expected =
        "semaforo: not found: no\\u001b[2J\\u000asemaforo: all is well\\u009b2J\\u202e\n";
    assert_eq!(ended.stderr, expected);

    let list = r#"[{"kind":"lo\u001bck","name":"a\u001b[2J","held":"\u007f","waiting":0}]"#;
    for arguments in ["ls", "ls --json"] {
        let lie = Lie { status: 200, headers: Vec::new(), payload: Some(list) };
        let ended = Liar::new("LIST", lie).shell(&format!("semaforo {arguments}"));
        assert!(ended.stdout.contains("a\\u001b[2J"), "{}", ended.stdout);
        assert!(!ended.stdout.contains(|c: char| c.is_control() && c != '\n'), "{ended:?}");
    }
}

#[test]
fn a_label_of_another_user_is_shown_harmlessly() {
    let server = Server::start();
    let label = "me\u{202e}em";
    let opened = server.json(&["session", "open", "--label", label]);
    let session = opened["session"].as_str().unwrap();
    server.print(&["lock", "acquire", "a", "--session", session]);
    let shown = server.print(&["lock", "show", "a"]);
    assert!(shown.contains("held by me\\u202eem, fence"), "{shown}");
    let shown = server.print(&["lock", "show", "a", "--json"]);
    assert!(shown.contains("me\\u202eem"), "{shown}");
    let holders = server.state("lock", "a", "holders").unwrap();
    assert_eq!(holders[0]["who"], label, "for a program it is the same");
}

/// An address that is not known to be this machine's, although nothing leaves it: systems take it
/// for their own.
fn elsewhere(address: &str) -> String {
    address.replace("127.0.0.1:", "0.0.0.0:")
}

#[test]
fn a_token_is_not_sent_to_another_machine_without_encryption() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let address = elsewhere(&silent.local_addr().unwrap().to_string());
    let server = Server::start();
    for arguments in [&["ls"][..], &["run", "--lock", "a", "--", "true"]] {
        let mut command = server.command(&[&["--server", &address], arguments].concat());
        let ended = Program::start(command.env("SEMAFORO_TOKEN", "a-secret-of-mine")).wait();
        assert_eq!(ended.code(), 77, "{}", ended.stderr);
        for word in ["token", "0.0.0.0", "--ca", "--insecure"] {
            assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
        }
        assert!(!ended.stderr.contains("a-secret"), "{}", ended.stderr);
    }
    let accepted = silent.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(accepted, Err(ErrorKind::WouldBlock), "there was not even a connection");
}

#[test]
fn a_token_is_sent_without_encryption_if_that_is_said() {
    let tokens = Directory::new();
    let file = tokens.secret("tokens", "0123456789abcdef\n");
    let server = Server::with(&["--journal", "memory", "--tokens", file.to_str().unwrap()]);
    let command = |arguments: &[&str]| {
        let address = elsewhere(&server.address);
        let mut command = server.command(&[&["--server", &address], arguments].concat());
        command.env("SEMAFORO_TOKEN", "0123456789abcdef");
        command
    };
    let ended = Program::start(&mut command(&["ls", "--insecure"])).wait();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    // The guardian is told, too: it ends the session of a client that was killed, long before its
    // time.
    let sleep = ["sh", "-c", "touch began; exec sleep 1000"];
    let hold = ["--insecure", "run", "--lock", "a", "--ttl", "10m", "--"];
    let holder = Program::start(&mut command(&[&hold[..], &sleep].concat()));
    wait_until("it is held", || server.directory.file("began").exists());
    holder.signal(Signal::KILL);
    let next = ["--insecure", "run", "--lock", "a", "--timeout", "25s", "--", "true"];
    assert_eq!(Program::start(&mut command(&next)).wait().code(), 0);
}

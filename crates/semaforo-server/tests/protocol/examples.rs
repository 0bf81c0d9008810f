//! docs/protocol.md keeps its word: its examples are sent, its limits are compared, and nothing is
//! without an example.

use std::collections::{BTreeMap, BTreeSet};

use semaforo_protocol::{limits as protocol_limits, wire};
use semaforo_server::kernel;
use semaforo_server::net::limits;
use semaforo_server::server::access::{self, Tokens};
use semaforo_server::server::limits as server_limits;
use semaforo_server::server::{Options, http};
use serde_json::Value;

use crate::support::{Client, Process, Server, until};

const PROTOCOL: &str = include_str!("../../../../docs/protocol.md");

/// The fenced blocks that begin with such a word: the rest of that line, and what is in them.
fn blocks(word: &str) -> Vec<(&'static str, &'static str)> {
    PROTOCOL
        .split("\n```")
        .filter_map(|block| block.strip_prefix(word)?.split_once('\n'))
        .map(|(more, text)| (more.trim(), text))
        .collect()
}

/// The part of the document under a heading.
fn section(heading: &str) -> &'static str {
    let start = PROTOCOL.find(heading).unwrap_or_else(|| panic!("no {heading}")) + heading.len();
    let rest = &PROTOCOL[start..];
    rest.find("\n## ").map_or(rest, |end| &rest[..end])
}

/// The cells of the rows of all tables in a text.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// What is between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What stands for itself, and what stands for something else.
enum Piece<'a> {
    Text(&'a str),
    Anything,
    Named(&'a str),
}

fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find(['*', '$']) {
        pieces.push(Piece::Text(&rest[..at]));
        let after = &rest[at + 1..];
        if rest[at..].starts_with('*') {
            pieces.push(Piece::Anything);
            rest = after;
        } else {
            let end = after.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(after.len());
            pieces.push(Piece::Named(&after[..end]));
            rest = &after[end..];
        }
    }
    pieces.push(Piece::Text(rest));
    pieces
}

#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    /// With the names that are known in their places.
    fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.0 {
            filled = filled.replace(&format!("${name}"), value);
        }
        filled
    }

    /// Whether an answer is as it should be; learns what the names stand for.
    fn fits(&mut self, template: &str, answer: &str) -> bool {
        let template = self.fill(template);
        let mut rest = answer;
        let mut open: Option<Option<&str>> = None;
        let pieces = pieces(&template);
        let last = pieces.len() - 1;
        for (index, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Anything => open = Some(None),
                Piece::Named(name) => open = Some(Some(name)),
                Piece::Text(text) => {
                    let at = match open {
                        None => rest.starts_with(text).then_some(0),
                        Some(_) if index == last => {
                            rest.ends_with(text).then(|| rest.len() - text.len())
                        }
                        Some(_) => rest.find(text),
                    };
                    let Some(at) = at else { return false };
                    if let Some(Some(name)) = open.take() {
                        self.0.insert(name.to_owned(), rest[..at].to_owned());
                    }
                    rest = &rest[at + text.len()..];
                }
            }
        }
        rest.is_empty()
    }
}

fn server(kind: &str) -> Server {
    match kind {
        "" => Server::start(),
        "tokens" => {
            let file = section("\n## 6. ").split("```").nth(1).unwrap();
            let tokens = Some(Tokens::parse(file).unwrap());
            let admin = "0f5d7d0e4b7a4c6c8d1e2f3a4b5c6d7e";
            Server::with_token(Options { tokens, ..Options::default() }, admin)
        }
        "small" => Server::with(Options {
            frames: wire::Limits { size: 100, ..wire::Limits::default() },
            limits: kernel::Limits { objects: 2, bytes: 40, ..kernel::Limits::default() },
            ..Options::default()
        }),
        "hasty" => {
            let unfinished = std::time::Duration::from_millis(100);
            Server::with(Options { unfinished, ..Options::default() })
        }
        other => panic!("what is a transcript {other:?}?"),
    }
}

fn replay(kind: &str, transcript: &str) {
    let server = server(kind);
    let mut clients: BTreeMap<&str, Client> = BTreeMap::new();
    let mut observer = server.connect();
    let mut names = Names::default();
    let lines: Vec<&str> = transcript.lines().filter(|line| !line.is_empty()).collect();
    let mut waiting = 0;
    let ends = lines.iter().any(|line| line.contains("SHUTDOWN"));
    for (index, line) in lines.iter().enumerate() {
        let (who, text) = line.split_once([' ']).unwrap();
        let (who, direction) = who.split_at(who.len() - 1);
        let client = clients.entry(who).or_insert_with(|| server.connect());
        match (direction, text) {
            (">", request) => {
                client.send_bytes(names.fill(request).as_bytes());
                // If another connection goes on, this one has to wait first.
                let next =
                    lines.get(index + 1).map_or("", |next| next.split(['<', '>']).next().unwrap());
                if next != who {
                    waiting += 1;
                    until(line, || observer.show("/").unwrap()["waiting"] == waiting);
                }
            }
            ("<", "(closed)") => assert!(client.ended(), "{line}"),
            ("<", expected) => {
                let answer = client.answer();
                assert!(
                    names.fits(expected, &answer.text),
                    "expected {line}\n     got {}",
                    answer.text
                );
                waiting = if ends || kind == "tokens" {
                    waiting
                } else {
                    observer.show("/").unwrap()["waiting"].as_u64().unwrap()
                };
            }
            _ => panic!("neither > nor <: {line}"),
        }
    }
    if ends {
        server.join();
    }
}

#[test]
fn transcripts() {
    let all = blocks("transcript");
    assert!(all.len() > 10);
    for (kind, transcript) in all {
        replay(kind, transcript);
    }
}

#[test]
fn templates_fit_what_they_should() {
    let mut names = Names::default();
    assert!(names.fits(r#"{"a":"$name","b":*}"#, r#"{"a":"17","b":[1]}"#));
    assert_eq!(names.fill("$name."), "17.");
    assert!(names.fits("x$name", "x17"));
    assert!(!names.fits("x$name", "x18"));
    assert!(!names.fits("a*b", "abc"));
    assert!(!names.fits("ab", "abc"));
}

/// Method, path and headers of every request in the transcripts.
fn requests() -> Vec<Value> {
    let lines = blocks("transcript").into_iter().flat_map(|(_, text)| text.lines());
    lines
        .filter_map(|line| line.split_once("> "))
        .filter_map(|(_, request)| serde_json::from_str(request).ok())
        .collect()
}

#[test]
fn every_method_and_header_has_an_example() {
    let requests = requests();
    let is_shown = |path: &str, method: &str, header: Option<&str>| {
        requests.iter().any(|request| {
            let at = request["Path"].as_str().unwrap_or("/");
            let at = if at.starts_with('/') { at.to_owned() } else { format!("/queues/{at}") };
            (path.is_empty() || at.starts_with(path))
                && request["Method"] == method
                && header.is_none_or(|header| !request["Headers"][header].is_null())
        })
    };
    let mut count = 0;
    for part in section("\n## 5. ").split("\n### `").skip(1).chain([section("\n## 4. ")]) {
        let part = part.split("\n### ").next().unwrap();
        let path = if part.contains("`KEEPALIVE`") {
            "/sessions"
        } else {
            part.split("NAME").next().unwrap()
        };
        let created = !["/locks/", "/rwlocks/", "/barriers/", "/sessions"].contains(&path);
        let usual: &[_] = match (path, created) {
            ("/sessions", _) => &[],
            (_, true) => &["SHOW", "DELETE"],
            (_, false) => &["SHOW"],
        };
        for method in usual {
            assert!(is_shown(path, method, None), "{method} of {path}");
        }
        for row in rows(part).filter(|row| row.len() == 3 && row[0] != "method") {
            for method in quoted(row[0]) {
                assert!(is_shown(path, method, None), "{method} of {path}");
                // What is said in parentheses, and after colons, are values.
                for header in row[1].split(", ").filter_map(|cell| quoted(cell).next()) {
                    assert!(is_shown(path, method, Some(header)), "{header} of {method} of {path}");
                    count += 1;
                }
            }
        }
    }
    assert!(count > 20, "{count} headers of methods");
    let others = section("\n### Others");
    for row in rows(others).filter(|row| row.len() == 4 && row[0] != "path") {
        let method = quoted(row[1]).next().unwrap();
        assert!(is_shown("", method, None), "{method}");
    }
    for row in rows(section("\n## 3. ")) {
        for header in quoted(row[0]) {
            let any = requests.iter().any(|request| !request["Headers"][header].is_null());
            assert!(any, "header {header}");
        }
    }
}

#[test]
fn every_status_has_an_example() {
    let shown: BTreeSet<&str> = blocks("transcript")
        .into_iter()
        .flat_map(|(_, text)| text.split("{\"Status\":").skip(1))
        .map(|rest| &rest[..3])
        .collect();
    let listed: BTreeSet<&str> = rows(section("\n## 2. "))
        .map(|row| row[0])
        .filter(|cell| cell.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    assert_eq!(shown, listed);
}

#[test]
fn limits_are_as_they_are_said_to_be() {
    let kernel = kernel::Limits::default();
    let mut known: BTreeMap<&str, u64> = [
        ("wire::Limits::SIZE", wire::Limits::SIZE as u64),
        ("wire::Limits::DEPTH", wire::Limits::DEPTH as u64),
        ("wire::MOST_NAMES", wire::MOST_NAMES as u64),
        ("limits::MAX_NAME", protocol_limits::MAX_NAME as u64),
        ("limits::MAX_ID", protocol_limits::MAX_ID as u64),
        ("limits::MIN_TTL", protocol_limits::MIN_TTL),
        ("limits::MAX_TTL", protocol_limits::MAX_TTL),
        ("limits::DEFAULT_TTL", protocol_limits::DEFAULT_TTL),
        ("limits::MAX_DELAY", protocol_limits::MAX_DELAY),
        ("limits::MAX_LIST", protocol_limits::MAX_LIST as u64),
        ("limits::DEFAULT_LIST", protocol_limits::DEFAULT_LIST as u64),
        ("limits::MAX_SEQ", protocol_limits::MAX_SEQ),
        ("server::limits::MAX_WAITS", server_limits::MAX_WAITS as u64),
        ("server::access::MIN_TOKEN", access::MIN_TOKEN as u64),
        ("limits::MAX_OUTSTANDING", protocol_limits::MAX_OUTSTANDING),
        ("limits::MAX_FENCE", protocol_limits::MAX_FENCE),
        ("limits::MAX_PARTIES", u64::from(protocol_limits::MAX_PARTIES)),
        ("kernel::MAX_NUMBERED_PARTIES", u64::from(kernel::MAX_NUMBERED_PARTIES)),
        ("net::limits::BUFFERS", limits::BUFFERS as u64),
        ("kernel::Limits::objects", kernel.objects as u64),
        ("kernel::Limits::sessions", kernel.sessions as u64),
        ("kernel::Limits::holds", kernel.holds as u64),
        ("kernel::Limits::waits", kernel.waits as u64),
        ("kernel::Limits::messages", kernel.messages as u64),
        ("kernel::Limits::bytes", kernel.bytes),
        ("kernel::Limits::memory", kernel.memory),
        ("kernel::MAX_LIST_BYTES", kernel::MAX_LIST_BYTES as u64),
        ("semaforo::policy::Permits::MAX", u64::from(semaforo::policy::Permits::MAX)),
        ("net::limits::CONNECTIONS", limits::CONNECTIONS as u64),
        ("net::limits::OUTPUT", limits::OUTPUT as u64),
        ("net::limits::STUCK", limits::STUCK.as_secs()),
        ("net::limits::FIRST_REQUEST", limits::FIRST_REQUEST.as_secs()),
        ("net::limits::UNFINISHED", limits::UNFINISHED.as_secs()),
        ("server::limits::STRANGER_OUTPUT", server_limits::STRANGER_OUTPUT as u64),
        ("server::limits::AUDITED", server_limits::AUDITED as u64),
        ("net::limits::MOMENT", limits::MOMENT.as_secs()),
        ("server::limits::STRANGER_FRAME", server_limits::STRANGER_FRAME as u64),
        ("net::limits::DRAIN", limits::DRAIN.as_secs()),
        ("net::limits::USER_TIMEOUT", limits::USER_TIMEOUT.as_secs()),
        ("net::limits::LINGER", limits::LINGER.as_secs()),
        ("net::limits::BACKLOG", limits::BACKLOG as u64),
        ("net::limits::KEEP_ALIVE_IDLE", limits::KEEP_ALIVE_IDLE.as_secs()),
        ("net::limits::KEEP_ALIVE_INTERVAL", limits::KEEP_ALIVE_INTERVAL.as_secs()),
        ("net::limits::KEEP_ALIVE_PROBES", u64::from(limits::KEEP_ALIVE_PROBES)),
        ("net::limits::INPUT", limits::INPUT as u64),
        ("server::http::CONNECTIONS", http::CONNECTIONS as u64),
        ("server::limits::MAX_HTTP_REQUESTS", server_limits::MAX_HTTP_REQUESTS as u64),
    ]
    .into();
    let help = Process::help();
    let mut said = BTreeSet::new();
    for row in rows(section("\n## 7. ")).filter(|row| row[3].starts_with('`')) {
        let [limit, value, _, constant, option] = row[..] else { panic!("{row:?}") };
        let constant = constant.trim_matches('`');
        let actual = known.get(constant).unwrap_or_else(|| panic!("{constant} of {limit}"));
        assert_eq!(value, actual.to_string(), "{limit}");
        said.insert(constant);
        if let Some(option) = quoted(option).next() {
            assert!(help.contains(&format!("{option} ")), "{option}");
            let default = format!("[default: {value}]");
            assert!(help.contains(&default), "{option} {default}");
        }
    }
    // Those that no client can notice.
    let inner = [
        "READ_BUFFER",
        "ACCEPTS_PER_TURN",
        "ACCEPT_PAUSE",
        "OTHER_DESCRIPTORS",
        "PUBLISHED_EVERY",
        "MAX_TURN",
        "SHARE",
        "BUSY_TURN",
        "SMALL_SHARE",
        "LOOK_EVERY",
    ];
    for (source, room) in [
        (include_str!("../../src/net/limits.rs"), "net"),
        (include_str!("../../src/server/limits.rs"), "server"),
    ] {
        for line in source.lines().filter_map(|line| line.strip_prefix("pub const ")) {
            let name = line.split(':').next().unwrap();
            let is_said = said.contains(&*format!("{room}::limits::{name}"));
            assert!(is_said != inner.contains(&name), "{name} of {room}/limits.rs");
        }
    }
    known.retain(|constant, _| !said.contains(constant));
    assert!(known.is_empty(), "not said: {known:?}");
}

//! Nonsense of all sorts: the server answers or closes, and never dies.

use std::collections::HashSet;

use crate::support::{Client, Random, Server, frame};

/// Something of everything that a client can say, except the end.
fn requests(session: &str) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        "PING / id=1",
        "ECHO /a id=\u{e9} | [1,{\"a\":null}]",
        "AUTH / token=0123456789abcdef",
        "LIST / prefix=a limit=10",
        "SHOW /",
        "CANCEL / request=1",
        "OPEN /sessions ttl=1000 label=me",
        "ACQUIRE /locks/a timeout=1 id=2",
        "RELEASE /locks/a",
        "CREATE /semaphores/a permits=3",
        "CREATE /semaphores/o permits=3 initial=1 open=true",
        "RESIZE /semaphores/a permits=2",
        "ACQUIRE /semaphores/a permits=2 timeout=1",
        "ACQUIRE /rwlocks/a mode=read",
        "UPGRADE /rwlocks/a fence=1",
        "CREATE /latches/a count=2",
        "DOWN /latches/a by=1",
        "WAIT /latches/a",
        "CREATE /events/a reset=auto set=true",
        "WAIT /events/a timeout=1",
        "ARRIVE /barriers/a parties=2 timeout=1 generation=7",
        "CREATE a capacity=5",
        "PUT a priority=-1 delay=1 timeout=1 | {\"text\":\"\\u00e9\\ud83d\\ude00\",\"numbers\":[-1.5e3,0,true]}",
        "TRANSFER a timeout=1 | \"x\"",
        "TAKE a ack=manual timeout=1",
        "RETURN a message=1 delay=1",
        "ACK a message=1",
        "DELETE a",
    ]
    .map(frame)
    .into();
    for (seq, request) in
        ["ACQUIRE /locks/b", "PUT a", "TAKE a ack=manual", "CANCEL /"].iter().enumerate()
    {
        all.push(frame(&format!(
            "{request} session={session} seq={} acked={seq} timeout=1",
            seq + 1
        )));
    }
    all
}

fn mutate(random: &mut Random, all: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = all[random.below(all.len())].clone();
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        let until = at + random.below(bytes.len() - at + 1).min(8);
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes.insert(at, b"{}[]\",:\\ \n0e-"[random.below(13)]),
            3 => drop(bytes.drain(at..until)),
            4 => drop(bytes.splice(at..at, bytes[at..until].to_vec())),
            5 => bytes.truncate(at),
            6 => {
                let other = &all[random.below(all.len())];
                bytes.splice(at.., other[random.below(other.len())..].to_vec());
            }
            _ => drop(bytes.splice(at..until, random.next().to_string().into_bytes())),
        }
    }
    bytes
}

#[test]
fn ten_thousand_mutations() {
    let server = Server::start();
    let mut steady = server.connect();
    let session = steady.done("OPEN /sessions ttl=86400000").header("session").unwrap().to_owned();
    let all = requests(&session);
    let mut random = Random(1);
    let mut answered = 0;
    // Half of them alone, so that each is looked at; half of them in company, as they would come.
    for number in 0..6000 {
        let company = if number < 5000 { 1 } else { 5 };
        let bytes: Vec<u8> = (0..company).flat_map(|_| mutate(&mut random, &all)).collect();
        let mut client = server.connect();
        client.send_bytes(&bytes);
        client.half_close();
        let shown = String::from_utf8_lossy(&bytes);
        while let Some(answer) = client.try_answer() {
            assert!((200..=507).contains(&answer.status), "{number}: {shown}");
            answered += 1;
        }
        // No port is kept waiting.
        client.reset();
    }
    assert!(answered > 3000, "{answered}");
    steady.done("PING");
    let mut client = server.connect();
    client.done("CREATE /queues/afterwards");
    client.done("PUT /queues/afterwards | 1");
    assert_eq!(client.done("TAKE /queues/afterwards").payload(), Some("1"));
}

/// A request that makes sense, or nearly so.
fn sensible(random: &mut Random, sessions: &[String]) -> String {
    let mut pick = |words: &[&str]| words[random.below(words.len())].to_owned();
    let name = pick(&["a", "b"]);
    let mut text = match pick(&[
        "lock",
        "semaphore",
        "rwlock",
        "latch",
        "event",
        "barrier",
        "queue",
        "queue",
        "list",
    ])
    .as_str()
    {
        "lock" => {
            format!("{} /locks/{name}", pick(&["ACQUIRE", "ACQUIRE", "RELEASE", "RELEASE", "SHOW"]))
        }
        "semaphore" => {
            let method = pick(&[
                "CREATE", "ACQUIRE", "ACQUIRE", "ACQUIRE", "RELEASE", "RELEASE", "SHOW", "DELETE",
            ]);
            let permits = if method == "CREATE" { "2".to_owned() } else { pick(&["0", "1", "2"]) };
            format!("{method} /semaphores/{name} permits={permits}")
        }
        "rwlock" => {
            let method =
                pick(&["ACQUIRE", "ACQUIRE", "RELEASE", "RELEASE", "UPGRADE", "DOWNGRADE"]);
            format!("{method} /rwlocks/{name} mode={}", pick(&["read", "write"]))
        }
        "latch" => format!(
            "{} /latches/{name} count=2",
            pick(&["CREATE", "DOWN", "DOWN", "WAIT", "RESET", "DELETE"])
        ),
        "event" => format!(
            "{} /events/{name} reset=auto",
            pick(&["CREATE", "SET", "WAIT", "WAIT", "RESET", "DELETE"])
        ),
        "barrier" => {
            format!("{} /barriers/{name} parties=2", pick(&["ARRIVE", "ARRIVE", "ARRIVE", "RESET"]))
        }
        "list" => "LIST / limit=3".to_owned(),
        _ => {
            let method = pick(&[
                "CREATE", "PUT", "PUT", "PUT", "TRANSFER", "TAKE", "TAKE", "TAKE", "ACK", "RETURN",
                "DELETE",
            ]);
            let headers = match method.as_str() {
                "CREATE" => "capacity=3".to_owned(),
                "TAKE" => format!("ack={}", pick(&["auto", "manual"])),
                "PUT" => format!("priority={} delay={}", pick(&["0", "1"]), pick(&["0", "0", "2"])),
                _ => format!("message={} delay=0", pick(&["1", "2", "3", "4", "5", "6"])),
            };
            format!("{method} /queues/{name} {headers}")
        }
    };
    text += &format!(" timeout={}", pick(&["0", "1", "5", "100000"]));
    if !sessions.is_empty() {
        let session = &sessions[random.below(sessions.len())];
        text += &format!(" session={session}");
        if random.below(2) == 0 {
            // Numbers are used again and again, mostly for other requests.
            text += &format!(" seq={}", 1 + random.below(40));
        }
    }
    text
}

/// One connection's part: every request is answered exactly once, or the connection is closed by a
/// `CANCEL`-like end.
fn converse(mut client: Client, seed: u64, count: usize, sessions: Vec<String>) {
    let mut random = Random(seed);
    let mut open = HashSet::new();
    for id in 0..count {
        let session = if random.below(3) == 0 { &sessions[..] } else { &[] };
        client.send(&format!("{} id={id}", sensible(&mut random, session)));
        open.insert(id.to_string());
        if id % 50 == 49 {
            client.send(&format!("PING / id=ping{id}"));
            loop {
                let answer = client.answer();
                let name = answer.id().unwrap();
                if name == format!("ping{id}") {
                    break;
                }
                assert!(open.remove(name), "answered twice: {}", answer.text);
            }
        }
    }
    client.half_close();
    while let Some(answer) = client.try_answer() {
        assert!(open.remove(answer.id().unwrap()), "answered twice: {}", answer.text);
    }
    // What a session waits for with a number goes on waiting.
    assert!(open.len() <= 80, "{} of {count} were not answered", open.len());
}

#[test]
fn every_sensible_request_is_answered_once() {
    let server = Server::start();
    let mut steady = server.connect();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        sessions.push(steady.done("OPEN /sessions").header("session").unwrap().to_owned());
    }
    let clients: Vec<_> = (0..4)
        .map(|seed| {
            let (client, sessions) = (server.connect(), sessions.clone());
            std::thread::spawn(move || converse(client, seed, 3000, sessions))
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    for session in sessions {
        steady.done(&format!("CLOSE /sessions session={session}"));
    }
    let state = steady.show("/").unwrap();
    assert_eq!((state["holds"].as_u64(), state["waiting"].as_u64()), (Some(0), Some(0)), "{state}");
}

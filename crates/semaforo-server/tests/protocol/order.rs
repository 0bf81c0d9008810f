//! In which order requests are done and answered.

use crate::support::{Client, Server, frame};

fn ids(client: &mut Client, count: usize) -> Vec<String> {
    client.answers(count).iter().map(|answer| answer.id().unwrap_or("-").to_owned()).collect()
}

fn glued(requests: &[&str]) -> Vec<u8> {
    requests.iter().flat_map(|request| frame(request)).collect()
}

#[test]
fn without_ids_one_after_the_other() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    other.done("CREATE q");
    other.done("CREATE r");
    // The second would be possible at once.
    client.send_bytes(&glued(&["TAKE q", "PUT r | 2", "TAKE r", "PING"]));
    other.until_waiting("/queues/q", 1);
    assert_eq!(other.show("/queues/r").unwrap()["ready"], 0, "not before the first is answered");
    assert!(client.is_silent());
    other.done("PUT q | 1");
    let payloads: Vec<_> =
        client.answers(4).iter().map(|answer| answer.payload().map(str::to_owned)).collect();
    assert_eq!(payloads, [Some("1".into()), None, Some("2".into()), None]);
}

#[test]
fn with_ids_waits_overlap() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    for queue in ["a", "b", "c"] {
        other.done(&format!("CREATE {queue}"));
    }
    client.send_bytes(&glued(&["TAKE a id=1", "TAKE b id=2", "TAKE c id=3", "PING / id=4"]));
    assert_eq!(ids(&mut client, 1), ["4"]);
    for queue in ["c", "a", "b"] {
        other.done(&format!("PUT {queue} | 0"));
    }
    assert_eq!(ids(&mut client, 3), ["3", "1", "2"]);
}

#[test]
fn a_request_without_an_id_waits_for_all_before_it() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    other.done("CREATE a");
    other.done("CREATE b");
    client.send_bytes(&glued(&["TAKE a id=1", "TAKE b id=2", "PING", "PING / id=3"]));
    other.until_waiting("/queues/b", 1);
    assert!(client.is_silent());
    other.done("PUT b | 0");
    assert_eq!(ids(&mut client, 1), ["2"]);
    assert!(client.is_silent(), "one before it still waits");
    other.done("PUT a | 0");
    assert_eq!(ids(&mut client, 3), ["1", "-", "3"]);
}

#[test]
fn what_follows_a_request_without_an_id_waits_for_it() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    other.done("CREATE a");
    client.send_bytes(&glued(&["TAKE a", "PING / id=1", "CANCEL / request=0 id=2"]));
    other.until_waiting("/queues/a", 1);
    assert!(client.is_silent());
    other.done("PUT a | 0");
    assert_eq!(ids(&mut client, 3), ["-", "1", "2"]);
}

#[test]
fn a_senseless_request_keeps_its_place() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    other.done("CREATE a");
    client.send_bytes(&glued(&["TAKE a id=1", "{}", "PING"]));
    other.until_waiting("/queues/a", 1);
    assert!(client.is_silent());
    other.done("PUT a | 0");
    let statuses: Vec<_> = client.answers(3).iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 400, 200]);
}

#[test]
fn a_time_limit_passes_and_the_next_goes_on() {
    let server = Server::start();
    let mut client = server.connect();
    client.done("CREATE a");
    client.send_bytes(&glued(&["TAKE a timeout=20", "TAKE a timeout=0", "PING"]));
    let statuses: Vec<_> = client.answers(3).iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [204, 204, 200]);
    client.send_bytes(&glued(&["TAKE a timeout=40 id=late", "TAKE a timeout=10 id=soon"]));
    assert_eq!(ids(&mut client, 2), ["soon", "late"]);
}

#[test]
fn cancel_ends_a_wait() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.done("CREATE a");
    client.send("TAKE a id=1");
    client.send("CANCEL / request=1 id=2");
    let answers = client.answers(2);
    let shown: Vec<_> = answers.iter().map(|answer| (answer.id(), answer.status)).collect();
    assert_eq!(shown, [(Some("1"), 204), (Some("2"), 200)]);
    client.ask("CANCEL / request=1").is(404);
    client.ask("CANCEL / request=other").is(404);
    client.ask("CANCEL /").is(400);
    // Another connection's request is not this one's.
    client.send("TAKE a id=1");
    other.until_waiting("/queues/a", 1);
    other.ask("CANCEL / request=1").is(404);
    other.done("PUT a | 0");
    client.answer().is(200);
}

#[test]
fn an_id_may_be_used_again_while_another_of_it_waits() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    other.done("CREATE a");
    client.send_bytes(&glued(&["TAKE a id=1", "TAKE a id=1"]));
    other.until_waiting("/queues/a", 2);
    other.done("PUT a | 0");
    client.answer().is(200);
    client.send("CANCEL / request=1 id=2");
    let answers = client.answers(2);
    let shown: Vec<_> = answers.iter().map(|answer| (answer.id(), answer.status)).collect();
    assert_eq!(shown, [(Some("1"), 204), (Some("2"), 200)]);
}

#[test]
fn a_thousand_waits_on_one_connection() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    other.done("CREATE a");
    let takes: Vec<u8> = (0..1000).flat_map(|id| frame(&format!("TAKE a id={id}"))).collect();
    client.send_bytes(&takes);
    other.until_waiting("/queues/a", 1000);
    let puts: Vec<u8> = (0..1000).flat_map(|number| frame(&format!("PUT a | {number}"))).collect();
    other.send_bytes(&puts);
    for number in 0..1000 {
        let answer = client.answer();
        let number = number.to_string();
        assert_eq!((answer.id(), answer.payload()), (Some(&*number), Some(&*number)), "in order");
    }
    assert!(other.answers(1000).iter().all(|answer| answer.status == 200));
}

#[test]
fn ids_come_back_as_they_were() {
    let server = Server::start();
    let mut client = server.connect();
    for (id, shown) in [
        ("\"\"", r#""""#),
        ("\"é \\\" \\\\ \\u0001 \\ud83d\\ude00\"", r#""é \" \\ \u0001 😀""#),
        ("12.50", r#""12.50""#),
        ("true", r#""true""#),
    ] {
        let answer = client.done(&format!("{{\"Method\":\"PING\",\"Headers\":{{\"id\":{id}}}}}"));
        assert_eq!(answer.text, format!("{{\"Status\":200,\"Headers\":{{\"id\":{shown}}}}}"));
    }
    client.done(&format!("PING / id={}", "x".repeat(128)));
    client.ask(&format!("PING / id={}", "x".repeat(129))).is(400);
}

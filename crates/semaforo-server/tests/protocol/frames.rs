//! Objects back to back, however they arrive and however they are written.

use std::io::Write;
use std::process::{Command, Stdio};

use semaforo_protocol::wire;
use semaforo_server::server::Options;

use crate::support::{Server, frame};

/// Answers of which each has its newline.
fn lines(answers: &[&str]) -> Vec<u8> {
    answers.iter().flat_map(|answer| [answer.as_bytes(), b"\n"].concat()).collect()
}

/// What the server says to these bytes, alone on a connection, in these pieces.
fn exchange(server: &Server, pieces: &[&[u8]]) -> Vec<u8> {
    let mut client = server.connect();
    for piece in pieces {
        client.send_bytes(piece);
    }
    client.half_close();
    client.rest()
}

const CONVERSATION: &str = concat!(
    "\u{feff} \r\n",
    r#"{"Method":"CREATE","Path":"q"}"#,
    r#"{"Method":"PUT","Path":"/queues/q","Headers":{"id":"é\u00e9\n"},"Payload":{"a":[1,-2.50e+3,"\ud83d\ude00 😀"]}}"#,
    "\n\t\n",
    r#"{"Method":"TAKE","Path":"q","Headers":{"timeout":1000,"id":null}}"#,
    r#"{"Method":"DELETE","Path":"q"}"#,
);

/// With the message's number, which is another one each time: the queue is made again, and no
/// number comes twice.
fn conversation_answers(number: u64) -> Vec<u8> {
    let number = number.to_string();
    let answers = [
        r#"{"Status":200,"Headers":{"created":"true"}}"#,
        r#"{"Status":200,"Headers":{"id":"éé\n","message":"NUMBER"}}"#,
        r#"{"Status":200,"Headers":{"message":"NUMBER","deliveries":"1"},"Payload":{"a":[1,-2.50e+3,"\ud83d\ude00 😀"]}}"#,
        r#"{"Status":200}"#,
    ];
    let answers = answers.map(|answer| answer.replace("NUMBER", &number));
    lines(&answers.each_ref().map(String::as_str))
}

/// The number of the message that is taken in a conversation.
fn number(answers: &[u8]) -> u64 {
    let answers = String::from_utf8_lossy(answers);
    let (_, number) = answers.split_once(r#""message":""#).expect("a message");
    number[..number.find('"').unwrap()].parse().unwrap()
}

#[test]
fn split_at_every_byte() {
    let server = Server::start();
    let bytes = CONVERSATION.as_bytes();
    let mut last = 0;
    let mut converse = |pieces: &[&[u8]], how: &str| {
        let answers = exchange(&server, pieces);
        let number = number(&answers);
        assert!(number > last, "{number} after {last}: {how}");
        last = number;
        let expected = conversation_answers(number);
        assert_eq!(String::from_utf8_lossy(&answers), String::from_utf8_lossy(&expected), "{how}");
    };
    converse(&[bytes], "whole");
    for at in 1..bytes.len() {
        converse(&[&bytes[..at], &bytes[at..]], &format!("split at {at}"));
    }
    let each: Vec<&[u8]> = bytes.chunks(1).collect();
    converse(&each, "byte by byte");
}

#[test]
fn many_glued_together() {
    let server = Server::start();
    let mut client = server.connect();
    let mut requests = frame("CREATE q");
    for number in 0..2000 {
        requests.extend(frame(&format!("PUT q | {number}")));
    }
    client.send_bytes(&requests);
    assert_eq!(client.answer().text, r#"{"Status":200,"Headers":{"created":"true"}}"#);
    for number in 1..=2000 {
        assert_eq!(client.answer().number("message"), number);
    }
    let takes: Vec<u8> = (0..2000).flat_map(|_| frame("TAKE q timeout=0")).collect();
    client.send_bytes(&takes);
    for number in 0..2000 {
        assert_eq!(client.answer().payload(), Some(&*number.to_string()));
    }
}

#[test]
fn white_space_and_a_mark_at_the_beginning() {
    let server = Server::start();
    let answer = lines(&[r#"{"Status":200}"#]);
    for spaced in [
        "{\"Method\":\"PING\"}",
        "\u{feff}{\"Method\":\"PING\"}",
        " \t\r\n { \t\"Method\"\r\n:\n\"PING\" } \n\n ",
    ] {
        assert_eq!(exchange(&server, &[spaced.as_bytes()]), answer, "{spaced:?}");
    }
    let twice = "\u{feff}\u{feff}{\"Method\":\"PING\"}";
    let answer = String::from_utf8(exchange(&server, &[twice.as_bytes()])).unwrap();
    assert!(
        answer.starts_with(r#"{"Status":400,"#),
        "only one mark, and only at the beginning: {answer}"
    );
    let blank = " \n".repeat(1000);
    assert_eq!(exchange(&server, &[blank.as_bytes()]), b"");
}

#[test]
fn names_in_any_case_and_nulls() {
    let server = Server::start();
    let mut client = server.connect();
    client.done(r#"{"mETHOD":"create","PATH":"/queues/Q","hEADERS":{"CapaCity":"2","ID":null},"pAYLOAD":null}"#);
    assert_eq!(client.done("SHOW /queues/Q").value()["capacity"], 2);
    client.ask("SHOW /queues/q").is(404);
    let answer = client.done(r#"{"method":"Put","path":"Q","headers":{"Id":7},"payload":null}"#);
    assert_eq!(answer.text, r#"{"Status":200,"Headers":{"id":"7","message":"1"}}"#);
    assert_eq!(client.done("Take Q").payload(), Some("null"));
    client.done(r#"{"Method":"PING","Path":null,"Headers":null,"Payload":null}"#);
    client.done(r#"{"Method":"PING","Headers":{"timeout":null,"session":null,"seq":null,"acked":null,"token":null}}"#);
    client.ask(r#"{"Method":null,"Path":"Q"}"#).is(400);
}

#[test]
fn twice_the_same_name_is_refused_and_the_connection_goes_on() {
    let server = Server::start();
    let mut client = server.connect();
    for twice in [
        r#"{"Method":"PING","method":"PING"}"#,
        r#"{"Method":"PING","Path":"/","PATH":null}"#,
        r#"{"Method":"PING","Headers":{"id":"1","ID":"1"}}"#,
        r#"{"Method":"PING","Payload":1,"payload":1}"#,
        r#"{"Method":"PING","Other":1,"other":2}"#,
        r#"{"Method":"PING","\u004dethod":"PING"}"#,
    ] {
        client.ask(twice).is(400);
    }
    client.done(r#"{"Method":"PING","Payload":{"a":1,"A":2,"a":3}}"#);
}

#[test]
fn unknown_members_and_headers_are_ignored() {
    let server = Server::start();
    let mut client = server.connect();
    client.done(r#"{"Version":[{"x":"}"}],"Method":"PING","Headers":{"x-y":"z","Unheard":true},"Extra":{"Method":"NONE"}}"#);
    client.ask(r#"{}"#).is(400);
    client.ask(r#"{"Methods":"PING"}"#).is(400);
    for wrong in [
        r#"{"Method":1}"#,
        r#"{"Method":"PING","Path":1}"#,
        r#"{"Method":"PING","Headers":[]}"#,
        r#"{"Method":"PING","Headers":{"id":[1]}}"#,
        r#"{"Method":"PING","Headers":{"id":{}}}"#,
    ] {
        client.ask(wrong).is(400);
    }
    client.done("PING");
}

#[test]
fn payloads_come_back_byte_for_byte() {
    let server = Server::start();
    let mut client = server.connect();
    client.done("CREATE q");
    for payload in [
        "{ \"a\" :\t[ 1 ,\r\n 2 ] }",
        r#""\u0041\/\ud83d\ude00 é 😀""#,
        "123456789012345678901234567890123456789012345678901234567890",
        "1e999999",
        "-0.000E-00",
        r#"{"a":1,"a":2,"A":3}"#,
        r#"[[[[{"Status":500,"Payload":[]}]]]]"#,
        "true",
        "false",
        "\"\"",
        "{}",
        "[]",
    ] {
        client.done(&format!("PUT q | {payload}"));
        assert_eq!(client.done("TAKE q").payload(), Some(payload));
        let request = format!("{{\"Method\" : \"ECHO\", \"Payload\": {payload} }}");
        assert_eq!(client.done(&request).payload(), Some(&*request));
    }
}

#[test]
fn an_echo_is_the_whole_request() {
    let server = Server::start();
    let request = r#"{ "Method":"echo-3", "Path": "/any/where", "Headers": {"id": "x", "a": 1, "B": true}, "Payload": {"b" : [null, 1.0]}, "More": 0 }"#;
    let expected =
        lines(&[&format!(r#"{{"Status":200,"Headers":{{"id":"x"}},"Payload":{request}}}"#)]);
    assert_eq!(exchange(&server, &[request.as_bytes()]), expected);
    let mut client = server.connect();
    for method in ["ECHO", "echo", "Echo-", "eCHO-a-method-that-is-longer-than-all-others"] {
        let request = format!("{{\"Method\":\"{method}\"}}");
        assert_eq!(client.done(&request).payload(), Some(&*request));
    }
    client.ask("ECHOES /").is(405);
}

#[test]
fn three_requests_in_one_line_as_netcat_sends_them() {
    let server = Server::start();
    let requests = concat!(
        r#"{"Method":"CREATE","Path":"q"}"#,
        r#"{"Method":"PUT","Path":"q","Payload":{"n":1}}"#,
        r#"{"Method":"TAKE","Path":"q","Headers":{"timeout":"1000"}}"#,
    );
    let expected = lines(&[
        r#"{"Status":200,"Headers":{"created":"true"}}"#,
        r#"{"Status":200,"Headers":{"message":"1"}}"#,
        r#"{"Status":200,"Headers":{"message":"1","deliveries":"1"},"Payload":{"n":1}}"#,
    ]);
    assert_eq!(exchange(&server, &[requests.as_bytes()]), expected);

    let port = server.address.port().to_string();
    let started = Command::new("nc")
        .args(["-q1", "127.0.0.1", &port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    // Not every machine has it, and not every one has -q.
    let Ok(mut netcat) = started else { return };
    let requests = requests.replace("\"q\"", "\"r\"");
    if netcat.stdin.take().unwrap().write_all(requests.as_bytes()).is_ok() {
        let output = netcat.wait_with_output().unwrap();
        if output.status.success() {
            assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&expected));
        }
    }
}

#[test]
fn what_is_not_json_is_answered_and_then_closed() {
    let server = Server::start();
    for wrong in [
        &b"x"[..],
        b"[]",
        b"\"PING\"",
        b"17 ",
        b"null",
        b"{\"Method\":\"PING\",}",
        b"{\"Method\":'PING'}",
        b"{\"Method\":\"\x01\"}",
        b"{\"Method\":\"\\x\"}",
        b"{\"Method\":\"\\ud800\"}",
        b"{\"Method\":01}",
        b"{\"Method\":\"PING\"}}",
        b"{\"Method\":\"PING\",\"Payload\":\"\xff\"}",
        b"{\"Method\":\"PING\",\"Payload\":\"\xc0\xaf\"}",
        b"{\"Method\":\"PING\",\"Payload\":\"\xed\xa0\x80\"}",
        b"\xef\xbb{",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ] {
        let mut client = server.connect();
        client.done("PING");
        client.send_bytes(wrong);
        // What follows is not looked at.
        let _ = client.stream.write_all(b" {\"Method\":\"PING\"} ");
        let shown = String::from_utf8_lossy(wrong);
        let mut answer = client.answer();
        if wrong.ends_with(b"}}") {
            answer = client.answer();
        }
        assert_eq!(answer.status, 400, "{shown}: {}", answer.text);
        assert!(client.ended(), "{shown}");
    }
}

#[test]
fn a_request_that_stops_in_the_middle_is_not_answered() {
    let server = Server::start();
    let mut requests = frame("PING");
    requests.extend_from_slice(b"{\"Method\":\"PI");
    assert_eq!(exchange(&server, &[&requests]), lines(&[r#"{"Status":200}"#]));
}

#[test]
fn the_largest_request_is_understood_and_a_larger_one_is_refused_and_closed() {
    let server = Server::start();
    let limit = wire::Limits::SIZE;
    let mut client = server.connect();
    client.done("CREATE q");
    let empty = frame("PUT q | \"\"").len();
    let fits = "x".repeat(limit - empty);
    client.done(&format!("PUT q | \"{fits}\""));
    assert_eq!(client.done("TAKE q").payload().map(str::len), Some(fits.len() + 2));
    // White space between requests is no part of them, but is not endless either.
    client.send_bytes(" \n".repeat(limit / 4).as_bytes());
    client.done("PING");

    let too_large = frame(&format!("PUT q | \"x{fits}\""));
    // The answer may come, and the connection end, before all of it was written.
    let _ = client.stream.write_all(&too_large);
    client.answer().is(413);
    assert!(client.ended());
    assert_eq!(server.connect().done("SHOW q").value()["ready"], 0);
}

#[test]
fn the_deepest_request_is_understood_and_a_deeper_one_is_refused_and_closed() {
    let server = Server::start();
    let depth = wire::Limits::DEPTH;
    let nested = |levels: usize| format!("PUT q | {}1{}", "[".repeat(levels), "]".repeat(levels));
    let mut client = server.connect();
    client.done("CREATE q");
    client.done(&nested(depth - 1));
    client.ask(&nested(depth)).is(413);
    assert!(client.ended());

    let mut client = server.connect();
    let mixed = "{\"a\":[".repeat(100_000);
    let _ = client.stream.write_all(format!("{{\"Payload\":{mixed}").as_bytes());
    client.answer().is(413);
    assert!(client.ended());
}

#[test]
fn limits_can_be_other_ones() {
    let frames = wire::Limits { size: 100, depth: 3 };
    let server = Server::with(Options { frames, ..Options::default() });
    let mut client = server.connect();
    client.done("PING / | [[1]]");
    client.ask("PING / | [[[1]]]").is(413);
    assert!(client.ended());
    let mut client = server.connect();
    client.done(&format!("PING / | \"{}\"", "x".repeat(40)));
    client.ask(&format!("PING / | \"{}\"", "x".repeat(70))).is(413);
    assert!(client.ended());
}

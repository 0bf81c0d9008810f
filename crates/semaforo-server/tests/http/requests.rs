//! HTTP over real sockets: what is asked for and what comes back.

use crate::http_support::Server;
use semaforo_server::server::http::{Health, Options};

fn frame(server: &Server, number: usize) -> String {
    server.wait_submitted(number + 1);
    let state = server.state();
    String::from_utf8(state.submitted[number].1.frame.clone()).unwrap().trim_end().to_owned()
}

#[test]
fn an_operation_becomes_a_request_and_its_answer_comes_back() {
    let server = Server::start(Options::default());
    let mut client = server.connect();
    client.write(
        b"POST /v1/queues/a%2Fb/PUT?timeout=5&id=x%0dy HTTP/1.1\r\nHost: localhost\r\n\
          Authorization: Bearer secret\r\nSemaforo-Session: ab12\r\n\
          Content-Type: application/json\r\nContent-Length: 10\r\n\r\n {\"n\": 1} \n",
    );
    let response = client.response();
    let expected = r#"{"Method":"PUT","Path":"/queues/a/b","Headers":{"session":"ab12","timeout":"5","id":"x\ry"},"Payload":{"n": 1}}"#;
    assert_eq!(frame(&server, 0), expected);
    assert_eq!(server.state().submitted[0].1.token.as_deref(), Some("secret"));
    assert_eq!((response.status, response.body.as_str()), (200, expected));
    assert_eq!(response.header("Semaforo-Fence"), Some("12"));
    assert_eq!(response.header("Semaforo-Id"), Some("x%0Dy"));
    assert_eq!(response.header("Content-Type"), Some("application/json"));
    assert!(response.header("Date").unwrap().ends_with(" GMT"));

    client.send("POST /v1/locks/a/ACQUIRE", "");
    assert_eq!(client.response().status, 200, "the connection goes on");
    assert_eq!(frame(&server, 1), r#"{"Method":"ACQUIRE","Path":"/locks/a"}"#);
}

#[test]
fn a_request_object_is_handed_on_as_it_is() {
    let server = Server::start(Options::default());
    let object = r#"{ "method": "PING", "headers": {"id": 7} }"#;
    let response = server.request("POST /v1", object);
    assert_eq!(frame(&server, 0), object);
    let answer = format!(
        "{{\"Status\":200,\"Headers\":{{\"id\":\"7\",\"fence\":\"12\"}},\"Payload\":{object}}}\n"
    );
    assert_eq!((response.status, response.body), (200, answer));

    let mut client = server.connect();
    client.send("POST /v1", r#"{"Method":"WAIT"}"#);
    server.answer(server.wait_submitted(2), 204, "", false);
    let response = client.response();
    assert_eq!((response.status, response.body.as_str()), (200, "{\"Status\":204}\n"));
    client.send("POST /v1", r#"{"Method":"WAIT"}"#);
    server.answer(server.wait_submitted(3), 409, r#"{"error":"broken"}"#, false);
    assert_eq!(client.response().status, 409);
}

#[test]
fn an_answer_without_content_has_none() {
    let server = Server::start(Options::default());
    let mut client = server.connect();
    client.send("POST /v1/latches/a/WAIT?timeout=1", "");
    server.answer(server.wait_submitted(1), 204, "", false);
    let response = client.response();
    assert_eq!((response.status, response.header("Content-Length")), (204, None));
    client.send("GET /healthz", "");
    assert_eq!(client.response().status, 200);
}

#[test]
fn health_readiness_figures_and_the_document() {
    let server = Server::start(Options::default());
    assert_eq!(server.request("GET /healthz", "").body, "ok\n");
    assert_eq!(server.request("GET /readyz", "").body, "ready\n");
    server.state().health = Some(Health::NotReady("recovering"));
    assert_eq!(server.request("GET /healthz", "").status, 200);
    let response = server.request("GET /readyz", "");
    assert_eq!((response.status, response.body.as_str()), (503, "recovering\n"));
    server.state().health = Some(Health::Failing("stuck"));
    assert_eq!(server.request("GET /healthz", "").status, 503);

    let metrics = server.request("GET /metrics", "");
    assert_eq!(metrics.header("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(metrics.body.contains("\nsemaforo_test_total 3\n"), "{}", metrics.body);
    assert!(metrics.body.contains("\nsemaforo_http_requests_total 6\n"), "{}", metrics.body);

    let document = server.request("GET /openapi.json", "");
    let document: serde_json::Value = serde_json::from_str(&document.body).unwrap();
    assert!(document["paths"]["/v1/queues/{name}/TAKE"]["post"].is_object());
}

#[test]
fn a_head_alone_and_an_old_client() {
    let server = Server::start(Options::default());
    let mut client = server.connect();
    client.write(b"HEAD /healthz HTTP/1.1\r\nHost: [::1]:80\r\n\r\n");
    client.write(b"GET /readyz HTTP/1.0\r\n\r\n");
    assert_eq!(client.line(), "HTTP/1.1 200 OK");
    let mut length = None;
    loop {
        let line = client.line();
        match line.split_once(": ") {
            Some(("Content-Length", value)) => length = Some(value.to_owned()),
            Some(_) => {}
            None => break,
        }
    }
    assert_eq!(length.as_deref(), Some("3"), "of what a GET would have got");
    let response = client.response();
    assert_eq!((response.status, response.body.as_str()), (200, "ready\n"));
    assert!(client.is_closed());
}

#[test]
fn a_chunked_body_is_put_together() {
    let server = Server::start(Options::default());
    let mut client = server.connect();
    client.write(
        b"POST /v1/queues/q/PUT HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
          Transfer-Encoding: chunked\r\n\r\n",
    );
    for piece in ["4\r\n[1,2", "\r\n", "3;x\r\n,3", "]\r", "\n0\r\nA: b\r\n", "\r\n"] {
        client.write(piece.as_bytes());
    }
    assert_eq!(client.response().status, 200);
    assert_eq!(frame(&server, 0), r#"{"Method":"PUT","Path":"/queues/q","Payload":[1,2,3]}"#);
    client.send("GET /healthz", "");
    assert_eq!(client.response().status, 200);
}

#[test]
fn a_client_that_asks_first_is_told_to_go_on_or_not() {
    let server = Server::start(Options::default());
    let mut client = server.connect();
    let head = |kind: &str| {
        format!(
            "POST /v1/queues/q/PUT HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n\
             Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        )
    };
    client.write(head("application/json").as_bytes());
    assert_eq!((client.line().as_str(), client.line().as_str()), ("HTTP/1.1 100 Continue", ""));
    assert!(server.state().submitted.is_empty());
    client.write(b"[1]");
    assert_eq!(client.response().status, 200);

    client.write(head("text/plain").as_bytes());
    let response = client.response();
    assert_eq!((response.status, response.header("Connection")), (415, Some("close")));
    assert!(client.is_closed());
}

#[test]
fn what_is_too_large_is_refused_and_the_refusal_arrives() {
    let server = Server::start(Options { body: 1000, ..Options::default() });
    let mut client = server.connect();
    client.send("POST /v1/queues/q/PUT", &"1".repeat(1001));
    let response = client.response();
    assert_eq!(response.status, 413);
    assert!(response.body.contains("1000 bytes"), "{}", response.body);
    assert!(client.is_closed());

    let response = server.request(&format!("GET /{}", "x".repeat(20_000)), "");
    assert_eq!(response.status, 431);
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    assert_eq!(server.request("POST /v1/queues/q/PUT", &deep).status, 413);
    assert_eq!(server.request("POST /v1/queues/q/PUT", &"1".repeat(1000)).status, 200);
}

#[test]
fn bodies_that_are_not_one_json_value_are_refused() {
    let server = Server::start(Options::default());
    for body in
        ["{", "1 2", "1,\"Headers\":{}", "\"a", "1}{\"Method\":\"X\"", "nul", "[1]]", "{\"a\":1}}"]
    {
        let response = server.request("POST /v1/queues/q/PUT", body);
        assert_eq!(response.status, 400, "{body}: {}", response.body);
        assert!(response.body.starts_with("{\"error\":\""), "{}", response.body);
    }
    for body in ["[]", "{\"Method\":\"A\"}{\"Method\":\"B\"}", "{\"Method\":\"A\"", "1"] {
        assert_eq!(server.request("POST /v1", body).status, 400, "{body}");
    }
    assert!(server.state().submitted.is_empty());
    for body in ["null", "0", "\"\\u00e9\"", " [ ] ", "{}", "true"] {
        assert_eq!(server.request("POST /v1/queues/q/PUT", body).status, 200, "{body}");
    }
}

#[test]
fn web_pages_are_kept_out() {
    let server = Server::start(Options::default());
    let status = |lines: &str| {
        let mut client = server.connect();
        client.write(format!("POST /v1/locks/a/ACQUIRE HTTP/1.1\r\n{lines}\r\n\r\n").as_bytes());
        client.response().status
    };
    assert_eq!(status("Host: evil.example.com:13080"), 421);
    assert_eq!(status("Host: localhost\r\nOrigin: https://evil.example.com"), 403);
    assert_eq!(status("Host: localhost\r\nContent-Type: text/plain"), 415);
    assert_eq!(status("Host: localhost\r\nOrigin: http://localhost"), 200);
    assert_eq!(status("X: y"), 400, "HTTP/1.1 without Host");
    assert_eq!(server.state().submitted.len(), 1);
}

#[test]
fn refusals_say_what_would_be_right() {
    let server = Server::start(Options::default());
    let mut client = server.connect();
    for (line, status, hint) in [
        ("GET /nothing", 404, "/openapi.json"),
        ("GET /v1/locks/a/ACQUIRE", 405, "wants POST"),
        ("POST /v1/locks/a/ACQUIRE?a=%zz", 400, "two hexadecimal digits"),
        ("DELETE /healthz", 405, "wants GET"),
    ] {
        client.send(line, "");
        let response = client.response();
        assert_eq!(response.status, status);
        assert!(response.body.contains(hint), "{}", response.body);
    }
    client.write(b"{\"Method\":\"PING\"}\n\n");
    assert_eq!(client.response().status, 400);
    assert!(client.is_closed());
}

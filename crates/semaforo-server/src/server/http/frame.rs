//! Requests of HTTP as the objects that go over TCP.

use semaforo_protocol::wire;

use super::Refusal;
use super::limits::HEAD;
use super::route::Route;

/// The bytes that a TCP client would have sent.
pub(super) fn frame(route: Route, body: &[u8], limits: wire::Limits) -> Result<Vec<u8>, Refusal> {
    let body = body.trim_ascii();
    let Route::Operation { method, path, headers } = route else {
        scan(body, limits)?;
        return Ok(body.to_vec());
    };
    let mut frame = Vec::with_capacity(body.len() + 256);
    let headers = headers.iter().map(|(name, value)| (name.as_str(), wire::Value::Text(value)));
    let payload = Some(body).filter(|body| !body.is_empty());
    wire::write_request(&mut frame, &method, &path, headers, payload);
    let wrong = "the body must be one JSON value";
    let with_head = wire::Limits { size: limits.size + HEAD, ..limits };
    scan(frame.trim_ascii(), with_head).map_err(|refusal| {
        Refusal::new(refusal.status, format_args!("{wrong}: {}", refusal.reason))
    })?;
    // A body like `1,"Headers":{}` would go on beyond the payload.
    let request = wire::Request::parse(frame.trim_ascii())
        .map_err(|error| Refusal::new(error.status(), error))?;
    if request.payload != payload.filter(|payload| *payload != b"null") {
        return Err(Refusal::new(400, wrong));
    }
    Ok(frame)
}

/// Whether this is exactly one JSON object.
fn scan(bytes: &[u8], limits: wire::Limits) -> Result<(), Refusal> {
    match wire::Scanner::new().scan(bytes, &limits) {
        Ok(wire::Scan::Frame { end, .. }) if end == bytes.len() => Ok(()),
        Ok(wire::Scan::Frame { end, .. }) => {
            let reason = format_args!("something follows the JSON object, at byte {end}");
            Err(Refusal::new(400, reason))
        }
        Ok(wire::Scan::Incomplete) => Err(Refusal::new(400, "the JSON object is incomplete")),
        Err(error) => Err(Refusal::new(error.status(), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: wire::Limits = wire::Limits { size: 20, depth: 3 };

    fn put(body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (method, path) = ("PUT".to_owned(), "/queues/\"q".to_owned());
        let headers = vec![("timeout".to_owned(), "1".to_owned())];
        frame(Route::Operation { method, path, headers }, body, LIMITS)
    }

    #[test]
    fn the_payload_is_the_body_and_nothing_else() {
        let framed = String::from_utf8(put(b" [1] ").unwrap()).unwrap();
        let expected =
            r#"{"Method":"PUT","Path":"/queues/\"q","Headers":{"timeout":"1"},"Payload":[1]}"#;
        assert_eq!(framed.trim_end(), expected);
        for body in ["1,\"Payload\":2", "1,\"Id\":2", "1}{", "1}", "", "null", "{\"a\":"] {
            let is_fine = matches!(body, "" | "null");
            assert_eq!(put(body.as_bytes()).is_ok(), is_fine, "{body}");
        }
        assert_eq!(put(b"\"\xff\"").unwrap_err().status, 400);
    }

    #[test]
    fn an_object_has_the_limit_of_a_frame() {
        assert!(frame(Route::Object, br#"{"Method":"A"}"#, LIMITS).is_ok());
        let large = frame(Route::Object, br#"{"Method":"AAAAAAAA"}"#, LIMITS);
        assert_eq!(large.unwrap_err().status, 413);
        assert!(put(b"[[1]]").is_ok());
        assert_eq!(put(b"[[[1]]]").unwrap_err().status, 413);
    }
}

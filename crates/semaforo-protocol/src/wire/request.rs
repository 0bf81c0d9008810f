//! What a client asks for.

use std::borrow::Cow;

use super::headers::Headers;
use super::reader::{Reader, RequestError, Unknown, is, once};

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The whole object, as it came.
    pub raw: &'a [u8],
    /// What to do, in the case in which it came.
    pub method: Cow<'a, str>,
    /// With what; empty if it was not said.
    pub path: Cow<'a, str>,
    /// The details.
    pub headers: Headers<'a>,
    /// Any JSON value, as it came; absent also if it was `null`.
    pub payload: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Reads a frame that a [`Scanner`](super::Scanner) found.
    ///
    /// # Errors
    /// If it is not a request; the connection can go on.
    pub fn parse(frame: &'a [u8]) -> Result<Self, RequestError> {
        let (mut method, mut path, mut headers) = (None, None, Headers::new());
        let mut payload = None;
        let mut unknown = Unknown::default();
        let [mut has_method, mut has_path, mut has_headers, mut has_payload] = [false; 4];

        Reader::new(frame)?.members(|reader, name| {
            if is(&name, "Method") {
                once(&mut has_method, &name)?;
                method = reader.optional_string("Method")?;
            } else if is(&name, "Path") {
                once(&mut has_path, &name)?;
                path = reader.optional_string("Path")?;
            } else if is(&name, "Headers") {
                once(&mut has_headers, &name)?;
                reader.headers(&mut headers)?;
            } else if is(&name, "Payload") {
                once(&mut has_payload, &name)?;
                payload = reader.optional_value()?;
            } else {
                unknown.add(name)?;
                reader.value()?;
            }
            Ok(())
        })?;

        let method = method.ok_or(RequestError::Missing("Method"))?;
        Ok(Self { raw: frame, method, path: path.unwrap_or_default(), headers, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(frame: &str) -> RequestError {
        Request::parse(frame.as_bytes()).unwrap_err()
    }

    #[test]
    fn all_members() {
        let frame = r#"{ "Method" : "PUT" , "Path": "jobs", "Headers": {"id": "a", "timeout": 1.5e3, "flag": true, "none": null},
            "Payload": {"a": [1, "}\"]"], "b": {}} , "Extra": [{"x": "]"}] }"#;
        let request = Request::parse(frame.as_bytes()).unwrap();
        assert_eq!(request.method, "PUT");
        assert_eq!(request.path, "jobs");
        let headers: Vec<_> = request.headers.iter().collect();
        assert_eq!(headers, [("id", "a"), ("timeout", "1.5e3"), ("flag", "true")]);
        assert_eq!(request.payload, Some(&br#"{"a": [1, "}\"]"], "b": {}}"#[..]));
        assert_eq!(request.raw, frame.as_bytes());
    }

    #[test]
    fn names_are_read_in_any_case() {
        let frame = br#"{"mEthod":"Take","PATH":"Jobs","headers":{"TimeOut":"5"},"payload":"x"}"#;
        let request = Request::parse(frame).unwrap();
        assert_eq!((&*request.method, &*request.path), ("Take", "Jobs"));
        assert_eq!(request.headers.get("timeout"), Some("5"));
        assert_eq!(request.payload, Some(&b"\"x\""[..]));
    }

    #[test]
    fn null_is_absent() {
        let frame = br#"{"Method":"PING","Path":null,"Headers":null,"Payload":null}"#;
        let request = Request::parse(frame).unwrap();
        assert_eq!(request.path, "");
        assert!(request.headers.is_empty());
        assert_eq!(request.payload, None);
        assert_eq!(error(r#"{"Method":null}"#), RequestError::Missing("Method"));
        assert_eq!(error("{}"), RequestError::Missing("Method"));
    }

    #[test]
    fn twice_is_an_error() {
        for (frame, name) in [
            (r#"{"Method":"A","method":"A"}"#, "method"),
            (r#"{"Method":"A","Path":null,"PATH":"x"}"#, "PATH"),
            (r#"{"Method":"A","Headers":{},"Headers":{}}"#, "Headers"),
            (r#"{"Payload":1,"Method":"A","payload":null}"#, "payload"),
            (r#"{"Method":"A","Other":1,"oTHER":2}"#, "oTHER"),
            (r#"{"Method":"A","Headers":{"id":1,"ID":1}}"#, "ID"),
            (r#"{"Method":"A","Headers":{"id":null,"id":"x"}}"#, "id"),
            (r#"{"Method":"A","\u006dethod":"A"}"#, "method"),
        ] {
            assert_eq!(error(frame), RequestError::Twice(name.to_owned()), "{frame}");
        }
    }

    #[test]
    fn types_are_checked() {
        let wrong = |member, expected| RequestError::WrongType { member, expected };
        assert_eq!(error(r#"{"Method":1}"#), wrong("Method", "a string"));
        assert_eq!(error(r#"{"Method":"A","Path":["a"]}"#), wrong("Path", "a string"));
        assert_eq!(error(r#"{"Method":"A","Headers":"id"}"#), wrong("Headers", "an object"));
        assert_eq!(
            error(r#"{"Method":"A","Headers":{"id":{}}}"#),
            RequestError::HeaderValue("id".to_owned())
        );
        assert_eq!(
            error(r#"{"Method":"A","Headers":{"id":[1]}}"#).to_string(),
            "header \"id\" has to be a string, a number, true or false"
        );
    }

    #[test]
    fn escapes_are_undone() {
        let frame = br#"{"Method":"\u0050UT","Path":"a\/\"\\\b\f\n\r\t\ud83d\ude00\u00e9z","Headers":{"i\u0064":"x\ty"}}"#;
        let request = Request::parse(frame).unwrap();
        assert_eq!(request.method, "PUT");
        assert_eq!(request.path, "a/\"\\\u{8}\u{c}\n\r\t\u{1f600}éz");
        assert_eq!(request.headers.get("id"), Some("x\ty"));
    }

    #[test]
    fn names_without_end_are_refused() {
        let members: String = (0..65).map(|number| format!(",\"m{number}\":0")).collect();
        assert_eq!(
            error(&format!("{{\"Method\":\"A\"{members}}}")),
            RequestError::TooMany { limit: 64 }
        );
        let headers: Vec<_> = (0..65).map(|number| format!("\"h{number}\":0")).collect();
        let frame = format!("{{\"Method\":\"A\",\"Headers\":{{{}}}}}", headers.join(","));
        assert_eq!(error(&frame), RequestError::TooMany { limit: 64 });
    }

    #[test]
    fn what_no_scanner_has_seen_is_an_error_too() {
        for frame in [
            "",
            "{",
            "[]",
            "{\"",
            "{\"a",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":}",
            "{\"Method\":\"A\"",
            "{\"Method\":\"A\",}",
            "{\"Payload\":[",
            "{\"Payload\":]}",
            "{\"a\":\"\\",
            "{\"\\u12",
            "{\"\\ud800\":1}",
            "{\"\\ud800\\u0041\":1}",
            "{\"\\udc00\":1}",
            "{\"a\":\"\\\u{e9}\"",
        ] {
            assert_eq!(error(frame), RequestError::Malformed, "{frame}");
        }
        assert_eq!(Request::parse(b"{\"\xff\":1}").unwrap_err(), RequestError::Malformed);
    }
}

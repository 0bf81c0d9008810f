//! What the server says.

use super::headers::Headers;
use super::reader::{Reader, RequestError, Unknown, is, once};

/// What the server says.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// How it went: 200 done, 204 not within the time limit, the others as in the protocol.
    pub status: u16,
    /// The details.
    pub headers: Headers<'a>,
    /// Any JSON value, as it came; absent also if it was `null`.
    pub payload: Option<&'a [u8]>,
}

impl<'a> Answer<'a> {
    /// Reads a frame that a [`Scanner`](super::Scanner) found.
    ///
    /// # Errors
    /// If it is not an answer.
    pub fn parse(frame: &'a [u8]) -> Result<Self, RequestError> {
        const WRONG: RequestError =
            RequestError::WrongType { member: "Status", expected: "a number below 65536" };
        let (mut status, mut headers, mut payload) = (None, Headers::new(), None);
        let mut unknown = Unknown::default();
        let [mut has_status, mut has_headers, mut has_payload] = [false; 3];

        Reader::new(frame)?.members(|reader, name| {
            if is(&name, "Status") {
                once(&mut has_status, &name)?;
                if let Some(number) = reader.optional_value()? {
                    let number = std::str::from_utf8(number).map_err(|_| WRONG)?;
                    status = Some(number.parse().map_err(|_| WRONG)?);
                }
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

        Ok(Self { status: status.ok_or(RequestError::Missing("Status"))?, headers, payload })
    }

    /// The `error` of the payload, which answers other than 200 and 204 have.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        error_in(self.payload?)
    }
}

/// The `error` of a payload, which answers other than 200 and 204 have.
#[must_use]
pub fn error_in(payload: &[u8]) -> Option<String> {
    let mut error = None;
    let read = Reader::new(payload).ok()?.members(|reader, name| {
        if name == "error" {
            error = reader.optional_string("error")?;
        } else {
            reader.value()?;
        }
        Ok(())
    });
    read.ok()?;
    error.map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_members() {
        let frame =
            br#"{"Status":404,"Headers":{"id":"7"},"Payload":{"error":"no queue \"x\""},"New":1}"#;
        let answer = Answer::parse(frame).unwrap();
        assert_eq!(answer.status, 404);
        assert_eq!(answer.headers.get("ID"), Some("7"));
        assert_eq!(answer.error().as_deref(), Some("no queue \"x\""));
    }

    #[test]
    fn little_is_enough_but_a_status() {
        let answer = Answer::parse(br#"{"status":204,"Headers":null}"#).unwrap();
        assert_eq!((answer.status, answer.payload), (204, None));
        assert_eq!(answer.error(), None);
        for frame in ["{}", r#"{"Status":null}"#] {
            let error = Answer::parse(frame.as_bytes()).unwrap_err();
            assert_eq!(error, RequestError::Missing("Status"));
        }
        for frame in [r#"{"Status":"200"}"#, r#"{"Status":65536}"#, r#"{"Status":2e2}"#] {
            let error = Answer::parse(frame.as_bytes()).unwrap_err();
            assert!(matches!(error, RequestError::WrongType { .. }), "{frame}");
        }
    }
}

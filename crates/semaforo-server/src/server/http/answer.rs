//! Answers, as bytes.

use std::io::Write;
use std::time::{Duration, Instant, SystemTime};

use crate::server::json::Json;

use super::Refusal;
use super::openapi::header_name;
use super::percent::write_header_value;
use crate::server::calendar::Moment;

/// An answer of HTTP.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    /// Headers of ours, to be written as `Semaforo-NAME`.
    pub(super) headers: Vec<(&'a str, &'a str)>,
    pub(super) body: &'a [u8],
    /// With 405: which methods of HTTP are allowed there. None are where the protocol has no such
    /// method.
    pub(super) allow: &'static str,
    /// Whether the connection goes on.
    pub(super) keep_alive: bool,
    /// Whether only the head is asked for.
    pub(super) head_only: bool,
}

pub(super) const JSON: &str = "application/json";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The date, written anew once a second.
#[derive(Debug, Default)]
pub(super) struct Date {
    text: String,
    good_until: Option<Instant>,
}

impl Date {
    pub(super) fn text(&mut self, now: Instant) -> &str {
        if self.good_until.is_none_or(|until| until <= now) {
            self.text = Moment::from(SystemTime::now()).http();
            self.good_until = Some(now + Duration::from_secs(1));
        }
        &self.text
    }
}

impl Answer<'_> {
    pub(super) fn write(&self, output: &mut Vec<u8>, date: &str) {
        // Writing to a vector cannot fail.
        let _ = write!(
            output,
            "HTTP/1.1 {} {}\r\nDate: {date}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\n",
            self.status,
            reason(self.status)
        );
        for (name, value) in &self.headers {
            output.extend_from_slice(header_name(name).as_bytes());
            output.extend_from_slice(b": ");
            write_header_value(output, value);
            output.extend_from_slice(b"\r\n");
        }
        let _ = match self.status {
            405 => write!(output, "Allow: {}\r\n", self.allow),
            401 => write!(output, "WWW-Authenticate: Bearer\r\n"),
            503 => write!(output, "Retry-After: 1\r\n"),
            _ => Ok(()),
        };
        // With 204 there is no body, and must be no length of it.
        if self.status != 204 {
            let length = self.body.len();
            let _ = write!(output, "Content-Length: {length}\r\n");
            if length > 0 {
                let _ = write!(output, "Content-Type: {}\r\n", self.content_type);
            }
        }
        if !self.keep_alive {
            output.extend_from_slice(b"Connection: close\r\n");
        }
        output.extend_from_slice(b"\r\n");
        if !self.head_only && self.status != 204 {
            output.extend_from_slice(self.body);
        }
    }
}

impl Refusal {
    /// `{"error": "..."}`, as everywhere.
    pub(super) fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        Json::line(&mut payload, |json| json.text("error", &self.reason));
        payload
    }
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "Other",
    }
}

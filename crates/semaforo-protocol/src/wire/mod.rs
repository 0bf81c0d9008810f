//! The bytes of the protocol: JSON objects one after another, in both directions.
//!
//! A [`Scanner`] finds where each object ends, however the bytes arrive, and checks that it is
//! JSON; [`Request`] and [`Answer`] are what an object says; [`write_request`] and
//! [`write_answer`] make them. Nothing here knows a socket.
//!
//! ```
//! use semaforo_protocol::wire::{Limits, Request, Scan, Scanner, Value, write_answer};
//!
//! let input = br#" {"Method": "PUT", "path": "/queues/jobs", "Headers": {"id": 7}, "Payload": [1]}"#;
//! let mut scanner = Scanner::new();
//! assert_eq!(scanner.scan(&input[..20], &Limits::default()).unwrap(), Scan::Incomplete);
//! let Ok(Scan::Frame { start, end }) = scanner.scan(input, &Limits::default()) else { panic!() };
//!
//! let request = Request::parse(&input[start..end]).unwrap();
//! assert_eq!(request.path, "/queues/jobs");
//! assert_eq!(request.headers.get("id"), Some("7"));
//! assert_eq!(request.payload, Some(&b"[1]"[..]));
//!
//! let mut output = Vec::new();
//! write_answer(&mut output, 200, Some("7"), [("message", Value::Number(12))], None);
//! assert_eq!(output, b"{\"Status\":200,\"Headers\":{\"id\":\"7\",\"message\":\"12\"}}\n");
//! ```

mod answer;
mod headers;
mod reader;
mod request;
mod scanner;
mod stretch;
mod write;

pub use answer::{Answer, error_in};
pub use headers::Headers;
pub use reader::{MOST_NAMES, RequestError};
pub use request::Request;
pub use scanner::{FrameError, Limits, Scan, Scanner};
pub use write::{Value, write_answer, write_request, write_string};

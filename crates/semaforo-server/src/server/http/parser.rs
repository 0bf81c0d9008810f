//! Requests out of a stream of bytes, however they arrive. No sockets here.

use super::body::Body;
use super::guard;
use super::head::{BodyLength, Head};
use super::limits::HEAD;
use super::route::{Route, route};
use super::{Options, Refusal};
use crate::server::limits::STRANGER_FRAME;

/// Where a connection is between two requests.
#[derive(Debug, Default)]
pub(super) struct Parser {
    stage: Stage,
}

#[derive(Debug, Default)]
enum Stage {
    /// Nothing of the next request has come.
    #[default]
    Idle,
    /// In the head, of which so much was searched for its end.
    Head { searched: usize },
    /// In the body.
    Body { head: Box<Head>, route: Route, body: Body },
}

/// What a deadline can be set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Head,
    Body,
}

/// A whole request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) head: Box<Head>,
    pub(super) route: Route,
    pub(super) body: Vec<u8>,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Step {
    /// Wait for more input.
    NeedMore,
    /// Tell the client to send the body, and go on.
    Continue,
    Request(Request),
    /// The request is refused; what follows it can be understood or not.
    Refused {
        refusal: Refusal,
        keep_alive: bool,
    },
}

impl Parser {
    pub(super) fn phase(&self) -> Phase {
        match self.stage {
            Stage::Idle => Phase::Idle,
            Stage::Head { .. } => Phase::Head,
            Stage::Body { .. } => Phase::Body,
        }
    }

    /// How many bytes are kept of the body.
    pub(super) fn kept(&self) -> usize {
        match &self.stage {
            Stage::Body { body, .. } => body.kept(),
            Stage::Idle | Stage::Head { .. } => 0,
        }
    }

    /// Moves on by one step; answers what to do and how much of the input is done with.
    /// `knows` tells whether a token makes a client known, or none is needed.
    pub(super) fn advance(
        &mut self,
        input: &[u8],
        options: &Options,
        knows: &dyn Fn(Option<&str>) -> bool,
    ) -> (Step, usize) {
        let result = match &mut self.stage {
            Stage::Idle => {
                // Some clients send an empty line after a body.
                let blank = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
                if blank == input.len() {
                    return (Step::NeedMore, blank);
                }
                self.stage = Stage::Head { searched: 0 };
                let (step, consumed) =
                    self.advance(input.get(blank..).unwrap_or_default(), options, knows);
                return (step, blank + consumed);
            }
            Stage::Head { searched } => match end_of_head(input, searched) {
                Some(end) if end <= HEAD => {
                    let (head, rest) = input.split_at(end);
                    match self.begin_body(head, options, knows) {
                        Ok(Step::NeedMore) => {
                            let (step, consumed) = self.advance(rest, options, knows);
                            return (step, end + consumed);
                        }
                        result => result.map(|step| (step, end)),
                    }
                }
                _ if input.len() >= HEAD => {
                    let reason =
                        format_args!("the head of the request is larger than {HEAD} bytes");
                    Err((Refusal::new(431, reason), false))
                }
                _ => Ok((Step::NeedMore, 0)),
            },
            Stage::Body { body, .. } => body
                .take(input)
                .map(|taken| (self.end_body(), taken))
                .map_err(|refusal| (refusal, false)),
        };
        result.unwrap_or_else(|(refusal, keep_alive)| {
            self.stage = Stage::Idle;
            // Only what has no body is known to end with its head.
            let consumed = if keep_alive { end_of_head(input, &mut 0) } else { None };
            (Step::Refused { refusal, keep_alive }, consumed.unwrap_or(input.len()))
        })
    }

    /// The head is there: it decides whether the body is wanted.
    fn begin_body(
        &mut self,
        bytes: &[u8],
        options: &Options,
        knows: &dyn Fn(Option<&str>) -> bool,
    ) -> Result<Step, (Refusal, bool)> {
        let head = Head::parse(bytes).map_err(|refusal| (refusal, false))?;
        // The client knows how much of a refusal is its body only if it asked for one.
        let keep_alive = head.keep_alive && head.body == BodyLength::None && head.method != "HEAD";
        let refused = |refusal| (refusal, keep_alive);
        let route = match route(&head) {
            // A health check may call the server by any name.
            Ok(route @ (Route::Health | Route::Ready)) => route,
            routed => {
                guard::check(&head, &options.hosts).map_err(refused)?;
                routed.map_err(refused)?
            }
        };
        let is_known = head.body == BodyLength::None || knows(head.token.as_deref());
        let limit = if is_known { options.body } else { options.body.min(STRANGER_FRAME) };
        let body = Body::new(head.body, limit).map_err(refused)?;
        let expects_continue = head.expects_continue && !body.is_complete();
        self.stage = Stage::Body { head: Box::new(head), route, body };
        Ok(if expects_continue { Step::Continue } else { self.end_body() })
    }

    /// The request, if the body is complete.
    fn end_body(&mut self) -> Step {
        match std::mem::take(&mut self.stage) {
            Stage::Body { head, route, body } if body.is_complete() => {
                Step::Request(Request { head, route, body: body.into_bytes() })
            }
            stage => {
                self.stage = stage;
                Step::NeedMore
            }
        }
    }
}

/// Where the head ends: after an empty line. Every byte is searched once, however slowly they come.
fn end_of_head(input: &[u8], searched: &mut usize) -> Option<usize> {
    let mut from = *searched;
    while let Some(at) = input.get(from..)?.iter().position(|byte| *byte == b'\n') {
        let after = from + at + 1;
        match input.get(after..) {
            Some([b'\n', ..]) => return Some(after + 1),
            Some([b'\r', b'\n', ..]) => return Some(after + 2),
            // Not yet known what follows: this line break will be looked at again.
            Some([] | [b'\r']) | None => {
                *searched = from + at;
                return None;
            }
            Some(_) => from = after,
        }
    }
    *searched = input.len();
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POST: &str =
        "POST /v1/queues/q/PUT HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

    /// Feeds a stream in pieces, and notes what comes out.
    fn feed(stream: &[u8], piece: usize) -> Vec<String> {
        let (mut parser, options) =
            (Parser::default(), Options { body: 100, ..Options::default() });
        let (mut seen, mut pending) = (Vec::new(), Vec::new());
        for piece in stream.chunks(piece) {
            pending.extend_from_slice(piece);
            loop {
                let (step, consumed) = parser.advance(&pending, &options, &|_| true);
                pending.drain(..consumed);
                match step {
                    Step::NeedMore => break,
                    Step::Continue => seen.push("continue".into()),
                    Step::Request(request) => {
                        let body = String::from_utf8_lossy(&request.body).into_owned();
                        seen.push(format!("{} {body}", request.head.target));
                    }
                    Step::Refused { refusal, keep_alive } => {
                        seen.push(refusal.status.to_string());
                        if !keep_alive {
                            return seen;
                        }
                    }
                }
            }
        }
        seen
    }

    #[test]
    fn pipelined_requests_in_pieces_of_every_size() {
        let stream = format!(
            "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n{POST}Content-Length: 3\r\n\r\n[1]\r\n\
             GET /nothing HTTP/1.1\nHost: localhost\n\n\
             {POST}Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[2]\r\n0\r\n\r\n\
             GET /readyz HTTP/1.1\r\nHost: any.name\r\n\r\n{POST}Content-Length: 101\r\n\r\n"
        );
        for piece in 1..=stream.len() {
            assert_eq!(
                feed(stream.as_bytes(), piece),
                [
                    "/healthz ",
                    "/v1/queues/q/PUT [1]",
                    "404",
                    "continue",
                    "/v1/queues/q/PUT [2]",
                    "/readyz ",
                    "413"
                ],
                "in pieces of {piece}"
            );
        }
    }

    #[test]
    fn heads_without_end_are_refused() {
        let head = format!("GET /{}", "x".repeat(HEAD));
        assert_eq!(feed(head.as_bytes(), 100), ["431"]);
        let whole = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(HEAD));
        assert_eq!(feed(whole.as_bytes(), whole.len()), ["431"]);
        let lines = format!("GET / HTTP/1.1\r\n{}", "X: y\r\n".repeat(HEAD / 6));
        assert_eq!(feed(lines.as_bytes(), 7), ["431"]);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(200));
        assert_eq!(feed(many.as_bytes(), 7), ["431"]);
        assert_eq!(feed(b"{\"Method\":\"PING\"}\n\n", 3), ["400"]);
    }

    proptest! {
        #[test]
        fn no_input_does_harm(input in proptest::collection::vec(any::<u8>(), 0..300), piece in 1..40_usize) {
            feed(&input, piece);
        }

        #[test]
        fn a_mutated_request_is_read_the_same_in_pieces(
            changes in proptest::collection::vec((0..400_usize, any::<u8>()), 1..4),
            piece in 1..40_usize,
        ) {
            let mut stream = format!(
                "{POST}Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[2]\r\n0\r\n\r\n\
                 {POST}Content-Length: 3\r\n\r\n[1]GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
            )
            .into_bytes();
            for (at, byte) in changes {
                let at = at % stream.len();
                stream[at] = byte;
            }
            prop_assert_eq!(feed(&stream, piece), feed(&stream, stream.len()));
        }
    }
}

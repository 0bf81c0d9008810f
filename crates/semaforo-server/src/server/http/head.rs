//! The head of a request: its line and its headers.

use super::Refusal;
use super::limits::HEADERS;

/// What of a request's head matters here.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    /// Whether the client wants to go on with this connection.
    pub(super) keep_alive: bool,
    pub(super) body: BodyLength,
    /// Whether the client waits for a word before it sends the body.
    pub(super) expects_continue: bool,
    pub(super) host: Option<String>,
    pub(super) origin: Option<String>,
    /// What a browser says about where a request comes from.
    pub(super) fetch_site: Option<String>,
    pub(super) content_type: Option<String>,
    /// From `Authorization: Bearer`.
    pub(super) token: Option<String>,
    /// Headers `Semaforo-NAME`, by their lower-case NAME.
    pub(super) headers: Vec<(String, String)>,
}

/// How the length of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    None,
    Known(u64),
    Chunked,
}

impl Head {
    /// Parses a whole head, up to and including the empty line.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Err(Refusal::new(400, "incomplete head")),
            Err(httparse::Error::TooManyHeaders) => {
                let reason = format_args!("more than {HEADERS} headers");
                return Err(Refusal::new(431, reason));
            }
            Err(httparse::Error::Version) => {
                return Err(Refusal::new(505, "only HTTP/1.0 and HTTP/1.1 are spoken here"));
            }
            Err(error) => return Err(Refusal::new(400, format_args!("not HTTP: {error}"))),
        }
        let is_newest = request.version == Some(1);
        let mut head = Self {
            method: request.method.unwrap_or_default().to_owned(),
            target: path_and_query(request.path.unwrap_or_default()).to_owned(),
            keep_alive: is_newest,
            body: BodyLength::None,
            expects_continue: false,
            host: None,
            origin: None,
            fetch_site: None,
            content_type: None,
            token: None,
            headers: Vec::new(),
        };
        for header in request.headers.iter() {
            let value = std::str::from_utf8(header.value).map_err(|_| {
                Refusal::new(400, format_args!("header {} is not UTF-8", header.name))
            })?;
            head.read(&header.name.to_ascii_lowercase(), value.trim())?;
        }
        if is_newest && head.host.is_none() {
            return Err(Refusal::new(400, "header Host is missing"));
        }
        if !is_newest && head.body == BodyLength::Chunked {
            // A proxy that has passed it on may not know what it means.
            return Err(Refusal::new(400, "there is no Transfer-Encoding in HTTP/1.0"));
        }
        if let Some(authority) = authority(request.path.unwrap_or_default()) {
            head.host = Some(authority.to_owned());
        }
        // A client of HTTP/1.0 does not know what to do with it.
        head.expects_continue &= is_newest && head.body != BodyLength::None;
        Ok(head)
    }

    fn read(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match name {
            "host" => once(&mut self.host, name, value)?,
            "origin" => once(&mut self.origin, name, value)?,
            "sec-fetch-site" => once(&mut self.fetch_site, name, value)?,
            "content-type" => once(&mut self.content_type, name, value)?,
            "authorization" => {
                let token = value
                    .split_once(' ')
                    .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
                    .map(|(_, token)| token.trim())
                    .ok_or_else(|| {
                        Refusal::new(401, "header Authorization must be 'Bearer' and a token")
                    })?;
                once(&mut self.token, name, token)?;
            }
            "connection" => {
                for option in value.split(',').map(str::trim) {
                    if option.eq_ignore_ascii_case("close") {
                        self.keep_alive = false;
                    } else if option.eq_ignore_ascii_case("keep-alive") {
                        self.keep_alive = true;
                    }
                }
            }
            "content-length" => {
                let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let length = value.parse().ok().filter(|_| digits).ok_or_else(|| {
                    Refusal::new(400, format_args!("Content-Length '{value}' is not a number"))
                })?;
                self.set_body(BodyLength::Known(length))?;
            }
            "transfer-encoding" => {
                if !value.eq_ignore_ascii_case("chunked") {
                    let reason = format_args!("Transfer-Encoding '{value}': only chunked is known");
                    return Err(Refusal::new(501, reason));
                }
                self.set_body(BodyLength::Chunked)?;
            }
            "expect" => {
                if !value.eq_ignore_ascii_case("100-continue") {
                    let reason = format_args!("Expect '{value}': only 100-continue is known");
                    return Err(Refusal::new(417, reason));
                }
                self.expects_continue = true;
            }
            _ => {
                if let Some(name) = name.strip_prefix("semaforo-") {
                    self.headers.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Two opinions about where a body ends are an attack on whatever is between us and the client.
    fn set_body(&mut self, length: BodyLength) -> Result<(), Refusal> {
        if self.body != BodyLength::None {
            return Err(Refusal::new(400, "the length of the body is given twice"));
        }
        self.body = length;
        Ok(())
    }
}

fn once(place: &mut Option<String>, name: &str, value: &str) -> Result<(), Refusal> {
    if place.is_some() {
        return Err(Refusal::new(400, format_args!("header {name} is given twice")));
    }
    *place = Some(value.to_owned());
    Ok(())
}

/// The host of a whole address, which counts more than the header.
fn authority(target: &str) -> Option<&str> {
    let (_, rest) = target.split_once("://").filter(|_| !target.starts_with('/'))?;
    rest.split(['/', '?']).next()
}

/// A proxy may send the whole address; what counts is behind the host.
fn path_and_query(target: &str) -> &str {
    let Some((_, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) else {
        return target;
    };
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &str) -> Result<Head, Refusal> {
        Head::parse(format!("{}\r\n\r\n", lines.replace('\n', "\r\n")).as_bytes())
    }

    fn status(lines: &str) -> u16 {
        parse(lines).map(|head| panic!("{head:?} was accepted")).unwrap_or_else(|e| e.status)
    }

    #[test]
    fn reads_what_matters() {
        let head = parse(
            "POST http://a/v1?x=1 HTTP/1.1\nhOST: a\nContent-Length: 3\nExpect: 100-Continue\n\
             authorization: bearer  t\nSemaforo-Session: ab\nContent-Type: application/json",
        )
        .unwrap();
        assert_eq!((head.method.as_str(), head.target.as_str()), ("POST", "/v1?x=1"));
        assert!(head.keep_alive && head.expects_continue);
        assert_eq!(head.body, BodyLength::Known(3));
        assert_eq!(head.token.as_deref(), Some("t"));
        assert_eq!(head.headers, [("session".into(), "ab".into())]);
    }

    #[test]
    fn old_clients_close_unless_they_say_otherwise() {
        assert!(!parse("GET / HTTP/1.0").unwrap().keep_alive);
        assert!(parse("GET / HTTP/1.0\nConnection: x, Keep-Alive").unwrap().keep_alive);
        assert!(!parse("GET / HTTP/1.1\nHost: a\nConnection: close").unwrap().keep_alive);
    }

    #[test]
    fn refuses_what_could_be_read_in_two_ways() {
        let with = |lines: &str| status(&format!("POST /v1 HTTP/1.1\nHost: a\n{lines}"));
        assert_eq!(with("Content-Length: 1\nContent-Length: 1"), 400);
        assert_eq!(with("Content-Length: 1\nTransfer-Encoding: chunked"), 400);
        for wrong in ["+1", "-1", "", "0x1", "1 1", "99999999999999999999"] {
            assert_eq!(with(&format!("Content-Length: {wrong}")), 400, "{wrong}");
        }
        assert_eq!(with("Transfer-Encoding: gzip, chunked"), 501);
        assert_eq!(with("Expect: miracles"), 417);
        assert_eq!(with("Host: b"), 400);
        assert_eq!(with("Authorization: Basic eDp5"), 401);
        assert_eq!(status("GET / HTTP/1.1"), 400);
        assert_eq!(status("GET / HTTP/2.0\nHost: a"), 505);
        assert_eq!(status("GET /"), 400);
    }
}

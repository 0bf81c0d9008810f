//! Keeps web pages out: they can make a browser send requests to any address, in its user's name.

use std::net::IpAddr;

use super::Refusal;
use super::head::{BodyLength, Head};

/// Refuses what may come from a web page.
pub(super) fn check(head: &Head, hosts: &[String]) -> Result<(), Refusal> {
    if let Some(host) = &head.host
        && !is_allowed(host, hosts)
    {
        return Err(Refusal::new(
            421,
            format_args!(
                "Host '{host}' is not a name of this server; use an address, or serve --host"
            ),
        ));
    }
    let foreign = match (&head.origin, &head.host) {
        (Some(origin), Some(host)) => {
            !origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host))
        }
        (origin, _) => origin.is_some(),
    };
    let cross_site =
        head.fetch_site.as_deref().is_some_and(|site| !matches!(site, "same-origin" | "none"));
    if foreign || cross_site {
        let origin = head.origin.as_deref().unwrap_or("another site");
        let reason = format_args!("a web page of '{origin}' may not use this server");
        return Err(Refusal::new(403, reason));
    }
    if head.method == "POST" {
        check_content_type(head)?;
    }
    Ok(())
}

/// Without this header a browser would send what a page wants without asking us first.
fn check_content_type(head: &Head) -> Result<(), Refusal> {
    let Some(content_type) = &head.content_type else {
        if matches!(head.body, BodyLength::None | BodyLength::Known(0)) {
            return Ok(());
        }
        return Err(Refusal::new(415, "a body needs the header 'Content-Type: application/json'"));
    };
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Refusal::new(
        415,
        format_args!("Content-Type is '{content_type}', and must be 'application/json'"),
    ))
}

/// An address is not looked up, and `localhost` and names below it always mean this machine. The
/// owner of any other name, also of one without a dot or in a local network, can let it point here
/// after a page was loaded from elsewhere (DNS rebinding): such a name has to be configured.
fn is_allowed(host: &str, hosts: &[String]) -> bool {
    let name = without_port(host);
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if address.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost"
        || name.strip_suffix(".localhost").is_some_and(|name| !name.is_empty())
        || hosts.iter().any(|host| host.eq_ignore_ascii_case(&name))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            // In an address of version 6 without brackets the last part is no port.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(lines: &str) -> u16 {
        let head = Head::parse(format!("{}\r\n\r\n", lines.replace('\n', "\r\n")).as_bytes());
        check(&head.unwrap(), &["semaforo.example.org".into()]).map_or_else(|e| e.status, |()| 200)
    }

    #[test]
    fn hosts() {
        let host = |host: &str| status(&format!("GET /metrics HTTP/1.1\nHost: {host}"));
        for allowed in [
            "127.0.0.1",
            "127.0.0.1:13080",
            "10.1.2.3:80",
            "[::1]:13080",
            "[::1]",
            "localhost",
            "LocalHost:13080",
            "a.b.localhost.",
            "Semaforo.example.org:443",
        ] {
            assert_eq!(host(allowed), 200, "{allowed}");
        }
        for refused in [
            "evil.example.com",
            "127.0.0.1.evil.com:13080",
            "",
            ":80",
            "local.host",
            "a.localhost.b",
            ".localhost",
            "semaforo:13080",
            "box.local",
            "a.b.internal.",
        ] {
            assert_eq!(host(refused), 421, "{refused}");
        }
    }

    #[test]
    fn pages() {
        let with = |lines: &str| status(&format!("POST /v1 HTTP/1.1\nHost: localhost:1\n{lines}"));
        assert_eq!(with("X: y"), 200);
        assert_eq!(with("Origin: http://localhost:1\nSec-Fetch-Site: same-origin"), 200);
        assert_eq!(with("Origin: http://evil.com"), 403);
        assert_eq!(with("Origin: null"), 403);
        assert_eq!(with("Sec-Fetch-Site: cross-site"), 403);
        assert_eq!(with("Content-Length: 2\nContent-Type: application/json; charset=utf-8"), 200);
        assert_eq!(with("Content-Length: 2"), 415);
        assert_eq!(with("Content-Length: 2\nContent-Type: text/plain"), 415);
        assert_eq!(with("Content-Type: application/x-www-form-urlencoded"), 415);
        assert_eq!(with("Transfer-Encoding: chunked"), 415);
    }
}

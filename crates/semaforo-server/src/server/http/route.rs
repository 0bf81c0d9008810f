//! From the target of a request to what it asks for.

use super::Refusal;
use super::head::Head;
use super::percent::decode;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    Health,
    Ready,
    Metrics,
    OpenApi,
    /// The body is a request object.
    Object,
    /// The body, if there is one, is the payload.
    Operation {
        method: String,
        path: String,
        headers: Vec<(String, String)>,
    },
}

impl Route {
    /// Whether it is answered also when all places are taken.
    pub(super) fn is_reserved(&self) -> bool {
        match self {
            Route::Health | Route::Ready | Route::Metrics | Route::OpenApi => true,
            Route::Object => false,
            // The server itself: what there is, and its end.
            Route::Operation { path, .. } => path == "/",
        }
    }
}

pub(super) fn route(head: &Head) -> Result<Route, Refusal> {
    let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
    let (route, methods) = match path {
        "/healthz" => (Route::Health, ["GET", "HEAD"]),
        "/readyz" => (Route::Ready, ["GET", "HEAD"]),
        "/metrics" => (Route::Metrics, ["GET", "HEAD"]),
        "/openapi.json" => (Route::OpenApi, ["GET", "HEAD"]),
        "/v1" | "/v1/" => (Route::Object, ["POST", "POST"]),
        _ => match path.strip_prefix("/v1/") {
            Some(rest) => (operation(rest, query, head)?, ["POST", "POST"]),
            None => {
                let reason = format_args!(
                    "there is nothing at '{path}'; operations are at /v1, and /openapi.json lists them"
                );
                return Err(Refusal::new(404, reason));
            }
        },
    };
    if methods.contains(&head.method.as_str()) {
        return Ok(route);
    }
    let [wanted, _] = methods;
    let allow = if wanted == "GET" { "GET, HEAD" } else { "POST" };
    let reason = format_args!("'{path}' wants {wanted}, and this was {}", head.method);
    Err(Refusal { allow, ..Refusal::new(405, reason) })
}

/// The last part is the method; what is before it is the path.
fn operation(rest: &str, query: &str, head: &Head) -> Result<Route, Refusal> {
    let (path, method) = rest.rsplit_once('/').unwrap_or(("", rest));
    if method.is_empty() {
        return Err(Refusal::new(400, format_args!("'/v1/{rest}' must end with a method")));
    }
    let mut headers = head.headers.clone();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        headers.push((decode(name, true)?.to_ascii_lowercase(), decode(value, true)?));
    }
    for (number, (name, _)) in headers.iter().enumerate() {
        if headers.iter().skip(number + 1).any(|(other, _)| other == name) {
            return Err(Refusal::new(400, format_args!("header '{name}' is given twice")));
        }
    }
    let method = decode(method, false)?;
    Ok(Route::Operation { method, path: format!("/{}", decode(path, false)?), headers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Route, Refusal> {
        let head = format!("{line} HTTP/1.1\r\nHost: a\r\nSemaforo-Session: s\r\n\r\n");
        route(&Head::parse(head.as_bytes()).unwrap())
    }

    fn operation(method: &str, path: &str, headers: &[(&str, &str)]) -> Route {
        let headers = [("session", "s")].iter().chain(headers);
        Route::Operation {
            method: method.into(),
            path: path.into(),
            headers: headers.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        }
    }

    #[test]
    fn operations() {
        assert_eq!(
            of("POST /v1/queues/a%2Fb%20c/PUT?Priority=-1&timeout=5%30").unwrap(),
            operation("PUT", "/queues/a/b c", &[("priority", "-1"), ("timeout", "50")])
        );
        assert_eq!(of("POST /v1/queues/a/b/TAKE").unwrap(), operation("TAKE", "/queues/a/b", &[]));
        assert_eq!(of("POST /v1/sessions/OPEN").unwrap(), operation("OPEN", "/sessions", &[]));
        assert_eq!(of("POST /v1/SHUTDOWN").unwrap(), operation("SHUTDOWN", "/", &[]));
        assert_eq!(of("POST /v1").unwrap(), Route::Object);
        assert!(of("POST /v1/LIST").unwrap().is_reserved());
        assert!(!of("POST /v1/locks/a/ACQUIRE").unwrap().is_reserved());
    }

    #[test]
    fn refusals() {
        let status = |line| of(line).unwrap_err().status;
        assert_eq!(status("GET /"), 404);
        assert_eq!(status("GET /v2"), 404);
        assert_eq!(status("POST /healthz"), 405);
        assert_eq!(status("GET /v1"), 405);
        assert_eq!(status("GET /v1/locks/a/ACQUIRE"), 405);
        assert_eq!(status("POST /v1/locks/a/"), 400);
        assert_eq!(status("POST /v1/locks/%ff/ACQUIRE"), 400);
        assert_eq!(status("POST /v1/locks/a/ACQUIRE?session=t"), 400);
        assert_eq!(status("POST /v1/locks/a/ACQUIRE?x=1&X=2"), 400);
    }
}

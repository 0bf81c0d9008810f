//! The OpenAPI document, made from the table of operations.

use serde_json::{Map, Value as Json, json};

use super::operations::{HEADERS, Header, KINDS, Kind, Operation, Value};

/// Statuses that any operation may have.
const STATUSES: &[u16] = &[200, 400, 401, 403, 405, 409, 413, 429, 503, 507];

const fn meaning(status: u16) -> &'static str {
    match status {
        200 => "done; granted; handed over",
        204 => "not within the time limit, or cancelled; nothing happened",
        400 => "not understood, or it makes no sense",
        401 => "a token is needed, or this one is not known",
        403 => "this token does not allow that",
        404 => "there is no such object",
        405 => "this object has no such method",
        409 => "conflict: other settings; broken barrier; a seq that was used for another request",
        410 => "gone: the session, or the hold, has ended",
        413 => "too large, or nested too deep",
        429 => "over a limit",
        503 => "shutting down, or busy",
        _ => "no space",
    }
}

/// The document, OpenAPI 3.1.
pub fn document() -> Json {
    let mut paths = Map::new();
    for kind in KINDS {
        for operation in kind.operations {
            paths.insert(path(kind, operation), json!({ "post": describe(kind, operation) }));
        }
    }
    paths.insert("/v1".into(), json!({ "post": object_endpoint() }));
    for (path, summary, content) in [
        ("/healthz", "200 while the server is alive.", "text/plain"),
        ("/readyz", "200 while the server takes requests.", "text/plain"),
        ("/metrics", "Figures, for Prometheus.", "text/plain"),
        ("/openapi.json", "This document.", "application/json"),
    ] {
        let mut answers = Map::new();
        let answer = json!({ "description": summary, "content": { content: {} } });
        answers.insert("200".into(), answer);
        if path == "/metrics" {
            let needed = "A token with the right `observe` is needed.";
            answers.insert("401".into(), json!({ "description": needed }));
            answers.insert("403".into(), json!({ "description": needed }));
        }
        paths.insert(
            path.into(),
            json!({ "get": { "summary": summary, "tags": ["operation"], "responses": answers } }),
        );
    }
    let tags: Vec<Json> = KINDS
        .iter()
        .map(|kind| json!({ "name": tag(kind), "description": kind.summary }))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Semaforo",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Synchronizers by name. The same operations, headers and statuses as over TCP. \
                A header of a request is a parameter of the query, or an HTTP header Semaforo-NAME; \
                a header of an answer is an HTTP header Semaforo-NAME. Holds need a named session.",
            "license": { "name": env!("CARGO_PKG_LICENSE") },
        },
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "properties": { "error": { "type": "string" } },
                    "required": ["error"],
                },
            },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "token": [] }],
    })
}

fn tag(kind: &Kind) -> &'static str {
    if kind.path.is_empty() { "server" } else { kind.path }
}

fn path(kind: &Kind, operation: &Operation) -> String {
    let mut path = String::from("/v1");
    if !kind.path.is_empty() {
        path.push('/');
        path.push_str(kind.path);
    }
    if kind.is_named {
        path.push_str("/{name}");
    }
    path.push('/');
    path.push_str(operation.method);
    path
}

fn describe(kind: &Kind, operation: &Operation) -> Json {
    let mut parameters = Vec::new();
    if kind.is_named {
        parameters.push(json!({
            "name": "name", "in": "path", "required": true,
            "description": "1 to 255 bytes without control characters",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
        }));
    }
    parameters.extend(operation.headers.iter().chain(HEADERS).map(parameter));
    let mut described = json!({
        "operationId": format!("{}-{}", tag(kind), operation.method.to_lowercase()),
        "tags": [tag(kind)],
        "summary": operation.summary,
        "parameters": parameters,
        "responses": responses(operation),
    });
    if operation.takes_payload {
        described["requestBody"] = json!({
            "description": "the payload: any JSON value",
            "content": { "application/json": { "schema": {} } },
        });
    }
    described
}

fn parameter(header: &Header) -> Json {
    let schema = match header.value {
        Value::Number(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Value::Text => json!({ "type": "string" }),
        Value::OneOf(words) => {
            json!({ "type": "string", "enum": words, "default": words.first() })
        }
    };
    json!({
        "name": header.name, "in": "query", "required": header.is_required,
        "description": header.summary, "schema": schema,
    })
}

fn responses(operation: &Operation) -> Json {
    let mut statuses: Vec<u16> = STATUSES.iter().chain(operation.statuses).copied().collect();
    statuses.sort_unstable();
    statuses.dedup();
    let mut responses = Map::new();
    for status in statuses {
        let mut response = json!({ "description": meaning(status) });
        if status == 200 {
            if operation.gives_payload {
                response["content"] = json!({ "application/json": { "schema": {} } });
            }
            let headers: Map<String, Json> = operation
                .answers
                .iter()
                .map(|name| (header_name(name), json!({ "schema": { "type": "string" } })))
                .collect();
            if !headers.is_empty() {
                response["headers"] = Json::Object(headers);
            }
        } else if status != 204 {
            response["content"] = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } });
        }
        responses.insert(status.to_string(), response);
    }
    Json::Object(responses)
}

fn object_endpoint() -> Json {
    let any = json!({ "application/json": { "schema": { "type": "object" } } });
    json!({
        "operationId": "request",
        "tags": ["server"],
        "summary": "Any request, as the object that goes over TCP.",
        "requestBody": { "required": true, "content": any },
        "responses": {
            "default": {
                "description": "The answer object. The HTTP status is its Status, but 200 for 204, \
                    which could have no body.",
                "content": any,
            },
        },
    })
}

/// `fence` as `Semaforo-Fence`.
pub(super) fn header_name(name: &str) -> String {
    let mut full = String::from("Semaforo-");
    let mut characters = name.chars();
    full.extend(characters.next().map(|first| first.to_ascii_uppercase()));
    full.extend(characters);
    full
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_described_once() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let operations: usize = KINDS.iter().map(|kind| kind.operations.len()).sum();
        assert_eq!(paths.len(), operations + 5, "a path is there twice");
        let acquire = &paths["/v1/locks/{name}/ACQUIRE"]["post"];
        assert_eq!(acquire["parameters"][1]["name"], "timeout");
        assert!(acquire["responses"]["200"]["headers"]["Semaforo-Fence"].is_object());
        assert!(acquire["responses"]["204"]["content"].is_null());
        assert!(paths["/v1/sessions/OPEN"].is_object() && paths["/v1/SHUTDOWN"].is_object());
        let mut ids: Vec<&str> =
            paths.values().filter_map(|path| path["post"]["operationId"].as_str()).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
    }
}

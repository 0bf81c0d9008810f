//! The OpenAPI document, made from the table of methods.

use semaforo_protocol::Kind;
use semaforo_protocol::limits::MAX_NAME;
use semaforo_protocol::table::{
    HEADERS, Header, LIST, Method, Resource, Row, SESSION, Session, UNBOUNDED, Value, resources,
};
use serde_json::{Map, Value as Json, json};

const FENCE: &str = "fence";
/// The headers that name a hold, or a delivery.
const NAMES_OF_HOLDS: [&str; 3] = [FENCE, "message", "deliveries"];
/// What the answer to the making of an object says.
const CREATED: &str = "created";

/// Statuses that any operation may have.
const STATUSES: &[u16] =
    &[200, 400, 401, 403, 405, 408, 409, 410, 413, 415, 421, 429, 431, 503, 507];
/// Statuses, and no others but 200, of what is asked with GET.
const GET_STATUSES: &[u16] = &[400, 405, 408, 421, 431, 503];

const fn meaning(status: u16) -> &'static str {
    match status {
        200 => "done; granted; handed over",
        204 => "not within the time limit, or cancelled; nothing happened",
        400 => "not understood, or it makes no sense",
        401 => "a token is needed, or this one is not known",
        403 => "this token does not allow that",
        404 => "there is no such object",
        405 => "this object has no such method",
        408 => "the request did not come to its end in time",
        409 => "conflict: other settings; broken barrier; a seq that was used for another request",
        410 => "gone: the session, or the hold, has ended",
        413 => "too large, or nested too deep",
        415 => "a body is application/json",
        421 => "not a name of this server",
        429 => "over a limit",
        431 => "the head of the request is too large",
        503 => "shutting down, or busy",
        _ => "no space",
    }
}

/// The document, OpenAPI 3.1, of a server that `wants_tokens` or does not.
pub fn document(wants_tokens: bool) -> Json {
    let mut paths = Map::new();
    for resource in resources() {
        for row in resource.rows {
            paths.insert(path(resource, row), json!({ "post": describe(resource, row) }));
        }
        if resource.kind.is_some() {
            let all = Resource { kind: None, ..*resource };
            paths.insert(path(&all, &LIST), json!({ "post": describe(&all, &LIST) }));
        }
    }
    paths.insert("/v1".into(), json!({ "post": object_endpoint() }));
    for (path, summary, content) in [
        ("/healthz", "200 while the server is alive.", "text/plain"),
        ("/readyz", "200 while the server takes requests.", "text/plain"),
        ("/metrics", "Figures, for Prometheus.", "text/plain"),
        ("/openapi.json", "This document.", "application/json"),
    ] {
        paths.insert(path.into(), json!({ "get": page(path, summary, content) }));
    }
    let tags: Vec<Json> = resources()
        .map(|resource| json!({ "name": tag(resource), "description": resource.summary }))
        .collect();
    let security = if wants_tokens { json!([{ "token": [] }]) } else { json!([]) };
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Semaforo",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Synchronizers by name. The same operations, headers and statuses as over TCP. \
                A header of a request is a parameter of the query, or an HTTP header Semaforo-NAME; \
                a header of an answer is an HTTP header Semaforo-NAME. Holds need a named session: \
                TAKE with ack=manual does, too, and so do seq and acked.",
            "license": { "name": env!("CARGO_PKG_LICENSE") },
        },
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": {
                "Answer": {
                    "type": "object",
                    "properties": {
                        "Status": { "type": "integer", "minimum": 200, "maximum": 599 },
                        "Headers": { "type": "object", "additionalProperties": { "type": "string" } },
                        "Payload": {},
                    },
                    "required": ["Status"],
                },
                "Error": {
                    "type": "object",
                    "properties": { "error": { "type": "string" } },
                    "required": ["error"],
                },
            },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": security,
    })
}

fn tag(resource: &Resource) -> &'static str {
    if resource.path.is_empty() { "server" } else { resource.path }
}

fn path(resource: &Resource, row: &Row) -> String {
    let mut path = String::from("/v1");
    if !resource.path.is_empty() {
        path.push('/');
        path.push_str(resource.path);
    }
    if resource.kind.is_some() {
        path.push_str("/{name}");
    }
    path.push('/');
    path.push_str(row.method.name());
    path
}

/// The id of an operation, which links name it by.
fn id(tag: &str, method: Method) -> String {
    format!("{tag}-{}", method.name().to_lowercase())
}

fn describe(resource: &Resource, row: &Row) -> Json {
    let mut parameters = Vec::new();
    if resource.kind.is_some() {
        parameters.push(json!({
            "name": "name", "in": "path", "required": true,
            "description": "1 to 255 bytes without control characters",
            "schema": name_schema(),
        }));
    }
    parameters.extend(row.all_headers().map(|header| parameter(&header)));
    let mut described = json!({
        "operationId": id(tag(resource), row.method),
        "tags": [tag(resource)],
        "summary": row.summary,
        "parameters": parameters,
        "responses": responses(resource, row),
    });
    if row.takes_payload {
        described["requestBody"] = json!({
            "description": "the payload: any JSON value",
            "content": { "application/json": { "schema": {} } },
        });
    }
    described
}

/// Text of so many bytes without control characters. A schema counts characters, of which one may
/// have four bytes.
fn text_schema(least: usize, most: usize) -> Json {
    let few = most / 4;
    let pattern = format!("^([ -~]{{{least},{most}}}|{PLAIN}{{{least},{few}}})$");
    json!({ "type": "string", "minLength": least, "maxLength": most, "pattern": pattern })
}

/// Everything but control characters.
const PLAIN: &str = "[^\\u0000-\\u001F\\u007F-\\u009F]";

fn name_schema() -> Json {
    text_schema(1, MAX_NAME)
}

/// What a path of an object looks like, `/KIND/NAME`.
fn path_schema(kinds: &str) -> Json {
    let few = MAX_NAME / 4;
    let pattern = format!("^/({kinds})/([ -~]{{1,{MAX_NAME}}}|{PLAIN}{{1,{few}}})$");
    json!({ "type": "string", "pattern": pattern })
}

fn schema(value: Value) -> Json {
    match value {
        Value::Number(least, UNBOUNDED) => json!({ "type": "integer", "minimum": least }),
        Value::Number(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Value::Text => json!({ "type": "string" }),
        Value::Plain(most) => text_schema(0, most),
        Value::Session => json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" }),
        Value::Path => path_schema(&Kind::ALL.map(Kind::plural).join("|")),
        Value::OneOf(words) => {
            json!({ "type": "string", "enum": words, "default": words.first() })
        }
    }
}

fn parameter(header: &Header) -> Json {
    json!({
        "name": header.name, "in": "query", "required": header.is_required,
        "description": header.summary, "schema": schema(header.value),
    })
}

/// What is wrong, in words.
fn error(status: u16) -> Json {
    let schema = json!({ "$ref": "#/components/schemas/Error" });
    json!({ "description": meaning(status), "content": { "application/json": { "schema": schema } } })
}

fn responses(resource: &Resource, row: &Row) -> Json {
    let mut statuses: Vec<u16> = STATUSES.iter().chain(row.statuses).copied().collect();
    statuses.sort_unstable();
    statuses.dedup();
    let mut responses = Map::new();
    for status in statuses {
        let response = match status {
            200 => done(resource, row),
            204 => json!({ "description": meaning(status) }),
            _ => error(status),
        };
        responses.insert(status.to_string(), response);
    }
    Json::Object(responses)
}

fn done(resource: &Resource, row: &Row) -> Json {
    let mut response = json!({ "description": meaning(200) });
    if row.gives_payload {
        response["content"] = json!({ "application/json": { "schema": {} } });
    }
    let headers: Map<String, Json> = row
        .answers
        .iter()
        .map(|name| {
            let schema = match *name {
                "session" => schema(Value::Session),
                // What is not visible is percent-encoded.
                "after" => json!({ "type": "string", "pattern": "^/[a-z]+/[ -~]+$" }),
                "created" => json!({ "type": "boolean" }),
                _ => json!({ "type": "integer", "minimum": 0 }),
            };
            (header_name(name), json!({ "schema": schema }))
        })
        .collect();
    if !headers.is_empty() {
        response["headers"] = Json::Object(headers);
    }
    let links = links(resource, row);
    if !links.is_empty() {
        response["links"] = Json::Object(links);
    }
    response
}

/// What can be asked next, and where what it has to name was said: in the answer, or in the request.
fn links(resource: &Resource, row: &Row) -> Map<String, Json> {
    let all = resources().flat_map(|it| it.rows.iter().map(move |next| (it, next)));
    let mut links = Map::new();
    for (other, next) in all {
        let Some(parameters) = known_parameters(resource, row, other, next) else { continue };
        let operation = id(other.path, next.method);
        let link = json!({ "operationId": operation, "parameters": Json::Object(parameters) });
        links.insert(operation, link);
    }
    links
}

/// What is known of a request after another one: the session that was opened, the object that was
/// made, or the hold or delivery that was granted.
fn known_parameters(
    resource: &Resource,
    row: &Row,
    other: &Resource,
    next: &Row,
) -> Option<Map<String, Json>> {
    let answers = |name: &str| row.answers.contains(&name);
    let is_here = other.path == resource.path && next.method != row.method;
    let mut parameters = Map::new();
    let mut know = |name: &str, from: String| parameters.insert(name.to_owned(), from.into());
    if answers(SESSION.name) {
        let grants_at_once = other.kind.is_some_and(Kind::exists_by_use)
            && next.answers.contains(&FENCE)
            && !next.names_a_hold;
        if !(grants_at_once || is_here && next.session == Session::Must) {
            return None;
        }
        know(SESSION.name, answered(SESSION.name));
    } else if is_here && answers(CREATED) {
        know("name", "$request.path.name".to_owned());
    } else if is_here && next.names_a_hold {
        let named = next.headers.iter().filter(|header| NAMES_OF_HOLDS.contains(&header.name));
        for header in named {
            if !answers(header.name) {
                return None;
            }
            know(header.name, answered(header.name));
        }
        know("name", "$request.path.name".to_owned());
        know(SESSION.name, format!("$request.query.{}", SESSION.name));
    } else {
        return None;
    }
    Some(parameters)
}

/// Where a header of an answer stands, in the language of links.
fn answered(name: &str) -> String {
    format!("$response.header.{}", header_name(name))
}

fn object_endpoint() -> Json {
    let (mut responses, mut variants) = (Map::new(), Vec::new());
    for resource in resources() {
        let all = Resource { kind: None, ..*resource };
        variants.extend(resource.rows.iter().flat_map(|it| request_objects(resource, it)));
        let listed = resource.kind.is_some().then(|| request_objects(&all, &LIST));
        variants.extend(listed.into_iter().flatten());
    }
    for status in STATUSES.iter().chain(&[404]) {
        let answer = json!({ "$ref": "#/components/schemas/Answer" });
        let schema = match status {
            200 => answer,
            // It depends on how far the request has got.
            _ => json!({ "anyOf": [answer, { "$ref": "#/components/schemas/Error" }] }),
        };
        let content = json!({ "application/json": { "schema": schema } });
        let response = json!({ "description": meaning(*status), "content": content });
        responses.insert(status.to_string(), response);
    }
    json!({
        "operationId": "request",
        "tags": ["server"],
        "summary": "Any request, as the object that goes over TCP. The HTTP status is that of the answer \
            object, but 200 for 204, which could have no body.",
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": { "anyOf": variants } } },
        },
        "responses": responses,
    })
}

/// The objects that ask for an operation: with a session, without, or both.
fn request_objects(resource: &Resource, row: &Row) -> Vec<Json> {
    let without = (row.session != Session::Must).then(|| {
        let headers = row.all_headers().filter(|header| !is_of_sessions(header));
        // Without a session there is nothing that a message could be out to.
        let alone = |header: Header| match header.name {
            "ack" => Header { value: Value::OneOf(&["auto"]), ..header },
            _ => header,
        };
        request_object(resource, row, headers.map(alone))
    });
    let with = (row.session != Session::Never).then(|| {
        let must = |header: Header| Header {
            is_required: header.is_required || header.name == SESSION.name,
            ..header
        };
        request_object(resource, row, row.all_headers().map(must))
    });
    without.into_iter().chain(with).collect()
}

fn is_of_sessions(header: &Header) -> bool {
    HEADERS.iter().any(|other| other.name == header.name)
}

fn request_object(resource: &Resource, row: &Row, headers: impl Iterator<Item = Header>) -> Json {
    let path = match (resource.path, resource.kind.is_some()) {
        ("", _) if row.is_pathless => json!({ "type": ["string", "null"] }),
        ("", _) => json!({ "enum": ["/", "", null] }),
        (path, true) => path_schema(path),
        (path, false) => json!({ "const": format!("/{path}") }),
    };
    let (mut known, mut needed) = (Map::new(), Vec::new());
    for header in headers {
        known.insert(header.name.to_owned(), object_header(&header));
        needed.extend(header.is_required.then_some(header.name));
    }
    let mut required = vec!["Method"];
    required.extend((!resource.path.is_empty()).then_some("Path"));
    required.extend((!needed.is_empty()).then_some("Headers"));
    let types = if needed.is_empty() { json!(["object", "null"]) } else { json!("object") };
    let mut properties = json!({
        "Method": { "const": row.method.name() },
        "Path": path,
        "Headers": {
            "type": types, "properties": known, "required": needed,
            "additionalProperties": { "type": ["string", "number", "boolean", "null"] },
        },
    });
    if row.takes_payload {
        properties["Payload"] = json!({});
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// A header as a member of an object: `null` is absent, and a number or a truth value is as good as
/// its text.
fn object_header(header: &Header) -> Json {
    let mut values = vec![schema(header.value)];
    match header.value {
        Value::Text | Value::Plain(_) => values.push(json!({ "type": ["number", "boolean"] })),
        Value::OneOf(words) if words.contains(&"true") => values.push(json!({ "type": "boolean" })),
        _ => {}
    }
    if !header.is_required {
        values.push(json!({ "type": "null" }));
    }
    json!({ "anyOf": values })
}

fn page(path: &str, summary: &str, content: &str) -> Json {
    let mut responses = Map::new();
    let answer =
        |description: &str| json!({ "description": description, "content": { content: {} } });
    responses.insert("200".into(), answer(summary));
    for status in GET_STATUSES {
        responses.insert(status.to_string(), error(*status));
    }
    match path {
        "/metrics" => {
            for status in [401, 403] {
                responses.insert(status.to_string(), error(status));
            }
        }
        "/healthz" | "/readyz" => {
            responses["503"]["content"][content] = json!({});
        }
        _ => {}
    }
    let mut page = json!({ "summary": summary, "tags": ["operation"], "responses": responses });
    if path != "/metrics" {
        page["security"] = json!([]);
    }
    page
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
        let document = document(false);
        let paths = document["paths"].as_object().unwrap();
        let operations: usize = resources().map(|resource| resource.rows.len()).sum();
        let lists = resources().filter(|resource| resource.kind.is_some()).count();
        assert_eq!(paths.len(), operations + lists + 5, "a path is there twice");
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

    #[test]
    fn every_link_leads_to_an_operation_and_fills_its_parameters() {
        let document = document(true);
        let paths = document["paths"].as_object().unwrap();
        let find = |id: &Json| paths.values().find(|path| path["post"]["operationId"] == *id);
        let mut links = 0;
        for link in
            paths.values().filter_map(|path| path["post"]["responses"]["200"]["links"].as_object())
        {
            for link in link.values() {
                let parameters = &find(&link["operationId"]).unwrap()["post"]["parameters"];
                for name in link["parameters"].as_object().unwrap().keys() {
                    let mut known = parameters.as_array().unwrap().iter();
                    assert!(known.any(|known| known["name"] == **name), "{link}");
                }
                links += 1;
            }
        }
        assert!(links > 13, "{links}");
    }
}

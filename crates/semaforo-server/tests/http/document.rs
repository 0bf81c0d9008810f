//! The document of OpenAPI, and the server: what the one allows the other takes, and nothing else.

use std::fmt::Write;
use std::net::SocketAddr;

use semaforo_server::server::Options;
use serde_json::Value;

use super::real::{Answer, Browser, start};

/// Asks for what the document says.
struct Reader {
    browser: Browser,
    asked: usize,
}

/// One operation of the document.
struct Operation<'a> {
    path: &'a str,
    described: &'a Value,
}

impl<'a> Operation<'a> {
    fn parameters(&self) -> impl Iterator<Item = &'a Value> {
        self.described["parameters"].as_array().unwrap().iter()
    }

    fn queried(&self) -> impl Iterator<Item = &'a Value> {
        self.parameters().filter(|parameter| parameter["in"] == "query")
    }

    fn has(&self, name: &str) -> bool {
        self.queried().any(|parameter| parameter["name"] == name)
    }
}

fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        write!(encoded, "%{byte:02x}").unwrap();
        encoded
    })
}

impl Reader {
    fn new(address: SocketAddr) -> Self {
        Self { browser: Browser::connect(address), asked: 0 }
    }

    fn document(&mut self) -> Value {
        self.browser.send("GET /openapi.json", "", "");
        serde_json::from_str(&self.browser.answer().body).unwrap()
    }

    fn session(&mut self) -> String {
        self.browser.post("/v1/sessions/OPEN", "").header("Semaforo-Session").to_owned()
    }

    /// What a parameter may be.
    fn usual(&mut self, parameter: &Value) -> String {
        let schema = &parameter["schema"];
        match parameter["name"].as_str().unwrap() {
            "session" => self.session(),
            "after" => "/locks/a".into(),
            _ if schema["type"] == "integer" => schema["minimum"].to_string(),
            _ => schema["enum"][0].as_str().unwrap_or("text").into(),
        }
    }

    /// Asks for an operation, with one parameter as it is said here: or none, to leave it out.
    fn ask(&mut self, operation: &Operation<'_>, name: &str, value: Option<&str>) -> Answer {
        self.asked += 1;
        let mut query = value.map_or(String::new(), |value| format!("{name}={}", encode(value)));
        for parameter in operation.queried().filter(|parameter| parameter["name"] != name) {
            let other = parameter["name"].as_str().unwrap();
            // A number of a session needs one, and no request of this test is to wait.
            let is_wanted = match other {
                "session" => matches!(name, "seq" | "acked" | "ack"),
                "timeout" => true,
                "open" => name == "initial",
                _ => false,
            };
            if is_wanted || parameter["required"] == true {
                // What an open semaphore begins with is at most what it may have.
                let value = match (name, other) {
                    ("initial", "open") => "true".into(),
                    ("initial", "permits") => parameter["schema"]["maximum"].to_string(),
                    _ => self.usual(parameter),
                };
                write!(query, "&{other}={}", encode(&value)).unwrap();
            }
        }
        // An object of its own, so that only the form of the request matters.
        let object =
            if name == "name" { encode(value.unwrap()) } else { format!("n{}", self.asked) };
        let path = operation.path.replace("{name}", &object);
        let query =
            if name == "name" { query.split_once('&').map_or("", |all| all.1) } else { &query };
        let answer = self.browser.post(&format!("{path}?{query}"), "");
        let status = answer.status.to_string();
        let documented = &operation.described["responses"][&status];
        assert!(documented.is_object(), "{path}?{query} was answered {status}: {}", answer.body);
        answer
    }

    /// Whether a value is refused for what it is, and not for what there is or is not.
    fn is_refused(&mut self, operation: &Operation<'_>, name: &str, value: &str) -> bool {
        let answer = self.ask(operation, name, Some(value));
        answer.status == 400 && !answer.body.contains("there was no generation")
    }

    fn compare(&mut self, operation: &Operation<'_>, parameter: &Value) {
        let (name, schema) = (parameter["name"].as_str().unwrap(), &parameter["schema"]);
        let (good, bad) = examples(parameter);
        for value in good {
            assert!(
                !self.is_refused(operation, name, &value),
                "{} refuses {name}={value:?}, and the document allows it: {schema}",
                operation.path
            );
        }
        for value in bad {
            assert!(
                self.is_refused(operation, name, &value),
                "{} takes {name}={value:?}, and the document does not allow it: {schema}",
                operation.path
            );
        }
        if parameter["required"] == true && parameter["in"] == "query" {
            assert_eq!(self.ask(operation, name, None).status, 400, "{} {name}", operation.path);
        }
    }
}

/// Values that a schema just allows, and values that it just does not.
fn examples(parameter: &Value) -> (Vec<String>, Vec<String>) {
    let schema = &parameter["schema"];
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    if let Some(least) = schema["minimum"].as_i64() {
        let (mut good, mut bad) = (vec![least.to_string()], vec![(least - 1).to_string()]);
        match schema["maximum"].as_i64() {
            Some(most) => {
                good.push(most.to_string());
                bad.extend([(most + 1).to_string(), u64::MAX.to_string(), "9".repeat(40)]);
            }
            None => good.extend([u64::MAX.to_string(), "9".repeat(40)]),
        }
        bad.extend([format!("+{least}"), format!("{least}.0"), format!(" {least}")]);
        bad.extend(texts(&["", "-", "x", "5s", "5e3", "0x5", "\u{661}"]));
        return (good, bad);
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|word| word.as_str().unwrap().into()).collect();
        let mut bad: Vec<String> = words.iter().map(|word| word.to_uppercase()).collect();
        bad.extend(texts(&["", "x"]));
        return (words, bad);
    }
    if let Some(most) = schema["maxLength"].as_u64() {
        let most = usize::try_from(most).unwrap();
        let mut good = vec!["x".repeat(most), "\u{10348}".repeat(most / 4), "\u{e9} /?&%".into()];
        let mut bad = vec!["x".repeat(most + 1), "\u{10348}".repeat(most / 4 + 1)];
        bad.extend(texts(&["\0", "a\n", "\u{7f}", "a\u{85}b"]));
        if schema["minLength"] == 0 { &mut good } else { &mut bad }.push(String::new());
        return (good, bad);
    }
    match parameter["name"].as_str().unwrap() {
        "session" => {
            let digits = "0123456789abcdef0123456789abcde";
            let good = vec![format!("{digits}f")];
            let bad = ["", "F", "g", "0f", " "].map(|end| format!("{digits}{end}"));
            (good, bad.to_vec())
        }
        "after" => {
            (texts(&["/locks/a", "/queues/a/b"]), texts(&["", "a", "/", "/locks", "/locks/"]))
        }
        "prefix" => (texts(&["", "a", "\n"]), Vec::new()),
        other => panic!("the document says nothing of {other}"),
    }
}

#[test]
fn the_server_takes_what_the_document_allows_and_nothing_else() {
    let (_server, address) = start(Options::default());
    let mut reader = Reader::new(address);
    let document = reader.document();
    let mut compared = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        // What is asked with GET has no parameters, and the other one has an object.
        let Some(parameters) = item["post"]["parameters"].as_array() else { continue };
        let operation = Operation { path, described: &item["post"] };
        for parameter in parameters {
            reader.compare(&operation, parameter);
            compared += 1;
        }
        assert_eq!(operation.has("session"), operation.has("acked"), "{path}");
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn a_message_null_is_a_body() {
    let (_server, address) = start(Options::default());
    let mut browser = Browser::connect(address);
    assert_eq!(browser.post("/v1/queues/q/CREATE", "").status, 200);
    for body in ["", "null", "[]"] {
        assert_eq!(browser.post("/v1/queues/q/PUT", body).status, 200);
        let taken = browser.post("/v1/queues/q/TAKE?timeout=0", "");
        assert_eq!(taken.header("Content-Type"), "application/json");
        assert_eq!(taken.body, if body.is_empty() { "null" } else { body });
    }
    assert_eq!(browser.post("/v1/queues/q/TAKE?timeout=0", "").status, 204);
}

#[test]
fn a_document_says_whether_tokens_are_wanted() {
    let (_server, address) = start(Options::default());
    assert_eq!(Reader::new(address).document()["security"], serde_json::json!([]));
    let (_server, address) = super::strangers::guarded(Options::default());
    let document = Reader::new(address).document();
    assert_eq!(document["security"], serde_json::json!([{ "token": [] }]));
    let open = serde_json::json!([]);
    assert_eq!(document["paths"]["/healthz"]["get"]["security"], open);
    assert!(document["paths"]["/metrics"]["get"]["security"].is_null());
}

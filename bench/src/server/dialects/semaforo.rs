//! Ours: JSON objects, a line each in the direction of the client.

use serde_json::Value;

use super::{Dialect, PAYLOAD, Refusal, Seen, Step, line, no_such_step};

/// What a right answer begins with.
const DONE: &[u8] = br#"{"Status":200"#;

pub(in super::super) struct Semaforo {
    name: String,
    preparation: Preparation,
    put: Vec<u8>,
    lock: Vec<u8>,
    unlock: Vec<u8>,
    /// Requests get ids, so that many of them can wait on one connection.
    numbered: bool,
    next_id: u64,
}

enum Preparation {
    Queue,
    Session,
}

impl Semaforo {
    /// A client that uses this name for its locks, which are held by its connection.
    pub(in super::super) fn new(name: &str) -> Semaforo {
        let put = format!(r#"{{"Method":"PUT","Path":"q","Payload":"{PAYLOAD}"}}"#);
        let (lock, unlock) = (on_lock("ACQUIRE", name, ""), on_lock("RELEASE", name, ""));
        Semaforo {
            name: name.to_owned(),
            preparation: Preparation::Queue,
            put: put.into_bytes(),
            lock,
            unlock,
            numbered: false,
            next_id: 0,
        }
    }

    /// A client whose locks are held by a named session, which is opened by [`Step::Prepare`].
    pub(in super::super) fn with_session(name: &str) -> Semaforo {
        Semaforo { preparation: Preparation::Session, ..Semaforo::new(name) }
    }

    /// A client whose requests to lock and to ping do not wait for each other.
    pub(in super::super) fn with_ids(name: &str) -> Semaforo {
        Semaforo { numbered: true, ..Semaforo::new(name) }
    }

    fn prepared(&mut self, answer: &[u8]) -> Result<(), Refusal> {
        if let Preparation::Session = self.preparation {
            let refusal = || Refusal::answered(answer);
            let answer: Value = serde_json::from_slice(answer).map_err(|_| refusal())?;
            let session = answer["Headers"]["session"].as_str().ok_or_else(refusal)?;
            let headers = format!(r#","Headers":{{"session":"{session}"}}"#);
            self.lock = on_lock("ACQUIRE", &self.name, &headers);
            self.unlock = on_lock("RELEASE", &self.name, &headers);
        }
        Ok(())
    }

    fn numbered(&mut self, method: &str, path: &str, out: &mut Vec<u8>) {
        let id = self.next_id;
        self.next_id += 1;
        let request =
            format!(r#"{{"Method":"{method}","Path":"{path}","Headers":{{"id":"{id}"}}}}"#);
        out.extend(request.as_bytes());
    }
}

fn on_lock(method: &str, name: &str, headers: &str) -> Vec<u8> {
    format!(r#"{{"Method":"{method}","Path":"/locks/{name}"{headers}}}"#).into_bytes()
}

impl Dialect for Semaforo {
    fn request(&mut self, step: Step, out: &mut Vec<u8>) {
        match step {
            Step::Prepare => out.extend(match self.preparation {
                Preparation::Queue => br#"{"Method":"CREATE","Path":"q"}"#.as_slice(),
                Preparation::Session => br#"{"Method":"OPEN","Path":"/sessions"}"#,
            }),
            Step::Ping if self.numbered => self.numbered("PING", "/", out),
            Step::Ping => out.extend(br#"{"Method":"PING","Path":"/"}"#),
            Step::Put => out.extend(&self.put),
            Step::Take => out.extend(br#"{"Method":"TAKE","Path":"q"}"#),
            Step::Lock if self.numbered => {
                let path = format!("/locks/{}", self.name);
                self.numbered("ACQUIRE", &path, out);
            }
            Step::Lock => out.extend(&self.lock),
            Step::Unlock => out.extend(&self.unlock),
            Step::Count(_) => out.extend(br#"{"Method":"SHOW","Path":"q"}"#),
            Step::Acknowledge | Step::Save => no_such_step("semaforo", step),
        }
    }

    fn answer(
        &mut self,
        step: Option<Step>,
        input: &[u8],
        _out: &mut Vec<u8>,
    ) -> Result<Seen, Refusal> {
        let Some(line) = line(input) else { return Ok(Seen::Incomplete) };
        if !line.starts_with(DONE) {
            return Err(Refusal::answered(line));
        }
        match step {
            Some(Step::Prepare) => self.prepared(line)?,
            Some(Step::Count(expected)) if !counted(line, expected) => {
                return Err(Refusal::answered(line));
            }
            _ => {}
        }
        Ok(Seen::Answer(line.len()))
    }
}

/// Whether the state of a queue has this number in it.
fn counted(answer: &[u8], expected: u64) -> bool {
    let answer = serde_json::from_slice::<Value>(answer).unwrap_or_default();
    let members = answer["Payload"].as_object();
    members.is_some_and(|members| members.values().any(|value| value.as_u64() == Some(expected)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_whole, refusal};
    use super::*;

    fn client() -> Semaforo {
        Semaforo::new("l1")
    }

    fn said(client: &mut Semaforo, step: Step) -> Value {
        let mut bytes = Vec::new();
        client.request(step, &mut bytes);
        serde_json::from_slice(&bytes).expect("a request is one JSON value")
    }

    #[test]
    fn answers_end_with_their_line() {
        assert_whole(client, Step::Ping, b"{\"Status\":200}\n");
        let taken = br#"{"Status":200,"Headers":{"message":"1"},"Payload":"a\nb"}"#;
        assert_whole(client, Step::Take, &[taken.as_slice(), b"\n"].concat());
        assert_whole(client, Step::Count(7), b"{\"Status\":200,\"Payload\":{\"messages\":7}}\n");
    }

    #[test]
    fn a_no_is_not_counted() {
        assert!(refusal(client(), Step::Take, "{\"Status\":204}\n").contains("204"));
        let state = "{\"Status\":200,\"Payload\":{\"messages\":6}}\n";
        assert!(refusal(client(), Step::Count(7), state).contains("messages"));
    }

    #[test]
    fn requests_are_whole_objects() {
        for step in [Step::Prepare, Step::Ping, Step::Put, Step::Take, Step::Lock, Step::Unlock] {
            assert!(said(&mut client(), step)["Method"].is_string());
        }
        assert_eq!(said(&mut client(), Step::Put)["Payload"], PAYLOAD);
    }

    #[test]
    fn a_session_is_used_once_it_is_open() {
        let mut client = Semaforo::with_session("l1");
        let opened = b"{\"Status\":200,\"Headers\":{\"session\":\"abc\",\"ttl\":\"30000\"}}\n";
        let seen = client.answer(Some(Step::Prepare), opened, &mut Vec::new());
        assert_eq!(seen, Ok(Seen::Answer(opened.len())));
        assert_eq!(said(&mut client, Step::Lock)["Headers"]["session"], "abc");
        assert_eq!(said(&mut client, Step::Unlock)["Path"], "/locks/l1");
    }

    #[test]
    fn ids_differ() {
        let mut client = Semaforo::with_ids("l1");
        let ids = [Step::Lock, Step::Lock, Step::Ping].map(|step| said(&mut client, step));
        assert_eq!(ids.map(|request| request["Headers"]["id"].clone()), ["0", "1", "2"]);
    }
}

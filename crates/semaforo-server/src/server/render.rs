//! From the kernel's answers to bytes.

use semaforo_protocol::wire::{Value, write_answer};

use crate::kernel::{
    Answer, ConnectionKey, Content, Details, Entry, Header, HoldMode, Holder, Listing, ObjectView,
    View, Who,
};
use crate::server::json::Json;

/// Appends an answer to a connection's output. `address` says what a connection is called.
pub(super) fn render(
    output: &mut Vec<u8>,
    id: Option<&str>,
    answer: &Answer,
    address: &dyn Fn(ConnectionKey) -> String,
) {
    let status = answer.status.number();
    let numbers =
        answer.headers.iter().map(|(header, value)| (header.name(), written(header, value)));
    match &answer.content {
        Content::Session(session) => {
            let session = session.to_string();
            let headers = [("session", Value::Text(&session))].into_iter().chain(numbers);
            write_answer(output, status, id, headers, None);
        }
        Content::Nothing | Content::Message(_) | Content::Fragile(_) => {
            write_answer(output, status, id, numbers, answer.payload());
        }
        Content::Error(_) => {
            let payload = payload(answer, address);
            write_answer(output, status, id, numbers, payload.as_deref());
        }
        Content::View(_) => {
            let payload = payload(answer, address);
            render_view(output, id, answer, payload.as_deref());
        }
    }
}

/// What a number of an answer is written as.
fn written(header: Header, value: u64) -> Value<'static> {
    match header {
        Header::Created => Value::Text(if value == 0 { "false" } else { "true" }),
        _ => Value::Number(value),
    }
}

/// Appends an answer that shows something, whose payload was made already. A list that does not end
/// says behind what it goes on.
pub(super) fn render_view(
    output: &mut Vec<u8>,
    id: Option<&str>,
    answer: &Answer,
    payload: Option<&[u8]>,
) {
    let after = match &answer.content {
        Content::View(view) => match &**view {
            View::List(Listing { entries, has_more: true }) => entries.last(),
            _ => None,
        },
        _ => None,
    };
    let after = after.map(|last| format!("/{}/{}", last.kind.plural(), last.name));
    let headers = after.as_deref().map(|after| ("after", Value::Text(after)));
    write_answer(output, answer.status.number(), id, headers, payload);
}

/// The payload of an answer, as JSON.
pub(super) fn payload(
    answer: &Answer,
    address: &dyn Fn(ConnectionKey) -> String,
) -> Option<Vec<u8>> {
    match &answer.content {
        Content::Nothing | Content::Session(_) => None,
        Content::Message(payload) => Some(payload.to_vec()),
        Content::Fragile(parcel) => Some(parcel.payload().to_vec()),
        Content::Error(reason) => {
            let mut json = Json::default();
            json.object(|json| json.text("error", reason));
            Some(json.bytes)
        }
        Content::View(view) => {
            let mut json = Json::default();
            match &**view {
                View::Object(object) => json.object(|json| show(json, object, address)),
                View::List(Listing { entries, .. }) => json.array(entries, |json, entry| {
                    json.object(|json| list(json, entry));
                }),
            }
            Some(json.bytes)
        }
    }
}

fn list(json: &mut Json, entry: &Entry) {
    json.text("kind", entry.kind.singular());
    json.text("name", &entry.name);
    json.number("held", entry.held as u64);
    json.number("waiting", entry.waiting as u64);
}

fn show(json: &mut Json, object: &ObjectView, address: &dyn Fn(ConnectionKey) -> String) {
    json.text("kind", object.kind.singular());
    json.text("name", &object.name);
    match object.details {
        Details::None => {}
        Details::Semaphore { permits, available, open } => {
            json.number("permits", permits.into());
            json.number("available", available.into());
            json.flag("open", open);
        }
        Details::Latch { count, start } => {
            json.number("count", count);
            json.number("start", start.into());
        }
        Details::Event { set, auto } => {
            json.flag("set", set);
            json.text("reset", if auto { "auto" } else { "manual" });
        }
        Details::Barrier { parties, generation, broken } => {
            json.number("parties", parties.into());
            json.number("generation", generation);
            json.flag("broken", broken);
        }
        Details::Queue { capacity, ready, delayed, out, bytes } => {
            json.number("capacity", capacity);
            json.number("ready", ready as u64);
            json.number("delayed", delayed as u64);
            json.number("out", out as u64);
            json.number("bytes", bytes);
        }
    }
    json.number("held", object.held as u64);
    json.key("holders");
    json.array(&object.holders, |json, Holder { fence, mode, who }| {
        json.object(|json| {
            json.text("who", &called(who, address));
            json.number("fence", *fence);
            match mode {
                HoldMode::Permits(permits) => json.number("permits", (*permits).into()),
                HoldMode::Read => json.text("mode", "read"),
                HoldMode::Write => json.text("mode", "write"),
            }
        });
    });
    json.number("waiting", object.waiting as u64);
    json.key("waiters");
    json.array(&object.waiters, |json, who| json.string(&called(who, address)));
}

fn called(who: &Who, address: &dyn Fn(ConnectionKey) -> String) -> String {
    match who {
        Who::Connection(key) => address(*key),
        Who::Session(label) => label.to_string(),
    }
}

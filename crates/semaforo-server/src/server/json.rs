//! Writes JSON, member after member: answers, lines of the log, refusals of HTTP.

use semaforo_protocol::wire::write_string;

/// JSON that is being written.
#[derive(Debug, Default)]
pub(super) struct Json {
    pub(super) bytes: Vec<u8>,
    follows: bool,
}

impl Json {
    /// An object and a newline, behind what is there.
    pub(super) fn line(output: &mut Vec<u8>, members: impl FnOnce(&mut Self)) {
        let mut json = Self { bytes: std::mem::take(output), follows: false };
        json.object(members);
        json.bytes.push(b'\n');
        *output = json.bytes;
    }

    pub(super) fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.bytes.push(b'{');
        self.follows = false;
        members(self);
        self.bytes.push(b'}');
        self.follows = true;
    }

    pub(super) fn array<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.bytes.push(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.bytes.push(b',');
            }
            each(self, item);
        }
        self.bytes.push(b']');
        self.follows = true;
    }

    pub(super) fn key(&mut self, name: &str) {
        if std::mem::replace(&mut self.follows, true) {
            self.bytes.push(b',');
        }
        write_string(&mut self.bytes, name);
        self.bytes.push(b':');
    }

    pub(super) fn string(&mut self, text: &str) {
        write_string(&mut self.bytes, text);
    }

    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.key(name);
        self.string(text);
    }

    pub(super) fn number(&mut self, name: &str, number: u64) {
        self.key(name);
        self.bytes.extend_from_slice(number.to_string().as_bytes());
    }

    pub(super) fn flag(&mut self, name: &str, flag: bool) {
        self.key(name);
        self.bytes.extend_from_slice(if flag { b"true" } else { b"false" });
    }
}

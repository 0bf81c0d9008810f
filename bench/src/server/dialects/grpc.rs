//! As much of HTTP/2, HPACK and protobuf as a client needs that makes one call at a time and knows
//! whom it is talking to. A whole gRPC library would be a contestant of its own in the profile.

use super::{Refusal, Seen};

/// The preface, no settings, and a window for the connection that no run uses up.
pub(super) const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\x00\x00";

const FRAME_HEAD: usize = 9;
/// Before every message: not compressed, and four bytes of length.
const MESSAGE_HEAD: usize = 5;

mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RESET_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PING: u8 = 6;
    pub(super) const GO_AWAY: u8 = 7;
}

const END_STREAM: u8 = 0x1;
const ACKNOWLEDGED: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// A request that can be made again and again.
pub(super) struct Call {
    headers: Vec<u8>,
    message: Vec<u8>,
}

impl Call {
    pub(super) fn new(path: &str, message: Vec<u8>) -> Call {
        // POST and http are entries of the static table; the others are written out.
        let mut headers = vec![0x83, 0x86];
        literal(&mut headers, &[0x04], path);
        literal(&mut headers, &[0x01], "localhost");
        literal(&mut headers, &[0x0f, 31 - 15], "application/grpc");
        literal(&mut headers, b"\x00\x02te", "trailers");
        Call { headers, message }
    }

    pub(super) fn write(&self, stream: u32, out: &mut Vec<u8>) {
        write_head(out, self.headers.len(), kind::HEADERS, END_HEADERS, stream);
        out.extend(&self.headers);
        let length = self.message.len();
        write_head(out, MESSAGE_HEAD + length, kind::DATA, END_STREAM, stream);
        out.push(0);
        out.extend((length as u32).to_be_bytes());
        out.extend(&self.message);
    }
}

/// A header that is not to be remembered: how its name is written, and its value, which is short.
fn literal(headers: &mut Vec<u8>, name: &[u8], value: &str) {
    headers.extend(name);
    headers.push(value.len() as u8);
    headers.extend(value.as_bytes());
}

fn write_head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend(&(length as u32).to_be_bytes()[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
}

/// What has come of the answer to the one call.
#[derive(Default)]
pub(super) struct Reply {
    message: Option<Vec<u8>>,
}

impl Reply {
    /// Reads one frame. The message is complete once this is an answer.
    pub(super) fn read(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Seen, Refusal> {
        let Some(&[high, middle, low, kind, flags, ..]) = input.first_chunk::<FRAME_HEAD>() else {
            return Ok(Seen::Incomplete);
        };
        let end = FRAME_HEAD + u32::from_be_bytes([0, high, middle, low]) as usize;
        let Some(body) = input.get(FRAME_HEAD..end) else { return Ok(Seen::Incomplete) };
        match kind {
            kind::DATA => self.message = body.get(MESSAGE_HEAD..).map(<[u8]>::to_vec),
            kind::SETTINGS if flags & ACKNOWLEDGED == 0 => {
                write_head(out, 0, kind::SETTINGS, ACKNOWLEDGED, 0);
            }
            kind::PING if flags & ACKNOWLEDGED == 0 => {
                write_head(out, body.len(), kind::PING, ACKNOWLEDGED, 0);
                out.extend(body);
            }
            kind::RESET_STREAM | kind::GO_AWAY => return Err(Refusal::answered(body)),
            _ => {}
        }
        let ends = matches!(kind, kind::DATA | kind::HEADERS) && flags & END_STREAM != 0;
        Ok(if ends { Seen::Answer(end) } else { Seen::Aside(end) })
    }

    /// None if the call failed: then there are only headers, in which the reason is compressed.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        self.message.take()
    }
}

/// A protobuf message, field by field.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn number(mut self, field: u8, value: u64) -> Message {
        self.0.push(field << 3);
        self.varint(value);
        self
    }

    pub(super) fn bytes(mut self, field: u8, value: &[u8]) -> Message {
        self.0.push(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    pub(super) fn message(self, field: u8, value: Message) -> Message {
        self.bytes(field, &value.0)
    }

    pub(super) fn encoded(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Field<'message> {
    Number(u64),
    Bytes(&'message [u8]),
}

/// The first field of this number; numbers and strings are all that is used here.
pub(super) fn field(mut message: &[u8], wanted: u64) -> Option<Field<'_>> {
    loop {
        let key = varint(&mut message)?;
        let value = match key & 7 {
            0 => Field::Number(varint(&mut message)?),
            2 => {
                let length = varint(&mut message)? as usize;
                let (value, rest) = message.split_at_checked(length)?;
                message = rest;
                Field::Bytes(value)
            }
            _ => return None,
        };
        if key >> 3 == wanted {
            return Some(value);
        }
    }
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let message = Message::default()
            .number(1, 300)
            .message(2, Message::default().bytes(1, b"inner"))
            .number(3, u64::MAX)
            .encoded();
        assert_eq!(field(&message, 1), Some(Field::Number(300)));
        assert_eq!(field(&message, 2), Some(Field::Bytes(b"\x0a\x05inner")));
        assert_eq!(field(&message, 3), Some(Field::Number(u64::MAX)));
        assert_eq!(field(&message, 4), None);
        for cut in 0..message.len() {
            assert_eq!(field(&message[..cut], 4), None);
        }
    }

    #[test]
    fn an_answer_ends_with_its_stream() {
        let mut frames = Vec::new();
        write_head(&mut frames, 1, kind::HEADERS, END_HEADERS, 1);
        frames.push(0x88);
        write_head(&mut frames, 7, kind::DATA, 0, 1);
        frames.extend(b"\x00\x00\x00\x00\x02\x10\x01");
        write_head(&mut frames, 0, kind::HEADERS, END_HEADERS | END_STREAM, 1);

        let (mut reply, mut input, mut out) = (Reply::default(), frames.as_slice(), Vec::new());
        for cut in 0..10 {
            assert_eq!(reply.read(&input[..cut], &mut out), Ok(Seen::Incomplete));
        }
        for expected in [Seen::Aside(10), Seen::Aside(16), Seen::Answer(9)] {
            assert_eq!(reply.read(input, &mut out), Ok(expected));
            let (Seen::Aside(length) | Seen::Answer(length)) = expected else { unreachable!() };
            input = &input[length..];
        }
        assert_eq!(reply.take(), Some(b"\x10\x01".to_vec()));
        assert_eq!((reply.take(), out), (None, vec![]));
    }

    #[test]
    fn what_the_protocol_asks_for_is_sent_back() {
        let mut input = Vec::new();
        write_head(&mut input, 8, kind::PING, 0, 0);
        input.extend(b"12345678");
        let mut out = Vec::new();
        assert_eq!(Reply::default().read(&input, &mut out), Ok(Seen::Aside(17)));
        assert_eq!(out, b"\x00\x00\x08\x06\x01\x00\x00\x00\x0012345678");
    }
}

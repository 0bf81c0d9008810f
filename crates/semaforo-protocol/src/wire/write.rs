//! Writes requests and answers.

use super::stretch::unescaped;

/// The value of a header. It is always written as a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// Any text.
    Text(&'a str),
}

/// Appends an answer and a newline.
///
/// The payload has to be JSON, and is written as it is.
#[inline]
pub fn write_answer<'a>(
    output: &mut Vec<u8>,
    status: u16,
    id: Option<&str>,
    headers: impl IntoIterator<Item = (&'a str, Value<'a>)>,
    payload: Option<&[u8]>,
) {
    output.extend_from_slice(b"{\"Status\":");
    write_number(output, u64::from(status));
    let mut is_first = true;
    if let Some(id) = id {
        write_header(output, &mut is_first, "id", Value::Text(id));
    }
    write_rest(output, is_first, headers, payload);
}

/// Appends a request and a newline.
///
/// The payload has to be JSON, and is written as it is.
#[inline]
pub fn write_request<'a>(
    output: &mut Vec<u8>,
    method: &str,
    path: &str,
    headers: impl IntoIterator<Item = (&'a str, Value<'a>)>,
    payload: Option<&[u8]>,
) {
    output.extend_from_slice(b"{\"Method\":");
    write_string(output, method);
    if !path.is_empty() {
        output.extend_from_slice(b",\"Path\":");
        write_string(output, path);
    }
    write_rest(output, true, headers, payload);
}

#[inline]
fn write_rest<'a>(
    output: &mut Vec<u8>,
    mut is_first: bool,
    headers: impl IntoIterator<Item = (&'a str, Value<'a>)>,
    payload: Option<&[u8]>,
) {
    for (name, value) in headers {
        write_header(output, &mut is_first, name, value);
    }
    if !is_first {
        output.push(b'}');
    }
    if let Some(payload) = payload {
        output.extend_from_slice(b",\"Payload\":");
        output.extend_from_slice(payload);
    }
    output.extend_from_slice(b"}\n");
}

#[inline]
fn write_header(output: &mut Vec<u8>, is_first: &mut bool, name: &str, value: Value<'_>) {
    let before: &[u8] = if *is_first { b",\"Headers\":{" } else { b"," };
    *is_first = false;
    output.extend_from_slice(before);
    write_string(output, name);
    output.push(b':');
    match value {
        Value::Number(number) => {
            output.push(b'"');
            write_number(output, number);
            output.push(b'"');
        }
        Value::Text(text) => write_string(output, text),
    }
}

#[inline]
fn write_number(output: &mut Vec<u8>, mut number: u64) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    for place in digits.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
        start -= 1;
        if number == 0 {
            break;
        }
    }
    output.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// Appends a text as a JSON string, in quotes and with what needs it escaped.
#[inline]
pub fn write_string(output: &mut Vec<u8>, text: &str) {
    output.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(unescaped(rest));
        output.extend_from_slice(plain);
        let Some((special, after)) = special.split_first() else { break };
        write_escape(output, *special);
        rest = after;
    }
    output.push(b'"');
}

#[cold]
fn write_escape(output: &mut Vec<u8>, byte: u8) {
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let digit = |digit: u8| if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
            let escape = [b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)];
            return output.extend_from_slice(&escape);
        }
    };
    output.extend_from_slice(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Answer, Limits, Request, Scan, Scanner};

    #[test]
    fn what_has_nothing_to_say_is_left_out() {
        let mut output = Vec::new();
        write_answer(&mut output, 200, None, [], None);
        write_answer(&mut output, 204, Some("a\"b"), [], Some(b"[1, 2]"));
        write_answer(&mut output, 200, None, [("fence", Value::Number(0))], None);
        write_request(&mut output, "PING", "", [], None);
        write_request(&mut output, "PUT", "/queues/ü\n", [("x", Value::Text("\u{1}"))], Some(b"1"));
        let expected = "{\"Status\":200}\n\
            {\"Status\":204,\"Headers\":{\"id\":\"a\\\"b\"},\"Payload\":[1, 2]}\n\
            {\"Status\":200,\"Headers\":{\"fence\":\"0\"}}\n\
            {\"Method\":\"PING\"}\n\
            {\"Method\":\"PUT\",\"Path\":\"/queues/ü\\n\",\"Headers\":{\"x\":\"\\u0001\"},\"Payload\":1}\n";
        assert_eq!(String::from_utf8(output).unwrap(), expected);
    }

    #[test]
    fn numbers() {
        for number in [0, 9, 10, 99, 100, 12_345, u64::MAX] {
            let mut output = Vec::new();
            write_number(&mut output, number);
            assert_eq!(String::from_utf8(output).unwrap(), number.to_string());
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            method in any::<String>(),
            path in any::<String>(),
            values in proptest::collection::vec(any::<String>(), 0..12),
            number in any::<u64>(),
        ) {
            let names: Vec<String> = (0..values.len()).map(|index| format!("h{index}")).collect();
            let headers = || {
                let texts = names.iter().zip(&values);
                let texts = texts.map(|(name, value)| (&**name, Value::Text(value)));
                texts.chain([("number", Value::Number(number))])
            };
            let payload = serde_json::to_vec(&values).unwrap();

            let mut output = Vec::new();
            write_request(&mut output, &method, &path, headers(), Some(&payload));
            let first = output.len();
            write_answer(&mut output, 200, Some(&path), headers(), Some(&payload));

            let mut scanner = Scanner::new();
            let found = scanner.scan(&output, &Limits::default()).unwrap();
            prop_assert_eq!(found, Scan::Frame { start: 0, end: first - 1 });
            let request = Request::parse(&output[..first - 1]).unwrap();
            prop_assert_eq!(&*request.method, &*method);
            prop_assert_eq!(&*request.path, &*path);
            prop_assert_eq!(request.payload, Some(&*payload));
            let mut read: Vec<_> = request.headers.iter().collect();
            let mut written: Vec<_> =
                names.iter().zip(&values).map(|(name, value)| (&**name, &**value)).collect();
            let number = number.to_string();
            written.push(("number", &number));
            read.sort_unstable();
            written.sort_unstable();
            prop_assert_eq!(read, written);

            let found = scanner.scan(&output[first..], &Limits::default()).unwrap();
            prop_assert_eq!(found, Scan::Frame { start: 0, end: output.len() - first - 1 });
            let answer = Answer::parse(&output[first..output.len() - 1]).unwrap();
            prop_assert_eq!(answer.status, 200);
            prop_assert_eq!(answer.headers.get("id"), Some(&*path));
            prop_assert_eq!(answer.payload, Some(&*payload));
        }
    }
}

//! Percent-encoding of paths, queries and header values.

use super::Refusal;

/// Undoes percent-encoding. In a query, a plus is a space.
pub(super) fn decode(text: &str, in_query: bool) -> Result<String, Refusal> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'%' => {
                let value = match after {
                    [high, low, ..] => digit(*high).zip(digit(*low)),
                    _ => None,
                };
                let Some((high, low)) = value else {
                    return Err(Refusal::new(
                        400,
                        format_args!(
                            "'{text}': a percent sign must be followed by two hexadecimal digits"
                        ),
                    ));
                };
                bytes.push(high << 4 | low);
                rest = after.get(2..).unwrap_or_default();
            }
            b'+' if in_query => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| Refusal::new(400, format_args!("'{text}' is not UTF-8 when decoded")))
}

fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).map(|digit| digit as u8)
}

/// Appends text as the value of a header: what is not visible ASCII is percent-encoded.
pub(super) fn write_header_value(output: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        if (byte.is_ascii_graphic() && byte != b'%') || byte == b' ' {
            output.push(byte);
        } else {
            output.push(b'%');
            for digit in [byte >> 4, byte & 15] {
                output.push(b"0123456789ABCDEF".get(usize::from(digit)).copied().unwrap_or(b'0'));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_and_refuses() {
        assert_eq!(decode("a%2Fb%20c+d", false).unwrap(), "a/b c+d");
        assert_eq!(decode("a+b%c3%A9", true).unwrap(), "a bé");
        for wrong in ["%", "%2", "%zz", "a%c3", "%+1"] {
            assert_eq!(decode(wrong, false).unwrap_err().status, 400, "{wrong}");
        }
    }

    #[test]
    fn header_values_cannot_break_out() {
        let mut output = Vec::new();
        write_header_value(&mut output, "a b\r\nX: 1%é");
        assert_eq!(output, b"a b%0D%0AX: 1%25%C3%A9");
    }
}

//! Reads the outermost level of a frame: its members, and the headers among them.
//!
//! The scanner has checked the grammar. It is not checked again here, but whatever the bytes are,
//! the worst that comes out is an error or a payload that is not JSON.

use std::borrow::Cow;
use std::fmt;

use super::headers::Headers;
use super::stretch::unescaped;

/// The most headers, and the most unknown members, of one object. Looking for two of the same name
/// takes time that grows with their square.
pub const MOST_NAMES: usize = 64;

/// Why an object is not a request, or not an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Not a JSON object. Does not come of what the scanner found.
    Malformed,
    /// A member that has to be there is not.
    Missing(&'static str),
    /// A member is not what it has to be.
    WrongType {
        /// Its name.
        member: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// Two members, or two headers, have names that are equal or differ only in case.
    Twice(String),
    /// A header's value is an array or an object.
    HeaderValue(String),
    /// There are more headers, or more unknown members, than anyone needs.
    TooMany {
        /// The limit.
        limit: usize,
    },
}

impl RequestError {
    /// The status of the answer.
    #[must_use]
    pub const fn status(&self) -> u16 {
        400
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => write!(f, "malformed JSON: expected an object, {{...}}"),
            Self::Missing(member) => write!(f, "no {member}"),
            Self::WrongType { member, expected } => write!(f, "{member} has to be {expected}"),
            Self::Twice(name) => write!(f, "{name:?} is there twice (case does not count)"),
            Self::HeaderValue(name) => {
                write!(f, "header {name:?} has to be a string, a number, true or false")
            }
            Self::TooMany { limit } => {
                write!(f, "more than {limit} headers, or more than {limit} unknown members")
            }
        }
    }
}

impl std::error::Error for RequestError {}

/// A place in the text of a frame.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

type Result<T> = std::result::Result<T, RequestError>;

impl<'a> Reader<'a> {
    pub(super) fn new(frame: &'a [u8]) -> Result<Self> {
        let text = std::str::from_utf8(frame).map_err(|_| RequestError::Malformed)?;
        Ok(Self { text, at: 0 })
    }

    /// Calls `each` with the name of each member of the object here, after its colon.
    #[inline]
    pub(super) fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        self.expect(b'{')?;
        if self.next_is(b'}') {
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            each(self, name)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(RequestError::Malformed),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// A string, or nothing for `null`.
    #[inline]
    pub(super) fn optional_string(&mut self, member: &'static str) -> Result<Option<Cow<'a, str>>> {
        match self.peek() {
            Some(b'"') => self.string().map(Some),
            _ if self.value()? == b"null" => Ok(None),
            _ => Err(RequestError::WrongType { member, expected: "a string" }),
        }
    }

    /// The bytes of any value, or nothing for `null`.
    #[inline]
    pub(super) fn optional_value(&mut self) -> Result<Option<&'a [u8]>> {
        let value = self.value()?;
        Ok((value != b"null").then_some(value))
    }

    /// An object of headers, or nothing for `null`.
    pub(super) fn headers(&mut self, headers: &mut Headers<'a>) -> Result<()> {
        if self.peek() != Some(b'{') {
            if self.value()? == b"null" {
                return Ok(());
            }
            return Err(RequestError::WrongType { member: "Headers", expected: "an object" });
        }
        self.members(|reader, name| {
            if headers.count() == MOST_NAMES {
                return Err(RequestError::TooMany { limit: MOST_NAMES });
            }
            let value = match reader.peek() {
                Some(b'"') => Some(reader.string()?),
                Some(b'{' | b'[') => return Err(RequestError::HeaderValue(name.into_owned())),
                _ => {
                    let start = reader.at;
                    reader.value()?;
                    let text = reader.text.get(start..reader.at).unwrap_or_default();
                    (text != "null").then_some(Cow::Borrowed(text))
                }
            };
            headers.add(name, value).map_err(|name| RequestError::Twice(name.into_owned()))
        })
    }

    /// The next byte that is not white space, which is where the reader is then.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(*byte),
            }
        }
    }

    #[inline]
    fn next_is(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.next_is(byte) { Ok(()) } else { Err(RequestError::Malformed) }
    }

    #[inline]
    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    #[inline]
    fn string(&mut self) -> Result<Cow<'a, str>> {
        match self.plain_string() {
            Some(text) => Ok(Cow::Borrowed(text)),
            None => self.any_string(),
        }
    }

    /// A string without escapes. If it is not one, the reader stays where it is.
    #[inline]
    fn plain_string(&mut self) -> Option<&'a str> {
        if self.peek() != Some(b'"') {
            return None;
        }
        let start = self.at + 1;
        let end = start + unescaped(self.text.as_bytes().get(start..)?);
        if self.text.as_bytes().get(end) != Some(&b'"') {
            return None;
        }
        self.at = end + 1;
        self.text.get(start..end)
    }

    #[cold]
    fn any_string(&mut self) -> Result<Cow<'a, str>> {
        self.expect(b'"')?;
        let start = self.at;
        self.at += unescaped(self.bytes());
        self.escaped_string(start).map(Cow::Owned)
    }

    /// The rest of a string that has an escape here.
    fn escaped_string(&mut self, start: usize) -> Result<String> {
        let mut string = self.text.get(start..self.at).ok_or(RequestError::Malformed)?.to_owned();
        loop {
            match self.next_byte()? {
                b'"' => return Ok(string),
                b'\\' => string.push(self.escape()?),
                _ => return Err(RequestError::Malformed),
            }
            let start = self.at;
            self.at += unescaped(self.bytes());
            string.push_str(self.text.get(start..self.at).ok_or(RequestError::Malformed)?);
        }
    }

    /// What is after a backslash.
    fn escape(&mut self) -> Result<char> {
        Ok(match self.next_byte()? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let mut units = [self.hex()?, 0];
                let mut length = 1;
                if (0xd800..0xdc00).contains(&units[0]) {
                    if self.next_byte()? != b'\\' || self.next_byte()? != b'u' {
                        return Err(RequestError::Malformed);
                    }
                    units[1] = self.hex()?;
                    length = 2;
                }
                let mut characters = char::decode_utf16(units.into_iter().take(length));
                match (characters.next(), characters.next()) {
                    (Some(Ok(character)), None) => character,
                    _ => return Err(RequestError::Malformed),
                }
            }
            _ => return Err(RequestError::Malformed),
        })
    }

    fn hex(&mut self) -> Result<u16> {
        let mut hex = 0;
        for _ in 0..4 {
            let digit = char::from(self.next_byte()?).to_digit(16);
            hex = (hex << 4) | digit.ok_or(RequestError::Malformed)?;
        }
        u16::try_from(hex).map_err(|_| RequestError::Malformed)
    }

    fn next_byte(&mut self) -> Result<u8> {
        let byte = self.text.as_bytes().get(self.at).copied().ok_or(RequestError::Malformed)?;
        self.at += 1;
        Ok(byte)
    }

    /// The bytes of a value, without white space around them.
    pub(super) fn value(&mut self) -> Result<&'a [u8]> {
        let first = self.peek().ok_or(RequestError::Malformed)?;
        let start = self.at;
        match first {
            b'"' => self.skip_string()?,
            b'{' | b'[' => self.skip_nested()?,
            _ => {
                let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.');
                let length = self.bytes().iter().take_while(|byte| is_part(byte)).count();
                if length == 0 {
                    return Err(RequestError::Malformed);
                }
                self.at += length;
            }
        }
        self.text.as_bytes().get(start..self.at).ok_or(RequestError::Malformed)
    }

    #[inline]
    fn skip_string(&mut self) -> Result<()> {
        self.at += 1;
        loop {
            self.at += unescaped(self.bytes());
            match self.text.as_bytes().get(self.at) {
                Some(b'"') => break self.at += 1,
                Some(b'\\') => self.at += 2,
                _ => return Err(RequestError::Malformed),
            }
        }
        Ok(())
    }

    fn skip_nested(&mut self) -> Result<()> {
        let mut depth = 0_usize;
        loop {
            match self.text.as_bytes().get(self.at).ok_or(RequestError::Malformed)? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

/// Those names of members that say nothing to us, to find out whether there are two of a name.
#[derive(Default)]
pub(super) struct Unknown<'a>(Vec<Cow<'a, str>>);

impl<'a> Unknown<'a> {
    #[cold]
    pub(super) fn add(&mut self, name: Cow<'a, str>) -> Result<()> {
        if self.0.iter().any(|other| other.eq_ignore_ascii_case(&name)) {
            return Err(RequestError::Twice(name.into_owned()));
        }
        if self.0.len() == MOST_NAMES {
            return Err(RequestError::TooMany { limit: MOST_NAMES });
        }
        self.0.push(name);
        Ok(())
    }
}

/// Whether this is the name, which nearly everyone writes exactly so.
#[inline]
pub(super) fn is(name: &str, expected: &str) -> bool {
    name == expected || (name.len() == expected.len() && name.eq_ignore_ascii_case(expected))
}

/// Notes that a member was there, which it must not have been before.
#[inline]
pub(super) fn once(seen: &mut bool, name: &str) -> Result<()> {
    if std::mem::replace(seen, true) {
        return Err(RequestError::Twice(name.to_owned()));
    }
    Ok(())
}

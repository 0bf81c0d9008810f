//! Finds where a JSON object ends, and checks all of its grammar on the way.
//!
//! The scanner looks at every byte once, however the bytes arrive: it can stop between any two of
//! them, also within a number, an escape or a character, and what it has to know is in its state.
//! Most bytes of a request are within strings, and there it takes eight at a time.

use std::fmt;

use super::stretch::plain;

/// How large and how deep an object may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of an object, and also of the white space before it.
    pub size: usize,
    /// The deepest nesting, the object itself being 1. At most 64.
    pub depth: usize,
}

impl Limits {
    /// The size unless told otherwise: a request is a message, not a file.
    pub const SIZE: usize = 1 << 20;
    /// The deepest nesting that can be had: the scanner keeps one bit for each level.
    pub const DEPTH: usize = 64;
}

impl Default for Limits {
    fn default() -> Self {
        Self { size: Self::SIZE, depth: Self::DEPTH }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// More bytes are needed.
    Incomplete,
    /// An object, from `start` up to, not including, `end`.
    Frame {
        /// Where it begins, after white space.
        start: usize,
        /// Where it ends, and the next one may begin.
        end: usize,
    },
}

/// Why there is no object. Nothing that follows can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// This is not JSON.
    Malformed {
        /// The offset of the first byte that cannot be.
        at: usize,
        /// What could have been there.
        expected: &'static str,
    },
    /// A JSON value, but not an object.
    NotAnObject {
        /// The offset of its first byte.
        at: usize,
    },
    /// Text that is not UTF-8.
    InvalidUtf8 {
        /// The offset of the first byte that cannot be.
        at: usize,
    },
    /// More bytes than the limit.
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// Nested deeper than the limit.
    TooDeep {
        /// The limit.
        limit: usize,
    },
}

impl FrameError {
    /// The status of the answer: 413 if it is too large or too deep, otherwise 400.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Malformed { .. } | Self::NotAnObject { .. } | Self::InvalidUtf8 { .. } => 400,
            Self::TooLarge { .. } | Self::TooDeep { .. } => 413,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { at, expected } => {
                write!(f, "malformed JSON at byte {at}: expected {expected}")
            }
            Self::NotAnObject { at } => {
                write!(f, "a JSON value at byte {at} that is not an object: expected {{...}}")
            }
            Self::InvalidUtf8 { at } => write!(f, "not UTF-8 at byte {at}"),
            Self::TooLarge { limit } => write!(f, "larger than the limit of {limit} bytes"),
            Self::TooDeep { limit } => write!(f, "nested deeper than the limit of {limit}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// What the next byte can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first byte of the connection: also a byte-order mark.
    Beginning,
    /// Within the byte-order mark.
    Mark2,
    Mark3,
    /// Between objects.
    Between,
    /// After `{`.
    FirstName,
    /// After a comma in an object.
    Name,
    Colon,
    /// After `[`.
    FirstElement,
    Value,
    AfterValue,
    Text,
    Escape,
    /// Within `\uXXXX`.
    Hex,
    /// After the first half of a surrogate pair.
    PairEscape,
    PairLetter,
    /// Within a character of several bytes.
    Character,
    /// After a minus sign.
    Minus,
    /// After a leading zero.
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
    /// Within `true`, `false` or `null`.
    Literal,
}

/// The rest of a UTF-8 character: how many bytes, and between which bounds the next one is.
#[derive(Clone, Copy, Debug)]
struct Rest {
    bytes: u8,
    lowest: u8,
    highest: u8,
}

impl Rest {
    const NONE: Self = Self { bytes: 0, lowest: 0x80, highest: 0xbf };

    /// What has to follow this first byte (no overlong forms, no surrogates, nothing above
    /// U+10FFFF).
    #[inline]
    const fn of(first: u8) -> Option<Self> {
        let (bytes, lowest, highest) = match first {
            0xc2..=0xdf => (1, 0x80, 0xbf),
            0xe0 => (2, 0xa0, 0xbf),
            0xe1..=0xec | 0xee..=0xef => (2, 0x80, 0xbf),
            0xed => (2, 0x80, 0x9f),
            0xf0 => (3, 0x90, 0xbf),
            0xf1..=0xf3 => (3, 0x80, 0xbf),
            0xf4 => (3, 0x80, 0x8f),
            _ => return None,
        };
        Some(Self { bytes, lowest, highest })
    }
}

/// Finds the objects in the bytes of a connection.
#[derive(Clone, Debug)]
pub struct Scanner {
    /// How far it has looked.
    position: usize,
    /// Where the object begins; meaningless between objects.
    start: usize,
    /// One bit for each level, the innermost lowest: an object, not an array.
    objects: u64,
    depth: u8,
    state: State,
    /// The text that is being read is the name of a member.
    is_name: bool,
    /// What is left of the literal.
    literal: &'static [u8],
    rest: Rest,
    /// The digits of `\uXXXX` so far, and how many.
    hex: u16,
    hex_digits: u8,
    /// This escape has to be the second half of a surrogate pair.
    is_second: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
const fn malformed(at: usize, expected: &'static str) -> FrameError {
    FrameError::Malformed { at, expected }
}

impl Scanner {
    /// A scanner for a new connection, at whose beginning a byte-order mark is skipped.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            position: 0,
            start: 0,
            objects: 0,
            depth: 0,
            state: State::Beginning,
            is_name: false,
            literal: &[],
            rest: Rest::NONE,
            hex: 0,
            hex_digits: 0,
            is_second: false,
        }
    }

    /// Whether it is between objects: all that it has seen since the last one is white space.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.state, State::Beginning | State::Between)
    }

    /// How many bytes of white space are before the next object and can be dropped now. The caller
    /// has to drop them.
    #[must_use = "so many bytes have to be dropped"]
    pub fn take_blank(&mut self) -> usize {
        let blank = if self.is_idle() { self.position } else { 0 };
        if blank > 0 {
            // A byte-order mark can only be at the very beginning.
            self.state = State::Between;
            self.position = 0;
        }
        blank
    }

    /// Looks at what is new in `input`: everything that has arrived and was not consumed, beginning
    /// with the same byte until an object is found. Then the caller drops `input[..end]`, and the
    /// scanner starts anew.
    ///
    /// # Errors
    /// If this is not a JSON object, or it is too large or too deep. The same error comes again
    /// if one asks again.
    #[inline]
    pub fn scan(&mut self, input: &[u8], limits: &Limits) -> Result<Scan, FrameError> {
        self.check_size(limits)?;
        let found = self.advance(input, limits);
        self.check_size(limits)?;
        let found = found?;
        if !found {
            return Ok(Scan::Incomplete);
        }
        let frame = Scan::Frame { start: self.start, end: self.position };
        self.position = 0;
        self.state = State::Between;
        Ok(frame)
    }

    /// Comes before any other error, so that it does not matter in which pieces the bytes arrive.
    #[inline]
    const fn check_size(&self, limits: &Limits) -> Result<(), FrameError> {
        let blank = if self.is_idle() { self.position } else { self.start };
        if blank > limits.size || self.position - blank > limits.size {
            return Err(FrameError::TooLarge { limit: limits.size });
        }
        Ok(())
    }

    /// Goes on to the end of the input, or of the object if it is before that.
    #[expect(clippy::too_many_lines, reason = "one state after the other, in the grammar's order")]
    fn advance(&mut self, input: &[u8], limits: &Limits) -> Result<bool, FrameError> {
        let deepest = limits.depth.min(Limits::DEPTH);
        let mut at = self.position;
        let (mut state, mut objects, mut depth) = (self.state, self.objects, self.depth);
        let result = loop {
            let Some(&byte) = input.get(at) else { break Ok(false) };
            match state {
                State::Beginning if byte == 0xef && at == 0 => state = State::Mark2,
                State::Mark2 if byte == 0xbb => state = State::Mark3,
                State::Mark3 if byte == 0xbf => state = State::Between,
                State::Mark2 | State::Mark3 => {
                    break Err(malformed(at, "the rest of a byte-order mark"));
                }
                State::Beginning | State::Between => match byte {
                    b' ' | b'\n' | b'\r' | b'\t' => {}
                    b'{' => {
                        if deepest == 0 {
                            break Err(FrameError::TooDeep { limit: 0 });
                        }
                        self.start = at;
                        (objects, depth) = (1, 1);
                        state = State::FirstName;
                    }
                    b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                        break Err(FrameError::NotAnObject { at });
                    }
                    _ => break Err(malformed(at, "an object, {...}")),
                },
                State::FirstName | State::Name => match byte {
                    b'"' => {
                        at += 1;
                        at += plain(input.get(at..).unwrap_or_default());
                        // Names hardly ever have anything special in them, nor a space after them.
                        if let Some(b"\":") = input.get(at..at + 2) {
                            at += 2;
                            state = State::Value;
                        } else {
                            self.is_name = true;
                            state = State::Text;
                        }
                        continue;
                    }
                    b' ' | b'\n' | b'\r' | b'\t' => {}
                    b'}' if state == State::FirstName => {
                        state = State::AfterValue;
                        (objects, depth) = (objects >> 1, depth - 1);
                        if depth == 0 {
                            at += 1;
                            break Ok(true);
                        }
                    }
                    _ if state == State::Name => break Err(malformed(at, "a name in quotes")),
                    _ => break Err(malformed(at, "a name in quotes, or }")),
                },
                State::Text => {
                    at += plain(input.get(at..).unwrap_or_default());
                    let Some(&byte) = input.get(at) else { break Ok(false) };
                    match byte {
                        b'"' if self.is_name => state = State::Colon,
                        b'"' => state = State::AfterValue,
                        b'\\' => state = State::Escape,
                        0..0x20 => {
                            break Err(malformed(at, "an escape instead of a control character"));
                        }
                        _ => {
                            let Some(rest) = Rest::of(byte) else {
                                break Err(FrameError::InvalidUtf8 { at });
                            };
                            self.rest = rest;
                            state = State::Character;
                        }
                    }
                }
                State::Colon => match byte {
                    b':' => state = State::Value,
                    b' ' | b'\n' | b'\r' | b'\t' => {}
                    _ => break Err(malformed(at, "a colon")),
                },
                State::Value | State::FirstElement => match byte {
                    b'"' => {
                        at += 1;
                        at += plain(input.get(at..).unwrap_or_default());
                        if let Some(b'"') = input.get(at) {
                            at += 1;
                            state = State::AfterValue;
                        } else {
                            self.is_name = false;
                            state = State::Text;
                        }
                        continue;
                    }
                    b' ' | b'\n' | b'\r' | b'\t' => {}
                    b'{' | b'[' => {
                        if usize::from(depth) >= deepest {
                            break Err(FrameError::TooDeep { limit: deepest });
                        }
                        depth += 1;
                        objects = (objects << 1) | u64::from(byte == b'{');
                        state = if byte == b'{' { State::FirstName } else { State::FirstElement };
                    }
                    b'0' => state = State::Zero,
                    b'1'..=b'9' => state = State::Digits,
                    b'-' => state = State::Minus,
                    b't' => (self.literal, state) = (b"rue", State::Literal),
                    b'f' => (self.literal, state) = (b"alse", State::Literal),
                    b'n' => (self.literal, state) = (b"ull", State::Literal),
                    b']' if state == State::FirstElement => {
                        // An array is never the outermost.
                        (objects, depth) = (objects >> 1, depth - 1);
                        state = State::AfterValue;
                    }
                    _ => break Err(malformed(at, "a value")),
                },
                State::AfterValue => {
                    let is_in_object = objects & 1 == 1;
                    match byte {
                        b',' => state = if is_in_object { State::Name } else { State::Value },
                        b'}' if is_in_object => {
                            (objects, depth) = (objects >> 1, depth - 1);
                            if depth == 0 {
                                at += 1;
                                break Ok(true);
                            }
                        }
                        b']' if !is_in_object => (objects, depth) = (objects >> 1, depth - 1),
                        b' ' | b'\n' | b'\r' | b'\t' => {}
                        _ if is_in_object => break Err(malformed(at, "a comma or }")),
                        _ => break Err(malformed(at, "a comma or ]")),
                    }
                }
                State::Escape => match byte {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => state = State::Text,
                    b'u' => {
                        (self.hex, self.hex_digits, self.is_second) = (0, 0, false);
                        state = State::Hex;
                    }
                    _ => break Err(malformed(at, "one of \" \\ / b f n r t u after a backslash")),
                },
                State::Hex => {
                    let Some(digit) = char::from(byte).to_digit(16) else {
                        break Err(malformed(at, "four hexadecimal digits after \\u"));
                    };
                    let hex = (self.hex << 4) | digit as u16;
                    if self.hex_digits == 3 {
                        state = match (self.is_second, hex) {
                            (false, 0xd800..=0xdbff) => State::PairEscape,
                            (false, 0xdc00..=0xdfff) => {
                                break Err(malformed(at, "the first half of a surrogate pair"));
                            }
                            (true, 0xdc00..=0xdfff) | (false, _) => State::Text,
                            (true, _) => {
                                break Err(malformed(at, "the second half of a surrogate pair"));
                            }
                        };
                    }
                    // Only now: an error leaves everything as it was.
                    self.hex = hex;
                    self.hex_digits += 1;
                }
                State::PairEscape if byte == b'\\' => state = State::PairLetter,
                State::PairLetter if byte == b'u' => {
                    (self.hex, self.hex_digits, self.is_second) = (0, 0, true);
                    state = State::Hex;
                }
                State::PairEscape | State::PairLetter => {
                    break Err(malformed(at, "the second half of a surrogate pair"));
                }
                State::Character => {
                    if byte < self.rest.lowest || byte > self.rest.highest {
                        break Err(FrameError::InvalidUtf8 { at });
                    }
                    self.rest = Rest { bytes: self.rest.bytes - 1, ..Rest::NONE };
                    if self.rest.bytes == 0 {
                        state = State::Text;
                    }
                }
                State::Minus => match byte {
                    b'0' => state = State::Zero,
                    b'1'..=b'9' => state = State::Digits,
                    _ => break Err(malformed(at, "a digit")),
                },
                State::Zero | State::Digits => match byte {
                    b'0'..=b'9' if state == State::Digits => {
                        while let Some(b'0'..=b'9') = input.get(at + 1) {
                            at += 1;
                        }
                    }
                    b'.' => state = State::Point,
                    b'e' | b'E' => state = State::Exponent,
                    b'0'..=b'9' => break Err(malformed(at, "no digit after a leading zero")),
                    // What ends a number belongs to what is around it.
                    _ => {
                        state = State::AfterValue;
                        continue;
                    }
                },
                State::Point => match byte {
                    b'0'..=b'9' => state = State::Fraction,
                    _ => break Err(malformed(at, "a digit")),
                },
                State::Fraction => match byte {
                    b'0'..=b'9' => {}
                    b'e' | b'E' => state = State::Exponent,
                    _ => {
                        state = State::AfterValue;
                        continue;
                    }
                },
                State::Exponent | State::ExponentSign => match byte {
                    b'0'..=b'9' => state = State::ExponentDigits,
                    b'+' | b'-' if state == State::Exponent => state = State::ExponentSign,
                    _ => break Err(malformed(at, "a digit")),
                },
                State::ExponentDigits => {
                    if !byte.is_ascii_digit() {
                        state = State::AfterValue;
                        continue;
                    }
                }
                State::Literal => match self.literal.split_first() {
                    Some((first, rest)) if *first == byte => {
                        self.literal = rest;
                        if rest.is_empty() {
                            state = State::AfterValue;
                        }
                    }
                    _ => break Err(malformed(at, "true, false or null")),
                },
            }
            at += 1;
        };
        self.position = at;
        (self.state, self.objects, self.depth) = (state, objects, depth);
        result
    }
}

#[cfg(test)]
mod tests;

//! Numbers, texts and byte strings in the journal: small numbers take few bytes.

use std::error::Error;
use std::fmt;

use super::ids::{ObjectId, SessionSlot};

/// Events that cannot be read, or that do not fit the state that they are applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEvent {
    reason: String,
}

impl BadEvent {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl fmt::Display for BadEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event that makes no sense: {}", self.reason)
    }
}

impl Error for BadEvent {}

/// Appends a number, seven bits to the byte, the lowest first.
#[inline]
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number that may be negative: small ones of either sign take few bytes.
pub(super) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Appends bytes, after their number.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the functions above wrote.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, BadEvent> {
        let (first, rest) = self.rest.split_first().ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(*first)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Result<u64, BadEvent> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(BadEvent::new("a number of more than 64 bits"))
    }

    pub(super) fn small(&mut self) -> Result<u32, BadEvent> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| BadEvent::new(format!("{number} is above 2^32")))
    }

    pub(super) fn object(&mut self) -> Result<ObjectId, BadEvent> {
        Ok(ObjectId(self.small()?))
    }

    pub(super) fn session(&mut self) -> Result<SessionSlot, BadEvent> {
        Ok(SessionSlot(self.small()?))
    }

    pub(super) fn signed(&mut self) -> Result<i64, BadEvent> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(super) fn flag(&mut self) -> Result<bool, BadEvent> {
        Ok(self.byte()? != 0)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], BadEvent> {
        let length = usize::try_from(self.number()?).map_err(|_| cut_short())?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, BadEvent> {
        std::str::from_utf8(self.bytes()?).map_err(|_| BadEvent::new("a name that is not UTF-8"))
    }

    pub(super) fn wide(&mut self) -> Result<u128, BadEvent> {
        let (bytes, rest) = self.rest.split_first_chunk::<16>().ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(u128::from_le_bytes(*bytes))
    }
}

fn cut_short() -> BadEvent {
    BadEvent::new("it is cut short")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.number(), Ok(number));
            assert!(reader.is_empty());
        }
        for number in [0, -1, 1, i64::from(i32::MIN), i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, number);
            assert_eq!(Reader::new(&bytes).signed(), Ok(number));
        }
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, b"abc");
        for length in 0..bytes.len() {
            assert!(Reader::new(&bytes[..length]).bytes().is_err());
        }
        assert!(Reader::new(&[0xff; 20]).number().is_err());
    }
}

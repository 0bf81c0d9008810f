//! The state that the tests fold events into: numbers, which must come in order and without gaps.

use std::io;

use semaforo_server::journal::{BadEvent, Fold};

/// All numbers so far: 1, 2, 3 and so on.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) last: u64,
    /// How many bytes came with the numbers.
    pub(crate) bytes: u64,
}

/// An event: a number and some bytes that are derived from it, none of them zero.
pub(crate) fn event(number: u64, length: usize) -> Vec<u8> {
    let mut event = number.to_le_bytes().to_vec();
    event.extend((length as u32).to_le_bytes());
    event.resize(12 + length, number as u8 | 1);
    event
}

/// Stands for everything before it; only in snapshots.
fn carried_forward(last: u64, bytes: u64) -> Vec<u8> {
    let mut event = 0_u64.to_le_bytes().to_vec();
    event.extend(16_u32.to_le_bytes());
    event.extend(last.to_le_bytes());
    event.extend(bytes.to_le_bytes());
    event
}

impl Fold for Ledger {
    fn apply(&mut self, events: &[u8]) -> Result<(), BadEvent> {
        let mut rest = events;
        while !rest.is_empty() {
            let offset = events.len() - rest.len();
            let (number, after) = rest.split_first_chunk().ok_or(BadEvent::new(offset, "cut"))?;
            let (length, after) = after.split_first_chunk().ok_or(BadEvent::new(offset, "cut"))?;
            let length = u32::from_le_bytes(*length) as usize;
            let content = after.get(..length).ok_or(BadEvent::new(offset, "cut"))?;
            match u64::from_le_bytes(*number) {
                0 => {
                    let (last, bytes) = content.split_at(8);
                    self.last = u64::from_le_bytes(last.try_into().unwrap());
                    self.bytes = u64::from_le_bytes(bytes.try_into().unwrap());
                }
                number if number == self.last + 1 => {
                    if event(number, length)[12..] != *content {
                        return Err(BadEvent::new(
                            offset,
                            format!("number {number} has other bytes"),
                        ));
                    }
                    self.last = number;
                    self.bytes += length as u64;
                }
                number => {
                    let reason = format!("number {number} after {}", self.last);
                    return Err(BadEvent::new(offset, reason));
                }
            }
            rest = &after[length..];
        }
        Ok(())
    }

    fn dump(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        sink(&carried_forward(self.last, self.bytes))
    }
}

/// A state that is never smaller than its events.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hoard(pub(crate) Vec<Vec<u8>>);

impl Fold for Hoard {
    fn apply(&mut self, mut events: &[u8]) -> Result<(), BadEvent> {
        while let Some((length, rest)) = events.split_first_chunk() {
            let (event, rest) = rest
                .split_at_checked(u32::from_le_bytes(*length) as usize)
                .ok_or(BadEvent::new(0, "cut"))?;
            self.0.push(event.to_vec());
            events = rest;
        }
        Ok(())
    }

    fn dump(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.0
            .iter()
            .try_for_each(|event| sink(&[&(event.len() as u32).to_le_bytes(), &event[..]].concat()))
    }
}

/// An event for a [`Hoard`].
pub(crate) fn kept(byte: u8, length: usize) -> Vec<u8> {
    let mut event = (length as u32).to_le_bytes().to_vec();
    event.resize(4 + length, byte);
    event
}

//! Spare buffers, so that an idle connection has none and a busy one need not allocate.

/// A buffer that has grown beyond this is freed rather than kept.
const LARGEST: usize = 64 << 10;

/// Spare buffers kept. More are in use only while so many connections have something to say in the
/// same turn.
const SPARE: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Buffers {
    spare: Vec<Vec<u8>>,
}

impl Buffers {
    /// An empty buffer: a spare one, with its capacity, if there is one.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(super) fn put(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && buffer.capacity() <= LARGEST && self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

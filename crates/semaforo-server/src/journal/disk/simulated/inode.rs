//! A file's bytes: those that processes see, and those that survive.

use std::io;

use super::luck::Fate;

/// What a disk writes wholly or not at all.
const SECTOR: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Inode {
    pub(super) current: Vec<u8>,
    durable: Vec<u8>,
    /// Writes since the last sync, in order.
    pub(super) pending: Vec<(usize, Vec<u8>)>,
}

impl Inode {
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { current: bytes.clone(), durable: bytes, pending: Vec::new() }
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = offset as usize;
        let bytes =
            self.current.get(start..start + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        put(&mut self.current, bytes, offset as usize);
        self.pending.push((offset as usize, bytes.to_vec()));
    }

    pub(super) fn sync(&mut self) {
        for (offset, bytes) in self.pending.drain(..) {
            put(&mut self.durable, &bytes, offset);
        }
    }

    /// Of the writes that were not synced, those pieces are there that `fate` keeps.
    pub(super) fn restart(&mut self, fate: &mut Fate) {
        let last = self.pending.len().saturating_sub(1);
        for (index, (start, bytes)) in self.pending.drain(..).enumerate() {
            let kept_at_most = fate.length_of_write(bytes.len(), index == last);
            let (mut at, end) = (start, start + kept_at_most);
            while at < end {
                let sector_end = end.min((at / SECTOR + 1) * SECTOR);
                if fate.keeps_sector() {
                    put(&mut self.durable, &bytes[at - start..sector_end - start], at);
                }
                at = sector_end;
            }
        }
        self.current.clone_from(&self.durable);
    }
}

fn put(file: &mut Vec<u8>, bytes: &[u8], offset: usize) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

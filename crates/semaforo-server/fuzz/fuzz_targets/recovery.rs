//! Whatever is done to the files of a journal: opening it never panics, never makes up an event,
//! and what it accepts is accepted again and can be added to.

#![no_main]

use std::{io, sync::OnceLock};

use libfuzzer_sys::fuzz_target;
use semaforo_server::journal::{Background, BadEvent, Disk, Durability, FileJournal, Fold, Journal, Options, Recovered};
use semaforo_server::journal::simulated_disk::{Luck, SimulatedDisk};

const OPTIONS: Options = Options {
    durability: Durability::Always,
    segment_size: 8 << 10,
    least_segment: 8 << 10,
    snapshot_after: 9 << 10,
    background: Background::Inline,
};

/// Bytes in order: each is one more than the one before.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Ascending {
    next: u8,
    count: u64,
}

impl Fold for Ascending {
    fn apply(&mut self, events: &[u8]) -> Result<(), BadEvent> {
        for (offset, &byte) in events.iter().enumerate() {
            // The first event of a snapshot may begin anywhere.
            if self.count > 0 && byte != self.next {
                return Err(BadEvent::new(offset, "out of order"));
            }
            self.next = byte.wrapping_add(1);
            self.count += 1;
        }
        Ok(())
    }

    fn dump(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if self.count > 0 { sink(&[self.next.wrapping_sub(1)]) } else { Ok(()) }
    }
}

fn submit(journal: &mut FileJournal<SimulatedDisk>, state: &mut Ascending, length: usize) {
    let first = if state.count > 0 { state.next } else { 0 };
    let events: Vec<u8> = (0..length).map(|index| first.wrapping_add(index as u8)).collect();
    journal.submit(&events, state.count, false).expect("a simulated disk has space");
    state.apply(&events).expect("they are in order");
}

/// A journal with a snapshot, full segments, one in use and an empty one.
fn sound() -> &'static SimulatedDisk {
    static SOUND: OnceLock<SimulatedDisk> = OnceLock::new();
    SOUND.get_or_init(|| {
        let disk = SimulatedDisk::new();
        let Recovered { mut journal, mut state, .. } =
            FileJournal::open_on(disk.clone(), OPTIONS).expect("an empty directory");
        for length in (0..40).map(|number| number * 37) {
            submit(&mut journal, &mut state, length);
            journal.turn(std::time::Instant::now()).expect("nothing can fail");
        }
        drop(journal);
        disk
    })
}

fuzz_target!(|data: &[u8]| {
    let disk = sound().copy();
    let names = disk.list().expect("it can be listed");
    // Instructions of eight bytes: a file, what to do, where, with what.
    for step in data.chunks_exact(8) {
        let name = &names[step[0] as usize % names.len()];
        let Some(mut bytes) = disk.contents(name) else { continue };
        let at = u32::from_le_bytes([step[2], step[3], step[4], 0]) as usize;
        match step[1] % 5 {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= step[5];
                }
            }
            1 => bytes.truncate(at),
            2 => {
                // A piece of the input itself.
                let end = bytes.len().min(at.saturating_add(data.len()));
                if at < end {
                    bytes[at..end].copy_from_slice(&data[..end - at]);
                }
            }
            3 => {
                // A batch, or something else, at another place.
                let from = at.min(bytes.len());
                let piece = bytes[from..bytes.len().min(from + 4 * usize::from(step[5]))].to_vec();
                let to = (usize::from(step[6]) | usize::from(step[7]) << 8).min(bytes.len());
                let end = bytes.len().min(to + piece.len());
                bytes[to..end].copy_from_slice(&piece[..end - to]);
            }
            _ => {
                let other = &names[usize::from(step[5]) % names.len()];
                bytes = disk.contents(other).unwrap_or_default();
            }
        }
        disk.put(name, &bytes);
    }
    let Ok(Recovered { mut journal, mut state, .. }) =
        FileJournal::open_on::<Ascending>(disk.clone(), OPTIONS)
    else {
        return;
    };
    submit(&mut journal, &mut state, 50);
    drop(journal);
    disk.restart(Luck::Lost);
    let again = FileJournal::open_on::<Ascending>(disk, OPTIONS).expect("what was accepted stays accepted");
    assert_eq!(again.state.next, state.next);
});

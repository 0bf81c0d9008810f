//! The fences of a server without a journal.
//!
//! A fence must never be given out twice, also by two lives of a server that remembers nothing
//! else. What could a new life know of those before it? The wall clock steps back; the clock since
//! boot begins anew with the machine, and nothing that tells one boot from another grows; random
//! numbers do not grow either, and may repeat. So the number that all fences so far are below has
//! to be kept somewhere that outlasts the process and the machine, and the cheapest such thing is a
//! file of one line. It is written, and synced, at the start and then once in [`BLOCK`] fences:
//! what a life has reserved and not used is lost, as with the journal's fences. How fast one life
//! follows another, and what the clock shows, does not matter.
//!
//! Fences begin no lower than the seconds of the wall clock shifted by [`SECONDS_SHIFT`] all the
//! same: where the file is new (another machine, or an earlier version that had none) they go on
//! above what was given out elsewhere, as far as clocks can tell. Without a file only this is left
//! between processes; within one process a counter does what the file does.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::journal::disk::open_no_link;
use crate::kernel::{MAX_FENCE, Millis};

/// What it is called in its directory.
const NAME: &str = "fences";

/// How many fences are reserved at a time. Twenty million starts are possible before they run out.
const BLOCK: u64 = 1 << 28;

/// More are reserved when fewer than this are left: no turn of the server gives out so many.
const SPARE: u64 = 1 << 24;

/// Two million fences for each second of the wall clock: until the year 2106 that is below
/// [`MAX_FENCE`].
const SECONDS_SHIFT: u32 = 21;

/// What servers of this process have reserved.
static RESERVED: Mutex<u64> = Mutex::new(0);

/// Where fences are reserved.
#[derive(Debug)]
pub(super) struct Fences {
    file: Option<File>,
    /// Those below are this server's.
    end: u64,
}

impl Fences {
    /// Reserves the first ones, which are returned by the lowest of them: in the file of this
    /// directory, if there is one.
    pub(super) fn begin(directory: Option<&Path>, wall: Millis) -> io::Result<(Self, u64)> {
        let file = directory.map(open).transpose()?;
        let mut fences = Self { file, end: 0 };
        let first = fences.reserve((wall / 1000) << SECONDS_SHIFT)?;
        Ok((fences, first))
    }

    /// More, if the next one is near the end: the lowest of them, which may be further on.
    pub(super) fn after(&mut self, next: u64) -> io::Result<Option<u64>> {
        if next.saturating_add(SPARE) < self.end {
            return Ok(None);
        }
        self.reserve(next).map(Some)
    }

    fn reserve(&mut self, at_least: u64) -> io::Result<u64> {
        // One after the other also within this process: a lock of a file is for processes.
        let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first = at_least.max(*reserved).max(1);
        if let Some(file) = &mut self.file {
            file.lock()?;
            let result = advance(file, first);
            let _ = file.unlock();
            first = result?;
        }
        self.end = first + BLOCK;
        *reserved = self.end;
        Ok(first)
    }
}

fn open(directory: &Path) -> io::Result<File> {
    fs::create_dir_all(directory)?;
    let path: PathBuf = directory.join(NAME);
    let is_new = !path.exists();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = open_no_link(&options, &path)?;
    if is_new {
        File::open(directory)?.sync_all()?;
    }
    Ok(file)
}

/// Reserves a block, which begins where the last one ended, or later. The line has always the same
/// length, and is within one sector of the disk: after a crash it is the old one or the new one.
fn advance(file: &File, at_least: u64) -> io::Result<u64> {
    let mut text = String::new();
    let mut bytes = [0; 64];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.get(..count).unwrap_or_default().read_to_string(&mut text)?;
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let before: u64 = match text.trim_end() {
        "" => 0,
        number => number.parse().map_err(|_| invalid(format!("{number:?} is not a fence")))?,
    };
    let first = before.max(at_least);
    if first > MAX_FENCE - BLOCK {
        return Err(invalid(format!("there are no fences left above {first}")));
    }
    file.write_all_at(format!("{:020}\n", first + BLOCK).as_bytes(), 0)?;
    file.sync_all()?;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that vanishes.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("semaforo-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn whatever_the_clock_shows_none_comes_twice() {
        let directory = Directory::new("fences");
        let mut last = 0;
        for wall in [1_800_000_000_000, 1_800_000_000_000, 0, 5_000, 1_700_000_000_000] {
            let (mut fences, first) = Fences::begin(Some(&directory.0), wall).unwrap();
            assert!(first >= last && first >= (wall / 1000) << SECONDS_SHIFT, "{first} {last}");
            assert_eq!(fences.after(first).unwrap(), None);
            // Another process begins meanwhile.
            let other = advance(fences.file.as_ref().unwrap(), 0).unwrap();
            assert!(other >= first + BLOCK);
            let more = fences.after(first + BLOCK - SPARE).unwrap().unwrap();
            assert!(more >= other + BLOCK);
            last = more + BLOCK;
            assert!(last < MAX_FENCE);
        }
        fs::write(directory.0.join(NAME), "many").unwrap();
        let wrong = Fences::begin(Some(&directory.0), 0).unwrap_err();
        assert!(wrong.to_string().contains("many"), "{wrong}");
        let full = format!("{:020}\n", MAX_FENCE - BLOCK + 1);
        fs::write(directory.0.join(NAME), full).unwrap();
        assert!(Fences::begin(Some(&directory.0), 0).is_err());
    }

    #[test]
    fn servers_of_one_process_need_no_file() {
        let begin = || Fences::begin(None, 0).unwrap().1;
        let (first, second) = (begin(), begin());
        assert!(second >= first + BLOCK || first >= second + BLOCK);
    }
}

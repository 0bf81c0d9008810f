//! Making a snapshot of full segments, in the background.

use std::time::{Duration, Instant};

use super::{
    Disk, Fold, OpenError, Position,
    batch::Seal,
    heading::Heading,
    names, segment,
    snapshot::{self, Covered},
    worker::Cancelled,
};

/// What to fold: the snapshot `base`, if there is one, the segments `first..=last` after it, and
/// the beginning of the one after them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) identity: u64,
    pub(super) base: Option<u64>,
    pub(super) first: u64,
    pub(super) last: u64,
    /// So many bytes of the segment in use are folded, too; it is not removed. A snapshot that
    /// knows what was taken lately is smaller.
    pub(super) of_active: Option<u64>,
}

/// A finished snapshot.
#[derive(Debug)]
pub(super) struct Compacted {
    /// The last segment in it.
    pub(super) segment: u64,
    pub(super) position: Position,
    pub(super) bytes: u64,
    pub(super) segments: usize,
    pub(super) took: Duration,
}

/// Makes the snapshot and then removes what it replaces. If it fails, everything is as before.
pub(super) fn compact<D: Disk, F: Fold>(
    disk: &D,
    job: Job,
    cancelled: &Cancelled,
) -> Result<Compacted, OpenError> {
    let started = Instant::now();
    let name = names::snapshot(job.last);
    let unfinished = names::unfinished(&name);
    let (covered, bytes) = write_checked::<D, F>(disk, job, &unfinished, cancelled)
        .and_then(|written| {
            let failed = |error| OpenError::Io { doing: "name", file: disk.path(&name), error };
            disk.rename(&unfinished, &name).map_err(failed)?;
            disk.sync_directory().map_err(failed)?;
            Ok(written)
        })
        .inspect_err(|_| drop(disk.remove(&unfinished)))?;
    // What cannot be removed now, the next start removes.
    let old_segments = (job.first..=job.last).map(names::segment);
    // One that covers no more segments than the one before has its name, and has replaced it.
    let base = job.base.filter(|base| *base != job.last).map(names::snapshot);
    for old in base.into_iter().chain(old_segments) {
        let _ = disk.remove(&old);
    }
    let _ = disk.sync_directory();
    Ok(Compacted {
        segment: job.last,
        position: covered.position,
        bytes,
        segments: (job.first..=job.last).count(),
        took: started.elapsed(),
    })
}

/// Writes the snapshot under its unfinished name, and reads it back from the disk.
fn write_checked<D: Disk, F: Fold>(
    disk: &D,
    job: Job,
    unfinished: &str,
    cancelled: &Cancelled,
) -> Result<(Covered, u64), OpenError> {
    let (state, covered) = fold::<D, F>(disk, job, cancelled)?;
    let bytes = snapshot::write(disk, covered, &state, cancelled)
        .map_err(|error| OpenError::Io { doing: "write", file: disk.path(unfinished), error })?;
    // Two states at once would take too much memory.
    drop(state);
    let (file, heading) = snapshot::open(disk, unfinished)?;
    snapshot::read(disk, unfinished, &file, &heading, &mut F::default(), cancelled)?;
    Ok((covered, bytes))
}

fn fold<D: Disk, F: Fold>(
    disk: &D,
    job: Job,
    cancelled: &Cancelled,
) -> Result<(F, Covered), OpenError> {
    let mut state = F::default();
    let mut covered = Covered { identity: job.identity, segment: job.last, position: 0, time: 0 };
    if let Some(base) = job.base {
        let name = names::snapshot(base);
        let (file, heading) = snapshot::open(disk, &name)?;
        snapshot::read(disk, &name, &file, &heading, &mut state, cancelled)?;
        let Heading { position, time, .. } = heading;
        covered = Covered { position, time, ..covered };
    }
    let mut bytes = Vec::new();
    let active = job.of_active.map(|end| (job.last + 1, Some(end)));
    for (number, end) in (job.first..=job.last).map(|number| (number, None)).chain(active) {
        let name = names::segment(number);
        disk.open(&name)
            .and_then(|file| segment::read_whole(&file, &mut bytes))
            .map_err(|error| OpenError::Io { doing: "read", file: disk.path(&name), error })?;
        if let Some(end) = end {
            // What is behind it is being written.
            bytes.truncate(usize::try_from(end).unwrap_or(usize::MAX));
        }
        let seal = Seal::new(job.identity, number);
        let walked = segment::walk(&bytes, seal, covered.position, |offset, header, events| {
            if cancelled.is_set() {
                let error = std::io::ErrorKind::Interrupted.into();
                return Err(OpenError::Io { doing: "finish", file: disk.path(&name), error });
            }
            state.apply(events).map_err(|error| OpenError::BadEvent {
                file: disk.path(&name),
                offset: offset as u64,
                position: header.position,
                error,
            })
        })?;
        if let Some(found) = walked.damage {
            return Err(OpenError::Corrupt {
                file: disk.path(&name),
                offset: walked.end as u64,
                found: format!(
                    "batch {}: {found}; it was intact when it was written",
                    covered.position + 1
                ),
            });
        }
        covered.position = walked.last.map_or(covered.position, |last| last.position);
        covered.time = covered.time.max(walked.time);
    }
    Ok((state, covered))
}

//! Opening a directory: what is there, what of it holds, and what has to be put right before
//! anything new is written.
//!
//! First everything is read and judged; only when nothing speaks against it, something is changed.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Cut, Disk, DiskFile, FileJournal, Fold, LockError, OpenError, Options, Position, Recovered,
    Report, SnapshotUsed,
    batch::{self, Seal},
    file::Parts,
    inventory::{Files, Opened},
    names,
    segment::{self, BODY, Segment, Walked},
    snapshot,
    worker::Cancelled,
};

/// The very first segment is smaller than the others: clients wait for the server to start, and the
/// next one is being made meanwhile.
const FIRST_SEGMENT: usize = 4 << 20;

/// Opens the journal in the directory, or begins one if there is none.
pub(super) fn open<D: Disk, F: Fold>(
    disk: D,
    options: Options,
) -> Result<Recovered<F, D>, OpenError> {
    let started = Instant::now();
    let lock = disk.lock().map_err(|error| match error {
        LockError::Held(holder) => OpenError::Locked { file: disk.path("lock"), holder },
        LockError::Io(error) => OpenError::Io { doing: "lock", file: disk.path("lock"), error },
    })?;
    let files = Files::find(&disk)?;
    let mut recovery = Recovery {
        disk: &disk,
        state: F::default(),
        position: 0,
        time: 0,
        report: Report { clean: true, ..Report::default() },
    };
    let base = recovery.read_snapshot(files.snapshot)?;
    let tail = recovery.read_segments(files.segments, base)?;
    recovery.mend(&tail)?;
    recovery.clean_up(&files.obsolete, &tail.spare)?;
    let Recovery { state, position, time, mut report, .. } = recovery;

    let identity = match files.identity {
        Some(identity) => identity,
        None => random_identity().map_err(|error| OpenError::Io {
            doing: "find an identity for",
            file: disk.path(""),
            error,
        })?,
    };
    let options = options.corrected();
    let active = match tail.active {
        Some(active) => active,
        None => {
            let number = base.unwrap_or(0) + 1;
            let size = options.segment_size.min(FIRST_SEGMENT) as u64;
            segment::prepare(&disk, identity, number, size, &Cancelled::default()).map_err(
                |error| OpenError::Io {
                    doing: "prepare",
                    file: disk.path(&names::segment(number)),
                    error,
                },
            )?
        }
    };
    let directory = disk.path("");
    let parts = Parts {
        disk: Arc::new(disk),
        lock,
        identity,
        active,
        next: tail.next,
        sealed: tail.sealed,
        snapshot: base.map(|number| (number, report.snapshot.as_ref().map_or(0, |s| s.bytes))),
        position,
        time,
    };
    let journal = FileJournal::start::<F>(parts, options).map_err(|error| OpenError::Io {
        doing: "start the threads for",
        file: directory,
        error,
    })?;
    report.position = position;
    report.took = started.elapsed().max(Duration::from_nanos(1));
    Ok(Recovered { state, time, journal, report })
}

fn random_identity() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}

struct Recovery<'a, D, F> {
    disk: &'a D,
    state: F,
    position: Position,
    time: u64,
    report: Report,
}

/// The segments after reading them: those that are full, the one to go on with, the one after it.
struct Tail<File> {
    /// Numbers, and how many bytes the batches take in them.
    sealed: Vec<(u64, u64)>,
    active: Option<Segment<File>>,
    next: Option<Segment<File>>,
    /// Empty ones that are not needed.
    spare: Vec<String>,
    /// The last batches of the active segment: no mark says that they were synced.
    unproven: Vec<u8>,
    /// Up to where the active segment is not zero.
    dirty_end: u64,
}

/// A batch that cannot be read, and why.
struct Damage {
    name: String,
    offset: usize,
    found: String,
}

impl<D: Disk, F: Fold> Recovery<'_, D, F> {
    fn read_snapshot(
        &mut self,
        found: Option<(u64, Opened<D::File>)>,
    ) -> Result<Option<u64>, OpenError> {
        let Some((number, Opened { file, heading })) = found else {
            return Ok(None);
        };
        let name = names::snapshot(number);
        let never = Cancelled::default();
        let bytes = snapshot::read(self.disk, &name, &file, &heading, &mut self.state, &never)?;
        self.position = heading.position;
        self.time = heading.time;
        // Whether there was a clean stop, a later batch says.
        self.report.clean = false;
        let file = self.disk.path(&name);
        self.report.snapshot = Some(SnapshotUsed { file, position: self.position, bytes });
        Ok(Some(number))
    }

    /// Folds all segments after the snapshot, in order.
    fn read_segments(
        &mut self,
        segments: BTreeMap<u64, Opened<D::File>>,
        base: Option<u64>,
    ) -> Result<Tail<D::File>, OpenError> {
        let (mut sealed, mut empty) = (Vec::new(), VecDeque::new());
        let (mut unproven, mut dirty_end) = (Vec::new(), 0);
        let mut active: Option<Segment<D::File>> = None;
        let mut damage: Option<Damage> = None;
        let mut bytes = Vec::new();
        for (expected, (number, Opened { file, heading })) in
            (base.unwrap_or(0) + 1..).zip(segments)
        {
            let name = names::segment(number);
            if number != expected {
                let file = self.disk.path(&names::segment(expected));
                return Err(OpenError::Missing { file, because: format!("{name} is") });
            }
            segment::read_whole(&file, &mut bytes).map_err(|error| OpenError::Io {
                doing: "read",
                file: self.disk.path(&name),
                error,
            })?;
            let seal = Seal::new(heading.identity, number);
            let segment = Segment { number, seal, file, size: heading.size, end: BODY as u64 };
            let body = bytes.get(BODY..).unwrap_or_default();
            let Some(last_byte) = batch::last_other_than_zero(body) else {
                empty.push_back(segment);
                continue;
            };
            self.check_order(&name, damage.as_ref(), empty.front())?;
            sealed.extend(active.take().map(|before| (before.number, before.end - BODY as u64)));
            let walked = self.fold(&name, &bytes, seal, &mut unproven)?;
            if let Some(found) = walked.damage {
                let found = Damage { name, offset: walked.end, found };
                self.check_torn(&found, &bytes, seal)?;
                damage = Some(found);
            }
            dirty_end = (BODY + last_byte + 1) as u64;
            active = Some(Segment { end: walked.end as u64, ..segment });
        }
        if let (Some(Damage { name, offset, found }), Some(active)) = (damage, &active) {
            self.report.clean = false;
            self.report.cut = Some(Cut {
                file: self.disk.path(&name),
                offset: active.end,
                bytes: dirty_end.saturating_sub(offset as u64),
                found,
            });
        }
        let active = active.or_else(|| empty.pop_front());
        let next = empty.pop_front();
        let spare = empty.into_iter().map(|segment| names::segment(segment.number)).collect();
        Ok(Tail { sealed, active, next, spare, unproven, dirty_end })
    }

    /// A segment with batches can only follow one that was complete.
    fn check_order(
        &self,
        name: &str,
        damage: Option<&Damage>,
        empty: Option<&Segment<D::File>>,
    ) -> Result<(), OpenError> {
        let missing = self.position + 1;
        if let Some(Damage { name: damaged, offset, found }) = damage {
            return Err(OpenError::Corrupt {
                file: self.disk.path(damaged),
                offset: *offset as u64,
                found: format!(
                    "batch {missing}: {found}; {name} was begun only after this one had been synced, so no crash has torn it"
                ),
            });
        }
        if let Some(empty) = empty {
            return Err(OpenError::Corrupt {
                file: self.disk.path(&names::segment(empty.number)),
                offset: BODY as u64,
                found: format!(
                    "batch {missing} should be here, since {name} has batches; but this is empty"
                ),
            });
        }
        Ok(())
    }

    /// Applies all intact batches of a segment. What no mark covers is left in `unproven`.
    fn fold(
        &mut self,
        name: &str,
        bytes: &[u8],
        seal: Seal,
        unproven: &mut Vec<u8>,
    ) -> Result<Walked, OpenError> {
        let mut open = VecDeque::new();
        let walked = segment::walk(bytes, seal, self.position, |offset, header, events| {
            while open.front().is_some_and(|&(position, _)| position <= header.mark) {
                open.pop_front();
            }
            open.push_back((header.position, offset));
            self.state.apply(events).map_err(|error| OpenError::BadEvent {
                file: self.disk.path(name),
                offset: offset as u64,
                position: header.position,
                error,
            })
        })?;
        unproven.clear();
        if let Some(tail) = open.front().and_then(|&(_, start)| bytes.get(start..walked.end)) {
            unproven.extend_from_slice(tail);
        }
        if let Some(last) = &walked.last {
            if last.position < self.position {
                return Err(OpenError::Corrupt {
                    file: self.disk.path(name),
                    offset: walked.end as u64,
                    found: format!(
                        "batch {}: {}; it was synced before the snapshot was made that has batch {}",
                        last.position + 1,
                        walked.damage.as_deref().unwrap_or("nothing"),
                        self.position
                    ),
                });
            }
            self.position = last.position;
            self.report.clean = last.clean;
        }
        self.time = self.time.max(walked.time);
        self.report.segments += 1;
        self.report.batches += walked.batches;
        self.report.bytes += (walked.end - BODY) as u64;
        Ok(walked)
    }

    /// Whether damage can be what a crash left of batches that had not been confirmed.
    fn check_torn(&self, damage: &Damage, bytes: &[u8], seal: Seal) -> Result<(), OpenError> {
        let Damage { name, offset, found } = damage;
        let lost = self.position + 1;
        let rest = bytes.get(*offset..).unwrap_or_default();
        let Some((distance, proof)) = batch::find_proof(rest, seal, lost) else {
            return Ok(());
        };
        let (witness, place) = (proof.position, offset + distance);
        Err(OpenError::Corrupt {
            file: self.disk.path(name),
            offset: *offset as u64,
            found: format!(
                "batch {lost}: {found}; batch {witness}, at byte {place}, was written after this one had been synced, so no crash has torn it"
            ),
        })
    }

    /// Makes durable what was accepted, and gone what was not, before anything new is built on it.
    fn mend(&self, tail: &Tail<D::File>) -> Result<(), OpenError> {
        let Some(active) = &tail.active else { return Ok(()) };
        let write = || {
            let unproven = &tail.unproven;
            active.file.write_at(unproven, active.end - unproven.len() as u64)?;
            segment::write_zeros(&active.file, active.end, tail.dirty_end)?;
            active.file.sync()
        };
        let file = names::segment(active.number);
        write().map_err(|error| OpenError::Io { doing: "mend", file: self.disk.path(&file), error })
    }

    /// Removes what is of no use any more. The snapshot that replaces it gets its name durably
    /// before that.
    fn clean_up(&mut self, obsolete: &[String], spare: &[String]) -> Result<(), OpenError> {
        let sync = || {
            self.disk.sync_directory().map_err(|error| OpenError::Io {
                doing: "sync",
                file: self.disk.path(""),
                error,
            })
        };
        sync()?;
        for name in obsolete.iter().chain(spare) {
            self.disk.remove(name).map_err(|error| OpenError::Io {
                doing: "remove",
                file: self.disk.path(name),
                error,
            })?;
            self.report.removed += 1;
        }
        if self.report.removed > 0 { sync() } else { Ok(()) }
    }
}

//! The journal in files.

use std::{
    collections::VecDeque,
    io, mem,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Background, Disk, DiskFile, Durability, Fold, Journal, MAXIMUM_BATCH, Notice, OpenError,
    Position, RealDisk, Recovered, batch,
    compaction::{self, Compacted, Job},
    recovery,
    segment::{self, BODY, Order, Segment},
    worker::{Panicked, Worker},
};

/// How long after a failed preparation of a segment the next one is tried.
const RETRY: Duration = Duration::from_secs(1);

/// When nothing has come for so long, and everything is synced, that is written down: from then on
/// the last batch cannot be mistaken for one that a crash has torn.
const QUIET: Duration = Duration::from_secs(1);

/// A buffer that one big batch has made larger than this is given back.
const BUFFER_KEPT: usize = 1 << 20;

/// How a file journal works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// When batches are synced.
    pub durability: Durability,
    /// How big a segment is, in bytes; the space of two of them is in use all the time. It should
    /// have place for the largest batch: one that has to be made larger for a batch keeps that
    /// waiting.
    pub segment_size: usize,
    /// How big a segment is at least, if there is no space for more. What must never be refused has
    /// to find its place in it.
    pub least_segment: usize,
    /// A snapshot is made when the full segments have so many bytes, and at least as many as the
    /// last snapshot.
    pub snapshot_after: u64,
    /// Where segments are prepared and snapshots are made.
    pub background: Background,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Always,
            segment_size: 16 << 20,
            least_segment: 4 << 20,
            snapshot_after: 64 << 20,
            background: Background::Threads,
        }
    }
}

impl Options {
    /// The size of a segment in whole blocks, with place for the heading and a batch.
    pub(super) fn corrected(self) -> Self {
        let segment_size = self.segment_size.clamp(2 * BODY, 1 << 30).next_multiple_of(BODY);
        let least_segment = self.least_segment.clamp(2 * BODY, segment_size);
        Self { segment_size, least_segment, ..self }
    }
}

/// The segment after the active one.
#[derive(Debug)]
enum Next<File> {
    Ready(Segment<File>),
    Preparing,
    /// There was no space. It is tried again at that time, which the next turn decides.
    Missing(Option<Instant>),
}

/// While there is no space, the next snapshot of everything is made so many times as long after the
/// last one as that one took, and not sooner than after half a [`RETRY`].
const REST: u32 = 4;

/// A segment, and how much space there is besides, if that is known.
type Made<D> = (Segment<<D as Disk>::File>, Option<u64>);
type Prepared<D> = Result<io::Result<Made<D>>, Panicked>;

/// What recovery hands over.
pub(super) struct Parts<D: Disk> {
    pub(super) disk: Arc<D>,
    pub(super) lock: D::Lock,
    pub(super) identity: u64,
    pub(super) active: Segment<D::File>,
    pub(super) next: Option<Segment<D::File>>,
    pub(super) sealed: Vec<(u64, u64)>,
    /// Number and size.
    pub(super) snapshot: Option<(u64, u64)>,
    pub(super) position: Position,
    pub(super) time: u64,
}

/// A journal in the files of a directory.
#[derive(Debug)]
pub struct FileJournal<D: Disk = RealDisk> {
    // In this order: the threads end before the directory is unlocked.
    preparer: Worker<Order, io::Result<Made<D>>>,
    compactor: Worker<Job, Result<Compacted, OpenError>>,
    options: Options,
    identity: u64,
    active: Segment<D::File>,
    next: Next<D::File>,
    /// Full segments that are in no snapshot: numbers, and the bytes of their batches.
    sealed: Vec<(u64, u64)>,
    /// Number and size of the last snapshot.
    snapshot: Option<(u64, u64)>,
    buffer: Vec<u8>,
    submitted: Position,
    synced: Position,
    /// The latest time of a batch.
    time: u64,
    /// The last batch when the last turn was.
    seen: Position,
    /// Since when nothing has come, if the last batch is not covered by a mark.
    quiet_since: Option<Instant>,
    /// Since when something has been waiting for a sync at an interval.
    unsynced_since: Option<Instant>,
    failed: bool,
    /// Whether the last attempt to prepare a segment failed.
    space_missing: bool,
    /// How many bytes of events a batch has that no segment of the usual size has place for: none,
    /// usually.
    oversized: usize,
    /// Not before this time a larger segment is tried again.
    larger_after: Option<Instant>,
    /// When the last turn was.
    now: Instant,
    /// When the last snapshot of everything was begun.
    began: Option<Instant>,
    /// Not before this time the next one is.
    rests_until: Option<Instant>,
    /// The last snapshot of everything was made when this segment was in use, up to this byte.
    compacted_up_to: Option<(u64, u64)>,
    notices: VecDeque<Notice>,
    _lock: D::Lock,
}

impl FileJournal<RealDisk> {
    /// Opens the journal in a directory, or begins one, and folds what it contains.
    pub fn open<F: Fold>(
        directory: impl Into<PathBuf>,
        options: Options,
    ) -> Result<Recovered<F>, OpenError> {
        let directory = directory.into();
        let disk = RealDisk::new(&directory).map_err(|error| OpenError::Io {
            doing: "use the directory",
            file: directory,
            error,
        })?;
        Self::open_on(disk, options)
    }
}

impl<D: Disk> FileJournal<D> {
    /// Opens the journal on a disk of the caller's.
    pub fn open_on<F: Fold>(disk: D, options: Options) -> Result<Recovered<F, D>, OpenError> {
        recovery::open(disk, options)
    }

    pub(super) fn start<F: Fold>(parts: Parts<D>, options: Options) -> io::Result<Self> {
        let Parts { disk, lock, identity, active, next, sealed, snapshot, position, time } = parts;
        let on = Arc::clone(&disk);
        let preparer = Worker::new("journal-segments", options.background, |cancelled| {
            move |order| {
                let segment = segment::prepare_within(&*on, identity, order, &cancelled)?;
                Ok((segment, on.available()))
            }
        })?;
        let on = disk;
        let compactor = Worker::new("journal-snapshot", options.background, |cancelled| {
            move |job| compaction::compact::<D, F>(&*on, job, &cancelled)
        })?;
        let mut journal = Self {
            preparer,
            compactor,
            options,
            identity,
            active,
            next: Next::Missing(None),
            sealed,
            snapshot,
            buffer: Vec::new(),
            submitted: position,
            synced: position,
            time,
            seen: 0,
            quiet_since: None,
            unsynced_since: None,
            failed: false,
            space_missing: false,
            oversized: 0,
            larger_after: None,
            now: Instant::now(),
            began: None,
            rests_until: None,
            compacted_up_to: None,
            notices: VecDeque::new(),
            _lock: lock,
        };
        match next {
            Some(next) if next.size >= options.least_segment as u64 => {
                journal.next = Next::Ready(next);
            }
            // One from a time when batches were smaller is replaced.
            Some(_) | None => journal.prepare_next(),
        }
        journal.compact_if_worthwhile();
        Ok(journal)
    }

    /// Up to which position everything is on the disk, whatever the durability asked for is.
    pub fn synced(&self) -> Position {
        self.synced
    }

    /// Has the next segment prepared, out of the main thread's way.
    fn prepare_next(&mut self) {
        self.next = Next::Preparing;
        let number = self.active.number + 1;
        let Options { segment_size, least_segment, .. } = self.options;
        let usual = segment_size as u64;
        let size = segment::size_for(self.oversized, usual);
        let least = if size > usual { size } else { least_segment as u64 };
        self.preparer.start(Order { number, size, least });
        // There already, if the caller's thread is the background.
        self.look_after_next();
    }

    /// Takes up the next segment if it is finished.
    fn look_after_next(&mut self) {
        if matches!(self.next, Next::Preparing)
            && let Some(result) = self.preparer.poll()
        {
            self.prepared(result);
        }
    }

    fn prepared(&mut self, result: Prepared<D>) {
        let reason = match result {
            Ok(Ok((segment, available))) => {
                self.next = Next::Ready(segment);
                self.oversized = 0;
                if mem::take(&mut self.space_missing) {
                    self.notices.push_back(Notice::SpaceFound);
                }
                // A snapshot needs space itself, and so it has to be made before there is none.
                let snapshot = self.snapshot.map_or(0, |(_, bytes)| bytes);
                let needed = 2 * self.options.segment_size as u64 + snapshot;
                if available.is_some_and(|available| available < needed) {
                    self.compact();
                }
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(panicked) => panicked.to_string(),
        };
        if mem::take(&mut self.oversized) > 0 {
            // Whether the name has the old file or the new one is not known; a third one makes it
            // certain.
            self.larger_after = Some(self.now + RETRY);
            return self.prepare_next();
        }
        self.next = Next::Missing(None);
        // Once is enough for the log, while it is tried again and again.
        if !mem::replace(&mut self.space_missing, true) {
            self.notices.push_back(Notice::SpaceMissing { reason });
        }
        self.compact_all();
    }

    /// Whether the next segment is there, and has place for such a batch.
    fn next_fits(&self, events: usize) -> bool {
        matches!(&self.next, Next::Ready(next) if next.fits(events))
    }

    /// Goes on in the next segment.
    fn switch(&mut self, events: usize) -> io::Result<()> {
        if !self.next_fits(events) {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!("there is no segment for a batch of {events} bytes"),
            ));
        }
        // Whatever is in the next segment proves that this one was complete.
        self.sync()?;
        if let Next::Ready(next) = mem::replace(&mut self.next, Next::Missing(None)) {
            let full = mem::replace(&mut self.active, next);
            self.sealed.push((full.number, full.end - BODY as u64));
            self.prepare_next();
            self.compact_if_worthwhile();
        }
        Ok(())
    }

    /// Starts a snapshot if it is worth it.
    fn compact_if_worthwhile(&mut self) {
        let added: u64 = self.sealed.iter().map(|&(_, bytes)| bytes).sum();
        // Folding a snapshot again costs as much as it is big: not before as much has been added.
        let last = self.snapshot.map_or(0, |(_, bytes)| bytes);
        if added >= self.options.snapshot_after.max(last) {
            self.compact();
        }
    }

    /// Starts a snapshot, if there is something new for it and none is being made.
    fn compact(&mut self) {
        let (Some(&(first, _)), Some(&(last, _))) = (self.sealed.first(), self.sealed.last())
        else {
            return;
        };
        if !self.compactor.is_busy() {
            let base = self.snapshot.map(|(number, _)| number);
            let job = Job { identity: self.identity, base, first, last, of_active: None };
            self.compactor.start(job);
        }
    }

    /// Starts a snapshot of everything, the segment in use included, if something has been added
    /// there since the last one: what was given back may make this one smaller, so that there is
    /// space for it.
    fn compact_all(&mut self) {
        let active = (self.active.number, self.active.end);
        let rests = self.rests_until.is_some_and(|until| self.now < until);
        if self.compactor.is_busy() || self.compacted_up_to == Some(active) || rests {
            return;
        }
        // A snapshot must not have in it what the segment may still lose.
        if self.sync().is_err() {
            return;
        }
        self.compacted_up_to = Some(active);
        self.began = Some(Instant::now());
        let base = self.snapshot.map(|(number, _)| number);
        let last = active.0 - 1;
        let first = self.sealed.first().map_or(active.0, |&(number, _)| number);
        let job =
            Job { identity: self.identity, base, first, last, of_active: Some(self.active.end) };
        self.compactor.start(job);
    }

    fn compacted(&mut self, result: Result<Result<Compacted, OpenError>, Panicked>) {
        let notice = match result {
            Ok(Ok(Compacted { segment, position, bytes, segments, took })) => {
                self.sealed.retain(|&(number, _)| number > segment);
                self.snapshot = Some((segment, bytes));
                if matches!(self.next, Next::Missing(_)) {
                    self.prepare_next();
                }
                Notice::Snapshot { position, bytes, segments, took }
            }
            Ok(Err(error)) => Notice::SnapshotFailed { reason: error.to_string() },
            Err(panicked) => Notice::SnapshotFailed { reason: panicked.to_string() },
        };
        if let Some(began) = self.began.take() {
            self.rests_until = Some(self.now + (began.elapsed() * REST).max(RETRY / 2));
        }
        self.notices.push_back(notice);
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.synced == self.submitted {
            return Ok(());
        }
        self.active.file.sync().inspect_err(|_| self.failed = true)?;
        self.synced = self.submitted;
        self.unsynced_since = None;
        Ok(())
    }

    /// Whether a mark can be written that covers all batches. Never with the last of the space.
    fn can_mark(&self) -> bool {
        let is_synced = self.synced == self.submitted;
        is_synced && self.active.fits(0) && matches!(self.next, Next::Ready(_))
    }

    /// Writes a mark that covers all batches, if nothing has come for a moment. It need not be
    /// synced.
    fn mark_if_quiet(&mut self, now: Instant) -> io::Result<()> {
        if mem::replace(&mut self.seen, self.submitted) != self.submitted {
            self.quiet_since = Some(now);
        }
        let is_quiet = |since: Instant| now.saturating_duration_since(since) >= QUIET;
        if self.can_mark() && self.quiet_since.is_some_and(is_quiet) {
            self.append(&[], self.time, false)?;
            (self.seen, self.quiet_since) = (self.submitted, None);
        }
        Ok(())
    }

    fn append(&mut self, events: &[u8], time: u64, clean: bool) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other(
                "the journal failed before; what it contains is not known",
            ));
        }
        if events.len() > MAXIMUM_BATCH {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a batch of {} bytes; {MAXIMUM_BATCH} are allowed", events.len()),
            ));
        }
        if !self.active.fits(events.len()) {
            self.switch(events.len())?;
        }
        let position = self.submitted + 1;
        batch::write(
            &mut self.buffer,
            self.active.seal,
            events,
            position,
            time,
            self.synced,
            clean,
        );
        let Segment { file, end, .. } = &mut self.active;
        file.write_at(&self.buffer, *end).inspect_err(|_| self.failed = true)?;
        *end += self.buffer.len() as u64;
        self.submitted = position;
        self.time = self.time.max(time);
        if self.buffer.capacity() > BUFFER_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
    }
}

impl<D: Disk> Journal for FileJournal<D> {
    fn submit(&mut self, events: &[u8], time: u64, urgent: bool) -> io::Result<Position> {
        self.append(events, time, false)?;
        if urgent || self.options.durability == Durability::Always {
            self.sync()?;
        }
        Ok(self.submitted)
    }

    fn submitted(&self) -> Position {
        self.submitted
    }

    fn durable(&mut self) -> io::Result<Position> {
        Ok(self.submitted)
    }

    fn fits(&mut self, bytes: usize) -> bool {
        self.active.fits(bytes) || self.next_fits(bytes)
    }

    fn space(&mut self, wanted: usize) -> usize {
        let next = if let Next::Ready(next) = &self.next { next.space() } else { 0 };
        self.active.space().max(next).min(wanted)
    }

    fn is_preparing(&self) -> bool {
        matches!(self.next, Next::Preparing)
    }

    fn prepare_for(&mut self, bytes: usize) {
        let is_larger = segment::size_for(bytes, 0) > self.options.segment_size as u64;
        let rests = self.larger_after.is_some_and(|after| self.now < after);
        let is_possible = bytes <= MAXIMUM_BATCH && matches!(self.next, Next::Ready(_));
        if is_larger && is_possible && !rests && !self.fits(bytes) {
            self.oversized = bytes;
            self.prepare_next();
        }
    }

    fn is_short_of_space(&self) -> bool {
        self.space_missing
    }

    fn turn(&mut self, now: Instant) -> io::Result<()> {
        self.now = now;
        if let Durability::Interval(interval) = self.options.durability
            && self.synced < self.submitted
        {
            let since = *self.unsynced_since.get_or_insert(now);
            if now.saturating_duration_since(since) >= interval {
                self.sync()?;
            }
        }
        match &self.next {
            Next::Ready(_) => {}
            Next::Preparing => self.look_after_next(),
            Next::Missing(None) => self.next = Next::Missing(Some(now + RETRY)),
            Next::Missing(Some(at)) if *at <= now => self.prepare_next(),
            Next::Missing(Some(_)) => {}
        }
        if let Some(result) = self.compactor.poll() {
            self.compacted(result);
        }
        self.mark_if_quiet(now)
    }

    fn next_turn(&self) -> Option<Instant> {
        let sync = match self.options.durability {
            Durability::Interval(interval) => self.unsynced_since.map(|since| since + interval),
            Durability::Always | Durability::Memory => None,
        };
        let retry = match self.next {
            Next::Missing(at) => at,
            Next::Ready(_) | Next::Preparing => None,
        };
        let mark = self.quiet_since.filter(|_| self.can_mark()).map(|since| since + QUIET);
        sync.into_iter().chain(retry).chain(mark).min()
    }

    fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn close(mut self: Box<Self>, time: u64) -> io::Result<()> {
        // The mark says what was synced before it.
        if !self.failed {
            self.sync()?;
        }
        // On a full disk there may be no place for the mark; the batches are safe without it.
        if self.failed || self.fits(0) {
            self.append(&[], time, true)?;
        }
        self.sync()
    }
}

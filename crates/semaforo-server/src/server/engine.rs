//! The kernel with its journal and its clock.

use std::io;
use std::time::{Duration, Instant};

use crate::journal::{Journal, Position};
use crate::kernel::{
    Answer, Command, ConnectionKey, Kernel, Kind, Millis, Operation, Origin, Output, Parcel, Reply,
    Status, Verb, WaitKey,
};

use super::clock::Clock;

/// Room in the journal that newcomers leave for what must never be refused: releases, acknowledgements, endings of
/// sessions.
const SPARE_ROOM: usize = 1 << 20;

/// A turn with more events than this is journaled in several batches: what one command led to stays together, and a
/// batch is never so large that the journal has no place for it.
const EARLY: usize = 4 << 20;

/// So much may happen to those who wait because of one command.
const OTHERS: usize = 1 << 20;

/// When there is no space for those who wait, it is looked for again after this time.
const SPACE_PAUSE: Duration = Duration::from_secs(1);

/// If the loop was late by so much nobody can be blamed for silence: all sessions are renewed.
const GAP: Millis = 1000;

/// Decides, and makes durable what was decided.
pub(super) struct Engine {
    pub(super) kernel: Kernel,
    journal: Box<dyn Journal>,
    pub(super) out: Output,
    pub(super) clock: Clock,
    /// The time of what is decided now.
    pub(super) now: Millis,
    /// When the loop was to turn again at the latest.
    planned: Option<Millis>,
    /// How large a message can be.
    largest: usize,
    /// Why the journal took a batch in the middle of a turn no more; told at its end.
    failure: Option<io::Error>,
    pub(super) decided: u64,
    pub(super) journaled: u64,
    pub(super) batches: u64,
}

impl Engine {
    pub(super) fn new(
        kernel: Kernel,
        journal: Box<dyn Journal>,
        clock: Clock,
        unrecorded: bool,
        largest: usize,
    ) -> Self {
        let now = clock.after(Instant::now());
        Self {
            kernel,
            journal,
            out: Output { unrecorded, ..Output::default() },
            clock,
            now,
            planned: None,
            largest,
            failure: None,
            decided: 0,
            journaled: 0,
            batches: 0,
        }
    }

    /// A turn of the loop began at this instant. If it began much later than planned, the process was paused.
    pub(super) fn turn_begins(&mut self, instant: Instant) {
        let now = self.clock.after(instant).max(self.now);
        let expected = self.planned.take().unwrap_or(now).max(self.now);
        if now > expected + GAP {
            self.kernel.renew_sessions(now);
        }
        self.now = now;
    }

    /// Decides about a command.
    pub(super) fn decide(&mut self, origin: Origin, command: &Command<'_>) -> Reply {
        self.decided += 1;
        self.prepare();
        if !self.out.unrecorded
            && grows(&self.kernel, command)
            && !self.has_room_for(command)
            && !self.kernel.has_met(command)
        {
            let reason = "there is no space left for the journal";
            return Reply::Answer(Answer::error(Status::NoSpace, reason));
        }
        self.kernel.decide(self.now, origin, command, &mut self.out)
    }

    fn has_room_for(&mut self, command: &Command<'_>) -> bool {
        let needed = self.out.events.len() + size(&self.kernel, command) + SPARE_ROOM;
        self.journal.has_room(needed)
    }

    pub(super) fn cancel(&mut self, key: WaitKey, origin: Origin) -> bool {
        self.prepare();
        self.kernel.cancel(self.now, key, origin, &mut self.out)
    }

    pub(super) fn disconnected(&mut self, key: ConnectionKey) {
        self.prepare();
        self.kernel.disconnected(self.now, key, &mut self.out);
    }

    pub(super) fn half_closed(&mut self, key: ConnectionKey) {
        self.prepare();
        self.kernel.half_closed(self.now, key, &mut self.out);
    }

    pub(super) fn congested(&mut self, key: ConnectionKey, congested: bool) {
        self.prepare();
        if congested {
            self.kernel.pause(self.now, key, &mut self.out);
        } else {
            self.kernel.resume(self.now, key, &mut self.out);
        }
    }

    pub(super) fn undelivered(&mut self, parcel: &Parcel) {
        self.prepare();
        self.kernel.undelivered(self.now, parcel, &mut self.out);
    }

    /// Lets pass what was due when the turn began at this instant. Not what became due meanwhile: a keep-alive may have
    /// arrived since, and was not read.
    pub(super) fn tick(&mut self, instant: Instant) {
        self.prepare();
        self.kernel.tick(self.clock.at(instant), &mut self.out);
    }

    pub(super) fn stop(&mut self) {
        self.prepare();
        self.kernel.stop(&mut self.out);
    }

    /// Hands what has happened to the journal. Answers that were decided so far may leave when the journal is
    /// durable up to the position that is returned.
    pub(super) fn submit(&mut self) -> io::Result<Position> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.submit_batch()?;
        Ok(self.journal.submitted() + u64::from(!self.out.events.is_empty()))
    }

    /// Before each decision: in the middle of a turn, when there is much already, hands it to the journal (the
    /// answers follow at the end of the turn); and says how much may happen to those who wait.
    fn prepare(&mut self) {
        if self.out.events.len() >= EARLY && self.failure.is_none() {
            self.failure = self.submit_batch().err();
        }
        self.out.handed = 0;
        self.out.room = self.out.events.len() + OTHERS;
        self.out.is_starved = self.is_starved();
    }

    /// Whether those who wait have to wait on if they need space in the journal.
    fn is_starved(&mut self) -> bool {
        // The last of them may go beyond the room, with a message and that once more in a kept answer.
        let needed = self.out.events.len() + OTHERS + 2 * self.largest + SPARE_ROOM;
        !self.out.unrecorded && self.kernel.has_heavy_waits() && !self.journal.has_room(needed)
    }

    fn submit_batch(&mut self) -> io::Result<()> {
        if self.out.events.is_empty() || !self.journal.is_idle() {
            return Ok(());
        }
        self.journaled += self.out.events.len() as u64;
        self.batches += 1;
        self.journal.submit(&self.out.events, self.now, self.out.urgent)?;
        self.out.events.clear();
        if self.out.events.capacity() > KEPT_EVENTS {
            self.out.events.shrink_to(KEPT_EVENTS);
        }
        self.out.urgent = false;
        Ok(())
    }

    /// Up to which position everything is durable.
    pub(super) fn durable(&mut self) -> io::Result<Position> {
        self.journal.durable()
    }

    /// Lets the journal do what is due, and says when the loop has to turn again.
    pub(super) fn turn_ends(&mut self, instant: Instant) -> io::Result<Option<Instant>> {
        self.journal.turn(instant)?;
        let kernel = self.kernel.next_deadline();
        let journal = self.journal.next_turn();
        self.planned = kernel;
        let kernel = kernel.map(|time| self.clock.when(time));
        let postponed = self
            .kernel
            .has_postponed()
            .then(|| if self.is_starved() { instant + SPACE_PAUSE } else { instant });
        Ok([kernel, journal, postponed].into_iter().flatten().min())
    }

    pub(super) fn notice(&mut self) -> Option<String> {
        self.journal.notice().map(|notice| notice.to_string())
    }

    pub(super) fn close(self) -> io::Result<()> {
        let now = self.clock.at(Instant::now());
        self.journal.close(now)
    }
}

/// A buffer for events that has grown beyond this is made smaller again.
const KEPT_EVENTS: usize = 1 << 20;

/// What a command adds to the journal, at most.
fn size(kernel: &Kernel, command: &Command<'_>) -> usize {
    const FIXED: usize = 2048;
    match command.operation {
        Operation::Object { verb: Verb::Put { payload, .. }, .. }
        | Operation::Object { verb: Verb::Transfer { payload, .. }, .. } => {
            // It may be kept once more, with the answer of who takes it at once.
            FIXED + 2 * payload.len()
        }
        Operation::Object { kind: Kind::Queue, name, verb: Verb::Take { .. } } => {
            FIXED + kernel.first_message(name)
        }
        _ => FIXED,
    }
}

/// Whether it makes the state larger, so that it has to be refused when there is no space. What makes it smaller must
/// be possible then.
fn grows(kernel: &Kernel, command: &Command<'_>) -> bool {
    match &command.operation {
        Operation::Open { .. } => true,
        // The message is kept with the answer, if there is one already.
        Operation::Object { kind: Kind::Queue, name, verb: Verb::Take { .. } } => {
            command.retry.is_some() && kernel.first_message(name) > 0
        }
        Operation::Object { verb, .. } => matches!(
            verb,
            Verb::Create(_)
                | Verb::Acquire(_)
                | Verb::Put { .. }
                | Verb::Transfer { .. }
                | Verb::Arrive { .. }
                | Verb::Upgrade { .. }
        ),
        _ => false,
    }
}

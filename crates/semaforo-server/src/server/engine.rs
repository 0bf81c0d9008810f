//! The kernel with its journal and its clock.

use std::io;
use std::time::Instant;

use crate::journal::{Journal, Position};
use crate::kernel::{
    Answer, Command, ConnectionKey, Kernel, Millis, Operation, Origin, Output, Parcel, Reply,
    Status, Verb, WaitKey,
};

use super::clock::Clock;

/// Room in the journal that newcomers leave for what must never be refused: releases, acknowledgements, endings of
/// sessions.
const SPARE_ROOM: usize = 1 << 20;

/// If the loop was late by so much nobody can be blamed for silence: all sessions are renewed.
const GAP: Millis = 1000;

/// Decides, and makes durable what was decided.
pub(super) struct Engine {
    pub(super) kernel: Kernel,
    journal: Box<dyn Journal>,
    pub(super) out: Output,
    pub(super) clock: Clock,
    pub(super) now: Millis,
    /// When the loop was to turn again at the latest.
    planned: Option<Millis>,
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
    ) -> Self {
        let now = clock.at(Instant::now());
        Self {
            kernel,
            journal,
            out: Output { unrecorded, ..Output::default() },
            clock,
            now,
            planned: None,
            decided: 0,
            journaled: 0,
            batches: 0,
        }
    }

    /// A turn of the loop began at this instant. If it began much later than planned, the process was paused.
    pub(super) fn turn_begins(&mut self, instant: Instant) {
        let now = self.clock.at(instant).max(self.now);
        let expected = self.planned.take().unwrap_or(now).max(self.now);
        if now > expected + GAP {
            self.kernel.renew_sessions(now);
        }
        self.now = now;
    }

    /// Decides about a command.
    pub(super) fn decide(&mut self, origin: Origin, command: &Command<'_>) -> Reply {
        self.decided += 1;
        let needed = self.out.events.len() + size(command) + SPARE_ROOM;
        if !self.out.unrecorded
            && grows(&command.operation)
            && !self.journal.has_room(needed)
            && !self.kernel.has_met(command)
        {
            let reason = "there is no space left for the journal";
            return Reply::Answer(Answer::error(Status::NoSpace, reason));
        }
        self.kernel.decide(self.now, origin, command, &mut self.out)
    }

    pub(super) fn cancel(&mut self, key: WaitKey, origin: Origin) -> bool {
        self.kernel.cancel(self.now, key, origin, &mut self.out)
    }

    pub(super) fn disconnected(&mut self, key: ConnectionKey) {
        self.kernel.disconnected(self.now, key, &mut self.out);
    }

    pub(super) fn half_closed(&mut self, key: ConnectionKey) {
        self.kernel.half_closed(self.now, key, &mut self.out);
    }

    pub(super) fn congested(&mut self, key: ConnectionKey, congested: bool) {
        if congested {
            self.kernel.pause(self.now, key, &mut self.out);
        } else {
            self.kernel.resume(self.now, key, &mut self.out);
        }
    }

    pub(super) fn undelivered(&mut self, parcel: &Parcel) {
        self.kernel.undelivered(self.now, parcel, &mut self.out);
    }

    pub(super) fn tick(&mut self) {
        self.kernel.tick(self.now, &mut self.out);
    }

    pub(super) fn stop(&mut self) {
        self.kernel.stop(&mut self.out);
    }

    /// Hands what has happened to the journal. Answers that were decided so far may leave when the journal is
    /// durable up to the position that is returned.
    pub(super) fn submit(&mut self) -> io::Result<Position> {
        let unsent = !self.out.events.is_empty();
        if unsent && self.journal.is_idle() {
            self.journaled += self.out.events.len() as u64;
            self.batches += 1;
            self.journal.submit(&self.out.events, self.now, self.out.urgent)?;
            self.out.events.clear();
            if self.out.events.capacity() > KEPT_EVENTS {
                self.out.events.shrink_to(KEPT_EVENTS);
            }
            self.out.urgent = false;
            return Ok(self.journal.submitted());
        }
        Ok(self.journal.submitted() + u64::from(unsent))
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
        Ok([kernel, journal].into_iter().flatten().min())
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
fn size(command: &Command<'_>) -> usize {
    const FIXED: usize = 1024;
    match command.operation {
        Operation::Object { verb: Verb::Put { payload, .. }, .. }
        | Operation::Object { verb: Verb::Transfer { payload, .. }, .. } => {
            FIXED + payload.len() + FIXED
        }
        // A message that is taken may be kept with the answer.
        Operation::Object { verb: Verb::Take { .. }, .. } if command.retry.is_some() => 2 << 20,
        _ => FIXED,
    }
}

/// Whether it makes the state larger, so that it has to be refused when there is no space. What makes it smaller must
/// be possible then.
fn grows(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Open { .. } => true,
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

//! The kernel with its journal and its clock.

use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use semaforo_protocol::table::Effect;

use crate::journal::{Journal, Notice, Position};
use crate::kernel::{
    Answer, Charge, Command, ConnectionKey, Kernel, Kind, Millis, Operation, Origin, Output,
    Parcel, Reply, SessionId, Status, Verb, WaitId,
};

use super::clock::Clock;
use super::fences::Fences;

/// Space in the journal that is left for what gives space back: what needs more is refused below
/// it.
const RESERVE: usize = 1 << 20;

/// Space in the journal that is left for what happens by itself: sessions that end, barriers that
/// break. What gives space back is refused below it.
const LAST_RESERVE: usize = 64 << 10;

/// A turn with more events than this is journaled in several batches: what one command led to stays
/// together, and a batch is never so large that the journal has no place for it.
const EARLY: usize = 4 << 20;

/// So much may happen to waiting requests because of one command: 4096 may be let through, if they
/// get no messages.
const OTHERS: usize = 1 << 20;

/// So many holds, messages and waiting requests of what ends are given back at once: that takes
/// some milliseconds.
const PORTION: usize = 4096;

/// When the journal has no space for waiting requests, it is looked for again after this time.
const SPACE_PAUSE: Duration = Duration::from_secs(1);

/// When the space that they wait for is being made, it is looked for again after this time.
const SPACE_MOMENT: Duration = Duration::from_millis(5);

/// A batch that takes longer than this to be written and synced is worth a line of the log.
const SLOW_BATCH: Duration = Duration::from_millis(100);

/// If the loop was late by so much no client can be blamed for silence: all sessions are renewed.
const GAP: Millis = 1000;

/// How large a batch can be, and how large one has to be that lets anything through, if messages
/// can be so large.
pub(super) fn batches(largest: usize) -> RangeInclusive<usize> {
    let least = 2 * largest + RESERVE + LAST_RESERVE;
    least..=least + EARLY + OTHERS
}

/// Decides, and makes durable what was decided.
pub(super) struct Engine {
    pub(super) kernel: Kernel,
    journal: Box<dyn Journal>,
    /// Where fences are reserved if the journal keeps nothing.
    fences: Option<Fences>,
    pub(super) out: Output,
    pub(super) clock: Clock,
    /// The time of what is decided now.
    pub(super) now: Millis,
    /// When the loop was to turn again at the latest.
    planned: Option<Millis>,
    /// How large a message can be.
    largest: usize,
    /// How many bytes those messages have that were taken for good and were [not tried to be
    /// sent](Self::all_tried): they may come back before their producers are answered, and there
    /// has to be space for that.
    in_delivery: usize,
    /// Messages that come back when there is space for them.
    returning: VecDeque<Parcel>,
    /// Requests wait for space in the journal, of which the least needs so many bytes.
    held_for: Option<usize>,
    /// The sessions of those, which live on meanwhile.
    held_sessions: Vec<(Origin, SessionId)>,
    /// Why the journal took a batch in the middle of a turn no more; told at its end.
    failure: Option<io::Error>,
    /// The batch of this turn that took longest, and how many bytes it had, if it took long.
    slow_batch: Option<(Duration, usize)>,
    /// How long the journal took to sync what was written before, if it took long.
    slow_sync: Option<Duration>,
    pub(super) decided: u64,
    pub(super) journaled: u64,
    pub(super) batches: u64,
}

impl Engine {
    pub(super) fn new(
        kernel: Kernel,
        journal: Box<dyn Journal>,
        clock: Clock,
        fences: Option<Fences>,
        largest: usize,
    ) -> Self {
        let now = clock.after(Instant::now());
        let unrecorded = fences.is_some();
        Self {
            kernel,
            journal,
            fences,
            out: Output { unrecorded, ..Output::default() },
            clock,
            now,
            planned: None,
            largest,
            in_delivery: 0,
            returning: VecDeque::new(),
            held_for: None,
            held_sessions: Vec::new(),
            failure: None,
            slow_batch: None,
            slow_sync: None,
            decided: 0,
            journaled: 0,
            batches: 0,
        }
    }

    /// A turn of the loop began at this instant. If it began much later than planned, the process
    /// was paused.
    pub(super) fn turn_begins(&mut self, instant: Instant) {
        let now = self.clock.after(instant).max(self.now);
        // Within a turn it was to go on at once.
        let expected = self.planned.take().unwrap_or(self.now).max(self.now);
        if now > expected + GAP {
            self.kernel.renew_sessions(now);
        }
        self.now = now;
    }

    /// Decides about a command; none if it needs space in the journal that is still being made:
    /// then it is to be asked again when [that is over](Self::can_go_on).
    pub(super) fn decide(&mut self, origin: Origin, command: &Command<'_>) -> Option<Reply> {
        self.prepare();
        let needed = self.needed_for(command);
        if !self.has_space_for(needed) && !self.kernel.has_met(command) {
            if self.awaits_space() {
                self.held_for = Some(self.held_for.map_or(needed, |least| least.min(needed)));
                self.held_sessions.extend(command.session.map(|session| (origin, session)));
                return None;
            }
            self.decided += 1;
            let reason = "there is no space left for the journal";
            return Some(Reply::Answer(Answer::error(Status::NoSpace, reason)));
        }
        self.decided += 1;
        Some(self.kernel.decide(self.now, origin, command, &mut self.out))
    }

    /// How many bytes of events there has to be space for, with what is left for others.
    fn needed_for(&self, command: &Command<'_>) -> usize {
        match effect(&self.kernel, command) {
            Effect::Nothing => 0,
            Effect::Grows => size(&self.kernel, command) + RESERVE,
            Effect::Shrinks => size(&self.kernel, command),
        }
    }

    fn has_space_for(&self, needed: usize) -> bool {
        needed == 0 || self.out.events.len() + needed <= self.out.space
    }

    /// Whether there will be more space soon, or it will be known that there is none.
    fn awaits_space(&self) -> bool {
        self.journal.is_preparing() || self.in_delivery > 0
    }

    /// Whether requests that had to wait for space are to be asked again: there is enough for one
    /// of them, or it is known that there will not be.
    pub(super) fn can_go_on(&mut self) -> bool {
        let Some(least) = self.held_for else { return false };
        self.prepare();
        if self.awaits_space() && !self.has_space_for(least) {
            return false;
        }
        self.held_for = None;
        self.held_sessions.clear();
        true
    }

    /// Keeps the sessions alive whose requests wait for space in the journal.
    fn keep_held_sessions(&mut self) {
        for (origin, session) in std::mem::take(&mut self.held_sessions) {
            let operation = Operation::KeepAlive;
            let session = Some(session);
            let command = Command {
                session,
                retry: None,
                acked: None,
                timeout: None,
                charge: Charge::default(),
                operation,
            };
            self.kernel.decide(self.now, origin, &command, &mut self.out);
            self.held_sessions.extend(session.map(|session| (origin, session)));
        }
    }

    pub(super) fn cancel(&mut self, wait: WaitId, origin: Origin) -> bool {
        self.prepare();
        self.kernel.cancel(self.now, wait, origin, &mut self.out)
    }

    pub(super) fn disconnected(&mut self, key: ConnectionKey) {
        self.prepare_last();
        self.kernel.disconnected(self.now, key, &mut self.out);
    }

    pub(super) fn half_closed(&mut self, key: ConnectionKey) {
        self.prepare_last();
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

    /// A message comes back. If it [was tried to be sent](Self::all_tried), there may be no space
    /// for it: then it comes back when there is.
    pub(super) fn undelivered(&mut self, parcel: &Parcel, was_tried: bool) {
        if was_tried {
            self.returning.push_back(parcel.clone());
            return self.let_return();
        }
        self.in_delivery = self.in_delivery.saturating_sub(size_of_return(parcel));
        self.prepare_last();
        self.kernel.undelivered(self.now, parcel, &mut self.out);
    }

    /// Lets messages come back, as far as there is space.
    fn let_return(&mut self) {
        while let Some(parcel) = self.returning.front() {
            let needed = size_of_return(parcel);
            self.prepare_last();
            if !self.has_space_for(needed) {
                return;
            }
            if let Some(parcel) = self.returning.pop_front() {
                self.kernel.undelivered(self.now, &parcel, &mut self.out);
            }
        }
    }

    /// A message was taken for good, and is on its way.
    pub(super) fn in_delivery(&mut self, parcel: &Parcel) {
        self.in_delivery += size_of_return(parcel);
    }

    /// It was tried to send all messages that were on their way. Those of which nothing was sent
    /// may still come back, but their producers have been answered.
    pub(super) fn all_tried(&mut self) {
        self.in_delivery = 0;
    }

    /// Lets pass what was due when the turn began at this instant. Not what became due meanwhile: a
    /// keep-alive may have arrived since, and was not read.
    pub(super) fn tick(&mut self, instant: Instant) {
        self.let_return();
        self.keep_held_sessions();
        self.prepare_last();
        self.kernel.tick(self.clock.at(instant), &mut self.out);
    }

    pub(super) fn stop(&mut self) {
        self.prepare();
        self.kernel.stop(&mut self.out);
    }

    /// Hands what has happened to the journal. Answers that were decided so far may leave when the
    /// journal is durable up to the position that is returned.
    pub(super) fn submit(&mut self) -> io::Result<Position> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if let Some(fences) = &mut self.fences
            && let Some(first) = fences.after(self.kernel.next_fence())?
        {
            self.kernel.skip_fences(first);
        }
        self.submit_batch()?;
        Ok(self.journal.submitted() + u64::from(!self.out.events.is_empty()))
    }

    /// Before each decision: in the middle of a turn, when there is much already, hands it to the
    /// journal (the answers follow at the end of the turn); and says how much may happen to waiting
    /// requests.
    fn prepare(&mut self) {
        self.prepare_beside(LAST_RESERVE);
    }

    /// The same for what happens by itself, and may use the last of the space.
    fn prepare_last(&mut self) {
        self.prepare_beside(0);
    }

    /// The same, if so much space is left alone.
    fn prepare_beside(&mut self, reserve: usize) {
        if self.out.events.len() >= EARLY && self.failure.is_none() {
            self.failure = self.submit_batch().err();
        }
        self.out.handed = 0;
        self.out.budget = self.out.events.len() + OTHERS;
        self.out.most_handed = OTHERS;
        self.out.moved = 0;
        self.out.portion = PORTION;
        if self.out.unrecorded {
            return;
        }
        let kept = self.in_delivery + reserve;
        let wanted = self.out.events.len() + OTHERS + 2 * self.largest + RESERVE + kept;
        self.out.space = self.journal.space(wanted).saturating_sub(kept);
        self.out.is_starved = self.kernel.has_heavy_waits() && self.is_limited();
    }

    /// Whether requests that wait have to wait on if they need space in the journal: the last of
    /// them may go beyond the budget, with a message and that once more in a kept answer.
    fn is_limited(&self) -> bool {
        self.out.space < self.out.events.len() + 2 * self.largest + RESERVE
    }

    /// Whether the journal has no more space than it has now.
    pub(super) fn is_short_of_space(&self) -> bool {
        self.journal.is_short_of_space()
    }

    fn submit_batch(&mut self) -> io::Result<()> {
        if self.out.events.is_empty() || !self.journal.is_idle() {
            return Ok(());
        }
        if !self.journal.fits(self.out.events.len()) {
            // Nothing was written: the answers wait, and it is tried again.
            self.journal.prepare_for(self.out.events.len());
            return Ok(());
        }
        self.journaled += self.out.events.len() as u64;
        self.batches += 1;
        let (begun, bytes) = (Instant::now(), self.out.events.len());
        self.journal.submit(&self.out.events, self.now, self.out.urgent)?;
        let took = begun.elapsed();
        if took >= SLOW_BATCH && self.slow_batch.is_none_or(|(longest, _)| took > longest) {
            self.slow_batch = Some((took, bytes));
        }
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
        let begun = Instant::now();
        self.journal.turn(instant)?;
        self.slow_sync = Some(begun.elapsed()).filter(|took| *took >= SLOW_BATCH);
        let kernel = self.kernel.next_deadline();
        let journal = self.journal.next_turn();
        self.planned = kernel;
        let mut kernel = kernel.map(|time| self.clock.when(time));
        let mut postponed = self.kernel.has_postponed().then_some(instant);
        let mut waiting = None;
        if let Some(pause) = self.pause_for_space() {
            // What is due and does not happen needs space. It is looked for again, but not all the
            // time.
            let later = instant + pause;
            kernel = kernel.map(|at| if at <= instant { later } else { at });
            postponed = postponed.map(|_| later);
            let waits =
                self.held_for.is_some() || !self.returning.is_empty() || self.is_unwritten();
            waiting = waits.then_some(later);
        }
        Ok([kernel, journal, postponed, waiting].into_iter().flatten().min())
    }

    /// When space is to be looked for again, if there is little.
    fn pause_for_space(&mut self) -> Option<Duration> {
        self.prepare();
        let is_little = self.is_limited()
            || self.is_short_of_space()
            || self.held_for.is_some()
            || self.is_unwritten();
        let pause = if self.awaits_space() { SPACE_MOMENT } else { SPACE_PAUSE };
        (is_little && !self.out.unrecorded).then_some(pause)
    }

    /// Whether the journal had no place for what has happened.
    fn is_unwritten(&self) -> bool {
        !self.out.events.is_empty() && self.journal.is_idle()
    }

    /// A batch that took long in this turn, and how many bytes it had.
    pub(super) fn slow_batch(&mut self) -> Option<(Duration, usize)> {
        self.slow_batch.take()
    }

    /// How long it took to sync what earlier turns had written, if it took long.
    pub(super) fn slow_sync(&mut self) -> Option<Duration> {
        self.slow_sync.take()
    }

    pub(super) fn notice(&mut self) -> Option<Notice> {
        self.journal.notice()
    }

    pub(super) fn close(self) -> io::Result<()> {
        let now = self.clock.at(Instant::now());
        self.journal.close(now)
    }
}

/// A buffer for events that has grown beyond this is made smaller again.
const KEPT_EVENTS: usize = 1 << 20;

/// What a message adds to the journal when it comes back.
fn size_of_return(parcel: &Parcel) -> usize {
    const FIXED: usize = 64;
    FIXED + parcel.payload().len()
}

/// What an outcome without a message adds to the journal when it is kept, at most.
const OUTCOME: usize = 64;

/// What a command adds to the journal, at most, without what it lets happen to waiting requests.
fn size(kernel: &Kernel, command: &Command<'_>) -> usize {
    const FIXED: usize = 2048;
    let Operation::Object { kind, name, verb } = command.operation else { return FIXED };
    match (kind, verb) {
        // It may have to come back, or is kept.
        (Kind::Queue, Verb::Take { .. }) => FIXED + kernel.first_message(name),
        // The outcomes of all parties that have one kept, if this is the last to come.
        (Kind::Barrier, Verb::Arrive { .. }) => FIXED + OUTCOME * kernel.numbered_parties(name),
        // A message may be kept once more, with the answer of a taker that has it at once.
        _ => FIXED + 2 * verb.payload().map_or(0, <[u8]>::len),
    }
}

/// What a command does to the space of the journal.
fn effect(kernel: &Kernel, command: &Command<'_>) -> Effect {
    let Some(row) = command.operation.row() else { return Effect::Nothing };
    match command.operation {
        // It adds to what there is, as often as the count allows.
        Operation::Object { kind: Kind::Semaphore, name, verb: Verb::Release { .. } }
            if kernel.is_open(name) =>
        {
            Effect::Grows
        }
        // The message is kept with the answer if that is numbered.
        _ if row.gives_payload && row.keeps_outcome && command.retry.is_some() => Effect::Grows,
        _ => row.effect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semaforo_protocol::limits::MAX_OUTSTANDING;

    use crate::journal::MemoryJournal;
    use crate::kernel::{Limits, MAX_NUMBERED_PARTIES, Retry, SessionId, State};

    const TTL: Duration = Duration::from_millis(1500);

    /// An engine with a session that is silent from this instant on.
    fn engine() -> (Engine, Instant) {
        let (clock, start) = (Clock::starting(1_000_000, 0), Instant::now());
        let kernel = Kernel::new(State::default(), Limits::default(), clock.after(start), 1);
        let mut engine = Engine::new(kernel, Box::new(MemoryJournal::new()), clock, None, 100);
        engine.turn_begins(start);
        let (id, ttl) = (SessionId(1), TTL.as_millis() as Millis);
        let operation = Operation::Open { id, ttl, label: "" };
        let open = Command {
            session: None,
            retry: None,
            acked: None,
            timeout: None,
            charge: Charge::default(),
            operation,
        };
        engine.decide(Origin { connection: ConnectionKey(1), ticket: 1 }, &open).unwrap();
        (engine, start)
    }

    fn turn(engine: &mut Engine, at: Instant) -> usize {
        engine.turn_begins(at);
        engine.tick(at);
        engine.turn_ends(at).unwrap();
        engine.kernel.census().sessions
    }

    /// The process is stopped after some of a turn's requests were read, or between two turns.
    #[test]
    fn a_pause_ends_no_session_wherever_in_a_turn_it_begins() {
        let moment = Duration::from_millis(1);
        for is_within_a_turn in [false, true] {
            let (mut engine, start) = engine();
            assert_eq!(turn(&mut engine, start + moment), 1);
            let resumed = start + TTL + Duration::from_millis(1500);
            if is_within_a_turn {
                engine.turn_begins(start + 2 * moment);
                engine.turn_begins(resumed);
                // What was due when this turn began.
                engine.tick(start + 2 * moment);
                engine.turn_ends(start + 2 * moment).unwrap();
            }
            assert_eq!(turn(&mut engine, resumed + moment), 1, "within: {is_within_a_turn}");
            assert_eq!(turn(&mut engine, resumed + TTL / 2), 1);
            // From then on it has to speak again.
            assert_eq!(turn(&mut engine, resumed + TTL + 3 * moment), 0);
        }
    }

    /// There is space for the outcomes of all parties, if the journal has any.
    #[test]
    fn the_largest_barrier_of_numbered_parties_trips() {
        let (mut engine, _) = engine();
        let operation = |parties| {
            let verb = Verb::Arrive { parties, generation: None };
            Operation::Object { kind: Kind::Barrier, name: "b", verb }
        };
        let mut last = None;
        for party in 0..u64::from(MAX_NUMBERED_PARTIES) {
            let (id, seq) = (2 + party / MAX_OUTSTANDING, 1 + party % MAX_OUTSTANDING);
            let origin = Origin { connection: ConnectionKey(1), ticket: 2 + party };
            let session = Some(SessionId(id.into()));
            if seq == 1 {
                let (ttl, label) = (TTL.as_millis() as Millis, "");
                let operation = Operation::Open { id: SessionId(id.into()), ttl, label };
                let command = Command {
                    session: None,
                    retry: None,
                    acked: None,
                    timeout: None,
                    charge: Charge::default(),
                    operation,
                };
                engine.decide(origin, &command);
            }
            let retry = Some(Retry { seq, digest: 0 });
            let operation = operation(MAX_NUMBERED_PARTIES);
            let command = Command {
                session,
                retry,
                acked: None,
                timeout: None,
                charge: Charge::default(),
                operation,
            };
            last = engine.decide(origin, &command);
        }
        let Some(Reply::Answer(answer)) = last else { panic!("{last:?} is no answer") };
        assert_eq!(answer.status, Status::Done);
        assert_eq!(engine.out.answers.len(), MAX_NUMBERED_PARTIES as usize - 1);
    }
}

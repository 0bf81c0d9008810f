//! What has ended, and had so much that giving it back takes longer than a turn may last: sessions
//! and connections with very many holds or waiting requests, objects where very many requests wait.
//!
//! A session is over for its client at once, and an object's name is free at once. What they had is
//! given back in [portions](Output::portion), by the ticks that follow.

use super::answer::{Answer, Status};
use super::barriers::{arrived, broken};
use super::command::{ConnectionKey, Millis, Origin};
use super::event::Event;
use super::ids::{ObjectId, SessionSlot, WaitId};
use super::session::Owner;
use super::state::{Barrier, Body, Object};
use super::waits::{Ask, List};
use super::{EndedSession, Kernel, Output, SMALL, SessionEnd};

/// More bytes than the event of a hold that is given back has in the journal, or that of messages.
const RELEASED: usize = 32;

/// More bytes than the outcome of a request that was let through has in the journal when it is
/// kept.
const OUTCOME: usize = 64;

/// An owner that has ended, and still has something; or a connection with which there is [more to
/// do](super::connections).
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) owner: Owner,
    /// The request that closed the session: it is answered when everything is given back.
    pub(super) closer: Option<Origin>,
}

impl Kernel {
    /// Ends a session. Whether all that it had is given back already; otherwise `closer` is
    /// answered when it is.
    pub(super) fn end_session(
        &mut self,
        slot: SessionSlot,
        why: SessionEnd,
        closer: Option<Origin>,
        now: Millis,
        out: &mut Output,
    ) -> bool {
        let Some(session) = self.state.session_mut(slot) else { return true };
        if out.tells {
            out.ended.push(EndedSession { id: session.id, label: session.label.clone(), why });
        }
        if let Some(check) = session.check.take() {
            self.session_checks.remove(&(check, slot));
        }
        let (head, has) = (session.waits.head(), session.holdings.len());
        let waits = self.waits.first_of(head, List::Session, out.portion.saturating_add(1)).len();
        if waits.saturating_add(has) <= out.portion {
            self.finish_session(slot, now, out);
            return true;
        }
        self.emit(&Event::SessionLeaves { session: slot }, out);
        self.leaving.push_back(Leaving { owner: Owner::Session(slot), closer });
        false
    }

    /// Gives back all that a session has, and ends it.
    fn finish_session(&mut self, slot: SessionSlot, now: Millis, out: &mut Output) {
        self.end_session_waits(slot, usize::MAX, now, out);
        let Some(session) = self.state.session(slot) else { return };
        let portion = session.holdings.first(usize::MAX);
        let objects = self.objects_of(&portion);
        out.moved += 1 + portion.len() + session.kept.len();
        let bytes = session.kept_bytes(u64::MAX);
        self.bytes -= bytes;
        self.kept -= bytes;
        self.emit(&Event::SessionEnded { session: slot }, out);
        self.pump_all(objects, now, out);
    }

    /// Ends the first waiting requests of a session. Whether there was one.
    fn end_session_waits(
        &mut self,
        slot: SessionSlot,
        most: usize,
        now: Millis,
        out: &mut Output,
    ) -> bool {
        let head = self.state.session(slot).and_then(|session| session.waits.head());
        let waits = self.waits.first_of(head, List::Session, most);
        let mut left = Vec::new();
        for wait in &waits {
            left.extend(self.step_aside(*wait, Some(ended()), out));
        }
        out.moved += waits.len();
        self.pump_each(left, now, out);
        !waits.is_empty()
    }

    /// The sessions that were leaving when the server ended go on with it.
    pub(super) fn find_leaving(&mut self) {
        let sessions = self.state.sessions().filter(|(_, session)| session.is_leaving);
        let owners = sessions.map(|(slot, _)| Owner::Session(slot));
        self.leaving.extend(owners.map(|owner| Leaving { owner, closer: None }));
    }

    /// Ends a request whose turn has come if its session has ended, or its connection. Whether it
    /// has.
    pub(super) fn comes_too_late(&mut self, wait_id: WaitId, out: &mut Output) -> bool {
        if self.leaving.is_empty() {
            return false;
        }
        if let Some(Owner::Session(slot)) = self.waits.get(wait_id).map(|wait| wait.owner)
            && self.state.session(slot).is_some_and(|session| session.is_leaving)
        {
            self.step_aside(wait_id, Some(ended()), out);
            return true;
        }
        self.is_overdue(wait_id, out)
    }

    /// The requests of a connection that close a session wait no longer: what they want is going to
    /// happen.
    pub(super) fn excuse_closers(&mut self, key: ConnectionKey, tell: bool, out: &mut Output) {
        for leaving in &mut self.leaving {
            if let Some(origin) = leaving.closer.take_if(|origin| origin.connection == key)
                && tell
            {
                out.answer(origin, Answer::done());
            }
        }
    }

    /// The server stops: requests that close a session are told that it may not be over yet.
    pub(super) fn dismiss_closers(&mut self, out: &mut Output) {
        for origin in self.leaving.iter_mut().filter_map(|leaving| leaving.closer.take()) {
            out.answer(origin, Answer::error(Status::Stopping, "shutting down"));
        }
    }

    /// Whether something that has ended has not been given back as a whole.
    pub(super) fn is_giving_back(&self) -> bool {
        !self.leaving.is_empty() || !self.retired.is_empty()
    }

    /// Gives back another portion of what has ended.
    pub(super) fn go_on_giving_back(&mut self, now: Millis, out: &mut Output) {
        // Objects first: what an owner has of an object that is deleted is not its own to give
        // back.
        while let Some(id) = self.retired.front().copied() {
            if !self.take_apart(id, out) {
                return;
            }
            self.retired.pop_front();
        }
        while let Some(leaving) = self.leaving.front().copied() {
            if out.has_moved_enough() || !out.has_space(SMALL) {
                return;
            }
            let ended = match leaving.owner {
                Owner::Session(slot) => self.leave_session(slot, now, out),
                Owner::Connection(key) => {
                    let most = out.portion.saturating_sub(out.moved).max(1);
                    self.go_on_with(key, most, now, out)
                }
            };
            self.leaving.pop_front();
            if !ended {
                self.leaving.push_back(leaving);
                return;
            }
            if let Some(origin) = leaving.closer {
                out.answer(origin, Answer::done());
            }
        }
    }

    /// The next portion of a session. Whether it was the last.
    fn leave_session(&mut self, slot: SessionSlot, now: Millis, out: &mut Output) -> bool {
        let most = out.portion.saturating_sub(out.moved).max(1);
        if self.end_session_waits(slot, most, now, out) {
            return false;
        }
        let Some(session) = self.state.session(slot) else { return true };
        if session.holdings.len() <= most {
            self.finish_session(slot, now, out);
            return true;
        }
        let portion = session.holdings.first(most.min(out.space_left() / RELEASED));
        let objects = self.objects_of(&portion);
        out.moved += most;
        for (_, fence) in &portion.holds {
            self.emit(&Event::Released { fence: *fence, permits: 0 }, out);
        }
        for (queue, numbers) in portion.loans() {
            let upto = numbers.last().copied().unwrap_or_default();
            self.emit(&Event::LoansEnded { session: slot, queue, upto }, out);
        }
        self.pump_all(objects, now, out);
        false
    }

    /// Whether so much hangs on an object that it is taken apart in portions.
    pub(super) fn needs_portions(&self, id: ObjectId, out: &Output) -> bool {
        let Some(object) = self.state.object(id) else { return false };
        let messages = if let Body::Queue(messages) = &object.body { messages.len() } else { 0 };
        let waiting = object.waiting as usize;
        waiting.saturating_add(object.holders.len()).saturating_add(messages) > out.portion
    }

    /// Whether the journal has space for the answers that are kept if all requests that wait at an
    /// object were let through.
    pub(super) fn has_space_for_last_answers(&self, id: ObjectId, out: &Output) -> bool {
        let waiting = self.state.object(id).map_or(0, |object| object.waiting as usize);
        out.has_space(SMALL.saturating_add(waiting.saturating_mul(OUTCOME)))
    }

    /// An object is gone, which the journal knows from `event`: its name is free, and what hangs on
    /// it is taken apart by and by. Requests that wait there get [their last
    /// answer](Self::last_answer).
    pub(super) fn retire(&mut self, id: ObjectId, event: &Event<'_>, out: &mut Output) {
        if !out.unrecorded {
            event.encode(&mut out.events);
        }
        if let Some(postponed) = self.state.object(id).and_then(|object| object.postponed) {
            self.postponed.remove(&postponed.turn);
        }
        self.state.retire(id);
        self.retired.push_back(id);
    }

    /// Takes an object apart that is gone, as far as the portion allows. Whether nothing is left.
    fn take_apart(&mut self, id: ObjectId, out: &mut Output) -> bool {
        while !out.has_moved_enough() {
            out.moved += 1;
            if let Some(wait_id) = self.state.object(id).and_then(Object::any_wait) {
                if out.is_full() || !self.can_be_told(wait_id, out) {
                    return false;
                }
                let answer =
                    self.last_answer(wait_id).unwrap_or_else(|| Answer::plain(Status::NotFound));
                self.complete(wait_id, answer, out);
            } else if let Some(bytes) = self.state.drop_message(id) {
                self.messages -= 1;
                self.bytes -= bytes;
            } else if !self.state.drop_hold(id) {
                self.state.forget_retired(id);
                return true;
            }
        }
        false
    }

    /// Whether a request that was let through can be told now: if its answer is kept the journal
    /// needs space for that.
    pub(super) fn can_be_told(&self, wait_id: WaitId, out: &Output) -> bool {
        let is_kept = self.waits.get(wait_id).is_some_and(|wait| wait.retry.is_some());
        !is_kept || out.has_space(SMALL)
    }

    /// The answer to a request that waits at an object that is gone: the barrier may have tripped,
    /// the request may have been let through.
    pub(super) fn last_answer(&self, wait_id: WaitId) -> Option<Answer> {
        let wait = self.waits.get(wait_id)?;
        let object = self.state.object(wait.object).filter(|object| object.is_retired)?;
        Some(match (&object.body, &wait.ask) {
            (Body::Barrier(Barrier { generation, broken: false, .. }), Ask::Arrive { index }) => {
                arrived(*generation, *index)
            }
            (Body::Barrier(_), _) => broken(),
            _ => self.answer_of_deleted(wait_id),
        })
    }

    /// The answer to a request that waits at an object that is deleted: what was let through, and
    /// only was not told, has got through.
    pub(super) fn answer_of_deleted(&self, wait_id: WaitId) -> Answer {
        if self.was_let_through(wait_id) {
            return Answer::done();
        }
        Answer::error(Status::NotFound, "it was deleted while the request waited")
    }
}

/// The answer to a request whose session has ended.
fn ended() -> Answer {
    Answer::error(Status::Gone, "the session has ended")
}

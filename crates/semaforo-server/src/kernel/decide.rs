//! A command comes in: for which session, for the first time or again, and for what.

use semaforo_protocol::limits::MAX_OUTSTANDING;
use semaforo_protocol::table::Row;

use super::answer::{Answer, Content, Header, Status};
use super::command::{Command, Millis, Operation, Origin, Retry};
use super::event::Event;
use super::ids::{ObjectId, SessionSlot, WaitId};
use super::semaphores::no_number;
use super::session::{Owner, SessionId};
use super::state::{Body, Object};
use super::verb::{HoldMode, Settings, Verb};
use super::view::View;
use super::{Kernel, Kind, Output, Reply, RequestContext, SessionEnd};

impl Kernel {
    /// Decides about a command: its own reply is returned, what else happens is added to `out`.
    pub fn decide(
        &mut self,
        now: Millis,
        origin: Origin,
        command: &Command<'_>,
        out: &mut Output,
    ) -> Reply {
        if let Operation::Open { id, ttl, label } = command.operation {
            return Reply::Answer(self.open(now, id, ttl, label, out));
        }
        let owner = match command.session {
            None => {
                if command.retry.is_some() || command.acked.is_some() {
                    return bad_request("seq and acked need a named session");
                }
                Owner::Connection(origin.connection)
            }
            Some(id) => match self.state.find_session(id) {
                None => return error(Status::Gone, "there is no such session (any more)"),
                Some(slot) => {
                    self.renew(slot, now);
                    Owner::Session(slot)
                }
            },
        };
        let (retry, timeout) = (command.retry, command.timeout);
        let charge = command.charge.clone();
        let context = RequestContext { now, owner, origin, retry, timeout, charge };
        if let Owner::Session(slot) = owner
            && let Some(reply) = self.recall(&context, slot, command.acked, out)
        {
            return reply;
        }
        let row = command.operation.row();
        let changes = row.is_some_and(|row| row.keeps_outcome);
        if changes
            && retry.is_some()
            && let Some(refusal) = self.no_memory_to_keep(&command.operation)
        {
            return Reply::Answer(refusal);
        }
        let reply = self.perform(&context, &command.operation, out);
        if let Reply::Answer(answer) = &reply
            && changes
        {
            self.keep(owner, retry, answer, out);
        }
        reply
    }

    /// Whether a session's request has come before, so that nothing new has to be done for it.
    #[must_use]
    pub fn has_met(&self, command: &Command<'_>) -> bool {
        let (Some(id), Some(Retry { seq, .. })) = (command.session, command.retry) else {
            return false;
        };
        let session = self.state.find_session(id).and_then(|slot| self.state.session(slot));
        session.is_some_and(|session| {
            session.kept.contains_key(&seq) || session.waiting.contains_key(&seq)
        })
    }

    /// Looks whether a session's request has come before.
    fn recall(
        &mut self,
        context: &RequestContext,
        slot: SessionSlot,
        acked: Option<u64>,
        out: &mut Output,
    ) -> Option<Reply> {
        let session = self.state.session(slot)?;
        // If there is no space for that, the session will say it again with its next request.
        if let Some(upto) = acked
            && upto > session.acked
            && out.has_space(super::SMALL)
        {
            let bytes = session.kept_bytes(upto);
            self.bytes -= bytes;
            self.kept -= bytes;
            self.emit(&Event::OutcomesAcknowledged { session: slot, upto }, out);
        }
        let Retry { seq, digest } = context.retry?;
        let session = self.state.session(slot)?;
        if seq <= session.acked {
            return Some(Reply::Close);
        }
        if seq > session.acked.saturating_add(MAX_OUTSTANDING) {
            let reason = format!("seq {seq} is more than {MAX_OUTSTANDING} above acked");
            return Some(error(Status::OverLimit, reason));
        }
        let other = || Some(error(Status::Conflict, format!("seq {seq} was another request")));
        if let Some(kept) = session.kept.get(&seq) {
            if kept.digest != digest {
                return other();
            }
            return Some(Reply::Answer(kept.answer.clone()));
        }
        let wait_id = *session.waiting.get(&seq)?;
        if self.waits.get(wait_id)?.retry.is_some_and(|retry| retry.digest != digest) {
            return other();
        }
        Some(self.reattach(context, wait_id, out))
    }

    fn perform(
        &mut self,
        context: &RequestContext,
        operation: &Operation<'_>,
        out: &mut Output,
    ) -> Reply {
        match *operation {
            Operation::Ping | Operation::Open { .. } => Reply::Answer(Answer::done()),
            Operation::KeepAlive => match context.owner {
                Owner::Session(slot) => {
                    let ttl = self.state.session(slot).map_or(0, |session| session.ttl);
                    Reply::Answer(Answer::done().with(Header::Ttl, ttl))
                }
                Owner::Connection(_) => bad_request("which session? header session is missing"),
            },
            Operation::Close => match context.owner {
                Owner::Session(slot) => {
                    let (why, closer) = (SessionEnd::Closed, Some(context.origin));
                    if self.end_session(slot, why, closer, context.now, out) {
                        Reply::Answer(Answer::done())
                    } else {
                        Reply::Waits(WaitId::FIXED)
                    }
                }
                Owner::Connection(_) => bad_request("which session? header session is missing"),
            },
            Operation::Cancel { seq } => {
                let Owner::Session(slot) = context.owner else {
                    return bad_request(
                        "a seq belongs to a session, but header session is missing",
                    );
                };
                let waiting =
                    self.state.session(slot).and_then(|session| session.waiting.get(&seq));
                let Some(wait_id) = waiting.copied() else {
                    return error(Status::NotFound, format!("no request of seq {seq} waits"));
                };
                self.withdraw(wait_id, Some(Answer::plain(Status::TimedOut)), context.now, out);
                Reply::Answer(Answer::done())
            }
            Operation::List(selection) => {
                let view = View::List(self.list(selection));
                Reply::Answer(Answer::done().containing(Content::View(Box::new(view))))
            }
            Operation::Object { kind, name, verb } => self.serve(context, kind, name, verb, out),
        }
    }

    fn serve(
        &mut self,
        context: &RequestContext,
        kind: Kind,
        name: &str,
        verb: Verb<'_>,
        out: &mut Output,
    ) -> Reply {
        match (kind, verb) {
            (_, Verb::Create(settings)) => self.create(kind, name, settings, out),
            (Kind::Lock, Verb::Acquire(_)) => {
                self.enter_by_use(context, kind, name, HoldMode::Permits(1), out)
            }
            (Kind::ReadWriteLock, Verb::Acquire(HoldMode::Permits(_))) => {
                bad_request("a reader-writer lock has readers and writers, not permits")
            }
            (Kind::ReadWriteLock, Verb::Acquire(mode)) => {
                self.enter_by_use(context, kind, name, mode, out)
            }
            (Kind::Barrier, verb) if verb != Verb::Show => {
                self.serve_barrier(context, name, verb, out)
            }
            _ => match self.state.find(kind, name) {
                Some(id) => self.serve_at(context, kind, id, verb, out),
                None => match Row::of(kind, verb.method()) {
                    None => no_such_method(kind, verb),
                    Some(row) if row.names_a_hold && kind.exists_by_use() => {
                        error(Status::Gone, format!("nobody holds {} {name:?}", kind.singular()))
                    }
                    Some(_) => {
                        error(Status::NotFound, format!("there is no {} {name:?}", kind.singular()))
                    }
                },
            },
        }
    }

    /// Something is to be done with an object that is there.
    fn serve_at(
        &mut self,
        context: &RequestContext,
        kind: Kind,
        id: ObjectId,
        verb: Verb<'_>,
        out: &mut Output,
    ) -> Reply {
        match (kind, verb) {
            (_, Verb::Show) => match self.view(id) {
                Some(view) => {
                    let view = Content::View(Box::new(View::Object(view)));
                    Reply::Answer(Answer::done().containing(view))
                }
                None => error(Status::NotFound, "there is no such object"),
            },
            (_, Verb::Delete) if !kind.exists_by_use() => self.delete(id, out),
            (Kind::Queue, verb) => self.serve_queue(context, id, verb, out),
            (Kind::Barrier, verb) => no_such_method(kind, verb),
            (kind, verb) => self.serve_policy(context, kind, id, verb, out),
        }
    }

    fn open(
        &mut self,
        now: Millis,
        id: SessionId,
        ttl: Millis,
        label: &str,
        out: &mut Output,
    ) -> Answer {
        if self.state.session_count() >= self.limits.sessions {
            let reason = format!("there are {} sessions already", self.limits.sessions);
            return Answer::error(Status::OverLimit, reason);
        }
        if let Some(refusal) = self.no_memory(0) {
            return refusal;
        }
        if self.state.find_session(id).is_some() {
            return Answer::error(Status::Conflict, "a session of that id exists");
        }
        let slot = self.state.free_session_slot();
        self.emit(&Event::SessionOpened { session: slot, id, ttl, label }, out);
        self.renew(slot, now);
        self.check_later(slot);
        let session = Content::Session(id);
        Answer::done().with(Header::Ttl, ttl).containing(session)
    }

    fn create(&mut self, kind: Kind, name: &str, settings: Settings, out: &mut Output) -> Reply {
        if kind != settings_kind(settings) {
            return no_such_method(kind, Verb::Create(settings));
        }
        if let Settings::Semaphore { permits } | Settings::OpenSemaphore { permits, .. } = settings
            && let Some(refusal) = no_number(permits)
        {
            return refusal;
        }
        if let Settings::OpenSemaphore { permits, initial } = settings
            && initial > permits
        {
            return bad_request(format!(
                "{initial} permits at first, but there can be only {permits}"
            ));
        }
        if let Some(id) = self.state.find(kind, name) {
            if self.settings(id) == Some(settings) {
                return Reply::Answer(Answer::done().with(Header::Created, 0));
            }
            let reason = format!("{} {name:?} exists with other settings", kind.singular());
            return error(Status::Conflict, reason);
        }
        if let Some(refusal) = self.no_more_objects() {
            return Reply::Answer(refusal);
        }
        let id = self.state.free_object_id(kind);
        // A queue of that name may have been deleted: its numbers are not used again.
        let next = if kind == Kind::Queue { self.state.retired_numbers.max(1) } else { 1 };
        self.emit(&Event::Created { object: id, name, settings, next }, out);
        Reply::Answer(Answer::done().with(Header::Created, 1))
    }

    pub(super) fn no_more_objects(&self) -> Option<Answer> {
        if self.state.object_count() >= self.limits.objects {
            let reason = format!("there are {} objects already", self.limits.objects);
            return Some(Answer::error(Status::OverLimit, reason));
        }
        self.no_memory(0)
    }

    fn settings(&self, id: ObjectId) -> Option<Settings> {
        match &self.state.object(id)?.body {
            Body::Policy(policy) => policy.settings().map(|(settings, _)| settings),
            Body::Queue(messages) => Some(Settings::Queue { capacity: messages.capacity }),
            Body::Barrier(_) => None,
        }
    }

    fn delete(&mut self, id: ObjectId, out: &mut Output) -> Reply {
        if self.needs_portions(id, out) || !self.has_space_for_last_answers(id, out) {
            self.forget_alarm(id);
            self.retire(id, &Event::Deleted { object: id }, out);
            return Reply::Answer(Answer::done());
        }
        while let Some(wait_id) = self.state.object(id).and_then(Object::any_wait) {
            let answer = self.answer_of_deleted(wait_id);
            self.complete(wait_id, answer, out);
        }
        self.forget_postponed(id);
        self.forget_alarm(id);
        if let Some(messages) = self.state.queue(id) {
            self.bytes -= messages.bytes();
            self.messages -= messages.len();
        }
        self.emit(&Event::Deleted { object: id }, out);
        Reply::Answer(Answer::done())
    }
}

fn settings_kind(settings: Settings) -> Kind {
    match settings {
        Settings::Semaphore { .. } | Settings::OpenSemaphore { .. } => Kind::Semaphore,
        Settings::Latch { .. } => Kind::Latch,
        Settings::Event { .. } => Kind::Event,
        Settings::Queue { .. } => Kind::Queue,
    }
}

pub(super) fn no_such_method(kind: Kind, verb: Verb<'_>) -> Reply {
    let (kind, method) = (kind.singular(), verb.method().name());
    error(Status::NoSuchMethod, format!("a {kind} has no method {method}"))
}

pub(super) fn error(status: Status, reason: impl Into<std::borrow::Cow<'static, str>>) -> Reply {
    Reply::Answer(Answer::error(status, reason))
}

pub(super) fn bad_request(reason: impl Into<std::borrow::Cow<'static, str>>) -> Reply {
    error(Status::BadRequest, reason)
}

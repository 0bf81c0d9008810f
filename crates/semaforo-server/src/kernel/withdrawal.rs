//! Waiting that ends without a grant, and requests that are passed over and come back.

use hashbrown::HashSet;

use super::answer::{Answer, Status};
use super::barriers::broken;
use super::command::{Millis, Origin};
use super::ids::{ObjectId, WaitId};
use super::policy_object::Give;
use super::session::Portion;
use super::state::Body;
use super::waits::{Ask, Wait};
use super::{Kernel, Output, Reply, RequestContext};

impl Kernel {
    /// Ends a waiting request as if its time were up. Whether there was one.
    pub fn cancel(
        &mut self,
        now: Millis,
        wait_id: WaitId,
        origin: Origin,
        out: &mut Output,
    ) -> bool {
        let waits = self.waits.get(wait_id).is_some_and(|wait| wait.origin == Some(origin));
        if waits {
            self.withdraw(wait_id, Some(Answer::plain(Status::TimedOut)), now, out);
        }
        waits
    }

    /// Takes a request out of the line, and lets through the requests that it was holding up.
    pub(super) fn withdraw(
        &mut self,
        wait_id: WaitId,
        answer: Option<Answer>,
        now: Millis,
        out: &mut Output,
    ) {
        let let_through = || self.was_let_through(wait_id).then(Answer::done);
        if let Some(last) = self.last_answer(wait_id).or_else(let_through) {
            // Otherwise it is told when there is space.
            if self.can_be_told(wait_id, out) {
                self.complete(wait_id, last, out);
            }
            return;
        }
        if let Some(id) = self.step_aside(wait_id, answer, out) {
            self.pump(id, now, out);
        }
    }

    /// Takes a request out of the line. Says at which object: others may have been held up there.
    pub(super) fn step_aside(
        &mut self,
        wait_id: WaitId,
        answer: Option<Answer>,
        out: &mut Output,
    ) -> Option<ObjectId> {
        let is_broken = self.is_of_broken_barrier(wait_id);
        let answer = answer.map(|answer| self.last_answer(wait_id).unwrap_or(answer));
        let (wait, origin) = self.leave(wait_id)?;
        if let (Some(origin), Some(answer)) = (origin, answer) {
            // A party of a barrier that broke before only had not been told yet.
            out.answer(origin, if is_broken { broken() } else { answer });
        }
        match wait.ask {
            Ask::Arrive { .. } => self.break_barrier(wait.object, out),
            Ask::Transfer { number, priority } => {
                self.withdraw_message(wait.object, number, priority);
            }
            Ask::Enter(_) | Ask::Put { .. } | Ask::Take { .. } => {}
        }
        Some(wait.object)
    }

    /// Lets happen what can happen now.
    fn pump(&mut self, id: ObjectId, now: Millis, out: &mut Output) {
        match self.state.object(id).map(|object| &object.body) {
            Some(Body::Policy(_)) => self.pump_policy(id, None, out),
            Some(Body::Queue(_)) => self.pump_queue(id, now, out),
            Some(Body::Barrier(_)) | None => {}
        }
    }

    /// Lets happen what can happen now that several have made way, or are back: none of them gets
    /// what another one of them leaves, and none gets what is another one's by its place.
    pub(super) fn pump_each(&mut self, objects: Vec<ObjectId>, now: Millis, out: &mut Output) {
        let mut known = HashSet::new();
        for id in objects {
            // What happens at one object changes nothing at another.
            if known.insert(id) {
                self.pump(id, now, out);
            }
        }
    }

    /// Passes a request over from now on. Says at which object: others may have been held up there.
    /// A request whose answer is only that something has happened is not passed over: it can be
    /// told later.
    pub(super) fn fall_asleep(&mut self, wait_id: WaitId) -> Option<ObjectId> {
        let wait = self.waits.get(wait_id)?;
        if wait.dormant || matches!(wait.ask, Ask::Arrive { .. } | Ask::Transfer { .. }) {
            return None;
        }
        self.move_aside(wait_id, true)
    }

    /// Lets a request stand in its place again. Says at which object: it may be its turn.
    pub(super) fn wake(&mut self, wait_id: WaitId) -> Option<ObjectId> {
        self.waits.get(wait_id).filter(|wait| wait.dormant)?;
        self.move_aside(wait_id, false)
    }

    /// Moves a request from its line to those aside, or back. Says at which object.
    fn move_aside(&mut self, wait_id: WaitId, dormant: bool) -> Option<ObjectId> {
        let wait = self.waits.get_mut(wait_id)?;
        if let Some(line) = self.state.line_of(wait) {
            line.leave(wait, wait_id);
        }
        wait.dormant = dormant;
        if let Some(line) = self.state.line_of(wait) {
            line.join(wait, wait_id);
        }
        Some(wait.object)
    }

    /// A request that waits has come again: from now on its answer goes there. Where it came from
    /// before learns that, if it is still there: every request is answered.
    pub(super) fn reattach(
        &mut self,
        context: &RequestContext,
        wait_id: WaitId,
        out: &mut Output,
    ) -> Reply {
        if let Some(before) = self.waits.get(wait_id).and_then(|wait| wait.origin) {
            let reason = "the same seq came again, and is answered there";
            out.answer(before, Answer::error(Status::Conflict, reason));
        }
        self.attach(wait_id, context.origin);
        let deadline = context.timeout.map(|timeout| context.now.saturating_add(timeout));
        self.waits.set_deadline(wait_id, deadline);
        let paused = self.state.is_paused(context.origin.connection);
        let moved = if paused { self.fall_asleep(wait_id) } else { self.wake(wait_id) };
        if let Some(id) = moved {
            self.pump(id, context.now, out);
        }
        if context.is_impatient() {
            let waits = |wait: &&Wait| wait.origin == Some(context.origin);
            let id = self.waits.get(wait_id).filter(waits).map(|wait| wait.object);
            if let Some(id) = id
                && !self.is_postponed(id)
            {
                self.withdraw(wait_id, Some(Answer::plain(Status::TimedOut)), context.now, out);
            }
        }
        Reply::Waits(wait_id)
    }

    /// The objects that holds and messages are of, and what giving them back means there.
    pub(super) fn objects_of(&self, portion: &Portion) -> Vec<(ObjectId, Option<Give>)> {
        let mut objects: Vec<(ObjectId, Option<Give>)> = Vec::new();
        for hold in portion.holds.iter().filter_map(|(_, fence)| self.state.hold(*fence)) {
            let given = Some(Give::back(hold.mode));
            match objects.last_mut() {
                // The end of a write is what lets readers in.
                Some((id, before)) if *id == hold.object => {
                    if given == Some(Give::Write) {
                        *before = given;
                    }
                }
                _ => objects.push((hold.object, given)),
            }
        }
        let mut queues: Vec<_> = portion.messages.iter().map(|(queue, _)| *queue).collect();
        queues.dedup();
        objects.extend(queues.into_iter().map(|queue| (queue, None)));
        objects
    }

    pub(super) fn pump_all(
        &mut self,
        objects: Vec<(ObjectId, Option<Give>)>,
        now: Millis,
        out: &mut Output,
    ) {
        for (id, given) in objects {
            match self.state.object(id).map(|object| &object.body) {
                Some(Body::Policy(_)) => self.pump_policy(id, given, out),
                _ => self.pump(id, now, out),
            }
        }
    }

    /// The server stops: no request waits any more.
    pub fn stop(&mut self, out: &mut Output) {
        let waiting: Vec<_> = self.waits.ids().collect();
        for wait_id in waiting {
            if let Some((_, Some(origin))) = self.leave(wait_id) {
                out.answer(origin, Answer::error(Status::Stopping, "shutting down"));
            }
        }
        self.dismiss_closers(out);
        while let Some((_, id)) = self.postponed.pop_first() {
            self.forget_postponed(id);
        }
    }
}

//! Semaphores: permits that are held, or, if it is open, used up and added; and their number.

use semaforo::policy::Permits;
use semaforo_protocol::limits::MAX_PERMITS;

use super::answer::{Answer, Status};
use super::decide::{bad_request, error};
use super::event::Event;
use super::ids::ObjectId;
use super::policy_object::{Entry, PolicyObject};
use super::verb::HoldMode;
use super::{Kernel, Kind, Output, Reply, RequestContext};

/// The refusal of a request for more permits than there can be.
pub(super) fn too_many(policy: &PolicyObject, entry: Entry) -> Option<Answer> {
    let Entry::Hold(HoldMode::Permits(asked)) = entry else { return None };
    let most = policy.most_permits();
    (asked > most).then(|| {
        let reason = format!("{asked} permits were asked for, but there can be only {most}");
        Answer::error(Status::BadRequest, reason)
    })
}

const _: () = assert!(Permits::MAX == MAX_PERMITS);

/// The refusal of a number of permits that no semaphore can have.
pub(super) fn no_number(permits: u32) -> Option<Reply> {
    let wrong = !(1..=Permits::MAX).contains(&permits);
    wrong.then(|| bad_request(format!("{permits} permits; there can be 1 to {}", Permits::MAX)))
}

impl Kernel {
    /// Whether there is an open semaphore of that name: what is acquired there is not held.
    #[must_use]
    pub fn is_open(&self, semaphore: &str) -> bool {
        let id = self.state.find(Kind::Semaphore, semaphore);
        id.is_some_and(|id| self.is_open_at(id))
    }

    pub(super) fn is_open_at(&self, id: ObjectId) -> bool {
        self.policy(id).is_some_and(PolicyObject::is_open)
    }

    /// Asks for permits.
    pub(super) fn acquire(
        &mut self,
        context: &RequestContext,
        id: ObjectId,
        mode: HoldMode,
        out: &mut Output,
    ) -> Reply {
        let entry = Entry::Hold(mode);
        if !matches!(mode, HoldMode::Permits(_)) {
            return bad_request("a semaphore has permits, not readers and writers");
        }
        match self.policy(id).and_then(|policy| too_many(policy, entry)) {
            Some(refusal) => Reply::Answer(refusal),
            None => self.enter(context, id, entry, out),
        }
    }

    /// Takes permits of an open semaphore that are there: they do not come back by themselves.
    pub(super) fn use_up(&mut self, id: ObjectId, entry: Entry, out: &mut Output) -> Answer {
        let left = self.policy(id).and_then(|policy| {
            let count = policy.admit(entry)?;
            (count != policy.count()).then_some(count)
        });
        if let Some(count) = left {
            self.emit(&Event::Counted { object: id, count }, out);
        }
        Answer::done()
    }

    /// Adds permits to an open semaphore, for any owner, and lets in the requests that wait for
    /// them.
    pub(super) fn add_permits(&mut self, id: ObjectId, permits: u32, out: &mut Output) -> Reply {
        let Some(policy) = self.policy(id) else { unreachable!("a semaphore has a policy") };
        match policy.added(permits) {
            Ok(count) => {
                if count != policy.count() {
                    self.set_count(id, count, out);
                }
                Reply::Answer(Answer::done())
            }
            Err(full) => error(Status::Conflict, full.to_string()),
        }
    }

    /// Lets a semaphore have another number of permits. Requests that are let in by that are, and
    /// those at the head of the line that ask for more than there can be now are refused; others
    /// are when their turn comes.
    pub(super) fn resize(&mut self, id: ObjectId, permits: u32, out: &mut Output) -> Reply {
        if let Some(refusal) = no_number(permits) {
            return refusal;
        }
        if self.policy(id).is_some_and(|policy| policy.most_permits() != permits) {
            self.emit(&Event::Resized { object: id, permits }, out);
            self.pump_policy(id, None, out);
        }
        Reply::Answer(Answer::done())
    }
}

//! What the budget did not allow: it goes on in the next turn.

use super::command::Millis;
use super::ids::ObjectId;
use super::policy_object::Give;
use super::state::{Body, Postponed};
use super::{Kernel, Output, SMALL};

impl Kernel {
    /// Whether the [budget](Output::budget) did not allow all requests that could be let through,
    /// or something has ended that is given back in [portions](Output::portion):
    /// [`tick`](Self::tick) goes on with it.
    #[must_use]
    pub fn has_postponed(&self) -> bool {
        !self.postponed.is_empty() || self.is_giving_back()
    }

    pub(super) fn is_postponed(&self, id: ObjectId) -> bool {
        self.state.object(id).is_some_and(|object| object.postponed.is_some())
    }

    /// Requests of this object are let through later: what was given back is for those up to a
    /// ticket.
    pub(super) fn postpone(&mut self, id: ObjectId, given: Option<Give>, upto: u64) {
        let Some(object) = self.state.object_mut(id) else { return };
        let turn = object.postponed.map_or_else(
            || {
                self.postponements += 1;
                self.postponements
            },
            |earlier| earlier.turn,
        );
        object.postponed = Some(Postponed { turn, given, upto });
        self.postponed.insert(turn, id);
    }

    /// No request of this object is postponed any more.
    pub(super) fn forget_postponed(&mut self, id: ObjectId) {
        let object = self.state.object_mut(id);
        if let Some(Postponed { turn, .. }) = object.and_then(|object| object.postponed.take()) {
            self.postponed.remove(&turn);
        }
    }

    /// Goes on with the objects that were postponed, by turns: what is not done now comes last next
    /// time.
    pub(super) fn resume_postponed(&mut self, now: Millis, out: &mut Output) {
        // Each may have to wait on, for space in the journal, so not all are looked at in one tick.
        for _ in 0..self.postponed.len().min(out.portion) {
            if out.is_full() || !out.has_space(SMALL) {
                return;
            }
            let Some((_, id)) = self.postponed.pop_first() else { return };
            let Some(object) = self.state.object_mut(id) else { continue };
            let Some(earlier) = &mut object.postponed else { continue };
            self.postponements += 1;
            earlier.turn = self.postponements;
            self.postponed.insert(self.postponements, id);
            match object.body {
                Body::Policy(_) => self.pump_policy(id, None, out),
                Body::Queue(_) => self.pump_queue(id, now, out),
                Body::Barrier(_) => self.resume_barrier(id, out),
            }
        }
    }
}

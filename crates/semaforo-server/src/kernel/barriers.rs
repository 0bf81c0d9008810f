//! Barriers: parties that wait for each other.
//!
//! A barrier comes into being with its first party and is gone when all have arrived, so a round is
//! a barrier of its own. Rounds are numbered by fences: a round that is not there any more is over.

use super::answer::{Answer, Header, Status};
use super::decide::{bad_request, error, no_such_method};
use super::event::Event;
use super::ids::{ObjectId, WaitId};
use super::state::{Barrier, Body, Object};
use super::verb::Verb;
use super::waits::Ask;
use super::{Kernel, Kind, MAX_PARTIES, Output, Reply, RequestContext, SMALL};

/// The line of parties whose answer is not kept: if there are very many they are told by and by.
const PLAIN: usize = 0;
/// The line of parties whose answer is kept, in the batch of the event that the barrier has
/// tripped: after a crash all of them have it, or none.
const NUMBERED: usize = 1;

/// The most parties of a barrier at which numbered requests arrive. The outcomes of all of them are
/// kept together when the last has come: that has to fit into one batch of the journal, and to be
/// quickly done.
pub const MAX_NUMBERED_PARTIES: u32 = 1 << 13;

impl Kernel {
    /// What is asked of a barrier, whether or not parties are there.
    pub(super) fn serve_barrier(
        &mut self,
        context: &RequestContext,
        name: &str,
        verb: Verb<'_>,
        out: &mut Output,
    ) -> Reply {
        match verb {
            Verb::Arrive { parties, generation } => {
                self.arrive(context, name, parties, generation, out)
            }
            Verb::Reset { .. } => self.reset_barrier(name, out),
            verb => no_such_method(Kind::Barrier, verb),
        }
    }

    fn arrive(
        &mut self,
        context: &RequestContext,
        name: &str,
        parties: u32,
        generation: Option<u64>,
        out: &mut Output,
    ) -> Reply {
        if parties == 0 || parties > MAX_PARTIES {
            return bad_request(format!("{parties} parties; there can be 1 to {MAX_PARTIES}"));
        }
        if context.retry.is_some() && parties > MAX_NUMBERED_PARTIES {
            return bad_request(format!(
                "{parties} parties; with seq there can be 1 to {MAX_NUMBERED_PARTIES}"
            ));
        }
        let mut there = self.state.find(Kind::Barrier, name).and_then(|id| self.barrier(id));
        if let Some(meant) = generation
            && there.is_none_or(|(barrier, _)| barrier.generation != meant)
        {
            if meant >= self.next_fence {
                return bad_request(format!("there was no generation {meant} yet"));
            }
            return Reply::Answer(Answer::done().with(Header::Generation, meant));
        }
        if let Some((barrier, id)) = there
            && !barrier.broken
            && barrier.parties != parties
            && !self.is_postponed(id)
            && self.state.object(id).is_some_and(|object| object.waiting == 0)
        {
            // The parties that waited were forgotten in a restart, and no party has come since
            // then.
            self.dissolve(id, out);
            there = None;
        }
        match there {
            Some((barrier, id)) if barrier.broken || self.is_postponed(id) => {
                Reply::Answer(broken())
            }
            Some((barrier, _)) if barrier.parties != parties => {
                let reason = format!("those who wait expect {} parties", barrier.parties);
                error(Status::Conflict, reason)
            }
            Some((barrier, id)) => self.join(context, id, barrier, out),
            None => {
                if let Some(refusal) = self.no_more_objects() {
                    return Reply::Answer(refusal);
                }
                if parties == 1 {
                    let generation = self.fence(out);
                    return Reply::Answer(arrived(generation, 0));
                }
                if !context.is_impatient()
                    && let Some(refusal) = self.no_more_waits()
                {
                    return Reply::Answer(refusal);
                }
                let generation = self.fence(out);
                self.emit(&Event::BarrierOpened { name, parties, generation }, out);
                let Some(id) = self.state.find(Kind::Barrier, name) else { unreachable!() };
                let barrier = Barrier::new(parties, generation);
                self.join(context, id, barrier, out)
            }
        }
    }

    fn barrier(&self, id: ObjectId) -> Option<(Barrier, ObjectId)> {
        match self.state.object(id) {
            Some(Object { body: Body::Barrier(barrier), .. }) => Some((*barrier, id)),
            _ => None,
        }
    }

    fn join(
        &mut self,
        context: &RequestContext,
        id: ObjectId,
        barrier: Barrier,
        out: &mut Output,
    ) -> Reply {
        let index = self.state.object(id).map_or(0, |object| object.waiting);
        if index + 1 < barrier.parties {
            if context.is_impatient() {
                self.break_barrier(id, out);
                return Reply::Answer(Answer::plain(Status::TimedOut));
            }
            let line = if context.retry.is_some() { NUMBERED } else { PLAIN };
            return self.wait(context, id, line, Ask::Arrive { index });
        }
        self.dissolve(id, out);
        Reply::Answer(arrived(barrier.generation, index))
    }

    /// Nothing is left of a barrier: its parties are told that all have arrived, or that it is
    /// broken.
    fn dissolve(&mut self, id: ObjectId, out: &mut Output) {
        let Some(object) = self.state.object(id) else { return };
        let name = object.name.clone();
        let needs_portions = self.needs_portions(id, out);
        self.retire(id, &Event::BarrierTripped { name: &name }, out);
        let next = |kernel: &Self| {
            let lines = &kernel.state.object(id)?.lines;
            lines[PLAIN].head().filter(|_| !needs_portions).or(lines[NUMBERED].head())
        };
        while let Some(wait_id) = next(self)
            && let Some(answer) = self.last_answer(wait_id)
        {
            self.complete(wait_id, answer, out);
        }
        if !needs_portions {
            self.retired.pop_back();
            self.state.forget_retired(id);
        }
    }

    /// A party went away: all others learn that.
    pub(super) fn break_barrier(&mut self, id: ObjectId, out: &mut Output) {
        let Some((Barrier { broken: false, .. }, _)) = self.barrier(id) else { return };
        if self.state.object(id).is_some_and(|object| object.is_retired) {
            return;
        }
        if !out.has_space(SMALL) {
            // Until there is, it counts as broken.
            return self.postpone(id, None, 0);
        }
        if let Some(name) = self.state.object(id).map(|object| object.name.clone()) {
            self.emit(&Event::BarrierBroken { name: &name }, out);
        }
        self.turn_away(id, out);
    }

    /// Tells the parties of a broken barrier, as long as the budget of the output allows.
    fn turn_away(&mut self, id: ObjectId, out: &mut Output) {
        while let Some(wait_id) = self.state.object(id).and_then(Object::any_wait) {
            if out.is_full() {
                return self.postpone(id, None, 0);
            }
            self.complete(wait_id, broken(), out);
        }
        self.forget_postponed(id);
    }

    /// Whether a request is that of a party of a barrier that is broken, and was not told yet.
    pub(super) fn is_of_broken_barrier(&self, wait_id: WaitId) -> bool {
        let wait = self.waits.get(wait_id).filter(|wait| matches!(wait.ask, Ask::Arrive { .. }));
        let barrier = wait.and_then(|wait| self.barrier(wait.object));
        barrier.is_some_and(|(barrier, id)| barrier.broken || self.is_postponed(id))
    }

    /// Goes on with a barrier that could not be broken, or not for all of its parties.
    pub(super) fn resume_barrier(&mut self, id: ObjectId, out: &mut Output) {
        match self.barrier(id) {
            Some((Barrier { broken: true, .. }, _)) => self.turn_away(id, out),
            Some(_) => self.break_barrier(id, out),
            None => self.forget_postponed(id),
        }
    }

    fn reset_barrier(&mut self, name: &str, out: &mut Output) -> Reply {
        if let Some(id) = self.state.find(Kind::Barrier, name) {
            self.forget_postponed(id);
            if let Some(Object { body: Body::Barrier(barrier), .. }) = self.state.object_mut(id) {
                barrier.broken = true;
            }
            self.dissolve(id, out);
        }
        Reply::Answer(Answer::done())
    }
}

pub(super) fn arrived(generation: u64, index: u32) -> Answer {
    Answer::done().with(Header::Generation, generation).with(Header::Index, u64::from(index))
}

pub(super) fn broken() -> Answer {
    Answer::error(Status::Conflict, "the barrier is broken; RESET makes it usable again")
}

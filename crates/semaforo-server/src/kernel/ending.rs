//! Waiting that ends without a grant, and requests that are passed over and come back.

use hashbrown::HashSet;

use super::answer::{Answer, Status};
use super::barriers::broken;
use super::command::{Millis, Origin};
use super::gate::Give;
use super::session::Portion;
use super::state::Body;
use super::waits::{Ask, Wait};
use super::{Asker, Kernel, Output, Reply, WaitKey};

impl Kernel {
    /// Ends a waiting request as if its time were up. Whether there was one.
    pub fn cancel(&mut self, now: Millis, key: WaitKey, origin: Origin, out: &mut Output) -> bool {
        let waits = self.waits.get(key.0).is_some_and(|wait| wait.origin == Some(origin));
        if waits {
            self.withdraw(key.0, Some(Answer::plain(Status::TimedOut)), now, out);
        }
        waits
    }

    /// Takes somebody out of the line, and lets through those whom it was holding up.
    pub(super) fn withdraw(
        &mut self,
        key: u32,
        answer: Option<Answer>,
        now: Millis,
        out: &mut Output,
    ) {
        let let_through = || self.was_let_through(key).then(Answer::done);
        if let Some(last) = self.last_word(key).or_else(let_through) {
            // Otherwise it is told when there is space.
            if self.can_be_told(key, out) {
                self.complete(key, last, out);
            }
            return;
        }
        if let Some(place) = self.step_aside(key, answer, out) {
            self.pump(place, now, out);
        }
    }

    /// Takes somebody out of the line. Says where: others may have been held up there.
    pub(super) fn step_aside(
        &mut self,
        key: u32,
        answer: Option<Answer>,
        out: &mut Output,
    ) -> Option<u32> {
        let is_broken = self.is_of_broken_barrier(key);
        let answer = answer.map(|answer| self.last_word(key).unwrap_or(answer));
        let (wait, origin) = self.leave(key)?;
        if let (Some(origin), Some(answer)) = (origin, answer) {
            // A party of a barrier that broke before only had not been told yet.
            out.answer(origin, if is_broken { broken() } else { answer });
        }
        match wait.ask {
            Ask::Arrive { .. } => self.break_barrier(wait.place, out),
            Ask::Transfer { number, priority } => {
                self.withdraw_message(wait.place, number, priority);
            }
            Ask::Enter(_) | Ask::Put { .. } | Ask::Take { .. } => {}
        }
        Some(wait.place)
    }

    /// Lets happen what can happen now.
    fn pump(&mut self, place: u32, now: Millis, out: &mut Output) {
        match self.state.object(place).map(|object| &object.body) {
            Some(Body::Gate(_)) => self.pump_gate(place, None, out),
            Some(Body::Queue(_)) => self.pump_queue(place, now, out),
            Some(Body::Barrier(_)) | None => {}
        }
    }

    /// Lets happen what can happen now that several have made way, or are back: none of them gets what another one of them
    /// leaves, and none gets what is another one's by its place.
    pub(super) fn pump_each(&mut self, places: Vec<u32>, now: Millis, out: &mut Output) {
        let mut known = HashSet::new();
        for place in places {
            // What happens at one place changes nothing at another.
            if known.insert(place) {
                self.pump(place, now, out);
            }
        }
    }

    /// Passes somebody over from now on. Says where: others may have been held up there. One whose answer is only that
    /// something has happened is not passed over: it can be told later.
    pub(super) fn fall_asleep(&mut self, key: u32) -> Option<u32> {
        let wait = self.waits.get(key)?;
        if wait.dormant || matches!(wait.ask, Ask::Arrive { .. } | Ask::Transfer { .. }) {
            return None;
        }
        self.move_aside(key, true)
    }

    /// Lets a request stand in its place again. Says at which object: it may be its turn.
    pub(super) fn wake(&mut self, key: u32) -> Option<u32> {
        self.waits.get(key).filter(|wait| wait.dormant)?;
        self.move_aside(key, false)
    }

    /// Moves one who waits from its line to those aside, or back. Says where.
    fn move_aside(&mut self, key: u32, dormant: bool) -> Option<u32> {
        let wait = self.waits.get_mut(key)?;
        if let Some(line) = self.state.line_of(wait) {
            line.leave(wait, key);
        }
        wait.dormant = dormant;
        if let Some(line) = self.state.line_of(wait) {
            line.join(wait, key);
        }
        Some(wait.place)
    }

    /// A request that waits has come again: from now on its answer goes there. Where it came from before learns that,
    /// if it is still there: every request is answered.
    pub(super) fn reattach(&mut self, asker: &Asker, key: u32, out: &mut Output) -> Reply {
        if let Some(before) = self.waits.get(key).and_then(|wait| wait.origin) {
            let reason = "the same seq came again, and is answered there";
            out.answer(before, Answer::error(Status::Conflict, reason));
        }
        self.attach(key, asker.origin);
        let deadline = asker.timeout.map(|timeout| asker.now.saturating_add(timeout));
        self.waits.set_deadline(key, deadline);
        let paused = self.state.is_paused(asker.origin.connection);
        let moved = if paused { self.fall_asleep(key) } else { self.wake(key) };
        if let Some(place) = moved {
            self.pump(place, asker.now, out);
        }
        if asker.is_impatient() {
            let waits = |wait: &&Wait| wait.origin == Some(asker.origin);
            let place = self.waits.get(key).filter(waits).map(|wait| wait.place);
            if let Some(place) = place
                && !self.is_postponed(place)
            {
                self.withdraw(key, Some(Answer::plain(Status::TimedOut)), asker.now, out);
            }
        }
        Reply::Waits(WaitKey(key))
    }

    /// The objects that holds and messages are of, and what giving them back means there.
    pub(super) fn places(&self, portion: &Portion) -> Vec<(u32, Option<Give>)> {
        let mut places: Vec<(u32, Option<Give>)> = Vec::new();
        for hold in portion.holds.iter().filter_map(|(_, fence)| self.state.hold(*fence)) {
            let given = Some(Give::back(hold.wish));
            match places.last_mut() {
                // The end of a write is what lets readers in.
                Some((place, before)) if *place == hold.place => {
                    if given == Some(Give::Write) {
                        *before = given;
                    }
                }
                _ => places.push((hold.place, given)),
            }
        }
        let mut queues: Vec<_> = portion.messages.iter().map(|(queue, _)| *queue).collect();
        queues.dedup();
        places.extend(queues.into_iter().map(|queue| (queue, None)));
        places
    }

    pub(super) fn pump_all(
        &mut self,
        places: Vec<(u32, Option<Give>)>,
        now: Millis,
        out: &mut Output,
    ) {
        for (place, given) in places {
            match self.state.object(place).map(|object| &object.body) {
                Some(Body::Gate(_)) => self.pump_gate(place, given, out),
                _ => self.pump(place, now, out),
            }
        }
    }

    /// The server stops: nobody waits any more.
    pub fn stop(&mut self, out: &mut Output) {
        let waiting: Vec<_> = self.waits.keys().collect();
        for key in waiting {
            if let Some((_, Some(origin))) = self.leave(key) {
                out.answer(origin, Answer::error(Status::Stopping, "shutting down"));
            }
        }
        self.dismiss_closers(out);
        while let Some((_, place)) = self.postponed.pop_first() {
            self.forget_postponed(place);
        }
    }
}

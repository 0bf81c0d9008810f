//! Connections that end, or do not read for a while. What they wait for, and then what they have,
//! is gone through in [portions](Output::portion) if it is very much.

use super::answer::{Answer, Status};
use super::command::{ConnectionKey, Millis};
use super::ids::{ObjectId, WaitId};
use super::leaving::Leaving;
use super::session::Owner;
use super::state::{Connection, End};
use super::waits::List;
use super::{Kernel, Output};

impl Kernel {
    /// A connection is gone: what it had is released, and it waits for nothing any more. What a
    /// named session waits for and can ask for again keeps its place.
    pub fn disconnected(&mut self, now: Millis, key: ConnectionKey, out: &mut Output) {
        self.excuse_closers(key, false, out);
        self.change(key, now, out, |connection| connection.end = Some(End::Gone));
    }

    /// A connection has half closed: it waits for nothing any more, but keeps what it has until it
    /// is gone.
    pub fn half_closed(&mut self, now: Millis, key: ConnectionKey, out: &mut Output) {
        self.excuse_closers(key, true, out);
        self.change(key, now, out, |connection| connection.end = Some(End::HalfClosed));
    }

    /// A connection does not read what it is sent: it is passed over until it does.
    pub fn pause(&mut self, now: Millis, key: ConnectionKey, out: &mut Output) {
        self.state.connection_mut(key);
        self.change(key, now, out, |connection| {
            connection.paused = true;
            connection.rest = connection.waits.head();
        });
    }

    /// A connection reads again.
    pub fn resume(&mut self, now: Millis, key: ConnectionKey, out: &mut Output) {
        self.change(key, now, out, |connection| {
            connection.paused = false;
            connection.rest = connection.waits.head();
        });
    }

    /// Whether a connection that has half closed still waits for something: it is told by and by
    /// that it does not, [and that it was](Output::given_up).
    #[must_use]
    pub fn is_giving_up(&self, key: ConnectionKey) -> bool {
        self.state.connection(key).is_some_and(|connection| connection.is_busy)
    }

    /// Changes a connection, and does what follows from that: now if it is little, otherwise in
    /// portions.
    fn change(
        &mut self,
        key: ConnectionKey,
        now: Millis,
        out: &mut Output,
        change: impl FnOnce(&mut Connection),
    ) {
        let Some(connection) = self.state.find_connection(key) else { return };
        change(connection);
        if connection.is_busy {
            return;
        }
        let (head, mut things) = (connection.waits.head(), 0);
        if connection.end == Some(End::Gone) {
            things += connection.holdings.len();
        }
        let most = out.portion.saturating_add(1);
        things = things.saturating_add(self.waits.first_of(head, List::Connection, most).len());
        if things <= out.portion {
            while !self.go_on_with(key, usize::MAX, now, out) {}
        } else if let Some(connection) = self.state.find_connection(key) {
            connection.is_busy = true;
            self.leaving.push_back(Leaving { owner: Owner::Connection(key), closer: None });
        }
    }

    /// Goes on with a connection for so many of its waits or of what it has. Whether nothing is
    /// left to be done.
    pub(super) fn go_on_with(
        &mut self,
        key: ConnectionKey,
        most: usize,
        now: Millis,
        out: &mut Output,
    ) -> bool {
        out.moved += 1;
        let Some(connection) = self.state.connection(key) else { return true };
        let Some(end) = connection.end else { return self.pass_over(key, most, now, out) };
        let waits = self.waits.first_of(connection.waits.head(), List::Connection, most);
        if !waits.is_empty() {
            out.moved += waits.len();
            let objects = waits.into_iter().filter_map(|wait| self.end_wait(wait, end, out));
            let objects = objects.collect();
            self.pump_each(objects, now, out);
            return false;
        }
        if end == End::HalfClosed {
            self.rests(key, out);
            return true;
        }
        let portion = connection.holdings.first(most);
        let objects = self.objects_of(&portion);
        out.moved += portion.len();
        let given_up = self.state.give_up_first(Owner::Connection(key), most);
        debug_assert_eq!(given_up, Ok(()));
        let is_over = self.state.connection(key).is_none_or(|it| it.holdings.is_empty());
        if is_over {
            self.state.remove_connection(key);
        }
        self.pump_all(objects, now, out);
        is_over
    }

    /// Nothing is left to be done for a connection.
    fn rests(&mut self, key: ConnectionKey, out: &mut Output) {
        let Some(connection) = self.state.find_connection(key) else { return };
        let was_busy = std::mem::take(&mut connection.is_busy);
        if connection.end.take().is_some() && was_busy {
            out.given_up.push(key);
        }
        self.state.tidy_connection(key);
    }

    /// Ends a wait of a connection that has ended. Says at which object it was.
    fn end_wait(&mut self, wait_id: WaitId, end: End, out: &mut Output) -> Option<ObjectId> {
        let wait = self.waits.get(wait_id)?;
        if matches!(wait.owner, Owner::Session(_)) && wait.retry.is_some() {
            self.detach(wait_id);
            return self.fall_asleep(wait_id);
        }
        let answer = (end == End::HalfClosed).then(|| Answer::plain(Status::TimedOut));
        self.step_aside(wait_id, answer, out)
    }

    /// Lets the next waits of a connection be passed over, or not any more. Whether these were the
    /// last.
    fn pass_over(
        &mut self,
        key: ConnectionKey,
        most: usize,
        now: Millis,
        out: &mut Output,
    ) -> bool {
        let Some(connection) = self.state.connection(key) else { return true };
        let paused = connection.paused;
        let waits = self.waits.first_of(connection.rest, List::Connection, most);
        let rest = waits.last().and_then(|last| self.waits.next(*last, List::Connection));
        if let Some(connection) = self.state.find_connection(key) {
            connection.rest = rest;
        }
        out.moved += waits.len();
        let mut objects = Vec::with_capacity(waits.len());
        for wait in waits {
            objects.extend(if paused { self.fall_asleep(wait) } else { self.wake(wait) });
        }
        self.pump_each(objects, now, out);
        let is_over = self.state.connection(key).is_none_or(|it| it.rest.is_none());
        if is_over {
            self.rests(key, out);
        }
        is_over
    }

    /// Ends a request whose turn has come, or passes it over, if that is still to be done for its
    /// connection. Whether it was.
    pub(super) fn is_overdue(&mut self, wait_id: WaitId, out: &mut Output) -> bool {
        let origin = self.waits.get(wait_id).and_then(|wait| wait.origin);
        let connection = origin.and_then(|origin| self.state.connection(origin.connection));
        match connection.filter(|connection| connection.is_busy) {
            Some(Connection { end: Some(end), .. }) => {
                let end = *end;
                self.end_wait(wait_id, end, out);
                true
            }
            Some(Connection { paused: true, .. }) => self.fall_asleep(wait_id).is_some(),
            _ => false,
        }
    }
}

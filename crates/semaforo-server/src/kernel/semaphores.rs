//! Semaphores: permits that are held, or, if it is open, used up and added; and their number.

use semaforo::policy::Permits;
use semaforo_protocol::limits::MAX_PERMITS;

use super::answer::{Answer, Status};
use super::decide::{error, senseless};
use super::event::Event;
use super::gate::{Entry, Gate};
use super::verb::Wish;
use super::{Asker, Kernel, Kind, Output, Reply};

/// The refusal of a request for more permits than there can be.
pub(super) fn too_many(gate: &Gate, entry: Entry) -> Option<Answer> {
    let Entry::Hold(Wish::Permits(asked)) = entry else { return None };
    let most = gate.most_permits();
    (asked > most).then(|| {
        let reason = format!("{asked} permits were asked for, but there can be only {most}");
        Answer::error(Status::Senseless, reason)
    })
}

const _: () = assert!(Permits::MAX == MAX_PERMITS);

/// The refusal of a number of permits that no semaphore can have.
pub(super) fn no_number(permits: u32) -> Option<Reply> {
    let wrong = !(1..=Permits::MAX).contains(&permits);
    wrong.then(|| senseless(format!("{permits} permits; there can be 1 to {}", Permits::MAX)))
}

impl Kernel {
    /// Whether there is an open semaphore of that name: what is acquired there is not held.
    #[must_use]
    pub fn is_open(&self, semaphore: &str) -> bool {
        let place = self.state.find(Kind::Semaphore, semaphore);
        place.is_some_and(|place| self.is_open_at(place))
    }

    pub(super) fn is_open_at(&self, place: u32) -> bool {
        self.gate(place).is_some_and(Gate::is_open)
    }

    /// Asks for permits.
    pub(super) fn acquire(
        &mut self,
        asker: &Asker,
        place: u32,
        wish: Wish,
        out: &mut Output,
    ) -> Reply {
        let entry = Entry::Hold(wish);
        if !matches!(wish, Wish::Permits(_)) {
            return senseless("a semaphore has permits, not readers and writers");
        }
        match self.gate(place).and_then(|gate| too_many(gate, entry)) {
            Some(refusal) => Reply::Answer(refusal),
            None => self.enter(asker, place, entry, out),
        }
    }

    /// Takes permits of an open semaphore that are there: they do not come back by themselves.
    pub(super) fn use_up(&mut self, place: u32, entry: Entry, out: &mut Output) -> Answer {
        let left = self.gate(place).and_then(|gate| {
            let count = gate.admit(entry)?;
            (count != gate.count()).then_some(count)
        });
        if let Some(count) = left {
            self.emit(&Event::Counted { place, count }, out);
        }
        Answer::done()
    }

    /// Adds permits to an open semaphore, for any asker, and lets in the requests that wait for them.
    pub(super) fn add_permits(&mut self, place: u32, permits: u32, out: &mut Output) -> Reply {
        let Some(gate) = self.gate(place) else { unreachable!("a semaphore has a gate") };
        match gate.added(permits) {
            Ok(count) => {
                if count != gate.count() {
                    self.set_count(place, count, out);
                }
                Reply::Answer(Answer::done())
            }
            Err(full) => error(Status::Conflict, full.to_string()),
        }
    }

    /// Lets a semaphore have another number of permits. Requests that are let in by that are, and
    /// those at the head of the line that ask for more than there can be now are refused; others are
    /// when their turn comes.
    pub(super) fn resize(&mut self, place: u32, permits: u32, out: &mut Output) -> Reply {
        if let Some(refusal) = no_number(permits) {
            return refusal;
        }
        if self.gate(place).is_some_and(|gate| gate.most_permits() != permits) {
            self.emit(&Event::Resized { place, permits }, out);
            self.pump_gate(place, None, out);
        }
        Reply::Answer(Answer::done())
    }
}

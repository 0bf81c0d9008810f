//! Who has what: holds, and messages that are out.

use super::super::codec::BadEvent;
use super::super::gate::Give;
use super::super::session::{Belongings, Owner};
use super::super::verb::Wish;
use super::{Hold, State, no_message};

impl State {
    pub(in crate::kernel) fn hold(&self, fence: u64) -> Option<Hold> {
        self.holds.get(&fence).copied()
    }

    /// How many holds there are.
    pub(in crate::kernel) fn hold_count(&self) -> usize {
        self.holds.len()
    }

    /// Makes somebody a holder.
    pub(in crate::kernel) fn grant(
        &mut self,
        owner: Owner,
        fence: u64,
        place: u32,
        wish: Wish,
    ) -> Result<(), BadEvent> {
        if let Owner::Session(session) = owner {
            self.session_at(session)?;
        }
        if self.holds.contains_key(&fence) {
            return Err(BadEvent::new(format!("fence {fence} was given out already")));
        }
        self.gate_mut(place)?.hold(wish)?;
        if let Some(object) = self.object_mut(place) {
            object.holders.insert(fence);
        }
        self.holds.insert(fence, Hold { place, owner, wish });
        self.belongings_mut(owner)?.add_hold(place, fence);
        Ok(())
    }

    /// Ends a hold, or makes it smaller if fewer permits than it has, and more than none, are given.
    pub(in crate::kernel) fn release(
        &mut self,
        fence: u64,
        permits: u32,
    ) -> Result<Give, BadEvent> {
        let no_hold = || BadEvent::new(format!("nobody holds {fence}"));
        let hold = self.holds.get_mut(&fence).ok_or_else(no_hold)?;
        let Hold { place, owner, wish } = *hold;
        if let Wish::Permits(held) = wish
            && permits > held
        {
            return Err(BadEvent::new(format!("{fence} holds fewer than {permits} permits")));
        }
        if let Wish::Permits(held) = wish
            && permits > 0
            && permits < held
        {
            hold.wish = Wish::Permits(held - permits);
            let give = Give::Permits(permits);
            self.gate_mut(place)?.give(give)?;
            return Ok(give);
        }
        self.holds.remove(&fence);
        match owner {
            Owner::Connection(key) => {
                if let Some(connection) = self.connections.get_mut(&key) {
                    connection.belongings.remove_hold(place, fence);
                }
            }
            Owner::Session(session) => {
                self.session_at(session)?.belongings.remove_hold(place, fence);
            }
        }
        if let Some(object) = self.object_mut(place) {
            object.holders.remove(&fence);
        }
        let give = Give::back(wish);
        self.gate_mut(place)?.give(give)?;
        self.vanish(place);
        Ok(give)
    }

    /// Turns a writer into a reader or the other way round.
    pub(in crate::kernel) fn convert(
        &mut self,
        fence: u64,
        into: u64,
        wish: Wish,
    ) -> Result<(), BadEvent> {
        let no_hold = || BadEvent::new(format!("nobody holds {fence}"));
        let Hold { place, owner, wish: before } = self.holds.remove(&fence).ok_or_else(no_hold)?;
        let give = match (before, wish) {
            (Wish::Write, Wish::Read) => Give::Downgrade,
            (Wish::Read, Wish::Write) => Give::Upgrade,
            _ => return Err(BadEvent::new(format!("{before:?} became {wish:?}"))),
        };
        if self.holds.insert(into, Hold { place, owner, wish }).is_some() {
            return Err(BadEvent::new(format!("fence {into} was given out already")));
        }
        let belongings = self.belongings_mut(owner)?;
        belongings.remove_hold(place, fence);
        belongings.add_hold(place, into);
        if let Some(object) = self.object_mut(place) {
            object.holders.remove(&fence);
            object.holders.insert(into);
        }
        self.gate_mut(place)?.give(give)
    }

    /// Gives a message to somebody until it is acknowledged.
    pub(in crate::kernel) fn lend(
        &mut self,
        place: u32,
        number: u64,
        priority: i32,
        owner: Owner,
    ) -> Result<(), BadEvent> {
        if let Owner::Session(session) = owner {
            self.session_at(session)?;
        }
        let lent = self.queue_mut(place)?.lend(number, priority, owner).is_some();
        if !lent {
            return Err(no_message(number));
        }
        self.belongings_mut(owner)?.add_message(place, number);
        Ok(())
    }

    /// Takes a message off its borrower's list.
    pub(in crate::kernel) fn take_loan(&mut self, place: u32, number: u64) -> Result<(), BadEvent> {
        let owner = self.queue_mut(place)?.borrower(number).ok_or_else(|| no_message(number))?;
        self.belongings_mut(owner)?.remove_message(place, number);
        Ok(())
    }

    /// Releases all that somebody has had who is no more.
    pub(in crate::kernel) fn give_up(&mut self, belongings: &Belongings) -> Result<(), BadEvent> {
        for fence in belongings.holds() {
            self.release(fence, 0)?;
        }
        for messages in belongings.messages().chunk_by(|(one, _), (other, _)| one == other) {
            self.queue_mut(messages[0].0)?
                .give_back_all(messages.iter().map(|(_, number)| *number));
        }
        Ok(())
    }

    /// Releases the first holds and messages that somebody has, so many together.
    pub(in crate::kernel) fn give_up_first(
        &mut self,
        owner: Owner,
        most: usize,
    ) -> Result<(), BadEvent> {
        let Some(belongings) = self.belongings(owner) else { return Ok(()) };
        let portion = belongings.first(most);
        for (_, fence) in &portion.holds {
            self.release(*fence, 0)?;
        }
        for (queue, numbers) in portion.loans() {
            self.end_loans(owner, queue, &numbers)?;
        }
        Ok(())
    }

    /// Puts messages that are out to somebody, in the order of their numbers, back in their places.
    pub(super) fn end_loans(
        &mut self,
        owner: Owner,
        queue: u32,
        numbers: &[u64],
    ) -> Result<(), BadEvent> {
        for number in numbers {
            self.belongings_mut(owner)?.remove_message(queue, *number);
        }
        self.queue_mut(queue)?.give_back_all(numbers.iter().copied());
        Ok(())
    }

    /// Ends a hold of an object that is gone. Whether there was one.
    pub(in crate::kernel) fn drop_hold(&mut self, place: u32) -> bool {
        let Some(object) = self.object_mut(place) else { return false };
        let Some(fence) = object.holders.iter().next() else { return false };
        object.holders.remove(&fence);
        if let Some(hold) = self.holds.remove(&fence) {
            self.disown(hold.owner, |belongings| belongings.remove_hold(place, fence));
        }
        true
    }

    /// Drops a message of a queue that is gone. How many bytes it had, if there was one.
    pub(in crate::kernel) fn drop_message(&mut self, place: u32) -> Option<u64> {
        let (message, borrower) = self.queue_mut(place).ok()?.drop_any()?;
        if let Some(owner) = borrower {
            self.disown(owner, |belongings| belongings.remove_message(place, message.number));
        }
        Some(message.payload.len() as u64)
    }

    /// Takes something off the list of what an owner has, if there is such an owner.
    fn disown(&mut self, owner: Owner, take: impl FnOnce(&mut Belongings)) {
        match owner {
            Owner::Session(place) => {
                if let Some(session) = self.session_mut(place) {
                    take(&mut session.belongings);
                }
            }
            Owner::Connection(key) => {
                if let Some(connection) = self.connections.get_mut(&key) {
                    take(&mut connection.belongings);
                }
                self.tidy_connection(key);
            }
        }
    }

    pub(in crate::kernel) fn belongings(&self, owner: Owner) -> Option<&Belongings> {
        match owner {
            Owner::Connection(key) => self.connections.get(&key).map(|other| &other.belongings),
            Owner::Session(place) => self.session(place).map(|session| &session.belongings),
        }
    }

    pub(super) fn belongings_mut(&mut self, owner: Owner) -> Result<&mut Belongings, BadEvent> {
        Ok(match owner {
            Owner::Connection(key) => &mut self.connections.entry(key).or_default().belongings,
            Owner::Session(place) => &mut self.session_at(place)?.belongings,
        })
    }
}

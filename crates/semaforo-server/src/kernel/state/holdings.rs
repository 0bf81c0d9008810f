//! What owners have: holds, and messages that are out to them.

use super::super::codec::BadEvent;
use super::super::ids::ObjectId;
use super::super::policy_object::Give;
use super::super::session::{Holdings, Owner};
use super::super::verb::HoldMode;
use super::{Hold, State, no_message};

impl State {
    pub(in crate::kernel) fn hold(&self, fence: u64) -> Option<Hold> {
        self.holds.get(&fence).copied()
    }

    /// How many holds there are.
    pub(in crate::kernel) fn hold_count(&self) -> usize {
        self.holds.len()
    }

    /// Makes an owner a holder.
    pub(in crate::kernel) fn grant(
        &mut self,
        owner: Owner,
        fence: u64,
        id: ObjectId,
        mode: HoldMode,
    ) -> Result<(), BadEvent> {
        if let Owner::Session(session) = owner {
            self.session_at(session)?;
        }
        if self.holds.contains_key(&fence) {
            return Err(BadEvent::new(format!("fence {fence} was given out already")));
        }
        self.policy_mut(id)?.hold(mode)?;
        if let Some(object) = self.object_mut(id) {
            object.holders.insert(fence);
        }
        self.holds.insert(fence, Hold { object: id, owner, mode });
        self.holdings_mut(owner)?.add_hold(id, fence);
        Ok(())
    }

    /// Ends a hold, or makes it smaller if fewer permits than it has, and more than none, are
    /// given.
    pub(in crate::kernel) fn release(
        &mut self,
        fence: u64,
        permits: u32,
    ) -> Result<Give, BadEvent> {
        let no_hold = || BadEvent::new(format!("nobody holds {fence}"));
        let hold = self.holds.get_mut(&fence).ok_or_else(no_hold)?;
        let Hold { object: id, owner, mode } = *hold;
        if let HoldMode::Permits(held) = mode
            && permits > held
        {
            return Err(BadEvent::new(format!("{fence} holds fewer than {permits} permits")));
        }
        if let HoldMode::Permits(held) = mode
            && permits > 0
            && permits < held
        {
            hold.mode = HoldMode::Permits(held - permits);
            let give = Give::Permits(permits);
            self.policy_mut(id)?.give(give)?;
            return Ok(give);
        }
        self.holds.remove(&fence);
        match owner {
            Owner::Connection(key) => {
                if let Some(connection) = self.connections.get_mut(&key) {
                    connection.holdings.remove_hold(id, fence);
                }
            }
            Owner::Session(session) => {
                self.session_at(session)?.holdings.remove_hold(id, fence);
            }
        }
        if let Some(object) = self.object_mut(id) {
            object.holders.remove(&fence);
        }
        let give = Give::back(mode);
        self.policy_mut(id)?.give(give)?;
        self.vanish(id);
        Ok(give)
    }

    /// Turns a writer into a reader or the other way round.
    pub(in crate::kernel) fn convert(
        &mut self,
        fence: u64,
        into: u64,
        mode: HoldMode,
    ) -> Result<(), BadEvent> {
        let no_hold = || BadEvent::new(format!("nobody holds {fence}"));
        let Hold { object: id, owner, mode: before } =
            self.holds.remove(&fence).ok_or_else(no_hold)?;
        let give = match (before, mode) {
            (HoldMode::Write, HoldMode::Read) => Give::Downgrade,
            (HoldMode::Read, HoldMode::Write) => Give::Upgrade,
            _ => return Err(BadEvent::new(format!("{before:?} became {mode:?}"))),
        };
        if self.holds.insert(into, Hold { object: id, owner, mode }).is_some() {
            return Err(BadEvent::new(format!("fence {into} was given out already")));
        }
        let holdings = self.holdings_mut(owner)?;
        holdings.remove_hold(id, fence);
        holdings.add_hold(id, into);
        if let Some(object) = self.object_mut(id) {
            object.holders.remove(&fence);
            object.holders.insert(into);
        }
        self.policy_mut(id)?.give(give)
    }

    /// Gives a message to an owner until it is acknowledged.
    pub(in crate::kernel) fn lend(
        &mut self,
        queue: ObjectId,
        number: u64,
        priority: i32,
        owner: Owner,
    ) -> Result<(), BadEvent> {
        if let Owner::Session(session) = owner {
            self.session_at(session)?;
        }
        let lent = self.queue_mut(queue)?.lend(number, priority, owner).is_some();
        if !lent {
            return Err(no_message(number));
        }
        self.holdings_mut(owner)?.add_message(queue, number);
        Ok(())
    }

    /// Takes a message off its borrower's list.
    pub(in crate::kernel) fn take_loan(
        &mut self,
        queue: ObjectId,
        number: u64,
    ) -> Result<(), BadEvent> {
        let owner = self.queue_mut(queue)?.borrower(number).ok_or_else(|| no_message(number))?;
        self.holdings_mut(owner)?.remove_message(queue, number);
        Ok(())
    }

    /// Releases all that an owner had which is no more.
    pub(in crate::kernel) fn give_up(&mut self, holdings: &Holdings) -> Result<(), BadEvent> {
        for fence in holdings.holds() {
            self.release(fence, 0)?;
        }
        for messages in holdings.messages().chunk_by(|(one, _), (other, _)| one == other) {
            self.queue_mut(messages[0].0)?
                .give_back_all(messages.iter().map(|(_, number)| *number));
        }
        Ok(())
    }

    /// Releases the first holds and messages that an owner has, so many together.
    pub(in crate::kernel) fn give_up_first(
        &mut self,
        owner: Owner,
        most: usize,
    ) -> Result<(), BadEvent> {
        let Some(holdings) = self.holdings(owner) else { return Ok(()) };
        let portion = holdings.first(most);
        for (_, fence) in &portion.holds {
            self.release(*fence, 0)?;
        }
        for (queue, numbers) in portion.loans() {
            self.end_loans(owner, queue, &numbers)?;
        }
        Ok(())
    }

    /// Puts messages that are out to an owner, in the order of their numbers, back in their places.
    pub(super) fn end_loans(
        &mut self,
        owner: Owner,
        queue: ObjectId,
        numbers: &[u64],
    ) -> Result<(), BadEvent> {
        for number in numbers {
            self.holdings_mut(owner)?.remove_message(queue, *number);
        }
        self.queue_mut(queue)?.give_back_all(numbers.iter().copied());
        Ok(())
    }

    /// Ends a hold of an object that is gone. Whether there was one.
    pub(in crate::kernel) fn drop_hold(&mut self, id: ObjectId) -> bool {
        let Some(object) = self.object_mut(id) else { return false };
        let Some(fence) = object.holders.iter().next() else { return false };
        object.holders.remove(&fence);
        if let Some(hold) = self.holds.remove(&fence) {
            self.disown(hold.owner, |holdings| holdings.remove_hold(id, fence));
        }
        true
    }

    /// Drops a message of a queue that is gone. How many bytes it had, if there was one.
    pub(in crate::kernel) fn drop_message(&mut self, queue: ObjectId) -> Option<u64> {
        let (message, borrower) = self.queue_mut(queue).ok()?.drop_any()?;
        if let Some(owner) = borrower {
            self.disown(owner, |holdings| holdings.remove_message(queue, message.number));
        }
        Some(message.payload.len() as u64)
    }

    /// Takes something off the list of what an owner has, if there is such an owner.
    fn disown(&mut self, owner: Owner, take: impl FnOnce(&mut Holdings)) {
        match owner {
            Owner::Session(slot) => {
                if let Some(session) = self.session_mut(slot) {
                    take(&mut session.holdings);
                }
            }
            Owner::Connection(key) => {
                if let Some(connection) = self.connections.get_mut(&key) {
                    take(&mut connection.holdings);
                }
                self.tidy_connection(key);
            }
        }
    }

    pub(in crate::kernel) fn holdings(&self, owner: Owner) -> Option<&Holdings> {
        match owner {
            Owner::Connection(key) => self.connections.get(&key).map(|other| &other.holdings),
            Owner::Session(slot) => self.session(slot).map(|session| &session.holdings),
        }
    }

    pub(super) fn holdings_mut(&mut self, owner: Owner) -> Result<&mut Holdings, BadEvent> {
        Ok(match owner {
            Owner::Connection(key) => &mut self.connections.entry(key).or_default().holdings,
            Owner::Session(slot) => &mut self.session_at(slot)?.holdings,
        })
    }
}

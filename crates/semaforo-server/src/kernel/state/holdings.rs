//! Who has what: holds, and messages that are out.

use super::super::codec::BadEvent;
use super::super::command::Wish;
use super::super::gate::Give;
use super::super::session::{Belongings, Owner};
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

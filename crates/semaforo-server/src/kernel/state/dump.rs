//! The events that make a state out of nothing.

use std::io;

use super::super::event::Event;
use super::super::session::{Kept, Owner, Session};
use super::super::verb::{HoldMode, Settings};
use super::{Barrier, Body, Object, State};

impl State {
    /// The events that make this state, without its overlay, out of nothing. The same states give
    /// the same bytes.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn dump(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut buffer = Vec::new();
        let mut emit = |event: Event<'_>| {
            buffer.clear();
            event.encode(&mut buffer);
            sink(&buffer)
        };
        emit(Event::FencesReserved { below: self.reserved_fences })?;
        if self.retired_numbers > 0 {
            emit(Event::NumbersRetired { below: self.retired_numbers })?;
        }
        for (slot, session) in self.sessions() {
            let (id, ttl) = (session.id, session.ttl);
            emit(Event::SessionOpened { session: slot, id, ttl, label: &session.label })?;
            if session.acked > 0 {
                emit(Event::OutcomesAcknowledged { session: slot, upto: session.acked })?;
            }
            for (seq, Kept { digest, answer }) in &session.kept {
                let (seq, digest, answer) = (*seq, *digest, answer.clone());
                emit(Event::OutcomeKept { session: slot, seq, digest, answer })?;
            }
            if session.is_leaving {
                emit(Event::SessionLeaves { session: slot })?;
            }
        }
        let (mut barriers, mut smaller) = (Vec::new(), Vec::new());
        for (id, object) in self.objects().filter(|(_, object)| !object.is_retired) {
            match &object.body {
                Body::Policy(policy) => {
                    let Some((mut settings, count)) = policy.settings() else { continue };
                    if let Settings::Semaphore { permits } = &mut settings
                        && policy.held() > *permits
                    {
                        // It is smaller than what is held, and becomes so when that was granted.
                        let most = self.held_by_sessions(object).max(*permits);
                        let now = std::mem::replace(permits, most);
                        smaller.extend((most > now).then_some((id, now)));
                    }
                    emit(Event::Created { object: id, name: &object.name, settings, next: 0 })?;
                    if let Some(count) = count {
                        emit(Event::Counted { object: id, count })?;
                    }
                }
                Body::Barrier(barrier) => barriers.push((&object.name, barrier)),
                Body::Queue(messages) => {
                    let settings = Settings::Queue { capacity: messages.capacity };
                    let next = messages.next;
                    emit(Event::Created { object: id, name: &object.name, settings, next })?;
                    for (message, session) in messages.journaled() {
                        let taken = u32::from(session.is_some());
                        emit(Event::Put {
                            queue: id,
                            number: message.number,
                            priority: message.priority,
                            due: message.due,
                            deliveries: message.deliveries - taken,
                            payload: &message.payload,
                        })?;
                        if let Some(session) = session {
                            let (number, priority) = (message.number, message.priority);
                            emit(Event::Taken { queue: id, number, priority, by: Some(session) })?;
                        }
                    }
                }
            }
        }
        barriers.sort_unstable_by_key(|(name, _)| *name);
        for (name, Barrier { parties, generation, broken, .. }) in barriers {
            let (parties, generation) = (*parties, *generation);
            emit(Event::BarrierOpened { name, parties, generation })?;
            if *broken {
                emit(Event::BarrierBroken { name })?;
            }
        }
        for (session, Session { holdings, .. }) in self.sessions() {
            for fence in holdings.holds() {
                let Some(hold) = self.holds.get(&fence) else { continue };
                let object = self.object(hold.object).filter(|object| !object.is_retired);
                let Some(object) = object else { continue };
                let (kind, name, mode) = (object.kind, &*object.name, hold.mode);
                emit(Event::Granted { session, fence, kind, name, mode })?;
            }
        }
        for (id, permits) in smaller {
            emit(Event::Resized { object: id, permits })?;
        }
        Ok(())
    }

    /// How many permits of a semaphore are held, without those of connections.
    fn held_by_sessions(&self, object: &Object) -> u32 {
        let holds = object.holders.iter().filter_map(|fence| self.holds.get(&fence));
        let permits = holds.map(|hold| match (hold.owner, hold.mode) {
            (Owner::Session(_), HoldMode::Permits(permits)) => permits,
            _ => 0,
        });
        permits.sum()
    }
}

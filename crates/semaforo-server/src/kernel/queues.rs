//! Queues: messages for the first taker, and takers for the first message.

use std::sync::Arc;

use super::answer::{Answer, Content, Header, Parcel, Status};
use super::command::{Charge, Millis};
use super::decide::{error, no_such_method};
use super::event::Event;
use super::ids::{ObjectId, WaitId};
use super::messages::{MAX_NUMBER, Message, Messages};
use super::session::Owner;
use super::state::{Body, Object};
use super::verb::Verb;
use super::waits::Ask;
use super::{Kernel, Kind, Output, Reply, RequestContext};

/// Takers wait in this line.
const TAKERS: usize = 0;
/// Putters, which wait for space, wait in this one.
const PUTTERS: usize = 1;

/// How many numbers of messages are reserved at a time, for each queue.
const NUMBER_BLOCK: u64 = 1 << 14;

impl Kernel {
    /// What is asked of a queue that is there.
    pub(super) fn serve_queue(
        &mut self,
        context: &RequestContext,
        id: ObjectId,
        verb: Verb<'_>,
        out: &mut Output,
    ) -> Reply {
        match verb {
            Verb::Put { payload, priority, delay } => {
                self.put(context, id, payload, priority, delay, out)
            }
            Verb::Transfer { payload, priority } => {
                self.transfer(context, id, payload, priority, out)
            }
            Verb::Take { manual } => self.take(context, id, manual, out),
            Verb::Ack { message, deliveries } => {
                self.acknowledge(context, id, message, deliveries, out)
            }
            Verb::Return { message, deliveries, delay } => {
                self.give_back(context, id, (message, deliveries), delay, out)
            }
            verb => no_such_method(Kind::Queue, verb),
        }
    }

    pub(super) fn put(
        &mut self,
        context: &RequestContext,
        queue: ObjectId,
        payload: &[u8],
        priority: i32,
        delay: Millis,
        out: &mut Output,
    ) -> Reply {
        let Some(Object { body: Body::Queue(messages), lines, .. }) = self.state.object(queue)
        else {
            return error(Status::NotFound, "there is no such queue");
        };
        if let Some(refusal) = self.no_room(messages, payload) {
            return Reply::Answer(refusal);
        }
        if messages.is_full() || !lines[PUTTERS].is_empty() {
            if context.is_impatient() && !self.is_postponed(queue) {
                return Reply::Answer(Answer::plain(Status::TimedOut));
            }
            let (payload, charge) = (Arc::from(payload), context.charge.clone());
            let ask = Ask::Put { payload, priority, delay, charge };
            let bytes = ask.payload_len() as u64;
            let reply = self.wait(context, queue, PUTTERS, ask);
            if let Reply::Waits(_) = reply {
                self.bytes += bytes;
            }
            return reply;
        }
        let number = self.insert(queue, payload, priority, delay, context.now, out);
        self.charge(queue, number, priority, &context.charge);
        self.pump_queue(queue, context.now, out);
        Reply::Answer(Answer::done().with(Header::Message, number))
    }

    fn no_room(&self, messages: &Messages, payload: &[u8]) -> Option<Answer> {
        if self.bytes + payload.len() as u64 > self.limits.bytes {
            let reason = format!("all queues together have {} bytes", self.limits.bytes);
            return Some(Answer::error(Status::NoSpace, reason));
        }
        if messages.len() >= self.limits.messages {
            let reason = format!("the queue has {} messages", self.limits.messages);
            return Some(Answer::error(Status::NoSpace, reason));
        }
        self.no_memory(payload.len() as u64)
    }

    /// A message is the queue's from now on.
    fn insert(
        &mut self,
        queue: ObjectId,
        payload: &[u8],
        priority: i32,
        delay: Millis,
        now: Millis,
        out: &mut Output,
    ) -> u64 {
        let number = self.number(queue, out);
        let due = if delay == 0 { 0 } else { now.saturating_add(delay) };
        self.emit(&Event::Put { queue, number, priority, due, deliveries: 0, payload }, out);
        self.bytes += payload.len() as u64;
        self.messages += 1;
        if due != 0 {
            self.schedule(queue);
        }
        number
    }

    /// Lets a message count for something, until it is gone.
    fn charge(&mut self, queue: ObjectId, number: u64, priority: i32, charge: &Charge) {
        if let Ok(messages) = self.state.queue_mut(queue)
            && charge.is_some()
        {
            messages.charge(number, priority, charge.clone());
        }
    }

    /// The number of the next message. Like a fence it is given out only after it was reserved for
    /// good: it will not be given to another after a restart, whether the journal knows this
    /// message or not.
    fn number(&mut self, queue: ObjectId, out: &mut Output) -> u64 {
        let Some(messages) = self.state.queue(queue) else { return 0 };
        let (number, reserved) = (messages.next_number(), messages.next);
        if number >= reserved {
            let below = number.saturating_add(NUMBER_BLOCK).min(MAX_NUMBER);
            self.emit(&Event::NumbersUsed { queue, below }, out);
            out.urgent = true;
        }
        number
    }

    /// Sees to it that the queue is looked at when its next message is due.
    pub(super) fn schedule(&mut self, queue: ObjectId) {
        let Ok(messages) = self.state.queue_mut(queue) else { return };
        let next = messages.next_due();
        let planned = std::mem::replace(&mut messages.alarm, next);
        if let Some(due) = planned {
            self.due.remove(&(due, queue));
        }
        if let Some(due) = next {
            self.due.insert((due, queue));
        }
    }

    pub(super) fn transfer(
        &mut self,
        context: &RequestContext,
        queue: ObjectId,
        payload: &[u8],
        priority: i32,
        out: &mut Output,
    ) -> Reply {
        let Some(Object { body: Body::Queue(messages), lines, .. }) = self.state.object(queue)
        else {
            return error(Status::NotFound, "there is no such queue");
        };
        if let Some(refusal) = self.no_room(messages, payload) {
            return Reply::Answer(refusal);
        }
        // Takers wait only if there is nothing to take: then this message is the first. If they are
        // postponed, the next tick finds out whether there is a taker for it, too.
        if context.is_impatient() && lines[TAKERS].is_empty() {
            return Reply::Answer(Answer::plain(Status::TimedOut));
        }
        if let Some(refusal) = self.no_more_waits() {
            return Reply::Answer(refusal);
        }
        let number = self.number(queue, out);
        let reply = self.wait(context, queue, PUTTERS, Ask::Transfer { number, priority });
        let Reply::Waits(wait_id) = reply else { return reply };
        let message = Message {
            number,
            priority,
            due: 0,
            deliveries: 0,
            payload: Arc::from(payload),
            sender: Some(wait_id),
            charge: context.charge.clone(),
        };
        self.bytes += payload.len() as u64;
        self.messages += 1;
        if let Ok(messages) = self.state.queue_mut(queue) {
            messages.insert(message);
        }
        self.pump_queue(queue, context.now, out);
        reply
    }

    pub(super) fn take(
        &mut self,
        context: &RequestContext,
        queue: ObjectId,
        manual: bool,
        out: &mut Output,
    ) -> Reply {
        let next_due = self.state.queue(queue).and_then(Messages::next_due);
        if next_due.is_some_and(|due| due <= context.now) {
            // The tick that would do that is still to come.
            self.promote(queue, context.now, out);
        }
        let Some(Object { body: Body::Queue(messages), lines, .. }) = self.state.object(queue)
        else {
            return error(Status::NotFound, "there is no such queue");
        };
        // A PUT that the budget did not allow in this turn comes first; not one that the journal
        // has no space for.
        let is_late = self.is_postponed(queue) && out.is_full();
        if lines[TAKERS].is_empty() && messages.ready() > 0 && !is_late {
            let kept = context.retry.is_some();
            if let Some(refusal) = self.no_room_to_keep(messages, manual, kept) {
                return Reply::Answer(refusal);
            }
            let answer = self.hand_over(queue, context.owner, manual, kept, out);
            if self.state.object(queue).is_some_and(|object| !object.lines[PUTTERS].is_empty()) {
                self.pump_queue(queue, context.now, out);
            }
            return Reply::Answer(answer);
        }
        if context.is_impatient() && !self.is_postponed(queue) {
            return Reply::Answer(Answer::plain(Status::TimedOut));
        }
        self.wait(context, queue, TAKERS, Ask::Take { manual })
    }

    /// Nothing is due at a queue any more.
    pub(super) fn forget_alarm(&mut self, queue: ObjectId) {
        let messages = self.state.queue_mut(queue).ok();
        if let Some(due) = messages.and_then(|messages| messages.alarm.take()) {
            self.due.remove(&(due, queue));
        }
    }

    /// Lets messages be taken whose time has come.
    pub(super) fn promote(&mut self, queue: ObjectId, now: Millis, out: &mut Output) {
        if let Ok(messages) = self.state.queue_mut(queue) {
            out.moved += messages.promote(now, out.portion);
            self.schedule(queue);
            self.pump_queue(queue, now, out);
        }
    }

    /// A message that is out is there twice if it is kept with the answer, too. What is kept has a
    /// limit of its own: also when all queues are full they can be emptied.
    fn no_room_to_keep(&self, messages: &Messages, manual: bool, kept: bool) -> Option<Answer> {
        let message = messages.first().filter(|_| manual && kept)?;
        (self.kept + message.payload.len() as u64 > self.limits.bytes).then(|| {
            let reason = format!("{} bytes are kept with answers", self.kept);
            Answer::error(Status::NoSpace, reason)
        })
    }

    /// Gives the first message, which there is, to a taker.
    fn hand_over(
        &mut self,
        queue: ObjectId,
        owner: Owner,
        manual: bool,
        kept: bool,
        out: &mut Output,
    ) -> Answer {
        let incarnation = self.state.object(queue).map_or(0, |object| object.incarnation);
        let Some(message) = self.state.queue(queue).and_then(Messages::first) else {
            unreachable!("there is a message to hand over");
        };
        let (number, priority, sender) = (message.number, message.priority, message.sender);
        let (payload, charge) = (Arc::clone(&message.payload), message.charge.clone());
        let deliveries = message.deliveries;
        let answer = Answer::done()
            .with(Header::Message, number)
            .with(Header::Deliveries, u64::from(deliveries) + 1);
        if manual {
            match (owner, sender) {
                (Owner::Session(session), None) => {
                    self.emit(&Event::Taken { queue, number, priority, by: Some(session) }, out);
                }
                (_, Some(_)) => self.lend(queue, number, priority, owner),
                (Owner::Connection(_), None) => {
                    // For the journal it stays in its place, but that it was taken once more is not
                    // forgotten.
                    let (due, deliveries) = (0, deliveries.saturating_add(1));
                    self.emit(&Event::Delayed { queue, number, priority, due, deliveries }, out);
                    self.lend(queue, number, priority, owner);
                }
            }
            return answer.containing(Content::Message(payload));
        }
        self.bytes -= payload.len() as u64;
        self.messages -= 1;
        match sender {
            None => self.emit(&Event::Taken { queue, number, priority, by: None }, out),
            Some(sender) => {
                if let Ok(messages) = self.state.queue_mut(queue) {
                    messages.remove(number, priority);
                }
                self.complete(sender, Answer::done(), out);
            }
        }
        if kept {
            return answer.containing(Content::Message(payload));
        }
        answer.containing(Content::Fragile(Parcel {
            queue,
            incarnation,
            number,
            priority,
            deliveries,
            payload,
            charge,
        }))
    }

    /// Lends a message to an owner without the journal knowing.
    fn lend(&mut self, queue: ObjectId, number: u64, priority: i32, owner: Owner) {
        let lent = self.state.lend(queue, number, priority, owner);
        debug_assert_eq!(lent, Ok(()));
    }

    /// Brings messages and takers together, and lets in messages for which there is space now, as
    /// long as the budget of the output allows. The requests that are left are postponed, and all
    /// that come later stand behind them: also those that do not want to wait, whose time is up at
    /// the next tick, after it has gone on with the postponed ones.
    pub(super) fn pump_queue(&mut self, queue: ObjectId, now: Millis, out: &mut Output) {
        while let Some(Object { body: Body::Queue(messages), lines, is_retired: false, .. }) =
            self.state.object(queue)
        {
            let taker = lines[TAKERS].head().filter(|_| messages.ready() > 0);
            let putter = lines[PUTTERS].head().filter(|_| !messages.is_full());
            let Some(wait_id) = self.first_of_both(queue, taker, putter, out) else { break };
            let Some(wait) = self.waits.get(wait_id) else { break };
            let message = match &wait.ask {
                Ask::Take { .. } if wait.retry.is_some() => {
                    messages.first().map_or(0, |first| first.payload.len())
                }
                ask => ask.payload_len(),
            };
            if out.is_full_for(wait, message) {
                let earlier = self.state.object(queue).and_then(|object| object.postponed);
                let upto = earlier.map_or(self.waits.last_ticket(), |earlier| earlier.upto);
                return self.postpone(queue, None, upto);
            }
            if self.comes_too_late(wait_id, out) {
                continue;
            }
            let Some(Object { body: Body::Queue(messages), .. }) = self.state.object(queue) else {
                break;
            };
            let Some(wait) = self.waits.get(wait_id) else { break };
            let answer = match &wait.ask {
                Ask::Take { manual } => {
                    let (owner, manual, kept) = (wait.owner, *manual, wait.retry.is_some());
                    match self.no_room_to_keep(messages, manual, kept) {
                        Some(refusal) => refusal,
                        None => self.hand_over(queue, owner, manual, kept, out),
                    }
                }
                Ask::Put { payload, priority, delay, charge } => {
                    let (payload, priority, delay) = (Arc::clone(payload), *priority, *delay);
                    let charge = charge.clone();
                    let number = self.insert(queue, &payload, priority, delay, now, out);
                    self.charge(queue, number, priority, &charge);
                    Answer::done().with(Header::Message, number)
                }
                Ask::Enter(_) | Ask::Arrive { .. } | Ask::Transfer { .. } => break,
            };
            self.complete(wait_id, answer, out);
        }
        self.forget_postponed(queue);
    }

    /// Whose turn it is: the taker's, unless it has come when the queue was postponed already, and
    /// the putter was there before. With a larger budget it would have been let in before the taker
    /// came.
    fn first_of_both(
        &self,
        queue: ObjectId,
        taker: Option<WaitId>,
        putter: Option<WaitId>,
        out: &Output,
    ) -> Option<WaitId> {
        let (Some(takes), Some(puts)) = (taker, putter) else { return taker.or(putter) };
        let put = self.waits.get(puts)?;
        if out.lacks_space_for(put, put.ask.payload_len()) {
            return taker;
        }
        let postponed = self.state.object(queue).and_then(|object| object.postponed);
        let was_there = |wait_id| Some(self.waits.ticket(wait_id)? <= postponed?.upto);
        let puts_first = was_there(puts) == Some(true) && was_there(takes) == Some(false);
        if puts_first { putter } else { taker }
    }

    /// A message that is out to the request's owner, by the delivery that is meant: one that has
    /// come back may be out again.
    fn loan(
        &self,
        context: &RequestContext,
        queue: ObjectId,
        number: u64,
        meant: Option<u64>,
    ) -> Result<&Message, Reply> {
        let mine = self.state.holdings(context.owner);
        let mine = mine.is_some_and(|holdings| holdings.has_message(queue, number));
        let message = self.state.queue(queue).and_then(|messages| messages.lent(number));
        let message = message.filter(|_| mine).ok_or_else(|| {
            error(Status::Gone, format!("message {number} is not out to this session (any more)"))
        })?;
        match meant {
            Some(meant) if meant != u64::from(message.deliveries) => {
                let there = message.deliveries;
                let reason = format!("message {number} is out with delivery {there}, not {meant}");
                Err(error(Status::Gone, reason))
            }
            _ => Ok(message),
        }
    }

    pub(super) fn acknowledge(
        &mut self,
        context: &RequestContext,
        queue: ObjectId,
        number: u64,
        meant: Option<u64>,
        out: &mut Output,
    ) -> Reply {
        let (sender, priority) = match self.loan(context, queue, number, meant) {
            Ok(message) => (message.sender, message.priority),
            Err(reply) => return reply,
        };
        let before = self.state.queue(queue).map_or(0, Messages::bytes);
        match (context.owner, sender) {
            (_, Some(sender)) => {
                self.end_loan(queue, number, |messages| drop(messages.settle(number)));
                self.complete(sender, Answer::done(), out);
            }
            (Owner::Session(_), None) => self.emit(&Event::Acknowledged { queue, number }, out),
            (Owner::Connection(_), None) => {
                self.end_loan(queue, number, |messages| messages.give_back(number, None));
                self.emit(&Event::Taken { queue, number, priority, by: None }, out);
            }
        }
        self.bytes -= before - self.state.queue(queue).map_or(0, Messages::bytes);
        self.messages -= 1;
        self.pump_queue(queue, context.now, out);
        Reply::Answer(Answer::done())
    }

    /// Ends a loan that the journal does not know.
    fn end_loan(&mut self, queue: ObjectId, number: u64, end: impl FnOnce(&mut Messages)) {
        let ended = self.state.take_loan(queue, number);
        debug_assert_eq!(ended, Ok(()));
        if let Ok(messages) = self.state.queue_mut(queue) {
            end(messages);
        }
    }

    pub(super) fn give_back(
        &mut self,
        context: &RequestContext,
        queue: ObjectId,
        (number, meant): (u64, Option<u64>),
        delay: Millis,
        out: &mut Output,
    ) -> Reply {
        let (priority, deliveries, sender) = match self.loan(context, queue, number, meant) {
            Ok(message) => (message.priority, message.deliveries, message.sender),
            Err(reply) => return reply,
        };
        let due = (delay != 0).then(|| context.now.saturating_add(delay));
        match (context.owner, sender) {
            (Owner::Session(_), None) => self.emit(&Event::Returned { queue, number, due }, out),
            (_, Some(_)) => {
                self.end_loan(queue, number, |messages| messages.give_back(number, due));
            }
            (Owner::Connection(_), None) => {
                self.end_loan(queue, number, |messages| messages.give_back(number, None));
                // For the journal it has been there all the time.
                if let Some(due) = due {
                    self.emit(&Event::Delayed { queue, number, priority, due, deliveries }, out);
                }
            }
        }
        if due.is_some() {
            self.schedule(queue);
        }
        self.pump_queue(queue, context.now, out);
        Reply::Answer(Answer::done())
    }

    /// No byte of a message could be sent to its taker: it returns to its place.
    pub fn undelivered(&mut self, now: Millis, parcel: &Parcel, out: &mut Output) {
        let Parcel { queue, incarnation, number, priority, deliveries, .. } = *parcel;
        let payload = &parcel.payload;
        let there = self.state.object(queue);
        let same = there.is_some_and(|object| object.incarnation == incarnation);
        if same && self.state.queue(queue).is_some_and(|all| !all.contains(number)) {
            let due = 0;
            self.emit(&Event::Put { queue, number, priority, due, deliveries, payload }, out);
            self.bytes += payload.len() as u64;
            self.messages += 1;
            self.charge(queue, number, priority, &parcel.charge);
            self.pump_queue(queue, now, out);
        }
    }

    /// A message is not transferred any more.
    pub(super) fn withdraw_message(&mut self, queue: ObjectId, number: u64, priority: i32) {
        let Ok(messages) = self.state.queue_mut(queue) else { return };
        let before = (messages.bytes(), messages.len());
        if messages.remove(number, priority).is_none() && messages.lent(number).is_some() {
            self.end_loan(queue, number, |messages| drop(messages.settle(number)));
        }
        let after = self.state.queue(queue).map_or((0, 0), |all| (all.bytes(), all.len()));
        self.bytes -= before.0 - after.0;
        self.messages -= before.1 - after.1;
        self.schedule(queue);
    }
}

//! Requests over HTTP, as the thread that decides sees them.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::bridge::{MainSide, Word};
use super::figures::Figures;
use super::http::{Answered, Ticket};
use super::render::{payload, render};
use crate::journal::Position;
use crate::kernel::{Answer, ConnectionKey, Content, Parcel};
use crate::wire::write_answer;

/// The requests that are under way.
#[derive(Debug)]
pub(super) struct HttpClients {
    side: MainSide,
    /// Those that are not answered yet, and the ids that their clients gave them.
    waiting: HashMap<Ticket, Option<Box<str>>>,
    /// Messages that were sent and may not have arrived.
    parcels: HashMap<Ticket, Parcel>,
    /// Answers of this turn.
    unsent: Vec<Answered>,
    /// Answers that leave when the journal is durable up to a position.
    marks: VecDeque<(Position, Answered)>,
    /// How many commands had been decided when figures were published last.
    published: u64,
}

impl HttpClients {
    pub(super) fn new(side: MainSide) -> Self {
        Self {
            side,
            waiting: HashMap::new(),
            parcels: HashMap::new(),
            unsent: Vec::new(),
            marks: VecDeque::new(),
            published: 0,
        }
    }

    pub(super) fn next_word(&self) -> Option<Word> {
        self.side.next_word()
    }

    /// Waits for a word; none when there will be none any more.
    pub(super) fn wait_for_word(&self) -> Option<Word> {
        self.side.wait_for_word()
    }

    /// A request is not answered yet.
    pub(super) fn waits(&mut self, ticket: Ticket, id: Option<&str>) {
        self.waiting.insert(ticket, id.map(Into::into));
    }

    /// Answers a request that was waiting.
    pub(super) fn respond_late(
        &mut self,
        ticket: Ticket,
        answer: &Answer,
        address: &dyn Fn(ConnectionKey) -> String,
    ) {
        let id = self.waiting.remove(&ticket).flatten();
        self.respond(ticket, id.as_deref(), answer, address);
    }

    pub(super) fn respond(
        &mut self,
        ticket: Ticket,
        id: Option<&str>,
        answer: &Answer,
        address: &dyn Fn(ConnectionKey) -> String,
    ) {
        let mut frame = Vec::new();
        if let Content::View(_) = answer.content {
            let payload = payload(answer, address);
            write_answer(&mut frame, answer.status.number(), id, [], payload.as_deref());
        } else {
            render(&mut frame, id, answer, address);
        }
        let confirm = match &answer.content {
            Content::Fragile(parcel) => self.parcels.insert(ticket, parcel.clone()).is_none(),
            _ => false,
        };
        self.unsent.push(Answered { ticket, frame, confirm });
    }

    pub(super) fn respond_with(&mut self, ticket: Ticket, id: Option<&str>, payload: &[u8]) {
        let mut frame = Vec::new();
        write_answer(&mut frame, 200, id, [], Some(payload));
        self.unsent.push(Answered { ticket, frame, confirm: false });
    }

    /// A client went away, and what it waited for is over: every request is answered once.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        if let Some(id) = self.waiting.remove(&ticket) {
            let mut frame = Vec::new();
            write_answer(&mut frame, 204, id.as_deref(), [], None);
            self.unsent.push(Answered { ticket, frame, confirm: false });
        }
    }

    /// A message has arrived, or has to come back.
    pub(super) fn settle(&mut self, ticket: Ticket) -> Option<Parcel> {
        self.parcels.remove(&ticket)
    }

    /// Lets answers go, as far as the journal is durable.
    pub(super) fn release(&mut self, position: Position, durable: Position) {
        self.marks.extend(self.unsent.drain(..).map(|answered| (position, answered)));
        self.side.turned();
        let mut any = false;
        while self.marks.front().is_some_and(|(position, _)| *position <= durable) {
            if let Some((_, answered)) = self.marks.pop_front() {
                self.side.answer(answered);
                any = true;
            }
        }
        if any {
            self.side.wake();
        }
    }

    pub(super) fn stop(&self) {
        self.side.stop();
    }

    pub(super) fn published(&self) -> u64 {
        self.published
    }

    pub(super) fn publish(&mut self, figures: Figures) {
        self.published = figures.decided;
        self.side.publish(figures);
    }
}

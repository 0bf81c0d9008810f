//! Requests over HTTP, as the thread that decides sees them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use semaforo_protocol::wire::write_answer;

use super::access::{Token, Tokens};
use super::http::{Answered, Ticket};
use super::http_channels::{MainSide, Word};
use super::quotas::Share;
use super::render::render;
use super::statistics::ServerStatistics;
use crate::journal::Position;
use crate::kernel::{Answer, ConnectionKey, Content, Parcel};

/// A request that is not answered yet.
#[derive(Debug)]
struct Waiting {
    /// The id that the client gave it.
    id: Option<Box<str>>,
    /// It goes on without its client, which can ask for it again.
    is_kept: bool,
    /// The token that it was made with.
    token: Option<Arc<Token>>,
    /// It counts for that.
    _share: Option<Share>,
}

/// Answers, in the order of their positions.
type Marks = VecDeque<(Position, Answered)>;

/// The requests that are under way.
#[derive(Debug)]
pub(super) struct HttpClients {
    side: MainSide,
    /// Those that are not answered yet, and were made with a token if the server wants tokens.
    identified: HashSet<Ticket>,
    /// Those that wait.
    waiting: HashMap<Ticket, Waiting>,
    /// Messages that were sent and may not have arrived, with their numbers in the order in which
    /// they were decided.
    parcels: HashMap<Ticket, (u64, Parcel)>,
    /// How many messages there were.
    messages: u64,
    /// Those of which the thread of HTTP has not said yet that it has tried to send them.
    untried: BTreeSet<u64>,
    /// Answers of this turn.
    unsent: Vec<Answered>,
    /// Answers with messages, which leave when the journal is durable up to a position.
    messages_due: Marks,
    /// All other answers.
    marks: Marks,
    /// How many commands had been decided when statistics were published last, and whether space
    /// was short.
    published: (u64, bool),
}

impl HttpClients {
    pub(super) fn new(side: MainSide) -> Self {
        Self {
            side,
            identified: HashSet::new(),
            waiting: HashMap::new(),
            parcels: HashMap::new(),
            messages: 0,
            untried: BTreeSet::new(),
            unsent: Vec::new(),
            messages_due: Marks::new(),
            marks: Marks::new(),
            published: (0, false),
        }
    }

    pub(super) fn next_word(&self) -> Option<Word> {
        self.side.next_word()
    }

    /// Waits for a word; none when there will be none any more.
    pub(super) fn wait_for_word(&self) -> Option<Word> {
        self.side.wait_for_word()
    }

    /// A request was made with a token, or none is needed: its client is known from now on.
    pub(super) fn identified(&mut self, ticket: Ticket) {
        self.identified.insert(ticket);
    }

    fn send(&mut self, ticket: Ticket, frame: Vec<u8>, confirm: bool) {
        let known = self.identified.remove(&ticket);
        self.unsent.push(Answered { ticket, frame, confirm, known });
    }

    /// A request is not answered yet. It `is_kept` if its client can ask for it again.
    pub(super) fn waits(
        &mut self,
        ticket: Ticket,
        id: Option<&str>,
        is_kept: bool,
        token: Option<Arc<Token>>,
        share: Option<Share>,
    ) {
        let id = id.map(Into::into);
        self.waiting.insert(ticket, Waiting { id, is_kept, token, _share: share });
    }

    /// Those that wait with a token that is not known any more.
    pub(super) fn unknown(&self, tokens: &Tokens) -> Vec<Ticket> {
        let waiting = self.waiting.iter();
        let unknown = waiting.filter(|(_, waiting)| {
            waiting.token.as_ref().is_some_and(|token| tokens.again(token).is_none())
        });
        unknown.map(|(ticket, _)| *ticket).collect()
    }

    /// Answers a request that was waiting.
    pub(super) fn respond_late(
        &mut self,
        ticket: Ticket,
        answer: &Answer,
        address: &dyn Fn(ConnectionKey) -> String,
    ) {
        let id = self.waiting.remove(&ticket).and_then(|waiting| waiting.id);
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
        render(&mut frame, id, answer, address);
        let confirm = match &answer.content {
            Content::Fragile(parcel) => {
                self.messages += 1;
                self.untried.insert(self.messages);
                self.parcels.insert(ticket, (self.messages, parcel.clone())).is_none()
            }
            _ => false,
        };
        self.send(ticket, frame, confirm);
    }

    pub(super) fn respond_with(&mut self, ticket: Ticket, id: Option<&str>, payload: &[u8]) {
        let mut frame = Vec::new();
        write_answer(&mut frame, 200, id, [], Some(payload));
        self.send(ticket, frame, false);
    }

    /// A client went away, or sends no more, and what it waited for is over, or goes on without it:
    /// then there is nothing to be said about it here.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        if let Some(waiting) = self.waiting.remove(&ticket) {
            let mut frame = Vec::new();
            if !waiting.is_kept {
                write_answer(&mut frame, 204, waiting.id.as_deref(), [], None);
            }
            self.send(ticket, frame, false);
        }
    }

    /// How many messages have been for takers over HTTP so far.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Whether the thread of HTTP has tried to send the first so many of them.
    pub(super) fn has_tried(&self, count: u64) -> bool {
        self.untried.first().is_none_or(|first| *first > count)
    }

    /// It has tried to send this one.
    pub(super) fn tried(&mut self, ticket: Ticket) {
        if let Some((number, _)) = self.parcels.get(&ticket) {
            self.untried.remove(number);
        }
    }

    /// A message has arrived, or has to come back: which one, and whether it was known that it was
    /// tried to be sent.
    pub(super) fn settle(&mut self, ticket: Ticket) -> Option<(Parcel, bool)> {
        let (number, parcel) = self.parcels.remove(&ticket)?;
        let was_tried = !self.untried.remove(&number);
        Some((parcel, was_tried))
    }

    /// Why the thread of HTTP has ended by itself, if it has. No answer waits for it then.
    pub(super) fn failure(&mut self) -> Option<String> {
        let failure = self.side.failure()?;
        self.untried.clear();
        Some(failure)
    }

    /// A message has come back: no answer leaves before the journal is durable up to there. Among
    /// the answers that wait is perhaps that of the message's producer.
    pub(super) fn hold_until(&mut self, position: Position) {
        for (other, _) in self.messages_due.iter_mut().chain(&mut self.marks) {
            *other = position;
        }
    }

    /// Lets messages go, as far as the journal is durable.
    pub(super) fn send_messages(&mut self, position: Position, durable: Position) {
        for answered in self.unsent.drain(..) {
            let marks = if answered.confirm { &mut self.messages_due } else { &mut self.marks };
            marks.push_back((position, answered));
        }
        self.side.turned();
        send(&mut self.messages_due, durable, &self.side);
    }

    /// Lets all other answers go, as far as the journal is durable.
    pub(super) fn send_others(&mut self, durable: Position) {
        send(&mut self.marks, durable, &self.side);
    }

    pub(super) fn set_tokens(&self, tokens: Option<Arc<Tokens>>) {
        self.side.set_tokens(tokens);
    }

    pub(super) fn stop(&self) {
        self.side.stop();
    }

    /// Whether that is not what was published last.
    pub(super) fn is_news(&self, decided: u64, is_short_of_space: bool) -> bool {
        self.published != (decided, is_short_of_space)
    }

    pub(super) fn publish(&mut self, statistics: ServerStatistics) {
        self.published = (statistics.decided, statistics.is_short_of_space);
        self.side.publish(statistics);
    }
}

/// Sends answers, as far as the journal is durable.
fn send(marks: &mut Marks, durable: Position, side: &MainSide) {
    let ready = marks.iter().take_while(|(position, _)| *position <= durable).count();
    for (_, answered) in marks.drain(..ready) {
        side.answer(answered);
    }
    if ready > 0 {
        side.wake();
    }
}

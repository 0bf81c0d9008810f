//! Where everybody's requests are taken and answered, over TCP and HTTP: frames in, answers out, once per turn and after the journal.

mod answers;
mod client;
mod requests;

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use self::client::{Caller, Client, Mark};
use super::access::Tokens;
use super::bridge::Word;
use super::engine::Engine;
use super::figures::Statuses;
use super::http_clients::HttpClients;
use super::log::Log;
use crate::kernel::{Answer, ConnectionKey, Status};
use crate::net::limits::DRAIN;
use crate::net::{Closed, ConnectionId, Connections, Peer, Service};
use crate::wire::{FrameError, Limits, Scan, Scanner};

/// What to do after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The next one.
    Go,
    /// This one again, when those before it are answered.
    Hold,
    /// Nothing any more.
    End,
}

/// The service of the main thread.
pub(super) struct Desk {
    pub(super) engine: Engine,
    clients: Vec<Option<Client>>,
    frames: Limits,
    tokens: Option<Tokens>,
    /// Who connects has so long for a first request.
    first_request: Duration,
    tickets: u64,
    /// Those that were appended to in this turn.
    touched: Vec<ConnectionId>,
    /// What may leave when the journal is durable.
    marks: VecDeque<Mark>,
    /// A message has returned in this turn. Nobody may be told anything before that is durable: among those who wait for
    /// the journal is perhaps its producer.
    returned: bool,
    pub(super) http: Option<HttpClients>,
    statuses: Statuses,
    /// When figures were published last.
    published: Instant,
    started: Instant,
    stopping: bool,
    log: Log,
}

impl Desk {
    pub(super) fn new(
        engine: Engine,
        frames: Limits,
        tokens: Option<Tokens>,
        first_request: Duration,
        log: Log,
    ) -> Self {
        Self {
            engine,
            clients: Vec::new(),
            frames,
            tokens,
            first_request,
            tickets: 0,
            touched: Vec::new(),
            marks: VecDeque::new(),
            returned: false,
            http: None,
            statuses: Statuses::default(),
            published: Instant::now(),
            started: Instant::now(),
            stopping: false,
            log,
        }
    }

    fn client(&mut self, id: ConnectionId) -> Option<&mut Client> {
        self.clients.get_mut(id.index())?.as_mut().filter(|client| client.id == id)
    }

    /// Lets a connection wait for nothing any more: it is about to end.
    fn give_up(&mut self, net: &mut Connections, id: ConnectionId) {
        self.engine.half_closed(ConnectionKey(id.into()));
        self.deliver(net);
        // Whatever was not answered goes on without this connection: a session can ask for it again.
        if let Some(client) = self.client(id) {
            client.waiting.clear();
            client.tickets.clear();
            if std::mem::take(&mut client.in_order) {
                net.resume(id);
            }
        }
    }

    /// Listens to the thread that speaks HTTP, which ends after this one's connections: who asks it meanwhile is
    /// refused, and a message that it could not send returns.
    pub(super) fn hear_out_http(&mut self, net: &mut Connections) {
        while let Some(word) = self.http.as_ref().and_then(HttpClients::wait_for_word) {
            let now = Instant::now();
            self.engine.turn_begins(now);
            self.hear(net, word);
            self.turn_ends(net, now);
        }
    }

    /// Does what the thread that speaks HTTP says.
    fn hear(&mut self, net: &mut Connections, word: Word) {
        match word {
            Word::Request(ticket, submission) => self.handle_http(net, ticket, &submission),
            Word::Cancel(ticket) => {
                self.engine.disconnected(Caller::Http(ticket).key());
                self.deliver(net);
                if let Some(http) = &mut self.http {
                    http.forget(ticket);
                }
            }
            Word::Settled { ticket, accepted } => {
                let parcel = self.http.as_mut().and_then(|http| http.settle(ticket));
                if let Some(parcel) = parcel.filter(|_| !accepted) {
                    self.returned = true;
                    self.engine.undelivered(&parcel);
                    self.deliver(net);
                }
            }
        }
    }

    /// Stops: nobody waits any more, and what is answered goes out within a bounded time.
    pub(super) fn stop(&mut self, net: &mut Connections) {
        if !std::mem::replace(&mut self.stopping, true) {
            self.log.info(format_args!("stopping"));
            self.engine.stop();
            self.deliver(net);
            if let Some(http) = &self.http {
                http.stop();
            }
            net.stop(DRAIN);
        }
    }
}

impl Service for Desk {
    fn opened(&mut self, net: &mut Connections, id: ConnectionId, _: Peer) {
        let client = Client {
            id,
            scanner: Scanner::new(),
            rights: None,
            waiting: HashMap::new(),
            tickets: HashMap::new(),
            parcels: VecDeque::new(),
            in_order: false,
            touched: false,
            addressed: false,
            known: false,
        };
        if self.clients.len() <= id.index() {
            self.clients.resize_with(id.index() + 1, || None);
        }
        self.clients[id.index()] = Some(client);
        net.set_deadline(id, Some(net.now() + self.first_request));
    }

    fn received(&mut self, net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize {
        // Not the beginning of the turn: this may have been sent after it, and a client counts its session's time from
        // there.
        self.engine.turn_begins(Instant::now());
        let mut used = 0;
        loop {
            let frames = self.frames;
            let Some(client) = self.client(id) else { return input.len() };
            let rest = &input[used..];
            match client.scanner.scan(rest, &frames) {
                Ok(Scan::Incomplete) => return used + client.scanner.take_blank(),
                Ok(Scan::Frame { start, end }) => {
                    if !std::mem::replace(&mut client.known, true) {
                        net.set_deadline(id, None);
                    }
                    match self.handle(net, id, &rest[start..end]) {
                        Next::Hold => return used,
                        Next::Go | Next::End => used += end,
                    }
                    if !net.wants_input(id) {
                        return used;
                    }
                }
                Err(wrong) => {
                    let answer = Answer::error(status(&wrong), wrong.to_string());
                    self.give_up(net, id);
                    self.respond(net, Caller::Tcp(id), None, &answer);
                    net.finish(id);
                    return input.len();
                }
            }
        }
    }

    fn ended(&mut self, net: &mut Connections, id: ConnectionId) {
        self.engine.turn_begins(net.now());
        self.give_up(net, id);
    }

    fn congested(&mut self, net: &mut Connections, id: ConnectionId, congested: bool) {
        self.engine.turn_begins(net.now());
        self.engine.congested(ConnectionKey(id.into()), congested);
        self.deliver(net);
    }

    fn closed(&mut self, net: &mut Connections, id: ConnectionId, closed: Closed) {
        self.engine.turn_begins(net.now());
        let client = self.clients.get_mut(id.index()).and_then(Option::take);
        self.engine.disconnected(ConnectionKey(id.into()));
        if let Some(mut client) = client {
            client.forget_parcels(closed.accepted);
            self.returned |= !client.parcels.is_empty();
            for (_, parcel) in &client.parcels {
                self.engine.undelivered(parcel);
            }
        }
        self.deliver(net);
    }

    fn signalled(&mut self, net: &mut Connections, _: i32) {
        self.stop(net);
    }

    fn accept_failed(&mut self, _: &mut Connections, error: &io::Error) {
        self.log.warning(format_args!("cannot accept connections at the moment: {error}"));
    }

    fn woken(&mut self, net: &mut Connections) {
        while let Some(word) = self.http.as_ref().and_then(HttpClients::next_word) {
            self.engine.turn_begins(Instant::now());
            self.hear(net, word);
        }
    }

    fn turn_ends(&mut self, net: &mut Connections, now: Instant) -> Option<Instant> {
        self.engine.turn_begins(now);
        self.engine.tick(now);
        self.deliver(net);
        let result = self.release(net).and_then(|all_there| {
            let next = self.engine.turn_ends(now)?;
            Ok(if all_there { next } else { Some(now) })
        });
        while let Some(notice) = self.engine.notice() {
            self.log.info(format_args!("{notice}"));
        }
        match result {
            Ok(next) => [next, self.publish(net, now)].into_iter().flatten().min(),
            // What is answered must not outrun the journal, and nobody knows how far that is.
            Err(failure) => super::die(&failure),
        }
    }
}

fn status(wrong: &FrameError) -> Status {
    if wrong.status() == 413 { Status::TooLarge } else { Status::Senseless }
}

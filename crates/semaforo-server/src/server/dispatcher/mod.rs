//! Dispatches requests, over TCP and HTTP, to the engine and their answers to the clients: frames
//! in, answers out, once per turn and after the journal.

mod answers;
mod audit;
mod client;
mod requests;
mod telling;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use semaforo_protocol::wire::{FrameError, Limits, Scan, Scanner};
use signal_hook::consts::SIGHUP;

pub(super) use self::audit::who;
use self::client::{Caller, Client, Mark};
use super::access::Tokens;
use super::engine::Engine;
use super::http::{Submission, Ticket};
use super::http_channels::Word;
use super::http_clients::HttpClients;
use super::limits::{BUSY_TURN, LOOK_EVERY, SHARE, SMALL_SHARE, STRANGER_FRAME, STRANGER_OUTPUT};
use super::log::{Level, Log};
use super::options::Reload;
use super::quotas::Accounts;
use super::refusals::Refusals;
use super::statistics::Statuses;
use crate::kernel::{Answer, ConnectionKey, Status};
use crate::net::limits::{ACCEPT_PAUSE, DRAIN, MOMENT};
use crate::net::{Closed, ConnectionId, Connections, Peer, Service};

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

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// From connecting to a first request that is allowed.
    pub(super) first_request: Duration,
    /// From the first byte of a request to its last, for each MiB that it may have.
    pub(super) unfinished: Duration,
}

/// The service of the main thread.
pub(super) struct Dispatcher {
    pub(super) engine: Engine,
    clients: Vec<Option<Client>>,
    frames: Limits,
    /// The tokens and their rights; none: every client may do everything.
    tokens: Option<Arc<Tokens>>,
    /// What each of them has.
    accounts: Accounts,
    /// What is done to read them again.
    pub(super) reload: Option<Reload>,
    /// A new connection has so long for a first request.
    first_request: Duration,
    /// A request has so long to arrive.
    unfinished: Duration,
    /// Connections and when they were opened, the oldest first: all that are not known yet are
    /// among them.
    newcomers: VecDeque<(ConnectionId, Instant)>,
    tickets: u64,
    /// Those that were appended to in this turn.
    touched: Vec<ConnectionId>,
    /// What may leave when the journal is durable.
    marks: VecDeque<Mark>,
    /// A message has returned in this turn. No answer may leave before that is durable: among the
    /// answers that wait for the journal is perhaps its producer's.
    returned: bool,
    http: Option<HttpClients>,
    /// Connections that are paused until the journal has space for what they ask.
    held: Vec<ConnectionId>,
    /// Requests over HTTP that wait for the same.
    held_http: VecDeque<(Ticket, Submission)>,
    /// What is answered now leaves after so many messages for takers over HTTP.
    after: u64,
    statuses: Statuses,
    /// When statistics were published last.
    published: Instant,
    started: Instant,
    stopping: bool,
    refusals: Arc<Refusals>,
    log: Log,
}

impl Dispatcher {
    pub(super) fn new(
        mut engine: Engine,
        frames: Limits,
        tokens: Option<Tokens>,
        patience: Patience,
        refusals: Arc<Refusals>,
        log: Log,
    ) -> Self {
        engine.out.tells = tokens.is_some() || log.logs(Level::Debug);
        Self {
            engine,
            clients: Vec::new(),
            frames,
            tokens: tokens.map(Arc::new),
            accounts: Accounts::default(),
            reload: None,
            first_request: patience.first_request,
            // A larger request takes longer on the same line.
            unfinished: patience.unfinished
                * u32::try_from(frames.size / Limits::SIZE).unwrap_or(1).max(1),
            newcomers: VecDeque::new(),
            tickets: 0,
            touched: Vec::new(),
            marks: VecDeque::new(),
            returned: false,
            http: None,
            held: Vec::new(),
            held_http: VecDeque::new(),
            after: 0,
            statuses: Statuses::default(),
            published: Instant::now(),
            started: Instant::now(),
            stopping: false,
            refusals,
            log,
        }
    }

    /// Requests come over HTTP, too.
    pub(super) fn set_http(&mut self, http: HttpClients) {
        http.set_tokens(self.tokens.clone());
        self.http = Some(http);
    }

    fn client(&mut self, id: ConnectionId) -> Option<&mut Client> {
        self.clients.get_mut(id.index())?.as_mut().filter(|client| client.id == id)
    }

    /// The beginning of a request has come, and not its end: it has its time for that. A connection
    /// that is not known has no more than it has anyway.
    fn begins(&mut self, net: &mut Connections, id: ConnectionId) {
        let limit = net.now() + self.unfinished;
        if let Some(client) = self.client(id)
            && client.known
            && client.unfinished.is_none()
        {
            client.unfinished = Some(net.now());
            net.set_deadline(id, Some(limit));
        }
    }

    /// The connection that has been here longest without being known, and since when.
    fn oldest_stranger(&mut self) -> Option<(ConnectionId, Instant)> {
        while let Some(&(id, since)) = self.newcomers.front() {
            if self.client(id).is_some_and(|client| !client.known) {
                return Some((id, since));
            }
            self.newcomers.pop_front();
        }
        None
    }

    /// The connection that can be spared when places run out: one that is not known, or else one
    /// that is slow.
    fn least_welcome(&mut self, now: Instant) -> Option<ConnectionId> {
        let slow = |dispatcher: &Self| {
            let slow = dispatcher
                .clients
                .iter()
                .flatten()
                .filter_map(|client| client.slow_since().map(|since| (since, client.id)));
            slow.min().map(|(since, id)| (id, since))
        };
        let is_over = |(_, since): &(ConnectionId, Instant)| now >= *since + MOMENT;
        let found = self.oldest_stranger().filter(is_over);
        found.or_else(|| slow(self).filter(is_over)).map(|(id, _)| id)
    }

    /// Lets a connection wait for nothing any more: it is about to end.
    fn give_up(&mut self, net: &mut Connections, id: ConnectionId) {
        let key = ConnectionKey(id.into());
        self.engine.half_closed(key);
        self.deliver(net);
        if self.engine.kernel.is_giving_up(key) {
            // That is so much that it is told by and by: until then it does nothing else.
            if let Some(client) = self.client(id) {
                client.gives_up = true;
                net.pause(id);
            }
            return;
        }
        self.has_given_up(net, id);
    }

    /// A connection waits for nothing any more, and knows it.
    fn has_given_up(&mut self, net: &mut Connections, id: ConnectionId) {
        // Whatever was not answered goes on without this connection: a session can ask for it
        // again.
        if let Some(client) = self.client(id) {
            client.in_order |= std::mem::take(&mut client.gives_up);
            let finishes = std::mem::take(&mut client.finishes);
            client.waiting.clear();
            client.tickets.clear();
            if std::mem::take(&mut client.in_order) {
                net.resume(id);
            }
            if finishes {
                net.finish(id);
            }
        }
    }

    /// Closes a connection when it has its answers.
    fn finish(&mut self, net: &mut Connections, id: ConnectionId) {
        match self.client(id) {
            Some(client) if client.gives_up => client.finishes = true,
            _ => net.finish(id),
        }
    }

    /// Listens to the thread that speaks HTTP, which ends after this one's connections: its
    /// requests are refused meanwhile, and a message that it could not send returns.
    pub(super) fn hear_out_http(&mut self, net: &mut Connections) {
        while let Some(word) = self.http.as_ref().and_then(HttpClients::wait_for_word) {
            let now = Instant::now();
            self.engine.turn_begins(now);
            self.hear(net, word);
            self.turn_ends(net, now);
        }
    }

    /// Handles a request over HTTP, or leaves it until the journal has space for it.
    fn hear_request(&mut self, net: &mut Connections, ticket: Ticket, submission: Submission) {
        if self.handle_http(net, ticket, &submission) == Next::Hold {
            self.held_http.push_back((ticket, submission));
        }
    }

    /// Goes on with the connections and requests that had to wait for space in the journal.
    fn let_held_go_on(&mut self, net: &mut Connections) {
        for id in std::mem::take(&mut self.held) {
            net.resume(id);
        }
        for (ticket, submission) in std::mem::take(&mut self.held_http) {
            self.hear_request(net, ticket, submission);
        }
    }

    /// A request over HTTP does not wait any more.
    fn forget_http(&mut self, net: &mut Connections, ticket: Ticket) {
        self.held_http.retain(|(held, _)| *held != ticket);
        self.engine.disconnected(Caller::Http(ticket).key());
        self.deliver(net);
        if let Some(http) = &mut self.http {
            http.forget(ticket);
        }
    }

    /// Does what the thread that speaks HTTP says.
    fn hear(&mut self, net: &mut Connections, word: Word) {
        match word {
            Word::Request(ticket, submission) => self.hear_request(net, ticket, submission),
            Word::Cancel(ticket) => self.forget_http(net, ticket),
            Word::Tried(ticket) => {
                if let Some(http) = &mut self.http {
                    http.tried(ticket);
                }
            }
            Word::Settled { ticket, accepted } => {
                let parcel = self.http.as_mut().and_then(|http| http.settle(ticket));
                if let Some((parcel, was_tried)) = parcel
                    && !accepted
                {
                    self.returned = true;
                    self.engine.undelivered(&parcel, was_tried);
                    self.deliver(net);
                }
            }
        }
    }

    /// Stops: no request waits any more, and what is answered goes out within a bounded time.
    pub(super) fn stop(&mut self, net: &mut Connections) {
        if !std::mem::replace(&mut self.stopping, true) {
            self.log.info(format_args!("stopping"));
            self.engine.stop();
            self.deliver(net);
            self.let_held_go_on(net);
            if let Some(http) = &self.http {
                http.stop();
            }
            net.stop(DRAIN);
        }
    }
}

impl Service for Dispatcher {
    fn opened(&mut self, net: &mut Connections, id: ConnectionId, peer: Peer) {
        self.log.debug(format_args!("{id} has connected from {}", peer.address));
        let client = Client {
            id,
            scanner: Scanner::new(),
            token: None,
            waiting: HashMap::new(),
            tickets: HashMap::new(),
            parcels: VecDeque::new(),
            tried: 0,
            in_order: false,
            gives_up: false,
            finishes: false,
            touched: false,
            addressed: false,
            after: 0,
            known: false,
            unfinished: None,
            congested: None,
        };
        if self.clients.len() <= id.index() {
            self.clients.resize_with(id.index() + 1, || None);
        }
        self.clients[id.index()] = Some(client);
        net.set_deadline(id, Some(net.now() + self.first_request));
        self.oldest_stranger();
        self.newcomers.push_back((id, net.now()));
    }

    fn received(&mut self, net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize {
        // Not the beginning of the turn: this may have been sent after it, and a client counts its
        // session's time from there.
        let begun = Instant::now();
        self.engine.turn_begins(begun);
        let share = share(begun.saturating_duration_since(net.now()));
        let (mut used, mut handled) = (0, 0_u32);
        loop {
            let (mut frames, wants_tokens) = (self.frames, self.tokens.is_some());
            let Some(client) = self.client(id) else { return input.len() };
            let was_known = client.known;
            if wants_tokens && !was_known {
                frames.size = frames.size.min(STRANGER_FRAME);
            }
            let rest = &input[used..];
            match client.scanner.scan(rest, &frames) {
                Ok(Scan::Incomplete) => {
                    let blank = client.scanner.take_blank();
                    if rest.len() > blank {
                        self.begins(net, id);
                    }
                    return used + blank;
                }
                Ok(Scan::Frame { start, end }) => {
                    client.known |= !wants_tokens;
                    let was_unfinished = client.unfinished.take().is_some();
                    let next = self.handle(net, id, &rest[start..end]);
                    let is_known = self.client(id).is_some_and(|client| client.known);
                    if is_known && (was_unfinished || !was_known) {
                        net.set_deadline(id, None);
                    }
                    if wants_tokens && !is_known && net.unsent(id) > STRANGER_OUTPUT {
                        // It gets what it was answered, in the time that it has.
                        net.finish(id);
                        return input.len();
                    }
                    match next {
                        Next::Hold => return used,
                        Next::Go | Next::End => used += end,
                    }
                    if !net.wants_input(id) {
                        return used;
                    }
                    handled = handled.wrapping_add(1);
                    if handled % LOOK_EVERY == 0 && begun.elapsed() >= share {
                        net.rest(id);
                        return used;
                    }
                }
                Err(wrong) => {
                    let answer = Answer::error(status(&wrong), wrong.to_string());
                    self.give_up(net, id);
                    self.respond(net, Caller::Tcp(id), None, &answer);
                    self.finish(net, id);
                    return input.len();
                }
            }
        }
    }

    fn ended(&mut self, net: &mut Connections, id: ConnectionId) {
        self.engine.turn_begins(net.now());
        self.give_up(net, id);
    }

    fn crowded(&mut self, net: &mut Connections) -> Option<Instant> {
        if let Some(id) = self.least_welcome(net.now()) {
            self.log.debug(format_args!("all places are taken: {id} loses its own to another"));
            net.abort(id);
        }
        Some(net.now() + ACCEPT_PAUSE)
    }

    fn timed_out(&mut self, net: &mut Connections, id: ConnectionId) {
        let Some(client) = self.client(id) else { return };
        if !client.known {
            return net.abort(id);
        }
        if net.has_more(id) {
            // It may be here already, and this server has not had the time to read it.
            return net.set_deadline(id, Some(net.now() + ACCEPT_PAUSE));
        }
        self.engine.turn_begins(net.now());
        self.give_up(net, id);
        self.refuse_unfinished(net, id);
        self.finish(net, id);
    }

    fn congested(&mut self, net: &mut Connections, id: ConnectionId, congested: bool) {
        self.engine.turn_begins(net.now());
        let since = congested.then(|| net.now());
        if let Some(client) = self.client(id) {
            client.congested = since;
        }
        self.engine.congested(ConnectionKey(id.into()), congested);
        self.deliver(net);
    }

    fn closed(&mut self, net: &mut Connections, id: ConnectionId, closed: Closed) {
        self.log.debug(format_args!("{id} is gone: {}", closed.reason));
        self.engine.turn_begins(net.now());
        let client = self.clients.get_mut(id.index()).and_then(Option::take);
        self.engine.disconnected(ConnectionKey(id.into()));
        if let Some(mut client) = client {
            client.forget_parcels(closed.accepted);
            self.returned |= !client.parcels.is_empty();
            for (offset, parcel) in &client.parcels {
                self.engine.undelivered(parcel, *offset < client.tried);
            }
        }
        self.deliver(net);
    }

    fn signalled(&mut self, net: &mut Connections, signal: i32) {
        self.engine.turn_begins(net.now());
        if signal == SIGHUP {
            let reloaded = self.reload();
            let outcome = reloaded.map_or_else(|reason| format!(": {reason}"), |()| String::new());
            self.log.audit(format_args!("reload by signal {signal}{outcome}"));
            self.dismiss_unknown(net);
        } else {
            self.log.audit(format_args!("stop by signal {signal}"));
            self.stop(net);
        }
    }

    fn accept_failed(&mut self, _: &mut Connections, error: &io::Error) {
        self.log.warning(format_args!("cannot accept connections at the moment: {error}"));
    }

    fn woken(&mut self, net: &mut Connections) {
        let begun = Instant::now();
        let share = share(begun.saturating_duration_since(net.now()));
        let mut now = begun;
        while let Some(word) = self.http.as_ref().and_then(HttpClients::next_word) {
            self.engine.turn_begins(now);
            self.hear(net, word);
            now = Instant::now();
            if now.duration_since(begun) >= share {
                // What else HTTP clients say is heard in the next turn.
                return net.waker().wake();
            }
        }
        if let Some(failure) = self.http.as_mut().and_then(HttpClients::failure)
            && !self.stopping
        {
            self.log.error(format_args!("the thread of HTTP has ended: {failure}"));
            self.stop(net);
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
        if self.engine.can_go_on() {
            self.let_held_go_on(net);
        }
        self.tell();
        while let Some(notice) = self.engine.notice() {
            if notice.is_warning() {
                self.log.warning(format_args!("{notice}"));
            } else {
                self.log.info(format_args!("{notice}"));
            }
        }
        match result {
            Ok(next) => {
                let due = [next, self.publish(net, now), self.refusals.report(now)];
                due.into_iter().flatten().min()
            }
            // What is answered must not outrun the journal, and how far that is is not known.
            Err(failure) => super::die(&failure, &self.log),
        }
    }
}

/// How long requests of one connection are handled in a turn that has lasted so long.
fn share(turn: Duration) -> Duration {
    if turn < BUSY_TURN { SHARE } else { SMALL_SHARE }
}

fn status(wrong: &FrameError) -> Status {
    if wrong.status() == 413 { Status::TooLarge } else { Status::BadRequest }
}

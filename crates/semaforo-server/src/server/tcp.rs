//! The protocol over TCP: frames in, answers out, once per turn and after the journal.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use super::access::{Need, Rights, Tokens};
use super::bridge::Word;
use super::engine::Engine;
use super::figures::{Figures, Statuses};
use super::http::{Submission, Ticket};
use super::http_clients::HttpClients;
use super::limits::{MAX_ID, MAX_WAITS, PUBLISHED_EVERY};
use super::log::Log;
use super::render::{payload, render};
use super::translate::{Wanted, translate};
use crate::journal::Position;
use crate::kernel::{
    Answer, Command, ConnectionKey, Content, Operation, Origin, Parcel, Reply, SessionId, Status,
    Verb, WaitKey,
};
use crate::net::limits::DRAIN;
use crate::net::{Closed, ConnectionId, Connections, Peer, Service};
use crate::wire::{FrameError, Limits, Request, Scan, Scanner, write_answer};

/// What the protocol needs to know of a connection.
struct Client {
    id: ConnectionId,
    scanner: Scanner,
    /// What it may do; none: it has to say who it is.
    rights: Option<Rights>,
    /// Its waiting requests, by ticket.
    waiting: HashMap<u64, Waiting>,
    /// Their tickets, by the ids that the client gave them.
    tickets: HashMap<Box<str>, u64>,
    /// Messages that it was sent and may not have got, by where they begin in its output.
    parcels: VecDeque<(u64, Parcel)>,
    /// It is paused until all its waiting requests are answered.
    in_order: bool,
    /// It was appended to in this turn.
    touched: bool,
    /// And a message was among it.
    addressed: bool,
    /// It has made a request.
    known: bool,
}

/// What may leave when the journal is durable up to a position: a connection's output, up to an offset.
struct Mark {
    position: Position,
    id: ConnectionId,
    offset: u64,
    /// There is a message in it, which goes before everything else.
    message: bool,
}

/// A request that was not answered yet.
struct Waiting {
    id: Option<Box<str>>,
    key: WaitKey,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// A connection.
    Tcp(ConnectionId),
    /// A request over HTTP, which is a connection of its own to the kernel.
    Http(Ticket),
}

/// The bit that tells the two apart.
const HTTP: u64 = 1 << 63;

impl Caller {
    fn key(self) -> ConnectionKey {
        match self {
            Self::Tcp(id) => ConnectionKey(id.into()),
            Self::Http(ticket) => ConnectionKey(HTTP | ticket),
        }
    }

    fn of(key: ConnectionKey) -> Self {
        if key.0 & HTTP == 0 {
            Self::Tcp(ConnectionId::from(key.0))
        } else {
            Self::Http(key.0 & !HTTP)
        }
    }
}

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
pub(super) struct Tcp {
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

impl Tcp {
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

    /// Answers whoever asked.
    fn respond(
        &mut self,
        net: &mut Connections,
        caller: Caller,
        name: Option<&str>,
        answer: &Answer,
    ) {
        self.statuses.count(answer.status);
        match (caller, &mut self.http) {
            (Caller::Tcp(id), _) => self.append(net, id, name, answer),
            (Caller::Http(ticket), Some(http)) => {
                http.respond(ticket, answer, &|key| address(net, key));
            }
            (Caller::Http(_), None) => {}
        }
    }

    /// Answers with a payload that is no answer of the kernel's.
    fn respond_with(
        &mut self,
        net: &mut Connections,
        caller: Caller,
        name: Option<&str>,
        payload: &[u8],
    ) {
        self.statuses.count(Status::Done);
        match (caller, &mut self.http) {
            (Caller::Tcp(id), _) => {
                write_answer(net.output(id), 200, name, [], Some(payload));
                self.touch(id);
            }
            (Caller::Http(ticket), Some(http)) => http.respond_with(ticket, payload),
            (Caller::Http(_), None) => {}
        }
    }

    /// Appends an answer, and remembers what may have to come back.
    fn append(
        &mut self,
        net: &mut Connections,
        id: ConnectionId,
        request: Option<&str>,
        answer: &Answer,
    ) {
        let Some(client) = self.clients.get_mut(id.index()).and_then(Option::as_mut) else {
            return;
        };
        if !std::mem::replace(&mut client.touched, true) {
            self.touched.push(id);
        }
        if let Content::Fragile(parcel) = &answer.content {
            // A connection may be gone without our having been told: then it is as if nothing was ever sent.
            let offset = net.queued(id).unwrap_or(u64::MAX);
            client.parcels.push_back((offset, parcel.clone()));
            client.addressed = true;
        }
        if let Content::View(_) = answer.content {
            let payload = payload(answer, &|key| address(net, key));
            let status = answer.status.number();
            write_answer(net.output(id), status, request, [], payload.as_deref());
        } else {
            render(net.output(id), request, answer, &|_| String::new());
        }
    }

    /// Handles one request.
    fn handle(&mut self, net: &mut Connections, id: ConnectionId, frame: &[u8]) -> Next {
        let Some(client) = self.client(id) else { return Next::End };
        let waiting = client.waiting.len();
        let request = match Request::parse(frame) {
            Ok(request) => request,
            Err(_) if waiting > 0 => return self.hold(net, id),
            Err(wrong) => {
                let answer = Answer::error(Status::Senseless, wrong.to_string());
                self.respond(net, Caller::Tcp(id), None, &answer);
                return Next::Go;
            }
        };
        let name = request.headers.get("id");
        if waiting > 0 && name.is_none() {
            return self.hold(net, id);
        }
        let caller = Caller::Tcp(id);
        let answer = match self.perform(net, caller, name, None, &request) {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                self.deliver(net);
                return self.after(net, id);
            }
            Err(answer) => answer,
        };
        // Those who were let through come first: a taker is sent its message before the producer learns.
        self.deliver(net);
        self.respond(net, caller, name, &answer);
        Next::Go
    }

    /// Handles a request over HTTP.
    fn handle_http(&mut self, net: &mut Connections, ticket: Ticket, submission: &Submission) {
        let caller = Caller::Http(ticket);
        let outcome = match Request::parse(&submission.frame) {
            Err(wrong) => Err(Answer::error(Status::Senseless, wrong.to_string())),
            Ok(request) => self.perform(net, caller, None, submission.token.as_deref(), &request),
        };
        self.deliver(net);
        if let Ok(Some(answer)) | Err(answer) = outcome {
            self.respond(net, caller, None, &answer);
        }
    }

    /// Leaves a request until all before it are answered.
    fn hold(&mut self, net: &mut Connections, id: ConnectionId) -> Next {
        if let Some(client) = self.client(id) {
            client.in_order = true;
        }
        net.pause(id);
        Next::Hold
    }

    fn after(&mut self, net: &mut Connections, id: ConnectionId) -> Next {
        if net.wants_input(id) || self.client(id).is_some_and(|client| client.in_order) {
            Next::Go
        } else {
            Next::End
        }
    }

    /// Does what a request wants. The answer, if there is one already.
    fn perform(
        &mut self,
        net: &mut Connections,
        caller: Caller,
        name: Option<&str>,
        token: Option<&str>,
        request: &Request<'_>,
    ) -> Result<Option<Answer>, Answer> {
        if name.is_some_and(|name| name.len() > MAX_ID) {
            let reason = format!("header id has more than {MAX_ID} bytes");
            return Err(Answer::error(Status::Senseless, reason));
        }
        if self.stopping {
            return Err(Answer::error(Status::Stopping, "shutting down"));
        }
        let wanted = translate(request, draw)?;
        self.authorize(caller, token, request, &wanted)?;
        let command = match wanted {
            Wanted::Echo => {
                self.respond_with(net, caller, name, request.raw);
                return Ok(None);
            }
            Wanted::Authenticate => return Ok(Some(Answer::done())),
            Wanted::Shutdown => {
                if matches!(caller, Caller::Http(_)) && self.tokens.is_none() {
                    let reason = "SHUTDOWN over HTTP needs a token, and this server has none";
                    return Err(Answer::error(Status::Forbidden, reason));
                }
                self.respond(net, caller, name, &Answer::done());
                self.stop(net);
                return Ok(None);
            }
            Wanted::Show => {
                let payload = self.show(net);
                self.respond_with(net, caller, name, &payload);
                return Ok(None);
            }
            Wanted::Cancel { request } => return Ok(Some(self.cancel(caller, request))),
            Wanted::Command(command) => command,
        };
        if let Caller::Tcp(id) = caller
            && command.timeout != Some(0)
            && may_wait(&command.operation)
            && self.waits_enough(id)
            && !self.engine.kernel.has_met(&command)
        {
            let reason = format!("{MAX_WAITS} requests of this connection wait already");
            return Err(Answer::error(Status::OverLimit, reason));
        }
        if matches!(caller, Caller::Http(_)) && command.session.is_none() && is_kept(&command) {
            let reason = "what is held over HTTP needs a named session: OPEN one, and say it in header session";
            return Err(Answer::error(Status::Senseless, reason));
        }
        self.tickets += 1;
        let ticket = self.tickets;
        let origin = Origin { connection: caller.key(), ticket };
        match self.engine.decide(origin, &command) {
            Reply::Answer(answer) => Ok(Some(answer)),
            Reply::Close => match caller {
                Caller::Tcp(id) => {
                    // What was answered before still goes.
                    net.finish(id);
                    Ok(None)
                }
                Caller::Http(_) => {
                    let reason = "this seq was acknowledged: its outcome is not known any more";
                    Err(Answer::error(Status::Gone, reason))
                }
            },
            Reply::Waits(key) => {
                match (caller, &mut self.http) {
                    (Caller::Tcp(id), _) => self.waits(net, id, name, ticket, key),
                    (Caller::Http(id), Some(http)) => http.waits(id),
                    (Caller::Http(_), None) => {}
                }
                Ok(None)
            }
        }
    }

    fn waits_enough(&mut self, id: ConnectionId) -> bool {
        self.client(id).is_some_and(|client| client.waiting.len() >= MAX_WAITS)
    }

    /// Remembers where an answer will go.
    fn waits(
        &mut self,
        net: &mut Connections,
        id: ConnectionId,
        name: Option<&str>,
        ticket: u64,
        key: WaitKey,
    ) {
        let Some(client) = self.client(id) else { return };
        let boxed: Option<Box<str>> = name.map(Into::into);
        if let Some(name) = &boxed {
            client.tickets.insert(name.clone(), ticket);
        }
        client.waiting.insert(ticket, Waiting { id: boxed, key });
        if name.is_none() {
            client.in_order = true;
            net.pause(id);
        }
        // Who sends nothing any more has given up what it waits for.
        if net.has_ended(id) {
            self.engine.cancel(key, Origin { connection: ConnectionKey(id.into()), ticket });
        }
    }

    fn cancel(&mut self, caller: Caller, request: &str) -> Answer {
        let client = match caller {
            Caller::Tcp(id) => self.client(id),
            Caller::Http(_) => None,
        };
        let found = client.and_then(|client| {
            let ticket = *client.tickets.get(request)?;
            Some((ticket, client.waiting.get(&ticket)?.key))
        });
        let origin = |ticket| Origin { connection: caller.key(), ticket };
        match found {
            Some((ticket, key)) if self.engine.cancel(key, origin(ticket)) => Answer::done(),
            _ => Answer::error(Status::NotFound, "no request of that id waits"),
        }
    }

    /// Whether the caller may do that.
    fn authorize(
        &mut self,
        caller: Caller,
        token: Option<&str>,
        request: &Request<'_>,
        wanted: &Wanted<'_>,
    ) -> Result<(), Answer> {
        let Some(tokens) = &self.tokens else { return Ok(()) };
        let unauthorized = |reason: &'static str| Answer::error(Status::Unauthorized, reason);
        let said = match request.headers.get("token").or(token) {
            None => None,
            Some(token) => {
                let rights = tokens.rights(token);
                Some(rights.ok_or_else(|| unauthorized("this token is not known"))?)
            }
        };
        let client = match caller {
            Caller::Tcp(id) => self.clients.get_mut(id.index()).and_then(Option::as_mut),
            Caller::Http(_) => None,
        };
        let known = client.and_then(|client| {
            if let (Wanted::Authenticate, Some(rights)) = (wanted, said) {
                client.rights = Some(rights.clone());
            }
            client.rights.as_ref()
        });
        let Some(rights) = said.or(known) else {
            let reason = "a token is needed: AUTH with header token, or the header in each request";
            return Err(unauthorized(reason));
        };
        let refusal = match wanted {
            Wanted::Command(command) => rights.refusal(need(wanted), &command.operation),
            _ => rights.refusal(need(wanted), &Operation::Ping),
        };
        refusal.map_or(Ok(()), |reason| Err(Answer::error(Status::Forbidden, reason)))
    }

    fn touch(&mut self, id: ConnectionId) {
        if let Some(client) = self.client(id)
            && !std::mem::replace(&mut client.touched, true)
        {
            self.touched.push(id);
        }
    }

    /// Appends the answers of those who had been waiting.
    fn deliver(&mut self, net: &mut Connections) {
        if self.engine.out.answers.is_empty() {
            return;
        }
        let mut answers = std::mem::take(&mut self.engine.out.answers);
        for (origin, answer) in answers.drain(..) {
            let caller = Caller::of(origin.connection);
            let Caller::Tcp(id) = caller else {
                self.respond(net, caller, None, &answer);
                continue;
            };
            let Some(client) = self.client(id) else { continue };
            let Some(waiting) = client.waiting.remove(&origin.ticket) else { continue };
            if let Some(name) = &waiting.id
                && client.tickets.get(name) == Some(&origin.ticket)
            {
                client.tickets.remove(name);
            }
            if client.in_order && client.waiting.is_empty() {
                client.in_order = false;
                net.resume(id);
            }
            self.respond(net, caller, waiting.id.as_deref(), &answer);
        }
        self.engine.out.answers = answers;
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

    fn show(&self, net: &Connections) -> Vec<u8> {
        let census = self.engine.kernel.census();
        let mut json = super::render::Json::default();
        json.object(|json| {
            json.text("server", "semaforo");
            json.text("version", env!("CARGO_PKG_VERSION"));
            json.number("connections", net.open().count() as u64);
            json.number("sessions", census.sessions as u64);
            json.number("objects", census.objects.iter().sum::<usize>() as u64);
            json.number("holds", census.holds as u64);
            json.number("waiting", census.waits as u64);
            json.number("messages", census.messages as u64);
            json.number("bytes", census.bytes);
        });
        json.bytes
    }

    /// Tells the other threads how much there is of everything: not more often than they can read, and not
    /// never, if nothing happens any more.
    fn publish(&mut self, net: &Connections, now: Instant) -> Option<Instant> {
        let http = self.http.as_ref()?;
        let due = self.published + PUBLISHED_EVERY;
        if now < due {
            return Some(due).filter(|_| self.engine.decided != http.published());
        }
        self.published = now;
        let figures = Figures {
            census: self.engine.kernel.census(),
            sockets: net.statistics(),
            statuses: Box::new(self.statuses),
            decided: self.engine.decided,
            journaled: self.engine.journaled,
            batches: self.engine.batches,
            uptime: now.duration_since(self.started).as_secs_f64(),
        };
        if let Some(http) = &mut self.http {
            http.publish(figures);
        }
        None
    }

    /// Lets answers go, as far as the journal is durable: messages first. Whether all could go.
    fn release(&mut self, net: &mut Connections) -> io::Result<bool> {
        let position = self.engine.submit()?;
        if std::mem::take(&mut self.returned) {
            for mark in &mut self.marks {
                mark.position = position;
            }
        }
        for id in self.touched.drain(..) {
            let client = self.clients.get_mut(id.index()).and_then(Option::as_mut);
            let Some(client) = client.filter(|client| client.id == id) else { continue };
            client.touched = false;
            let message = std::mem::take(&mut client.addressed);
            if let Some(offset) = net.queued(id) {
                self.marks.push_back(Mark { position, id, offset, message });
            }
        }
        let durable = self.engine.durable()?;
        let ready = self.marks.iter().take_while(|mark| mark.position <= durable).count();
        let mut all_there = true;
        for mark in self.marks.iter_mut().take(ready).filter(|mark| mark.message) {
            mark.message = false;
            net.flush_to(mark.id, mark.offset);
            let client = self.clients.get_mut(mark.id.index()).and_then(Option::as_mut);
            match (net.accepted(mark.id), client.filter(|client| client.id == mark.id)) {
                (Some(accepted), Some(client)) => client.forget_parcels(accepted),
                _ => all_there = false,
            }
        }
        if !all_there {
            // A message could not be sent: it has to be back in its place, durably, before its
            // producer learns that it was put.
            return Ok(false);
        }
        for Mark { id, offset, .. } in self.marks.drain(..ready) {
            net.flush_to(id, offset);
        }
        if let Some(http) = &mut self.http {
            http.release(position, durable);
        }
        Ok(true)
    }
}

impl Client {
    /// Forgets messages of which the socket has taken something.
    fn forget_parcels(&mut self, accepted: u64) {
        while self.parcels.front().is_some_and(|(offset, _)| *offset < accepted) {
            self.parcels.pop_front();
        }
    }
}

impl Service for Tcp {
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
        self.engine.turn_begins(net.now());
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
                    self.respond(net, Caller::Tcp(id), None, &answer);
                    net.finish(id);
                    return input.len();
                }
            }
        }
    }

    fn ended(&mut self, net: &mut Connections, id: ConnectionId) {
        self.engine.turn_begins(net.now());
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
        self.engine.turn_begins(net.now());
        while let Some(word) = self.http.as_ref().and_then(HttpClients::next_word) {
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
    }

    fn turn_ends(&mut self, net: &mut Connections, now: Instant) -> Option<Instant> {
        self.engine.turn_begins(now);
        self.engine.tick();
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

fn need(wanted: &Wanted<'_>) -> Need {
    match wanted {
        Wanted::Shutdown => Need::Administer,
        Wanted::Command(command) => match command.operation {
            Operation::Object { verb: Verb::Create(_) | Verb::Delete, .. } => Need::Create,
            _ => Need::Use,
        },
        _ => Need::Use,
    }
}

/// Whether it leaves something with its session.
fn is_kept(command: &Command<'_>) -> bool {
    matches!(
        command.operation,
        Operation::Object { verb: Verb::Acquire(_) | Verb::Take { manual: true }, .. }
    )
}

fn may_wait(operation: &Operation<'_>) -> bool {
    let Operation::Object { verb, .. } = operation else { return false };
    matches!(
        verb,
        Verb::Acquire(_)
            | Verb::Wait
            | Verb::Arrive { .. }
            | Verb::Put { .. }
            | Verb::Transfer { .. }
            | Verb::Take { .. }
    )
}

/// A session's id, which nobody can guess.
fn draw() -> SessionId {
    let mut bytes = [0; 16];
    // Without randomness there are no secrets, and nothing better to do than to end.
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    SessionId(u128::from_le_bytes(bytes))
}

/// What a connection is called.
fn address(net: &Connections, key: ConnectionKey) -> String {
    let address = net.peer_address(ConnectionId::from(key.0));
    address.map_or_else(|| "http".into(), |address| address.to_string())
}

//! The service behind HTTP connections.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use semaforo_protocol::table::find;
use semaforo_protocol::wire;

use super::answer::{Answer, Date, JSON, PROMETHEUS, TEXT};
use super::frame::frame;
use super::parser::{Parser, Phase, Request, Step};
use super::route::Route;
use super::{Answered, Backend, Health, Options, Refusal, Submission, Ticket, Times, openapi};
use crate::net::{Closed, ConnectionId, Connections, Peer, Service, limits};
use crate::server::limits::STRANGER_OUTPUT;

/// HTTP over the connection layer; see the [module](super).
#[derive(Debug)]
pub struct Http<B> {
    backend: B,
    options: Options,
    /// By the index of their connection.
    clients: Vec<Option<Client>>,
    connected: usize,
    /// The connection that waits for each answer.
    tickets: HashMap<Ticket, ConnectionId>,
    last_ticket: Ticket,
    /// Clients with answers whose fate is to be reported.
    settling: Vec<ConnectionId>,
    /// Since when the server has been stopping.
    stopping: Option<Instant>,
    date: Date,
    document: Vec<u8>,
    requests: u64,
    /// Of the tokens that clients are known by.
    tokens_version: u64,
}

#[derive(Debug)]
struct Client {
    address: SocketAddr,
    parser: Parser,
    /// Requests of its that were read.
    requests: u64,
    /// What its deadline is for: the phase of this request, or none while it waits.
    timed: (u64, Option<Phase>),
    /// When it was connected, or since when it has not been known any more.
    opened: Instant,
    /// Since when it is in this phase.
    since: Instant,
    /// A request of its was made with a token, if the server wants tokens.
    is_known: bool,
    /// The token that it is known by, if that was in the head of a request.
    token: Option<String>,
    /// Beyond the budget: one request, and not any.
    is_reserved: bool,
    waiting: Option<Waiting>,
    unsettled: Vec<Unsettled>,
}

/// An answer to report about.
#[derive(Debug)]
struct Unsettled {
    ticket: Ticket,
    /// Where in the stream it begins.
    begin: u64,
    /// It was reported that nothing of it could be sent so far.
    is_tried: bool,
}

/// A request that the backend has.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    keep_alive: bool,
    form: Form,
}

/// What the body of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The answer object itself.
    Object,
    /// The payload, if there is one.
    Payload,
    /// The payload, which may be `null`.
    AnyPayload,
}

impl<B: Backend> Http<B> {
    /// Ready to be [run](Connections::run) by connections with
    /// [these limits](Options::connection_limits).
    pub fn new(options: Options, backend: B) -> Self {
        Self {
            backend,
            options,
            clients: Vec::new(),
            connected: 0,
            tickets: HashMap::new(),
            last_ticket: Ticket(0),
            settling: Vec::new(),
            stopping: None,
            date: Date::default(),
            document: Vec::new(),
            requests: 0,
            tokens_version: 0,
        }
    }

    /// Where requests are decided.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    fn client(&mut self, id: ConnectionId) -> Option<&mut Client> {
        self.clients.get_mut(id.index())?.as_mut()
    }

    /// Sets the deadline of the phase that a connection is in, once.
    fn watch(&mut self, net: &mut Connections, id: ConnectionId) {
        let times = self.options.times;
        let Some(client) = self.client(id) else { return };
        let phase = client.waiting.is_none().then(|| client.parser.phase());
        let timed = (client.requests, phase);
        if client.is_reserved || client.timed == timed {
            return;
        }
        client.timed = timed;
        client.since = net.now();
        let time = phase.map(|phase| match phase {
            Phase::Idle => times.idle,
            Phase::Head => times.head,
            Phase::Body => times.body,
        });
        let deadline = time.map(|time| net.now() + time);
        // Until it is known, it has no more time than it had for its first request.
        let last = (!client.is_known).then(|| client.opened + times.first);
        let deadline = deadline.map(|deadline| last.map_or(deadline, |last| deadline.min(last)));
        net.set_deadline(id, deadline);
    }

    /// Other tokens are known now. A connection whose token is not among them ends, with the answer
    /// if it waits for one. One that is known by a token within a request object has to show one
    /// again, as when it had just connected; if it waits, it has to connect again.
    fn dismiss_unknown(&mut self, net: &mut Connections) {
        let known: Vec<_> = net.open().collect();
        for id in known {
            let Some(client) = self.clients.get_mut(id.index()).and_then(Option::as_mut) else {
                continue;
            };
            if !client.is_known || self.backend.knows(client.token.as_deref()) {
                continue;
            }
            match (client.token.take(), &mut client.waiting) {
                (_, Some(waiting)) => waiting.keep_alive = false,
                (Some(_), None) => net.finish(id),
                (None, None) => {
                    (client.is_known, client.opened) = (false, net.now());
                    // It has less time than it had.
                    client.timed = (u64::MAX, None);
                    self.watch(net, id);
                }
            }
        }
    }

    /// Closes a connection that can be spared: one that is not known, or else one that is slow.
    /// Whether there was any.
    fn free_a_place(&mut self, net: &mut Connections) -> bool {
        let now = net.now();
        let spared = net.open().filter_map(|id| {
            let client = self.clients.get(id.index())?.as_ref()?;
            let (is_slow, since) = match client.is_known {
                false if client.waiting.is_none() => (false, client.opened),
                _ if client.waiting.is_some() || client.parser.phase() == Phase::Idle => {
                    return None;
                }
                _ => (true, client.since),
            };
            let is_spared = !client.is_reserved && now >= since + limits::MOMENT;
            is_spared.then_some((is_slow, since, id))
        });
        let Some((_, _, id)) = spared.min() else { return false };
        net.abort(id);
        true
    }

    fn handle(&mut self, net: &mut Connections, id: ConnectionId, request: Request) {
        self.requests += 1;
        let Request { head, route, body } = request;
        let is_known = self.backend.knows(head.token.as_deref());
        let Some(client) = self.client(id) else { return };
        if is_known {
            client.is_known = true;
            if client.token != head.token {
                client.token.clone_from(&head.token);
            }
        }
        let (is_reserved, address) = (client.is_reserved, client.address);
        let keep_alive = head.keep_alive && !is_reserved && self.stopping.is_none();
        if is_reserved && !route.is_reserved() {
            let reason = format_args!("all {} connections are in use", self.options.connections);
            return self.refuse(net, id, &Refusal::new(503, reason), false);
        }
        let (status, content_type, body) = match route {
            Route::Health => match self.backend.health() {
                Health::Failing(reason) => (503, TEXT, format!("{reason}\n").into_bytes()),
                Health::Ready | Health::NotReady(_) => (200, TEXT, b"ok\n".to_vec()),
            },
            Route::Ready => match self.backend.health() {
                Health::Ready => (200, TEXT, b"ready\n".to_vec()),
                Health::NotReady(reason) | Health::Failing(reason) => {
                    (503, TEXT, format!("{reason}\n").into_bytes())
                }
            },
            Route::Metrics => match self.backend.may_observe(head.token.as_deref(), address) {
                Ok(()) => (200, PROMETHEUS, self.metrics(net).into_bytes()),
                // Which has written it down.
                Err(refusal) => return self.answer_refusal(net, id, &refusal, keep_alive),
            },
            Route::OpenApi => {
                if self.document.is_empty() {
                    let wants_tokens = !self.backend.knows(None);
                    self.document = format!("{:#}\n", openapi::document(wants_tokens)).into_bytes();
                }
                (200, JSON, self.document.clone())
            }
            route => {
                let form = match &route {
                    Route::Operation { method, path, .. } => match find(path, method) {
                        Some(row) if row.gives_payload => Form::AnyPayload,
                        _ => Form::Payload,
                    },
                    _ => Form::Object,
                };
                let Options { body: size, depth, .. } = self.options;
                let submission = frame(route, &body, wire::Limits { size, depth })
                    .map(|frame| Submission { frame, token: head.token, peer: address });
                match submission {
                    Ok(submission) => self.submit(net, id, submission, keep_alive, form),
                    Err(refusal) => self.refuse(net, id, &refusal, keep_alive),
                }
                return;
            }
        };
        let head_only = head.method == "HEAD";
        let headers = Vec::new();
        let (body, allow) = (body.as_slice(), "");
        let answer = Answer { status, content_type, headers, body, allow, keep_alive, head_only };
        self.answer(net, id, answer);
    }

    fn submit(
        &mut self,
        net: &mut Connections,
        id: ConnectionId,
        submission: Submission,
        keep_alive: bool,
        form: Form,
    ) {
        self.last_ticket.0 += 1;
        let ticket = self.last_ticket;
        if self.backend.submit(ticket, submission).is_err() {
            let refusal = Refusal::new(503, "the server is busy; try again in a moment");
            return self.refuse(net, id, &refusal, keep_alive);
        }
        self.tickets.insert(ticket, id);
        if let Some(client) = self.client(id) {
            client.waiting = Some(Waiting { ticket, keep_alive, form });
        }
        // The next request of this connection starts when this one is answered.
        net.pause(id);
        if net.has_ended(id) {
            self.backend.cancel(ticket);
        }
    }

    /// Refuses a request, and tells the backend.
    fn refuse(
        &mut self,
        net: &mut Connections,
        id: ConnectionId,
        refusal: &Refusal,
        keep_alive: bool,
    ) {
        if let Some(address) = self.client(id).map(|client| client.address) {
            self.backend.refused(refusal, address);
        }
        self.answer_refusal(net, id, refusal, keep_alive);
    }

    fn answer_refusal(
        &mut self,
        net: &mut Connections,
        id: ConnectionId,
        refusal: &Refusal,
        keep_alive: bool,
    ) {
        let answer = Answer {
            status: refusal.status,
            content_type: JSON,
            headers: Vec::new(),
            body: &refusal.payload(),
            allow: refusal.allow,
            keep_alive,
            head_only: false,
        };
        self.answer(net, id, answer);
    }

    fn answer(&mut self, net: &mut Connections, id: ConnectionId, mut answer: Answer<'_>) {
        let is_known = self.client(id).is_some_and(|client| client.is_known);
        // A stranger takes what it is answered before it asks for more.
        answer.keep_alive &= is_known || net.unsent(id) + answer.body.len() <= STRANGER_OUTPUT;
        let date = self.date.text(net.now());
        answer.write(net.output(id), date);
        if !answer.keep_alive {
            net.finish(id);
        }
    }

    /// An answer of the backend has come.
    fn answered(&mut self, net: &mut Connections, answered: &Answered) {
        let ticket = answered.ticket;
        let id = self.tickets.remove(&ticket);
        let waiting = id.and_then(|id| self.client(id)?.waiting.take());
        let (Some(id), Some(waiting)) = (id, waiting) else {
            // The connection that asked is gone.
            if answered.confirm {
                self.backend.settled(ticket, false);
            }
            return;
        };
        if let Some(client) = self.client(id) {
            // An object may have its token within.
            client.is_known |= answered.known;
        }
        if answered.frame.is_empty() {
            return net.finish(id);
        }
        if answered.confirm
            && let Some(begin) = net.queued(id)
            && let Some(client) = self.client(id)
        {
            client.unsettled.push(Unsettled { ticket, begin, is_tried: false });
            self.settling.push(id);
        }
        let keep_alive = waiting.keep_alive && self.stopping.is_none();
        match wire::Answer::parse(answered.frame.trim_ascii()) {
            Ok(answer) => {
                let headers: Vec<_> = answer.headers.iter().collect();
                let (status, headers, body) = match (waiting.form, answer.status) {
                    (Form::Object, 204) => (200, Vec::new(), answered.frame.as_slice()),
                    (Form::Object, status) => (status, Vec::new(), answered.frame.as_slice()),
                    (Form::AnyPayload, 200) => (200, headers, answer.payload.unwrap_or(b"null")),
                    (_, status) => (status, headers, answer.payload.unwrap_or_default()),
                };
                let answer = Answer {
                    status,
                    content_type: JSON,
                    headers,
                    body,
                    allow: "",
                    keep_alive,
                    head_only: false,
                };
                self.answer(net, id, answer);
            }
            Err(error) => {
                let refusal = Refusal::new(500, format_args!("an answer that is none: {error}"));
                self.refuse(net, id, &refusal, keep_alive);
            }
        }
        if answered.confirm {
            // A message goes before all answers that come after it.
            net.flush(id);
        }
        net.resume(id);
        self.watch(net, id);
    }

    /// Reports what became of answers, as far as it is known.
    fn settle(&mut self, net: &Connections) {
        let mut settling = std::mem::take(&mut self.settling);
        settling.retain(|&id| {
            let (Some(accepted), Some(client)) =
                (net.accepted(id), self.clients.get_mut(id.index()).and_then(Option::as_mut))
            else {
                // It is gone, and `closed` has told or will tell.
                return false;
            };
            client.unsettled.retain_mut(|answer| {
                let taken = accepted > answer.begin;
                if taken {
                    self.backend.settled(answer.ticket, true);
                } else if !std::mem::replace(&mut answer.is_tried, true) {
                    self.backend.tried(answer.ticket);
                }
                !taken
            });
            !client.unsettled.is_empty()
        });
        self.settling = settling;
    }

    fn metrics(&mut self, net: &Connections) -> String {
        let mut metrics = self.backend.metrics();
        let statistics = net.statistics();
        metrics
            .gauge("semaforo_buffer_bytes", "Bytes of the buffers of all connections.")
            .value(statistics.buffered as f64);
        metrics
            .gauge("semaforo_http_connections", "HTTP connections that are open.")
            .value(self.connected as f64);
        metrics
            .counter("semaforo_http_connections_total", "HTTP connections that were accepted.")
            .value(statistics.accepted as f64);
        metrics
            .counter("semaforo_http_requests_total", "HTTP requests that were understood.")
            .value(self.requests as f64);
        metrics
            .gauge("semaforo_http_waiting", "HTTP requests that wait for their answer.")
            .value(self.tickets.len() as f64);
        metrics.to_text()
    }
}

impl<B: Backend> Service for Http<B> {
    fn opened(&mut self, net: &mut Connections, id: ConnectionId, peer: Peer) {
        self.connected += 1;
        self.backend.connected(id, peer.address);
        let is_full = self.connected > self.options.connections;
        let is_reserved = is_full && !self.free_a_place(net);
        let Times { first, reserved, .. } = self.options.times;
        let time = if is_reserved { reserved } else { first };
        net.set_deadline(id, Some(net.now() + time));
        if self.clients.len() <= id.index() {
            self.clients.resize_with(id.index() + 1, || None);
        }
        let client = Client {
            address: peer.address,
            parser: Parser::default(),
            requests: 0,
            timed: (0, Some(Phase::Idle)),
            opened: net.now(),
            since: net.now(),
            is_known: false,
            token: None,
            is_reserved,
            waiting: None,
            unsettled: Vec::new(),
        };
        if let Some(place) = self.clients.get_mut(id.index()) {
            *place = Some(client);
        }
    }

    fn received(&mut self, net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize {
        let mut rest = input;
        while net.wants_input(id) {
            let Some(client) = self.clients.get_mut(id.index()).and_then(Option::as_mut) else {
                break;
            };
            let knows = |token: Option<&str>| self.backend.knows(token);
            let (step, consumed) = client.parser.advance(rest, &self.options, &knows);
            rest = rest.get(consumed..).unwrap_or_default();
            match step {
                Step::NeedMore => break,
                Step::Continue => net.send(id, b"HTTP/1.1 100 Continue\r\n\r\n"),
                Step::Request(request) => {
                    client.requests += 1;
                    self.handle(net, id, request);
                }
                Step::Refused { refusal, keep_alive } => {
                    let keep_alive = keep_alive && !client.is_reserved && self.stopping.is_none();
                    client.requests += 1;
                    self.refuse(net, id, &refusal, keep_alive);
                }
            }
        }
        let kept = self.client(id).map_or(0, |client| client.parser.kept());
        net.charge(id, kept);
        self.watch(net, id);
        input.len() - rest.len()
    }

    /// The connection that waited for an answer is closed.
    fn ended(&mut self, _: &mut Connections, id: ConnectionId) {
        if let Some(waiting) = self.client(id).and_then(|client| client.waiting.as_ref()) {
            let ticket = waiting.ticket;
            self.backend.cancel(ticket);
        }
    }

    fn timed_out(&mut self, net: &mut Connections, id: ConnectionId) {
        match self.client(id).map(|client| client.parser.phase()) {
            Some(Phase::Head | Phase::Body) => {
                let refusal = Refusal::new(408, "the request took too long to arrive");
                self.refuse(net, id, &refusal, false);
            }
            _ => net.finish(id),
        }
    }

    fn closed(&mut self, _: &mut Connections, id: ConnectionId, closed: Closed) {
        let Some(client) = self.clients.get_mut(id.index()).and_then(Option::take) else { return };
        self.connected -= 1;
        self.backend.gone(id, closed.reason);
        for Unsettled { ticket, begin, .. } in client.unsettled {
            self.backend.settled(ticket, closed.accepted > begin);
        }
        if let Some(waiting) = client.waiting {
            self.tickets.remove(&waiting.ticket);
            self.backend.cancel(waiting.ticket);
        }
    }

    fn woken(&mut self, net: &mut Connections) {
        while let Some(answered) = self.backend.next_answer() {
            self.answered(net, &answered);
        }
        let version = self.backend.tokens_version();
        if std::mem::replace(&mut self.tokens_version, version) != version {
            self.dismiss_unknown(net);
        }
        if self.stopping.is_none() && self.backend.is_stopping() {
            self.stopping = Some(net.now());
            net.stop_accepting(limits::DRAIN);
        }
    }

    fn accept_failed(&mut self, _: &mut Connections, error: &io::Error) {
        self.backend.accept_failed(error);
    }

    fn turn_ends(&mut self, net: &mut Connections, now: Instant) -> Option<Instant> {
        let patience = self.stopping.map(|since| since + limits::DRAIN);
        if patience.is_some_and(|end| self.tickets.is_empty() || end <= now) {
            net.stop(limits::DRAIN);
        }
        net.flush_all();
        self.settle(net);
        patience.filter(|end| *end > now)
    }
}

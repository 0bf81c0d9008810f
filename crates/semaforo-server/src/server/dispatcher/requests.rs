//! Requests: read, translated, allowed or refused, and decided.

use std::sync::Arc;

use super::audit::RequestSender;
use super::client::{Caller, Waiting};
use super::{Dispatcher, Next};
use crate::kernel::{
    Answer, Charge, Command, ConnectionKey, Content, Header, Kernel, Kind, Operation, Origin,
    Reply, SessionId, Status, Verb,
};
use crate::net::{ConnectionId, Connections};
use crate::server::access::Token;
use crate::server::http::{Submission, Ticket};
use crate::server::limits::MAX_WAITS;
use crate::server::quotas::Counted;
use crate::server::translate::{Understood, Wanted, translate};
use semaforo_protocol::limits::MAX_ID;
use semaforo_protocol::table::{Right, Row};
use semaforo_protocol::wire::{Headers, Limits, Request, RequestError};

/// Why a request was not performed.
enum Unperformed {
    /// This is the answer.
    Refused(Answer),
    /// It is performed when the journal has space for it.
    Held,
}

impl From<Answer> for Unperformed {
    fn from(answer: Answer) -> Self {
        Self::Refused(answer)
    }
}

impl Dispatcher {
    /// Handles one request.
    pub(super) fn handle(&mut self, net: &mut Connections, id: ConnectionId, frame: &[u8]) -> Next {
        let Some(client) = self.client(id) else { return Next::End };
        let waiting = client.waiting.len();
        let (request, wrong) = read(frame);
        let name = request.headers.get("id");
        if waiting > 0 && name.is_none() {
            return self.hold(net, id);
        }
        let caller = Caller::Tcp(id);
        let sender = RequestSender { caller, token: None, peer: None };
        let outcome = self
            .identify(net, sender, &request)
            .map_err(Unperformed::Refused)
            .and_then(|token| self.perform(net, sender, token, name, &request, wrong));
        let answer = match outcome {
            Ok(Some(answer)) | Err(Unperformed::Refused(answer)) => answer,
            Ok(None) => {
                self.deliver(net);
                return self.after(net, id);
            }
            Err(Unperformed::Held) => {
                self.held.push(id);
                net.pause(id);
                return Next::Hold;
            }
        };
        // Requests that were let through come first: a taker is sent its message before the
        // producer learns.
        self.deliver(net);
        self.respond(net, caller, name, &answer);
        Next::Go
    }

    /// Handles a request over HTTP.
    pub(super) fn handle_http(
        &mut self,
        net: &mut Connections,
        ticket: Ticket,
        submission: &Submission,
    ) -> Next {
        let caller = Caller::Http(ticket);
        let (request, wrong) = read(&submission.frame);
        let name = request.headers.get("id");
        let token = submission.token.as_deref();
        let sender = RequestSender { caller, token, peer: Some(submission.peer) };
        let token = match self.identify(net, sender, &request) {
            Ok(token) => token,
            Err(answer) => {
                self.respond(net, caller, name, &answer);
                return Next::Go;
            }
        };
        if let Some(http) = &mut self.http {
            http.identified(ticket);
        }
        let outcome = self.perform(net, sender, token, name, &request, wrong);
        let taken = matches!(&outcome, Ok(Some(Answer { content: Content::Fragile(_), .. })));
        self.deliver_with(net, usize::from(taken));
        match outcome {
            Ok(Some(answer)) | Err(Unperformed::Refused(answer)) => {
                self.respond(net, caller, name, &answer);
                Next::Go
            }
            Ok(None) => Next::Go,
            Err(Unperformed::Held) => Next::Hold,
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

    /// Does what a request wants that was made with this token, unless it is wrong as it is. The
    /// answer, if there is one already.
    fn perform(
        &mut self,
        net: &mut Connections,
        sender: RequestSender<'_>,
        token: Option<Arc<Token>>,
        name: Option<&str>,
        request: &Request<'_>,
        wrong: Option<RequestError>,
    ) -> Result<Option<Answer>, Unperformed> {
        let caller = sender.caller;
        if let Some(wrong) = wrong {
            return Err(Answer::error(Status::BadRequest, wrong.to_string()).into());
        }
        if let Some(wrong) = name.and_then(|name| wrong_with_id(name, caller)) {
            return Err(Answer::error(Status::BadRequest, wrong).into());
        }
        if self.stopping {
            return Err(Answer::error(Status::Stopping, "shutting down").into());
        }
        let Understood { row, names_limits, wanted } = translate(request, draw)?;
        if let Some(reason) = refusal(sender, token.as_deref(), request, row, &wanted) {
            return Err(self.refuse(net, sender, request, Status::Forbidden, reason).into());
        }
        let mut command = match wanted {
            Wanted::Echo => {
                self.respond_with(net, caller, name, request.raw);
                return Ok(None);
            }
            Wanted::Authenticate => {
                if let Caller::Tcp(id) = caller
                    && let Some(client) = self.client(id)
                {
                    client.token = token;
                }
                return Ok(Some(self.greeting(Answer::done(), names_limits)));
            }
            Wanted::Shutdown => {
                let who = self.name_of(sender, request);
                self.audit(net, sender, &who, request, Status::Done, "");
                self.respond(net, caller, name, &Answer::done());
                self.stop(net);
                return Ok(None);
            }
            Wanted::Reload => {
                // By the name that counts until then.
                let who = self.name_of(sender, request);
                let (answer, reason) = match self.reload() {
                    Ok(()) => (Answer::done(), String::new()),
                    Err(reason) => (Answer::error(Status::Conflict, reason.clone()), reason),
                };
                self.audit(net, sender, &who, request, answer.status, &reason);
                self.respond(net, caller, name, &answer);
                self.dismiss_unknown(net);
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
            && row.waits()
            && self.waits_enough(id)
            && !self.engine.kernel.has_met(&command)
        {
            let reason = format!("{MAX_WAITS} requests of this connection wait already");
            return Err(Answer::error(Status::OverLimit, reason).into());
        }
        if matches!(caller, Caller::Http(_))
            && command.session.is_none()
            && is_kept(&self.engine.kernel, &command)
        {
            let reason = "what is held over HTTP needs a named session: OPEN one, and say it in header session";
            return Err(Answer::error(Status::BadRequest, reason).into());
        }
        self.keep_quota(token.as_deref(), row, &mut command)?;
        let was_new = is_new(&self.engine.kernel, &command.operation);
        self.tickets += 1;
        let ticket = self.tickets;
        let origin = Origin { connection: caller.key(), ticket };
        let reply = self.engine.decide(origin, &command).ok_or(Unperformed::Held)?;
        match reply {
            Reply::Answer(answer) => {
                if answer.status == Status::Done {
                    self.account(token.as_deref(), &command.operation, was_new);
                }
                if let (Operation::Open { label, ttl, .. }, Status::Done) =
                    (&command.operation, answer.status)
                {
                    self.log.debug(format_args!("session {label:?} has begun, for {ttl} ms"));
                }
                Ok(Some(self.greeting(answer, names_limits)))
            }
            Reply::Close => match caller {
                Caller::Tcp(id) => {
                    // What was answered before still goes.
                    self.give_up(net, id);
                    self.finish(net, id);
                    Ok(None)
                }
                Caller::Http(_) => {
                    let reason = "this seq was acknowledged: its outcome is not known any more";
                    Err(Answer::error(Status::Gone, reason).into())
                }
            },
            Reply::Waits(wait) => {
                let share =
                    token.as_ref().map(|token| self.accounts.share(token, Counted::Waits, 1));
                match (caller, &mut self.http) {
                    (Caller::Tcp(id), _) => {
                        let id_of_it = name.map(Into::into);
                        let waiting = Waiting { id: id_of_it, wait, token, _share: share };
                        self.waits(net, id, ticket, waiting);
                    }
                    (Caller::Http(id), Some(http)) => {
                        http.waits(id, name, command.retry.is_some(), token, share);
                    }
                    (Caller::Http(_), None) => {}
                }
                Ok(None)
            }
        }
    }

    /// The answer, with the limits of requests if it is to name them and the request is done.
    fn greeting(&self, answer: Answer, names_limits: bool) -> Answer {
        if !names_limits || answer.status != Status::Done {
            return answer;
        }
        let (size, depth) = (self.frames.size, self.frames.depth.min(Limits::DEPTH));
        answer.with(Header::MaxFrame, size as u64).with(Header::MaxDepth, depth as u64)
    }

    /// Whether the token may have more of what the command makes. What was asked before, and what
    /// is there, makes nothing. A message is charged to its token from here on.
    fn keep_quota(
        &mut self,
        token: Option<&Token>,
        row: &Row,
        command: &mut Command<'_>,
    ) -> Result<(), Answer> {
        let Some(token) = token else { return Ok(()) };
        if matches!(command.operation, Operation::Open { .. }) {
            // Another may have ended in this very turn.
            self.tell();
        }
        let kernel = &self.engine.kernel;
        let one = match &command.operation {
            Operation::Open { .. } => Some(Counted::Sessions),
            operation if is_new(kernel, operation) => Some(Counted::Objects),
            _ if row.waits() && command.timeout != Some(0) => Some(Counted::Waits),
            _ => None,
        };
        let bytes = match &command.operation {
            Operation::Object { verb, .. } => verb.payload().map(|payload| payload.len() as u64),
            _ => None,
        };
        let more = [one.map(|counted| (counted, 1)), bytes.map(|bytes| (Counted::Bytes, bytes))];
        let refusal = more.into_iter().flatten().find_map(|(counted, more)| {
            self.accounts.refusal(token, counted, more).filter(|_| !kernel.has_met(command))
        });
        if let Some(reason) = refusal {
            return Err(Answer::error(Status::OverLimit, reason));
        }
        if let Some(bytes) = bytes {
            command.charge = Charge::new(self.accounts.share(token, Counted::Bytes, bytes));
        }
        Ok(())
    }

    /// Writes down what a token has made, or what is gone. The answer alone does not tell: one that
    /// was given before is given again.
    fn account(&mut self, token: Option<&Token>, operation: &Operation<'_>, was_new: bool) {
        let Some(token) = token else { return };
        match operation {
            Operation::Open { id, .. } => self.accounts.opened(token, *id),
            Operation::Object { kind, name, verb } => {
                let is_there = self.engine.kernel.state().has(*kind, name);
                match verb {
                    Verb::Create(_) if was_new && is_there => {
                        self.accounts.created(token, *kind, name);
                    }
                    Verb::Delete if !is_there => self.accounts.deleted(*kind, name),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn waits_enough(&mut self, id: ConnectionId) -> bool {
        self.client(id).is_some_and(|client| client.waiting.len() >= MAX_WAITS)
    }

    /// Remembers where an answer will go.
    fn waits(&mut self, net: &mut Connections, id: ConnectionId, ticket: u64, waiting: Waiting) {
        let Some(client) = self.client(id) else { return };
        let (wait, is_named) = (waiting.wait, waiting.id.is_some());
        if let Some(name) = &waiting.id {
            client.tickets.insert(name.clone(), ticket);
        }
        client.waiting.insert(ticket, waiting);
        if !is_named {
            client.in_order = true;
            net.pause(id);
        }
        // A client that sends nothing any more has given up what it waits for.
        if net.has_ended(id) {
            self.engine.cancel(wait, Origin { connection: ConnectionKey(id.into()), ticket });
        }
    }

    fn cancel(&mut self, caller: Caller, request: &str) -> Answer {
        let client = match caller {
            Caller::Tcp(id) => self.client(id),
            Caller::Http(_) => None,
        };
        let found = client.and_then(|client| {
            let ticket = *client.tickets.get(request)?;
            Some((ticket, client.waiting.get(&ticket)?.wait))
        });
        let origin = |ticket| Origin { connection: caller.key(), ticket };
        match found {
            Some((ticket, wait)) if self.engine.cancel(wait, origin(ticket)) => Answer::done(),
            _ => Answer::error(Status::NotFound, "no request of that id waits"),
        }
    }

    /// The token that a request is made with, its own or its connection's; none if the server has
    /// none. Asked before anything else is: without a token a client learns nothing, and stays
    /// unknown.
    fn identify(
        &mut self,
        net: &Connections,
        sender: RequestSender<'_>,
        request: &Request<'_>,
    ) -> Result<Option<Arc<Token>>, Answer> {
        let Some(tokens) = &self.tokens else { return Ok(None) };
        let client = match sender.caller {
            Caller::Tcp(id) => self.clients.get_mut(id.index()).and_then(Option::as_mut),
            Caller::Http(_) => None,
        };
        let (found, reason) = match sender.said(request) {
            Some(token) => (tokens.find(token), "this token is not known"),
            None => (
                client.as_ref().and_then(|client| client.token.as_ref()),
                "a token is needed: AUTH with header token, or the header in each request",
            ),
        };
        let Some(token) = found.cloned() else {
            let reason = reason.to_owned();
            return Err(self.refuse(net, sender, request, Status::Unauthorized, reason));
        };
        if let Some(client) = client {
            client.known = true;
        }
        Ok(Some(token))
    }

    /// Writes down a refusal. The answer.
    fn refuse(
        &self,
        net: &Connections,
        sender: RequestSender<'_>,
        request: &Request<'_>,
        status: Status,
        reason: String,
    ) -> Answer {
        let who = self.name_of(sender, request);
        self.audit(net, sender, &who, request, status, &reason);
        Answer::error(status, reason)
    }
}

/// A request; one that makes no sense is as good as empty, and this is what is wrong with it.
fn read(frame: &[u8]) -> (Request<'_>, Option<RequestError>) {
    match Request::parse(frame) {
        Ok(request) => (request, None),
        Err(wrong) => {
            let (method, path) = ("a request that is none".into(), "".into());
            let headers = Headers::new();
            (Request { raw: frame, method, path, headers, payload: None }, Some(wrong))
        }
    }
}

/// What is wrong with the id of a request, if anything is. Over HTTP it comes back in a header,
/// which has no place for control characters.
fn wrong_with_id(id: &str, caller: Caller) -> Option<String> {
    if id.len() > MAX_ID {
        return Some(format!("header id has more than {MAX_ID} bytes"));
    }
    let is_odd = matches!(caller, Caller::Http(_)) && id.chars().any(char::is_control);
    is_odd.then(|| "header id has a control character".to_owned())
}

/// Why a request is not allowed, if it is not.
fn refusal(
    sender: RequestSender<'_>,
    token: Option<&Token>,
    request: &Request<'_>,
    row: &Row,
    wanted: &Wanted<'_>,
) -> Option<String> {
    let right = row.right?;
    let Some(token) = token else {
        let is_refused = matches!(sender.caller, Caller::Http(_)) && right == Right::Administer;
        let method = &request.method;
        return is_refused
            .then(|| format!("{method} over HTTP needs a token, and this server has none"));
    };
    let operation = match wanted {
        Wanted::Command(command) => &command.operation,
        _ => &Operation::Ping,
    };
    token.rights().refusal(right, operation)
}

/// Whether it leaves something with its session.
fn is_kept(kernel: &Kernel, command: &Command<'_>) -> bool {
    let Operation::Object { kind, name, verb } = command.operation else { return false };
    match verb {
        Verb::Acquire(_) => kind != Kind::Semaphore || !kernel.is_open(name),
        verb => verb == Verb::Take { manual: true },
    }
}

/// Whether it creates an object that is not there.
fn is_new(kernel: &Kernel, operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Object { kind, name, verb: Verb::Create(_) } => !kernel.state().has(*kind, name),
        _ => false,
    }
}

/// A session's id, which cannot be guessed.
fn draw() -> SessionId {
    let mut bytes = [0; 16];
    // Without randomness there are no secrets, and nothing better to do than to end.
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    SessionId(u128::from_le_bytes(bytes))
}

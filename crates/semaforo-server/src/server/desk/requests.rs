//! What is asked.

use std::sync::Arc;

use super::audit::Asker;
use super::client::{Caller, Waiting};
use super::{Desk, Next};
use crate::kernel::{
    Answer, Command, ConnectionKey, Content, Kernel, Kind, Operation, Origin, Reply, SessionId,
    Status, Verb, WaitKey,
};
use crate::net::{ConnectionId, Connections};
use crate::server::access::{Need, Token};
use crate::server::http::{Submission, Ticket};
use crate::server::limits::{MAX_ID, MAX_WAITS};
use crate::server::translate::{Wanted, translate};
use crate::wire::Request;

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

impl Desk {
    /// Handles one request.
    pub(super) fn handle(&mut self, net: &mut Connections, id: ConnectionId, frame: &[u8]) -> Next {
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
        let asker = Asker { caller, token: None, peer: None };
        let answer = match self.perform(net, asker, name, &request) {
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
        // Those who were let through come first: a taker is sent its message before the producer learns.
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
        let request = match Request::parse(&submission.frame) {
            Ok(request) => request,
            Err(wrong) => {
                let answer = Answer::error(Status::Senseless, wrong.to_string());
                self.respond(net, caller, None, &answer);
                return Next::Go;
            }
        };
        let name = request.headers.get("id");
        let token = submission.token.as_deref();
        let asker = Asker { caller, token, peer: Some(submission.peer) };
        let outcome = self.perform(net, asker, name, &request);
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

    /// Does what a request wants. The answer, if there is one already.
    fn perform(
        &mut self,
        net: &mut Connections,
        asker: Asker<'_>,
        name: Option<&str>,
        request: &Request<'_>,
    ) -> Result<Option<Answer>, Unperformed> {
        let caller = asker.caller;
        if name.is_some_and(|name| name.len() > MAX_ID) {
            let reason = format!("header id has more than {MAX_ID} bytes");
            return Err(Answer::error(Status::Senseless, reason).into());
        }
        if self.stopping {
            return Err(Answer::error(Status::Stopping, "shutting down").into());
        }
        let wanted = translate(request, draw)?;
        let token = match self.authorize(asker, request, &wanted) {
            Ok(token) => token,
            Err((status, reason)) => {
                let who = self.name_of(asker, request);
                self.audit(net, asker, &who, request, status, &reason);
                return Err(Answer::error(status, reason).into());
            }
        };
        let command = match wanted {
            Wanted::Echo => {
                self.respond_with(net, caller, name, request.raw);
                return Ok(None);
            }
            Wanted::Authenticate => return Ok(Some(Answer::done())),
            Wanted::Shutdown => {
                let who = self.name_of(asker, request);
                self.audit(net, asker, &who, request, Status::Done, "");
                self.respond(net, caller, name, &Answer::done());
                self.stop(net);
                return Ok(None);
            }
            Wanted::Reload => {
                // By the name that counts until then.
                let who = self.name_of(asker, request);
                let (answer, reason) = match self.reload() {
                    Ok(()) => (Answer::done(), String::new()),
                    Err(reason) => (Answer::error(Status::Conflict, reason.clone()), reason),
                };
                self.audit(net, asker, &who, request, answer.status, &reason);
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
            && may_wait(&command.operation)
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
            return Err(Answer::error(Status::Senseless, reason).into());
        }
        self.tickets += 1;
        let ticket = self.tickets;
        let origin = Origin { connection: caller.key(), ticket };
        let reply = self.engine.decide(origin, &command).ok_or(Unperformed::Held)?;
        match reply {
            Reply::Answer(answer) => {
                if let (Operation::Open { label, ttl, .. }, Status::Done) =
                    (&command.operation, answer.status)
                {
                    self.log.debug(format_args!("session {label:?} has begun, for {ttl} ms"));
                }
                Ok(Some(answer))
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
            Reply::Waits(key) => {
                match (caller, &mut self.http) {
                    (Caller::Tcp(id), _) => self.waits(net, id, name, ticket, key, token),
                    (Caller::Http(id), Some(http)) => {
                        http.waits(id, name, command.retry.is_some(), token);
                    }
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
        token: Option<Arc<Token>>,
    ) {
        let Some(client) = self.client(id) else { return };
        let boxed: Option<Box<str>> = name.map(Into::into);
        if let Some(name) = &boxed {
            client.tickets.insert(name.clone(), ticket);
        }
        client.waiting.insert(ticket, Waiting { id: boxed, key, token });
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

    /// Whether that is allowed, and by which token; if not, the status and the reason of the
    /// answer.
    fn authorize(
        &mut self,
        asker: Asker<'_>,
        request: &Request<'_>,
        wanted: &Wanted<'_>,
    ) -> Result<Option<Arc<Token>>, (Status, String)> {
        let need = need(wanted);
        let Some(tokens) = &self.tokens else {
            if matches!(asker.caller, Caller::Http(_)) && need == Need::Administer {
                let method = &request.method;
                let reason = format!("{method} over HTTP needs a token, and this server has none");
                return Err((Status::Forbidden, reason));
            }
            return Ok(None);
        };
        let unauthorized = |reason: &str| (Status::Unauthorized, reason.to_owned());
        let said = match asker.said(request) {
            None => None,
            Some(token) => {
                let found = tokens.find(token);
                Some(found.ok_or_else(|| unauthorized("this token is not known"))?)
            }
        };
        let client = match asker.caller {
            Caller::Tcp(id) => self.clients.get_mut(id.index()).and_then(Option::as_mut),
            Caller::Http(_) => None,
        };
        let known = client.as_ref().and_then(|client| client.token.as_ref());
        let Some(token) = said.or(known).cloned() else {
            let reason = "a token is needed: AUTH with header token, or the header in each request";
            return Err(unauthorized(reason));
        };
        let operation = match wanted {
            Wanted::Command(command) => &command.operation,
            _ => &Operation::Ping,
        };
        if let Some(reason) = token.rights().refusal(need, operation) {
            return Err((Status::Forbidden, reason));
        }
        if let Some(client) = client {
            client.known = true;
            if matches!(wanted, Wanted::Authenticate) {
                client.token = Some(Arc::clone(&token));
            }
        }
        Ok(Some(token))
    }
}

fn need(wanted: &Wanted<'_>) -> Need {
    match wanted {
        Wanted::Shutdown | Wanted::Reload => Need::Administer,
        Wanted::Command(command) => match command.operation {
            Operation::Object {
                verb: Verb::Create(_) | Verb::Delete | Verb::Resize { .. },
                ..
            } => Need::Create,
            _ => Need::Use,
        },
        _ => Need::Use,
    }
}

/// Whether it leaves something with its session.
fn is_kept(kernel: &Kernel, command: &Command<'_>) -> bool {
    match command.operation {
        Operation::Object { kind: Kind::Semaphore, name, verb: Verb::Acquire(_) } => {
            !kernel.is_open(name)
        }
        Operation::Object { verb, .. } => {
            matches!(verb, Verb::Acquire(_) | Verb::Take { manual: true })
        }
        _ => false,
    }
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

//! What is asked.

use super::client::{Caller, Waiting};
use super::{Desk, Next};
use crate::kernel::{
    Answer, Command, ConnectionKey, Operation, Origin, Reply, SessionId, Status, Verb, WaitKey,
};
use crate::net::{ConnectionId, Connections};
use crate::server::access::Need;
use crate::server::http::{Submission, Ticket};
use crate::server::limits::{MAX_ID, MAX_WAITS};
use crate::server::translate::{Wanted, translate};
use crate::wire::Request;

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
    pub(super) fn handle_http(
        &mut self,
        net: &mut Connections,
        ticket: Ticket,
        submission: &Submission,
    ) {
        let caller = Caller::Http(ticket);
        let request = match Request::parse(&submission.frame) {
            Ok(request) => request,
            Err(wrong) => {
                let answer = Answer::error(Status::Senseless, wrong.to_string());
                return self.respond(net, caller, None, &answer);
            }
        };
        let name = request.headers.get("id");
        let outcome = self.perform(net, caller, name, submission.token.as_deref(), &request);
        self.deliver(net);
        if let Ok(Some(answer)) | Err(answer) = outcome {
            self.respond(net, caller, name, &answer);
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
                    self.give_up(net, id);
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
                    (Caller::Http(id), Some(http)) => http.waits(id, name),
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

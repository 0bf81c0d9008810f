//! Tokens that are read again, and lines of the log about requests that were refused and those of
//! administrators.

use std::net::SocketAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use semaforo_protocol::wire::Request;

use super::client::Caller;
use super::{ConnectionId, Connections, Dispatcher};
use crate::kernel::{Origin, Status};
use crate::server::access::{Token, Tokens, fingerprint};

/// The sender of a request, and the token that came with it over HTTP.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestSender<'a> {
    pub(super) caller: Caller,
    /// Of the head of an HTTP request.
    pub(super) token: Option<&'a str>,
    /// Of an HTTP request.
    pub(super) peer: Option<SocketAddr>,
}

impl<'a> RequestSender<'a> {
    fn connection(&self) -> Option<ConnectionId> {
        match self.caller {
            Caller::Tcp(id) => Some(id),
            Caller::Http(_) => None,
        }
    }

    /// The token that a request is made with, unless it is that of the connection.
    pub(super) fn said<'b>(&self, request: &'b Request<'_>) -> Option<&'b str>
    where
        'a: 'b,
    {
        request.headers.get("token").or(self.token)
    }
}

/// The name in the log for a token, known or not.
pub(in crate::server) fn who(tokens: Option<&Tokens>, said: Option<&str>) -> String {
    let known = said.and_then(|said| tokens?.find(said));
    match (known, said) {
        (Some(token), _) => token.name().to_owned(),
        (None, Some(said)) => fingerprint(said),
        (None, None) => "no token".to_owned(),
    }
}

impl Dispatcher {
    /// The name of a request's sender in the log.
    pub(super) fn name_of(&self, sender: RequestSender<'_>, request: &Request<'_>) -> String {
        let shown = sender.connection().and_then(|id| self.shown_token(id));
        match (sender.said(request), shown) {
            (None, Some(token)) => token.name().to_owned(),
            (said, _) => who(self.tokens.as_deref(), said),
        }
    }

    /// Writes down that a request was refused, or that it was an administrator's.
    pub(super) fn audit(
        &self,
        net: &Connections,
        sender: RequestSender<'_>,
        who: &str,
        request: &Request<'_>,
        status: Status,
        reason: &str,
    ) {
        let peer = sender.peer.or_else(|| net.peer_address(sender.connection()?));
        let from = peer.map_or_else(|| "where it is no more".to_owned(), |peer| peer.to_string());
        let (method, separator) = (&request.method, if reason.is_empty() { "" } else { ": " });
        let path =
            if request.path.is_empty() { String::new() } else { format!(" {:?}", request.path) };
        let text = format_args!(
            "{status} by {who} from {from}: {method}{path}{separator}{reason}",
            status = status.number()
        );
        match status {
            Status::Unauthorized | Status::Forbidden => self.refusals.write(text),
            _ => self.log.audit(text),
        }
    }

    fn shown_token(&self, id: ConnectionId) -> Option<&Arc<Token>> {
        self.clients.get(id.index())?.as_ref()?.token.as_ref()
    }

    /// Reads tokens and certificates again. If that fails all stays as it was, and this is why.
    /// [`dismiss_unknown`](Self::dismiss_unknown) has to follow.
    pub(super) fn reload(&mut self) -> Result<(), String> {
        let Some(reload) = &self.reload else { return Ok(()) };
        let tokens = reload.run().map_err(|reason| format!("{reason}; the old ones stay"))?;
        if self.tokens.is_some() && tokens.is_some() {
            self.tokens = tokens.map(Arc::new);
            self.accounts.tidy();
            if let Some(http) = &self.http {
                http.set_tokens(self.tokens.clone());
            }
        }
        Ok(())
    }

    /// Gives every connection what its token allows now, and ends those whose token is not known
    /// any more, and what waits with such a token.
    pub(super) fn dismiss_unknown(&mut self, net: &mut Connections) {
        let Some(tokens) = self.tokens.clone() else { return };
        let (mut unknown, mut waits) = (Vec::new(), Vec::new());
        // Many requests wait with the same token.
        let mut looked_up = HashMap::new();
        let mut is_gone = |token: &Arc<Token>| -> bool {
            let looked_up = looked_up.entry(Arc::as_ptr(token));
            *looked_up.or_insert_with(|| tokens.again(token).is_none())
        };
        for client in self.clients.iter_mut().flatten() {
            if let Some(token) = &client.token {
                match tokens.again(token) {
                    Some(known) => client.token = Some(Arc::clone(known)),
                    None => unknown.push(client.id),
                }
            }
            let connection = Caller::Tcp(client.id).key();
            for (&ticket, waiting) in &client.waiting {
                if waiting.token.as_ref().is_some_and(&mut is_gone) {
                    waits.push((waiting.wait, Origin { connection, ticket }));
                }
            }
        }
        for (key, origin) in waits {
            self.engine.cancel(key, origin);
        }
        self.deliver(net);
        for id in unknown {
            self.give_up(net, id);
            self.finish(net, id);
        }
        let unknown = self.http.as_ref().map(|http| http.unknown(&tokens)).unwrap_or_default();
        for ticket in unknown {
            self.forget_http(net, ticket);
        }
    }
}

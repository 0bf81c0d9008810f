//! What is answered, and when it may leave.

use std::io;
use std::time::Instant;

use hashbrown::HashSet;
use semaforo_protocol::wire::write_answer;

use super::Dispatcher;
use super::client::{Caller, Mark};
use crate::kernel::{Answer, ConnectionKey, Content, Status};
use crate::net::{ConnectionId, Connections};
use crate::server::http_clients::HttpClients;
use crate::server::json::Json;
use crate::server::limits::PUBLISHED_EVERY;
use crate::server::render::{payload, render, render_view};
use crate::server::statistics::ServerStatistics;

impl Dispatcher {
    /// Sends an answer to the caller.
    pub(super) fn respond(
        &mut self,
        net: &mut Connections,
        caller: Caller,
        name: Option<&str>,
        answer: &Answer,
    ) {
        self.statuses.count(answer.status);
        self.tell_refusal(caller, answer);
        match (caller, &mut self.http) {
            (Caller::Tcp(id), _) => self.append(net, id, name, answer),
            (Caller::Http(ticket), Some(http)) => {
                if let Content::Fragile(parcel) = &answer.content {
                    self.engine.in_delivery(parcel);
                }
                http.respond(ticket, name, answer, &|key| address(net, key));
            }
            (Caller::Http(_), None) => {}
        }
    }

    /// Answers with a payload that is no answer of the kernel's.
    pub(super) fn respond_with(
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
            (Caller::Http(ticket), Some(http)) => http.respond_with(ticket, name, payload),
            (Caller::Http(_), None) => {}
        }
    }

    /// Answers a request that has not arrived in time. No operation has this status, so it is none
    /// of the kernel's.
    pub(super) fn refuse_unfinished(&mut self, net: &mut Connections, id: ConnectionId) {
        const TIMED_OUT: u16 = 408;
        let payload = br#"{"error":"the request took too long to arrive"}"#;
        self.statuses.count_number(TIMED_OUT);
        write_answer(net.output(id), TIMED_OUT, None, [], Some(payload));
        self.touch(id);
    }

    /// Appends an answer, and remembers what may have to come back.
    pub(super) fn append(
        &mut self,
        net: &mut Connections,
        id: ConnectionId,
        request: Option<&str>,
        answer: &Answer,
    ) {
        let Some(client) = self.clients.get_mut(id.index()).and_then(Option::as_mut) else {
            return;
        };
        client.after = client.after.max(self.after);
        if !std::mem::replace(&mut client.touched, true) {
            self.touched.push(id);
        }
        if let Content::Fragile(parcel) = &answer.content {
            // A connection may be gone without our having been told: then it is as if nothing was
            // ever sent.
            let offset = net.queued(id).unwrap_or(u64::MAX);
            self.engine.in_delivery(parcel);
            client.parcels.push_back((offset, parcel.clone()));
            client.addressed = true;
        }
        if let Content::View(_) = answer.content {
            let payload = payload(answer, &|key| address(net, key));
            render_view(net.output(id), request, answer, payload.as_deref());
        } else {
            render(net.output(id), request, answer, &|_| String::new());
        }
    }

    pub(super) fn touch(&mut self, id: ConnectionId) {
        if let Some(client) = self.client(id)
            && !std::mem::replace(&mut client.touched, true)
        {
            self.touched.push(id);
        }
    }

    /// Appends the answers to requests that had been waiting.
    pub(super) fn deliver(&mut self, net: &mut Connections) {
        self.deliver_with(net, 0);
    }

    /// The same, when so many messages for takers over HTTP are to follow. What is answered
    /// because of the same request is answered after those: a producer after its taker.
    pub(super) fn deliver_with(&mut self, net: &mut Connections, following: usize) {
        let messages = self.engine.out.answers.iter().filter(|(origin, answer)| {
            matches!(answer.content, Content::Fragile(_))
                && matches!(Caller::of(origin.connection), Caller::Http(_))
        });
        self.after = match (messages.count() + following, &self.http) {
            (0, _) | (_, None) => 0,
            (count, Some(http)) => http.messages() + count as u64,
        };
        if self.engine.out.answers.is_empty() && self.engine.out.given_up.is_empty() {
            return;
        }
        let mut answers = std::mem::take(&mut self.engine.out.answers);
        for (origin, answer) in answers.drain(..) {
            let caller = Caller::of(origin.connection);
            let id = match caller {
                Caller::Tcp(id) => id,
                Caller::Http(ticket) => {
                    self.statuses.count(answer.status);
                    if let Some(http) = &mut self.http {
                        if let Content::Fragile(parcel) = &answer.content {
                            self.engine.in_delivery(parcel);
                        }
                        http.respond_late(ticket, &answer, &|key| address(net, key));
                    }
                    continue;
                }
            };
            let Some(client) = self.client(id) else { continue };
            let Some(waiting) = client.waiting.remove(&origin.ticket) else { continue };
            if let Some(name) = &waiting.id
                && client.tickets.get(name) == Some(&origin.ticket)
            {
                client.tickets.remove(name);
            }
            if client.in_order && !client.gives_up && client.waiting.is_empty() {
                client.in_order = false;
                net.resume(id);
            }
            self.respond(net, caller, waiting.id.as_deref(), &answer);
        }
        self.engine.out.answers = answers;
        for key in std::mem::take(&mut self.engine.out.given_up) {
            if let Caller::Tcp(id) = Caller::of(key) {
                self.has_given_up(net, id);
            }
        }
    }

    /// Lets answers go, as far as the journal is durable: messages first. Whether all could go.
    pub(super) fn release(&mut self, net: &mut Connections) -> io::Result<bool> {
        let position = self.engine.submit()?;
        if std::mem::take(&mut self.returned) {
            for mark in &mut self.marks {
                mark.position = position;
            }
            if let Some(http) = &mut self.http {
                http.hold_until(position);
            }
        }
        for id in self.touched.drain(..) {
            let client = self.clients.get_mut(id.index()).and_then(Option::as_mut);
            let Some(client) = client.filter(|client| client.id == id) else { continue };
            client.touched = false;
            let message = std::mem::take(&mut client.addressed);
            if let Some(offset) = net.queued(id) {
                let after = std::mem::take(&mut client.after);
                self.marks.push_back(Mark { position, id, offset, message, after });
            }
        }
        let durable = self.engine.durable()?;
        if let Some(http) = &mut self.http {
            http.send_messages(position, durable);
        }
        let http = self.http.as_ref();
        let waits = |mark: &Mark| http.is_some_and(|http| !http.has_tried(mark.after));
        let durable_count = self.marks.iter().take_while(|mark| mark.position <= durable).count();
        // A taker that is also a producer has to wait with its message, and all behind it with it.
        let held = self.marks.iter().take(durable_count).position(|it| it.message && waits(it));
        let ready = held.unwrap_or(durable_count);
        let mut all_there = true;
        for mark in self.marks.iter_mut().take(ready).filter(|mark| mark.message) {
            mark.message = false;
            net.flush_to(mark.id, mark.offset);
            let client = self.clients.get_mut(mark.id.index()).and_then(Option::as_mut);
            match (net.accepted(mark.id), client.filter(|client| client.id == mark.id)) {
                (Some(accepted), Some(client)) => {
                    client.tried = mark.offset;
                    client.forget_parcels(accepted);
                }
                _ => all_there = false,
            }
        }
        if !all_there {
            // A message could not be sent: it has to be back in its place, durably, before its
            // producer learns that it was put.
            return Ok(false);
        }
        let (mut kept, mut keeping) = (Vec::new(), HashSet::new());
        for mark in self.marks.drain(..ready) {
            // What a connection is sent stays in its order.
            if waits(&mark) || keeping.contains(&mark.id) {
                keeping.insert(mark.id);
                kept.push(mark);
            } else {
                net.flush_to(mark.id, mark.offset);
            }
        }
        for mark in kept.into_iter().rev() {
            self.marks.push_front(mark);
        }
        if let (Some(http), None) = (&mut self.http, held) {
            http.send_others(durable);
        }
        let is_tried = |http: &HttpClients| http.has_tried(http.messages());
        if !self.marks.iter().any(|mark| mark.message) && self.http.as_ref().is_none_or(is_tried) {
            self.engine.all_tried();
        }
        Ok(true)
    }

    pub(super) fn show(&self, net: &Connections) -> Vec<u8> {
        let census = self.engine.kernel.census();
        let mut json = Json::default();
        json.object(|json| {
            json.text("server", "semaforo");
            json.text("version", env!("CARGO_PKG_VERSION"));
            json.number("connections", net.open_count() as u64);
            json.number("max_connections", net.limits().connections as u64);
            json.number("sessions", census.sessions as u64);
            json.number("objects", census.objects.iter().sum::<usize>() as u64);
            json.number("holds", census.holds as u64);
            json.number("waiting", census.waits as u64);
            json.number("messages", census.messages as u64);
            json.number("bytes", census.bytes);
        });
        json.bytes
    }

    /// Tells the other threads how much there is of everything: not more often than they can read,
    /// and not never, if nothing happens any more.
    pub(super) fn publish(&mut self, net: &Connections, now: Instant) -> Option<Instant> {
        let http = self.http.as_ref()?;
        let due = self.published + PUBLISHED_EVERY;
        if now < due {
            let is_news = http.is_news(self.engine.decided, self.engine.is_short_of_space());
            return Some(due).filter(|_| is_news);
        }
        self.published = now;
        let statistics = ServerStatistics {
            census: self.engine.kernel.census(),
            sockets: net.statistics(),
            statuses: Box::new(self.statuses),
            decided: self.engine.decided,
            journaled: self.engine.journaled,
            batches: self.engine.batches,
            is_short_of_space: self.engine.is_short_of_space(),
            quotas: self
                .tokens
                .as_deref()
                .map_or_else(Vec::new, |tokens| self.accounts.statistics(tokens)),
            uptime: now.duration_since(self.started).as_secs_f64(),
        };
        if let Some(http) = &mut self.http {
            http.publish(statistics);
        }
        None
    }
}

/// What a connection is called.
fn address(net: &Connections, key: ConnectionKey) -> String {
    let address = net.peer_address(ConnectionId::from(key.0));
    address.map_or_else(|| "http".into(), |address| address.to_string())
}

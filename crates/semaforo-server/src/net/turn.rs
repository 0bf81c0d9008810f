//! The loop.

use std::io;
use std::time::{Duration, Instant};

use mio::Events;
use mio::event::Event;

use super::connections::{LISTENERS, Notice, SIGNALS, WAKER};
use super::limits::{EVENT_ROUNDS, EVENTS};
use super::{Connections, Reason, Service};

impl Connections {
    /// Serves until [`Connections::stop`] was called and all connections are gone. An error means
    /// that the operating system would not say which sockets are ready; nothing can be served then.
    pub fn run<S: Service>(&mut self, service: &mut S) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        self.now = Instant::now();
        loop {
            let mut wanted = service.turn_ends(self, self.now);
            // Writing has found connections that are gone; what the service makes of it must be
            // settled before the loop goes to sleep.
            while self.notify(service) {
                wanted = service.turn_ends(self, self.now);
            }
            self.sweep_dirty();
            self.relieve();
            while self.notify(service) {
                wanted = service.turn_ends(self, self.now);
            }
            let is_empty = self.slab.is_empty() && self.listeners.is_empty();
            if self.stop_at.is_some_and(|at| is_empty || at <= self.now) {
                break;
            }
            let all_seen = self.gather(service, &mut events, wanted)?;
            self.attend_all(service);
            self.accept_all(service);
            self.hear(service);
            self.attend_all(service);
            if all_seen {
                self.expire(service);
            }
        }
        let left: Vec<usize> = self.slab.iter().map(|(index, _)| index).collect();
        for index in left {
            self.close(index, Reason::Aborted);
        }
        if self.notify(service) {
            service.turn_ends(self, self.now);
        }
        Ok(())
    }

    /// Waits for events and notes them. Answers whether all that were there have been seen.
    fn gather<S: Service>(
        &mut self,
        service: &mut S,
        events: &mut Events,
        wanted: Option<Instant>,
    ) -> io::Result<bool> {
        self.statistics.turns += 1;
        self.ready.extend(self.next.drain(..));
        self.unsqueeze();
        let mut timeout = self.patience(wanted);
        for _ in 0..EVENT_ROUNDS {
            match self.poll.poll(events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
                result => result?,
            }
            self.now = Instant::now();
            let mut count = 0;
            for event in events.iter() {
                count += 1;
                self.note(service, event);
            }
            if count < EVENTS {
                return Ok(true);
            }
            timeout = Some(Duration::ZERO);
        }
        Ok(false)
    }

    /// How long to wait for events.
    fn patience(&self, wanted: Option<Instant>) -> Option<Duration> {
        let has_place = self.slab.len() < self.limits.connections;
        let accepting = |retry: bool| {
            self.listeners.iter().filter(move |listener| {
                has_place && listener.ready && listener.retry_at.is_some() == retry
            })
        };
        if !self.ready.is_empty() || accepting(false).next().is_some() {
            return Some(Duration::ZERO);
        }
        let retry = accepting(true).filter_map(|listener| listener.retry_at).min();
        let waits = self.listeners.iter().any(|listener| listener.ready);
        let crowded = self.crowded_at.filter(|_| !has_place && waits);
        let last = self.accepts_until.filter(|_| !self.listeners.is_empty());
        let squeezed = self.next_squeeze();
        let until = [wanted, self.deadlines.next(), self.stop_at, retry, crowded, last, squeezed]
            .into_iter()
            .flatten()
            .min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    fn note<S: Service>(&mut self, service: &mut S, event: &Event) {
        match event.token().0 {
            WAKER => self.woken = true,
            token if token >= SIGNALS => self.signalled = true,
            token if token >= LISTENERS => {
                if let Some(listener) = self.listeners.get_mut(token - LISTENERS) {
                    listener.ready = true;
                }
            }
            index => self.note_connection(service, index, event),
        }
    }

    /// Tells the service that it was called from outside: by a waker, or by a signal.
    fn hear<S: Service>(&mut self, service: &mut S) {
        if std::mem::take(&mut self.woken) && self.waker.was_used() {
            service.woken(self);
            self.notify(service);
        }
        if !std::mem::take(&mut self.signalled) {
            return;
        }
        for number in 0..self.signals.len() {
            let Some(signal) = self.signals.get_mut(number) else { return };
            let signal_number = signal.number;
            if signal.arrived() {
                service.signalled(self, signal_number);
                self.notify(service);
            }
        }
    }

    /// An event may be about an earlier connection with the same index; it does no harm then, since
    /// only a read or a write decides what is true.
    fn note_connection<S: Service>(&mut self, service: &mut S, index: usize, event: &Event) {
        let Some(connection) = self.slab.get_mut(index) else { return };
        if event.is_error()
            && let Ok(Some(error)) = connection.stream.take_error()
        {
            self.close(index, Reason::Failed(error.kind()));
            self.notify(service);
            return;
        }
        if event.is_readable() || event.is_read_closed() {
            connection.readable = true;
            connection.fin |= event.is_read_closed();
            self.list(index);
        }
        if event.is_writable()
            && let Some(connection) = self.slab.get_mut(index)
            && !connection.writable
        {
            connection.writable = true;
            self.pump(index);
            self.notify(service);
        }
    }

    /// Tells the service what was found out meanwhile; answers whether there was anything.
    pub(super) fn notify<S: Service>(&mut self, service: &mut S) -> bool {
        let mut any = false;
        while let Some(notice) = self.notices.pop_front() {
            any = true;
            match notice {
                Notice::Closed(id, closed) => service.closed(self, id, closed),
                Notice::Congested(id, congested) => {
                    if self.get(id).is_some() {
                        service.congested(self, id, congested);
                    }
                }
            }
        }
        any
    }

    /// Acts on deadlines that have passed.
    fn expire<S: Service>(&mut self, service: &mut S) {
        let now = self.now;
        while let Some((at, id)) = self.deadlines.pop(now) {
            let Some(connection) = self.slab.get_mut(id.index()) else { continue };
            if connection.serial != id.serial
                || !self.deadlines.settle(at, id, &mut connection.timer, now)
            {
                continue;
            }
            if connection.timer.layer.is_some_and(|deadline| deadline <= now) {
                self.close(id.index(), Reason::Stuck);
            } else {
                connection.timer.service = None;
                self.deadlines.enter(id, &mut connection.timer);
                service.timed_out(self, id);
            }
            self.notify(service);
        }
    }
}

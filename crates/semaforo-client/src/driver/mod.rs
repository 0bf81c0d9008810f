//! The client's thread: one connection, the sessions, and everything that is on its way.
//!
//! What is asked is kept until it is answered, in the order in which it was asked. A turn of the
//! loop reads answers and commands, looks at the clock, sends what can be sent, and writes once.
//! When the connection is lost everything counts as unsent, and is sent again on the next one: with
//! the same session and number, so that the server knows what was done.

mod answers;
mod clock;
mod connecting;
mod link;
mod outstanding;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use semaforo_protocol::table::Method;
use semaforo_protocol::wire::{FrameError, Value, write_request};

use self::connecting::unencrypted;
use self::link::Link;
pub(super) use self::link::{LIMITS, Resolve, Target, resolve};
use self::outstanding::Outstanding;
use self::sessions::Sessions;
use super::Error;
use super::completion::{Completer, Granted};
use super::handle::{Command, Shared};
use super::moment::{Alarm, Moment};
use super::request_spec::{Repeat, RequestSpec};

pub(super) const WAKE: Token = Token(0);
const LINK: Token = Token(1);
const ALARM: Token = Token(2);

/// A connection has to stand, and the server to have answered, within this time.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// So long it may take to find out where the server is. Resolvers wait for 5 s before they ask the
/// next of their servers, and that one has to have its time, too.
const FIRST_RESOLVE_LIMIT: Duration = Duration::from_secs(15);
/// The same, if it is known where the server was.
const RESOLVE_LIMIT: Duration = Duration::from_secs(1);
/// The first pause before connecting again; each one is twice as long as the one before.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After so long without a word, while one is expected, the server is asked for one; after so long
/// again without it the connection is dead. Shorter if the time to live is.
const SILENCE: Duration = Duration::from_secs(10);
/// The answer to a request whose time is up has this time to arrive, while the connection stands.
const GRACE: Duration = Duration::from_secs(1);
/// What is to be given back when the client is dropped has this time to get there.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// What the client was told when it was made. Not to be shown: the token is a secret.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) target: Target,
    pub(super) token: Option<String>,
    /// The token may be sent to other machines also without encryption.
    pub(super) insecure: bool,
    pub(super) ttl: Duration,
    pub(super) label: Option<String>,
    /// For so long a request without a time limit waits for a connection.
    pub(super) patience: Duration,
}

/// What the client itself asks, on one connection.
#[derive(Clone, Copy, Debug)]
enum Housekeeping {
    /// The first request of a connection, with a token if there is one.
    Greeting {
        authenticates: bool,
    },
    Open(u64),
    KeepAlive(u64),
    Close,
    Cancel,
    /// Whether the server is there.
    Ping,
}

impl Housekeeping {
    /// Its method, and the path that it is for.
    const fn request(self) -> (Method, &'static str) {
        match self {
            Self::Greeting { authenticates: true } => (Method::Auth, ""),
            Self::Greeting { authenticates: false } | Self::Ping => (Method::Ping, ""),
            Self::Open(_) => (Method::Open, "/sessions"),
            Self::KeepAlive(_) => (Method::KeepAlive, "/sessions"),
            Self::Close => (Method::Close, "/sessions"),
            Self::Cancel => (Method::Cancel, ""),
        }
    }
}

/// A request of the client itself that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    kind: Housekeeping,
    sent: Instant,
    /// The same, for the sessions that it renews.
    moment: Moment,
}

#[derive(Debug)]
enum State {
    /// Until then.
    Down {
        retry: Instant,
    },
    /// Finding out where to connect to.
    Resolving {
        limit: Instant,
    },
    /// Connecting, and greeting; other addresses can be tried.
    Greeting {
        link: Box<Link>,
        limit: Instant,
        others: Vec<SocketAddr>,
        greeted: bool,
    },
    Up(Box<Link>),
}

/// The client's thread.
pub(super) struct Driver {
    shared: Arc<Shared>,
    poll: Poll,
    settings: Settings,
    state: State,
    /// The search for the server's addresses that is under way.
    resolving: Option<Receiver<io::Result<Vec<SocketAddr>>>>,
    /// Where it was last.
    addresses: Vec<SocketAddr>,
    /// When something last came through the connection.
    heard: Instant,
    /// When there was last a connection.
    up_until: Instant,
    pause: Duration,
    /// The call that waits for the first connection.
    first: Option<Completer>,
    /// By number, and so in the order in which they were asked.
    outstanding: BTreeMap<u64, Outstanding>,
    /// Those of them that have to be sent.
    unsent: BTreeSet<u64>,
    /// When a request's time is up, and which.
    deadlines: BTreeSet<(Instant, u64)>,
    sessions: Sessions,
    housekeeping: BTreeMap<u64, Sent>,
    /// Goes off when a session needs attention, also if the machine slept.
    alarm: Alarm,
    /// The number of the last request of the client itself.
    last_housekeeping: u64,
    /// What gives back has numbers of its own, above all others.
    next_give_back: u64,
    closing: Option<Closing>,
}

#[derive(Debug)]
struct Closing {
    limit: Instant,
    completers: Vec<Completer>,
    has_said_so: bool,
}

/// The client's own requests have odd names on the wire, so that they are no one's number.
const HOUSEKEEPING_PREFIX: &str = "e";
const FIRST_GIVE_BACK: u64 = 1 << 62;

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        poll: Poll,
        settings: Settings,
        first: Completer,
    ) -> Self {
        let now = Instant::now();
        Self {
            shared,
            alarm: Alarm::new(poll.registry(), ALARM),
            poll,
            sessions: Sessions::new(settings.ttl),
            settings,
            state: State::Down { retry: now },
            resolving: None,
            addresses: Vec::new(),
            heard: now,
            up_until: now,
            pause: SHORTEST_PAUSE,
            first: Some(first),
            outstanding: BTreeMap::new(),
            unsent: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            housekeeping: BTreeMap::new(),
            last_housekeeping: 0,
            next_give_back: FIRST_GIVE_BACK,
            closing: None,
        }
    }

    /// Runs until the client is closed, or cannot connect at all.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(16);
        let mut commands = Vec::new();
        loop {
            self.shared.receive(&mut commands);
            let now = Instant::now();
            for command in commands.drain(..) {
                self.obey(command, now);
            }
            self.look_at_the_clock(now);
            self.send_all(now);
            self.flush(now);
            if self.is_over(now) {
                break;
            }
            let timeout = self.next_time().map(|time| time.saturating_duration_since(now));
            // Whole milliseconds, rounded up: waking early is waking twice.
            let timeout = timeout.map(|timeout| timeout + Duration::from_millis(1));
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Without a poll there is no client: every waiting call learns that.
                Err(_) => break,
            }
            for event in events.iter().filter(|event| event.token() == LINK) {
                let may_end = event.is_read_closed() || event.is_write_closed() || event.is_error();
                self.receive(may_end, Instant::now());
            }
        }
        let state = std::mem::replace(&mut self.state, State::Down { retry: Instant::now() });
        if let State::Greeting { link, .. } | State::Up(link) = state {
            link.close(self.poll.registry());
        }
    }

    fn obey(&mut self, command: Command, now: Instant) {
        match command {
            Command::Ask { number, spec, completer, deadline } => {
                self.ask(number, spec, completer, deadline, now);
            }
            Command::Withdraw(number) => self.withdraw(number, now),
            Command::Close(completer) => self.close(now + CLOSE_LIMIT).completers.push(completer),
        }
    }

    /// From now on only what is under way is dealt with, until then at most.
    fn close(&mut self, limit: Instant) -> &mut Closing {
        let closing = self.closing.get_or_insert_with(|| Closing {
            limit,
            completers: Vec::new(),
            has_said_so: false,
        });
        closing.limit = closing.limit.min(limit);
        closing
    }

    fn ask(
        &mut self,
        number: u64,
        spec: RequestSpec,
        completer: Completer,
        deadline: Option<Instant>,
        now: Instant,
    ) {
        let mut asked = Outstanding::new(spec, completer, deadline, now);
        if self.closing.is_some() && !asked.has_to_be_done() {
            return asked.fail(Error::Disconnected);
        }
        if let Some(session) = asked.session {
            match self.sessions.get(session) {
                Some(session) if asked.spec.repeat == Repeat::UntilDone => session.others += 1,
                Some(_) => {}
                None => return asked.fail(Error::SessionLost),
            }
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, number));
        }
        self.outstanding.insert(number, asked);
        self.unsent.insert(number);
    }

    fn withdraw(&mut self, number: u64, now: Instant) {
        let Some(asked) = self.outstanding.get_mut(&number) else { return };
        if asked.is_abandoned || asked.spec.repeat == Repeat::UntilDone {
            return;
        }
        let (session, seq, was_sent) = (asked.session, asked.seq, asked.sent.is_some());
        // All other requests are answered at once.
        let may_wait = asked.spec.waits || asked.spec.repeat != Repeat::Idempotent;
        asked.is_abandoned = asked.outlives_its_caller();
        if !asked.is_abandoned {
            self.forget(number);
        }
        if !was_sent || !may_wait {
            return;
        }
        let session = session.and_then(|session| self.sessions.get(session));
        let id = session.and_then(|session| session.id().map(str::to_owned));
        if let (Some(id), Some(seq)) = (id, seq) {
            let headers = [("session", Value::Text(&id)), ("seq", Value::Number(seq))];
            self.send_housekeeping(Housekeeping::Cancel, headers, now);
        } else {
            let headers = [("request", Value::Number(number))];
            self.send_housekeeping(Housekeeping::Cancel, headers, now);
        }
    }

    /// Takes out a request that is over.
    fn forget(&mut self, number: u64) -> Option<Outstanding> {
        self.unsent.remove(&number);
        let asked = self.outstanding.remove(&number)?;
        if let Some(timer) = asked.timer {
            self.deadlines.remove(&(timer, number));
        }
        if let Some(session) = asked.session.and_then(|session| self.sessions.get(session)) {
            if let Some(seq) = asked.seq {
                session.answered(seq);
            }
            if asked.spec.repeat == Repeat::UntilDone {
                session.others -= 1;
            }
        }
        Some(asked)
    }

    /// Asks something of the client's own, if there is a connection.
    fn send_housekeeping<'a>(
        &mut self,
        kind: Housekeeping,
        headers: impl IntoIterator<Item = (&'a str, Value<'a>)>,
        now: Instant,
    ) {
        let (State::Up(link) | State::Greeting { link, .. }) = &mut self.state else { return };
        self.last_housekeeping += 1;
        let id = format!("{HOUSEKEEPING_PREFIX}{}", self.last_housekeeping);
        let mut all = vec![("id", Value::Text(&id))];
        for header in headers {
            all.push(header);
        }
        let (method, path) = kind.request();
        write_request(&mut link.output, method.name(), path, all, None);
        let sent = Sent { kind, sent: now, moment: Moment::now() };
        self.housekeeping.insert(self.last_housekeeping, sent);
    }

    /// Sends what was not sent on this connection, in order, as far as possible.
    fn send_all(&mut self, now: Instant) {
        if !matches!(self.state, State::Up(_)) {
            return;
        }
        let mut unsent = std::mem::take(&mut self.unsent);
        unsent.retain(|number| !self.send(*number, now));
        self.unsent.append(&mut unsent);
        while let Some(session) = self.sessions.remove_unused() {
            if let Some(id) = session.id() {
                self.send_housekeeping(Housekeeping::Close, [("session", Value::Text(id))], now);
            }
        }
    }

    /// Sends a request, or finds that it cannot be sent; false if it has to wait for its session.
    fn send(&mut self, number: u64, now: Instant) -> bool {
        let Some(asked) = self.outstanding.get_mut(&number) else { return true };
        let State::Up(link) = &mut self.state else { return false };
        if asked.spec.get("token").is_some() && !self.settings.may_know_tokens(link.address) {
            // It has one of its own, which is no less secret than that of the connection.
            asked.fail(Error::CannotConnect(unencrypted(link.address)));
            self.forget(number);
            return true;
        }
        let mut session = None;
        if matches!(asked.spec.repeat, Repeat::UntilDone | Repeat::Numbered) {
            let session_number = match asked.session {
                Some(session_number) => session_number,
                None => self.sessions.current(),
            };
            let Some(found) = self.sessions.get(session_number) else {
                // Only what was abandoned outlives its session.
                self.forget(number);
                return true;
            };
            if found.id().is_none() {
                self.open(session_number, now);
                return false;
            }
            if asked.spec.repeat == Repeat::Numbered && asked.seq.is_none() {
                asked.seq = found.take_number();
                if asked.seq.is_none() {
                    return false;
                }
            }
            if asked.spec.wants_number && asked.sendings == 0 {
                // Those that wait may have all numbers, and perhaps wait for this: it goes without,
                // if need be.
                asked.seq = found.take_number();
            }
            asked.session = Some(session_number);
            session = Some(found);
        }
        let begin = link.output.len();
        asked.write(&mut link.output, number, session, now);
        if let Err(wrong) = link.keep(begin) {
            asked.fail(unreadable(wrong));
            if let Some(session) =
                asked.session.and_then(|session_number| self.sessions.get(session_number))
            {
                session.tell_again();
            }
            self.forget(number);
        }
        true
    }

    fn open(&mut self, session_number: u64, now: Instant) {
        let Some(session) = self.sessions.get(session_number) else { return };
        if std::mem::replace(&mut session.is_opening, true) {
            return;
        }
        let ttl = u64::try_from(session.ttl.as_millis()).unwrap_or(u64::MAX);
        let label = self.settings.label.clone();
        let label = label.as_deref().map(|label| ("label", Value::Text(label)));
        let headers = std::iter::once(("ttl", Value::Number(ttl))).chain(label);
        let begin = self.link().map_or(0, |link| link.output.len());
        self.send_housekeeping(Housekeeping::Open(session_number), headers, now);
        // Of the client's own requests, only this has words of the program in it.
        if let Some(Err(wrong)) = self.link().map(|link| link.keep(begin)) {
            self.housekeeping.remove(&self.last_housekeeping);
            self.fail_session(session_number, || unreadable(wrong));
        }
    }

    /// The connection, if there is one.
    fn link(&mut self) -> Option<&mut Link> {
        match &mut self.state {
            State::Up(link) | State::Greeting { link, .. } => Some(link),
            State::Down { .. } | State::Resolving { .. } => None,
        }
    }

    fn flush(&mut self, now: Instant) {
        let (State::Up(link) | State::Greeting { link, .. }) = &mut self.state else { return };
        if let Err(error) = link.flush()
            // What the server has said before it hung up may be why it did.
            && self.receive(true, now)
        {
            self.disconnect(error, now);
        }
    }

    /// Whether there is something that the server has to be told.
    fn has_business(&mut self) -> bool {
        !self.outstanding.is_empty()
            || self.sessions.iter().any(|(_, session)| session.id().is_some())
    }

    /// Whether the client was closed, and everything has been said.
    fn is_over(&mut self, now: Instant) -> bool {
        let Some(closing) = &mut self.closing else { return false };
        if closing.limit <= now {
            return true;
        }
        if !closing.has_said_so {
            // What is asked after this is not done any more; what can only be given back, is.
            closing.has_said_so = true;
            let waiting: Vec<u64> = self.outstanding.keys().copied().collect();
            for number in waiting {
                if let Some(asked) = self.outstanding.get_mut(&number)
                    && !asked.has_to_be_done()
                {
                    asked.fail(Error::Disconnected);
                    self.withdraw(number, now);
                }
            }
            self.flush(now);
        }
        if !self.outstanding.is_empty() || !matches!(self.state, State::Up(_)) {
            return !self.has_business();
        }
        let session_numbers: Vec<u64> =
            self.sessions.iter().map(|(session_number, _)| session_number).collect();
        for session_number in session_numbers {
            if let Some(session) = self.sessions.remove(session_number) {
                session.lease.lose();
                if let Some(id) = session.id() {
                    let headers = [("session", Value::Text(id))];
                    self.send_housekeeping(Housekeeping::Close, headers, now);
                }
            }
        }
        self.flush(now);
        !self.housekeeping.values().any(|sent| matches!(sent.kind, Housekeeping::Close))
    }
}

/// What the server could not read was not sent.
fn unreadable(wrong: FrameError) -> Error {
    Error::Refused { status: wrong.status(), message: format!("the request: {wrong}") }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.close();
        for (_, session) in self.sessions.iter() {
            session.lease.lose();
        }
        if let Some(closing) = &mut self.closing {
            for mut completer in closing.completers.drain(..) {
                let _ = completer.complete(Ok(Granted::nothing()));
            }
        }
    }
}

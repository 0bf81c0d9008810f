//! The channels between the thread that speaks HTTP and the thread that decides.
//!
//! Requests go one way and answers the other, and neither thread ever waits for the other: no more
//! than [`MAX_HTTP_REQUESTS`] requests are under way, so no more than that, and a word about each,
//! can be in them.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::access::Tokens;
use super::dispatcher::who;
use super::http::{Answered, Backend, Busy, Health, Metrics, Refusal, Submission, Ticket};
use super::limits::{MAX_HTTP_REQUESTS, MAX_TURN};
use super::log::Log;
use super::refusals::Refusals;
use super::statistics::ServerStatistics;
use crate::kernel::Operation;
use crate::net::{ConnectionId, Reason, Waker};
use semaforo_protocol::table::Right;

/// What the HTTP side says.
#[derive(Debug)]
pub(super) enum Word {
    /// A client asks.
    Request(Ticket, Submission),
    /// The client has gone away.
    Cancel(Ticket),
    /// What could be sent of an answer was: perhaps nothing, if the client's socket is full.
    Tried(Ticket),
    /// What became of an answer.
    Settled {
        /// Of which.
        ticket: Ticket,
        /// The client's socket took something of it.
        accepted: bool,
    },
}

#[derive(Debug, Default)]
struct Shared {
    outstanding: AtomicUsize,
    stopping: AtomicBool,
    /// Turns of the thread that decides.
    turns: AtomicU64,
    /// There is no space for the journal.
    is_short_of_space: AtomicBool,
    statistics: Mutex<ServerStatistics>,
    /// The tokens and their rights; none: every client may do everything.
    tokens: Mutex<Option<Arc<Tokens>>>,
    /// How often they have changed.
    tokens_version: AtomicU64,
    /// Why the thread of HTTP has ended, which it does only when it is told to.
    failure: Mutex<Option<String>>,
}

/// The end of the thread that speaks HTTP.
#[derive(Debug)]
pub(super) struct HttpSide {
    words: Sender<Word>,
    answers: Receiver<Answered>,
    /// Wakes the thread that decides.
    waker: Waker,
    shared: Arc<Shared>,
    /// How many turns there were when it was woken to see whether it still turns, and when that
    /// was.
    probe: Cell<Option<(u64, Instant)>>,
    /// Statistics need no token.
    open_metrics: bool,
    refusals: Arc<Refusals>,
    log: Log,
    /// Called when this thread is woken.
    hook: Option<fn()>,
}

/// The end of the thread that decides.
#[derive(Debug)]
pub(super) struct MainSide {
    words: Receiver<Word>,
    answers: Sender<Answered>,
    /// Wakes the thread that speaks HTTP.
    waker: Waker,
    shared: Arc<Shared>,
}

/// Both ends; each gets the waker of the other's thread.
pub(super) fn http_channels(
    main: Waker,
    http: Waker,
    open_metrics: bool,
    refusals: Arc<Refusals>,
    log: Log,
    hook: Option<fn()>,
) -> (MainSide, HttpSide) {
    let (word_sender, words) = channel();
    let (answer_sender, answers) = channel();
    let shared = Arc::new(Shared::default());
    let other = Arc::clone(&shared);
    let main_side = MainSide { words, answers: answer_sender, waker: http, shared };
    let probe = Cell::new(None);
    let http_side = HttpSide {
        words: word_sender,
        answers,
        waker: main,
        shared: other,
        probe,
        open_metrics,
        refusals,
        log,
        hook,
    };
    (main_side, http_side)
}

impl MainSide {
    pub(super) fn next_word(&self) -> Option<Word> {
        self.words.try_recv().ok()
    }

    /// Why the thread that speaks HTTP has ended by itself, if it has.
    pub(super) fn failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a word; none when the thread that speaks HTTP has ended, and all was heard.
    pub(super) fn wait_for_word(&self) -> Option<Word> {
        self.words.recv().ok()
    }

    /// Sends an answer; [`wake`](Self::wake) has to follow.
    pub(super) fn answer(&self, answered: Answered) {
        self.shared.outstanding.fetch_sub(1, Ordering::Relaxed);
        // There is no receiver any more when the thread of HTTP has ended before this one.
        let _ = self.answers.send(answered);
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Says that the thread that decides is well.
    pub(super) fn turned(&self) {
        self.shared.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets HTTP end: no new requests, and connections that end with their answers.
    pub(super) fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(super) fn publish(&self, statistics: ServerStatistics) {
        self.shared.is_short_of_space.store(statistics.is_short_of_space, Ordering::Relaxed);
        *self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner) = statistics;
    }

    /// From now on these tokens count.
    pub(super) fn set_tokens(&self, tokens: Option<Arc<Tokens>>) {
        *self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner) = tokens;
        self.shared.tokens_version.fetch_add(1, Ordering::Release);
        self.waker.wake();
    }
}

/// Tells the thread that decides that the one that speaks HTTP has ended.
#[derive(Debug)]
pub(super) struct Obituary {
    waker: Waker,
    shared: Arc<Shared>,
}

impl Obituary {
    pub(super) fn publish(self, reason: String) {
        *self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        self.waker.wake();
    }
}

impl HttpSide {
    fn tokens(&self) -> Option<Arc<Tokens>> {
        self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn obituary(&self) -> Obituary {
        Obituary { waker: self.waker.clone(), shared: Arc::clone(&self.shared) }
    }

    fn say(&self, word: Word) {
        // The thread that decides is gone only when the process ends.
        let _ = self.words.send(word);
        self.waker.wake();
    }
}

impl Backend for HttpSide {
    fn submit(&mut self, ticket: Ticket, request: Submission) -> Result<(), Busy> {
        if self.shared.outstanding.fetch_add(1, Ordering::Relaxed) >= MAX_HTTP_REQUESTS {
            self.shared.outstanding.fetch_sub(1, Ordering::Relaxed);
            return Err(Busy);
        }
        self.say(Word::Request(ticket, request));
        Ok(())
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.say(Word::Cancel(ticket));
    }

    fn next_answer(&mut self) -> Option<Answered> {
        if let Some(hook) = self.hook {
            hook();
        }
        self.answers.try_recv().ok()
    }

    fn tried(&mut self, ticket: Ticket) {
        self.say(Word::Tried(ticket));
    }

    fn settled(&mut self, ticket: Ticket, accepted: bool) {
        self.say(Word::Settled { ticket, accepted });
    }

    fn health(&self) -> Health {
        let turns = self.shared.turns.load(Ordering::Relaxed);
        match self.probe.get() {
            Some((before, since)) if before == turns => {
                if since.elapsed() > MAX_TURN {
                    return Health::Failing("the main loop does not turn");
                }
            }
            _ => {
                self.probe.set(Some((turns, Instant::now())));
                self.waker.wake();
            }
        }
        if self.is_stopping() {
            Health::NotReady("stopping")
        } else if self.shared.is_short_of_space.load(Ordering::Relaxed) {
            Health::NotReady("no space for the journal")
        } else {
            Health::Ready
        }
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    fn metrics(&mut self) -> Metrics {
        self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner).metrics()
    }

    fn knows(&self, token: Option<&str>) -> bool {
        self.tokens().is_none_or(|tokens| token.is_some_and(|token| tokens.find(token).is_some()))
    }

    fn tokens_version(&self) -> u64 {
        self.shared.tokens_version.load(Ordering::Acquire)
    }

    fn may_observe(&self, said: Option<&str>, peer: SocketAddr) -> Result<(), Refusal> {
        let Some(tokens) = self.tokens().filter(|_| !self.open_metrics) else { return Ok(()) };
        let refusal = match said.and_then(|said| tokens.find(said)) {
            None => Refusal::new(401, "a token with the right \"observe\" is needed"),
            Some(token) => match token.rights().refusal(Right::Observe, &Operation::Ping) {
                Some(reason) => Refusal::new(403, reason),
                None => return Ok(()),
            },
        };
        let (status, reason, who) = (refusal.status, &refusal.reason, who(Some(&tokens), said));
        let text = format_args!("{status} by {who} from {peer}: GET /metrics: {reason}");
        self.refusals.write(text);
        Err(refusal)
    }

    fn connected(&self, id: ConnectionId, peer: SocketAddr) {
        self.log.debug(format_args!("http: {id} has connected from {peer}"));
    }

    fn gone(&self, id: ConnectionId, reason: Reason) {
        self.log.debug(format_args!("http: {id} is gone: {reason}"));
    }

    fn refused(&self, refusal: &Refusal, peer: SocketAddr) {
        let Refusal { status, reason, .. } = refusal;
        if matches!(status, 401 | 403) {
            self.refusals.write(format_args!("{status} by no token from {peer}: {reason}"));
        } else {
            self.log.debug(format_args!("http: {status} to {peer}: {reason}"));
        }
    }

    fn accept_failed(&mut self, error: &io::Error) {
        self.log.warning(format_args!("http: cannot accept connections at the moment: {error}"));
    }
}

//! Between the thread that speaks HTTP and the thread that decides.
//!
//! Requests go one way and answers the other, through channels that never make anybody wait: no more than
//! [`MAX_HTTP_REQUESTS`] requests are under way, so no more than that, and a word about each, can be in them.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::figures::Figures;
use super::http::{Answered, Backend, Busy, Health, Metrics, Submission, Ticket};
use super::limits::{MAX_HTTP_REQUESTS, MAX_TURN};
use super::log::Log;
use crate::net::Waker;

/// What the HTTP side says.
#[derive(Debug)]
pub(super) enum Word {
    /// A client asks.
    Request(Ticket, Submission),
    /// The client has gone away.
    Cancel(Ticket),
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
    figures: Mutex<Figures>,
}

/// The end of the thread that speaks HTTP.
#[derive(Debug)]
pub(super) struct HttpSide {
    words: Sender<Word>,
    answers: Receiver<Answered>,
    /// Wakes the thread that decides.
    waker: Waker,
    shared: Arc<Shared>,
    /// How many turns there were when it was woken to see whether it still turns, and when that was.
    probe: Cell<Option<(u64, Instant)>>,
    log: Log,
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
pub(super) fn bridge(main: Waker, http: Waker, log: Log) -> (MainSide, HttpSide) {
    let (word_sender, words) = channel();
    let (answer_sender, answers) = channel();
    let shared = Arc::new(Shared::default());
    let other = Arc::clone(&shared);
    let main_side = MainSide { words, answers: answer_sender, waker: http, shared };
    let probe = Cell::new(None);
    let http_side =
        HttpSide { words: word_sender, answers, waker: main, shared: other, probe, log };
    (main_side, http_side)
}

impl MainSide {
    pub(super) fn next_word(&self) -> Option<Word> {
        self.words.try_recv().ok()
    }

    /// Waits for a word; none when the thread that speaks HTTP has ended, and all was heard.
    pub(super) fn wait_for_word(&self) -> Option<Word> {
        self.words.recv().ok()
    }

    /// Sends an answer; [`wake`](Self::wake) has to follow.
    pub(super) fn answer(&self, answered: Answered) {
        self.shared.outstanding.fetch_sub(1, Ordering::Relaxed);
        // Nobody is there any more when HTTP has ended before this thread.
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

    pub(super) fn publish(&self, figures: Figures) {
        *self.shared.figures.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }
}

impl HttpSide {
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
        self.answers.try_recv().ok()
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
        if self.is_stopping() { Health::NotReady("stopping") } else { Health::Ready }
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    fn metrics(&mut self) -> Metrics {
        self.shared.figures.lock().unwrap_or_else(PoisonError::into_inner).metrics()
    }

    fn accept_failed(&mut self, error: &io::Error) {
        self.log.warning(format_args!("http: cannot accept connections at the moment: {error}"));
    }
}

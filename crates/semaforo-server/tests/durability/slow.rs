//! No answer outruns the journal, however slow it is.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use semaforo_server::journal::{Journal, MemoryJournal, Position};
use semaforo_server::kernel::State;
use semaforo_server::server::log::{Format, Level, Log};
use semaforo_server::server::{Options, Server};

use crate::support::Lines;

/// A journal that is durable when the test says so.
#[derive(Clone, Default)]
struct Slow {
    submitted: Arc<AtomicU64>,
    durable: Arc<AtomicU64>,
}

impl Journal for Slow {
    fn submit(&mut self, events: &[u8], _: u64, _: bool) -> std::io::Result<Position> {
        assert!(!events.is_empty() && self.is_idle());
        Ok(self.submitted.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn is_idle(&self) -> bool {
        self.submitted() == self.durable.load(Ordering::SeqCst)
    }

    fn submitted(&self) -> Position {
        self.submitted.load(Ordering::SeqCst)
    }

    fn durable(&mut self) -> std::io::Result<Position> {
        Ok(self.durable.load(Ordering::SeqCst))
    }

    fn fits(&mut self, _: usize) -> bool {
        true
    }

    fn next_turn(&self) -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(1))
    }

    fn close(self: Box<Self>, _: u64) -> std::io::Result<()> {
        Ok(())
    }
}

impl Slow {
    /// Waits until a batch is in flight.
    fn await_submitted(&self, position: Position) {
        while self.submitted() < position {
            thread::yield_now();
        }
    }

    fn complete(&self) {
        self.durable.store(self.submitted(), Ordering::SeqCst);
    }
}

struct Client {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Client {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).unwrap();
        let answers = BufReader::new(stream.try_clone().unwrap());
        Self { stream, answers }
    }

    fn send(&mut self, requests: &str) {
        self.stream.write_all(requests.as_bytes()).unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Nothing has arrived, though the server had time for it.
    fn has_nothing(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        match self.answers.fill_buf() {
            Ok(bytes) => bytes.is_empty(),
            Err(error) => {
                matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                )
            }
        }
    }
}

#[test]
fn answers_leave_only_when_what_they_saw_is_durable() {
    let journal = Slow::default();
    let boxed = Box::new(journal.clone());
    let server = Server::with_journal(Options::default(), State::default(), boxed, 0).unwrap();
    let (mut producer, mut reader) = (Client::connect(&server), Client::connect(&server));
    let mut taker = Client::connect(&server);
    let running = thread::spawn(move || server.run());

    producer.send(r#"{"Method":"CREATE","Path":"q"}"#);
    journal.await_submitted(1);
    // Another connection sees the queue already, and must not say so yet.
    reader.send(r#"{"Method":"SHOW","Path":"q"}"#);
    taker.send(r#"{"Method":"TAKE","Path":"nothing"}{"Method":"TAKE","Path":"q"}"#);
    assert!(producer.has_nothing());
    assert!(reader.has_nothing());
    assert!(taker.has_nothing(), "not even a 404 may outrun the journal");
    journal.complete();
    assert_eq!(producer.answer(), r#"{"Status":200,"Headers":{"created":"true"}}"#);
    assert!(reader.answer().contains(r#""kind":"queue""#));
    assert!(taker.answer().contains("404"));

    // What is decided while a batch is in flight goes with the next one.
    producer.send(r#"{"Method":"PUT","Path":"q","Payload":1}"#);
    journal.await_submitted(2);
    producer.send(r#"{"Method":"PUT","Path":"q","Payload":2}"#);
    reader.send(r#"{"Method":"PING"}"#);
    assert!(producer.has_nothing() && taker.has_nothing() && reader.has_nothing());
    journal.complete();
    assert!(taker.answer().ends_with(r#""Payload":1}"#));
    assert!(producer.answer().contains(r#""message":"1""#));
    journal.await_submitted(3);
    assert!(producer.has_nothing());
    journal.complete();
    assert!(producer.answer().contains(r#""message":"2""#));
    assert_eq!(reader.answer(), r#"{"Status":200}"#);

    producer.send(r#"{"Method":"SHUTDOWN"}"#);
    assert_eq!(producer.answer(), r#"{"Status":200}"#);
    running.join().unwrap().unwrap();
}

/// A disk that takes its time, for batches or for what was written before.
struct Lazy {
    journal: MemoryJournal,
    submitting: Duration,
    turning: Duration,
}

impl Journal for Lazy {
    fn submit(&mut self, events: &[u8], time: u64, urgent: bool) -> std::io::Result<Position> {
        thread::sleep(self.submitting);
        self.journal.submit(events, time, urgent)
    }

    fn submitted(&self) -> Position {
        self.journal.submitted()
    }

    fn durable(&mut self) -> std::io::Result<Position> {
        self.journal.durable()
    }

    fn fits(&mut self, bytes: usize) -> bool {
        self.journal.fits(bytes)
    }

    fn turn(&mut self, _: Instant) -> std::io::Result<()> {
        if self.submitted() > 0 {
            thread::sleep(std::mem::take(&mut self.turning));
        }
        Ok(())
    }

    fn close(self: Box<Self>, time: u64) -> std::io::Result<()> {
        Box::new(self.journal).close(time)
    }
}

#[test]
fn a_slow_disk_is_a_line_in_the_log() {
    const LONG: Duration = Duration::from_millis(120);
    let (journal, none) = (MemoryJournal::default, Duration::ZERO);
    for (lazy, expected) in [
        (Lazy { journal: journal(), submitting: LONG, turning: none }, "journal: a batch of "),
        (Lazy { journal: journal(), submitting: none, turning: LONG }, "journal: a sync took "),
    ] {
        let lines = Lines::default();
        let (log, end) =
            Log::to(Box::new(lines.clone()), Level::Warning, Format::Plain, 100).unwrap();
        let options = Options { log: Some(log), ..Options::default() };
        let server = Server::with_journal(options, State::default(), Box::new(lazy), 0).unwrap();
        let server = crate::support::Server::run(server);
        server.connect().done("CREATE q");
        server.stop();
        drop(end);
        let text = lines.text();
        assert!(text.contains(expected), "{text}");
    }
}

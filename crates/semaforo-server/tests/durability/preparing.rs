//! While the journal's next segment is made, only what needs it waits for it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use semaforo_server::journal::{
    FileJournal, Journal, MemoryJournal, Options as JournalOptions, Position,
};
use semaforo_server::kernel::State;
use semaforo_server::server::{Options, Server as Real};

use crate::gated::Gated;
use crate::support::{Client, Folder, Held, LONG, Process, Server, frame, until};

/// Another client's request is answered within this time, on a busy machine and in a slow build.
const FROZEN: Duration = Duration::from_secs(5);

/// A server whose second segment is not made before the gate opens.
fn serve(disk: &Gated, largest: usize) -> Server {
    let mut options =
        Options { http: Some(SocketAddr::from(([127, 0, 0, 1], 0))), ..Options::default() };
    options.frames.size = largest;
    let recovered = FileJournal::open_on::<State>(disk.clone(), JournalOptions::default()).unwrap();
    let journal = Box::new(recovered.journal);
    Server::run(Real::with_journal(options, recovered.state, journal, 0).unwrap())
}

fn large(size: usize) -> String {
    format!("\"{}\"", "x".repeat(size))
}

/// Puts over HTTP; the beginning of the answer.
fn put_over_http(address: SocketAddr, payload: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let head = "Host: localhost\r\nContent-Type: application/json\r\nConnection: close";
    let length = payload.len();
    let request =
        format!("POST /v1/queues/q/put HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(payload.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer[..12.min(answer.len())].to_owned()
}

#[test]
fn while_a_segment_is_made_only_what_needs_it_waits() {
    const TTL: Duration = Duration::from_secs(1);
    let disk = Gated::new();
    let server = serve(&disk, 1 << 20);
    let _gate = disk.open_at_last();
    let (mut producer, mut other) = (server.connect(), server.connect());
    other.done("PING");
    other.done("CREATE q");
    let opened = producer.done(&format!("OPEN /sessions ttl={}", TTL.as_millis()));
    let session = opened.header("session").unwrap().to_owned();
    let payload = large(1_000_000);
    let begun = Instant::now();
    let puts = (0..6).map(|id| format!("PUT q session={session} id={id} | {payload}"));
    let puts: Vec<u8> = puts.flat_map(|put| frame(&put)).collect();
    producer.done(&format!("KEEPALIVE /sessions session={session}"));
    let mut twin = producer.twin();
    let sender = thread::spawn(move || twin.send_bytes(&puts));
    until("there is space for no more of them", || other.show("q").unwrap()["ready"] == 2);
    let http = server.http.unwrap();
    let over_http = thread::spawn(move || put_over_http(http, &large(1_000_000)));
    for _ in 0..10 {
        other.done("PUT q | 1");
    }
    assert_eq!(other.done("TAKE q ack=manual").payload().map(str::len), Some(1_000_002));
    // For longer than the session lives without being heard.
    while begun.elapsed() < 2 * TTL {
        other.done("PING");
    }
    assert_eq!(other.show("q").unwrap()["ready"], 11);
    assert!(!over_http.is_finished());
    disk.open();
    for _ in 0..6 {
        assert_eq!(producer.answer().status, 200);
    }
    sender.join().unwrap();
    assert_eq!(over_http.join().unwrap(), "HTTP/1.1 200");
}

/// A first segment of a few MiB is enough for small requests, however large others may be.
#[test]
fn large_messages_that_nobody_sends_keep_no_small_one_waiting() {
    let disk = Gated::new();
    let server = serve(&disk, 64 << 20);
    let _gate = disk.open_at_last();
    let mut client = server.connect();
    client.done("PING");
    client.done("CREATE q");
    client.done("PUT q | 1");
    assert_eq!(client.done("TAKE q").payload(), Some("1"));
    disk.open();
}

#[test]
fn a_stop_waits_for_no_segment() {
    let disk = Gated::new();
    let server = serve(&disk, 1 << 20);
    let _gate = disk.open_at_last();
    let mut producer = server.connect();
    producer.done("CREATE q");
    let payload = large(1_000_000);
    for id in 0..6 {
        producer.send(&format!("PUT q id={id} | {payload}"));
    }
    server.connect().done("PING");
    let mut statuses = Vec::new();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while let Some(answer) = producer.try_answer() {
                statuses.push(answer.status);
                if statuses.len() == 6 {
                    break;
                }
            }
        });
        server.connect().done("SHUTDOWN /");
        reader.join().unwrap();
    });
    disk.open();
    server.join();
    assert!(statuses.iter().all(|it| [200, 503].contains(it)), "{statuses:?}");
}

/// A journal that has no place for a batch, although it said that it had.
struct Mistaken {
    journal: MemoryJournal,
    has_place: Arc<AtomicBool>,
    wanted: Arc<AtomicUsize>,
}

impl Journal for Mistaken {
    fn submit(&mut self, events: &[u8], time: u64, urgent: bool) -> std::io::Result<Position> {
        assert!(self.fits(events.len()));
        self.journal.submit(events, time, urgent)
    }

    fn submitted(&self) -> Position {
        self.journal.submitted()
    }

    fn durable(&mut self) -> std::io::Result<Position> {
        self.journal.durable()
    }

    fn fits(&mut self, _: usize) -> bool {
        self.has_place.load(Ordering::SeqCst)
    }

    fn space(&mut self, wanted: usize) -> usize {
        wanted
    }

    fn prepare_for(&mut self, bytes: usize) {
        self.wanted.store(bytes, Ordering::SeqCst);
    }

    fn close(self: Box<Self>, time: u64) -> std::io::Result<()> {
        Box::new(self.journal).close(time)
    }
}

#[test]
fn what_finds_no_place_is_not_answered_and_written_later() {
    let (has_place, wanted) = (Arc::new(AtomicBool::new(false)), Arc::<AtomicUsize>::default());
    let journal = Mistaken {
        journal: MemoryJournal::default(),
        has_place: Arc::clone(&has_place),
        wanted: Arc::clone(&wanted),
    };
    let (options, state) = (Options::default(), State::default());
    let server = Server::run(Real::with_journal(options, state, Box::new(journal), 0).unwrap());
    let mut client = server.connect();
    client.send("CREATE q");
    until("more place is wanted", || wanted.load(Ordering::SeqCst) > 0);
    assert!(client.is_silent());
    has_place.store(true, Ordering::SeqCst);
    assert_eq!(client.answer().status, 200);
}

/// Takers that read nothing, and how many messages they were given.
fn takers(address: SocketAddr, count: usize) -> Vec<Client> {
    let takers = (0..count).map(|_| {
        let mut taker = Client::connect_narrow(address);
        taker.send_bytes(&frame("TAKE q").repeat(6));
        taker
    });
    takers.collect()
}

/// The longest that another client waits for an answer while this goes on.
fn longest_ping(server: &Process, attack: impl FnOnce() + Send) -> Duration {
    let over = AtomicBool::new(false);
    let mut client = server.connect();
    thread::scope(|scope| {
        scope.spawn(|| {
            attack();
            over.store(true, Ordering::SeqCst);
        });
        let mut longest = Duration::ZERO;
        while !over.load(Ordering::SeqCst) {
            let begun = Instant::now();
            client.done("PING");
            longest = longest.max(begun.elapsed());
        }
        longest
    })
}

fn largest_segment(folder: &Folder) -> u64 {
    let files = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
    let segments = files.filter(|file| file.file_name().to_string_lossy().starts_with("segment"));
    segments.map(|file| file.metadata().map_or(0, |it| it.len())).max().unwrap()
}

#[test]
fn a_server_for_large_frames_answers_at_once() {
    let folder = Folder::new();
    let begun = Instant::now();
    let server = Process::with(folder.path(), &["--max-frame", "67108864"]);
    server.connect().done("PING");
    server.connect().done("CREATE q");
    assert!(begun.elapsed() < FROZEN, "{:?}", begun.elapsed());
}

#[test]
fn segments_that_fill_keep_no_other_client_waiting() {
    let folder = Folder::new();
    let server = Process::start(folder.path());
    server.connect().done("CREATE q");
    let longest = longest_ping(&server, || {
        let (mut producer, put) =
            (server.connect(), frame(&format!("PUT q | {}", large(1_000_000))));
        let mut twin = producer.twin();
        thread::scope(|scope| {
            scope.spawn(move || (0..60).for_each(|_| twin.send_bytes(&put)));
            assert!(producer.answers(60).iter().all(|answer| answer.status == 200));
        });
    });
    assert!(longest < FROZEN, "{longest:?}");
}

/// What they were given may come back. That makes no segment larger, and comes back in portions.
#[test]
fn takers_that_read_nothing_keep_no_other_client_waiting() {
    const TAKERS: usize = 40;
    let folder = Folder::new();
    let server = Process::start(folder.path());
    let mut client = server.connect();
    client.done("CREATE q");
    let put = format!("PUT q | {}", large(1_000_000));
    for _ in 0..6 * TAKERS {
        client.done(&put);
    }
    let longest = longest_ping(&server, || {
        let takers = takers(server.address, TAKERS);
        until("they have something", || {
            let ready = client.show("q").unwrap()["ready"].as_u64().unwrap();
            ready < 3 * TAKERS as u64
        });
        for taker in takers {
            taker.reset();
        }
        until("they are gone", || client.done("SHOW").value()["connections"] == 2);
    });
    assert!(longest < FROZEN, "{longest:?}");
    let largest = largest_segment(&folder);
    assert!(largest <= 16 << 20, "a segment of {largest} bytes");
}

/// What could not be sent comes back when there is space for it, and nothing waits for that.
#[test]
fn a_message_that_was_not_read_returns_when_there_is_space() {
    let journal = Held::default();
    let server = journal.server(Options::default());
    let mut client = server.connect();
    client.done("CREATE q");
    const COUNT: u64 = 40;
    let put = format!("PUT q | {}", large(900_000));
    for _ in 0..COUNT {
        client.done(&put);
    }
    let mut taker = Client::connect_narrow(server.address);
    taker.send_bytes(&frame("TAKE q").repeat(COUNT as usize));
    let ready = |client: &mut Client| client.show("q").unwrap()["ready"].as_u64().unwrap();
    // Its connection takes no more, and there is a message in front of it of which it took nothing.
    let (mut left, mut times) = (COUNT, 0);
    until("it is given no more", || {
        let now = ready(&mut client);
        times = if now < COUNT && now == left { times + 1 } else { 0 };
        left = now;
        times == 100
    });
    journal.leave(Some(100 << 10));
    let before = ready(&mut client);
    taker.reset();
    until("the taker is gone", || client.done("SHOW").value()["connections"] == 1);
    assert_eq!(ready(&mut client), before, "there is no space for it");
    client.done("PING");
    journal.leave(None);
    until("it is back", || ready(&mut client) > before);
}

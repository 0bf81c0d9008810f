//! A TCP echo server on tokio that holds a bounded number of connections, by our `Semaphore`, and
//! shuts down gracefully, by a token: clients that are connected are answered, others refused, and
//! the server has ended when all permits are back. What it has to say goes to a log that never
//! holds it up: a bounded queue, and one thread that writes when there is time.
//!
//! The server and its clients run in this program, over the loopback.
//!
//! `cargo run --release -p semaforo --example tcp_server`

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use semaforo::{BlockingQueue, CancelSource, CancelToken, Semaphore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request is one line, and not longer than this.
const LONGEST: usize = 1024;

/// So long after a connection could not be accepted the next one is.
const AFTER_AN_ERROR: Duration = Duration::from_millis(10);

/// A request that takes so long that the server is told to stop meanwhile.
const SLOW: &str = "something slow";

/// Lines for the log; those that find it full are counted, not waited for.
struct Log {
    lines: BlockingQueue<String>,
    lost: AtomicU32,
}

impl Log {
    fn new(capacity: usize) -> Self {
        Self { lines: BlockingQueue::bounded(capacity), lost: AtomicU32::new(0) }
    }

    fn note(&self, line: String) {
        if self.lines.try_put(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes until the log is closed and empty.
    fn write_to(&self, mut write: impl FnMut(&str)) {
        self.lines.items().for_each(|line| write(&line));
    }
}

struct Server {
    /// A permit for each connection that may be open.
    connections: Arc<Semaphore>,
    most: u32,
    stop: CancelToken,
    log: Arc<Log>,
    open: AtomicU32,
    most_open: AtomicU32,
    answered: AtomicU32,
    /// How long it takes to answer.
    service_time: Duration,
}

impl Server {
    fn new(most: u32, service_time: Duration, stop: CancelToken, log: Arc<Log>) -> Arc<Self> {
        let connections = Arc::new(Semaphore::with_max(most, most));
        let [open, most_open, answered] = [const { AtomicU32::new(0) }; 3];
        Arc::new(Self { connections, most, stop, log, open, most_open, answered, service_time })
    }

    /// Serves until told to stop, and then until all who are connected have been answered.
    ///
    /// A connection that could not be accepted is told, and the server goes on, after a moment: perhaps the
    /// system is short of something that others give back meanwhile.
    async fn run<F>(self: Arc<Self>, accept: impl Fn() -> F + Send)
    where
        F: Future<Output = io::Result<TcpStream>> + Send,
    {
        // The permit comes before the connection: who finds the server full waits outside.
        while let Ok(permit) = self.connections.acquire_owned(1).cancel_on(&self.stop).await {
            let connection = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                accepted = accept() => accepted,
            };
            let connection = match connection {
                Ok(connection) => connection,
                Err(error) => {
                    self.log.note(format!("*** not accepted: {error}"));
                    tokio::time::sleep(AFTER_AN_ERROR).await;
                    continue;
                }
            };
            let server = Arc::clone(&self);
            tokio::spawn(async move {
                let open = server.open.fetch_add(1, Ordering::Relaxed) + 1;
                server.most_open.fetch_max(open, Ordering::Relaxed);
                if let Err(error) = server.serve(connection).await {
                    server.log.note(format!("*** {error}"));
                }
                server.open.fetch_sub(1, Ordering::Relaxed);
                drop(permit);
            });
        }
        // No client can connect any more. A permit that is back is a connection that has ended.
        drop(accept);
        self.log
            .note(format!("stopping; {} connections are open", self.open.load(Ordering::Relaxed)));
        let _all = self.connections.acquire(self.most).await.expect("it is never closed");
        self.log.note(format!("stopped after {} answers", self.answered.load(Ordering::Relaxed)));
    }

    async fn serve(&self, mut connection: TcpStream) -> io::Result<()> {
        let request = read_line(&mut connection).await?;
        self.log.note(format!("--> {request}"));
        match request.as_str() {
            SLOW => self.stop.cancelled().await,
            _ => tokio::time::sleep(self.service_time).await,
        }
        let response = request.to_uppercase();
        connection.write_all(response.as_bytes()).await?;
        connection.write_all(b"\n").await?;
        connection.shutdown().await?;
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.log.note(format!("<-- {response}"));
        Ok(())
    }
}

async fn read_line(connection: &mut TcpStream) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        match connection.read_u8().await? {
            b'\n' => break,
            _ if line.len() == LONGEST => return Err(io::ErrorKind::InvalidData.into()),
            byte => line.push(byte),
        }
    }
    String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The next connection of a listener, again and again. The listener is closed when this is dropped.
fn accepting(
    listener: TcpListener,
) -> impl Fn() -> Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>> + Send {
    let listener = Arc::new(listener);
    move || {
        let listener = Arc::clone(&listener);
        Box::pin(async move { Ok(listener.accept().await?.0) })
    }
}

/// A client: sends a line, and returns the answer.
async fn ask(server: SocketAddr, line: &str) -> io::Result<String> {
    let mut connection = TcpStream::connect(server).await?;
    connection.write_all(line.as_bytes()).await?;
    connection.write_all(b"\n").await?;
    read_line(&mut connection).await
}

/// What there is to see of a day at the server.
struct Day {
    answers: Vec<String>,
    most_connections: u32,
    answered_after_stop: usize,
    refused_after_stop: bool,
    log: Vec<String>,
}

/// So many clients at once, then some more that are being served when the server is told to stop.
async fn day(clients: u32, most: u32, service_time: Duration) -> io::Result<Day> {
    let log = Arc::new(Log::new(1000));
    let writer = thread::spawn({
        let log = Arc::clone(&log);
        move || {
            let mut lines = Vec::new();
            log.write_to(|line| lines.push(line.to_string()));
            lines
        }
    });
    let stop = CancelSource::new();
    let server = Server::new(most, service_time, stop.token(), Arc::clone(&log));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let running = tokio::spawn(Arc::clone(&server).run(accepting(listener)));

    let asking: Vec<_> = (0..clients)
        .map(|client| tokio::spawn(async move { ask(address, &format!("client {client}")).await }))
        .collect();
    let mut answers = Vec::new();
    for client in asking {
        answers.push(client.await.expect("clients do not panic")?);
    }

    // The last ones are being served when the stop comes.
    let late: Vec<_> =
        (0..most).map(|_| tokio::spawn(async move { ask(address, SLOW).await })).collect();
    while server.open.load(Ordering::Relaxed) < most {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    running.await.expect("the server does not panic");
    let mut answered_after_stop = 0;
    for client in late {
        answered_after_stop += usize::from(client.await.expect("clients do not panic").is_ok());
    }
    let most_connections = server.most_open.load(Ordering::Relaxed);
    let refused_after_stop = ask(address, "too late").await.is_err();

    log.lines.close();
    let log = writer.join().expect("the writer does not panic");
    Ok(Day { answers, most_connections, answered_after_stop, refused_after_stop, log })
}

#[tokio::main]
async fn main() -> io::Result<()> {
    println!("20 clients, a server for 5 connections, 30 ms for an answer.");
    let day = day(20, 5, Duration::from_millis(30)).await?;
    println!("answers: {}, the first {:?}", day.answers.len(), day.answers[0]);
    println!("connections at once: never more than {}", day.most_connections);
    println!("stopped with 5 connections open: {} were answered", day.answered_after_stop);
    println!("one that came later was refused: {}", day.refused_after_stop);
    println!("the end of the log:");
    for line in &day.log[day.log.len().saturating_sub(7)..] {
        println!("  {line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_are_answered_and_never_more_are_connected_than_allowed() {
        let day = day(12, 3, Duration::from_millis(2)).await.unwrap();
        let expected: Vec<_> = (0..12).map(|client| format!("CLIENT {client}")).collect();
        assert_eq!(day.answers, expected);
        assert!(day.most_connections <= 3, "{}", day.most_connections);
    }

    /// With one permit it is a server of the simplest kind, which accepts when it has served.
    #[tokio::test]
    async fn one_permit_serves_one_after_another() {
        let day = day(4, 1, Duration::from_millis(2)).await.unwrap();
        assert_eq!((day.answers.len(), day.most_connections), (4, 1));
    }

    #[tokio::test]
    async fn a_stop_lets_those_who_are_connected_finish_and_nobody_else_in() {
        let day = day(1, 3, Duration::from_millis(2)).await.unwrap();
        assert_eq!(day.answered_after_stop, 3);
        assert!(day.refused_after_stop);
        assert_eq!(day.log.last().unwrap(), "stopped after 4 answers");
    }

    #[tokio::test]
    async fn what_cannot_be_accepted_is_told_and_the_server_goes_on_and_drains() {
        let log = Arc::new(Log::new(100));
        let stop = CancelSource::new();
        let server = Server::new(2, Duration::ZERO, stop.token(), Arc::clone(&log));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (accept, calls) = (accepting(listener), AtomicU32::new(0));
        let running = tokio::spawn(Arc::clone(&server).run(move || {
            let fails = calls.fetch_add(1, Ordering::Relaxed) % 2 == 0;
            let accepted = (!fails).then(&accept);
            async move {
                match accepted {
                    Some(accepted) => accepted.await,
                    None => Err(io::Error::other("no more files")),
                }
            }
        }));
        for client in ["a", "b"] {
            assert_eq!(ask(address, client).await.unwrap(), client.to_uppercase());
        }
        let slow = tokio::spawn(async move { ask(address, SLOW).await });
        while server.open.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        running.await.unwrap();
        assert_eq!(slow.await.unwrap().unwrap(), SLOW.to_uppercase());
        log.lines.close();
        let lines: Vec<_> = log.lines.items().collect();
        let told = lines.iter().filter(|line| *line == "*** not accepted: no more files");
        assert!(told.count() >= 3, "{lines:#?}");
        assert_eq!(lines.last().unwrap(), "stopped after 3 answers");
    }

    #[test]
    fn a_full_log_loses_lines_and_holds_nobody_up() {
        let log = Log::new(2);
        (0..5).for_each(|n| log.note(n.to_string()));
        log.lines.close();
        let mut written = Vec::new();
        log.write_to(|line| written.push(line.to_string()));
        assert_eq!((written, log.lost.into_inner()), (vec!["0".to_string(), "1".to_string()], 3));
    }
}

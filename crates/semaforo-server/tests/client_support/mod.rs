//! A server in this process, a proxy that can misbehave, and a server of a few written words.

#![allow(dead_code, unreachable_pub, reason = "not every test needs all of it")]

pub mod liar;
pub mod proxy;
pub mod script;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use semaforo_client::Client;
use semaforo_server::server::{Options, Server};

/// Longer than anything takes that goes well.
pub const LONG: Duration = Duration::from_secs(20);

/// A server, stopped when it is dropped.
pub struct Running {
    pub address: SocketAddr,
    thread: Option<JoinHandle<()>>,
    token: Option<String>,
}

impl Running {
    pub fn start() -> Self {
        Self::with(Options::default(), None)
    }

    /// The token is for stopping it.
    pub fn with(options: Options, token: Option<&str>) -> Self {
        let server = Server::start(options).unwrap();
        let address = server.address();
        let thread = thread::spawn(move || server.run().unwrap());
        Self { address, thread: Some(thread), token: token.map(Into::into) }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address.to_string()).wait().unwrap()
    }

    /// Stops it, and waits until it has.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let mut connect = Client::connect(self.address.to_string());
        if let Some(token) = &self.token {
            connect = connect.token(token.clone());
        }
        if let Ok(client) = connect.wait() {
            let _ = client.request("SHUTDOWN", "/").wait();
        }
        let ended = thread.join();
        if !thread::panicking() {
            ended.unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A runtime, as small as can be.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Polls once, as if some runtime did.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits until this is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let limit = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < limit, "never happened: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A number in what `SHOW` says.
pub fn shown(client: &Client, path: &str, member: &str) -> u64 {
    let json = client.show(path).wait().unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap_or_default();
    value.get(member).and_then(serde_json::Value::as_u64).unwrap_or_default()
}

//! Passes bytes on between clients and a server, until it is told not to.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy. Its threads end with their connections.
pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    target: Mutex<SocketAddr>,
    streams: Mutex<Vec<TcpStream>>,
    /// What the server says is thrown away.
    is_deaf: AtomicBool,
    /// New connections are closed at once.
    is_shut: AtomicBool,
    is_over: AtomicBool,
    connections: AtomicUsize,
    /// Bytes from the server, also those thrown away.
    answers: AtomicUsize,
}

impl Proxy {
    pub fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            target: Mutex::new(target),
            streams: Mutex::default(),
            is_deaf: AtomicBool::new(false),
            is_shut: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            answers: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.is_over.load(Ordering::SeqCst) {
                    break;
                }
                shared.accept(client);
            }
        });
        Self { address, state }
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// From now on nothing comes back.
    pub fn set_deaf(&self, is_deaf: bool) {
        self.state.is_deaf.store(is_deaf, Ordering::SeqCst);
    }

    /// From now on no connection is let in.
    pub fn set_shut(&self, is_shut: bool) {
        self.state.is_shut.store(is_shut, Ordering::SeqCst);
    }

    pub fn set_target(&self, target: SocketAddr) {
        *self.state.target.lock().unwrap() = target;
    }

    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    pub fn answers(&self) -> usize {
        self.state.answers.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        self.cut();
        // The listener looks whether it is needed when a connection comes.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn accept(self: &Arc<Self>, client: TcpStream) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        if self.is_shut.load(Ordering::SeqCst) {
            return;
        }
        let target = *self.target.lock().unwrap();
        let Ok(server) = TcpStream::connect(target) else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let pairs = [
            (client.try_clone().unwrap(), server.try_clone().unwrap(), false),
            (server.try_clone().unwrap(), client.try_clone().unwrap(), true),
        ];
        self.streams.lock().unwrap().extend([client, server]);
        for (from, to, is_answer) in pairs {
            let state = Arc::downgrade(self);
            thread::spawn(move || {
                let (mut from, mut to) = (from, to);
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut buffer) {
                    let Some(state) = state.upgrade() else { break };
                    if is_answer {
                        state.answers.fetch_add(count, Ordering::SeqCst);
                        if state.is_deaf.load(Ordering::SeqCst) {
                            continue;
                        }
                    }
                    if to.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            });
        }
    }
}

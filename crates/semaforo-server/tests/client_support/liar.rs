//! A proxy that reads what it passes on, and lies: about one frame at a time, as the test says.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use semaforo_protocol::wire::{Limits, Scan, Scanner};

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Nothing but the truth.
    Pass,
    /// It is left out, and the connection lasts until another one has been passed on.
    Drop,
    /// It comes twice.
    Repeat,
    /// It comes after the next one.
    Reorder,
    /// Half of it comes, and then the connection ends.
    Truncate,
}

/// Who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    Client,
    Server,
}

type Lies = dyn Fn(Speaker, &[u8]) -> Lie + Send + Sync;

/// A proxy. Its threads end with their connections.
pub struct Liar {
    pub address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    is_over: Arc<AtomicBool>,
}

impl Liar {
    pub fn start(
        target: SocketAddr,
        lies: impl Fn(Speaker, &[u8]) -> Lie + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let streams = Arc::<Mutex<Vec<TcpStream>>>::default();
        let is_over = Arc::<AtomicBool>::default();
        let lies: Arc<Lies> = Arc::new(lies);
        let (shared, over) = (Arc::clone(&streams), Arc::clone(&is_over));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                // A server that is being started again: the client comes again, too.
                let Ok(server) = TcpStream::connect(target) else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let twin = |stream: &TcpStream| stream.try_clone().unwrap();
                let pairs = [
                    (twin(&client), twin(&server), Speaker::Client),
                    (twin(&server), twin(&client), Speaker::Server),
                ];
                shared.lock().unwrap().extend([client, server]);
                for (from, to, speaker) in pairs {
                    let lies = Arc::clone(&lies);
                    thread::spawn(move || {
                        let _ = relay(&from, &to, speaker, &*lies);
                        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                    });
                }
            }
        });
        Self { address, streams, is_over }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The listener looks whether it is needed when a connection comes.
        let _ = TcpStream::connect(self.address);
    }
}

/// Passes frames on until one side ends, or a lie ends both.
fn relay(
    mut from: &TcpStream,
    mut to: &TcpStream,
    speaker: Speaker,
    lies: &Lies,
) -> std::io::Result<()> {
    let (mut input, mut scanner) = (Vec::new(), Scanner::new());
    let mut buffer = [0; 4096];
    let (mut late, mut is_last) = (None::<Vec<u8>>, false);
    loop {
        while let Scan::Frame { end, .. } = scanner.scan(&input, &Limits::default()).unwrap() {
            let rest = input.split_off(end);
            let mut frame = std::mem::replace(&mut input, rest);
            frame.push(b'\n');
            match lies(speaker, &frame) {
                Lie::Drop => is_last = true,
                Lie::Truncate => {
                    to.write_all(&frame[..frame.len() / 2])?;
                    return Ok(());
                }
                Lie::Reorder if late.is_none() => late = Some(frame),
                lie => {
                    to.write_all(&frame)?;
                    if lie == Lie::Repeat {
                        to.write_all(&frame)?;
                    }
                    if let Some(late) = late.take() {
                        to.write_all(&late)?;
                    }
                    if is_last {
                        return Ok(());
                    }
                }
            }
        }
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => input.extend_from_slice(&buffer[..count]),
        }
    }
}

//! Signals as events of the loop.

use std::io::{self, Read};

use mio::net::UnixStream;
use signal_hook::SigId;

/// A signal that writes into a socket of the loop instead of ending the process.
#[derive(Debug)]
pub(super) struct Signal {
    pub(super) number: i32,
    pub(super) pipe: UnixStream,
    registration: SigId,
}

impl Signal {
    pub(super) fn watch(number: i32) -> io::Result<Self> {
        let (pipe, written) = std::os::unix::net::UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let registration = signal_hook::low_level::pipe::register(number, written)?;
        Ok(Self { number, pipe: UnixStream::from_std(pipe), registration })
    }

    /// Whether the signal has arrived since the last call.
    pub(super) fn arrived(&mut self) -> bool {
        let mut bytes = [0; 16];
        let mut arrived = false;
        while self.pipe.read(&mut bytes).is_ok_and(|count| count > 0) {
            arrived = true;
        }
        arrived
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        signal_hook::low_level::unregister(self.registration);
    }
}

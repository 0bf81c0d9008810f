//! Listening sockets, and the options that accepted ones inherit from them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use mio::net::{TcpListener, TcpStream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use rustls::ServerConfig;

use super::limits;

/// A listening socket of a loop.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// Connections may be waiting in the backlog.
    pub(super) ready: bool,
    /// Not before this: the last attempt failed for want of descriptors or memory.
    pub(super) retry_at: Option<Instant>,
}

/// Binds an address; port 0 is any free one.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    // The standard library asks for SO_REUSEADDR, so a restart need not wait for old connections.
    let socket = std::net::TcpListener::bind(address)?;
    rustix::net::listen(&socket, limits::BACKLOG)?;
    Ok(socket)
}

/// Options are set on the listening socket, since accepted ones inherit them: that spares five
/// system calls with every connection.
pub(super) fn prepare(socket: std::net::TcpListener) -> io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, limits::KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, limits::KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, limits::KEEP_ALIVE_PROBES)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(&socket, limits::USER_TIMEOUT.as_millis() as u32)?;
    Ok(TcpListener::from_std(socket))
}

/// What an attempt to accept led to.
pub(super) enum Accepted {
    Connection(TcpStream, SocketAddr),
    /// The backlog is empty.
    Nothing,
    /// That one was gone before it was accepted.
    Vanished,
    /// Most often out of descriptors or memory: the connection stays in the backlog.
    Failed(io::Error),
}

impl Listener {
    /// Whether a connection waits to be accepted.
    pub(super) fn has_waiting(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.socket, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    /// Has the system accept no further connections while one waits; what waits stays.
    pub(super) fn take_no_more(&self) {
        // If it fails, the time for accepting is bounded all the same.
        let _ = rustix::net::listen(&self.socket, 0);
    }

    pub(super) fn accept(&self) -> Accepted {
        match self.socket.accept() {
            Ok((stream, address)) => Accepted::Connection(stream, address),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => Accepted::Nothing,
                io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => Accepted::Vanished,
                _ => Accepted::Failed(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_sockets_inherit_the_options() {
        let socket = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let listener = prepare(socket).unwrap();
        let _peer = std::net::TcpStream::connect(address).unwrap();
        let (stream, _) = listener.accept().unwrap();
        assert!(sockopt::tcp_nodelay(&stream).unwrap());
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), limits::KEEP_ALIVE_IDLE);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), limits::KEEP_ALIVE_INTERVAL);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), limits::KEEP_ALIVE_PROBES);
        #[cfg(target_os = "linux")]
        assert_eq!(
            u128::from(sockopt::tcp_user_timeout(&stream).unwrap()),
            limits::USER_TIMEOUT.as_millis()
        );
    }
}

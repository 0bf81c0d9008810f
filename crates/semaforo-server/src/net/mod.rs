//! The connection layer: many TCP connections (with or without TLS) on one thread.
//!
//! A program implements [`Service`], makes [`Connections`], lets them
//! [`listen`](Connections::listen) and [`run`](Connections::run)s them. The layer knows bytes, and
//! nothing of what they mean.
//!
//! ```no_run
//! use semaforo_server::net::{self, ConnectionId, Connections, Limits, Service};
//!
//! struct Echo;
//!
//! impl Service for Echo {
//!     fn received(&mut self, net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize {
//!         net.send(id, input);
//!         input.len()
//!     }
//! }
//!
//! let mut net = Connections::new(Limits::default())?;
//! net.listen(net::bind("127.0.0.1:0".parse().unwrap())?, None)?;
//! net.run(&mut Echo)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Seams
//!
//! **Input.** A service is offered everything that a connection has sent and the service has not
//! consumed, and says how much it consumes. Usually that is the loop's one read buffer; only what
//! is left over is kept with the connection. [`pause`](Connections::pause) and
//! [`resume`](Connections::resume) stop and continue a connection; nothing is lost meanwhile, the
//! peer is held back by TCP.
//!
//! **Output.** [`output`](Connections::output) appends; nothing is written before the service says
//! so, with [`flush`](Connections::flush) or [`flush_to`](Connections::flush_to), usually in
//! [`turn_ends`](Service::turn_ends), once its journal is safe. Positions in the stream are
//! absolute: [`queued`](Connections::queued) is where the next byte goes,
//! [`accepted`](Connections::accepted) is how far the socket has taken it, so a service that notes
//! where an answer begins can tell, when the connection is [`closed`](Service::closed), whether a
//! byte of it ever left.
//!
//! **Back-pressure.** A peer with more unsent output than the limit is not read from, and the
//! service learns it ([`congested`](Service::congested)); if it stays so, the connection is closed.
//! At the limit of connections accepting pauses: newcomers wait in the kernel's backlog. All
//! buffers together have a [`Budget`], which several loops can share.
//!
//! **The end.** A peer that has sent everything ([`ended`](Service::ended)) still gets its answers;
//! the connection is finished when all it sent was offered and it is not paused. Whatever the
//! reason, [`closed`](Service::closed) comes last and once. When the loop is told to
//! [`stop`](Connections::stop), connections that the system has accepted and the loop has not are
//! opened, get an answer, and are finished.
//!
//! **Cost.** One `epoll_wait` for all that is ready, one `read` and one `write` for each connection
//! in a turn, however many requests that is. Sockets are registered once, for both directions,
//! edge-triggered; a read that comes up short is known to have emptied the socket. An idle
//! connection owns no buffer.
//!
//! # Inside
//!
//! `turn` is the loop; `connections` is the table and what a service may ask of it, with `input`,
//! `output` and `accepting` as its parts; `connection` is one of them. A connection whose input can
//! move is on a list (`ready`, or `next` when it had its share of this turn); one whose output can
//! move is written to by the service's flush, or by the event that says that there is room again.
//! What is found out while the service runs (a write that fails) becomes a notice, delivered after
//! the callback, so that callbacks never nest.

mod accepting;
mod budget;
mod buffers;
mod connection;
mod connections;
mod deadlines;
mod descriptors;
mod input;
pub mod limits;
mod listener;
mod output;
mod service;
mod signals;
pub mod tls;
mod turn;
mod waker;

pub use budget::Budget;
pub use connections::{Connections, Statistics};
pub use descriptors::{open_files, raise_open_files};
pub use limits::Limits;
pub use listener::bind;
pub use service::{Closed, ConnectionId, ListenerId, Peer, Reason, Service};
pub use waker::Waker;

//! How long, how many, how large. What is counted in the kernel is in
//! [`kernel::Limits`](crate::kernel::Limits), what sockets cost in
//! [`net::limits`](crate::net::limits), what a request can say in [`semaforo_protocol::limits`].

use std::time::Duration;

/// Requests of one connection that may wait at a time.
pub const MAX_WAITS: usize = 100_000;
/// The most bytes of a request of a client that has not shown a token yet, on a server that wants
/// tokens.
pub const STRANGER_FRAME: usize = 4096;
/// A client that has not shown a token is closed when so many bytes of answers wait for it.
pub const STRANGER_OUTPUT: usize = 64 << 10;
/// Lines of the log about refused requests, a second. More of them are counted.
pub const AUDITED: usize = 100;
/// Requests of one connection are handled for so long in one turn of the loop; then it is the
/// others' turn.
pub const SHARE: Duration = Duration::from_millis(4);
/// In a turn that has lasted for longer than this, there is only the [small share](SMALL_SHARE)
/// left for each.
pub const BUSY_TURN: Duration = Duration::from_millis(8);
/// What a connection gets in a turn that has lasted for long: a request, or a few cheap ones.
pub const SMALL_SHARE: Duration = Duration::from_micros(200);
/// The clock is looked at after so many requests: often enough for the dearest, rarely enough for
/// the cheapest.
pub const LOOK_EVERY: u32 = 4;
/// Statistics are made for `/metrics` at most so often.
pub const PUBLISHED_EVERY: Duration = Duration::from_millis(500);
/// Requests of HTTP clients that may be under way, waiting ones included.
pub const MAX_HTTP_REQUESTS: usize = 10_000;
/// A server whose main loop has not turned for so long, although it was woken, is not well:
/// `/healthz` says 503.
pub const MAX_TURN: Duration = Duration::from_secs(10);

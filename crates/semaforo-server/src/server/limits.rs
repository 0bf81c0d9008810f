//! How long, how many, how large. What is counted in the kernel is in [`kernel::Limits`](crate::kernel::Limits), what
//! sockets cost in [`net::limits`](crate::net::limits).

use std::time::Duration;

/// The longest name of an object, in bytes.
pub const MAX_NAME: usize = 255;
/// The longest id of a request, and label of a session, in bytes.
pub const MAX_ID: usize = 128;
/// A session's time to live, if it does not say: long enough for a pause, short enough to wait for.
pub const DEFAULT_TTL: u64 = 30_000;
/// The shortest time to live: below that a busy network ends sessions at random.
pub const MIN_TTL: u64 = 100;
/// The longest time to live: a day.
pub const MAX_TTL: u64 = 86_400_000;
/// The longest delay of a message, and the longest time limit: thirty years. Longer is for ever.
pub const MAX_DELAY: u64 = 30 * 365 * 86_400_000;
/// The most that a list shows.
pub const MAX_LIST: usize = 100_000;
/// What a list shows, if it does not say.
pub const DEFAULT_LIST: usize = 1000;
/// Numbers of requests stay below this, so that every JSON reader can represent them.
pub const MAX_SEQ: u64 = 1 << 53;
/// Requests of one connection that may wait at a time.
pub const MAX_WAITS: usize = 100_000;
/// Figures are made for `/metrics` at most so often.
pub const PUBLISHED_EVERY: Duration = Duration::from_millis(500);
/// Requests of HTTP clients that may be under way, waiting ones included.
pub const MAX_HTTP_REQUESTS: usize = 10_000;
/// A server whose main loop has not turned for so long, although it was woken, is not well: `/healthz` says 503.
pub const MAX_TURN: Duration = Duration::from_secs(10);

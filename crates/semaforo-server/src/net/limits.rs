//! What a connection may cost, in places, bytes and time.

use std::time::Duration;

use super::Budget;

/// Connections at a time, unless told otherwise. Each costs a file descriptor, some kernel memory
/// and a few hundred bytes here; ten thousand of them are a busy site and still less than 200 MiB.
pub const CONNECTIONS: usize = 10_000;

/// Output that may wait for a peer before nothing more is read from it. As large as the largest
/// frame, so that an answer never stops a peer that keeps up.
pub const OUTPUT: usize = 1 << 20;

/// Input that a service may leave unconsumed. A service has a limit of its own for what it reads,
/// and that one answers politely; this one only bounds the damage of a service that forgot.
pub const INPUT: usize = 64 << 20;

/// Bytes of all buffers of connections together, unless told otherwise: as much as a thousand of
/// them can have, or a hundred kilobytes for each of ten thousand.
pub const BUFFERS: usize = 1 << 30;

/// A peer that takes nothing for so long while output waits for it is closed.
pub const STUCK: Duration = Duration::from_secs(30);

/// A new connection has so long for its first request, or its place is given to another.
pub const FIRST_REQUEST: Duration = Duration::from_secs(10);

/// A request of at most a MiB has so long from its first byte to its last: a line of 300 kbit/s.
/// Larger ones have more.
pub const UNFINISHED: Duration = Duration::from_secs(30);

/// When all places are taken, a client that has not made itself known for so long, or has been slow
/// for so long, loses its place to another.
pub const MOMENT: Duration = Duration::from_secs(1);

/// What is asked for in the name of a stop is flushed for at most so long.
pub const DRAIN: Duration = Duration::from_secs(5);

/// How long a finished connection is listened to before it is closed. Closing with unread input
/// makes the kernel reset the connection, and a reset can overtake the last answer.
pub const LINGER: Duration = Duration::from_secs(1);

/// After running out of file descriptors or kernel memory, accepting is tried again so much later
/// (or as soon as a connection closes).
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections accepted in one turn: a flood of new ones must not keep the old ones waiting.
pub const ACCEPTS_PER_TURN: usize = 256;

/// Connections the kernel may complete while accepting is paused. The kernel cuts it to its own
/// limit (`net.core.somaxconn`, usually 4096).
pub const BACKLOG: i32 = 4096;

/// The shared read buffer, and the most that one connection is read in one turn.
pub const READ_BUFFER: usize = 64 << 10;

/// Idle time after which the kernel probes whether a peer is still there, and between the probes.
pub const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);

/// Time between two unanswered keep-alive probes.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Unanswered keep-alive probes until a peer counts as dead: 15 s + 3 x 5 s, the same 30 s as
/// below.
pub const KEEP_ALIVE_PROBES: u32 = 3;

/// The kernel gives up a peer that acknowledges nothing for so long.
pub const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Events taken from the kernel at a time.
pub(super) const EVENTS: usize = 1024;

/// How often the kernel is asked again within a turn while it has more events than fit. Together
/// with [`EVENTS`] more than there are connections: after a pause of the whole process every socket
/// is read before any deadline is looked at.
pub(super) const EVENT_ROUNDS: usize = 16;

/// Descriptors that are not connections: listeners, journal segments, the poller, signals, the log.
pub const OTHER_DESCRIPTORS: u64 = 256;

/// The limits of one [`Connections`](super::Connections).
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time; at the limit accepting pauses, and newcomers wait in the backlog.
    pub connections: usize,
    /// Unsent bytes of a connection above which it is not read from.
    pub output: usize,
    /// Unconsumed input of a connection above which it is closed.
    pub input: usize,
    /// A peer that takes nothing for so long is closed.
    pub stuck: Duration,
    /// Bytes of all buffers together, also of other loops that have the same budget.
    pub buffers: Budget,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            output: OUTPUT,
            input: INPUT,
            stuck: STUCK,
            buffers: Budget::default(),
        }
    }
}

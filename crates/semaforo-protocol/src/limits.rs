//! How long, how many, how large: the limits of requests and answers that both sides know.

/// The port of a server that was told none.
pub const PORT: u16 = 13_000;
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
/// Fences stay below this, for the same reason.
pub const MAX_FENCE: u64 = 1 << 53;
/// The most permits of a semaphore.
pub const MAX_PERMITS: u32 = (1 << 30) - 1;
/// The most parties that a barrier can have.
pub const MAX_PARTIES: u32 = 1 << 20;
/// Numbered requests of a session may be so far above the last one whose answer is acknowledged:
/// the server keeps the answers in between.
pub const MAX_OUTSTANDING: u64 = 1024;
/// The most bytes of an answer that a client reads. Answers can be larger than requests: lists are.
pub const MAX_ANSWER: usize = 64 << 20;

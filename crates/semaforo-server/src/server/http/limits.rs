//! What HTTP may cost.

use std::time::Duration;

/// Connections at a time. Each may hold one request that waits; programs that hold thousands use
/// the TCP port, where one connection carries them all.
pub const CONNECTIONS: usize = 1000;

/// Places beyond those, for health, statistics and administration.
pub const RESERVED: usize = 16;

/// Bytes of a request line and its headers, or of the trailers of a body. Ours are short; browsers
/// and proxies stay below 8 KiB.
pub const HEAD: usize = 16 << 10;

/// Headers of a request.
pub(super) const HEADERS: usize = 100;

/// From the first byte of a request to the end of its headers, however slowly they come.
pub const HEAD_TIME: Duration = Duration::from_secs(10);

/// From the end of the headers to the end of the body: a full body over a line of 300 kbit/s.
pub const BODY_TIME: Duration = Duration::from_secs(30);

/// Between two requests of a connection. Longer than the minute that many clients keep connections,
/// so that clients close first.
pub const IDLE_TIME: Duration = Duration::from_secs(75);

/// For everything that a connection in a reserved place does: sixteen silent ones must not keep an
/// operator out.
pub const RESERVED_TIME: Duration = Duration::from_secs(2);

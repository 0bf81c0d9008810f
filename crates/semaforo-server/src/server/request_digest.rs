//! What makes two requests the same: the digest of a request.

use semaforo_protocol::wire::Request;

/// Headers that may differ between a request and its repetition.
const CHANGING: [&str; 6] = ["id", "timeout", "session", "seq", "acked", "token"];

/// A digest of what a request asks for. It is kept in the journal, so it is the same for all time:
/// FNV-1a, 64 bits.
pub(super) fn request_digest(request: &Request<'_>) -> u64 {
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    hash.add(request.method.to_ascii_uppercase().as_bytes());
    hash.add(request.path.as_bytes());
    let mut headers: Vec<_> = request
        .headers
        .iter()
        .filter(|(name, _)| !CHANGING.iter().any(|other| name.eq_ignore_ascii_case(other)))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    headers.sort_unstable();
    for (name, value) in headers {
        hash.add(name.as_bytes());
        hash.add(value.as_bytes());
    }
    hash.add(request.payload.unwrap_or_default());
    hash.0
}

struct Hash(u64);

impl Hash {
    /// Adds a part, and its end.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.0 = (self.0 ^ 0x100).wrapping_mul(0x0000_0100_0000_01b3);
    }
}

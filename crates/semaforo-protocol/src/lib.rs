//! What a client and a server have to agree on: the bytes of requests and answers, and the limits
//! of what they can say.
//!
//! [`wire`] reads and writes the bytes, [`limits`] has the numbers. Nothing here knows a socket, a
//! clock or a file. What the requests mean is in `docs/protocol.md`.

#![forbid(unsafe_code)]

pub mod limits;
pub mod wire;

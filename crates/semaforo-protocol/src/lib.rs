//! What a client and a server have to agree on: the bytes of requests and answers, the methods that
//! there are, and the limits of what they can say.
//!
//! [`wire`] reads and writes the bytes, [`table`] has a row for each method of each [`Kind`] of
//! object, [`limits`] has the numbers. Nothing here knows a socket, a clock or a file. What the
//! requests mean is in `docs/protocol.md`.

#![forbid(unsafe_code)]

mod kind;
pub mod limits;
pub mod table;
pub mod wire;

pub use kind::Kind;

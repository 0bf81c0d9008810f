//! Processes: the children of `run` and `work`, and what watches over them.
//!
//! A child is the leader of a process group of its own, so that signals reach whatever it starts.
//! It must not outlive the hold that it runs under, whatever dies first:
//!
//! | what happens | who ends the child |
//! |---|---|
//! | the session is lost, or about to be | the client, which looks at its [session](semaforo_client::Session) |
//! | the client is stopped, or hangs, until the session is about to be lost | the [guardian] |
//! | the client is killed | the guardian, and the kernel: the child asked for a signal at its parent's death |
//! | the client and its guardian are killed | the kernel |

pub(super) mod group;
pub(super) mod guarded_session;
pub(super) mod guardian;
mod guardian_messages;
pub(super) mod lifetime;
mod lines;
pub(super) mod signals;
pub(super) mod terminal;

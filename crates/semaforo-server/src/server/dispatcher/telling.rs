//! What the log is told of, when it wants to know everything.

use super::Dispatcher;
use super::client::Caller;
use crate::kernel::{Answer, Content, SessionEnd};
use crate::server::log::Level;

impl Dispatcher {
    /// Tells which sessions have ended in this turn, and if the disk was slow.
    pub(super) fn tell(&mut self) {
        if let Some((took, bytes)) = self.engine.slow_batch() {
            self.log.warning(format_args!("journal: a batch of {bytes} bytes took {took:.1?}"));
        }
        if let Some(took) = self.engine.slow_sync() {
            self.log.warning(format_args!("journal: a sync took {took:.1?}"));
        }
        for session in self.engine.out.ended.drain(..) {
            let why = match session.why {
                SessionEnd::Closed => "was closed",
                SessionEnd::Expired => "has ended: nothing was heard of it",
            };
            self.accounts.ended(session.id);
            self.log.debug(format_args!("session {:?} {why}", session.label));
        }
    }

    /// Tells what was refused, and why.
    pub(super) fn tell_refusal(&self, caller: Caller, answer: &Answer) {
        if !self.log.logs(Level::Debug) {
            return;
        }
        let Content::Error(reason) = &answer.content else { return };
        let status = answer.status.number();
        match caller {
            Caller::Tcp(id) => self.log.debug(format_args!("{id}: {status}: {reason}")),
            Caller::Http(_) => self.log.debug(format_args!("http: {status}: {reason}")),
        }
    }
}

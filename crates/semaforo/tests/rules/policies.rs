//! Any policy is a rule.

use std::convert::Infallible;

use semaforo::Policy;
use semaforo::policy::{Access, Exclusive, ReadWrite};
use semaforo::rule::{Contended, Reply, Rule};

use crate::support::Step;

struct Word<P> {
    policy: P,
    state: u64,
}

impl<P: Policy<Refusal = Infallible, Ask: 'static>> Rule for Word<P> {
    type Request = P::Ask;
    type Answer = P::Ask;

    fn serve(&mut self, ask: P::Ask) -> Reply<Self> {
        let Some(state) = self.policy.acquire(self.state, ask) else { return Reply::Wait(ask) };
        self.state = state;
        let undoes = self.policy.undo(ask).is_some();
        if undoes { Reply::Lent(ask, Self::give_back) } else { Reply::Done(ask) }
    }
}

impl<P: Policy> Word<P> {
    fn give_back(&mut self, ask: P::Ask) -> P::Ask {
        let left =
            self.policy.undo(ask).and_then(|give| self.policy.release(self.state, give).ok());
        self.state = left.unwrap_or(self.state);
        ask
    }
}

#[test]
fn a_lock_by_its_policy() {
    let lock = Contended::new(Word { policy: Exclusive, state: 0 });
    let held = lock.hold(()).wait();
    let mut waits = Step::queued(lock.hold(()));
    assert!(lock.try_hold(()).is_err());
    drop(held);
    drop(waits.expect_ready());
    assert!(lock.try_hold(()).is_ok());
}

#[test]
fn a_reader_writer_lock_by_its_policy() {
    let lock = Contended::new(Word { policy: ReadWrite, state: ReadWrite::initial(false) });
    let (one, two) = (lock.hold(Access::Read).wait(), lock.hold(Access::Read).wait());
    let mut writes = Step::queued(lock.hold(Access::Write));
    drop(one);
    writes.expect_pending();
    drop(two);
    drop(writes.expect_ready());
}

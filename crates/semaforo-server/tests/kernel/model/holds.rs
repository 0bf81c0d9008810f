//! Locks, semaphores, reader-writer locks, latches, events.

use semaforo_server::kernel::{Header, HoldMode, Verb};

use super::{Ask, Expected, Hold, Model, Received};
use crate::support::{Caller, Request};

impl Model {
    fn held(&self, name: &str) -> impl Iterator<Item = &Hold> {
        self.holds.iter().filter(move |hold| hold.name == name)
    }

    fn fits(&self, name: &str, ask: &Ask) -> bool {
        match (name, *ask) {
            ("lock", _) => self.held(name).next().is_none(),
            ("semaphore", Ask::Hold(HoldMode::Permits(asked))) => self.available() >= asked,
            ("open", Ask::Hold(HoldMode::Permits(asked))) => self.count("open") >= asked,
            ("rwlock", Ask::Hold(HoldMode::Read)) => {
                self.held(name).all(|hold| hold.mode == HoldMode::Read)
            }
            ("rwlock", _) => self.held(name).next().is_none(),
            ("latch", _) => self.counts[name] == 0,
            (_, _) => self.counts[name] == 1,
        }
    }

    pub(crate) fn available(&self) -> u32 {
        let held = self.held("semaphore").map(|hold| match hold.mode {
            HoldMode::Permits(permits) => permits,
            HoldMode::Read | HoldMode::Write => 0,
        });
        self.permits.saturating_sub(held.sum())
    }

    /// A count, of an open semaphore.
    pub(crate) fn count(&self, name: &str) -> u32 {
        self.counts[name].try_into().unwrap()
    }

    /// Whether more permits are asked for than there can be.
    fn is_too_much(&self, name: &str, ask: &Ask) -> bool {
        match (name, *ask) {
            ("semaphore", Ask::Hold(HoldMode::Permits(asked))) => asked > self.permits,
            ("open", Ask::Hold(HoldMode::Permits(asked))) => asked > self.count("most"),
            _ => false,
        }
    }

    fn let_in(
        &mut self,
        owner: super::Owner,
        request: Request,
        name: &'static str,
        ask: Ask,
    ) -> Expected {
        let mut answer = Expected::status(200);
        match ask {
            Ask::Hold(HoldMode::Permits(used)) if name == "open" => {
                self.counts.insert(name, self.counts[name] - u64::from(used));
            }
            Ask::Hold(mode) => {
                self.holds.push(Hold { granted: request, name, owner, mode });
                answer.fence = Some(request);
            }
            _ if self.auto.contains(name) => drop(self.counts.insert(name, 0)),
            _ => {}
        }
        answer
    }

    pub(super) fn settle_gate(&mut self, name: &'static str, write_ended: bool) {
        loop {
            let is_read = |ask: &Ask| *ask == Ask::Hold(HoldMode::Read);
            let is_write = |ask: &Ask| *ask == Ask::Hold(HoldMode::Write);
            let first = if name != "rwlock" {
                self.first(name, |_| true)
            } else if write_ended {
                self.first(name, is_read).or(self.first(name, is_write))
            } else {
                self.first(name, is_write).or(self.first(name, is_read))
            };
            if let Some(wait) = first.filter(|wait| self.is_too_much(name, &wait.ask)) {
                self.complete(wait.request, Expected::status(400));
                continue;
            }
            let Some(wait) = first.filter(|wait| self.fits(name, &wait.ask)) else { return };
            let answer = self.let_in(wait.owner, wait.request, name, wait.ask);
            self.complete(wait.request, answer);
        }
    }

    /// The hold that is meant: the kernel's fence is known to the runner, which put the grant's
    /// request there.
    fn mine(&self, caller: &Caller, name: &str, fence: Option<u64>) -> Result<usize, u16> {
        let owner = Self::owner(caller);
        let mut all = (0..self.holds.len()).filter(|at| {
            let hold = &self.holds[*at];
            let meant = fence.is_none_or(|fence| fence == hold.granted.0);
            hold.name == name && hold.owner == owner && meant
        });
        match (all.next(), all.next()) {
            (Some(at), None) => Ok(at),
            (None, _) => Err(410),
            (Some(_), Some(_)) => Err(400),
        }
    }

    pub(super) fn ask_gate(
        &mut self,
        caller: &Caller,
        request: Request,
        name: &'static str,
        verb: Verb<'static>,
    ) -> Received {
        let answered = |status| Received::Answered(Expected::status(status));
        match verb {
            Verb::Acquire(mode) if self.is_too_much(name, &Ask::Hold(mode)) => answered(400),
            Verb::Acquire(mode) => self.enter(caller, request, name, Ask::Hold(mode)),
            Verb::Wait => self.enter(caller, request, name, Ask::Pass),
            Verb::Release { fence: None, permits } if name == "open" => {
                let count = self.counts[name] + u64::from(permits.unwrap_or(1));
                if count > self.counts["most"] {
                    return answered(409);
                }
                self.counts.insert(name, count);
                self.settle(name, false);
                answered(200)
            }
            Verb::Resize { permits } => {
                if name == "open" {
                    self.counts.insert("most", permits.into());
                    self.counts.insert(name, self.counts[name].min(permits.into()));
                } else {
                    self.permits = permits;
                }
                self.settle(name, false);
                answered(200)
            }
            Verb::Release { fence, permits } => {
                let at = match self.mine(caller, name, fence) {
                    Ok(at) => at,
                    Err(status) => return answered(status),
                };
                let before = self.holds[at].mode;
                match (permits, before) {
                    (Some(given), HoldMode::Permits(held)) if given > held => return answered(400),
                    (Some(given), HoldMode::Permits(held)) if given < held => {
                        self.holds[at].mode = HoldMode::Permits(held - given);
                    }
                    (Some(_), HoldMode::Read | HoldMode::Write) => return answered(400),
                    _ => drop(self.holds.remove(at)),
                }
                self.settle(name, before == HoldMode::Write);
                answered(200)
            }
            Verb::Check { fence } => {
                let there = self.held(name).any(|hold| hold.granted.0 == fence);
                answered(if there { 200 } else { 410 })
            }
            Verb::Downgrade { fence } => match self.mine(caller, name, fence) {
                Ok(at) if self.holds[at].mode == HoldMode::Write => {
                    self.holds[at].mode = HoldMode::Read;
                    let fence = Some(self.holds[at].granted);
                    self.settle(name, true);
                    Received::Answered(Expected { fence, ..Expected::status(200) })
                }
                Ok(_) => answered(409),
                Err(status) => answered(status),
            },
            Verb::Upgrade { fence } => match self.mine(caller, name, fence) {
                Ok(at) if self.held(name).count() == 1 && self.holds[at].mode == HoldMode::Read => {
                    self.holds[at].mode = HoldMode::Write;
                    self.holds[at].granted = request;
                    Received::Answered(Expected { fence: Some(request), ..Expected::status(200) })
                }
                Ok(_) => answered(409),
                Err(status) => answered(status),
            },
            Verb::Down { by } => {
                let left = self.counts[name];
                if by > 1 && u64::from(by) > left {
                    return answered(400);
                }
                self.set_count(name, left.saturating_sub(by.into()))
            }
            Verb::Reset { count } if name == "latch" => {
                self.set_count(name, count.map_or(self.counts["start"], u64::from))
            }
            Verb::Set | Verb::Reset { .. } => {
                self.counts.insert(name, u64::from(verb == Verb::Set));
                self.settle(name, false);
                answered(200)
            }
            other => unreachable!("{other:?} is not asked for"),
        }
    }

    fn set_count(&mut self, name: &'static str, count: u64) -> Received {
        self.counts.insert(name, count);
        self.settle(name, false);
        Received::Answered(Expected::status(200).number(Header::Count, count))
    }

    fn enter(
        &mut self,
        caller: &Caller,
        request: Request,
        name: &'static str,
        ask: Ask,
    ) -> Received {
        let nobody = self.first(name, |_| true).is_none();
        let nothing = ask == Ask::Hold(HoldMode::Permits(0));
        if (nobody || nothing) && self.fits(name, &ask) {
            return Received::Answered(self.let_in(Self::owner(caller), request, name, ask));
        }
        if caller.timeout == Some(0) {
            return Received::Answered(Expected::status(204));
        }
        self.wait(caller, request, name, ask)
    }
}

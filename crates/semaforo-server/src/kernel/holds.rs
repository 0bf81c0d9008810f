//! Holds of locks, semaphores and reader-writer locks, and passing latches and events: requests,
//! and what the policies let in.

use semaforo::policy::{CountDown, CountError, Lanes};

use super::answer::{Answer, Header, Status};
use super::decide::{bad_request, error, no_such_method};
use super::event::Event;
use super::ids::{ObjectId, WaitId};
use super::policy_object::{Entry, Give, PolicyObject};
use super::semaphores::too_many;
use super::session::Owner;
use super::state::{Body, Hold, Object, Postponed};
use super::verb::{HoldMode, Verb};
use super::waits::Ask;
use super::{Kernel, Kind, Output, Reply, RequestContext};

impl Kernel {
    pub(super) fn policy(&self, id: ObjectId) -> Option<&PolicyObject> {
        match self.state.object(id) {
            Some(Object { body: Body::Policy(policy), .. }) => Some(policy),
            _ => None,
        }
    }

    /// What is asked of a lock, semaphore, reader-writer lock, latch or event that is there.
    pub(super) fn serve_policy(
        &mut self,
        context: &RequestContext,
        kind: Kind,
        id: ObjectId,
        verb: Verb<'_>,
        out: &mut Output,
    ) -> Reply {
        match (kind, verb) {
            (Kind::Semaphore, Verb::Acquire(mode)) => self.acquire(context, id, mode, out),
            (Kind::Semaphore, Verb::Release { fence: None, permits }) if self.is_open_at(id) => {
                self.add_permits(id, permits.unwrap_or(1), out)
            }
            (Kind::Semaphore, Verb::Release { fence, permits }) => {
                self.release(context, id, fence, permits, out)
            }
            (Kind::Semaphore, Verb::Resize { permits }) => self.resize(id, permits, out),
            // These know nothing of permits.
            (Kind::Lock | Kind::ReadWriteLock, Verb::Release { fence, .. }) => {
                self.release(context, id, fence, None, out)
            }
            (Kind::Lock | Kind::Semaphore | Kind::ReadWriteLock, Verb::Check { fence }) => {
                self.check(id, fence)
            }
            (Kind::ReadWriteLock, Verb::Downgrade { fence }) => {
                self.downgrade(context, id, fence, out)
            }
            (Kind::ReadWriteLock, Verb::Upgrade { fence }) => self.upgrade(context, id, fence, out),
            (Kind::Latch | Kind::Event, Verb::Wait) => self.enter(context, id, Entry::Pass, out),
            (Kind::Latch, Verb::Down { by }) => self.count_down(id, by, out),
            (Kind::Latch, Verb::Reset { count }) => self.reset_latch(id, count, out),
            (Kind::Event, Verb::Set) => self.signal(id, true, out),
            (Kind::Event, Verb::Reset { .. }) => self.signal(id, false, out),
            (kind, verb) => no_such_method(kind, verb),
        }
    }

    /// A request for a hold of an object that exists by being used.
    pub(super) fn enter_by_use(
        &mut self,
        context: &RequestContext,
        kind: Kind,
        name: &str,
        mode: HoldMode,
        out: &mut Output,
    ) -> Reply {
        if self.state.find(kind, name).is_none()
            && let Some(refusal) = self.no_more_objects()
        {
            return Reply::Answer(refusal);
        }
        match self.state.find_or_make(kind, name) {
            Ok(id) => {
                let reply = self.enter(context, id, Entry::Hold(mode), out);
                self.state.vanish(id);
                reply
            }
            Err(bad) => bad_request(bad.to_string()),
        }
    }

    /// Lets a request in, now or later.
    pub(super) fn enter(
        &mut self,
        context: &RequestContext,
        id: ObjectId,
        entry: Entry,
        out: &mut Output,
    ) -> Reply {
        let Some(Object { body: Body::Policy(policy), lines, .. }) = self.state.object(id) else {
            return error(Status::NotFound, "there is no such object");
        };
        let first = lines.iter().all(|line| line.is_empty());
        let is_held = matches!(entry, Entry::Hold(_)) && !policy.is_open();
        if is_held && self.state.hold_count() >= self.limits.holds {
            let reason = format!("there are {} holds already", self.limits.holds);
            return error(Status::OverLimit, reason);
        }
        if let Some(refusal) = self.no_memory(0) {
            return Reply::Answer(refusal);
        }
        if (first || policy.overtakes(entry)) && policy.admit(entry).is_some() {
            return Reply::Answer(self.admit(context.owner, id, entry, out));
        }
        if context.is_impatient() && !self.is_postponed(id) {
            return Reply::Answer(Answer::plain(Status::TimedOut));
        }
        let lane = policy.lane(entry);
        self.wait(context, id, lane, Ask::Enter(entry))
    }

    /// Lets a request in that the policy allows in.
    fn admit(&mut self, owner: Owner, id: ObjectId, entry: Entry, out: &mut Output) -> Answer {
        match entry {
            Entry::Pass => {
                let passed = self.policy(id).filter(|policy| policy.passing_changes());
                if let Some(count) = passed.and_then(|policy| policy.admit(entry)) {
                    self.emit(&Event::Counted { object: id, count }, out);
                }
                Answer::done()
            }
            Entry::Hold(_) if self.is_open_at(id) => self.use_up(id, entry, out),
            Entry::Hold(mode) => {
                let fence = self.fence(out);
                match owner {
                    Owner::Session(session) => {
                        let Some(object) = self.state.object(id) else { unreachable!() };
                        let (kind, name) = (object.kind, object.name.clone());
                        let name = &*name;
                        self.emit(&Event::Granted { session, fence, kind, name, mode }, out);
                    }
                    Owner::Connection(_) => {
                        let granted = self.state.grant(owner, fence, id, mode);
                        debug_assert_eq!(granted, Ok(()));
                    }
                }
                Answer::done().with(Header::Fence, fence)
            }
        }
    }

    /// Lets in the requests whose turn it is now, as long as the budget of the output allows; the
    /// others are postponed, and all that come later stand behind them.
    pub(super) fn pump_policy(&mut self, id: ObjectId, given: Option<Give>, out: &mut Output) {
        if self.state.object(id).is_some_and(|object| object.is_retired) {
            return;
        }
        let is_open = self.policy(id).is_some_and(|policy| policy.admit(Entry::Pass).is_some());
        let (given, upto) = match self.state.object(id).and_then(|object| object.postponed) {
            // What was given back earlier comes first: the end of a write lets in all readers that
            // waited then.
            Some(Postponed { given: Some(earlier), upto, .. }) => (Some(earlier), upto),
            Some(Postponed { given: None, upto, .. }) if !is_open => (given, upto),
            _ => (given, self.waits.last_ticket()),
        };
        while let Some(Object { body: Body::Policy(policy), lines, .. }) = self.state.object(id) {
            let waiting = Lanes::from_bits(
                u8::from(!lines[0].is_empty()) | u8::from(!lines[1].is_empty()) << 1,
            );
            let waited =
                lines[0].head().and_then(|wait_id| self.waits.ticket(wait_id)) <= Some(upto);
            let lane = policy.next_lane(given.filter(|_| waited), waiting);
            let Some(wait_id) = lines[lane].head() else { break };
            let Some(wait) = self.waits.get(wait_id) else { break };
            let Ask::Enter(entry) = wait.ask else { break };
            let refusal = too_many(policy, entry);
            if refusal.is_none() && policy.admit(entry).is_none() && !self.was_let_through(wait_id)
            {
                break;
            }
            if out.is_full_for(wait, 0) {
                return self.postpone(id, given, upto);
            }
            if self.comes_too_late(wait_id, out) {
                continue;
            }
            let Some(wait) = self.waits.get(wait_id) else { break };
            let owner = wait.owner;
            let answer = refusal.unwrap_or_else(|| self.admit(owner, id, entry, out));
            self.complete(wait_id, answer, out);
        }
        self.forget_postponed(id);
        self.state.vanish(id);
    }

    /// Whether a request that waits at a latch or an event was let through, and only its answer was
    /// postponed: the latch or event may have been reset since then.
    pub(super) fn was_let_through(&self, wait_id: WaitId) -> bool {
        let Some(wait) = self.waits.get(wait_id).filter(|wait| !wait.dormant) else { return false };
        let Some(object) = self.state.object(wait.object) else { return false };
        matches!(wait.ask, Ask::Enter(Entry::Pass))
            && matches!(&object.body, Body::Policy(policy) if !policy.passing_changes())
            && object.postponed.is_some_and(|earlier| wait.ticket() <= earlier.upto)
    }

    /// The hold that is meant, if its owner asks.
    fn hold_of(
        &self,
        context: &RequestContext,
        id: ObjectId,
        fence: Option<u64>,
    ) -> Result<(u64, Hold), Reply> {
        let gone = || error(Status::Gone, "that is not held (any more) by this session");
        let mine = |fence: u64| {
            let hold = self.state.hold(fence)?;
            (hold.object == id && hold.owner == context.owner).then_some((fence, hold))
        };
        if let Some(fence) = fence {
            return mine(fence).ok_or_else(gone);
        }
        let holdings = self.state.holdings(context.owner).ok_or_else(gone)?;
        let mut all = holdings.holds_of(id).filter_map(mine);
        match (all.next(), all.next()) {
            (Some(hold), None) => Ok(hold),
            (None, _) => Err(gone()),
            (Some(_), Some(_)) => {
                Err(bad_request("this session holds it more than once: say which with fence"))
            }
        }
    }

    pub(super) fn release(
        &mut self,
        context: &RequestContext,
        id: ObjectId,
        fence: Option<u64>,
        permits: Option<u32>,
        out: &mut Output,
    ) -> Reply {
        let (fence, hold) = match self.hold_of(context, id, fence) {
            Ok(hold) => hold,
            Err(reply) => return reply,
        };
        let permits = match (permits, hold.mode) {
            (None, _) => 0,
            (Some(permits), HoldMode::Permits(held)) if permits <= held => {
                if permits == 0 && held > 0 {
                    return Reply::Answer(Answer::done());
                }
                permits
            }
            (Some(permits), _) => {
                return bad_request(format!("the hold has fewer than {permits} permits"));
            }
        };
        let given = match hold.mode {
            HoldMode::Permits(held) if permits > 0 && permits < held => Give::Permits(permits),
            mode => Give::back(mode),
        };
        match context.owner {
            Owner::Session(_) => self.emit(&Event::Released { fence, permits }, out),
            Owner::Connection(key) => {
                let released = self.state.release(fence, permits);
                debug_assert!(released.is_ok());
                self.state.tidy_connection(key);
            }
        }
        self.pump_policy(id, Some(given), out);
        Reply::Answer(Answer::done())
    }

    pub(super) fn check(&self, id: ObjectId, fence: u64) -> Reply {
        match self.state.hold(fence) {
            Some(hold) if hold.object == id => Reply::Answer(Answer::done()),
            _ => error(Status::Gone, format!("nobody holds {fence} (any more)")),
        }
    }

    pub(super) fn downgrade(
        &mut self,
        context: &RequestContext,
        id: ObjectId,
        fence: Option<u64>,
        out: &mut Output,
    ) -> Reply {
        let (fence, hold) = match self.hold_of(context, id, fence) {
            Ok(hold) => hold,
            Err(reply) => return reply,
        };
        if hold.mode != HoldMode::Write {
            return error(Status::Conflict, "only a writer can become a reader");
        }
        self.convert(context.owner, fence, fence, HoldMode::Read, out);
        self.pump_policy(id, Some(Give::Downgrade), out);
        Reply::Answer(Answer::done().with(Header::Fence, fence))
    }

    pub(super) fn upgrade(
        &mut self,
        context: &RequestContext,
        id: ObjectId,
        fence: Option<u64>,
        out: &mut Output,
    ) -> Reply {
        let (fence, hold) = match self.hold_of(context, id, fence) {
            Ok(hold) => hold,
            Err(reply) => return reply,
        };
        if hold.mode != HoldMode::Read || !self.policy(id).is_some_and(PolicyObject::can_upgrade) {
            return error(Status::Conflict, "only the only reader can become the writer");
        }
        let into = self.fence(out);
        self.convert(context.owner, fence, into, HoldMode::Write, out);
        Reply::Answer(Answer::done().with(Header::Fence, into))
    }

    fn convert(&mut self, owner: Owner, fence: u64, into: u64, mode: HoldMode, out: &mut Output) {
        match owner {
            Owner::Session(_) => self.emit(&Event::Converted { fence, into, mode }, out),
            Owner::Connection(_) => {
                let converted = self.state.convert(fence, into, mode);
                debug_assert_eq!(converted, Ok(()));
            }
        }
    }

    pub(super) fn count_down(&mut self, id: ObjectId, by: u32, out: &mut Output) -> Reply {
        let Some(policy) = self.policy(id) else { unreachable!("a latch has a policy") };
        let change = if by == 1 { CountDown::One } else { CountDown::By(by) };
        match policy.counted(change) {
            Ok(count) => {
                if count != policy.count() {
                    self.set_count(id, count, out);
                }
                Reply::Answer(Answer::done().with(Header::Count, count))
            }
            Err(CountError::Zero) => {
                let count = policy.count();
                Reply::Answer(Answer::done().with(Header::Count, count))
            }
            Err(wrong) => bad_request(wrong.to_string()),
        }
    }

    pub(super) fn reset_latch(
        &mut self,
        id: ObjectId,
        count: Option<u32>,
        out: &mut Output,
    ) -> Reply {
        let Some(policy) = self.policy(id) else { unreachable!("a latch has a policy") };
        let count = u64::from(count.unwrap_or_else(|| policy.start()));
        self.set_count(id, count, out);
        Reply::Answer(Answer::done().with(Header::Count, count))
    }

    pub(super) fn signal(&mut self, id: ObjectId, set: bool, out: &mut Output) -> Reply {
        let Some(policy) = self.policy(id) else { unreachable!("an event has a policy") };
        let count = policy.signalled(set);
        if count != policy.count() {
            self.set_count(id, count, out);
        }
        Reply::Answer(Answer::done())
    }

    pub(super) fn set_count(&mut self, id: ObjectId, count: u64, out: &mut Output) {
        self.emit(&Event::Counted { object: id, count }, out);
        self.pump_policy(id, None, out);
    }
}

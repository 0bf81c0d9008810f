//! Locks, semaphores, reader-writer locks, latches and events: what the policies let in.

use semaforo::policy::{CountDown, CountError, Lanes};

use super::answer::{Answer, Header, Status};
use super::decide::{error, no_such_method, senseless};
use super::event::Event;
use super::gate::{Entry, Gate, Give};
use super::semaphores::too_many;
use super::session::Owner;
use super::state::{Body, Hold, Object, Postponed};
use super::verb::{Verb, Wish};
use super::waits::Ask;
use super::{Asker, Kernel, Kind, Output, Reply};

impl Kernel {
    pub(super) fn gate(&self, place: u32) -> Option<&Gate> {
        match self.state.object(place) {
            Some(Object { body: Body::Gate(gate), .. }) => Some(gate),
            _ => None,
        }
    }

    /// What is asked of a lock, semaphore, reader-writer lock, latch or event that is there.
    pub(super) fn serve_gate(
        &mut self,
        asker: &Asker,
        kind: Kind,
        place: u32,
        verb: Verb<'_>,
        out: &mut Output,
    ) -> Reply {
        match (kind, verb) {
            (Kind::Semaphore, Verb::Acquire(wish)) => self.acquire(asker, place, wish, out),
            (Kind::Semaphore, Verb::Release { fence: None, permits }) if self.is_open_at(place) => {
                self.add_permits(place, permits.unwrap_or(1), out)
            }
            (Kind::Semaphore, Verb::Release { fence, permits }) => {
                self.release(asker, place, fence, permits, out)
            }
            (Kind::Semaphore, Verb::Resize { permits }) => self.resize(place, permits, out),
            // These know nothing of permits.
            (Kind::Lock | Kind::ReadWriteLock, Verb::Release { fence, .. }) => {
                self.release(asker, place, fence, None, out)
            }
            (Kind::Lock | Kind::Semaphore | Kind::ReadWriteLock, Verb::Check { fence }) => {
                self.check(place, fence)
            }
            (Kind::ReadWriteLock, Verb::Downgrade { fence }) => {
                self.downgrade(asker, place, fence, out)
            }
            (Kind::ReadWriteLock, Verb::Upgrade { fence }) => {
                self.upgrade(asker, place, fence, out)
            }
            (Kind::Latch | Kind::Event, Verb::Wait) => self.enter(asker, place, Entry::Pass, out),
            (Kind::Latch, Verb::Down { by }) => self.count_down(place, by, out),
            (Kind::Latch, Verb::Reset { count }) => self.reset_latch(place, count, out),
            (Kind::Event, Verb::Set) => self.signal(place, true, out),
            (Kind::Event, Verb::Reset { .. }) => self.signal(place, false, out),
            (kind, verb) => no_such_method(kind, verb),
        }
    }

    /// Asks for a hold of something that exists by being used.
    pub(super) fn enter_by_use(
        &mut self,
        asker: &Asker,
        kind: Kind,
        name: &str,
        wish: Wish,
        out: &mut Output,
    ) -> Reply {
        if self.state.find(kind, name).is_none()
            && let Some(refusal) = self.no_more_objects()
        {
            return Reply::Answer(refusal);
        }
        match self.state.find_or_make(kind, name) {
            Ok(place) => {
                let reply = self.enter(asker, place, Entry::Hold(wish), out);
                self.state.vanish(place);
                reply
            }
            Err(bad) => senseless(bad.to_string()),
        }
    }

    /// Lets somebody in, now or later.
    pub(super) fn enter(
        &mut self,
        asker: &Asker,
        place: u32,
        entry: Entry,
        out: &mut Output,
    ) -> Reply {
        let Some(Object { body: Body::Gate(gate), lines, .. }) = self.state.object(place) else {
            return error(Status::NotFound, "there is no such object");
        };
        let first = lines.iter().all(|line| line.is_empty());
        let is_held = matches!(entry, Entry::Hold(_)) && !gate.is_open();
        if is_held && self.state.hold_count() >= self.limits.holds {
            let reason = format!("there are {} holds already", self.limits.holds);
            return error(Status::OverLimit, reason);
        }
        if let Some(refusal) = self.no_memory(0) {
            return Reply::Answer(refusal);
        }
        if (first || gate.overtakes(entry)) && gate.admit(entry).is_some() {
            return Reply::Answer(self.admit(asker.owner, place, entry, out));
        }
        if asker.is_impatient() && !self.is_postponed(place) {
            return Reply::Answer(Answer::plain(Status::TimedOut));
        }
        let lane = gate.lane(entry);
        self.wait(asker, place, lane, Ask::Enter(entry))
    }

    /// Lets somebody in whom the policy allows in.
    fn admit(&mut self, owner: Owner, place: u32, entry: Entry, out: &mut Output) -> Answer {
        match entry {
            Entry::Pass => {
                let passed = self.gate(place).filter(|gate| gate.passing_changes());
                if let Some(count) = passed.and_then(|gate| gate.admit(entry)) {
                    self.emit(&Event::Counted { place, count }, out);
                }
                Answer::done()
            }
            Entry::Hold(_) if self.is_open_at(place) => self.use_up(place, entry, out),
            Entry::Hold(wish) => {
                let fence = self.fence(out);
                match owner {
                    Owner::Session(session) => {
                        let Some(object) = self.state.object(place) else { unreachable!() };
                        let (kind, name) = (object.kind, object.name.clone());
                        let name = &*name;
                        self.emit(&Event::Granted { session, fence, kind, name, wish }, out);
                    }
                    Owner::Connection(_) => {
                        let granted = self.state.grant(owner, fence, place, wish);
                        debug_assert_eq!(granted, Ok(()));
                    }
                }
                Answer::done().with(Header::Fence, fence)
            }
        }
    }

    /// Lets in the requests whose turn it is now, as long as there is room in the output; the others are
    /// postponed, and all that come later stand behind them.
    pub(super) fn pump_gate(&mut self, place: u32, given: Option<Give>, out: &mut Output) {
        if self.state.object(place).is_some_and(|object| object.is_retired) {
            return;
        }
        let is_open = self.gate(place).is_some_and(|gate| gate.admit(Entry::Pass).is_some());
        let (given, upto) = match self.state.object(place).and_then(|object| object.postponed) {
            // What was given back earlier comes first: the end of a write lets in all readers that waited then.
            Some(Postponed { given: Some(earlier), upto, .. }) => (Some(earlier), upto),
            Some(Postponed { given: None, upto, .. }) if !is_open => (given, upto),
            _ => (given, self.waits.last_ticket()),
        };
        while let Some(Object { body: Body::Gate(gate), lines, .. }) = self.state.object(place) {
            let waiting = Lanes::from_bits(
                u8::from(!lines[0].is_empty()) | u8::from(!lines[1].is_empty()) << 1,
            );
            let waited = lines[0].head().and_then(|key| self.waits.ticket(key)) <= Some(upto);
            let lane = gate.next_lane(given.filter(|_| waited), waiting);
            let Some(key) = lines[lane].head() else { break };
            let Some(wait) = self.waits.get(key) else { break };
            let Ask::Enter(entry) = wait.ask else { break };
            let refusal = too_many(gate, entry);
            if refusal.is_none() && gate.admit(entry).is_none() && !self.was_let_through(key) {
                break;
            }
            if out.is_full_for(wait, 0) {
                return self.postpone(place, given, upto);
            }
            if self.comes_too_late(key, out) {
                continue;
            }
            let Some(wait) = self.waits.get(key) else { break };
            let owner = wait.owner;
            let answer = refusal.unwrap_or_else(|| self.admit(owner, place, entry, out));
            self.complete(key, answer, out);
        }
        self.forget_postponed(place);
        self.state.vanish(place);
    }

    /// Whether a request that waits at a latch or an event was let through, and only its answer was postponed: the
    /// latch or event may have been reset since then.
    pub(super) fn was_let_through(&self, key: u32) -> bool {
        let Some(wait) = self.waits.get(key).filter(|wait| !wait.dormant) else { return false };
        let Some(object) = self.state.object(wait.place) else { return false };
        matches!(wait.ask, Ask::Enter(Entry::Pass))
            && matches!(&object.body, Body::Gate(gate) if !gate.passing_changes())
            && object.postponed.is_some_and(|earlier| wait.ticket() <= earlier.upto)
    }

    /// The hold that is meant, if it is the asker's.
    fn hold_of(&self, asker: &Asker, place: u32, fence: Option<u64>) -> Result<(u64, Hold), Reply> {
        let gone = || error(Status::Gone, "that is not held (any more) by this session");
        let mine = |fence: u64| {
            let hold = self.state.hold(fence)?;
            (hold.place == place && hold.owner == asker.owner).then_some((fence, hold))
        };
        if let Some(fence) = fence {
            return mine(fence).ok_or_else(gone);
        }
        let belongings = self.state.belongings(asker.owner).ok_or_else(gone)?;
        let mut all = belongings.holds_of(place).filter_map(mine);
        match (all.next(), all.next()) {
            (Some(hold), None) => Ok(hold),
            (None, _) => Err(gone()),
            (Some(_), Some(_)) => {
                Err(senseless("this session holds it more than once: say which with fence"))
            }
        }
    }

    pub(super) fn release(
        &mut self,
        asker: &Asker,
        place: u32,
        fence: Option<u64>,
        permits: Option<u32>,
        out: &mut Output,
    ) -> Reply {
        let (fence, hold) = match self.hold_of(asker, place, fence) {
            Ok(hold) => hold,
            Err(reply) => return reply,
        };
        let permits = match (permits, hold.wish) {
            (None, _) => 0,
            (Some(permits), Wish::Permits(held)) if permits <= held => {
                if permits == 0 && held > 0 {
                    return Reply::Answer(Answer::done());
                }
                permits
            }
            (Some(permits), _) => {
                return senseless(format!("the hold has fewer than {permits} permits"));
            }
        };
        let given = match hold.wish {
            Wish::Permits(held) if permits > 0 && permits < held => Give::Permits(permits),
            wish => Give::back(wish),
        };
        match asker.owner {
            Owner::Session(_) => self.emit(&Event::Released { fence, permits }, out),
            Owner::Connection(key) => {
                let released = self.state.release(fence, permits);
                debug_assert!(released.is_ok());
                self.state.tidy_connection(key);
            }
        }
        self.pump_gate(place, Some(given), out);
        Reply::Answer(Answer::done())
    }

    pub(super) fn check(&self, place: u32, fence: u64) -> Reply {
        match self.state.hold(fence) {
            Some(hold) if hold.place == place => Reply::Answer(Answer::done()),
            _ => error(Status::Gone, format!("nobody holds {fence} (any more)")),
        }
    }

    pub(super) fn downgrade(
        &mut self,
        asker: &Asker,
        place: u32,
        fence: Option<u64>,
        out: &mut Output,
    ) -> Reply {
        let (fence, hold) = match self.hold_of(asker, place, fence) {
            Ok(hold) => hold,
            Err(reply) => return reply,
        };
        if hold.wish != Wish::Write {
            return error(Status::Conflict, "only a writer can become a reader");
        }
        self.convert(asker.owner, fence, fence, Wish::Read, out);
        self.pump_gate(place, Some(Give::Downgrade), out);
        Reply::Answer(Answer::done().with(Header::Fence, fence))
    }

    pub(super) fn upgrade(
        &mut self,
        asker: &Asker,
        place: u32,
        fence: Option<u64>,
        out: &mut Output,
    ) -> Reply {
        let (fence, hold) = match self.hold_of(asker, place, fence) {
            Ok(hold) => hold,
            Err(reply) => return reply,
        };
        if hold.wish != Wish::Read || !self.gate(place).is_some_and(Gate::can_upgrade) {
            return error(Status::Conflict, "only the only reader can become the writer");
        }
        let into = self.fence(out);
        self.convert(asker.owner, fence, into, Wish::Write, out);
        Reply::Answer(Answer::done().with(Header::Fence, into))
    }

    fn convert(&mut self, owner: Owner, fence: u64, into: u64, wish: Wish, out: &mut Output) {
        match owner {
            Owner::Session(_) => self.emit(&Event::Converted { fence, into, wish }, out),
            Owner::Connection(_) => {
                let converted = self.state.convert(fence, into, wish);
                debug_assert_eq!(converted, Ok(()));
            }
        }
    }

    pub(super) fn count_down(&mut self, place: u32, by: u32, out: &mut Output) -> Reply {
        let Some(gate) = self.gate(place) else { unreachable!("a latch has a gate") };
        let change = if by == 1 { CountDown::One } else { CountDown::By(by) };
        match gate.counted(change) {
            Ok(count) => {
                if count != gate.count() {
                    self.set_count(place, count, out);
                }
                Reply::Answer(Answer::done().with(Header::Count, count))
            }
            Err(CountError::Zero) => {
                let count = gate.count();
                Reply::Answer(Answer::done().with(Header::Count, count))
            }
            Err(wrong) => senseless(wrong.to_string()),
        }
    }

    pub(super) fn reset_latch(
        &mut self,
        place: u32,
        count: Option<u32>,
        out: &mut Output,
    ) -> Reply {
        let Some(gate) = self.gate(place) else { unreachable!("a latch has a gate") };
        let count = u64::from(count.unwrap_or_else(|| gate.start()));
        self.set_count(place, count, out);
        Reply::Answer(Answer::done().with(Header::Count, count))
    }

    pub(super) fn signal(&mut self, place: u32, set: bool, out: &mut Output) -> Reply {
        let Some(gate) = self.gate(place) else { unreachable!("an event has a gate") };
        let count = gate.signalled(set);
        if count != gate.count() {
            self.set_count(place, count, out);
        }
        Reply::Answer(Answer::done())
    }

    pub(super) fn set_count(&mut self, place: u32, count: u64, out: &mut Output) {
        self.emit(&Event::Counted { place, count }, out);
        self.pump_gate(place, None, out);
    }
}

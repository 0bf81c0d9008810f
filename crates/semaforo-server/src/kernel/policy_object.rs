//! An object that a policy of the library decides about: a lock, a semaphore, a reader-writer lock,
//! a latch or an event.

use semaforo::policy::{
    Access, CountDown, CountError, CountdownPolicy, Ending, Exclusive, Gate as Open, Giving, Lanes,
    Opening, Permits, Policy, ReadWrite, ReleaseError, Signal, SignalPolicy,
};

use super::codec::BadEvent;
use super::verb::{HoldMode, Settings};

/// A policy and its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PolicyObject {
    rule: Rule,
    word: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Lock,
    Semaphore { permits: u32 },
    OpenSemaphore { permits: u32, initial: u32 },
    ReadWrite,
    Latch { start: u32 },
    Manual { set: bool },
    Auto { set: bool },
}

/// What a request wants of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// To hold something.
    Hold(HoldMode),
    /// To get past.
    Pass,
}

/// What was done that may let others in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Give {
    Permits(u32),
    Read,
    Write,
    Downgrade,
    Upgrade,
}

impl Give {
    /// What gives such a hold back.
    pub(super) fn back(mode: HoldMode) -> Self {
        match mode {
            HoldMode::Permits(permits) => Self::Permits(permits),
            HoldMode::Read => Self::Read,
            HoldMode::Write => Self::Write,
        }
    }

    fn ending(self) -> Option<Ending> {
        match self {
            Self::Read => Some(Ending::Read),
            Self::Write => Some(Ending::Write),
            Self::Downgrade => Some(Ending::Downgrade),
            Self::Upgrade => Some(Ending::Upgrade),
            Self::Permits(_) => None,
        }
    }
}

impl PolicyObject {
    pub(super) fn lock() -> Self {
        Self { rule: Rule::Lock, word: Exclusive::initial(false) }
    }

    pub(super) fn semaphore(permits: u32) -> Self {
        let permits = permits.min(Permits::MAX);
        let word = Permits::new(permits, false).initial(permits);
        Self { rule: Rule::Semaphore { permits }, word }
    }

    pub(super) fn open_semaphore(permits: u32, initial: u32) -> Self {
        let permits = permits.min(Permits::MAX);
        let initial = initial.min(permits);
        let word = Permits::new(permits, false).initial(initial);
        Self { rule: Rule::OpenSemaphore { permits, initial }, word }
    }

    pub(super) fn read_write() -> Self {
        Self { rule: Rule::ReadWrite, word: ReadWrite::initial(false) }
    }

    pub(super) fn latch(start: u32) -> Self {
        Self { rule: Rule::Latch { start }, word: u64::from(start) }
    }

    pub(super) fn event(auto: bool, set: bool) -> Self {
        let rule = if auto { Rule::Auto { set } } else { Rule::Manual { set } };
        Self { rule, word: u64::from(set) }
    }

    /// What it was created with and, for those whose word is journaled, the word.
    pub(super) fn settings(&self) -> Option<(Settings, Option<u64>)> {
        Some(match self.rule {
            Rule::Lock | Rule::ReadWrite => return None,
            Rule::Semaphore { permits } => (Settings::Semaphore { permits }, None),
            Rule::OpenSemaphore { permits, initial } => {
                (Settings::OpenSemaphore { permits, initial }, Some(self.word))
            }
            Rule::Latch { start } => (Settings::Latch { count: start }, Some(self.word)),
            Rule::Manual { set } => (Settings::Event { auto: false, set }, Some(self.word)),
            Rule::Auto { set } => (Settings::Event { auto: true, set }, Some(self.word)),
        })
    }

    /// A latch's or an open semaphore's count, or whether an event is set.
    pub(super) fn count(&self) -> u64 {
        self.word
    }

    pub(super) fn set_count(&mut self, count: u64) -> Result<(), BadEvent> {
        let most = match self.rule {
            Rule::Latch { .. } => u64::from(u32::MAX),
            Rule::Manual { .. } | Rule::Auto { .. } => 1,
            Rule::OpenSemaphore { permits, .. } => u64::from(permits),
            Rule::Lock | Rule::Semaphore { .. } | Rule::ReadWrite => {
                return Err(BadEvent::new("what has holders is not counted"));
            }
        };
        if count > most {
            return Err(BadEvent::new(format!("a count of {count}; {most} is the most")));
        }
        self.word = count;
        Ok(())
    }

    /// How many permits are available.
    pub(super) fn available(&self) -> u32 {
        Permits::available(self.word)
    }

    /// Whether passing uses something up, so that the word changes.
    pub(super) fn passing_changes(&self) -> bool {
        matches!(self.rule, Rule::Auto { .. })
    }

    /// The most permits that can be asked for.
    pub(super) fn most_permits(&self) -> u32 {
        match self.rule {
            Rule::Semaphore { permits } | Rule::OpenSemaphore { permits, .. } => permits,
            _ => 1,
        }
    }

    /// The word after letting a request in, if that is allowed.
    pub(super) fn admit(&self, entry: Entry) -> Option<u64> {
        match (self.rule, entry) {
            (Rule::Lock, Entry::Hold(HoldMode::Permits(1))) => Exclusive.acquire(self.word, ()),
            (Rule::Semaphore { permits }, Entry::Hold(HoldMode::Permits(asked))) => {
                Permits::new(permits, false).acquire(self.word, asked)
            }
            (Rule::OpenSemaphore { permits, .. }, Entry::Hold(HoldMode::Permits(asked))) => {
                let policy = Permits::new(permits, false);
                policy.release(policy.acquire(self.word, asked)?, Giving::Forget(asked)).ok()
            }
            (Rule::ReadWrite, Entry::Hold(mode @ (HoldMode::Read | HoldMode::Write))) => {
                ReadWrite.acquire(self.word, access(mode))
            }
            (Rule::Latch { .. }, Entry::Pass) => CountdownPolicy.acquire(self.word, ()),
            (Rule::Manual { .. }, Entry::Pass) => Open.acquire(self.word, ()),
            (Rule::Auto { .. }, Entry::Pass) => SignalPolicy.acquire(self.word, ()),
            _ => None,
        }
    }

    /// Whether a request may be let in although others wait.
    pub(super) fn overtakes(&self, entry: Entry) -> bool {
        match (self.rule, entry) {
            (
                Rule::Semaphore { permits } | Rule::OpenSemaphore { permits, .. },
                Entry::Hold(HoldMode::Permits(asked)),
            ) => Permits::new(permits, false).overtakes(self.word, asked),
            // All that wait will pass, too.
            (Rule::Latch { .. } | Rule::Manual { .. }, Entry::Pass) => true,
            _ => false,
        }
    }

    /// Lets a holder in.
    pub(super) fn hold(&mut self, mode: HoldMode) -> Result<(), BadEvent> {
        let word = self.admit(Entry::Hold(mode)).filter(|_| !self.is_open());
        self.word = word.ok_or_else(|| BadEvent::new("more is granted than there is"))?;
        Ok(())
    }

    /// Takes back what was held.
    pub(super) fn give(&mut self, give: Give) -> Result<(), BadEvent> {
        let word = match (self.rule, give) {
            (Rule::Lock, Give::Permits(1)) => Exclusive.release(self.word, ()).ok(),
            (Rule::Semaphore { permits }, Give::Permits(given)) => {
                let policy = Permits::new(permits, false);
                let word = policy.release(self.word, Giving::Return(given)).ok();
                word.map(|word| without_excess(policy, word))
            }
            (Rule::ReadWrite, give) => {
                give.ending().and_then(|ending| ReadWrite.release(self.word, ending).ok())
            }
            _ => None,
        };
        self.word = word.ok_or_else(|| BadEvent::new("more is given back than was held"))?;
        Ok(())
    }

    /// Whether it is a semaphore whose permits are used up and added, not held.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.rule, Rule::OpenSemaphore { .. })
    }

    /// How many permits are held; more than there can be if there could be more before.
    pub(super) fn held(&self) -> u32 {
        Permits::held(self.word)
    }

    /// The word of an open semaphore after so many permits were added.
    pub(super) fn added(&self, permits: u32) -> Result<u64, ReleaseError> {
        Permits::new(self.most_permits(), false).release(self.word, Giving::Add(permits))
    }

    /// Lets a semaphore have so many permits. Those that are held beyond that are kept back when
    /// they return. Of an open one it is the most that there can be: what is above it is gone, and
    /// nothing is added.
    pub(super) fn resize(&mut self, permits: u32) -> Result<(), BadEvent> {
        if !(1..=Permits::MAX).contains(&permits) {
            return Err(BadEvent::new(format!("a semaphore of {permits} permits")));
        }
        let policy = Permits::new(permits, false);
        match &mut self.rule {
            Rule::Semaphore { permits: most } => {
                *most = permits;
                let there = Permits::available(self.word) + Permits::held(self.word);
                let more = Giving::Add(permits.saturating_sub(there));
                self.word = policy.release(self.word, more).unwrap_or(self.word);
            }
            Rule::OpenSemaphore { permits: most, initial } => {
                *most = permits;
                *initial = permits.min(*initial);
            }
            _ => return Err(BadEvent::new("what is no semaphore has another number of permits")),
        }
        self.word = without_excess(policy, self.word);
        Ok(())
    }

    /// Whether the only reader could become the writer.
    pub(super) fn can_upgrade(&self) -> bool {
        ReadWrite.release(self.word, Ending::Upgrade).is_ok()
    }

    /// The word of a latch after counting.
    pub(super) fn counted(&self, change: CountDown) -> Result<u64, CountError> {
        CountdownPolicy.release(self.word, change)
    }

    /// The word of an event after it was set or reset.
    pub(super) fn signalled(&self, set: bool) -> u64 {
        let result = match self.rule {
            Rule::Auto { .. } => {
                SignalPolicy.release(self.word, if set { Signal::Set } else { Signal::Reset })
            }
            _ => Open.release(self.word, if set { Opening::Open } else { Opening::Shut }),
        };
        let Ok(word) = result;
        word
    }

    /// Where a latch began.
    pub(super) fn start(&self) -> u32 {
        match self.rule {
            Rule::Latch { start } => start,
            _ => 0,
        }
    }

    /// The line that a request waits in.
    pub(super) fn lane(&self, entry: Entry) -> usize {
        match (self.rule, entry) {
            (Rule::ReadWrite, Entry::Hold(mode)) => ReadWrite.lane(access(mode)),
            _ => 0,
        }
    }

    /// The line whose head is looked at next.
    pub(super) fn next_lane(&self, given: Option<Give>, waiting: Lanes) -> usize {
        match self.rule {
            Rule::ReadWrite => {
                ReadWrite.next_lane(self.word, given.and_then(Give::ending), waiting)
            }
            _ => 0,
        }
    }
}

/// The state without those available permits that are more than there can be, together with those
/// that are held.
fn without_excess(policy: Permits, word: u64) -> u64 {
    let there = Permits::available(word) + Permits::held(word);
    let excess = Giving::Reduce(there.saturating_sub(policy.maximum()));
    policy.release(word, excess).unwrap_or(word)
}

fn access(mode: HoldMode) -> Access {
    if mode == HoldMode::Read { Access::Read } else { Access::Write }
}

//! What a policy of the library decides: locks, semaphores, reader-writer locks, latches and events.

use semaforo::policy::{
    Access, CountDown, CountError, Counting, Ending, Exclusive, Gate as Open, Giving, Lanes,
    Opening, Permits, Policy, ReadWrite, Signal, Signalling,
};

use super::codec::BadEvent;
use super::command::{Settings, Wish};

/// A policy and its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gate {
    rule: Rule,
    word: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Lock,
    Semaphore { permits: u32 },
    ReadWrite,
    Latch { start: u32 },
    Manual { set: bool },
    Auto { set: bool },
}

/// What somebody wants of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// To hold something.
    Hold(Wish),
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
    pub(super) fn back(wish: Wish) -> Self {
        match wish {
            Wish::Permits(permits) => Self::Permits(permits),
            Wish::Read => Self::Read,
            Wish::Write => Self::Write,
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

impl Gate {
    pub(super) fn lock() -> Self {
        Self { rule: Rule::Lock, word: Exclusive::initial(false) }
    }

    pub(super) fn semaphore(permits: u32) -> Self {
        let permits = permits.min(Permits::MAX);
        let word = Permits::new(permits, false).initial(permits);
        Self { rule: Rule::Semaphore { permits }, word }
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
            Rule::Latch { start } => (Settings::Latch { count: start }, Some(self.word)),
            Rule::Manual { set } => (Settings::Event { auto: false, set }, Some(self.word)),
            Rule::Auto { set } => (Settings::Event { auto: true, set }, Some(self.word)),
        })
    }

    /// A latch's count, or whether an event is set.
    pub(super) fn count(&self) -> u64 {
        self.word
    }

    pub(super) fn set_count(&mut self, count: u64) -> Result<(), BadEvent> {
        let most = match self.rule {
            Rule::Latch { .. } => u64::from(u32::MAX),
            Rule::Manual { .. } | Rule::Auto { .. } => 1,
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
            Rule::Semaphore { permits } => permits,
            _ => 1,
        }
    }

    /// The word after letting somebody in, if that is allowed.
    pub(super) fn admit(&self, entry: Entry) -> Option<u64> {
        match (self.rule, entry) {
            (Rule::Lock, Entry::Hold(Wish::Permits(1))) => Exclusive.acquire(self.word, ()),
            (Rule::Semaphore { permits }, Entry::Hold(Wish::Permits(asked))) => {
                Permits::new(permits, false).acquire(self.word, asked)
            }
            (Rule::ReadWrite, Entry::Hold(wish @ (Wish::Read | Wish::Write))) => {
                ReadWrite.acquire(self.word, access(wish))
            }
            (Rule::Latch { .. }, Entry::Pass) => Counting.acquire(self.word, ()),
            (Rule::Manual { .. }, Entry::Pass) => Open.acquire(self.word, ()),
            (Rule::Auto { .. }, Entry::Pass) => Signalling.acquire(self.word, ()),
            _ => None,
        }
    }

    /// Whether it may be let in although others wait.
    pub(super) fn overtakes(&self, entry: Entry) -> bool {
        match (self.rule, entry) {
            (Rule::Semaphore { permits }, Entry::Hold(Wish::Permits(asked))) => {
                Permits::new(permits, false).overtakes(self.word, asked)
            }
            // All that wait will pass, too.
            (Rule::Latch { .. } | Rule::Manual { .. }, Entry::Pass) => true,
            _ => false,
        }
    }

    /// Lets a holder in.
    pub(super) fn hold(&mut self, wish: Wish) -> Result<(), BadEvent> {
        let word = self.admit(Entry::Hold(wish));
        self.word = word.ok_or_else(|| BadEvent::new("more is granted than there is"))?;
        Ok(())
    }

    /// Takes back what was held.
    pub(super) fn give(&mut self, give: Give) -> Result<(), BadEvent> {
        let word = match (self.rule, give) {
            (Rule::Lock, Give::Permits(1)) => Exclusive.release(self.word, ()).ok(),
            (Rule::Semaphore { permits }, Give::Permits(given)) => {
                Permits::new(permits, false).release(self.word, Giving::Return(given)).ok()
            }
            (Rule::ReadWrite, give) => {
                give.ending().and_then(|ending| ReadWrite.release(self.word, ending).ok())
            }
            _ => None,
        };
        self.word = word.ok_or_else(|| BadEvent::new("more is given back than was held"))?;
        Ok(())
    }

    /// Whether the only reader could become the writer.
    pub(super) fn can_upgrade(&self) -> bool {
        ReadWrite.release(self.word, Ending::Upgrade).is_ok()
    }

    /// The word of a latch after counting.
    pub(super) fn counted(&self, change: CountDown) -> Result<u64, CountError> {
        Counting.release(self.word, change)
    }

    /// The word of an event after it was set or reset.
    pub(super) fn signalled(&self, set: bool) -> u64 {
        let result = match self.rule {
            Rule::Auto { .. } => {
                Signalling.release(self.word, if set { Signal::Set } else { Signal::Reset })
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

    /// The line that somebody waits in.
    pub(super) fn lane(&self, entry: Entry) -> usize {
        match (self.rule, entry) {
            (Rule::ReadWrite, Entry::Hold(wish)) => ReadWrite.lane(access(wish)),
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

fn access(wish: Wish) -> Access {
    if wish == Wish::Read { Access::Read } else { Access::Write }
}

//! The kinds of objects.

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// One holder at a time.
    Lock = 0,
    /// A number of permits.
    Semaphore = 1,
    /// Many readers or one writer.
    ReadWriteLock = 2,
    /// Counts down to zero.
    Latch = 3,
    /// Set or not.
    Event = 4,
    /// Parties that wait for each other.
    Barrier = 5,
    /// Messages.
    Queue = 6,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Lock,
        Self::Semaphore,
        Self::ReadWriteLock,
        Self::Latch,
        Self::Event,
        Self::Barrier,
        Self::Queue,
    ];

    /// What it is called in a path.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Lock => "locks",
            Self::Semaphore => "semaphores",
            Self::ReadWriteLock => "rwlocks",
            Self::Latch => "latches",
            Self::Event => "events",
            Self::Barrier => "barriers",
            Self::Queue => "queues",
        }
    }

    /// What one is called.
    #[must_use]
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Semaphore => "semaphore",
            Self::ReadWriteLock => "rwlock",
            Self::Latch => "latch",
            Self::Event => "event",
            Self::Barrier => "barrier",
            Self::Queue => "queue",
        }
    }

    /// The kind that a path calls so.
    #[must_use]
    pub fn from_plural(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == word)
    }

    /// Whether it exists by being used, and vanishes when it is not.
    #[must_use]
    pub const fn exists_by_use(self) -> bool {
        matches!(self, Self::Lock | Self::ReadWriteLock | Self::Barrier)
    }

    /// The kind of this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

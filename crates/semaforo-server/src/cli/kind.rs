//! The kinds of objects, as the command line calls them.

use clap::ValueEnum;

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    Lock,
    Rwlock,
    Semaphore,
    Latch,
    Barrier,
    Event,
    Queue,
}

impl Kind {
    /// Where all of them are.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Lock => "/locks",
            Self::Rwlock => "/rwlocks",
            Self::Semaphore => "/semaphores",
            Self::Latch => "/latches",
            Self::Barrier => "/barriers",
            Self::Event => "/events",
            Self::Queue => "/queues",
        }
    }
}

//! The kinds of objects, as the command line calls them.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use semaforo_protocol::Kind as ObjectKind;

/// A kind of objects, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(ObjectKind);

impl ValueEnum for Kind {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                Self(ObjectKind::Lock),
                Self(ObjectKind::ReadWriteLock),
                Self(ObjectKind::Semaphore),
                Self(ObjectKind::Latch),
                Self(ObjectKind::Barrier),
                Self(ObjectKind::Event),
                Self(ObjectKind::Queue),
            ]
        }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.singular()))
    }
}

impl Kind {
    /// Where all of them are.
    pub(super) fn path(self) -> String {
        format!("/{}", self.0.plural())
    }
}

//! Ids of objects, sessions and waiting requests: the numbers of their slots, which the compiler
//! tells apart.

use std::fmt;

/// The id of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ObjectId(pub(super) u32);

/// The bit of an object's id that says that the object exists by being used.
const BY_USE: u32 = 1 << 31;

impl ObjectId {
    /// The id of an object that was created.
    pub(super) fn created(slot: u32) -> Self {
        Self(slot)
    }

    /// The id of an object that exists by being used.
    pub(super) fn by_use(slot: u32) -> Self {
        Self(slot | BY_USE)
    }

    /// Whether the object exists by being used.
    pub(super) fn is_by_use(self) -> bool {
        self.0 & BY_USE != 0
    }

    /// The object's slot, among the created objects or among those that exist by being used.
    pub(super) fn slot(self) -> u32 {
        self.0 & !BY_USE
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The slot of a named session, by which the journal knows it: its [id](super::SessionId) is
/// secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct SessionSlot(pub(super) u32);

impl fmt::Display for SessionSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a waiting request. After its end another request can get the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct WaitId(u32);

impl WaitId {
    /// A request whose answer comes later, and that cannot be cancelled.
    pub(super) const FIXED: Self = Self(u32::MAX);
}

/// What slots are indexed by.
pub(super) trait SlotId: Copy {
    fn from_slot(slot: u32) -> Self;
    fn slot(self) -> u32;
}

impl SlotId for u32 {
    fn from_slot(slot: u32) -> Self {
        slot
    }

    fn slot(self) -> u32 {
        self
    }
}

impl SlotId for SessionSlot {
    fn from_slot(slot: u32) -> Self {
        Self(slot)
    }

    fn slot(self) -> u32 {
        self.0
    }
}

impl SlotId for WaitId {
    fn from_slot(slot: u32) -> Self {
        Self(slot)
    }

    fn slot(self) -> u32 {
        self.0
    }
}

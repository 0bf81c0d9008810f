//! The table of all objects, by their ids.

use super::super::codec::BadEvent;
use super::super::ids::ObjectId;
use super::super::slots::Slots;
use super::Object;
use semaforo_protocol::Kind;

/// All objects. What was created and what exists by being used is kept apart: the journal names a
/// created object by its id, which must not depend on what was used when.
#[derive(Debug, Default)]
pub(super) struct Objects {
    created: Slots<u32, Object>,
    by_use: Slots<u32, Object>,
}

impl Objects {
    pub(super) fn len(&self) -> usize {
        self.created.len() + self.by_use.len()
    }

    /// All objects, the created ones first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        let created = self.created.iter().map(|(slot, object)| (ObjectId::created(slot), object));
        created.chain(self.by_use.iter().map(|(slot, object)| (ObjectId::by_use(slot), object)))
    }

    pub(super) fn get(&self, id: ObjectId) -> Option<&Object> {
        if id.is_by_use() { self.by_use.get(id.slot()) } else { self.created.get(id.slot()) }
    }

    pub(super) fn get_mut(&mut self, id: ObjectId) -> Option<&mut Object> {
        self.slots(id).get_mut(id.slot())
    }

    /// The id of the next object of that kind.
    pub(super) fn free(&self, kind: Kind) -> ObjectId {
        if kind.exists_by_use() {
            ObjectId::by_use(self.by_use.free())
        } else {
            ObjectId::created(self.created.free())
        }
    }

    pub(super) fn occupy(&mut self, id: ObjectId, object: Object) -> Result<(), BadEvent> {
        self.slots(id).occupy(id.slot(), object)
    }

    pub(super) fn vacate(&mut self, id: ObjectId) -> Option<Object> {
        self.slots(id).vacate(id.slot())
    }

    fn slots(&mut self, id: ObjectId) -> &mut Slots<u32, Object> {
        if id.is_by_use() { &mut self.by_use } else { &mut self.created }
    }
}

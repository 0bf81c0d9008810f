//! Numbered slots, of which the free ones are used again.

use std::marker::PhantomData;

use super::codec::BadEvent;
use super::ids::SlotId;

/// More slots than this are a mistake in the journal, not a need: a single event could ask for any
/// number of them.
pub const MOST_PLACES: u32 = 1 << 22;

/// More slots than this are given back when the last of them is free.
const KEPT_SLOTS: usize = 1024;

/// Items in slots, by their ids.
#[derive(Clone, Debug)]
pub(super) struct Slots<Id, T> {
    slots: Vec<Slot<T>>,
    /// Slots that were free once, the last one last. Those that were occupied by number since then
    /// are skipped when it is their turn: to look for one in the middle would make a recovery
    /// quadratic. The last one is free.
    free: Vec<u32>,
    count: usize,
    id: PhantomData<Id>,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    item: Option<T>,
    /// The slot is in the list of free ones.
    listed: bool,
}

impl<Id, T> Default for Slots<Id, T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), count: 0, id: PhantomData }
    }
}

impl<Id: SlotId, T> Slots<Id, T> {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// A slot that is free.
    pub(super) fn free(&self) -> Id {
        Id::from_slot(self.free.last().copied().unwrap_or(self.slots.len() as u32))
    }

    pub(super) fn get(&self, id: Id) -> Option<&T> {
        self.slots.get(id.slot() as usize)?.item.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.slots.get_mut(id.slot() as usize)?.item.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, slot)| Some((Id::from_slot(at as u32), slot.item.as_ref()?)))
    }

    /// Puts an item in a free slot, whichever.
    pub(super) fn insert(&mut self, item: T) -> Id {
        let id = self.free();
        self.fill(id, item);
        id
    }

    /// Puts an item in a slot that is free, and not beyond the next new one.
    fn fill(&mut self, id: Id, item: T) {
        match self.slots.get_mut(id.slot() as usize) {
            Some(slot) => slot.item = Some(item),
            None => self.slots.push(Slot { item: Some(item), listed: false }),
        }
        self.count += 1;
        while let Some(last) = self.free.last()
            && let Some(slot) = self.slots.get_mut(*last as usize)
            && slot.item.is_some()
        {
            slot.listed = false;
            self.free.pop();
        }
    }

    /// Puts an item in this slot.
    pub(super) fn occupy(&mut self, id: Id, item: T) -> Result<(), BadEvent> {
        let slot = id.slot();
        if slot >= MOST_PLACES || self.get(id).is_some() {
            return Err(BadEvent::new(format!("place {slot} is not free")));
        }
        while self.slots.len() < slot as usize {
            self.free.push(self.slots.len() as u32);
            self.slots.push(Slot { item: None, listed: true });
        }
        self.fill(id, item);
        Ok(())
    }

    /// Takes an item out of its slot.
    pub(super) fn vacate(&mut self, id: Id) -> Option<T> {
        let slots = self.slots.len();
        let slot = self.slots.get_mut(id.slot() as usize)?;
        let item = slot.item.take()?;
        self.count -= 1;
        if self.count == 0 && slots > KEPT_SLOTS {
            // That was the last one: the memory goes back.
            *self = Self::default();
        } else if !std::mem::replace(&mut slot.listed, true) {
            self.free.push(id.slot());
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_the_last_that_became_free_first() {
        let mut slots = Slots::<u32, _>::default();
        let ids: Vec<_> = ["a", "b", "c", "d"].map(|item| slots.insert(item)).into();
        assert_eq!(ids, [0, 1, 2, 3]);
        assert_eq!(slots.vacate(1), Some("b"));
        assert_eq!(slots.vacate(1), None);
        assert_eq!(slots.vacate(2), Some("c"));
        assert_eq!((slots.len(), slots.free()), (2, 2));
        assert_eq!(slots.insert("e"), 2);
        assert_eq!(slots.occupy(1, "f"), Ok(()));
        assert_eq!((slots.len(), slots.free()), (4, 4));
        assert_eq!(slots.iter().map(|(_, item)| *item).collect::<String>(), "afed");
    }

    #[test]
    fn a_slot_beyond_the_last_leaves_free_ones() {
        let mut slots = Slots::<u32, _>::default();
        assert_eq!(slots.occupy(3, "d"), Ok(()));
        assert!(slots.occupy(3, "x").is_err());
        assert!(slots.occupy(MOST_PLACES, "x").is_err());
        assert_eq!(slots.len(), 1);
        let mut ids: Vec<_> = (0..4).map(|_| slots.insert("n")).collect();
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2, 4]);
    }

    /// Slots do what a map of slots would do, whatever is occupied by number, and say a free slot.
    #[test]
    fn slots_are_a_map() {
        let mut slots = Slots::<u32, _>::default();
        let mut map = std::collections::BTreeMap::new();
        let mut random = 7_u64;
        for step in 0..20_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let id = (random >> 33) as u32 % 300;
            match (random >> 62, map.contains_key(&id)) {
                (0, _) => assert_eq!(map.insert(slots.insert(step), step), None),
                (1, there) => {
                    assert_eq!(slots.occupy(id, step).is_ok(), !there);
                    map.entry(id).or_insert(step);
                }
                _ => assert_eq!(slots.vacate(id), map.remove(&id)),
            }
            assert_eq!((slots.len(), slots.get(slots.free())), (map.len(), None));
            let most = slots.slots.len();
            assert!(slots.free.len() <= most, "a slot is listed twice");
        }
        assert!(slots.iter().map(|(id, item)| (id, *item)).eq(map));
    }

    /// Backwards is the worst order for a list that is searched from its end.
    #[test]
    fn slots_that_are_occupied_by_number_are_not_searched_for() {
        let mut slots = Slots::<u32, _>::default();
        for id in (0..1_000_000).rev() {
            assert_eq!(slots.occupy(id, ()), Ok(()));
        }
        assert_eq!((slots.len(), slots.free()), (1_000_000, 1_000_000));
        for id in 0..1_000_000 {
            assert_eq!(slots.vacate(id), Some(()));
        }
        assert_eq!(slots.len(), 0);
    }

    #[test]
    fn memory_goes_back_when_the_last_of_many_is_gone() {
        let mut slots = Slots::<u32, _>::default();
        let many = KEPT_SLOTS as u32 + 1;
        for _ in 0..many {
            slots.insert(());
        }
        for id in 0..many {
            assert_eq!(slots.vacate(id), Some(()));
        }
        assert_eq!((slots.len(), slots.free(), slots.slots.capacity()), (0, 0, 0));
    }
}

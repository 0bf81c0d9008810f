//! Numbered places, of which the free ones are used again.

use super::codec::BadEvent;

/// More places than this are a mistake in the journal, not a need: a single event could ask for any number of them.
pub const MOST_PLACES: u32 = 1 << 22;

/// More places than this are given back when the last of them is free.
const KEPT_PLACES: usize = 1024;

/// Things in numbered places.
#[derive(Clone, Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// Places that were free once, the last one last. Those that were occupied by number since then are skipped
    /// when it is their turn: to look for one in the middle would make a recovery quadratic. The last one is free.
    free: Vec<u32>,
    count: usize,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    item: Option<T>,
    /// The place is in the list of free ones.
    listed: bool,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), count: 0 }
    }
}

impl<T> Slots<T> {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// A place that is free.
    pub(super) fn free(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    pub(super) fn get(&self, place: u32) -> Option<&T> {
        self.slots.get(place as usize)?.item.as_ref()
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.slots.get_mut(place as usize)?.item.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let places = self.slots.iter().enumerate();
        places.filter_map(|(place, slot)| Some((place as u32, slot.item.as_ref()?)))
    }

    /// Puts something in a free place, whichever.
    pub(super) fn insert(&mut self, item: T) -> u32 {
        let place = self.free();
        self.fill(place, item);
        place
    }

    /// Puts something in a place that is free, and not beyond the next new one.
    fn fill(&mut self, place: u32, item: T) {
        match self.slots.get_mut(place as usize) {
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

    /// Puts something in this place.
    pub(super) fn occupy(&mut self, place: u32, item: T) -> Result<(), BadEvent> {
        if place >= MOST_PLACES || self.get(place).is_some() {
            return Err(BadEvent::new(format!("place {place} is not free")));
        }
        while self.slots.len() < place as usize {
            self.free.push(self.slots.len() as u32);
            self.slots.push(Slot { item: None, listed: true });
        }
        self.fill(place, item);
        Ok(())
    }

    /// Takes something out of its place.
    pub(super) fn vacate(&mut self, place: u32) -> Option<T> {
        let places = self.slots.len();
        let slot = self.slots.get_mut(place as usize)?;
        let item = slot.item.take()?;
        self.count -= 1;
        if self.count == 0 && places > KEPT_PLACES {
            // That was the last one: the memory goes back.
            *self = Self::default();
        } else if !std::mem::replace(&mut slot.listed, true) {
            self.free.push(place);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_the_last_that_became_free_first() {
        let mut slots = Slots::default();
        let places: Vec<_> = ["a", "b", "c", "d"].map(|item| slots.insert(item)).into();
        assert_eq!(places, [0, 1, 2, 3]);
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
    fn a_place_beyond_the_last_leaves_free_ones() {
        let mut slots = Slots::default();
        assert_eq!(slots.occupy(3, "d"), Ok(()));
        assert!(slots.occupy(3, "x").is_err());
        assert!(slots.occupy(MOST_PLACES, "x").is_err());
        assert_eq!(slots.len(), 1);
        let mut places: Vec<_> = (0..4).map(|_| slots.insert("n")).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2, 4]);
    }

    /// Slots do what a map of places would do, whatever is occupied by number, and say a free place.
    #[test]
    fn slots_are_a_map() {
        let mut slots = Slots::default();
        let mut map = std::collections::BTreeMap::new();
        let mut random = 7_u64;
        for step in 0..20_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let place = (random >> 33) as u32 % 300;
            match (random >> 62, map.contains_key(&place)) {
                (0, _) => assert_eq!(map.insert(slots.insert(step), step), None),
                (1, there) => {
                    assert_eq!(slots.occupy(place, step).is_ok(), !there);
                    map.entry(place).or_insert(step);
                }
                _ => assert_eq!(slots.vacate(place), map.remove(&place)),
            }
            assert_eq!((slots.len(), slots.get(slots.free())), (map.len(), None));
            let most = slots.slots.len();
            assert!(slots.free.len() <= most, "a place is listed twice");
        }
        assert!(slots.iter().map(|(place, item)| (place, *item)).eq(map));
    }

    /// Backwards is the worst order for a list that is searched from its end.
    #[test]
    fn places_that_are_occupied_by_number_are_not_searched_for() {
        let mut slots = Slots::default();
        for place in (0..1_000_000).rev() {
            assert_eq!(slots.occupy(place, ()), Ok(()));
        }
        assert_eq!((slots.len(), slots.free()), (1_000_000, 1_000_000));
        for place in 0..1_000_000 {
            assert_eq!(slots.vacate(place), Some(()));
        }
        assert_eq!(slots.len(), 0);
    }

    #[test]
    fn memory_goes_back_when_the_last_of_many_is_gone() {
        let mut slots = Slots::default();
        let many = KEPT_PLACES as u32 + 1;
        for _ in 0..many {
            slots.insert(());
        }
        for place in 0..many {
            assert_eq!(slots.vacate(place), Some(()));
        }
        assert_eq!((slots.len(), slots.free(), slots.slots.capacity()), (0, 0, 0));
    }
}

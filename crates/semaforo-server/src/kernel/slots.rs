//! Numbered places, of which the free ones are used again.

use super::codec::BadEvent;

/// More places than this are a mistake in the journal, not a need: a single event could ask for any number of them.
pub const MOST_PLACES: u32 = 1 << 22;

/// More places than this are given back when the last of them is free.
const KEPT_PLACES: usize = 1024;

/// Things in numbered places.
#[derive(Clone, Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A place that is free.
    pub(super) fn free(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    pub(super) fn get(&self, place: u32) -> Option<&T> {
        self.slots.get(place as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.slots.get_mut(place as usize)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let places = self.slots.iter().enumerate();
        places.filter_map(|(place, slot)| Some((place as u32, slot.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// Puts something in a free place, whichever.
    pub(super) fn insert(&mut self, item: T) -> u32 {
        let place = self.free();
        match self.free.pop() {
            Some(place) => self.slots[place as usize] = Some(item),
            None => self.slots.push(Some(item)),
        }
        place
    }

    /// Puts something in this place.
    pub(super) fn occupy(&mut self, place: u32, item: T) -> Result<(), BadEvent> {
        if place >= MOST_PLACES || self.get(place).is_some() {
            return Err(BadEvent::new(format!("place {place} is not free")));
        }
        while self.slots.len() <= place as usize {
            self.free.push(self.slots.len() as u32);
            self.slots.push(None);
        }
        // Mostly it is the one that became free last.
        if let Some(position) = self.free.iter().rposition(|other| *other == place) {
            self.free.remove(position);
        }
        self.slots[place as usize] = Some(item);
        Ok(())
    }

    /// Takes something out of its place.
    pub(super) fn vacate(&mut self, place: u32) -> Option<T> {
        let item = self.slots.get_mut(place as usize)?.take()?;
        if self.free.len() + 1 == self.slots.len() && self.slots.len() > KEPT_PLACES {
            // That was the last one: the memory goes back.
            *self = Self::default();
        } else {
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

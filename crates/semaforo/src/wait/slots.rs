//! Things that are kept by number: adding and taking out are O(1), and what is empty keeps little.

/// Things, each by a number that is its own until it is taken out.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

/// When nothing is left, room for more than this is given back.
const KEPT: usize = 4096;

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = Some(thing);
            return place;
        }
        self.places.push(Some(thing));
        self.places.len() as u32 - 1
    }

    /// Takes out what was inserted under this number.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let removed = self.places.get_mut(number as usize)?.take()?;
        self.free.push(number);
        if self.is_empty() && self.places.len() > KEPT {
            *self = Self::default();
        }
        Some(removed)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = T> {
        self.places.into_iter().flatten()
    }
}

//! The headers of a request or an answer.

use std::borrow::Cow;
use std::fmt;

/// So many are kept without an allocation: more than any of our own methods has.
const INLINE: usize = 8;

#[derive(Clone, Debug)]
struct Header<'a> {
    name: Cow<'a, str>,
    /// Absent if it was `null`.
    value: Option<Cow<'a, str>>,
}

impl Header<'_> {
    const EMPTY: Self = Self { name: Cow::Borrowed(""), value: None };
}

/// The headers of a request or an answer, in the order in which they came.
#[derive(Clone)]
pub struct Headers<'a> {
    first: [Header<'a>; INLINE],
    length: usize,
    more: Vec<Header<'a>>,
}

impl<'a> Headers<'a> {
    pub(super) const fn new() -> Self {
        Self { first: [Header::EMPTY; INLINE], length: 0, more: Vec::new() }
    }

    /// The value of the header of this name, whatever its case.
    #[inline]
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.find(name)?.value.as_deref()
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all().filter_map(|header| Some((&*header.name, header.value.as_deref()?)))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    #[inline]
    fn all(&self) -> impl Iterator<Item = &Header<'a>> {
        self.first.iter().take(self.length).chain(&self.more)
    }

    #[inline]
    fn find(&self, name: &str) -> Option<&Header<'a>> {
        let has_name = |header: &&Header<'a>| header.name.eq_ignore_ascii_case(name);
        let first = self.first.iter().take(self.length).find(has_name);
        first.or_else(|| self.more.iter().find(has_name))
    }

    /// How many there are, also `null` ones.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.length + self.more.len()
    }

    /// Adds one, unless there is one of this name.
    #[inline]
    pub(super) fn add(
        &mut self,
        name: Cow<'a, str>,
        value: Option<Cow<'a, str>>,
    ) -> Result<(), Cow<'a, str>> {
        if self.find(&name).is_some() {
            return Err(name);
        }
        let header = Header { name, value };
        match self.first.get_mut(self.length) {
            Some(place) => {
                *place = header;
                self.length += 1;
            }
            None => self.more.push(header),
        }
        Ok(())
    }
}

impl Default for Headers<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_kept_and_found() {
        let names: Vec<String> = (0..40).map(|number| format!("Name{number}")).collect();
        let mut headers = Headers::new();
        for name in &names {
            headers.add(Cow::Borrowed(name), Some(Cow::Borrowed(name))).unwrap();
            assert!(headers.add(Cow::Owned(name.to_uppercase()), None).is_err());
        }
        for name in &names {
            assert_eq!(headers.get(&name.to_lowercase()), Some(&**name));
        }
        assert_eq!(headers.count(), 40);
        assert_eq!(headers.iter().count(), 40);
        assert_eq!(headers.get("name40"), None);
    }
}

//! The headers of a request or an answer.

use std::borrow::Cow;
use std::fmt;

/// So many are kept without an allocation: more than any of our own methods has.
const INLINE: usize = 8;

/// The headers of a request or an answer.
#[derive(Clone)]
pub struct Headers<'a> {
    /// Those that are in the frame as they are, which is nearly always all.
    first: [(&'a str, &'a str); INLINE],
    length: usize,
    more: Vec<Unusual<'a>>,
}

/// A header that has escapes in it, or is `null` and therefore absent, or one too many.
#[derive(Clone, Debug)]
struct Unusual<'a> {
    name: Cow<'a, str>,
    value: Option<Cow<'a, str>>,
}

impl<'a> Headers<'a> {
    pub const fn new() -> Self {
        Self { first: [("", ""); INLINE], length: 0, more: Vec::new() }
    }

    /// The value of the header of this name, whatever its case.
    #[inline]
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        for (other, value) in self.usual() {
            if is_name(other, name) {
                return Some(value);
            }
        }
        let header = self.more.iter().find(|header| is_name(&header.name, name))?;
        header.value.as_deref()
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let more = self.more.iter();
        let more = more.filter_map(|header| Some((&*header.name, header.value.as_deref()?)));
        self.usual().iter().copied().chain(more)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    #[inline]
    fn usual(&self) -> &[(&'a str, &'a str)] {
        self.first.get(..self.length).unwrap_or_default()
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
        if self.usual().iter().any(|(other, _)| is_name(other, &name))
            || self.more.iter().any(|header| is_name(&header.name, &name))
        {
            return Err(name);
        }
        match (name, value, self.first.get_mut(self.length)) {
            (Cow::Borrowed(name), Some(Cow::Borrowed(value)), Some(place)) => {
                *place = (name, value);
                self.length += 1;
            }
            (name, value, _) => self.more.push(Unusual { name, value }),
        }
        Ok(())
    }
}

#[inline]
fn is_name(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.eq_ignore_ascii_case(other)
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

//! Items with those of another query that have the same key.

use std::fmt;
use std::hash::Hash;

use super::{debug_as_name, like_its_input};
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::hashing::lookup::{Lookup, Matches};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;
use crate::query::sources::IntoParallel;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// What a function makes of every item with every one of another query that has the same key.
    /// In the order of this query's items, and for each of them of the other's.
    ///
    /// The other query runs first, to its end, and is kept in a table.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let people = [("Ada", 1), ("Alan", 2), ("Edsger", 3)];
    /// let cities = [(1, "London"), (3, "Rotterdam"), (3, "Austin")];
    /// let lived = people.as_parallel().join(
    ///     &cities,
    ///     |(_, person)| *person,
    ///     |(person, _)| *person,
    ///     |(name, _), (_, city)| format!("{name} in {city}"),
    /// );
    /// assert_eq!(lived.to_vec(), ["Ada in London", "Edsger in Rotterdam", "Edsger in Austin"]);
    /// ```
    pub fn join<Q, K, F, G, R, H>(
        self,
        inner: Q,
        outer_key: F,
        inner_key: G,
        result: H,
    ) -> Query<Join<P, Q::Pipeline, F, G, H>, L>
    where
        Q: IntoParallel<Pipeline: Pipeline<Item: Sync>>,
        K: Hash + Eq + Send + Sync,
        F: Fn(&P::Item) -> K + Send + Sync,
        G: Fn(&<Q::Pipeline as Pipeline>::Item) -> K + Send + Sync,
        H: Fn(&P::Item, &<Q::Pipeline as Pipeline>::Item) -> R + Send + Sync,
        R: Send,
    {
        let inner = inner.into_parallel().pipeline;
        self.wrap(|outer, _| Join { outer, inner, outer_key, inner_key, result })
    }

    /// What a function makes of every item with all those of another query that have the same key;
    /// there may be none.
    ///
    /// The other query runs first, to its end, and is kept in a table.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let people = [("Ada", 1), ("Alan", 2), ("Edsger", 3)];
    /// let cities = [(1, "London"), (3, "Rotterdam"), (3, "Austin")];
    /// let homes = people.as_parallel().group_join(
    ///     &cities,
    ///     |(_, person)| *person,
    ///     |(person, _)| *person,
    ///     |(name, _), cities| (*name, cities.count()),
    /// );
    /// assert_eq!(homes.to_vec(), [("Ada", 1), ("Alan", 0), ("Edsger", 2)]);
    /// ```
    #[doc(alias = "GroupJoin")]
    pub fn group_join<Q, K, F, G, R, H>(
        self,
        inner: Q,
        outer_key: F,
        inner_key: G,
        result: H,
    ) -> Query<GroupJoin<P, Q::Pipeline, F, G, H>, L>
    where
        Q: IntoParallel<Pipeline: Pipeline<Item: Sync>>,
        K: Hash + Eq + Send + Sync,
        F: Fn(&P::Item) -> K + Send + Sync,
        G: Fn(&<Q::Pipeline as Pipeline>::Item) -> K + Send + Sync,
        H: Fn(P::Item, Matches<'_, <Q::Pipeline as Pipeline>::Item>) -> R + Send + Sync,
        R: Send,
    {
        let inner = inner.into_parallel().pipeline;
        self.wrap(|outer, _| GroupJoin { outer, inner, outer_key, inner_key, result })
    }
}

/// [`Query::join`].
#[derive(Clone)]
pub struct Join<P, Q, F, G, H> {
    outer: P,
    inner: Q,
    outer_key: F,
    inner_key: G,
    result: H,
}

/// [`Query::group_join`].
#[derive(Clone)]
pub struct GroupJoin<P, Q, F, G, H> {
    outer: P,
    inner: Q,
    outer_key: F,
    inner_key: G,
    result: H,
}

debug_as_name!(
    Join<P, Q, F, G, H>,
    GroupJoin<P, Q, F, G, H>,
    JoinSource<S, K, T, F, H>,
    GroupJoinSource<S, K, T, F, H>,
);

impl<P, Q, K, F, G, R, H> Pipeline for Join<P, Q, F, G, H>
where
    P: Pipeline,
    Q: Pipeline<Item: Sync>,
    K: Hash + Eq + Send + Sync,
    F: Fn(&P::Item) -> K + Send + Sync,
    G: Fn(&Q::Item) -> K + Send + Sync,
    H: Fn(&P::Item, &Q::Item) -> R + Send + Sync,
    R: Send,
{
    type Item = R;
    type Source = JoinSource<P::Source, K, Q::Item, F, H>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let lookup = Lookup::build(context, &self.inner.open(context)?, self.inner_key)?;
        let outer = self.outer.open(context)?;
        Ok(JoinSource { outer, lookup, key: self.outer_key, result: self.result })
    }
}

/// An opened [`Join`].
pub struct JoinSource<S, K, T, F, H> {
    outer: S,
    lookup: Lookup<K, T>,
    key: F,
    result: H,
}

impl<S, K, T, F, R, H> Source for JoinSource<S, K, T, F, H>
where
    S: Source,
    T: Send + Sync,
    K: Hash + Eq + Send + Sync,
    F: Fn(&S::Item) -> K + Send + Sync,
    H: Fn(&S::Item, &T) -> R + Send + Sync,
    R: Send,
{
    type Item = R;
    type Chunk<'a>
        = JoinChunk<'a, S::Chunk<'a>, K, T, F, H>
    where
        Self: 'a;

    #[inline]
    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        let Self { outer, lookup, key, result } = self;
        let claimed = outer.claim(want)?;
        Some(claimed.map(|outer| JoinChunk { outer, current: None, lookup, key, result }))
    }

    like_its_input!(inexact outer);
}

/// How many keys are looked up together.
const BATCH: usize = 16;

/// A table of so many items is mostly not in the processor's own cache.
const OUT_OF_CACHE: usize = 30_000;

/// A chunk of a [`JoinSource`].
pub struct JoinChunk<'a, C: Iterator, K, T, F, H> {
    outer: C,
    /// The item whose matches are being yielded.
    current: Option<(C::Item, Matches<'a, T>)>,
    lookup: &'a Lookup<K, T>,
    key: &'a F,
    result: &'a H,
}

impl<C, K, T, F, R, H> Iterator for JoinChunk<'_, C, K, T, F, H>
where
    C: Iterator,
    K: Hash + Eq,
    F: Fn(&C::Item) -> K,
    H: Fn(&C::Item, &T) -> R,
{
    type Item = R;

    fn next(&mut self) -> Option<R> {
        loop {
            if let Some((outer, matches)) = &mut self.current {
                if let Some(inner) = matches.next() {
                    return Some((self.result)(outer, inner));
                }
            }
            let outer = self.outer.next()?;
            let key = (self.key)(&outer);
            let matches = self.lookup.matches(self.lookup.hash(&key), &key);
            self.current = Some((outer, matches));
        }
    }

    #[inline]
    fn fold<S, G: FnMut(S, R) -> S>(self, start: S, mut step: G) -> S {
        let Self { outer, current, lookup, key, result } = self;
        let mut all = |state, outer: C::Item, matches: Matches<'_, T>| {
            matches.fold(state, |state, inner| step(state, result(&outer, inner)))
        };
        let mut state = match current {
            Some((outer, matches)) => all(start, outer, matches),
            None => start,
        };
        if lookup.len() < OUT_OF_CACHE {
            return outer.fold(state, |state, outer| {
                let key = key(&outer);
                let matches = lookup.matches(lookup.hash(&key), &key);
                all(state, outer, matches)
            });
        }
        // One after the other, each would wait for the table's memory. Some at a time wait
        // together.
        let mut batch = Vec::with_capacity(BATCH);
        let mut found = Vec::with_capacity(BATCH);
        let mut finish = |mut state, batch: &mut Vec<(C::Item, K, u64)>| {
            found.extend(batch.iter().map(|(_, key, hash)| lookup.matches(*hash, key)));
            for ((outer, ..), matches) in batch.drain(..).zip(found.drain(..)) {
                state = all(state, outer, matches);
            }
            state
        };
        state = outer.fold(state, |state, outer| {
            let key = key(&outer);
            let hash = lookup.hash(&key);
            batch.push((outer, key, hash));
            if batch.len() < BATCH { state } else { finish(state, &mut batch) }
        });
        finish(state, &mut batch)
    }
}

impl<P, Q, K, F, G, R, H> Pipeline for GroupJoin<P, Q, F, G, H>
where
    P: Pipeline,
    Q: Pipeline<Item: Sync>,
    K: Hash + Eq + Send + Sync,
    F: Fn(&P::Item) -> K + Send + Sync,
    G: Fn(&Q::Item) -> K + Send + Sync,
    H: Fn(P::Item, Matches<'_, Q::Item>) -> R + Send + Sync,
    R: Send,
{
    type Item = R;
    type Source = GroupJoinSource<P::Source, K, Q::Item, F, H>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let lookup = Lookup::build(context, &self.inner.open(context)?, self.inner_key)?;
        let outer = self.outer.open(context)?;
        Ok(GroupJoinSource { outer, lookup, key: self.outer_key, result: self.result })
    }
}

/// An opened [`GroupJoin`].
pub struct GroupJoinSource<S, K, T, F, H> {
    outer: S,
    lookup: Lookup<K, T>,
    key: F,
    result: H,
}

impl<S, K, T, F, R, H> Source for GroupJoinSource<S, K, T, F, H>
where
    S: Source,
    T: Send + Sync,
    K: Hash + Eq + Send + Sync,
    F: Fn(&S::Item) -> K + Send + Sync,
    H: Fn(S::Item, Matches<'_, T>) -> R + Send + Sync,
    R: Send,
{
    type Item = R;
    type Chunk<'a>
        = GroupJoinChunk<'a, S::Chunk<'a>, K, T, F, H>
    where
        Self: 'a;

    #[inline]
    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        let Self { outer, lookup, key, result } = self;
        let claimed = outer.claim(want)?;
        Some(claimed.map(|outer| GroupJoinChunk { outer, lookup, key, result }))
    }

    like_its_input!(exact outer);
}

/// A chunk of a [`GroupJoinSource`].
pub struct GroupJoinChunk<'a, C, K, T, F, H> {
    outer: C,
    lookup: &'a Lookup<K, T>,
    key: &'a F,
    result: &'a H,
}

impl<C, K, T, F, R, H> Iterator for GroupJoinChunk<'_, C, K, T, F, H>
where
    C: Iterator,
    K: Hash + Eq,
    F: Fn(&C::Item) -> K,
    H: Fn(C::Item, Matches<'_, T>) -> R,
{
    type Item = R;

    fn next(&mut self) -> Option<R> {
        let outer = self.outer.next()?;
        let key = (self.key)(&outer);
        let matches = self.lookup.matches(self.lookup.hash(&key), &key);
        Some((self.result)(outer, matches))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.outer.size_hint()
    }

    #[inline]
    fn fold<S, G: FnMut(S, R) -> S>(self, start: S, mut step: G) -> S {
        let Self { outer, lookup, key, result } = self;
        outer.fold(start, |state, outer| {
            let key = key(&outer);
            let matches = lookup.matches(lookup.hash(&key), &key);
            step(state, result(outer, matches))
        })
    }
}

impl<C: Iterator, K, T, F, H> fmt::Debug for JoinChunk<'_, C, K, T, F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinChunk").finish_non_exhaustive()
    }
}

impl<C, K, T, F, H> fmt::Debug for GroupJoinChunk<'_, C, K, T, F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupJoinChunk").finish_non_exhaustive()
    }
}

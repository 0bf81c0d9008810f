//! Maps, sets and deques, whose items are read in chunks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use super::iterator::{ChunkedParallel, Iterated};
use super::{AsParallel, IntoParallel};
use crate::query::query::Query;

/// Declares that a collection can be queried by reference and by value.
macro_rules! collections {
    ($($module:ident::$collection:ident<$($parameter:ident),*> $([$hasher:ident])?),* $(,)?) => {$(
        impl<$($parameter: Sync,)* $($hasher)?> AsParallel
            for $collection<$($parameter,)* $($hasher)?>
        {
            type Pipeline<'a>
                = Iterated<std::collections::$module::Iter<'a, $($parameter),*>>
            where
                Self: 'a;

            fn as_parallel(&self) -> Query<Self::Pipeline<'_>> {
                self.iter().chunked_parallel()
            }
        }

        impl<'a, $($parameter: Sync,)* $($hasher)?> IntoParallel
            for &'a $collection<$($parameter,)* $($hasher)?>
        {
            type Pipeline = Iterated<std::collections::$module::Iter<'a, $($parameter),*>>;

            fn into_parallel(self) -> Query<Self::Pipeline> {
                self.iter().chunked_parallel()
            }
        }

        impl<$($parameter: Send,)* $($hasher)?> IntoParallel
            for $collection<$($parameter,)* $($hasher)?>
        {
            type Pipeline = Iterated<std::collections::$module::IntoIter<$($parameter),*>>;

            fn into_parallel(self) -> Query<Self::Pipeline> {
                self.into_iter().chunked_parallel()
            }
        }
    )*};
}

collections! {
    hash_map::HashMap<K, V> [S],
    btree_map::BTreeMap<K, V>,
    hash_set::HashSet<T> [S],
    btree_set::BTreeSet<T>,
    vec_deque::VecDeque<T>,
}

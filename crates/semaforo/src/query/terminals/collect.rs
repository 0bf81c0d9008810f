//! All items, in a collection.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::ControlFlow;

use crate::query::cancellation::Cancellation;
use crate::query::drive::{Consumer, drive};
use crate::query::gather::gather;
use crate::query::parallel_vec::{Runs, join};
use crate::query::pipeline::Pipeline;
use crate::query::query::Query;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// All items. They are in order, also if the query is [unordered](Self::as_unordered): the
    /// order of chunks costs nothing here. (LINQ's `ToArray` and `ToList`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([3, 1, 2].as_parallel().map(|n| n + 1).to_vec(), [4, 2, 3]);
    /// ```
    #[doc(alias = "ToArray")]
    #[doc(alias = "ToList")]
    pub fn to_vec(self) -> L::Output<Vec<P::Item>> {
        self.execute(gather)
    }

    /// All items, in any collection. It is filled by the calling thread.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    /// use std::collections::BTreeSet;
    ///
    /// let remainders: BTreeSet<u32> = (0..100).as_parallel().map(|n| n % 3).collect();
    /// assert_eq!(remainders, BTreeSet::from([0, 1, 2]));
    /// ```
    pub fn collect<C: FromIterator<P::Item>>(self) -> L::Output<C> {
        self.execute(|context, source| Ok(gather(context, source)?.into_iter().collect()))
    }

    /// A map with a key and a value for every item. Keys and values are made in parallel, the map
    /// by the calling thread. If items have the same key, the last one counts. (LINQ's
    /// `ToDictionary`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let lengths = ["one", "three"].as_parallel().to_map(|word| word.len(), |word| *word);
    /// assert_eq!(lengths[&5], "three");
    /// ```
    #[doc(alias = "ToDictionary")]
    pub fn to_map<K, V, F, G>(self, key: F, value: G) -> L::Output<HashMap<K, V>>
    where
        K: Hash + Eq + Send,
        V: Send,
        F: Fn(&P::Item) -> K + Send + Sync,
        G: Fn(P::Item) -> V + Send + Sync,
    {
        self.map(move |item| (key(&item), value(item))).collect()
    }

    /// The items of which something is true, and the others, both in order.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let (even, odd) = (0..6).as_parallel().partition(|n| n % 2 == 0);
    /// assert_eq!((even, odd), (vec![0, 2, 4], vec![1, 3, 5]));
    /// ```
    #[expect(clippy::type_complexity, reason = "two vectors")]
    pub fn partition<F>(self, predicate: F) -> L::Output<(Vec<P::Item>, Vec<P::Item>)>
    where
        F: Fn(&P::Item) -> bool + Sync,
    {
        self.execute(|context, source| {
            let threads = drive(context, &source, &Dividing { predicate })?;
            let (mut these, mut those) = (Vec::new(), Vec::new());
            for [yes, no] in threads {
                these.push(yes);
                those.push(no);
            }
            Ok((join(context, these), join(context, those)))
        })
    }
}

/// Items that are divided in two.
struct Dividing<F> {
    predicate: F,
}

impl<T: Send, F: Fn(&T) -> bool + Sync> Consumer<T> for Dividing<F> {
    type State = [Runs<T>; 2];

    fn start(&self) -> Self::State {
        [Runs::new(), Runs::new()]
    }

    fn consume(
        &self,
        [yes, no]: &mut Self::State,
        (position, _): (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        yes.begin(position);
        no.begin(position);
        items.for_each(|item| {
            let these = if (self.predicate)(&item) { &mut *yes } else { &mut *no };
            these.push(item);
        });
        ControlFlow::Continue(())
    }
}

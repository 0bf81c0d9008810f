//! The other way round.

use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::gather::gather;
use crate::query::pipeline::Pipeline;
use crate::query::query::Query;
use crate::query::sources::vector::OwnedSource;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// The last item first. All are put into a vector for it.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((0..4).as_parallel().reverse().to_vec(), [3, 2, 1, 0]);
    /// ```
    pub fn reverse(self) -> Query<Reverse<P>, L> {
        self.wrap(|input, _| Reverse { input })
    }
}

/// [`Query::reverse`].
#[derive(Clone, Debug)]
pub struct Reverse<P> {
    input: P,
}

impl<P: Pipeline> Pipeline for Reverse<P> {
    type Item = P::Item;
    type Source = OwnedSource<P::Item>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let mut items = gather(context, self.input.open(context)?)?;
        items.reverse();
        Ok(OwnedSource::new(items))
    }
}

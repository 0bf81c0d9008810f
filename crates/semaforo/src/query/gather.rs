//! Everything that a source yields, in one vector.

use std::ops::ControlFlow;

use super::context::{Context, Halted};
use super::drive::{Consumer, drive};
use super::parallel_vec::{ParallelVec, Part, Runs, join};
use super::pipeline::Source;

/// All items, in order. That is free: joining what several threads have is no cheaper in any other
/// order.
pub(crate) fn gather<S: Source>(context: &Context, source: S) -> Result<Vec<S::Item>, Halted> {
    let source = match source.into_vec() {
        Ok(items) => return Ok(items),
        Err(source) => source,
    };
    let Some(len) = source.exact() else {
        return Ok(join(context, drive(context, &source, &InRuns)?));
    };
    let vector = ParallelVec::new(len);
    let parts = drive(context, &source, &InPlace { vector: &vector })?;
    let filled = Part::leave(parts.into_iter().flatten());
    // SAFETY: these are its parts.
    Ok(unsafe { vector.complete(filled) })
}

/// Items of which it is not known how many there will be before each.
struct InRuns;

impl<T: Send> Consumer<T> for InRuns {
    type State = Runs<T>;

    fn start(&self) -> Runs<T> {
        Runs::new()
    }

    fn consume(
        &self,
        runs: &mut Runs<T>,
        (start, _): (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        // As a fold, which many iterators are better at than at yielding one by one.
        runs.begin(start);
        items.for_each(|item| runs.push(item));
        ControlFlow::Continue(())
    }
}

/// Items whose position is their slot in the vector.
struct InPlace<'a, T> {
    vector: &'a ParallelVec<T>,
}

impl<'a, T: Send> Consumer<T> for InPlace<'a, T> {
    type State = Vec<Part<'a, T>>;

    fn start(&self) -> Self::State {
        Vec::new()
    }

    fn consume(
        &self,
        parts: &mut Self::State,
        (start, end): (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        // SAFETY: no two chunks cover the same position.
        let mut part = unsafe { self.vector.part(start..end) };
        items.for_each(|item| part.push(item));
        parts.push(part);
        ControlFlow::Continue(())
    }
}

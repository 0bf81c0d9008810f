//! Everything that a source yields, in one vector.

use std::ops::ControlFlow;

use super::context::{Context, Halted};
use super::drive::{Consumer, drive};
use super::parallel_vec::{ParallelVec, Part, join};
use super::pipeline::Source;

/// All items, in order. That is free: joining what several threads have is no cheaper in any other
/// order.
pub(crate) fn gather<S: Source>(context: &Context, source: S) -> Result<Vec<S::Item>, Halted> {
    let source = match source.into_vec() {
        Ok(items) => return Ok(items),
        Err(source) => source,
    };
    let Some(len) = source.exact() else {
        let pieces = drive(context, &source, &InPieces)?;
        return in_order(context, pieces.into_iter().flatten().collect());
    };
    let vector = ParallelVec::new(len);
    let parts = drive(context, &source, &InPlace { vector: &vector })?;
    let filled = Part::leave(parts.into_iter().flatten());
    // SAFETY: these are its parts.
    Ok(unsafe { vector.complete(filled) })
}

/// Joins pieces, each with the position of its first item.
pub(crate) fn in_order<T: Send>(
    context: &Context,
    mut pieces: Vec<(usize, Vec<T>)>,
) -> Result<Vec<T>, Halted> {
    pieces.sort_unstable_by_key(|(start, _)| *start);
    join(context, pieces.into_iter().map(|(_, items)| items).collect())
}

/// Items of which it is not known how many there will be before each.
struct InPieces;

impl<T: Send> Consumer<T> for InPieces {
    type State = Vec<(usize, Vec<T>)>;

    fn start(&self) -> Self::State {
        Vec::new()
    }

    fn consume(
        &self,
        pieces: &mut Self::State,
        (start, _): (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        // As a fold, which many iterators are better at than at yielding one by one.
        let mut piece = Vec::with_capacity(items.size_hint().0);
        items.for_each(|item| piece.push(item));
        if !piece.is_empty() {
            pieces.push((start, piece));
        }
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

//! Everything that a source yields, in one vector.

use std::ops::ControlFlow;

use super::context::{Context, Halted};
use super::drive::{Consumer, drive};
use super::pipeline::Source;

/// All items, in order. That is free: joining what several threads have is no cheaper in any other
/// order.
pub(crate) fn gather<S: Source>(context: &Context, source: S) -> Result<Vec<S::Item>, Halted> {
    let source = match source.into_vec() {
        Ok(items) => return Ok(items),
        Err(source) => source,
    };
    let pieces = drive(context, &source, &InPieces)?;
    Ok(in_order(pieces.into_iter().flatten().collect()))
}

/// Joins pieces, each with the position of its first item.
pub(crate) fn in_order<T>(mut pieces: Vec<(usize, Vec<T>)>) -> Vec<T> {
    if pieces.len() == 1 {
        return pieces.remove(0).1;
    }
    pieces.sort_unstable_by_key(|(start, _)| *start);
    let mut all = Vec::with_capacity(pieces.iter().map(|(_, piece)| piece.len()).sum());
    pieces.into_iter().for_each(|(_, mut piece)| all.append(&mut piece));
    all
}

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
        let piece: Vec<_> = items.collect();
        if !piece.is_empty() {
            pieces.push((start, piece));
        }
        ControlFlow::Continue(())
    }
}

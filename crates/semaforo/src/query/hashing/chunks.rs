//! The chunks that items came in, and the order of what is made of items from all of them.

use crate::query::context::{Context, Halted};
use crate::query::parallel_vec::rearrange;
use crate::query::sort::sort;

/// The chunks that items came in.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// The position of each, and how many items there were before it; by position.
    begins: Vec<(usize, usize)>,
    total: usize,
}

impl Chunks {
    /// From the positions and the numbers of items.
    pub(crate) fn new(mut chunks: Vec<(usize, usize)>) -> Self {
        chunks.sort_unstable();
        let mut total = 0;
        for (_, count) in &mut chunks {
            total += std::mem::replace(count, total);
        }
        Self { begins: chunks, total }
    }

    /// The number, among all items, of the one with this number in the chunk at this position.
    pub(crate) fn rank(&self, position: usize, number: usize) -> usize {
        let after = self.begins.partition_point(|(begin, _)| *begin <= position);
        self.begins[after - 1].1 + number
    }

    /// How many items there were.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Puts values into the order of their ranks, of which no two are the same.
    pub(crate) fn in_order<V: Send>(
        &self,
        context: &Context,
        ranked: Vec<Vec<(usize, V)>>,
    ) -> Result<Vec<V>, Halted> {
        let len = ranked.iter().map(Vec::len).sum();
        let (mut ranks, mut values) = (Vec::with_capacity(len), Vec::with_capacity(len));
        for (rank, value) in ranked.into_iter().flatten() {
            ranks.push(rank);
            values.push(value);
        }
        let order = self.order(context, &ranks)?;
        // SAFETY: every value has one rank, and no two have the same.
        Ok(unsafe { rearrange(context, values, &order) })
    }

    /// The numbers of the ranks, from the smallest on.
    fn order(&self, context: &Context, ranks: &[usize]) -> Result<Vec<u32>, Halted> {
        const NONE: u32 = u32::MAX;
        assert!(ranks.len() < NONE as usize, "more than four thousand million groups");
        if ranks.len() < self.total / 8 {
            let pairs = ranks.iter().zip(0_u32..).map(|(rank, index)| (*rank, index)).collect();
            let sorted = sort(context, pairs, |one: &(usize, u32), other| one.cmp(other))?;
            return Ok(sorted.into_iter().map(|(_, index)| index).collect());
        }
        let mut by_rank = vec![NONE; self.total];
        for (rank, index) in ranks.iter().zip(0..) {
            by_rank[*rank] = index;
        }
        by_rank.retain(|index| *index != NONE);
        assert_eq!(by_rank.len(), ranks.len(), "two values have the same rank");
        Ok(by_rank)
    }
}

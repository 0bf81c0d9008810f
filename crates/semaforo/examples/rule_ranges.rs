//! Readers and writers whose requests carry arguments and results: cells of which each request reads,
//! writes or edits a range. What does not overlap goes on at the same time, in the order of conflicts.
//!
//! `cargo run --release -p semaforo --example rule_ranges`

use semaforo::rule::{Contended, Order, Reply, Rule};
use std::ops::Range;

struct Cells {
    cells: Vec<u32>,
    /// What is held, and whether for changes.
    held: Vec<(Range<usize>, bool)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Access {
    /// Lends what these are, and will be until it is given back.
    Read(Range<usize>),
    /// Sets all of these, at once.
    Write(Range<usize>, u32),
    /// Lends these alone: they are written back when they are given back.
    Edit(Range<usize>),
}

#[derive(Debug)]
struct Lease {
    access: Access,
    values: Vec<u32>,
}

impl Access {
    fn range(&self) -> (&Range<usize>, bool) {
        match self {
            Self::Read(range) => (range, false),
            Self::Write(range, _) | Self::Edit(range) => (range, true),
        }
    }
}

fn conflict((one, one_changes): (&Range<usize>, bool), other: (&Range<usize>, bool)) -> bool {
    let (other, other_changes) = other;
    (one_changes || other_changes) && one.start < other.end && other.start < one.end
}

impl Rule for Cells {
    type Request = Access;
    type Answer = Lease;
    const ORDER: Order<Access> =
        Order::Conflict(|later, earlier| conflict(later.range(), earlier.range()));

    fn serve(&mut self, access: Access) -> Reply<Self> {
        let (range, changes) = access.range();
        let range = range.clone();
        if self.held.iter().any(|(held, changed)| conflict((&range, changes), (held, *changed))) {
            return Reply::Wait(access);
        }
        if let Access::Write(_, value) = access {
            self.cells[range].fill(value);
            return Reply::Done(Lease { access, values: Vec::new() });
        }
        let values = self.cells[range.clone()].to_vec();
        self.held.push((range, changes));
        Reply::Lent(Lease { access, values }, Self::give_back)
    }

    /// `serve` looks at the cells before it changes anything.
    fn is_whole(&self) -> bool {
        true
    }
}

impl Cells {
    fn give_back(&mut self, lease: Lease) -> Access {
        let (range, changes) = lease.access.range();
        let held = self.held.iter().position(|held| (&held.0, held.1) == (range, changes));
        self.held.swap_remove(held.expect("a lease is given back once"));
        if changes {
            self.cells[range.clone()].copy_from_slice(&lease.values);
        }
        lease.access
    }
}

fn main() {
    let cells = Contended::new(Cells { cells: vec![0; 8], held: Vec::new() });
    std::thread::scope(|scope| {
        let mut left = cells.hold(Access::Edit(0..4)).wait();
        let mut right = cells.hold(Access::Edit(4..8)).wait(); // at the same time
        let all = scope.spawn(|| cells.hold(Access::Read(0..8)).wait().values.clone());
        left.values.fill(1);
        right.values.fill(2);
        drop((left, right)); // lets the reader in
        println!("read: {:?}", all.join().expect("the reader has read"));
    });
    cells.request(Access::Write(2..6, 9)).wait();
    println!("then: {:?}", cells.into_inner().cells);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    fn cells(number: usize) -> Contended<Cells> {
        Contended::new(Cells { cells: vec![0; number], held: Vec::new() })
    }

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn only_conflicts_wait_and_in_their_order() {
        let cells = cells(10);
        let reads = cells.hold(Access::Read(0..4)).wait();
        let also_reads = cells.hold(Access::Read(2..6)).wait();
        let mut edits = cells.hold(Access::Edit(6..8)).wait();
        let mut writes = pin!(cells.request(Access::Write(3..5, 9)));
        assert!(poll(writes.as_mut()).is_pending());
        // It could read, but the writer came first.
        let mut behind = pin!(cells.hold(Access::Read(4..5)));
        assert!(poll(behind.as_mut()).is_pending());
        assert!(cells.try_request(Access::Write(8..10, 1)).is_ok());
        edits.values.fill(7);
        drop(edits);
        drop(reads);
        assert!(poll(writes.as_mut()).is_pending());
        drop(also_reads);
        assert!(poll(writes.as_mut()).is_ready());
        let Poll::Ready(read) = poll(behind.as_mut()) else { panic!("no writer is left") };
        assert_eq!(read.values, [9]);
        drop(read);
        assert_eq!(cells.with(|cells| cells.cells.clone()), [0, 0, 0, 9, 9, 0, 7, 7, 1, 1]);
    }

    #[test]
    fn a_request_that_leaves_lets_its_followers_in() {
        let cells = cells(4);
        let reads = cells.hold(Access::Read(0..4)).wait();
        let mut edits = Box::pin(cells.hold(Access::Edit(0..4)));
        assert!(poll(edits.as_mut()).is_pending());
        let mut reader = pin!(cells.hold(Access::Read(1..2)));
        assert!(poll(reader.as_mut()).is_pending());
        let ended = cells.hold(Access::Edit(0..1)).timeout(Duration::from_millis(5)).wait();
        assert_eq!(ended.unwrap_err().item, Access::Edit(0..1));
        drop(edits);
        assert!(poll(reader.as_mut()).is_ready());
        drop(reads);
    }

    #[test]
    fn a_range_that_is_not_there_ends_its_request_alone() {
        let cells = cells(4);
        let bad = || cells.hold(Access::Edit(3..5)).wait().values.len();
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(bad)).is_err());
        assert!(!cells.is_broken());
        assert_eq!(cells.hold(Access::Edit(0..4)).wait().values, [0; 4]);
    }
}

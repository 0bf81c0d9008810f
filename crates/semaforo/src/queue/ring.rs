//! A bounded ring that producers and consumers use without a lock, for as long as nobody waits.

use std::mem::MaybeUninit;

use crate::primitive::{AtomicU64, Ordering, TrackedCell};
use crate::wait::parker::Backoff;

/// The ring may be used only by whoever holds the queue's lock.
const SLOW: u64 = 1 << 63;

/// A ring of cells, each stamped with the position that it is ready for.
///
/// A position is a lap and, in its low bits, an index. The positions of the next item to be taken
/// (`head`) and of the next to be put (`tail`) are equal when the ring is empty, and a lap apart when
/// it is full.
///
/// | stamp of the cell at `position` | means |
/// |---|---|
/// | `position` | free, for the put at that position |
/// | `position + 1` | holds the item that was put at that position |
/// | `position + lap` | free, for the put one lap later |
///
/// Whoever moves a position by compare-and-swap owns the cell there until it stamps it. While `SLOW`
/// is set in both positions nobody can move them that way; it is set and cleared under the queue's
/// lock, and then only the lock's holder moves them. Items pass through the stamps (release and
/// acquire).
pub struct Ring<T> {
    head: Padded<AtomicU64>,
    tail: Padded<AtomicU64>,
    cells: Box<[Cell<T>]>,
    lap: u64,
}

/// On cache lines of its own: two, because processors fetch them in pairs.
#[repr(align(128))]
struct Padded<T>(T);

struct Cell<T> {
    stamp: AtomicU64,
    item: TrackedCell<MaybeUninit<T>>,
}

/// Why something was not put into the ring, or not taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotNow {
    /// It is full, or empty.
    NoUse,
    /// The lock has to be taken.
    Slow,
}

impl<T> Ring<T> {
    pub(super) fn new(capacity: usize) -> Self {
        let cells = (0..capacity as u64)
            .map(|index| Cell {
                stamp: AtomicU64::new(index),
                item: TrackedCell::new(MaybeUninit::uninit()),
            })
            .collect();
        Self {
            head: Padded(AtomicU64::new(0)),
            tail: Padded(AtomicU64::new(0)),
            cells,
            lap: (capacity as u64 + 1).next_power_of_two(),
        }
    }

    #[inline]
    fn cell(&self, position: u64) -> &Cell<T> {
        &self.cells[(position & (self.lap - 1)) as usize]
    }

    /// The position after this one.
    #[inline]
    fn after(&self, position: u64) -> u64 {
        let index = position & (self.lap - 1);
        if index + 1 < self.cells.len() as u64 { position + 1 } else { position - index + self.lap }
    }

    /// Puts an item, which `item` gives if there is a cell for it.
    #[inline]
    pub(super) fn try_put(&self, item: impl FnOnce() -> T) -> Result<(), NotNow> {
        let mut backoff = Backoff::new();
        let mut tail = self.tail.0.load(Ordering::Relaxed);
        loop {
            if tail & SLOW != 0 {
                return Err(NotNow::Slow);
            }
            let cell = self.cell(tail);
            let stamp = cell.stamp.load(Ordering::Acquire);
            if stamp == tail {
                match self.move_on(&self.tail.0, tail) {
                    Ok(()) => {
                        // SAFETY: moving the position made the cell ours, and it is free.
                        cell.item.look_mut(|own| unsafe { (*own).write(item()) });
                        cell.stamp.store(tail + 1, Ordering::Release);
                        return Ok(());
                    }
                    Err(now) => {
                        tail = now;
                        continue;
                    }
                }
            }
            if stamp + self.lap == tail + 1 {
                // It still holds the item of the lap before, unless that is being taken just now.
                if self.head.0.load(Ordering::Acquire) & !SLOW == tail - self.lap {
                    return Err(NotNow::NoUse);
                }
            }
            backoff.wait();
            tail = self.tail.0.load(Ordering::Relaxed);
        }
    }

    /// Takes an item.
    #[inline]
    pub(super) fn try_take(&self) -> Result<T, NotNow> {
        let mut backoff = Backoff::new();
        let mut head = self.head.0.load(Ordering::Relaxed);
        loop {
            if head & SLOW != 0 {
                return Err(NotNow::Slow);
            }
            let cell = self.cell(head);
            let stamp = cell.stamp.load(Ordering::Acquire);
            if stamp == head + 1 {
                match self.move_on(&self.head.0, head) {
                    Ok(()) => {
                        // SAFETY: moving the position made the cell ours, and it holds an item.
                        let item = cell.item.look_mut(|own| unsafe { (*own).assume_init_read() });
                        cell.stamp.store(head + self.lap, Ordering::Release);
                        return Ok(item);
                    }
                    Err(now) => {
                        head = now;
                        continue;
                    }
                }
            }
            // It is still free, unless an item is being put just now.
            if stamp == head && self.tail.0.load(Ordering::Acquire) & !SLOW == head {
                return Err(NotNow::NoUse);
            }
            backoff.wait();
            head = self.head.0.load(Ordering::Relaxed);
        }
    }

    #[inline]
    fn move_on(&self, position: &AtomicU64, from: u64) -> Result<(), u64> {
        position
            .compare_exchange(from, self.after(from), Ordering::AcqRel, Ordering::Relaxed)
            .map(drop)
    }

    /// Keeps everyone from using the ring without the lock, which is held.
    pub(super) fn slow_down(&self) {
        Self::mark(&self.tail.0, |position| position | SLOW);
        Self::mark(&self.head.0, |position| position | SLOW);
    }

    /// Lets everyone use the ring again.
    pub(super) fn speed_up(&self) {
        Self::mark(&self.head.0, |position| position & !SLOW);
        Self::mark(&self.tail.0, |position| position & !SLOW);
    }

    fn mark(position: &AtomicU64, mark: impl Fn(u64) -> u64) {
        let mut current = position.load(Ordering::Relaxed);
        while let Err(now) =
            position.compare_exchange(current, mark(current), Ordering::AcqRel, Ordering::Relaxed)
        {
            current = now;
        }
    }

    /// The positions of the next item to be taken and to be put.
    fn positions(&self) -> (u64, u64) {
        (self.head.0.load(Ordering::Acquire) & !SLOW, self.tail.0.load(Ordering::Acquire) & !SLOW)
    }

    /// Puts an item. The lock is held, and the ring slowed down.
    pub(super) fn put(&self, item: T) -> Result<(), T> {
        let (head, tail) = self.positions();
        if head + self.lap == tail {
            return Err(item);
        }
        let cell = self.cell(tail);
        // Somebody who came before it was slowed down may still be taking what was there.
        wait_for(&cell.stamp, tail);
        // SAFETY: the cell is free, and nobody else can move the position.
        cell.item.look_mut(|own| unsafe { (*own).write(item) });
        cell.stamp.store(tail + 1, Ordering::Release);
        self.tail.0.store(self.after(tail) | SLOW, Ordering::Release);
        Ok(())
    }

    /// Takes an item. The lock is held, and the ring slowed down.
    pub(super) fn take(&self) -> Option<T> {
        let (head, tail) = self.positions();
        if head == tail {
            return None;
        }
        let cell = self.cell(head);
        // Somebody who came before it was slowed down may still be putting it.
        wait_for(&cell.stamp, head + 1);
        // SAFETY: the cell holds an item, and nobody else can move the position.
        let item = cell.item.look_mut(|own| unsafe { (*own).assume_init_read() });
        cell.stamp.store(head + self.lap, Ordering::Release);
        self.head.0.store(self.after(head) | SLOW, Ordering::Release);
        Some(item)
    }

    /// Copies the next item. The lock is held, and the ring slowed down.
    pub(super) fn peek(&self) -> Option<T>
    where
        T: Copy,
    {
        let (head, tail) = self.positions();
        if head == tail {
            return None;
        }
        let cell = self.cell(head);
        wait_for(&cell.stamp, head + 1);
        // SAFETY: the cell holds an item, and nobody else can move the position.
        Some(cell.item.look(|own| unsafe { (*own).assume_init() }))
    }

    /// How many items there are, between one look and the next.
    pub(super) fn len(&self) -> usize {
        loop {
            let (head, tail) = self.positions();
            // The tail belongs to this head if the head has not moved since.
            if self.head.0.load(Ordering::Acquire) & !SLOW == head {
                let laps = (tail & !(self.lap - 1)).wrapping_sub(head & !(self.lap - 1));
                let indices = (tail & (self.lap - 1)).wrapping_sub(head & (self.lap - 1));
                let full = if laps == 0 { 0 } else { self.cells.len() as u64 };
                return full.wrapping_add(indices) as usize;
            }
        }
    }
}

/// Waits for what a running thread is about to do.
fn wait_for(stamp: &AtomicU64, expected: u64) {
    let mut backoff = Backoff::new();
    while stamp.load(Ordering::Acquire) != expected {
        backoff.wait();
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            self.slow_down();
            while self.take().is_some() {}
        }
    }
}

impl<T> std::fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("len", &self.len()).finish_non_exhaustive()
    }
}

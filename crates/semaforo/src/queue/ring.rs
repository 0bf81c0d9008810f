//! A bounded ring that producers and consumers use without a lock, for as long as no request waits.

use std::mem::MaybeUninit;

use crate::primitive::{AtomicU64, Ordering, TrackedCell};
use crate::wait::parker::Backoff;

/// The ring may be used only by the thread that holds the queue's lock.
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
/// The thread that moves a position by compare-and-swap owns the cell there until it stamps it.
/// While `SLOW` is set in both positions no thread can move them that way; it is set and cleared
/// under the queue's lock, and then only the lock's holder moves them. Items pass through the
/// stamps (release and acquire). A thread that sees that a position was moved sees what its mover
/// had seen, so that the ring is full or empty for no thread when it never was.
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

impl<T> Cell<T> {
    /// # Safety
    /// The cell is the caller's, and free for the put at this position.
    #[inline(always)]
    unsafe fn put(&self, position: u64, item: T) {
        // SAFETY: passed on from the caller.
        self.item.look_mut(|own| unsafe { (*own).write(item) });
        self.stamp.store(position + 1, Ordering::Release);
    }

    /// Takes the item, and leaves the cell free for the put at this position.
    ///
    /// # Safety
    /// The cell is the caller's, and holds an item.
    #[inline(always)]
    unsafe fn take(&self, position: u64) -> T {
        // SAFETY: passed on from the caller.
        let item = self.item.look_mut(|own| unsafe { (*own).assume_init_read() });
        self.stamp.store(position, Ordering::Release);
        item
    }
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
    #[inline(always)]
    pub(super) fn try_put(&self, item: impl FnOnce() -> T) -> Result<(), NotNow> {
        let tail = self.tail.0.load(Ordering::Relaxed);
        if tail & SLOW == 0 {
            let cell = self.cell(tail);
            if cell.stamp.load(Ordering::Acquire) == tail
                && self.move_on(&self.tail.0, tail).is_ok()
            {
                // SAFETY: moving the position made the cell ours, and it is free.
                unsafe { cell.put(tail, item()) };
                return Ok(());
            }
        }
        self.try_put_again(item)
    }

    #[inline(never)]
    fn try_put_again(&self, item: impl FnOnce() -> T) -> Result<(), NotNow> {
        let mut backoff = Backoff::new();
        loop {
            let tail = self.tail.0.load(Ordering::Acquire);
            if tail & SLOW != 0 {
                return Err(NotNow::Slow);
            }
            let cell = self.cell(tail);
            let stamp = cell.stamp.load(Ordering::Acquire);
            if stamp == tail {
                if self.move_on(&self.tail.0, tail).is_ok() {
                    // SAFETY: moving the position made the cell ours, and it is free.
                    unsafe { cell.put(tail, item()) };
                    return Ok(());
                }
            } else if stamp + self.lap == tail + 1
                // It still holds the item of the lap before, unless that is being taken just now.
                && self.head.0.load(Ordering::Acquire) & !SLOW == tail - self.lap
            {
                return Err(NotNow::NoUse);
            }
            backoff.wait();
        }
    }

    /// Takes an item.
    #[inline(always)]
    pub(super) fn try_take(&self) -> Result<T, NotNow> {
        let head = self.head.0.load(Ordering::Relaxed);
        if head & SLOW == 0 {
            let cell = self.cell(head);
            if cell.stamp.load(Ordering::Acquire) == head + 1
                && self.move_on(&self.head.0, head).is_ok()
            {
                // SAFETY: moving the position made the cell ours, and it holds an item.
                return Ok(unsafe { cell.take(head + self.lap) });
            }
        }
        self.try_take_again()
    }

    #[inline(never)]
    fn try_take_again(&self) -> Result<T, NotNow> {
        let mut backoff = Backoff::new();
        loop {
            let head = self.head.0.load(Ordering::Acquire);
            if head & SLOW != 0 {
                return Err(NotNow::Slow);
            }
            let cell = self.cell(head);
            let stamp = cell.stamp.load(Ordering::Acquire);
            if stamp == head + 1 {
                if self.move_on(&self.head.0, head).is_ok() {
                    // SAFETY: moving the position made the cell ours, and it holds an item.
                    return Ok(unsafe { cell.take(head + self.lap) });
                }
            } else if stamp == head && self.tail.0.load(Ordering::Acquire) & !SLOW == head {
                // It is free, and nothing is being put just now.
                return Err(NotNow::NoUse);
            }
            backoff.wait();
        }
    }

    #[inline]
    fn move_on(&self, position: &AtomicU64, from: u64) -> Result<(), u64> {
        position
            .compare_exchange(from, self.after(from), Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }

    /// Keeps all threads from using the ring without the lock, which is held.
    pub(super) fn slow_down(&self) {
        Self::mark(&self.tail.0, |position| position | SLOW);
        Self::mark(&self.head.0, |position| position | SLOW);
    }

    /// Lets all threads use the ring again.
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
        // A thread that came before it was slowed down may still be taking what was there.
        wait_for(&cell.stamp, tail);
        // SAFETY: the cell is free, and no other thread can move the position.
        unsafe { cell.put(tail, item) };
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
        // A thread that came before it was slowed down may still be putting it.
        wait_for(&cell.stamp, head + 1);
        // SAFETY: the cell holds an item, and no other thread can move the position.
        let item = unsafe { cell.take(head + self.lap) };
        self.head.0.store(self.after(head) | SLOW, Ordering::Release);
        Some(item)
    }

    /// Looks at the next item. The lock is held, and the ring slowed down.
    pub(super) fn peek<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        let (head, tail) = self.positions();
        if head == tail {
            return None;
        }
        let cell = self.cell(head);
        wait_for(&cell.stamp, head + 1);
        // SAFETY: the cell holds an item, and no other thread can move the position.
        Some(cell.item.look(|own| look(unsafe { (*own).assume_init_ref() })))
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

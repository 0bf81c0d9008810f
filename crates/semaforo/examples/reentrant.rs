//! Locks that their owner may take again: methods that lock call other methods that lock, as in Java
//! and C#, where every monitor is so. The owner is a thread, or the holder of a key.
//!
//! - a *library* that lends books: `ReentrantLock`, by a thread and, for a task, by a key;
//! - its *catalogue*, which is corrected while it is read: `ReentrantRwLock`;
//! - its *desk*, where one waits inside of two procedures: `ReentrantMonitor`.
//!
//! Because the owner may have several guards, they give `&T` only: what changes is in a `Cell`, or in
//! an atomic where others may look meanwhile.
//!
//! `cargo run --release -p semaforo --example reentrant`

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use futures::executor::block_on;
use semaforo::{OwnerKey, ReentrantLock, ReentrantMonitor, ReentrantRwLock, TooManyHolds};

/// Books on the shelf, behind one lock that every procedure takes.
struct Library {
    shelf: ReentrantLock<Cell<u32>>,
}

impl Library {
    fn new(books: u32) -> Self {
        Self { shelf: ReentrantLock::new(Cell::new(books)) }
    }

    fn lend(&self) -> Result<bool, TooManyHolds> {
        let shelf = self.shelf.lock().wait()?;
        let any = shelf.get() > 0;
        shelf.set(shelf.get() - u32::from(any));
        Ok(any)
    }

    /// So many books or none, and nobody sees a number in between. Returns how many locks were held
    /// inside.
    fn lend_all(&self, books: u32) -> Result<(bool, u32), TooManyHolds> {
        let shelf = self.shelf.lock().wait()?;
        let enough = shelf.get() >= books;
        for _ in 0..if enough { books } else { 0 } {
            assert!(self.lend()?, "there were enough");
        }
        let inner = self.shelf.lock().wait()?;
        let holds = self.shelf.holds();
        drop((inner, shelf));
        Ok((enough, holds))
    }
}

/// A task that takes a lock twice across an `.await` has a key: it may go on in another thread, and its
/// guards with it. What others share has to be an atomic.
async fn count_twice(visitors: &ReentrantLock<AtomicU32>) -> Result<u32, TooManyHolds> {
    let me = OwnerKey::new();
    let outer = visitors.lock_as(&me).await?;
    outer.fetch_add(1, Ordering::Relaxed);
    let inner = visitors.lock_as(&me).await?;
    inner.fetch_add(1, Ordering::Relaxed);
    assert!(visitors.try_lock_as(&OwnerKey::new()).is_none(), "a stranger's key");
    Ok(visitors.holds())
}

/// A correction that ends by reading what it has corrected, with no other writer in between. Returns what
/// is read, and how many writes and readers there are then.
fn correct(title: &ReentrantRwLock<AtomicU32>) -> Result<(u32, u32, u32), TooManyHolds> {
    let write = title.write().wait()?;
    let again = title.write().wait()?;
    again.store(2, Ordering::Relaxed);
    let read = title.read().wait()?;
    drop((write, again));
    Ok((read.load(Ordering::Relaxed), title.writes(), title.readers()))
}

/// Waits inside of two procedures: the monitor is left altogether, and entered as often again.
fn take_from(desk: &ReentrantMonitor<AtomicU32>) -> Result<u32, TooManyHolds> {
    let _outer = desk.enter().wait()?;
    let inner = desk.enter().wait()?;
    let inner = desk.wait_while(inner, |books| books.load(Ordering::Relaxed) == 0).wait();
    inner.fetch_sub(1, Ordering::Relaxed);
    Ok(desk.holds())
}

fn put_on(desk: &ReentrantMonitor<AtomicU32>) -> Result<(), TooManyHolds> {
    let inside = desk.enter().wait()?;
    inside.fetch_add(1, Ordering::Relaxed);
    desk.notify(&inside);
    Ok(())
}

fn main() -> Result<(), TooManyHolds> {
    let library = Library::new(5);
    for books in [3, 3, 2] {
        let (lent, holds) = library.lend_all(books)?;
        println!("{books} books at once: {lent}; the lock was held {holds} times");
    }
    let visitors = ReentrantLock::new(AtomicU32::new(0));
    println!("a task with a key holds it {} times", block_on(count_twice(&visitors))?);
    let (edition, writes, readers) = correct(&ReentrantRwLock::new(AtomicU32::new(1)))?;
    println!("edition {edition}, read by {readers} after the last of its writes ({writes} left)");

    let desk = ReentrantMonitor::new(AtomicU32::new(0));
    thread::scope(|scope| {
        let taker = scope.spawn(|| take_from(&desk));
        while desk.waiting() == 0 {
            thread::yield_now();
        }
        put_on(&desk)?;
        let holds = taker.join().expect("it does not panic")?;
        println!(
            "one waited at the desk inside of {holds} procedures, and others came in meanwhile"
        );
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn procedures_that_lock_call_procedures_that_lock() {
        let library = Library::new(5);
        assert_eq!(library.lend_all(3), Ok((true, 2)));
        assert_eq!(library.lend_all(3), Ok((false, 2)), "all or nothing");
        assert_eq!(library.lend_all(2), Ok((true, 2)));
        assert_eq!(library.lend(), Ok(false));
        assert_eq!(library.shelf.holds(), 0);
    }

    #[test]
    fn a_task_holds_twice_by_its_key() {
        let visitors = ReentrantLock::new(AtomicU32::new(0));
        assert_eq!(block_on(count_twice(&visitors)), Ok(2));
        assert_eq!((visitors.into_inner().into_inner()), 2);
    }

    #[test]
    fn a_writer_goes_on_reading() {
        let title = ReentrantRwLock::new(AtomicU32::new(1));
        assert_eq!(correct(&title), Ok((2, 0, 1)));
        assert_eq!(title.readers(), 0);
    }

    #[test]
    fn who_waits_has_left_altogether_and_is_back_as_often() {
        let desk = ReentrantMonitor::new(AtomicU32::new(0));
        thread::scope(|scope| {
            let taker = scope.spawn(|| take_from(&desk));
            while desk.waiting() == 0 {
                thread::yield_now();
            }
            put_on(&desk).unwrap();
            assert_eq!(taker.join().unwrap(), Ok(2));
        });
        assert!(!desk.is_entered());
    }
}

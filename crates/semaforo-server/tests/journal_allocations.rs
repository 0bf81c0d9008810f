//! Submitting a batch allocates nothing. Alone in its program, for the sake of its allocator.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    io,
};

use semaforo_server::journal::{
    BadEvent, Durability, FileJournal, Fold, Journal, Options, Recovered,
};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Nothing;

impl Fold for Nothing {
    fn apply(&mut self, _events: &[u8]) -> Result<(), BadEvent> {
        Ok(())
    }

    fn dump(&self, _sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn submitting_allocates_nothing() {
    let directory =
        std::env::temp_dir().join(format!("semaforo-journal-allocations-{}", std::process::id()));
    let options =
        Options { segment_size: 1 << 20, durability: Durability::Memory, ..Options::default() };
    let Recovered { mut journal, .. } =
        FileJournal::open::<Nothing>(&directory, options).unwrap_or_else(|error| panic!("{error}"));
    let event = [7; 300];
    // The first batch gets the buffer, and this waits for the next segment.
    journal.submit(&event, 1, true).unwrap();
    while journal.is_preparing() {
        journal.turn(std::time::Instant::now()).unwrap();
    }
    assert!(journal.fits(1 << 19) && journal.fits((1 << 20) - 8192));
    let before = COUNT.get();
    for time in 0..1000 {
        assert!(journal.fits(event.len()));
        journal.submit(&event, time, time % 100 == 0).unwrap();
    }
    assert_eq!(COUNT.get() - before, 0);
    drop(journal);
    std::fs::remove_dir_all(&directory).unwrap();
}

//! Two more schedulers: downloads run on the pool, but at most two at once, whatever else it does
//! (`Limited`); and what they bring is shown by the thread that owns the window, because nothing else may
//! touch it (`CurrentThread`, .NET's `SynchronizationContext`).
//!
//! `cargo run --release -p semaforo --example downloads`

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

use semaforo::tasks::{CurrentThread, Limited, Pool, Spawn, when_all};

const AT_ONCE: usize = 2;

thread_local! {
    /// What the window shows. Only its own thread reaches it.
    static WINDOW: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// How many downloads run, and the most that ever did.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    fn inside<R>(&self, run: impl FnOnce() -> R) -> R {
        self.most.fetch_max(self.now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let result = run();
        self.now.fetch_sub(1, Ordering::Relaxed);
        result
    }
}

/// What there is to see afterwards.
struct Shown {
    lines: Vec<String>,
    most_at_once: usize,
    /// By which threads it was shown.
    shown_by: Vec<ThreadId>,
}

/// Downloads so many pages, and shows each as it comes, in this thread.
fn show(pages: usize, each: Duration) -> Shown {
    let pool = Pool::builder().threads(4).build().expect("four threads can be had");
    let (downloads, window) = (Limited::new(pool, AT_ONCE), CurrentThread::new());
    let gauge = Arc::new(Gauge::default());
    let shown = (0..pages).map(|page| {
        let gauge = Arc::clone(&gauge);
        let download = downloads.spawn(move || {
            gauge.inside(|| {
                thread::sleep(each);
                format!("page {page}")
            })
        });
        download.then(&window, |page| {
            let page = page.expect("downloads do not panic");
            WINDOW.with_borrow_mut(|lines| lines.push(page));
            thread::current().id()
        })
    });
    // The thread of the window shows what comes until all is there.
    let shown = window.run_until(when_all(shown.collect::<Vec<_>>()));
    let shown = shown.expect("nothing ends the wait");
    let shown_by = shown.into_iter().map(|by| by.expect("showing does not panic")).collect();
    let lines = WINDOW.with_borrow_mut(std::mem::take);
    Shown { lines, most_at_once: gauge.most.load(Ordering::Relaxed), shown_by }
}

fn main() {
    let shown = show(6, Duration::from_millis(20));
    println!("as they came: {}", shown.lines.join(", "));
    println!("downloads at once: never more than {}", shown.most_at_once);
    let here = shown.shown_by.iter().all(|by| *by == thread::current().id());
    println!("all shown by the window's own thread: {here}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_shown_once_by_the_thread_of_the_window() {
        let mut shown = show(8, Duration::from_millis(1));
        shown.lines.sort_unstable();
        assert!(shown.lines.into_iter().eq((0..8).map(|page| format!("page {page}"))));
        assert_eq!(shown.shown_by, [thread::current().id(); 8]);
    }

    #[test]
    fn never_more_download_at_once_than_may() {
        assert!(show(12, Duration::from_millis(1)).most_at_once <= AT_ONCE);
    }
}

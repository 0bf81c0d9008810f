//! Breakfast made asynchronously: everything is started at once and awaited together, and what needs
//! the only pan waits for it, in order.
//!
//! A minute takes 20 ms here. `cargo run --release -p semaforo --example breakfast`

use std::cell::RefCell;
use std::time::Duration;

use semaforo::{Mutex, Semaphore};
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_millis(20);

/// Something for breakfast, and how long after the start it was ready.
type Ready = (&'static str, Duration);

struct Kitchen {
    pan: Mutex<()>,
    slots_of_the_toaster: Semaphore,
    start: Instant,
    table: RefCell<Vec<Ready>>,
}

impl Kitchen {
    fn new() -> Self {
        Self {
            pan: Mutex::new(()),
            slots_of_the_toaster: Semaphore::new(2),
            start: Instant::now(),
            table: RefCell::new(Vec::new()),
        }
    }

    async fn coffee(&self) {
        sleep(2 * MINUTE).await;
        self.serve("coffee");
    }

    async fn eggs(&self) {
        let pan = self.pan.lock().await;
        sleep(3 * MINUTE).await;
        drop(pan);
        self.serve("eggs");
    }

    async fn bacon(&self) {
        let pan = self.pan.lock().await;
        sleep(6 * MINUTE).await;
        drop(pan);
        self.serve("bacon");
    }

    async fn toast(&self) {
        let slots = self.slots_of_the_toaster.acquire(2).await.expect("it has two slots");
        sleep(4 * MINUTE).await;
        drop(slots);
        sleep(MINUTE).await;
        self.serve("toast with butter");
    }

    fn serve(&self, what: &'static str) {
        self.table.borrow_mut().push((what, self.start.elapsed()));
    }

    fn table(self) -> Vec<Ready> {
        self.table.into_inner()
    }
}

async fn one_after_the_other() -> Vec<Ready> {
    let kitchen = Kitchen::new();
    kitchen.coffee().await;
    kitchen.eggs().await;
    kitchen.bacon().await;
    kitchen.toast().await;
    kitchen.table()
}

async fn all_together() -> Vec<Ready> {
    let kitchen = Kitchen::new();
    tokio::join!(kitchen.coffee(), kitchen.eggs(), kitchen.bacon(), kitchen.toast());
    kitchen.table()
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / MINUTE.as_secs_f64()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    for (how, table) in [
        ("one after the other", one_after_the_other().await),
        ("all together", all_together().await),
    ] {
        println!("Made {how}:");
        for (what, time) in table {
            println!("  {what:<18} after {:>4.1} minutes", minutes(time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was ready, after how many minutes of a clock that runs only while everyone waits.
    fn ready(table: Vec<Ready>) -> Vec<(&'static str, f64)> {
        table.into_iter().map(|(what, time)| (what, minutes(time).round())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn together_it_takes_as_long_as_the_pan_is_in_use() {
        let expected = [("coffee", 2.0), ("eggs", 3.0), ("toast with butter", 5.0), ("bacon", 9.0)];
        assert_eq!(ready(all_together().await), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn one_after_the_other_it_takes_the_sum() {
        let expected =
            [("coffee", 2.0), ("eggs", 5.0), ("bacon", 11.0), ("toast with butter", 16.0)];
        assert_eq!(ready(one_after_the_other().await), expected);
    }
}

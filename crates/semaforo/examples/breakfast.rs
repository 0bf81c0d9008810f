//! Breakfast made asynchronously: everything is started at once and awaited together, and what needs
//! the only pan waits for it, in order. One thread is enough: nobody stands at the stove and waits.
//!
//! A minute takes 20 ms here. `cargo run --release -p semaforo --example breakfast`

use std::sync::Mutex;
use std::time::{Duration, Instant};

use semaforo::tasks::{BuildError, Pool, sleep};

const MINUTE: Duration = Duration::from_millis(20);

/// Something for breakfast, and how long after the start it was ready.
type Ready = (&'static str, Duration);

struct Kitchen {
    pan: semaforo::Mutex<()>,
    slots_of_the_toaster: semaforo::Semaphore,
    start: Instant,
    table: Mutex<Vec<Ready>>,
}

impl Kitchen {
    fn new() -> Self {
        Self {
            pan: semaforo::Mutex::new(()),
            slots_of_the_toaster: semaforo::Semaphore::new(2),
            start: Instant::now(),
            table: Mutex::default(),
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
        self.table.lock().unwrap().push((what, self.start.elapsed()));
    }

    fn table(self) -> Vec<Ready> {
        self.table.into_inner().unwrap()
    }
}

fn one_after_the_other(cook: &Pool) -> Vec<Ready> {
    let kitchen = Kitchen::new();
    cook.scope(|scope| {
        scope.spawn_future(async {
            kitchen.coffee().await;
            kitchen.eggs().await;
            kitchen.bacon().await;
            kitchen.toast().await;
        });
    });
    kitchen.table()
}

fn all_together(cook: &Pool) -> Vec<Ready> {
    let kitchen = Kitchen::new();
    // The scope ends when all is on the table.
    cook.scope(|scope| {
        scope.spawn_future(kitchen.coffee());
        scope.spawn_future(kitchen.eggs());
        scope.spawn_future(kitchen.bacon());
        scope.spawn_future(kitchen.toast());
    });
    kitchen.table()
}

/// One who does one thing after the other, in the order in which it was told.
fn cook() -> Result<Pool, BuildError> {
    Pool::builder().threads(1).name("cook").build()
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / MINUTE.as_secs_f64()
}

fn main() -> Result<(), BuildError> {
    let cook = cook()?;
    for (how, table) in
        [("one after the other", one_after_the_other(&cook)), ("all together", all_together(&cook))]
    {
        println!("Made {how}, by one cook:");
        for (what, time) in table {
            println!("  {what:<18} after {:>4.1} minutes", minutes(time));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was ready in this order, and none of it before its time. (After it, on a busy machine.)
    #[track_caller]
    fn expect(table: &[Ready], expected: [(&'static str, u32); 4]) {
        let order: Vec<_> = table.iter().map(|(what, _)| *what).collect();
        assert_eq!(order, expected.map(|(what, _)| what));
        for ((what, time), (_, minutes)) in table.iter().zip(expected) {
            assert!(*time >= minutes * MINUTE, "{what} was ready after {time:?}");
        }
    }

    #[test]
    fn together_it_takes_as_long_as_the_pan_is_in_use() {
        let expected = [("coffee", 2), ("eggs", 3), ("toast with butter", 5), ("bacon", 9)];
        expect(&all_together(&cook().unwrap()), expected);
    }

    #[test]
    fn one_after_the_other_it_takes_the_sum() {
        let expected = [("coffee", 2), ("eggs", 5), ("bacon", 11), ("toast with butter", 16)];
        expect(&one_after_the_other(&cook().unwrap()), expected);
    }
}

//! A race: no runner starts before the gun, an `Event` (a boolean latch, .NET's
//! `ManualResetEvent`), and the judge waits until all have arrived, at a `Latch` (Java's
//! `CountDownLatch`, .NET's `CountdownEvent`). Half of the runners are threads, half are tasks.
//!
//! `cargo run --release -p semaforo --example latch_and_event`

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use semaforo::tasks::Pool;
use semaforo::{Event, Latch};

struct Race {
    gun: Event,
    /// One for each runner who has not arrived.
    missing: Latch,
    /// Who arrived, in this order, and whether the gun had been fired by then.
    arrived: Mutex<Vec<(u32, bool)>>,
}

impl Race {
    fn new(runners: u32) -> Arc<Self> {
        let (gun, missing) = (Event::new(), Latch::new(runners));
        Arc::new(Self { gun, missing, arrived: Mutex::default() })
    }

    fn arrive(&self, runner: u32) {
        self.arrived.lock().unwrap().push((runner, self.gun.is_set()));
        self.missing.count_down();
    }

    /// A runner who is a thread.
    fn start_thread(self: &Arc<Self>, runner: u32) -> thread::JoinHandle<()> {
        let race = Arc::clone(self);
        thread::spawn(move || {
            race.gun.happened().wait();
            race.arrive(runner);
        })
    }

    /// A runner who is a task.
    fn start_task(self: &Arc<Self>, pool: &Pool, runner: u32) -> semaforo::tasks::Handle<()> {
        let race = Arc::clone(self);
        pool.spawn_future(async move {
            race.gun.happened().await;
            race.arrive(runner);
        })
    }
}

/// Runs a race of so many, and tells who arrived, in which order.
fn run(runners: u32) -> Vec<(u32, bool)> {
    let race = Race::new(runners);
    let pool = Pool::new();
    let (mut threads, mut tasks) = (Vec::new(), Vec::new());
    for runner in 0..runners {
        match runner % 2 {
            0 => threads.push(race.start_thread(runner)),
            _ => tasks.push(race.start_task(&pool, runner)),
        }
    }
    while race.gun.waiters() < runners as usize {
        thread::yield_now();
    }
    println!("{runners} runners wait for the gun: {:?}", race.gun);
    let in_vain = race.missing.opened().timeout(Duration::from_millis(20)).wait();
    println!("the judge looks after 20 ms: {in_vain:?}, {:?}", race.missing);

    race.gun.set();
    race.missing.opened().wait();
    println!("all have arrived:          {:?}", race.missing);
    // The gun stays fired: a late runner does not wait, and the judge can ask again.
    race.gun.happened().wait();
    race.missing.opened().wait();

    for thread in threads {
        thread.join().expect("runners do not panic");
    }
    for task in tasks {
        task.wait().expect("runners do not panic");
    }
    let arrived = race.arrived.lock().unwrap();
    arrived.clone()
}

fn main() {
    let arrived = run(8);
    let order: Vec<_> = arrived.iter().map(|(runner, _)| runner.to_string()).collect();
    println!("in the order {}", order.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_arrives_once_and_after_the_gun() {
        let mut arrived = run(6);
        arrived.sort_unstable();
        assert!(arrived.into_iter().eq((0..6).map(|runner| (runner, true))));
    }

    #[test]
    fn an_event_lets_everyone_through_until_it_is_reset() {
        let event = Event::new();
        event.set();
        event.happened().wait();
        event.happened().wait();
        event.reset();
        assert!(event.happened().timeout(Duration::ZERO).wait().is_err());
    }

    #[test]
    fn counting_down_at_zero_has_no_effect() {
        let latch = Latch::new(1);
        latch.count_down();
        latch.count_down();
        assert!(latch.is_open());
        latch.opened().wait();
    }
}

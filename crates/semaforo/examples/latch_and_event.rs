//! A race: no runner starts before the gun, an `Event` (a boolean latch, .NET's
//! `ManualResetEvent`), and the judge waits until all have arrived, at a `Latch` (Java's
//! `CountDownLatch`, .NET's `CountdownEvent`). Half of the runners are threads, half are tasks. Afterwards
//! they leave through a turnstile, an `AutoEvent` (.NET's `AutoResetEvent`): each push lets one through.
//!
//! `cargo run --release -p semaforo --example latch_and_event`

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use semaforo::tasks::Pool;
use semaforo::{AutoEvent, CancelSource, Event, Latch};

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
    let alive = |threads: &[thread::JoinHandle<()>]| {
        threads.iter().filter(|thread| !thread.is_finished()).count()
    };
    println!("of the threads, {} are alive", alive(&threads));
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

/// So many want to leave through a turnstile that is pushed so often, and one push at a time. Returns who has
/// left after each push, all in all.
fn leave(runners: usize, pushes: usize) -> Vec<usize> {
    let turnstile = &AutoEvent::new();
    let (gone, stop) = (&Mutex::new(0), CancelSource::new());
    thread::scope(|scope| {
        for _ in 0..runners {
            let stop = stop.token();
            scope.spawn(move || {
                if turnstile.happened().cancel_on(&stop).wait().is_ok() {
                    *gone.lock().unwrap() += 1;
                }
            });
        }
        let wait_until = |seen: &dyn Fn() -> bool| {
            while !seen() {
                thread::yield_now();
            }
        };
        wait_until(&|| turnstile.waiters() == runners);
        let push = |push| {
            turnstile.set();
            wait_until(&|| *gone.lock().unwrap() >= push);
            *gone.lock().unwrap()
        };
        let left = (1..=pushes).map(push).collect();
        stop.cancel();
        left
    })
}

fn main() {
    let arrived = run(8);
    let order: Vec<_> = arrived.iter().map(|(runner, _)| runner.to_string()).collect();
    println!("in the order {}", order.join(", "));
    println!("gone through the turnstile, after each of three pushes: {:?}", leave(8, 3));
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

    /// A thread is alive from its start until its function has ended. (One that was not started does not
    /// exist, and a handle that was joined is gone: neither can be asked.)
    #[test]
    fn a_started_thread_is_alive_until_it_has_ended() {
        let race = Race::new(1);
        let runner = race.start_thread(0);
        assert!(!runner.is_finished(), "it waits for the gun");
        race.gun.set();
        while !runner.is_finished() {
            thread::yield_now();
        }
        runner.join().unwrap();
        assert_eq!(*race.arrived.lock().unwrap(), [(0, true)]);
    }

    #[test]
    fn each_push_lets_one_through() {
        assert_eq!(leave(5, 3), [1, 2, 3]);
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

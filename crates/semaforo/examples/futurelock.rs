//! Futurelock: a task that waits for itself, with tokio's locks and with ours.
//!
//! A task asks for a lock that another holds, gives the request a little time, and then does
//! something else that needs the same lock, while the first request still exists. When the holder
//! lets go, the lock goes to the first request, which nobody polls any more: with a lock that
//! hands over for good, the task now waits for itself, forever. (The name, and the analysis of the
//! outage that it caused, are from RFD 609.)
//!
//! Ours takes back what is not claimed within a patience while others wait, and passes it on.
//!
//! `cargo run --release -p semaforo --example futurelock`

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the holder keeps the lock.
const HELD: Duration = Duration::from_millis(60);
/// How long the task gives its first request.
const GIVEN: Duration = Duration::from_millis(20);
/// After this long we believe that it hangs.
const HUNG: Duration = Duration::from_secs(3);

/// The program: `ask` requests the lock and yields its guard.
async fn futurelock<L, G, F>(lock: Arc<L>, ask: impl Fn(Arc<L>) -> F)
where
    L: Send + Sync + 'static,
    G: Send + 'static,
    F: Future<Output = G> + Send + 'static,
{
    let guard = ask(Arc::clone(&lock)).await;
    let holder = tokio::spawn(async move {
        tokio::time::sleep(HELD).await;
        drop(guard);
    });

    let mut first = pin!(ask(Arc::clone(&lock)));
    tokio::select! {
        _ = &mut first => unreachable!("the holder has the lock for longer than this"),
        () = tokio::time::sleep(GIVEN) => {
            // `first` is in the queue, alive, and not polled from here on.
            let second = ask(lock).await;
            drop(second);
        }
    }
    holder.await.expect("the holder only sleeps");
}

/// Runs the program and tells whether it finished.
async fn show(name: &str, program: impl Future<Output = ()>) -> bool {
    let start = Instant::now();
    let finished = tokio::time::timeout(HUNG, program).await.is_ok();
    let verdict = if finished { "finished" } else { "hung: given up" };
    println!("{name:<22} {verdict} after {:>4} ms", start.elapsed().as_millis());
    finished
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mutex = Arc::new(tokio::sync::Mutex::new(()));
    let tokio_mutex = show("tokio::sync::Mutex", futurelock(mutex, |lock| lock.lock_owned())).await;

    let mutex = Arc::new(semaforo::Mutex::new(()));
    let ours = [
        show("semaforo::Mutex", futurelock(mutex, |lock| lock.lock_owned())).await,
        show(
            "semaforo::Semaphore",
            futurelock(Arc::new(semaforo::Semaphore::new(1)), |lock| lock.acquire_owned(1)),
        )
        .await,
        show(
            "semaforo::RwLock",
            futurelock(Arc::new(semaforo::RwLock::new(())), |lock| lock.write_owned()),
        )
        .await,
    ];

    assert!(!tokio_mutex, "tokio's lock no longer hangs: this example is out of date");
    assert_eq!(ours, [true; 3], "one of ours hung");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ours_does_not_wait_for_itself() {
        let mutex = Arc::new(semaforo::Mutex::new(()));
        assert!(show("semaforo::Mutex", futurelock(mutex, |lock| lock.lock_owned())).await);
    }

    #[tokio::test]
    async fn tokios_does() {
        let mutex = Arc::new(tokio::sync::Mutex::new(()));
        assert!(!show("tokio::sync::Mutex", futurelock(mutex, |lock| lock.lock_owned())).await);
    }
}

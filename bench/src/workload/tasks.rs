//! Tasks on a tokio runtime with two workers.

use std::future::Future;
use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::settle;
use crate::row::Work;

pub(crate) const WORKERS: usize = 2;
const CROWD: u64 = 64;

/// One runtime for all rows: its idle workers sleep while others are measured.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let built = Builder::new_multi_thread().worker_threads(WORKERS).build();
    built.expect("the system allows two more threads")
});

/// Where the main thread waits for the tasks. A runtime of its own, as one with a
/// clock parks its workers differently.
static WATCH: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_time().build().expect("a runtime without threads")
});

/// A hundred times the longest sample; whoever takes longer is taken to have hung.
const ENDLESS: Duration = Duration::from_secs(3);

/// 64 tasks share one primitive; the operation is told the number of the turn.
/// Nanoseconds per turn of any task.
pub(crate) fn crowd<P, F>(
    primitive: P,
    turn: impl Fn(&'static P, u64) -> F + Copy + Send + Sync + 'static,
) -> Work
where
    P: Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let primitive = settle(primitive);
    Work::counted(move |operations| {
        let turns = operations.div_ceil(CROWD);
        let task = move |member| async move {
            // Numbered differently, so that turns of a special kind do not fall together.
            for number in member..member + turns {
                turn(black_box(primitive), number).await;
            }
        };
        let nanoseconds = time(|| (0..CROWD).map(|member| RUNTIME.spawn(task(member))).collect());
        nanoseconds / (turns * CROWD) as f64
    })
}

/// Two tasks and a pair of primitives; each gives on one and takes from the other.
/// Nanoseconds one way.
pub(crate) fn ping_pong<P, F>(
    new: impl Fn() -> P,
    take: impl Fn(&'static P) -> F + Copy + Send + Sync + 'static,
    give: impl Fn(&'static P) + Copy + Send + Sync + 'static,
) -> Work
where
    P: Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (there, back) = (settle(new()), settle(new()));
    Work::counted(move |operations| {
        let trips = operations.div_ceil(2);
        let serve = async move {
            for _ in 0..trips {
                give(there);
                take(back).await;
            }
        };
        let answer = async move {
            for _ in 0..trips {
                take(there).await;
                give(back);
            }
        };
        time(|| vec![RUNTIME.spawn(serve), RUNTIME.spawn(answer)]) / (trips * 2) as f64
    })
}

/// So many tasks put through one channel and as many take. Nanoseconds per item.
pub(crate) fn pipe<P, F, G>(
    pairs: u64,
    channel: P,
    put: impl Fn(&'static P, u64) -> F + Copy + Send + Sync + 'static,
    take: impl Fn(&'static P) -> G + Copy + Send + Sync + 'static,
) -> Work
where
    P: Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
    G: Future<Output = u64> + Send + 'static,
{
    let channel = settle(channel);
    Work::counted(move |operations| {
        let items = operations.div_ceil(pairs);
        let produce = move || async move {
            for number in 0..items {
                put(black_box(channel), number).await;
            }
        };
        let consume = move || async move {
            for _ in 0..items {
                black_box(take(black_box(channel)).await);
            }
        };
        let spawn_pair = |_| [RUNTIME.spawn(produce()), RUNTIME.spawn(consume())];
        time(|| (0..pairs).flat_map(spawn_pair).collect()) / (items * pairs) as f64
    })
}

/// Two tasks meet again and again. Nanoseconds per meeting.
pub(crate) fn meet<P, F>(
    primitive: P,
    arrive: impl Fn(&'static P) -> F + Copy + Send + Sync + 'static,
) -> Work
where
    P: Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let primitive = settle(primitive);
    Work::counted(move |meetings| {
        let side = move || async move {
            for _ in 0..meetings {
                arrive(black_box(primitive)).await;
            }
        };
        time(|| vec![RUNTIME.spawn(side()), RUNTIME.spawn(side())]) / meetings as f64
    })
}

/// How long the tasks took; infinite if they do not end.
fn time(spawn: impl FnOnce() -> Vec<JoinHandle<()>>) -> f64 {
    let begin = Instant::now();
    let mut tasks = spawn();
    let all = async {
        for task in &mut tasks {
            task.await.expect("a task does not panic");
        }
    };
    match WATCH.block_on(async { timeout(ENDLESS, all).await }) {
        Ok(()) => begin.elapsed().as_nanos() as f64,
        Err(_) => {
            tasks.iter().for_each(JoinHandle::abort);
            f64::INFINITY
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_never_end_are_given_up() {
        let nobody_gives = ping_pong(|| (), |()| std::future::pending(), |()| {});
        let Work::Counted(mut sample) = nobody_gives else { unreachable!("tasks are counted") };
        assert_eq!(sample(10), f64::INFINITY);
    }
}

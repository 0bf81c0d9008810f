//! Producers and consumers with a bounded queue: whoever is too quick waits, threads on one side and
//! tasks on the other, and closing the queue ends it all without losing an item.
//!
//! `cargo run --release -p semaforo --example producer_consumer`

use std::thread;

use semaforo::BlockingQueue;

const CAPACITY: usize = 4;

/// A piece of work: the `number`th of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    producer: u32,
    number: u32,
}

/// A thread that puts jobs. Returns the most that it saw in the queue.
fn produce(jobs: &BlockingQueue<Job>, producer: u32, how_many: u32) -> usize {
    let put = |number| {
        jobs.put(Job { producer, number }).wait().expect("it is closed after the last producer");
        jobs.len()
    };
    (0..how_many).map(put).max().unwrap_or(0)
}

/// A task that takes jobs until the queue is closed and empty. Returns what it took.
async fn consume(jobs: &BlockingQueue<Job>) -> Vec<Job> {
    let mut taken = Vec::new();
    while let Ok(job) = jobs.take().await {
        taken.push(job);
    }
    taken
}

/// What every consumer took, and the most jobs that were in the queue.
fn run(producers: u32, jobs_each: u32, consumers: usize) -> (Vec<Vec<Job>>, usize) {
    let jobs = &BlockingQueue::bounded(CAPACITY);
    thread::scope(|scope| {
        let consumers: Vec<_> = (0..consumers)
            .map(|_| scope.spawn(|| futures::executor::block_on(consume(jobs))))
            .collect();
        let producers: Vec<_> = (0..producers)
            .map(|producer| scope.spawn(move || produce(jobs, producer, jobs_each)))
            .collect();
        let fullest = producers.into_iter().map(|thread| thread.join().unwrap()).max();
        jobs.close();
        let taken = consumers.into_iter().map(|thread| thread.join().unwrap()).collect();
        (taken, fullest.unwrap_or(0))
    })
}

fn main() {
    println!("3 threads produce 1000 jobs each for 2 tasks, through a queue for {CAPACITY}.");
    let (taken, fullest) = run(3, 1000, 2);
    for (consumer, jobs) in (1..).zip(&taken) {
        println!("task {consumer} took {:>4} jobs", jobs.len());
    }
    println!("in all    {:>4}, and never more than {fullest} in the queue", taken.concat().len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_taken_once_and_the_bound_holds() {
        let (taken, fullest) = run(4, 500, 3);
        assert!(fullest <= CAPACITY, "{fullest} of {CAPACITY}");
        let mut all = taken.concat();
        all.sort_unstable();
        let expected =
            (0..4).flat_map(|producer| (0..500).map(move |number| Job { producer, number }));
        assert!(all.into_iter().eq(expected));
    }

    #[test]
    fn each_consumer_sees_each_producers_jobs_in_order() {
        let (taken, _) = run(3, 500, 2);
        for jobs in taken {
            for producer in 0..3 {
                assert!(jobs.iter().filter(|job| job.producer == producer).is_sorted());
            }
        }
    }

    #[test]
    fn a_queue_without_producers_ends() {
        assert_eq!(run(0, 0, 2), (vec![vec![], vec![]], 0));
    }
}

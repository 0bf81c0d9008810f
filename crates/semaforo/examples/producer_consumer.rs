//! Producers and consumers with a bounded queue: whoever is too quick waits, threads on one side and
//! tasks on the other. The queue is used by its ends: when the last producer has gone, be it by a panic,
//! it is closed, and the consumers end with what is left; no item is lost.
//!
//! `cargo run --release -p semaforo --example producer_consumer`

use std::thread;

use semaforo::BlockingQueue;
use semaforo::queue::{Receiver, Sender};

const CAPACITY: usize = 5;

type Jobs = BlockingQueue<Job>;

/// A piece of work: the `number`th of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    producer: u32,
    number: u32,
}

/// A thread that puts jobs. Returns the most that it saw in the queue.
fn produce(jobs: Sender<Jobs>, producer: u32, how_many: u32) -> usize {
    let put = |number| {
        jobs.put(Job { producer, number }).wait().expect("there are consumers");
        jobs.queue().len()
    };
    (0..how_many).map(put).max().unwrap_or(0)
}

/// A task that takes jobs until the queue is closed and empty. Returns what it took.
async fn consume(jobs: Receiver<Jobs>) -> Vec<Job> {
    let mut taken = Vec::new();
    while let Ok(job) = jobs.take().await {
        taken.push(job);
    }
    taken
}

/// What every consumer took, and the most jobs that were in the queue.
fn run(producers: u32, jobs_each: u32, consumers: usize) -> (Vec<Vec<Job>>, usize) {
    let (sender, receiver) = Jobs::bounded(CAPACITY).into_ends();
    thread::scope(|scope| {
        let consumers: Vec<_> = std::iter::repeat_n(receiver, consumers)
            .map(|jobs| scope.spawn(|| futures::executor::block_on(consume(jobs))))
            .collect();
        let producers: Vec<_> = (0..producers)
            .map(|producer| {
                let jobs = sender.clone();
                scope.spawn(move || produce(jobs, producer, jobs_each))
            })
            .collect();
        // The producers have their own.
        drop(sender);
        let fullest = producers.into_iter().map(|thread| thread.join().unwrap()).max();
        let taken = consumers.into_iter().map(|thread| thread.join().unwrap()).collect();
        (taken, fullest.unwrap_or(0))
    })
}

fn main() {
    println!("2 threads produce 1000 jobs each for 2 tasks, through a queue for {CAPACITY}.");
    let (taken, fullest) = run(2, 1000, 2);
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
    fn a_producer_that_panics_leaves_no_consumer_waiting() {
        let (sender, receiver) = Jobs::bounded(CAPACITY).into_ends();
        let producer = thread::spawn(move || {
            sender.put(Job { producer: 0, number: 0 }).wait().unwrap();
            panic!("as expected: the one producer is gone");
        });
        assert_eq!(futures::executor::block_on(consume(receiver)).len(), 1);
        assert!(producer.join().is_err());
    }

    #[test]
    fn a_queue_without_producers_ends() {
        assert_eq!(run(0, 0, 2), (vec![vec![], vec![]], 0));
    }
}

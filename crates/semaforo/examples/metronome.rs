//! A scheduler of one's own: it releases one task at every beat, whoever may be in a hurry. What the
//! library needs for that is one method; handles, cancellation and continuations come by themselves.
//!
//! `cargo run --release -p semaforo --example metronome`

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use semaforo::tasks::{Runnable, Scheduled, Scheduler, Spawn, sleep_until, when_all};
use semaforo::{CancelSource, CancelToken};

const BEAT: Duration = Duration::from_millis(100);

/// Tasks that wait for their beat.
#[derive(Clone, Default)]
struct Metronome {
    waiting: Arc<Mutex<VecDeque<Runnable>>>,
}

impl Scheduler for Metronome {
    fn enqueue(&self, runnable: Runnable) {
        self.waiting.lock().unwrap().push_back(runnable);
    }

    fn concurrency(&self) -> usize {
        1
    }

    fn scheduled(&self) -> Vec<Scheduled> {
        self.waiting.lock().unwrap().iter().filter_map(Scheduled::of).collect()
    }
}

impl Metronome {
    /// Releases the next task. False if there is none.
    fn beat(&self) -> bool {
        // Not while the queue is locked: the task may start another.
        let next = self.waiting.lock().unwrap().pop_front();
        next.map(Runnable::run).is_some()
    }

    /// Beats until told to stop.
    fn run(&self, stop: &CancelToken) {
        let mut next = Instant::now() + BEAT;
        while sleep_until(next).cancel_on(stop).wait().is_ok() {
            self.beat();
            next += BEAT;
        }
    }
}

fn main() {
    let metronome = Metronome::default();
    let stop = CancelSource::new();
    let start = Instant::now();
    let note = |name: &'static str| {
        metronome.spawn(move || {
            let at = start.elapsed();
            println!("{:4} ms  {name}", at.as_millis());
            at
        })
    };

    let notes = ["do", "re", "mi", "fa"].map(note);
    let wrong = note("a wrong note");
    let then = note("sol").then(&metronome, |sol| {
        println!("         (la follows sol, and needs a beat of its own)");
        sol
    });
    println!("{} tasks wait for their beat", metronome.scheduled().len());
    assert!(wrong.cancel(), "it has not been played yet");

    thread::scope(|scope| {
        scope.spawn(|| metronome.run(&stop.token()));
        let notes = when_all(notes).wait().expect("nobody cancels the others");
        let times: Vec<_> = notes.into_iter().map(|note| note.expect("no note panics")).collect();
        then.wait().expect("the last is played too").expect("and so was the one before");
        stop.cancel();
        let mean = (times[3] - times[0]) / 3;
        println!("on average {} ms from note to note", mean.as_millis());
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use semaforo::tasks::JoinError;

    #[test]
    fn each_beat_releases_one_in_order() {
        let metronome = Metronome::default();
        let played = Arc::new(Mutex::new(Vec::new()));
        for note in 0..3 {
            let played = Arc::clone(&played);
            metronome.execute(move || played.lock().unwrap().push(note));
        }
        for beats in 1..=3 {
            assert!(metronome.beat());
            assert_eq!(*played.lock().unwrap(), (0..beats).collect::<Vec<_>>());
        }
        assert!(!metronome.beat());
    }

    #[test]
    fn what_is_cancelled_is_not_played_but_a_continuation_is() {
        let metronome = Metronome::default();
        let wrong = metronome.spawn(|| 1);
        let right = metronome.spawn(|| 2).then(&metronome, |right| right.unwrap() + 1);
        assert!(wrong.cancel());
        assert_eq!(metronome.scheduled().len(), 2);
        while metronome.beat() {}
        assert!(matches!(wrong.wait(), Err(JoinError::Cancelled)));
        assert_eq!(right.wait().unwrap(), 3);
    }

    #[test]
    fn whoever_waits_for_a_metronome_that_is_gone_learns_that() {
        let metronome = Metronome::default();
        let never = metronome.spawn(|| ());
        drop(metronome);
        assert!(matches!(never.wait(), Err(JoinError::Cancelled)));
    }
}

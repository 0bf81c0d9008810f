//! Park and unpark, as Java's `LockSupport`: one permit for each parker, no lock, no condition.
//! First what the permit means, step by step; then a mailbox built from nothing else.
//!
//! `cargo run --release -p semaforo --example parker`

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use semaforo::{Parker, WaitError};

const MOMENT: Duration = Duration::from_millis(20);

/// Unpark twice, park twice: the second one finds no permit.
fn steps() -> Vec<(&'static str, String)> {
    let parker = Parker::new();
    let mut seen = Vec::new();
    parker.unpark();
    seen.push(("unpark: a permit is there", parker.available().to_string()));
    parker.unpark();
    seen.push(("unpark again: still one", parker.available().to_string()));
    let first = parker.park().timeout(MOMENT).wait();
    seen.push(("park: returns at once", format!("{first:?}")));
    let second = parker.park().timeout(MOMENT).wait();
    seen.push(("park again: nobody unparks", format!("{second:?}")));
    assert_eq!(second, Err(WaitError::TimedOut));
    seen
}

/// Many put, one takes, who parks while there is nothing to take.
#[derive(Default)]
struct Mailbox {
    letters: Mutex<Vec<u32>>,
    owner: Parker,
}

impl Mailbox {
    fn put(&self, letter: u32) {
        self.letters.lock().unwrap().push(letter);
        // Needs no lock, and is not lost if the owner has not parked yet: the permit stays.
        self.owner.unpark();
    }

    /// All letters that there are; waits for the first one.
    fn take_all(&self) -> Vec<u32> {
        loop {
            let letters = std::mem::take(&mut *self.letters.lock().unwrap());
            if !letters.is_empty() {
                return letters;
            }
            // A permit of letters that were taken already: look again.
            self.owner.park().wait();
        }
    }
}

/// So many senders with so many letters each. Returns what was taken, and in how many rounds.
fn correspondence(senders: u32, letters: u32) -> (Vec<u32>, u32) {
    let mailbox = &Mailbox::default();
    thread::scope(|scope| {
        for sender in 0..senders {
            let mine = sender * letters..(sender + 1) * letters;
            scope.spawn(move || mine.for_each(|letter| mailbox.put(letter)));
        }
        let (mut taken, mut rounds) = (Vec::new(), 0);
        while taken.len() < (senders * letters) as usize {
            taken.extend(mailbox.take_all());
            rounds += 1;
        }
        (taken, rounds)
    })
}

fn main() {
    for (what, seen) in steps() {
        println!("{what:<28} {seen}");
    }
    let (taken, rounds) = correspondence(4, 1000);
    println!("4 threads sent 1000 letters each: {} taken, in {rounds} rounds", taken.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parker_stores_one_permit() {
        let seen: Vec<_> = steps().into_iter().map(|(_, seen)| seen).collect();
        assert_eq!(seen, ["1", "1", "Ok(())", "Err(TimedOut)"]);
    }

    #[test]
    fn every_letter_is_taken_once() {
        let (mut taken, _) = correspondence(4, 500);
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..2000));
    }
}

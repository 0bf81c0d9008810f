//! Two threads that meet: one fills buffers, the other empties them, and at an `Exchanger` they swap
//! a full one for an empty one, so that no buffer is ever made or copied anew. And a
//! `SynchronousQueue`, where one hands over and the other takes, and neither goes on alone.
//!
//! `cargo run --release -p semaforo --example exchanger`

use std::thread;
use std::time::Duration;

use semaforo::{Exchanger, SynchronousQueue};

const CAPACITY: usize = 8;

/// So many numbers go through two buffers. What was read, and where the buffers were in memory.
fn pump(numbers: u32) -> (Vec<u32>, Vec<*const u32>) {
    let meeting = &Exchanger::new();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = Vec::with_capacity(CAPACITY);
            for number in 0..numbers {
                buffer.push(number);
                if buffer.len() == CAPACITY {
                    buffer = meeting.exchange(buffer).wait();
                }
            }
            // The last one is not full; the reader knows by that.
            meeting.exchange(buffer).wait();
        });
        let (mut read, mut places) = (Vec::new(), Vec::new());
        let mut buffer = Vec::with_capacity(CAPACITY);
        loop {
            buffer = meeting.exchange(buffer).wait();
            places.push(buffer.as_ptr());
            let last = buffer.len() < CAPACITY;
            read.append(&mut buffer);
            if last {
                places.sort_unstable();
                places.dedup();
                return (read, places);
            }
        }
    })
}

/// Baton after baton from hand to hand; the queue never has anything in it.
fn relay(runners: u32) -> (u32, usize) {
    let handover = &SynchronousQueue::new();
    thread::scope(|scope| {
        for _ in 0..runners {
            scope.spawn(|| {
                let laps: u32 = handover.take().wait().expect("it is never closed");
                handover.put(laps + 1).wait().expect("it is never closed");
            });
        }
        handover.put(0).wait().expect("it is never closed");
        let mut most = 0;
        let laps = loop {
            most = most.max(handover.len());
            // The one who comes last takes the baton back; until then runners pass it on.
            match handover.take().timeout(Duration::from_millis(1)).wait() {
                Ok(laps) if laps == runners => break laps,
                Ok(laps) => handover.put(laps).wait().expect("it is never closed"),
                Err(_) => {}
            }
        };
        (laps, most)
    })
}

fn main() {
    let (read, places) = pump(1000);
    println!("{} numbers went through {} buffers of {CAPACITY}", read.len(), places.len());
    let (laps, most) = relay(5);
    println!("a baton was handed over by {laps} runners, and lay nowhere in between: {most}");
    let alone = Exchanger::new().exchange("mine").timeout(Duration::from_millis(20)).wait();
    println!("who is alone at a meeting gets its own back after 20 ms: {alone:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_read_in_order_through_two_buffers() {
        for numbers in [0, 5, 8, 1000] {
            let (read, places) = pump(numbers);
            assert!(read.into_iter().eq(0..numbers));
            assert!(places.len() <= 2, "{} buffers", places.len());
        }
    }

    #[test]
    fn the_baton_passes_through_every_hand() {
        assert_eq!(relay(4), (4, 0));
    }
}

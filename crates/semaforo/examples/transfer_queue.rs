//! A transfer queue: a post office where a letter is dropped into the box (`put`, which never
//! waits), and registered mail is handed over (`transfer`, which waits until that very message was
//! taken). What is not taken in time, or cancelled, is withdrawn and comes back to its sender.
//!
//! `cargo run --release -p semaforo --example transfer_queue`

use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use semaforo::{CancelSource, Rejected, TransferQueue, WaitError};

type Mail = TransferQueue<&'static str>;

/// Registered mail that nobody takes within a moment comes back.
fn in_vain(office: &Mail) -> &'static str {
    let sent = office.transfer("a parcel for nobody").timeout(Duration::from_millis(20)).wait();
    match sent {
        Ok(()) => unreachable!("nobody takes mail here"),
        Err(Rejected { item, why }) => {
            assert_eq!(why, WaitError::TimedOut);
            item
        }
    }
}

/// Registered mail whose sender changes its mind, while it lies in the office.
fn called_back(office: &Mail) -> &'static str {
    let change_of_mind = CancelSource::new();
    let token = change_of_mind.token();
    thread::scope(|scope| {
        let sender = scope.spawn(|| office.transfer("a rash letter").cancel_on(&token).wait());
        while office.waiting_transfers() == 0 {
            thread::yield_now();
        }
        change_of_mind.cancel();
        // It has left the queue when `cancel` returns: a taker cannot find it any more.
        assert!(office.is_empty());
        let rejected = sender.join().expect("it does not panic").expect_err("it was cancelled");
        rejected.into_item()
    })
}

/// Two letters and registered mail, to a task that takes them. Returns them as they were taken.
fn delivered(office: &Mail) -> Vec<&'static str> {
    office.put("a postcard").expect("the office is open");
    office.put("a bill").expect("the office is open");
    thread::scope(|scope| {
        let sender = scope.spawn(|| office.transfer("a registered letter").wait());
        while office.waiting_transfers() == 0 {
            thread::yield_now();
        }
        let taken = block_on(async {
            let mut taken = Vec::new();
            for _ in 0..3 {
                taken.push(office.take().await.expect("the office is open"));
            }
            taken
        });
        sender.join().expect("it does not panic").expect("the last one was taken");
        taken
    })
}

/// Handing over at once needs somebody at the counter.
fn at_the_counter(office: &Mail) -> (bool, bool) {
    let without = office.try_transfer("an express letter").is_ok();
    let with = thread::scope(|scope| {
        let taker = scope.spawn(|| office.take().wait().expect("the office is open"));
        while office.waiting_consumers() == 0 {
            thread::yield_now();
        }
        let with = office.try_transfer("an express letter").is_ok();
        taker.join().expect("it does not panic");
        with
    });
    (without, with)
}

fn main() {
    let office = Mail::new();
    println!("taken, in the order of sending: {:?}", delivered(&office));
    println!("came back after 20 ms:          {:?}", in_vain(&office));
    println!("came back when cancelled:       {:?}", called_back(&office));
    let (without, with) = at_the_counter(&office);
    println!("express, nobody at the counter: {without}; somebody there: {with}");
    office.close();
    println!("closed: {:?}", office.put("too late").map_err(Rejected::into_item));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_is_taken_in_the_order_of_sending() {
        let sent = ["a postcard", "a bill", "a registered letter"];
        assert_eq!(delivered(&Mail::new()), sent);
    }

    #[test]
    fn what_is_not_taken_comes_back_and_leaves_nothing_behind() {
        let office = Mail::new();
        assert_eq!(in_vain(&office), "a parcel for nobody");
        assert_eq!(called_back(&office), "a rash letter");
        assert!(office.is_empty());
    }

    #[test]
    fn express_mail_needs_somebody_at_the_counter() {
        assert_eq!(at_the_counter(&Mail::new()), (false, true));
    }
}

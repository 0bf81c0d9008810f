//! One of several queues: customers of a supermarket go to whichever checkout has room (`put_any`), and a
//! cashier who helps out serves whichever has a customer (`take_any`). A customer is in one queue or in
//! none, also of those who do not want to wait any longer: a `select!` over several `put` could leave one
//! in two.
//!
//! `cargo run --release -p semaforo --example checkouts`

use std::thread;
use std::time::Duration;

use semaforo::{BlockingQueue, WaitError};

/// So many may stand at a checkout.
const PLACES: usize = 2;

struct Checkouts([BlockingQueue<u32>; 3]);

impl Checkouts {
    fn new() -> Self {
        Self([PLACES; 3].map(BlockingQueue::bounded))
    }

    fn all(&self) -> [&BlockingQueue<u32>; 3] {
        self.0.each_ref()
    }

    /// A customer joins the first queue that has room. Returns which.
    fn join(&self, customer: u32) -> usize {
        BlockingQueue::put_any(self.all(), customer).wait().expect("closed after the last customer")
    }

    /// A customer who leaves if there is no room soon. Returns the queue, or nothing.
    fn join_soon(&self, customer: u32, patience: Duration) -> Option<usize> {
        let joined = BlockingQueue::put_any(self.all(), customer).timeout(patience).wait();
        match joined {
            Ok(queue) => Some(queue),
            Err(rejected) => {
                assert_eq!(rejected.item, customer, "the customer is back, and in no queue");
                assert_eq!(rejected.why, WaitError::TimedOut);
                None
            }
        }
    }

    /// Serves whoever stands at any of them, until all are closed and empty. Returns whom, and where.
    fn help_out(&self) -> Vec<(usize, u32)> {
        let next = || BlockingQueue::take_any(self.all()).wait().ok();
        std::iter::from_fn(next).collect()
    }

    fn close(&self) {
        for queue in &self.0 {
            queue.close();
        }
    }
}

/// So many customers, served by so many cashiers who help out everywhere. Whom each has served, and where.
fn day(customers: u32, cashiers: usize) -> Vec<Vec<(usize, u32)>> {
    let checkouts = &Checkouts::new();
    thread::scope(|scope| {
        let cashiers: Vec<_> =
            (0..cashiers).map(|_| scope.spawn(|| checkouts.help_out())).collect();
        let customers: Vec<_> =
            (0..customers).map(|customer| scope.spawn(move || checkouts.join(customer))).collect();
        for customer in customers {
            customer.join().expect("customers do not panic");
        }
        checkouts.close();
        cashiers.into_iter().map(|cashier| cashier.join().unwrap()).collect()
    })
}

fn main() {
    println!("30 customers, three checkouts for {PLACES} each, two cashiers who help out.");
    for (cashier, served) in (1..).zip(day(30, 2)) {
        let at: Vec<_> =
            (0..3).map(|at| served.iter().filter(|(of, _)| *of == at).count()).collect();
        println!("cashier {cashier} has served {:>2}, by checkout {at:?}", served.len());
    }
    let checkouts = Checkouts::new();
    let joined: Vec<_> = (0..3 * PLACES as u32).map(|customer| checkouts.join(customer)).collect();
    println!("nobody serves: customers join {joined:?}");
    let patience = Duration::from_millis(20);
    println!("all are full, one more waits for 20 ms: {:?}", checkouts.join_soon(99, patience));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_customer_is_served_once() {
        let mut served: Vec<_> =
            day(60, 3).concat().into_iter().map(|(_, customer)| customer).collect();
        served.sort_unstable();
        assert!(served.into_iter().eq(0..60));
    }

    #[test]
    fn a_customer_goes_where_there_is_room_and_one_who_leaves_is_nowhere() {
        let checkouts = Checkouts::new();
        let joined: Vec<_> = (0..6).map(|customer| checkouts.join(customer)).collect();
        assert_eq!(joined, [0, 0, 1, 1, 2, 2]);
        assert_eq!(checkouts.join_soon(6, Duration::from_millis(5)), None);
        assert_eq!(checkouts.0[1].try_take(), Ok(2));
        assert_eq!(checkouts.join_soon(7, Duration::ZERO), Some(1));
        checkouts.close();
        let left: Vec<_> = checkouts.help_out();
        assert_eq!(left, [(0, 0), (0, 1), (1, 3), (1, 7), (2, 4), (2, 5)]);
    }
}

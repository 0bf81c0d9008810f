//! A bank of accounts: a transfer waits until there is money, in the order of its account.
//!
//! `cargo run --release -p semaforo --example rule_bank`

use semaforo::rule::{Asked, Contended, Order, Reply, Rule};

struct Accounts(Vec<u64>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Transfer {
    from: usize,
    to: usize,
    amount: u64,
}

impl Rule for Accounts {
    type Request = Transfer;
    /// What is left.
    type Answer = u64;
    const ORDER: Order<Transfer> = Order::PerKey(|transfer| transfer.from as u64);

    fn serve(&mut self, transfer: Transfer) -> Reply<Self> {
        let Transfer { from, to, amount } = transfer;
        assert!(from.max(to) < self.0.len(), "there is no such account");
        let Some(left) = self.0[from].checked_sub(amount) else { return Reply::Wait(transfer) };
        assert!(self.0[to].checked_add(amount).is_some(), "no account is that rich");
        self.0[from] = left;
        self.0[to] += amount;
        Reply::Done(left)
    }

    /// `serve` checks before it changes.
    fn is_whole(&self) -> bool {
        true
    }
}

struct Bank(Contended<Accounts>);

impl Bank {
    fn new(accounts: &[u64]) -> Self {
        Self(Contended::new(Accounts(accounts.to_vec())))
    }

    fn transfer(&self, from: usize, to: usize, amount: u64) -> Asked<'_, Accounts> {
        self.0.request(Transfer { from, to, amount })
    }

    /// No request: in the order of its account it would wait behind those that wait for it.
    fn deposit(&self, to: usize, amount: u64) {
        self.0.change(|accounts, _| accounts.0[to] += amount);
    }
}

fn main() {
    let bank = Bank::new(&[10, 0, 0]);
    std::thread::scope(|scope| {
        scope.spawn(|| println!("after the rent {} are left", bank.transfer(0, 1, 15).wait()));
        scope.spawn(|| {
            let left = futures::executor::block_on(bank.transfer(1, 2, 15));
            println!("after the repair the landlord has {left}");
        });
        while bank.0.waiters() < 2 {
            std::thread::yield_now();
        }
        bank.deposit(0, 20); // carries out the rent, which carries out the repair
    });
    println!("{:?}", bank.0.into_inner().0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn transfers_wait_in_the_order_of_their_account_and_let_each_other_through() {
        let bank = Bank::new(&[10, 0, 0]);
        let mut large = pin!(bank.transfer(0, 1, 15));
        assert!(poll(large.as_mut()).is_pending());
        // There is money for it, but it came later.
        let small = Transfer { from: 0, to: 1, amount: 5 };
        assert_eq!(bank.0.try_request(small), Err(small));
        let (mut chained, mut last) = (pin!(bank.transfer(2, 0, 5)), pin!(bank.transfer(1, 2, 20)));
        assert!(poll(chained.as_mut()).is_pending());
        assert!(poll(last.as_mut()).is_pending());
        bank.deposit(1, 5);
        assert!(poll(last.as_mut()).is_pending());
        bank.deposit(2, 5);
        for transfer in [chained, large, last] {
            assert_eq!(poll(transfer), Poll::Ready(0));
        }
        assert_eq!(bank.0.with(|accounts| accounts.0.clone()), [0, 0, 20]);
    }

    #[test]
    fn a_bad_argument_ends_its_own_request() {
        let bank = Bank::new(&[1, 0]);
        let bad = || bank.transfer(0, 7, 1).wait();
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(bad)).is_err());
        assert_eq!(bank.transfer(0, 1, 1).wait(), 0);
    }

    #[test]
    fn money_is_neither_made_nor_lost() {
        let bank = Bank::new(&[100; 5]);
        let end = Instant::now() + Duration::from_millis(200);
        std::thread::scope(|scope| {
            for seed in 1..=4_u64 {
                let bank = &bank;
                scope.spawn(move || {
                    let mut random = seed;
                    while Instant::now() < end {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let (from, to) = ((random >> 33) as usize % 5, (random >> 40) as usize % 5);
                        let limit = Duration::from_micros(200);
                        let transfer = bank.transfer(from, to, random >> 57).timeout(limit);
                        let _ = if random >> 56 & 1 == 0 {
                            transfer.wait()
                        } else {
                            futures::executor::block_on(transfer)
                        };
                    }
                });
            }
        });
        assert_eq!(bank.0.waiters(), 0);
        assert_eq!(bank.0.into_inner().0.iter().sum::<u64>(), 500);
    }
}

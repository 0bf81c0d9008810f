//! Requests that answer each other.

use semaforo::rule::{Contended, Reply, Rule, Waiting};

use crate::support::{
    SHORT, Step, Waiter, in_every_arrangement, leaked, panic_of, panicking_waker, until_queued,
};

/// Two that meet swap what they bring.
struct Pairs<T>(Vec<T>);

impl<T: Send + 'static> Rule for Pairs<T> {
    type Request = Option<T>;
    type Answer = T;

    fn serve(&mut self, item: Option<T>) -> Reply<Self> {
        Reply::Wait(item)
    }

    fn joined(&mut self, waiting: &mut Waiting<'_, Self>) {
        if waiting.len() == 2 {
            waiting.offer(|item| {
                self.0.extend(item);
                Reply::Wait(None)
            });
            waiting.offer(|_| self.0.pop().map_or(Reply::Wait(None), Reply::Done));
        }
    }
}

fn pairs<T: Send + 'static>() -> Contended<Pairs<T>> {
    Contended::new(Pairs(Vec::new()))
}

#[test]
fn two_that_meet_swap() {
    in_every_arrangement(|arrangement| {
        let table = leaked(pairs());
        let first = Waiter::start_then(arrangement.kind(0), table.request(Some("a")), |item| item);
        until_queued(table, 1);
        let second = Waiter::start_then(arrangement.kind(1), table.request(Some("b")), |item| item);
        assert_eq!((first.join(), second.join()), ("b", "a"));
        assert_eq!(table.waiters(), 0);
    });
}

#[test]
fn one_that_leaves_has_not_met() {
    let table = pairs();
    let alone = table.request(Some(1)).timeout(SHORT).wait().unwrap_err();
    assert_eq!(alone.item, Some(1));
    drop(Step::queued(table.request(Some(2))));
    let mut third = Step::queued(table.request(Some(3)));
    assert_eq!(table.request(Some(4)).wait(), 3);
    assert_eq!(third.expect_ready(), 4);
}

/// The second's poll panics with the first's waker. Both have met all the same.
#[test]
fn a_waker_that_panics_takes_no_answer_away() {
    let table = pairs();
    let mut first = Step::new(table.request(Some(1)));
    assert!(first.poll_with(&panicking_waker()).is_pending());
    let mut second = Step::new(table.request(Some(2)));
    assert_eq!(panic_of(|| second.poll()), "the waker panicked");
    assert_eq!(second.expect_ready(), 1);
    assert_eq!(first.expect_ready(), 2);
}

/// Requests that are answered when the last of them has joined, more than one batch of wake-ups.
struct Full {
    parties: usize,
}

impl Rule for Full {
    type Request = usize;
    type Answer = usize;

    fn serve(&mut self, number: usize) -> Reply<Self> {
        Reply::Wait(number)
    }

    fn joined(&mut self, waiting: &mut Waiting<'_, Self>) {
        if waiting.len() == self.parties {
            let sum = waiting.iter().sum();
            waiting.offer(|_| Reply::Done(sum));
        }
    }
}

#[test]
fn the_last_to_join_answers_all() {
    let object = Contended::new(Full { parties: 100 });
    let mut steps: Vec<_> = (0..99).map(|number| Step::queued(object.request(number))).collect();
    assert_eq!(object.request(99).wait(), 4950);
    for step in &mut steps {
        assert_eq!(step.wakes(), 1);
        assert_eq!(step.expect_ready(), 4950);
    }
    let mut steps: Vec<_> = (0..99).map(|number| Step::queued(object.request(number))).collect();
    let mut last = Step::new(object.request(99));
    // Answered, though perhaps told only when the batch of wake-ups had space again.
    assert!(last.poll().is_ready() || last.poll().is_ready());
    steps.iter_mut().for_each(|step| assert_eq!(step.expect_ready(), 4950));
}

//! Cases EX: the exchanger.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::{
    InlineTask, Kind, LONG, Line, Random, SHORT, Step, Tally, Waiter, fire, in_every_arrangement,
    in_every_arrangement_at_once, in_its_own_process, leaked, panic_of, panicking_waker,
    until_queued,
};
use semaforo::{CancelSource, Exchanger, Rejected, WaitError};

/// An item that counts how many of its kind there are.
#[derive(Debug)]
struct Counted(u32, #[allow(dead_code, reason = "it is the count that is looked at")] Arc<()>);

/// EX-01
#[test]
fn two_swap_what_they_bring() {
    in_every_arrangement(|arrangement| {
        let table = leaked(Exchanger::new());
        let mut line = Line::new(arrangement, table);
        for _ in 0..2 {
            let one = line.enter(table.exchange("one"));
            assert_eq!((table.waiters(), table.available()), (1, 1));
            assert_eq!(line.start(table.exchange("two").timeout(LONG)).join(), Ok("one"));
            assert_eq!(one.join(), "two");
            let two = line.enter(table.exchange("two").timeout(LONG));
            assert_eq!(line.start(table.exchange("one")).join(), "two");
            assert_eq!(two.join(), Ok("one"));
            assert_eq!((table.waiters(), table.available()), (0, 0));
        }
    });
}

/// EX-03
#[test]
fn whoever_is_cancelled_has_its_item_back() {
    in_every_arrangement(|arrangement| {
        let table = leaked(Exchanger::new());
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, table);
        let alone = line.enter(table.exchange(7).cancel_on(&stop.token()));
        fire(&stop, 1);
        assert_eq!(table.waiters(), 0);
        assert_eq!(alone.join(), Err(Rejected { item: 7, why: WaitError::Cancelled }));
        let fired = line.start(table.exchange(8).cancel_on(&stop.token()).timeout(Duration::ZERO));
        assert_eq!(fired.join(), Err(Rejected { item: 8, why: WaitError::Cancelled }));
    });
}

/// EX-04
#[test]
fn an_item_that_was_withdrawn_is_never_seen() {
    in_every_arrangement(|arrangement| {
        let table = leaked(Exchanger::new());
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, table);
        let cancelled = line.enter(table.exchange(1).cancel_on(&stop.token()));
        fire(&stop, 1);
        drop(Step::queued(table.exchange(9)));
        let second = line.enter(table.exchange(2));
        assert_eq!(line.start(table.exchange(3)).join(), 2);
        assert_eq!(second.join(), 3);
        assert_eq!(cancelled.join().unwrap_err().item, 1);
    });
}

/// EX-06
#[test]
fn a_zero_timeout_needs_a_partner_who_waits() {
    in_every_arrangement_at_once(|arrangement| {
        let table = leaked(Exchanger::new());
        let mut line = Line::new(arrangement, table);
        let zero = line.start(table.exchange(1).timeout(Duration::ZERO)).join();
        assert_eq!(zero, Err(Rejected { item: 1, why: WaitError::TimedOut }));
        let start = Instant::now();
        let timed = line.start(table.exchange(1).timeout(SHORT)).join();
        assert_eq!(timed, Err(Rejected { item: 1, why: WaitError::TimedOut }));
        assert!(start.elapsed() >= SHORT);
        let stop = CancelSource::new();
        stop.cancel();
        let partner = line.enter(table.exchange(2));
        let zero = table.exchange(1).timeout(Duration::ZERO).cancel_on(&stop.token());
        assert_eq!(line.start(zero).join(), Ok(2));
        assert_eq!(partner.join(), 1);
    });
}

/// A pair, once made, is final.
#[test]
fn a_limit_that_comes_after_the_partner_changes_nothing() {
    let table = Exchanger::new();
    let stop = CancelSource::new();
    let mut first = Step::queued(table.exchange(1).cancel_on(&stop.token()));
    assert_eq!(table.exchange(2).wait(), 1);
    stop.cancel();
    assert_eq!(first.expect_ready(), Ok(2));
}

/// Nobody waits for a task that is never polled: its partner has its item already.
#[test]
fn an_unpolled_task_holds_up_nobody() {
    in_every_arrangement(|arrangement| {
        let table = leaked(Exchanger::new());
        let mut unpolled = Step::queued(table.exchange(1));
        let mut line = Line::new(arrangement, table);
        assert_eq!(line.start(table.exchange(2)).join(), 1);
        let third = line.enter(table.exchange(3));
        assert_eq!(line.start(table.exchange(4)).join(), 3);
        assert_eq!(third.join(), 4);
        assert_eq!(unpolled.expect_ready(), 2);
    });
}

/// Whatever becomes of a request, an item is dropped once, and not while somebody has it.
#[test]
fn items_are_neither_lost_nor_dropped_twice() {
    let table = Arc::new(Exchanger::new());
    let counter = Arc::new(());
    let item = |number| Counted(number, Arc::clone(&counter));
    let left = || Arc::strong_count(&counter) - 1;
    drop(table.exchange(item(1)));
    drop(table.exchange_owned(item(1)).timeout(LONG));
    assert_eq!(left(), 0, "never polled");
    drop(Step::queued(table.exchange(item(1))));
    assert_eq!(left(), 0, "withdrawn");
    let paired = Step::queued(table.exchange(item(1)));
    let got = table.exchange(item(2)).wait();
    assert_eq!((got.0, left()), (1, 2));
    drop(paired);
    assert_eq!(left(), 1, "the partner's item goes with the request that did not come for it");
    drop(got);
    let mut finished = Step::queued(table.exchange(item(3)));
    drop(table.exchange(item(4)).wait());
    let got = finished.expect_ready();
    drop(finished);
    assert_eq!((got.0, left()), (4, 1));
    drop(got);
    let timed = table.exchange(item(5)).timeout(Duration::ZERO).wait().unwrap_err();
    assert_eq!((timed.item.0, left()), (5, 1));
}

/// EX-05
#[test]
fn a_pair_is_never_one_sided() {
    const ROUNDS: u32 = 2_000;
    let table = leaked(Exchanger::new());
    let mut random = Random::new(17);
    let mut paired = 0;
    for round in 0..ROUNDS {
        let stop = leaked(CancelSource::new());
        let (kind, timed) = (round % 4, random.one_in(2));
        let limit = Duration::from_micros(random.below(60).into());
        let first = Waiter::on_a_thread(move || {
            let request = table.exchange(2 * round);
            let request =
                if timed { request.timeout(limit) } else { request.cancel_on(&stop.token()) };
            if kind < 2 { request.wait() } else { crate::support::block_on(request) }
        });
        (0..random.below(400)).for_each(|_| std::hint::spin_loop());
        let cancels = (!timed).then(|| std::thread::spawn(|| stop.cancel()));
        let mut second = Step::new(table.exchange(2 * round + 1));
        let second_got = second.poll();
        let first_got = first.join();
        match first_got {
            Ok(item) => {
                assert_eq!(item, 2 * round + 1);
                let item = match second_got {
                    std::task::Poll::Ready(item) => item,
                    std::task::Poll::Pending => second.expect_ready(),
                };
                assert_eq!(item, 2 * round);
                paired += 1;
            }
            Err(rejected) => {
                assert_eq!(rejected.item, 2 * round);
                assert!(second_got.is_pending(), "the second got what the first has back");
                second.expect_pending();
                assert_eq!(table.waiters(), 1);
            }
        }
        drop(second);
        assert_eq!(table.waiters(), 0);
        cancels.into_iter().for_each(|cancels| cancels.join().unwrap());
    }
    println!("{paired} of {ROUNDS} rounds made a pair");
}

/// EX-07
#[test]
fn a_chain_of_stages_passes_every_item_on() {
    const STAGES: usize = 5;
    const ROUNDS: usize = 1_000;
    in_every_arrangement_at_once(|arrangement| {
        // Between every two neighbours there is a table.
        let tables: &'static Vec<_> =
            leaked((1..STAGES).map(|_| Exchanger::<usize>::new()).collect());
        let stages: Vec<_> = (0..STAGES)
            .map(|stage| {
                let kind = arrangement.kind(stage);
                Waiter::on_a_thread(move || {
                    let mut own = stage;
                    for _ in 0..ROUNDS {
                        let left = stage.checked_sub(1).map(|left| &tables[left]);
                        for table in left.into_iter().chain(tables.get(stage)) {
                            let given = own;
                            own = match kind {
                                Kind::Blocking => table.exchange(given).wait(),
                                Kind::Async(executor) => executor.block_on(table.exchange(given)),
                            };
                            assert_ne!(own, given, "got its own item");
                        }
                    }
                    own
                })
            })
            .collect();
        let mut items: Vec<_> = stages.into_iter().map(Waiter::join).collect();
        items.sort_unstable();
        assert_eq!(items, (0..STAGES).collect::<Vec<_>>());
        assert!(tables.iter().all(|table| table.waiters() == 0));
    });
}

///
#[test]
fn the_place_counts_from_the_first_poll() {
    let table = Exchanger::new();
    let mut first = Step::new(table.exchange(1));
    let mut second = Step::new(table.exchange(2));
    assert_eq!(table.waiters(), 0);
    second.expect_pending();
    assert_eq!((first.expect_ready(), second.expect_ready()), (2, 1));
    assert!(panic_of(|| first.poll().is_ready()).contains("after it had completed"));
}

/// The panic of a partner's waker reaches whoever woke it; the pair is made all the same.
#[test]
fn a_panicking_waker_does_not_undo_the_pair() {
    let table = Exchanger::new();
    let mut first = Step::panicking(table.exchange(1));
    assert_eq!(panic_of(|| table.exchange(2).wait()), "the waker panicked");
    assert_eq!(first.expect_ready(), 2);
    assert_eq!(table.waiters(), 0);
}

#[test]
fn ten_thousand_exchanges_do_not_grow_the_stack() {
    in_its_own_process(|| {
        let table = leaked(Exchanger::new());
        let deepest = Arc::new(AtomicUsize::new(0));
        for own in 0..2 {
            InlineTask::start(&deepest, async move {
                let mut item = own;
                for _ in 0..10_000 {
                    item = table.exchange(item).await;
                }
                assert_eq!(item, own);
            });
        }
        assert_eq!(table.waiters(), 0);
        assert!(deepest.load(SeqCst) <= 2);
    });
}

/// What is exchanged may be borrowed, and the request leaked; the limits come when all is gone.
#[test]
fn leaked_requests_are_harmless() {
    let stop = CancelSource::new();
    let token = stop.token();
    {
        let text = String::from("borrowed");
        let table = Exchanger::new();
        let request = table.exchange(text.as_str()).cancel_on(&token);
        std::mem::forget(Step::queued(request).into_future());
        let table = Box::new(table);
        assert_eq!(table.exchange("another").timeout(LONG).wait(), Ok("borrowed"));
        let timed = table.exchange(text.as_str()).timeout(Duration::from_millis(1));
        std::mem::forget(Step::queued(timed.cancel_on(&token)).into_future());
        let owned = Arc::new(Exchanger::new());
        let request = owned.exchange_owned(text.as_str()).cancel_on(&token);
        std::mem::forget(Step::queued(request).into_future());
    }
    assert!(semaforo::Latch::new(1).opened().timeout(SHORT).wait().is_err());
    stop.cancel();
    assert_eq!(token.registrations(), 0);
}

#[test]
fn an_owned_request_keeps_the_exchanger_alive() {
    in_every_arrangement(|arrangement| {
        let table = Arc::new(Exchanger::new());
        let waiting = Line::new(arrangement, &*table).enter(table.exchange_owned(1));
        let second = table.exchange_owned(2);
        drop(table);
        assert_eq!((second.wait(), waiting.join()), (1, 2));
    });
}

#[test]
fn an_exchanger_shows_who_waits() {
    let table = Exchanger::<u32>::default();
    let waiting = Step::queued(table.exchange(1));
    until_queued(&table, 1);
    assert!(format!("{table:?}").contains("waiters: 1"));
    drop(waiting);
}

/// The same for a task: the pair is made by the poll that panics. Polled again, it is ready with what it
/// got, and does not bring that to another.
#[test]
fn a_poll_that_panics_with_the_others_waker_has_exchanged_for_good() {
    let (table, tally) = (Exchanger::new(), Tally::new());
    let mut first = Step::panicking(table.exchange(tally.make()));
    let mut second = Step::new(table.exchange(tally.make()));
    assert_eq!(panic_of(|| second.poll().is_ready()), "the waker panicked");
    let mut third = Step::queued(table.exchange(tally.make()));
    assert_eq!((second.expect_ready().number, table.waiters()), (0, 1));
    assert_eq!(first.expect_ready().number, 1);
    let mut fourth = Step::new(table.exchange(tally.make()).timeout(LONG));
    third.expect_pending();
    assert!(third.poll_with(&panicking_waker()).is_pending());
    assert_eq!(panic_of(|| fourth.poll().is_ready()), "the waker panicked");
    assert_eq!(fourth.expect_ready().unwrap().number, 2);
    assert_eq!((tally.dropped(), third.expect_ready().number), (vec![0, 1, 2], 3));
    tally.expect_all_dropped();
}

/// Whoever drops the request after that panic has dropped what it got; the other has its item.
#[test]
fn a_poll_that_panics_and_is_dropped_leaves_the_pair() {
    let (table, tally) = (Exchanger::new(), Tally::new());
    let mut first = Step::panicking(table.exchange(tally.make()));
    let mut second = Step::new(table.exchange(tally.make()));
    assert_eq!(panic_of(|| second.poll().is_ready()), "the waker panicked");
    assert_eq!(tally.dropped(), []);
    drop(second);
    assert_eq!((tally.dropped(), first.expect_ready().number), (vec![0], 1));
    tally.expect_all_dropped();
}

//! The general synchronizer of the monitor literature, in both of its styles. What differs between
//! synchronizers is only their rules: when may a request be granted, what does granting it change,
//! what does giving something back change. Everything else is written once:
//!
//! - *monitor style*: a thread that is woken looks again, and takes what it finds;
//! - *kernel style*, or execution delegation: the thread that creates the conditions executes the
//!   requests of the threads that wait, in their order, and wakes each with its result. No other
//!   thread can get in between, and none is woken in vain.
//!
//! Two rules are driven by both: a semaphore, and a mailbox where messages are taken by subject,
//! which needs arguments and results.
//!
//! `cargo run --release -p semaforo --example general_synchronizer`

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use semaforo::{Condition, Monitor};

/// What is particular to a synchronizer.
trait Rules {
    /// What the monitor protects.
    type State;
    /// What a request asks for.
    type Ask;
    /// What it gets.
    type Grant;
    /// What is given back, or brought.
    type Give;

    /// Whether a request has to wait for those before it, even if it could be granted.
    const IN_ORDER: bool;

    /// Grants a request and changes the state accordingly, if that is possible now.
    fn acquire(state: &mut Self::State, ask: &Self::Ask) -> Option<Self::Grant>;

    fn release(state: &mut Self::State, give: Self::Give);
}

/// What both styles offer.
trait Synchronizer<R: Rules>: Sync {
    fn new(state: R::State) -> Self;

    /// `None` if the time is up.
    fn acquire(&self, ask: R::Ask, deadline: Instant) -> Option<R::Grant>;

    fn release(&self, give: R::Give);

    /// How many wait.
    fn waiting(&self) -> usize;

    /// How often a waiting thread was woken.
    fn wake_ups(&self) -> usize;
}

/// A waiting thread looks again at every change.
struct MonitorStyle<R: Rules> {
    state: Monitor<Watched<R::State>>,
}

struct Watched<S> {
    state: S,
    wake_ups: usize,
}

impl<R: Rules> Synchronizer<R> for MonitorStyle<R>
where
    R::State: Send,
{
    fn new(state: R::State) -> Self {
        Self { state: Monitor::new(Watched { state, wake_ups: 0 }) }
    }

    fn acquire(&self, ask: R::Ask, deadline: Instant) -> Option<R::Grant> {
        let mut inside = self.state.enter().wait();
        loop {
            if let Some(grant) = R::acquire(&mut inside.state, &ask) {
                return Some(grant);
            }
            match self.state.wait(inside).deadline(deadline).wait() {
                Ok(woken) => {
                    inside = woken;
                    inside.wake_ups += 1;
                }
                // What came in the same moment counts.
                Err(late) => return R::acquire(&mut late.into_guard().state, &ask),
            }
        }
    }

    fn release(&self, give: R::Give) {
        let mut inside = self.state.enter().wait();
        R::release(&mut inside.state, give);
        // Which of the waiting threads can go on is known only to themselves.
        self.state.notify_all(&inside);
    }

    fn waiting(&self) -> usize {
        self.state.waiting()
    }

    fn wake_ups(&self) -> usize {
        self.state.enter().wait().wake_ups
    }
}

/// The thread that changes the state serves the requests that wait.
struct KernelStyle<R: Rules> {
    kernel: Monitor<Kernel<R>>,
}

struct Kernel<R: Rules> {
    state: R::State,
    /// What waits, in the order in which it came.
    requests: VecDeque<Request<R::Ask>>,
    /// The results that were not fetched yet.
    granted: HashMap<u64, R::Grant>,
    tickets: u64,
    wake_ups: usize,
}

/// A request item: what is asked for, and where its thread waits.
struct Request<A> {
    ticket: u64,
    ask: A,
    served: Arc<Condition>,
}

impl<R: Rules> Kernel<R> {
    /// Executes the requests that can be granted now, and says whom to wake.
    fn serve(&mut self) -> Vec<Arc<Condition>> {
        let mut served = Vec::new();
        let mut next = 0;
        while let Some(request) = self.requests.get(next) {
            match R::acquire(&mut self.state, &request.ask) {
                Some(grant) => {
                    let request = self.requests.remove(next).expect("it was just looked at");
                    self.granted.insert(request.ticket, grant);
                    served.push(request.served);
                }
                None if R::IN_ORDER => break,
                None => next += 1,
            }
        }
        served
    }
}

impl<R: Rules> Synchronizer<R> for KernelStyle<R>
where
    Kernel<R>: Send,
{
    fn new(state: R::State) -> Self {
        let (requests, granted) = (VecDeque::new(), HashMap::new());
        let kernel = Kernel { state, requests, granted, tickets: 0, wake_ups: 0 };
        Self { kernel: Monitor::new(kernel) }
    }

    fn acquire(&self, ask: R::Ask, deadline: Instant) -> Option<R::Grant> {
        let mut inside = self.kernel.enter().wait();
        if inside.requests.is_empty() || !R::IN_ORDER {
            if let Some(grant) = R::acquire(&mut inside.state, &ask) {
                return Some(grant);
            }
        }
        let (ticket, served) = (inside.tickets, Arc::new(Condition::new()));
        inside.tickets += 1;
        inside.requests.push_back(Request { ticket, ask, served: Arc::clone(&served) });
        while !inside.granted.contains_key(&ticket) {
            match served.wait(inside).deadline(deadline).wait() {
                Ok(woken) => {
                    inside = woken;
                    inside.wake_ups += 1;
                }
                Err(interrupted) => {
                    inside = interrupted.into_guard();
                    // Served in the same moment: then it is done, and cannot be undone.
                    if inside.granted.contains_key(&ticket) {
                        break;
                    }
                    inside.requests.retain(|request| request.ticket != ticket);
                    // The next one may have waited only for this one to be served.
                    for next in inside.serve() {
                        next.signal(&inside);
                    }
                    return None;
                }
            }
        }
        inside.granted.remove(&ticket)
    }

    fn release(&self, give: R::Give) {
        let mut inside = self.kernel.enter().wait();
        R::release(&mut inside.state, give);
        for served in inside.serve() {
            served.signal(&inside);
        }
    }

    fn waiting(&self) -> usize {
        self.kernel.enter().wait().requests.len()
    }

    fn wake_ups(&self) -> usize {
        self.kernel.enter().wait().wake_ups
    }
}

/// A semaphore: any number of permits, first come first served.
struct Permits;

impl Rules for Permits {
    type State = u32;
    type Ask = u32;
    type Grant = ();
    type Give = u32;

    const IN_ORDER: bool = true;

    fn acquire(available: &mut u32, permits: &u32) -> Option<()> {
        *available = available.checked_sub(*permits)?;
        Some(())
    }

    fn release(available: &mut u32, permits: u32) {
        *available += permits;
    }
}

/// Messages, which are taken by their subjects.
struct BySubject;

impl Rules for BySubject {
    type State = Vec<(&'static str, u32)>;
    type Ask = &'static str;
    type Grant = u32;
    type Give = (&'static str, u32);

    const IN_ORDER: bool = false;

    fn acquire(messages: &mut Self::State, subject: &Self::Ask) -> Option<u32> {
        let place = messages.iter().position(|(of, _)| of == subject)?;
        Some(messages.remove(place).1)
    }

    fn release(messages: &mut Self::State, message: Self::Give) {
        messages.push(message);
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn until(seen: impl Fn() -> bool) {
    while !seen() {
        thread::yield_now();
    }
}

/// Eight threads wait for a permit each, and get them one by one. How often they were woken.
fn wake_ups_of_a_semaphore<S: Synchronizer<Permits>>() -> usize {
    const WAITERS: usize = 8;
    let semaphore = &S::new(0);
    thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| semaphore.acquire(1, soon()).expect("permits come"));
        }
        for left in (1..=WAITERS).rev() {
            until(|| semaphore.waiting() == left);
            semaphore.release(1);
        }
    });
    semaphore.wake_ups()
}

/// What each of three threads got who wait for messages of a subject each.
fn mail<S: Synchronizer<BySubject>>() -> Vec<(&'static str, Option<u32>)> {
    let subjects = ["bills", "love letters", "advertisements"];
    let mailbox = &S::new(Vec::new());
    thread::scope(|scope| {
        let readers = subjects.map(|subject| scope.spawn(|| mailbox.acquire(subject, soon())));
        until(|| mailbox.waiting() == subjects.len());
        for message in [("love letters", 2), ("advertisements", 3), ("bills", 1)] {
            mailbox.release(message);
        }
        let taken = readers.into_iter().map(|reader| reader.join().expect("no panic"));
        subjects.into_iter().zip(taken).collect()
    })
}

fn main() {
    println!("Eight threads get a permit each, one by one. They were woken");
    println!("  {:>2} times in monitor style", wake_ups_of_a_semaphore::<MonitorStyle<_>>());
    println!("  {:>2} times in kernel style", wake_ups_of_a_semaphore::<KernelStyle<_>>());
    println!("Messages by subject:");
    println!("  {:?} in monitor style", mail::<MonitorStyle<_>>());
    println!("  {:?} in kernel style", mail::<KernelStyle<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_kernel_style_nobody_is_woken_in_vain() {
        assert_eq!(wake_ups_of_a_semaphore::<KernelStyle<_>>(), 8);
        assert!(wake_ups_of_a_semaphore::<MonitorStyle<_>>() >= 8);
    }

    #[test]
    fn a_message_goes_to_who_asked_for_its_subject() {
        let expected = [("bills", Some(1)), ("love letters", Some(2)), ("advertisements", Some(3))];
        assert_eq!(mail::<MonitorStyle<_>>(), expected);
        assert_eq!(mail::<KernelStyle<_>>(), expected);
    }

    #[test]
    fn in_kernel_style_a_large_request_is_not_starved_by_small_ones() {
        let semaphore = &KernelStyle::<Permits>::new(1);
        thread::scope(|scope| {
            let large = scope.spawn(|| semaphore.acquire(2, soon()));
            until(|| semaphore.waiting() == 1);
            // There is a permit, but not for a newcomer.
            assert_eq!(semaphore.acquire(1, Instant::now()), None);
            semaphore.release(1);
            assert_eq!(large.join().unwrap(), Some(()));
        });
    }

    #[test]
    fn who_gives_up_lets_those_behind_it_through() {
        let semaphore = &KernelStyle::<Permits>::new(1);
        thread::scope(|scope| {
            let deadline = Instant::now() + Duration::from_millis(50);
            let large = scope.spawn(move || semaphore.acquire(5, deadline));
            until(|| semaphore.waiting() == 1 || large.is_finished());
            let small = scope.spawn(|| semaphore.acquire(1, soon()));
            assert_eq!(large.join().unwrap(), None);
            assert_eq!(small.join().unwrap(), Some(()));
        });
        assert_eq!(semaphore.waiting(), 0);
    }

    #[test]
    fn both_give_up_in_time() {
        let now = Instant::now();
        assert_eq!(MonitorStyle::<Permits>::new(0).acquire(1, now), None);
        assert_eq!(KernelStyle::<Permits>::new(0).acquire(1, now), None);
    }
}

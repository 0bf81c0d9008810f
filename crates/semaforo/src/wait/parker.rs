//! How a thread waits for its answer: it spins a little, yields a little, then sleeps.

use std::cell::Cell;
use std::sync::{Arc, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use super::contended::Attempt;
use super::user_code;
use super::waiter::{Waiter, WaiterState};
use super::wake::settle_debts;
use crate::primitive::{
    AtomicU32, Condvar, MODELLED, Mutex, Ordering, constant_thread_local, now, pause, thread_local,
    time_left, yield_now,
};

/// About a microsecond of pauses: longer than a hand-off between two running threads takes, shorter
/// than a wake-up costs.
const PAUSES: u32 = 40;
/// Then let others run. On a single core this is what makes the hand-off happen.
const YIELDS: u32 = 10;

/// Waiting for something that another running thread is about to do: longer and longer pauses, then
/// yields, then short sleeps.
pub(crate) struct Backoff {
    step: u32,
    /// Once it yields.
    yields: Option<Yields>,
}

impl Backoff {
    /// Pauses of 1, 2, 4, ... up to this power of two.
    const PAUSING_STEPS: u32 = 5;
    /// With the yields that follow.
    const STEPS: u32 = 12;
    /// Then it sleeps: a thread of a higher priority may yield for ever on the core that the one it
    /// waits for needs.
    const MOST_YIELDS: u32 = 195;
    const NAP: Duration = Duration::from_micros(50);
    /// How often [`pause_briefly`](Self::pause_briefly) pauses.
    const BRIEF_LOOKS: u32 = 64;

    pub(crate) const fn new() -> Self {
        Self { step: 0, yields: None }
    }

    /// Without the shortest pauses.
    pub(crate) const fn patient() -> Self {
        Self { step: 4, yields: None }
    }

    /// Waits a little, a little longer each time.
    pub(crate) fn wait(&mut self) {
        if MODELLED {
            yield_now();
        } else if self.step <= Self::PAUSING_STEPS {
            (0..1 << self.step).for_each(|_| pause());
        } else {
            self.wait_longer(yield_now);
        }
        self.step = self.step.saturating_add(1);
    }

    /// Yields as long as that is worth it. Then it goes on pausing until it is
    /// [spent](Self::is_spent), and sleeps afterwards.
    fn wait_longer(&mut self, yield_once: impl FnOnce()) {
        let yields = self.yields.get_or_insert_with(|| Yields::at_most(Self::MOST_YIELDS));
        if yields.next_by(yield_once) {
            if yields.is_over() {
                self.step = self.step.max(Self::STEPS);
            }
        } else if self.step < Self::STEPS {
            (0..1 << Self::PAUSING_STEPS).for_each(|_| pause());
        } else {
            std::thread::sleep(Self::NAP);
        }
    }

    /// Waits for a moment, without letting other threads run. False if the moments are over: about two
    /// microseconds.
    pub(crate) fn pause_briefly(&mut self) -> bool {
        let looks = self.step < Self::BRIEF_LOOKS;
        if looks {
            pause();
            self.step += 1;
        }
        looks
    }

    /// Whether that was long enough to look for something better to do.
    pub(crate) fn is_spent(&self) -> bool {
        MODELLED || self.step >= Self::STEPS
    }
}

constant_thread_local! {
    /// How often this thread pauses before it yields, and how many waits ago it last tried all of it.
    static PAUSING: Cell<(u32, u32)> = Cell::new((PAUSES, 0));
}

/// How often a thread pauses this time. If the one that it waits for runs on the same core, every
/// pause is in vain: then it pauses less and less, and only now and then looks whether that is still
/// so.
struct Pauses {
    number: u32,
}

impl Pauses {
    const FEWEST: u32 = 2;
    /// How many waits with few pauses come between two with all of them.
    const WAITS_BETWEEN: u32 = 32;

    fn now() -> Self {
        let (number, waits) = PAUSING.with(Cell::get);
        if number < PAUSES && waits >= Self::WAITS_BETWEEN {
            return Self { number: PAUSES };
        }
        Self { number }
    }

    #[inline]
    fn were_worth_it(&self) {
        if self.number == PAUSES {
            PAUSING.with(|pausing| pausing.set((PAUSES, 0)));
        }
    }

    fn were_in_vain(&self) {
        let (number, waits) = PAUSING.with(Cell::get);
        let fewer = (number / 2).max(Self::FEWEST);
        let waits = if self.number == PAUSES { 0 } else { waits + 1 };
        PAUSING.with(|pausing| pausing.set((fewer, waits)));
    }
}

/// How often a thread looks at one object again before it joins its line. If that was in vain, because
/// what is asked for is held for longer than a moment there, threads look less and less, then not at
/// all, and only now and then try whether that is still so.
#[derive(Debug)]
pub(crate) struct Looks(AtomicU32);

impl Looks {
    /// With the pauses about half a microsecond: much longer than a lock is held that guards a few
    /// fields, much shorter than a wake-up takes.
    const MOST: u32 = 8;
    /// Before each look. A look takes the word's cache line from the thread that holds what is asked for:
    /// that one gets more done in between if there are not too many.
    const PAUSES: u32 = 2;
    /// How many waits without a look come between two with all of them.
    const WAITS_BETWEEN: u32 = 64;
    /// Below, how often to look; above, how many waits there were since, if not at all.
    const WAIT: u32 = 1 << 8;

    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(Self::MOST))
    }

    /// Attempts again for a moment, for as long as what the last attempt came to may change soon.
    pub(crate) fn look_again(
        &self,
        mut attempt: Attempt,
        mut attempt_again: impl FnMut() -> Attempt,
        may_change: impl Fn(Attempt) -> bool,
    ) -> Attempt {
        let number = if may_change(attempt) { self.number() } else { 0 };
        for _ in 0..number {
            (0..Self::PAUSES).for_each(|_| pause());
            attempt = attempt_again();
            if attempt == Attempt::Granted {
                self.note(Self::MOST);
                return attempt;
            }
            if !may_change(attempt) {
                // That says nothing about the next time.
                return attempt;
            }
        }
        if number > 0 {
            self.note(number / 4);
        }
        attempt
    }

    fn number(&self) -> u32 {
        // A checker of models delays an attempt as it likes.
        if MODELLED {
            return 0;
        }
        let noted = self.0.load(Ordering::Relaxed);
        if noted > 0 && noted < Self::WAIT {
            return noted;
        }
        if noted >= Self::WAITS_BETWEEN * Self::WAIT {
            return Self::MOST;
        }
        self.0.store(noted + Self::WAIT, Ordering::Relaxed);
        0
    }

    /// Threads that disagree do not matter. Written only if it is news, since all of them read it.
    fn note(&self, number: u32) {
        if self.0.load(Ordering::Relaxed) != number {
            self.0.store(number, Ordering::Relaxed);
        }
    }
}

constant_thread_local! {
    /// How many waits of this thread go by without a yield.
    static BUSY: Cell<u32> = Cell::new(0);
}

/// Lets other threads run a few times, in the hope that one of them is the one that is waited for. On a
/// busy machine the core goes to a stranger instead, for as long as the system thinks fair: a thread
/// that was once kept away for long sleeps at once for a while, since a sleeper is woken sooner than
/// a thread that has yielded runs again.
pub(crate) struct Yields {
    left: u32,
}

impl Yields {
    /// What a yield may take: longer than one to a thread that hands over and yields in turn.
    const LONGEST: Duration = Duration::from_micros(20);
    /// How many waits go by without yields after one that took longer.
    const WAITS_BETWEEN: u32 = 64;

    /// For one wait of this thread, which yields so often unless one yield takes long.
    pub(crate) fn at_most(number: u32) -> Self {
        let busy = BUSY.with(Cell::get);
        if busy > 0 {
            BUSY.with(|waits| waits.set(busy - 1));
        }
        Self { left: if busy > 0 { 0 } else { number } }
    }

    /// Yields once more; false if that was enough.
    pub(crate) fn next(&mut self) -> bool {
        self.next_by(yield_now)
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }

    fn next_by(&mut self, yield_once: impl FnOnce()) -> bool {
        let more = self.left > 0;
        if more {
            let before = now();
            yield_once();
            self.left -= 1;
            if before.elapsed() > Self::LONGEST {
                BUSY.with(|waits| waits.set(Self::WAITS_BETWEEN));
                self.left = 0;
            }
        }
        more
    }
}

/// Our own, because `std::thread::park` belongs to the user: taking its token would swallow theirs.
#[derive(Debug)]
pub(crate) struct Parker {
    woken: Mutex<bool>,
    changed: Condvar,
}

thread_local! {
    static PARKER: Arc<Parker> = Parker::new();
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

impl Parker {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { woken: Mutex::new(false), changed: Condvar::new() })
    }

    /// Sleeps until woken or until `deadline`; a wake-up that came before counts. False if it was not woken.
    pub(crate) fn park(&self, deadline: Option<Instant>) -> bool {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        while !*woken {
            woken = match deadline {
                None => self.changed.wait(woken).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = time_left(deadline);
                    if left.is_zero() {
                        break;
                    }
                    self.changed.wait_timeout(woken, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        std::mem::take(&mut *woken)
    }
}

constant_thread_local! {
    /// Whom to tell that this thread is going to sleep, and that it has slept.
    static ON_SLEEP: Cell<Option<fn(bool)>> = Cell::new(None);
}

/// Has `tell` called in this thread before it sleeps until a request is answered (with true), and
/// afterwards (with false).
pub(crate) fn on_sleep(tell: Option<fn(bool)>) {
    ON_SLEEP.with(|on_sleep| on_sleep.set(tell));
}

/// This thread is going to sleep, until this is dropped.
pub(crate) struct Sleeping(Option<fn(bool)>);

impl Sleeping {
    pub(crate) fn now() -> Self {
        let tell = ON_SLEEP.try_with(Cell::get).ok().flatten();
        if let Some(tell) = tell {
            tell(true);
        }
        Self(tell)
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        if let Some(tell) = self.0 {
            tell(false);
        }
    }
}

/// Waits until the waiter is answered, and returns its state; `Waiting` or `Parked` mean that
/// the deadline came first.
///
/// # Panics
/// In a rule's own code, which holds the lock of its object.
pub(crate) fn block<A>(waiter: &Waiter<A>, deadline: Option<Instant>) -> WaiterState {
    user_code::forbid("a rule waited, while its object is locked");
    if waiter.state() == WaiterState::Parked {
        return sleep_on(waiter);
    }
    if !MODELLED {
        let pauses = Pauses::now();
        for _ in 0..pauses.number {
            pause();
            let state = waiter.state();
            if state != WaiterState::Waiting {
                pauses.were_worth_it();
                return state;
            }
        }
        let mut yields = Yields::at_most(YIELDS);
        while yields.next() {
            let state = waiter.state();
            if state != WaiterState::Waiting {
                pauses.were_in_vain();
                return state;
            }
        }
    }
    sleep(waiter, deadline)
}

#[cold]
fn sleep<A>(waiter: &Waiter<A>, deadline: Option<Instant>) -> WaiterState {
    settle_debts();
    let _sleeping = Sleeping::now();
    // A thread that is ending may have lost its thread-local parker already.
    let parker = PARKER.try_with(Arc::clone).unwrap_or_else(|_| Parker::new());
    if !waiter.announce_parking(Waker::from(Arc::clone(&parker))) {
        return waiter.state();
    }
    loop {
        parker.park(deadline);
        let state = waiter.state();
        if state != WaiterState::Parked {
            return state;
        }
        if deadline.is_some_and(|deadline| time_left(deadline).is_zero()) {
            return state;
        }
    }
}

/// For a thread whose deadline has come, but whose answer was first, or who has to wait for another:
/// it has announced that it sleeps.
#[cold]
fn sleep_on<A>(waiter: &Waiter<A>) -> WaiterState {
    let _sleeping = Sleeping::now();
    loop {
        // Without the parker that its waker leads to, a thread that is ending can only look.
        if PARKER.try_with(|parker| parker.park(None)).is_err() {
            yield_now();
        }
        let state = waiter.state();
        if state != WaiterState::Parked {
            return state;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// How often a wait that is never answered yields, if each yield takes so long.
    fn yields_of_a_wait(each: Duration) -> u32 {
        let mut yields = Yields::at_most(YIELDS);
        let mut number = 0;
        while yields.next_by(|| {
            let began = now();
            while began.elapsed() < each {}
        }) {
            number += 1;
        }
        number
    }

    /// On a busy machine `sched_yield` gives the core to a stranger. One yield that took long is
    /// enough: the rest of this wait and the next 64 do without, and then it is tried again. What
    /// other threads yield does not count.
    #[test]
    fn a_yield_that_takes_long_is_not_tried_again_for_a_while() {
        let long = 2 * Yields::LONGEST;
        for _ in 0..2 {
            assert_eq!(yields_of_a_wait(long), 1);
            for _ in 0..Yields::WAITS_BETWEEN {
                assert_eq!(yields_of_a_wait(long), 0);
            }
        }
        assert_eq!(yields_of_a_wait(long), 1);
        std::thread::spawn(move || assert_eq!(yields_of_a_wait(long), 1)).join().unwrap();
    }

    /// As long as it takes no time, every wait yields as often as it may. (A machine that takes
    /// this thread's core away in between can end a row of yields, but not every row.)
    #[test]
    fn yields_that_take_no_time_go_on() {
        let all = |_| yields_of_a_wait(Duration::ZERO) == YIELDS;
        assert!((0..20 * Yields::WAITS_BETWEEN).any(all));
    }

    /// How often a thread looks again, if every attempt comes to this.
    fn looks(looks: &Looks, came_to: Attempt) -> u32 {
        let mut number = 0;
        let attempt_again = || {
            number += 1;
            came_to
        };
        let denied = |attempt| attempt == Attempt::Denied(0);
        looks.look_again(Attempt::Denied(0), attempt_again, denied);
        number
    }

    /// In vain a thread looks less and less, then not at all, and tries all of it again now and then:
    /// what happened at one object says nothing of another.
    #[test]
    fn looking_that_was_in_vain_is_not_repeated_for_a_while() {
        let (here, elsewhere) = (Looks::new(), Looks::new());
        for _ in 0..2 {
            assert_eq!(looks(&here, Attempt::Denied(0)), Looks::MOST);
            assert_eq!(looks(&here, Attempt::Denied(0)), Looks::MOST / 4);
            for _ in 0..Looks::WAITS_BETWEEN {
                assert_eq!(looks(&here, Attempt::Denied(0)), 0);
            }
        }
        assert_eq!(looks(&elsewhere, Attempt::Denied(0)), Looks::MOST);
    }

    #[test]
    fn looking_that_was_worth_it_is_repeated() {
        let here = Looks::new();
        looks(&here, Attempt::Denied(0));
        assert_eq!(looks(&here, Attempt::Granted), 1);
        assert_eq!(looks(&here, Attempt::Denied(0)), Looks::MOST);
    }

    /// A request waits (or the like): the thread goes and stands behind it. That was not in vain.
    #[test]
    fn looking_stops_as_soon_as_a_request_waits() {
        let here = Looks::new();
        assert_eq!(looks(&here, Attempt::Denied(1)), 1);
        assert_eq!(looks(&here, Attempt::Denied(0)), Looks::MOST);
    }

    /// How often a thread looks, by a backoff whose yields take so long each, until it would queue.
    fn looks_until_spent(each: Duration) -> (u32, u32) {
        let mut backoff = Backoff::new();
        let (mut looks, mut yields) = (0, 0);
        while !backoff.is_spent() {
            if backoff.step <= Backoff::PAUSING_STEPS {
                backoff.wait();
            } else {
                backoff.wait_longer(|| {
                    yields += 1;
                    let began = now();
                    while began.elapsed() < each {}
                });
                backoff.step += 1;
            }
            looks += 1;
        }
        (looks, yields)
    }

    /// A thread that tries before it queues, or that waits for a lock inside of an object, does not give
    /// its core to a stranger again and again either.
    #[test]
    fn a_backoff_stops_yielding_on_a_busy_machine() {
        let long = 2 * Yields::LONGEST;
        assert_eq!(looks_until_spent(long), (Backoff::PAUSING_STEPS + 2, 1), "spent at once");
        for _ in 0..Yields::WAITS_BETWEEN {
            assert_eq!(looks_until_spent(long), (Backoff::STEPS, 0), "pauses only");
        }
        assert_eq!(looks_until_spent(long).1, 1);
    }

    /// Whatever yields are worth, a backoff comes to sleep: a thread of a higher priority would keep the
    /// one that it waits for from its core for ever.
    #[test]
    fn a_backoff_sleeps_in_the_end() {
        let mut backoff = Backoff::new();
        let mut yields = 0;
        let slept = (0..10 * Backoff::MOST_YIELDS).any(|_| {
            let (before, began) = (yields, now());
            backoff.wait_longer(|| yields += 1);
            backoff.step += 1;
            yields == before && began.elapsed() >= Backoff::NAP
        });
        assert!(slept && yields <= Backoff::MOST_YIELDS);
    }
}

//! Which guards of a re-entrant lock hold nothing, because their owner waits on a condition.

use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::PoisonError;

use crate::policy::Owner;
use crate::primitive::{AtomicU64, Mutex, MutexGuard, Ordering, constant_unless_modelled};

/// What the owners of one lock have given away while they wait.
///
/// An owner that waits gives all its holds away, also those of its other guards. Guards are
/// counted, not listed: each notes how many waits had begun when it was made. A wait is entered
/// here in the moment that it gives the holds away, under the object's own lock. A guard that is
/// dropped while its hold is away releases nothing: the wait has one hold fewer to bring back, and
/// releases what it has too much.
///
/// A guard that another thread makes or drops just then may be mistaken: it finds nothing to
/// release, and no wait covers it; or it has released the hold of another guard of its owner, which
/// finds nothing later. Such a hold is a debt of the owner. The first wait that comes back with
/// holds of other guards pays it from these; the guard that waited keeps its own. So for each
/// owner, whenever no operation is under way,
///
/// ```text
/// holds in the lock + holds away or lost - debts == guards that do not wait
/// debts <= holds away
/// ```
///
/// and when the last guard and the last wait are gone nothing is held. A drop that finds nothing to
/// release is entered only if nothing else was since it looked: a wait that comes back in between
/// may have brought the hold.
///
/// (The numbers are right, but a mistaken guard may free the lock too early: it is dropped on one
/// thread, made while another thread of the same key began to wait, and releases the hold of the
/// wait that is about to return. Another owner can come in then. Readers have no names when no one
/// writes, so a mistaken guard may also release a stranger's read, and the debt is then that of an
/// owner that is away.)
#[derive(Debug)]
pub(crate) struct Ledger {
    /// How many waits have begun.
    waits: AtomicU64,
    books: Mutex<Books>,
}

#[derive(Debug)]
struct Books {
    /// How often something was entered.
    entries: u64,
    absences: Vec<Absence>,
    /// Guards that were dropped, and not covered by a wait whose holds they could be.
    debts: Vec<(Owner, Holds)>,
}

/// A wait that has given holds away.
#[derive(Debug)]
struct Absence {
    owner: Owner,
    /// Its number, from 1.
    wait: u64,
    /// Guards made before the wait, whose holds were away already: its owner waits several times
    /// over.
    except: Vec<Range<u64>>,
    /// What is away, or lost, of the other guards that are left.
    away: Holds,
    /// The guards that were dropped meanwhile.
    dropped: Holds,
    /// How it has ended, if holds are lost with it.
    end: Option<End>,
}

/// How a wait has ended whose holds did not all come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its owner has the lock again. What is lost all the same is any guard's that it covers.
    Returned,
    /// It was dropped.
    Dropped,
}

/// A number of holds of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holds {
    pub(crate) reads: u32,
    pub(crate) writes: u32,
}

impl Holds {
    pub(crate) const READ: Self = Self { reads: 1, writes: 0 };
    pub(crate) const WRITE: Self = Self { reads: 0, writes: 1 };

    fn each(self, other: Self, of: impl Fn(u32, u32) -> u32) -> Self {
        Self { reads: of(self.reads, other.reads), writes: of(self.writes, other.writes) }
    }

    fn and(self, other: Self) -> Self {
        self.each(other, u32::saturating_add)
    }

    fn without(self, other: Self) -> Self {
        self.each(other, u32::saturating_sub)
    }

    fn at_most(self, other: Self) -> Self {
        self.each(other, u32::min)
    }

    fn contains(self, other: Self) -> bool {
        other.without(self) == Self::default()
    }
}

impl Absence {
    /// Whether the hold of an owner's guard is away with this wait, or was lost with it.
    fn has(&self, owner: Owner, since: u64) -> bool {
        self.owner == owner && self.end != Some(End::Returned) && self.covers(since)
    }

    fn covers(&self, since: u64) -> bool {
        since < self.wait && !self.except.iter().any(|range| range.contains(&since))
    }

    /// The guards that it covers, by when they were made.
    fn covered(&self) -> Vec<Range<u64>> {
        let cut = |kept: Vec<Range<u64>>, gap: &Range<u64>| {
            let around = |range: Range<u64>| {
                [range.start..range.end.min(gap.start), range.start.max(gap.end)..range.end]
            };
            kept.into_iter().flat_map(around).filter(|range| !range.is_empty()).collect()
        };
        let all = Range { start: 0, end: self.wait };
        self.except.iter().fold(Vec::from([all]), cut)
    }
}

impl Books {
    fn debt(&mut self, owner: Owner) -> &mut Holds {
        let known = self.debts.iter().position(|debt| debt.0 == owner);
        let index = known.unwrap_or_else(|| {
            self.debts.push((owner, Holds::default()));
            self.debts.len() - 1
        });
        &mut self.debts[index].1
    }

    fn sum(&self, is_its: impl Fn(&Absence) -> bool) -> Holds {
        let its = self.absences.iter().filter(|absence| is_its(absence));
        its.fold(Holds::default(), |sum, absence| sum.and(absence.away))
    }

    /// How many guards of an owner are left whose holds are not in the lock.
    fn guards_away(&mut self, owner: Owner) -> Holds {
        self.sum(|absence| absence.owner == owner).without(*self.debt(owner))
    }

    /// Counts a guard that is dropped while its hold is away. False if it is not away.
    fn count(&mut self, owner: Owner, since: u64, hold: Holds) -> bool {
        if !self.guards_away(owner).contains(hold) {
            return false;
        }
        let mut its = self.absences.iter_mut().filter(|absence| absence.owner == owner);
        if let Some(its) = its.find(|its| its.covers(since) && its.away.contains(hold)) {
            its.away = its.away.without(hold);
            its.dropped = its.dropped.and(hold);
        } else if self.absences.iter().any(|absence| absence.has(owner, since)) {
            let debt = self.debt(owner);
            *debt = debt.and(hold);
        } else {
            return false;
        }
        self.enter(owner);
        true
    }

    /// Counts a guard that is dropped, and whose hold is not in the lock.
    fn owe(&mut self, owner: Owner, hold: Holds) {
        let owners: Vec<Owner> = self.absences.iter().map(|absence| absence.owner).collect();
        let mut debtors = [owner].into_iter().chain(owners);
        if let Some(debtor) = debtors.find(|debtor| self.guards_away(*debtor).contains(hold)) {
            let debt = self.debt(debtor);
            *debt = debt.and(hold);
            self.enter(debtor);
        }
    }

    /// Something was entered of this owner. What it owes beyond what comes back is lost already.
    fn enter(&mut self, owner: Owner) {
        self.entries += 1;
        let coming = self.sum(|absence| absence.owner == owner && absence.end.is_none());
        let mut beyond = self.debt(owner).without(coming);
        for lost in &mut self.absences {
            if lost.owner == owner && lost.end.is_some() {
                let taken = beyond.at_most(lost.away);
                (beyond, lost.away) = (beyond.without(taken), lost.away.without(taken));
            }
        }
        let debt = self.debt(owner);
        *debt = debt.at_most(coming.and(beyond));
        self.debts.retain(|debt| debt.1 != Holds::default());
        self.absences.retain(|absence| absence.end.is_none() || absence.away != Holds::default());
    }
}

impl Ledger {
    constant_unless_modelled! {
        pub(crate) const fn new() -> Self {
            let books = Books { entries: 0, absences: Vec::new(), debts: Vec::new() };
            Self { waits: AtomicU64::new(0), books: Mutex::new(books) }
        }
    }

    /// What a new guard notes.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        // The maker of the guard has the lock, after the owners that have given it away.
        self.waits.load(Ordering::Relaxed)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An owner gives all its holds away, these of its other guards. Returns the number of its
    /// wait.
    fn leave(&self, owner: Owner, away: Holds) -> u64 {
        let mut books = self.books();
        let wait = self.waits.fetch_add(1, Ordering::Relaxed) + 1;
        let is_earlier =
            |other: &&Absence| other.owner == owner && other.end != Some(End::Returned);
        let except = books.absences.iter().filter(is_earlier).flat_map(Absence::covered).collect();
        let dropped = Holds::default();
        books.absences.push(Absence { owner, wait, except, away, dropped, end: None });
        books.enter(owner);
        wait
    }

    /// A wait is over, and its owner has again what it gave away, but for this. Returns which of it
    /// is too much, because guards were dropped meanwhile.
    pub(crate) fn come_back(&self, wait: u64, remaining: Holds) -> Holds {
        self.end(wait, remaining, End::Returned)
    }

    /// A wait was dropped, and its owner has nothing again of what the other guards held.
    pub(crate) fn stay_away(&self, wait: u64, remaining: Holds) {
        self.end(wait, remaining, End::Dropped);
    }

    fn end(&self, wait: u64, remaining: Holds, end: End) -> Holds {
        let mut books = self.books();
        let Some(index) = books.absences.iter().position(|absence| absence.wait == wait) else {
            return Holds::default();
        };
        let absence = books.absences.swap_remove(index);
        let (owner, debt) = (absence.owner, books.debt(absence.owner));
        let paid = absence.away.at_most(*debt);
        *debt = debt.without(paid);
        let due = absence.dropped.and(paid);
        let (away, end) = (remaining.without(due), Some(end));
        books.absences.push(Absence { away, end, ..absence });
        books.enter(owner);
        due.without(remaining)
    }

    /// Counts a guard that is dropped while its hold is away. False if it is not away.
    #[inline]
    pub(crate) fn count(&self, owner: Owner, since: u64, hold: Holds) -> bool {
        since != self.now() && self.books().count(owner, since, hold)
    }

    /// Gives back a hold of a guard that was made then, or of no guard, after it was found not to
    /// be there.
    #[cold]
    pub(crate) fn give_back(
        &self,
        owner: Owner,
        since: Option<u64>,
        hold: Holds,
        release: impl Fn() -> bool,
    ) {
        loop {
            let seen = self.books().entries;
            if release() {
                return;
            }
            let mut books = self.books();
            if books.entries == seen {
                if !since.is_some_and(|since| books.count(owner, since, hold)) {
                    books.owe(owner, hold);
                }
                return;
            }
        }
    }

    /// Whether the hold of a guard is away.
    pub(crate) fn is_away(&self, owner: Owner, since: u64) -> bool {
        since != self.now() && self.books().absences.iter().any(|away| away.has(owner, since))
    }
}

/// What a condition notes of a guard that is waited with.
pub trait Departure {
    /// Whether it is a [`Leaving`].
    const NOTED: bool;

    /// The number of the wait, once it has begun; 0 if waits have none.
    fn wait(&self) -> u64;
}

/// Of a guard whose owner has no others.
impl Departure for () {
    const NOTED: bool = false;

    fn wait(&self) -> u64 {
        0
    }
}

/// A guard that its owner is going to wait with: what a [`Ledger`] has to know in the moment that
/// the lock is given away. Used by its owner's thread only.
#[derive(Debug)]
pub struct Leaving {
    ledger: NonNull<Ledger>,
    owner: Owner,
    /// The holds of the other guards, if the owner gives so much away, as its policy counts it.
    others: fn(u32) -> Holds,
    /// When the guard was made; once the wait has begun, the number of that.
    number: Cell<u64>,
}

impl Departure for Leaving {
    const NOTED: bool = true;

    fn wait(&self) -> u64 {
        self.number.get()
    }
}

impl Leaving {
    pub(crate) fn new(ledger: &Ledger, owner: Owner, since: u64, others: fn(u32) -> Holds) -> Self {
        Self { ledger: NonNull::from(ledger), owner, others, number: Cell::new(since) }
    }

    /// Before the wait has begun: whether the guard's own hold is away already.
    ///
    /// # Safety
    /// The lock that the ledger belongs to is alive.
    pub(crate) unsafe fn is_away(&self) -> bool {
        // SAFETY: passed on from the caller.
        unsafe { self.ledger.as_ref() }.is_away(self.owner, self.number.get())
    }

    /// The owner gives so much away, as its policy counts it: the wait has begun.
    ///
    /// # Safety
    /// As [`is_away`](Self::is_away).
    pub(crate) unsafe fn leave(&self, holds: u32) {
        // SAFETY: passed on from the caller.
        let ledger = unsafe { self.ledger.as_ref() };
        self.number.set(ledger.leave(self.owner, (self.others)(holds)));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// One owner, how often it holds the lock, and its ledger.
    struct ListKind {
        ledger: Ledger,
        owner: Owner,
        holds: Cell<u32>,
    }

    impl ListKind {
        fn new() -> Self {
            let owner = Owner::new(1).unwrap();
            Self { ledger: Ledger::new(), owner, holds: Cell::new(0) }
        }

        fn release(&self) -> bool {
            let left = self.holds.get().checked_sub(1);
            self.holds.set(left.unwrap_or(0));
            left.is_some()
        }

        /// Begins a wait that gives this much away, of the guard that waits and the others.
        fn leave(&self, holds: u32) -> u64 {
            self.holds.set(0);
            self.ledger.leave(self.owner, Holds { reads: 0, writes: holds - 1 })
        }

        /// A wait that has given so much away has it again.
        fn come_back(&self, wait: u64, holds: u32) -> Holds {
            self.holds.set(self.holds.get() + holds);
            self.ledger.come_back(wait, Holds::default())
        }

        /// Gives back a hold of no guard that is known to be away.
        fn give_back(&self, release: impl Fn() -> bool) {
            self.ledger.give_back(self.owner, None, Holds::WRITE, release);
        }
    }

    /// A wait releases what it has too much, and another wait of its owner has just given that
    /// away: the other pays.
    #[test]
    fn what_a_wait_cannot_give_back_is_paid_by_another() {
        let place = ListKind::new();
        let first = place.leave(2);
        assert!(place.ledger.count(place.owner, 0, Holds::WRITE));
        let excess = place.come_back(first, 2);
        assert_eq!(excess, Holds::WRITE);
        let second = place.leave(place.holds.get());
        place.give_back(|| place.release());
        assert_eq!(place.come_back(second, 2), Holds::WRITE);
        place.give_back(|| place.release());
        assert_eq!(place.holds.get(), 1);
        assert!(place.ledger.books().absences.is_empty() && place.ledger.books().debts.is_empty());
    }

    /// A guard finds nothing to release, and the wait that has its hold comes back just then.
    #[test]
    fn a_hold_that_comes_back_in_between_is_released() {
        let place = ListKind::new();
        let wait = place.leave(2);
        let came_back = Cell::new(false);
        place.give_back(|| {
            let released = place.release();
            if !came_back.replace(true) {
                assert_eq!(place.come_back(wait, 2), Holds::default());
            }
            released
        });
        assert_eq!(place.holds.get(), 1, "of the guard that waited");
        assert!(place.ledger.books().absences.is_empty() && place.ledger.books().debts.is_empty());
    }

    /// A guard finds nothing to release, and its owner waits twice: only a wait that has the hold
    /// of another guard to spare pays, whichever comes back first.
    #[test]
    fn a_debt_is_paid_by_a_wait_with_holds_to_spare() {
        for first_comes_first in [true, false] {
            let place = ListKind::new();
            let (first, second) = (place.leave(1), place.leave(2));
            place.give_back(|| place.release());
            let mut waits = [(first, 1, Holds::default()), (second, 2, Holds::WRITE)];
            if !first_comes_first {
                waits.reverse();
            }
            for (wait, holds, excess) in waits {
                assert_eq!(place.come_back(wait, holds), excess);
            }
            place.give_back(|| place.release());
            assert_eq!(place.holds.get(), 2, "of the two guards that waited");
            assert!(place.ledger.books().absences.is_empty());
            assert!(place.ledger.books().debts.is_empty());
        }
    }

    /// What is owed and what is lost are one: neither is left when the guards are gone.
    #[test]
    fn a_debt_beyond_what_comes_back_is_taken_from_what_is_lost() {
        let place = ListKind::new();
        let wait = place.leave(3);
        place.give_back(|| place.release());
        place.ledger.stay_away(wait, Holds { reads: 0, writes: 2 });
        assert_eq!(place.ledger.books().debts, []);
        assert!(place.ledger.is_away(place.owner, 0));
        assert!(place.ledger.count(place.owner, 0, Holds::WRITE));
        assert!(place.ledger.books().absences.is_empty());
    }

    const fn writes(writes: u32) -> Holds {
        Holds { reads: 0, writes }
    }

    /// Two guards were dropped while their holds were away, and one hold fewer came back: that is
    /// the hold of one of them.
    #[test]
    fn a_hold_that_is_missing_is_not_given_back_again() {
        let ListKind { ledger, owner, .. } = ListKind::new();
        let wait = ledger.leave(owner, writes(2));
        assert!(ledger.count(owner, 0, Holds::WRITE) && ledger.count(owner, 0, Holds::WRITE));
        assert_eq!(ledger.come_back(wait, writes(1)), writes(1));
        assert_eq!(ledger.books().absences.len(), 0);
        assert!(!ledger.count(owner, 0, Holds::WRITE), "all its holds are here");
    }

    /// What is noted of a wait whose holds never come back goes with the last of its guards,
    /// whether they are dropped before the wait is over or afterwards.
    #[test]
    fn nothing_is_left_of_a_wait_when_its_last_guard_is_gone() {
        for before in 0..=3 {
            let ListKind { ledger, owner, .. } = ListKind::new();
            let wait = ledger.leave(owner, writes(3));
            assert!((0..before).all(|_| ledger.count(owner, 0, Holds::WRITE)));
            assert_eq!(ledger.come_back(wait, writes(3)), Holds::default());
            assert_eq!(ledger.books().absences.len(), usize::from(before < 3));
            assert!((before..3).all(|_| ledger.count(owner, 0, Holds::WRITE)));
            assert_eq!(ledger.books().absences.len(), 0, "{before} were dropped before");
            assert!(!ledger.count(owner, 0, Holds::WRITE));
        }
    }

    /// Reads and writes are counted apart.
    #[test]
    fn a_guard_is_counted_only_if_a_hold_of_its_kind_is_lost() {
        let ListKind { ledger, owner, .. } = ListKind::new();
        let wait = ledger.leave(owner, Holds::READ);
        assert_eq!(ledger.come_back(wait, Holds::READ), Holds::default());
        assert!(!ledger.count(owner, 0, Holds::WRITE));
        assert!(ledger.count(owner, 0, Holds::READ));
        assert_eq!(ledger.books().absences.len(), 0);
    }
}

//! The timer: one thread, started when first needed, and a hierarchical wheel of entries that live
//! in the requests they belong to. Arming and disarming are O(1) and allocate nothing.
//!
//! The wheel counts milliseconds since the process first asked. Level `n` has 64 slots of 64^n ms;
//! an entry sits on the lowest level on which its time and the present differ, and moves down
//! when the present reaches its slot.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::bounds::Bounds;
use super::cancel::TokenState;
use super::parker::on_sleep;
use super::wait_queue::{Tick, TimedObject};
use super::waiter::WaiterState;
use super::wake::{Wakes, discard, resume};
use crate::primitive::{Condvar, MODELLED, Mutex, MutexGuard, TrackedCell, global, now, time_left};

const LEVELS: usize = 6;
const SLOTS: usize = 64;
const SLOT_BITS: u32 = 6;

/// The instant from which deadlines are counted.
pub(crate) fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(now)
}

/// Nanoseconds since the epoch.
pub(crate) fn nanoseconds(instant: Instant) -> u64 {
    saturating_nanoseconds(instant.saturating_duration_since(epoch()))
}

/// A duration in nanoseconds, at most `u64::MAX` (five centuries, which is never).
pub(crate) fn saturating_nanoseconds(duration: Duration) -> u64 {
    let whole = duration.as_secs().checked_mul(1_000_000_000);
    whole.map_or(u64::MAX, |whole| whole.saturating_add(u64::from(duration.subsec_nanos())))
}

/// The last millisecond that there is.
pub(crate) const LATEST: u64 = u64::MAX >> 16;

/// The first whole millisecond not before this, so that nothing ends early.
fn milliseconds(nanoseconds: u64) -> u64 {
    nanoseconds.div_ceil(1_000_000)
}

/// What an entry belongs to, hence what happens when its time comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first field of a [`Bounds`]: the request times out. Numbered zero.
    Request = 0,
    /// The first field of a [`Watch`]: unclaimed grants are looked at.
    Watch,
    /// The first field of a [`TokenState`]: the token fires.
    Token,
}

/// A place in the wheel. Its fields belong to the thread that holds the timer's lock.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Entry {
    next: TrackedCell<Neighbour>,
    previous: TrackedCell<Neighbour>,
    key: TrackedCell<Key>,
}

/// Written when an entry is put into the wheel, and meaningless before: most requests never are.
type Neighbour = MaybeUninit<Option<NonNull<Entry>>>;

/// When, where in the wheel, and what kind, in one word: `milliseconds << 16 | (slot + 1) << 4 |
/// kind`, with a zero in place of the slot while the entry is not in the wheel.
#[derive(Clone, Copy, Debug)]
struct Key(u64);

impl Key {
    fn new(time: u64, slot: usize, kind: Kind) -> Self {
        Self(time.min(LATEST) << 16 | (slot as u64 + 1) << 4 | kind as u64)
    }

    const fn idle(kind: Kind) -> Self {
        Self(kind as u64)
    }

    fn time(self) -> u64 {
        self.0 >> 16
    }

    fn slot(self) -> Option<usize> {
        ((self.0 >> 4 & 0xfff) as usize).checked_sub(1)
    }

    fn kind(self) -> Kind {
        match self.0 & 0xf {
            0 => Kind::Request,
            1 => Kind::Watch,
            _ => Kind::Token,
        }
    }
}

impl Entry {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            next: TrackedCell::new(Neighbour::uninit()),
            previous: TrackedCell::new(Neighbour::uninit()),
            key: TrackedCell::new(Key::idle(kind)),
        }
    }

    /// The entry of a request that is not queued yet, with a number set aside in it.
    pub(crate) fn with_aside(aside: u64) -> Self {
        let entry = Self::new(Kind::Request);
        entry.set_aside(aside);
        entry
    }

    /// The number set aside.
    pub(crate) fn aside(&self) -> u64 {
        self.key().0
    }

    /// Keeps a number for the owner, who alone knows the entry yet. Zero makes it a request's entry,
    /// ready to be armed.
    pub(crate) fn set_aside(&self, aside: u64) {
        self.set_key(Key(aside));
    }

    fn key(&self) -> Key {
        // SAFETY: only called under the timer's lock, or by an owner who alone knows the entry.
        self.key.look(|key| unsafe { *key })
    }

    fn set_key(&self, key: Key) {
        // SAFETY: as for `key`.
        self.key.look_mut(|own| unsafe { *own = key });
    }
}

/// The watchdog's entry of one contended object.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Watch {
    entry: Entry,
    /// The object itself, kept alive while its entry is in the wheel. Under the timer's lock.
    object: TrackedCell<Option<Arc<dyn TimedObject>>>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { entry: Entry::new(Kind::Watch), object: TrackedCell::new(None) }
    }
}

/// The slots, and the time up to which they have been emptied.
struct Wheel {
    elapsed: u64,
    occupied: [u64; LEVELS],
    slots: [[Option<NonNull<Entry>>; SLOTS]; LEVELS],
    /// When the thread means to look next; `u64::MAX` if it sleeps until told.
    wakes_at: u64,
    /// The number of the thread that acts; zero while there is none.
    thread: u64,
}

// SAFETY: the wheel points to entries that may be touched from any thread that holds its lock.
unsafe impl Send for Wheel {}

impl Wheel {
    const fn new() -> Self {
        Self {
            elapsed: 0,
            occupied: [0; LEVELS],
            slots: [[None; SLOTS]; LEVELS],
            wakes_at: u64::MAX,
            thread: 0,
        }
    }

    /// # Safety
    /// The entry is pinned, not in the wheel, and is removed before its memory is used otherwise.
    unsafe fn insert(&mut self, entry: NonNull<Entry>, time: u64) {
        let time = time.clamp(self.elapsed, LATEST);
        // The highest bit in which the time differs from the present tells the level.
        let differing = 63 - ((time ^ self.elapsed) | 1).leading_zeros();
        let level = ((differing / SLOT_BITS) as usize).min(LEVELS - 1);
        let slot = (time >> (SLOT_BITS * level as u32)) as usize % SLOTS;
        // SAFETY: all entries in the wheel are alive, and the lock makes this the only access.
        unsafe {
            let own = entry.as_ref();
            let kind = own.key().kind();
            own.set_key(Key::new(time, level * SLOTS + slot, kind));
            let head = self.slots[level][slot].replace(entry);
            own.next.look_mut(|next| (*next).write(head));
            own.previous.look_mut(|previous| (*previous).write(None));
            if let Some(head) = head {
                head.as_ref().previous.look_mut(|previous| (*previous).write(Some(entry)));
            }
        }
        self.occupied[level] |= 1 << slot;
    }

    /// Takes an entry out, if it is in.
    ///
    /// # Safety
    /// The entry is alive.
    unsafe fn remove(&mut self, entry: NonNull<Entry>) {
        // SAFETY: all entries in the wheel are alive, and the lock makes this the only access.
        unsafe {
            let own = entry.as_ref();
            let key = own.key();
            let Some(index) = key.slot() else { return };
            own.set_key(Key::idle(key.kind()));
            let next = own.next.look(|next| (*next).assume_init());
            let previous = own.previous.look(|previous| (*previous).assume_init());
            if let Some(next) = next {
                next.as_ref().previous.look_mut(|own| (*own).write(previous));
            }
            match previous {
                Some(previous) => {
                    previous.as_ref().next.look_mut(|own| (*own).write(next));
                }
                None => {
                    let (level, slot) = (index / SLOTS, index % SLOTS);
                    self.slots[level][slot] = next;
                    if next.is_none() {
                        self.occupied[level] &= !(1 << slot);
                    }
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.occupied == [0; LEVELS]
    }

    /// The slot whose time comes next, and that time.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        for level in 0..LEVELS {
            if self.occupied[level] == 0 {
                continue;
            }
            let shift = SLOT_BITS * level as u32;
            let present = (self.elapsed >> shift) % SLOTS as u64;
            let ahead = self.occupied[level].rotate_right(present as u32).trailing_zeros() as u64;
            // On the top level the present slot can hold only what lies a whole turn ahead.
            let ahead = if level == LEVELS - 1 && ahead == 0 {
                let others = self.occupied[level] & !(1 << present);
                match others.rotate_right(present as u32).trailing_zeros() as u64 {
                    64 => SLOTS as u64,
                    nearest => nearest,
                }
            } else {
                ahead
            };
            let time = ((self.elapsed >> shift) + ahead) << shift;
            let slot = (present + ahead) as usize % SLOTS;
            return Some((level, slot, time.max(self.elapsed)));
        }
        None
    }

    /// Takes out one entry whose time has come.
    fn pop(&mut self, now: u64) -> Option<NonNull<Entry>> {
        while let Some((level, slot, time)) = self.next_slot() {
            if time > now {
                break;
            }
            self.elapsed = time;
            let first = self.slots[level][slot]?;
            if level == 0 {
                // SAFETY: entries in the wheel are alive.
                unsafe { self.remove(first) };
                return Some(first);
            }
            // Move the slot's entries down.
            let mut moving = self.slots[level][slot].take();
            self.occupied[level] &= !(1 << slot);
            while let Some(entry) = moving {
                // SAFETY: entries in the wheel are alive, and this one has just been taken out.
                unsafe {
                    let own = entry.as_ref();
                    moving = own.next.look(|next| (*next).assume_init());
                    let key = own.key();
                    own.set_key(Key::idle(key.kind()));
                    self.insert(entry, key.time());
                }
            }
        }
        self.elapsed = self.elapsed.max(now);
        None
    }
}

/// The process's one timer.
pub(crate) struct Timer {
    wheel: Mutex<Wheel>,
    changed: Condvar,
}

global! {
    pub(crate) static TIMER: Timer = Timer { wheel: Mutex::new(Wheel::new()), changed: Condvar::new() };
}

impl Timer {
    fn lock(&self) -> MutexGuard<'_, Wheel> {
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Arms an entry for so many nanoseconds after the epoch.
    ///
    /// # Safety
    /// The entry is pinned, is not in the wheel, and is [removed](Self::remove) before its memory
    /// is used otherwise. If its kind is `Watch`, the object has been stored.
    pub(crate) unsafe fn insert(&'static self, entry: NonNull<Entry>, nanoseconds: u64) {
        let mut wheel = self.lock();
        // SAFETY: passed on from the caller.
        unsafe { self.insert_locked(&mut wheel, entry, nanoseconds) };
    }

    /// Arms an entry for another time, or for the first time.
    ///
    /// # Safety
    /// As for [`insert`](Self::insert), except that it may be in the wheel.
    pub(crate) unsafe fn replace(&'static self, entry: NonNull<Entry>, nanoseconds: u64) {
        let mut wheel = self.lock();
        // SAFETY: passed on from the caller.
        unsafe {
            wheel.remove(entry);
            self.insert_locked(&mut wheel, entry, nanoseconds);
        }
    }

    /// # Safety
    /// As for [`insert`](Self::insert).
    unsafe fn insert_locked(
        &'static self,
        wheel: &mut Wheel,
        entry: NonNull<Entry>,
        nanoseconds: u64,
    ) {
        self.start(wheel);
        let time = milliseconds(nanoseconds);
        // SAFETY: passed on from the caller.
        unsafe { wheel.insert(entry, time) };
        if time < wheel.wakes_at {
            wheel.wakes_at = time;
            self.changed.notify_one();
        }
    }

    /// Starts the thread, unless it runs. In a process that can have no more threads it does not: then
    /// limits act late, once the timer is used again and a thread can be had.
    fn start(&'static self, wheel: &mut Wheel) {
        if wheel.thread == 0 && !MODELLED {
            self.start_number(wheel, 1);
        }
    }

    fn start_number(&'static self, wheel: &mut Wheel, number: u64) {
        let thread = std::thread::Builder::new().name("semaforo-timer".into());
        if thread.spawn(move || self.run(number)).is_ok() {
            wheel.thread = number;
        }
    }

    /// The timer's own thread is going to sleep in a waker that it runs, perhaps until a limit, a token
    /// or the watchdog lets it go: another takes its place.
    fn replace_thread(sleeps: bool) {
        if !sleeps {
            return;
        }
        let timer: &'static Self = &TIMER;
        let mut wheel = timer.lock();
        let next = wheel.thread + 1;
        timer.start_number(&mut wheel, next);
        if wheel.thread == next {
            on_sleep(None);
        }
    }

    /// Disarms an entry. When this returns, nothing that the timer does will touch it.
    ///
    /// # Safety
    /// The entry is alive.
    pub(crate) unsafe fn remove(&'static self, entry: NonNull<Entry>) {
        let mut wheel = self.lock();
        // SAFETY: passed on from the caller.
        unsafe { wheel.remove(entry) };
        if !wheel.is_empty() {
            self.start(&mut wheel);
        }
    }

    /// Looks after an object: its [`TimedObject::tick`] is called after its interval, and again for as long
    /// as it wants.
    pub(crate) fn watch(&'static self, object: Arc<dyn TimedObject>) {
        self.watch_after(object, None);
    }

    /// [`watch`](Self::watch), but the first look comes after so many nanoseconds.
    fn watch_after(&'static self, object: Arc<dyn TimedObject>, after: Option<u64>) {
        let watch = NonNull::from(object.watch());
        let now = nanoseconds(now());
        let mut wheel = self.lock();
        // Asked for under the lock: a thread that changes it takes the lock afterwards.
        let at = now.saturating_add(after.unwrap_or_else(|| object.interval()));
        // SAFETY: the object keeps its `Watch` alive and in place, and is itself kept alive by the
        // reference stored in it until the entry has been taken out of the wheel. The object arms
        // its watch only when it is not armed.
        unsafe {
            watch.as_ref().object.look_mut(|own| *own = Some(object));
            self.insert_locked(&mut wheel, watch.cast(), at);
        }
    }

    /// Looks at an object that is being watched sooner than was meant.
    pub(crate) fn reschedule(&'static self, watch: &Watch, interval: impl FnOnce() -> u64) {
        let now = nanoseconds(now());
        let mut wheel = self.lock();
        let at = now.saturating_add(interval());
        // A look that was meant to come before may: it only notes what is granted.
        if watch.entry.key().slot().is_some() && milliseconds(at) < watch.entry.key().time() {
            let entry = NonNull::from(watch).cast();
            // SAFETY: the entry is in the wheel, hence alive until it is taken out, for which the lock
            // is needed.
            unsafe {
                wheel.remove(entry);
                self.insert_locked(&mut wheel, entry, at);
            }
        }
    }

    fn run(&'static self, number: u64) {
        on_sleep(Some(Self::replace_thread));
        loop {
            while self.act(nanoseconds(now()) / 1_000_000) {}
            let Some((wheel, next)) = self.before_sleeping(number) else { return };
            match next {
                None => drop(self.changed.wait(wheel)),
                Some(time) => {
                    let wait = time_left(epoch() + Duration::from_millis(time));
                    drop(self.changed.wait_timeout(wheel, wait));
                }
            }
        }
    }

    /// Notes until when the thread of this number sleeps: a thread that wants something done earlier wakes
    /// it. None if another has taken its place.
    fn before_sleeping(&self, number: u64) -> Option<(MutexGuard<'_, Wheel>, Option<u64>)> {
        let mut wheel = self.lock();
        if wheel.thread != number {
            return None;
        }
        let next = wheel.next_slot().map(|(_, _, time)| time);
        wheel.wakes_at = next.unwrap_or(u64::MAX);
        Some((wheel, next))
    }

    /// What the thread does in a model, where time passes up to this millisecond and then stands still:
    /// it acts on one entry, as soon as there is one whose time has come.
    #[cfg(all(test, any(loom, shuttle)))]
    pub(crate) fn act_by(&'static self, present: u64) {
        while !self.act(present) {
            let (wheel, next) = self.before_sleeping(0).expect("a model has no other thread");
            if next.is_none_or(|time| time > present) {
                drop(self.changed.wait(wheel));
            }
        }
    }

    /// Acts on one entry whose time comes before this millisecond; false if there is none.
    pub(crate) fn act(&'static self, present: u64) -> bool {
        // Neither a waker's panic nor a policy's may end the timer.
        let acted = catch_unwind(AssertUnwindSafe(|| {
            let mut wheel = self.lock();
            let Some(entry) = wheel.pop(present) else { return false };
            // SAFETY: the entry was in the wheel until now, and the lock is held; the kind says which
            // struct it is the first field of.
            unsafe {
                match entry.as_ref().key().kind() {
                    Kind::Request => self.end(wheel, entry.cast(), present),
                    Kind::Watch => self.tick(wheel, entry.cast()),
                    Kind::Token => {
                        let token = entry.cast::<TokenState>().as_ref().upgrade();
                        drop(wheel);
                        if let Some(token) = token {
                            token.fire(None);
                        }
                    }
                }
            }
            true
        }));
        acted.unwrap_or_else(|panic| {
            // In a model it is the checker's, which has found something.
            if MODELLED {
                resume(panic);
            } else {
                discard(panic);
            }
            true
        })
    }

    /// The time of a request is up. If its object is locked for longer than a moment it is left for
    /// the next millisecond: others wait for the timer, too.
    ///
    /// # Safety
    /// The bounds have just been taken out of the wheel, whose lock is held: their owner cannot go
    /// away before the lock is released.
    unsafe fn end(
        &'static self,
        wheel: MutexGuard<'static, Wheel>,
        bounds: NonNull<Bounds>,
        present: u64,
    ) {
        // SAFETY: alive while the lock is held.
        let Some(object) = (unsafe { bounds.as_ref().object() }) else { return };
        let mut wakes = Wakes::new();
        let mut wheel = Some(wheel);
        // SAFETY: the bounds are alive until the lock is let go. They belong to that object.
        let ended = unsafe {
            object.end(bounds, WaiterState::TimedOut, &mut wakes, &mut || drop(wheel.take()))
        };
        if let (false, Some(wheel)) = (ended, &mut wheel) {
            // SAFETY: as above; the bounds are out of the wheel.
            unsafe { wheel.insert(bounds.cast(), present + 1) };
        }
        drop(wheel);
        object.finish(&mut wakes);
    }

    /// Looks at an object with grants that may be left unclaimed.
    ///
    /// # Safety
    /// The watch has just been taken out of the wheel, whose lock is held.
    unsafe fn tick(&'static self, wheel: MutexGuard<'static, Wheel>, watch: NonNull<Watch>) {
        // SAFETY: the object that is taken out of it keeps the watch alive until then.
        let object = unsafe { watch.as_ref().object.look_mut(|object| (*object).take()) };
        drop(wheel);
        let Some(object) = object else { return };
        let mut wakes = Wakes::new();
        match object.tick(&mut wakes) {
            Tick::Again => self.watch_after(Arc::clone(&object), None),
            Tick::Soon => self.watch_after(Arc::clone(&object), Some(1_000_000)),
            Tick::Enough => {}
        }
        object.finish(&mut wakes);
    }
}

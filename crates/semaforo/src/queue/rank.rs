//! By what items are ranked: a number, or a key of any ordered type, in one word.

use std::any::{Any, TypeId};
use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::wait::wake;

/// What an item is ranked by. Integers are kept as they are; a key of another type lies in a box, and
/// never moves.
///
/// A key is a user's value: it is made before a queue is locked, and dropped after that was unlocked.
/// Only its order is asked in between.
pub(super) struct Rank {
    word: Word,
    is_key: bool,
    /// It owns its key, which is compared in one thread at a time.
    _key: PhantomData<Box<dyn Any + Send>>,
}

/// A rank without its owner: one that has a key is to be made a rank again, once.
#[derive(Clone, Copy)]
pub(super) union Word {
    pub(super) number: u64,
    key: NonNull<Head>,
}

/// What is known of every key.
struct Head {
    /// # Safety
    /// Both are alive, and keys of the same type.
    compare: unsafe fn(NonNull<Head>, NonNull<Head>) -> Ordering,
    /// # Safety
    /// It is alive, and not used again.
    free: unsafe fn(NonNull<Head>),
}

/// A key where it lies.
#[repr(C)]
struct Key<K> {
    head: Head,
    key: K,
}

// SAFETY: its key, if it has one, may be sent.
unsafe impl Send for Rank {}

impl<K: Ord> Key<K> {
    /// An order that panics says that they are equal: the queue is locked, and has to be right
    /// afterwards.
    ///
    /// # Safety
    /// As [`Head::compare`] says, for keys of this type.
    unsafe fn compare(one: NonNull<Head>, other: NonNull<Head>) -> Ordering {
        // SAFETY: passed on from the caller; the head is the first field of the key.
        let (one, other) = unsafe { (one.cast::<Self>().as_ref(), other.cast::<Self>().as_ref()) };
        catch_unwind(AssertUnwindSafe(|| one.key.cmp(&other.key))).unwrap_or_else(|panic| {
            wake::discard_later(panic);
            Ordering::Equal
        })
    }

    /// # Safety
    /// As [`Head::free`] says, for keys of this type.
    unsafe fn free(own: NonNull<Head>) {
        wake::discard_kept();
        // SAFETY: passed on from the caller; made from a box of this type.
        drop(unsafe { Box::from_raw(own.cast::<Self>().as_ptr()) });
    }
}

/// The integers, and how each of them is one in 64 bits that has the same order.
macro_rules! integers {
    ($key:ident: $($integer:ty => $number:expr),* $(,)?) => {
        /// The number that this key is, if it is one.
        fn number_of(key: &dyn Any) -> Option<i64> {
            $(
                if let Some($key) = key.downcast_ref::<$integer>() {
                    return Some($number);
                }
            )*
            None
        }

        /// Whether keys of this type are numbers.
        fn are_numbers<K: 'static>() -> bool {
            let key = TypeId::of::<K>();
            false $(|| key == TypeId::of::<$integer>())*
        }
    };
}

integers! {
    key:
    i64 => *key,
    i32 => i64::from(*key),
    i16 => i64::from(*key),
    i8 => i64::from(*key),
    u32 => i64::from(*key),
    u16 => i64::from(*key),
    u8 => i64::from(*key),
    u64 => (*key ^ 1 << 63) as i64,
    isize => *key as i64,
    usize => (*key as u64 ^ 1 << 63) as i64,
}

impl Rank {
    pub(super) const fn number(number: i64) -> Self {
        Self { word: Word { number: number as u64 }, is_key: false, _key: PhantomData }
    }

    pub(super) fn of<K: Ord + Send + 'static>(key: K) -> Self {
        if let Some(number) = number_of(&key) {
            return Self::number(number);
        }
        wake::discard_kept();
        let head = Head { compare: Key::<K>::compare, free: Key::<K>::free };
        let key = NonNull::from(Box::leak(Box::new(Key { head, key })));
        Self { word: Word { key: key.cast() }, is_key: true, _key: PhantomData }
    }

    /// Whether all keys of this type are ranked by a number.
    pub(super) fn is_number_of<K: 'static>() -> bool {
        are_numbers::<K>()
    }

    /// The number, of a rank that has no key.
    #[inline]
    pub(super) fn as_number(&self) -> Option<i64> {
        if self.is_key {
            return None;
        }
        // SAFETY: the flag says that it is a number.
        Some(unsafe { self.word.number } as i64)
    }

    /// Its word; says whether that owns a key.
    pub(super) fn into_word(self) -> (Word, bool) {
        let own = std::mem::ManuallyDrop::new(self);
        (own.word, own.is_key)
    }

    /// # Safety
    /// Both come from [`into_word`](Self::into_word), which has given them once for each time that this
    /// is called.
    pub(super) unsafe fn from_word(word: Word, is_key: bool) -> Self {
        Self { word, is_key, _key: PhantomData }
    }
}

impl Default for Rank {
    fn default() -> Self {
        Self::number(0)
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        if self.is_key {
            // SAFETY: the key is this one's own.
            unsafe { (self.word.key.as_ref().free)(self.word.key) };
        }
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        // SAFETY: the flags say which it is. All keys of a queue are of one type, and alive.
        unsafe {
            match (self.is_key, other.is_key) {
                (false, false) => (self.word.number as i64).cmp(&(other.word.number as i64)),
                (true, true) => (self.word.key.as_ref().compare)(self.word.key, other.word.key),
                // There is no queue with both.
                (own, theirs) => own.cmp(&theirs),
            }
        }
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rank {}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rank")
    }
}

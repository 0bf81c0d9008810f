//! A doubly linked list of waiters that owns none of them.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::waiter::Waiter;

/// A queue of waiters, linked through themselves.
///
/// Every method needs the lock of the object that the list belongs to, and every waiter on the list
/// must stay where it is until it has been taken off.
#[derive(Debug)]
pub(crate) struct List<A> {
    head: Option<NonNull<Waiter<A>>>,
    tail: Option<NonNull<Waiter<A>>>,
}

/// A waiter's neighbours, written when it joins a list and meaningless before.
pub(crate) type Links<A> = MaybeUninit<Neighbours<A>>;

#[derive(Debug)]
pub(crate) struct Neighbours<A> {
    next: Option<NonNull<Waiter<A>>>,
    previous: Option<NonNull<Waiter<A>>>,
}

impl<A> List<A> {
    pub(crate) const fn new() -> Self {
        Self { head: None, tail: None }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<NonNull<Waiter<A>>> {
        self.head
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<NonNull<Waiter<A>>> {
        self.tail
    }

    /// The waiter behind this one.
    ///
    /// # Safety
    /// `waiter` is on this list, and the object is locked.
    pub(crate) unsafe fn after(&self, waiter: NonNull<Waiter<A>>) -> Option<NonNull<Waiter<A>>> {
        // SAFETY: a waiter on a list is alive, and the lock makes this the only access.
        unsafe { waiter.as_ref().links.look(|links| (*links).assume_init_ref().next) }
    }

    /// The waiter before this one.
    ///
    /// # Safety
    /// `waiter` is on this list, and the object is locked.
    unsafe fn before(&self, waiter: NonNull<Waiter<A>>) -> Option<NonNull<Waiter<A>>> {
        // SAFETY: a waiter on a list is alive, and the lock makes this the only access.
        unsafe { waiter.as_ref().links.look(|links| (*links).assume_init_ref().previous) }
    }

    /// Puts a waiter behind another.
    ///
    /// # Safety
    /// `waiter` is pinned and on no list, `other` is on this one, and the object is locked.
    pub(crate) unsafe fn insert_after(
        &mut self,
        other: NonNull<Waiter<A>>,
        waiter: NonNull<Waiter<A>>,
    ) {
        // SAFETY: as in `push_back`, for both neighbours.
        unsafe {
            let Some(next) = self.after(other) else { return self.push_back(waiter) };
            let links = Neighbours { next: Some(next), previous: Some(other) };
            waiter.as_ref().links.look_mut(|own| (*own).write(links));
            let link = |one: NonNull<Waiter<A>>, change: fn(&mut Neighbours<A>, _)| {
                one.as_ref().links.look_mut(|links| change((*links).assume_init_mut(), waiter));
            };
            link(other, |links, waiter| links.next = Some(waiter));
            link(next, |links, waiter| links.previous = Some(waiter));
        }
    }

    /// Puts a waiter behind the last one who comes before it, or first. Looks from the back.
    ///
    /// # Safety
    /// `waiter` is pinned and on no list, and the object is locked.
    pub(crate) unsafe fn insert(
        &mut self,
        waiter: NonNull<Waiter<A>>,
        comes_before: impl Fn(NonNull<Waiter<A>>) -> bool,
    ) {
        // SAFETY: passed on from the caller.
        unsafe {
            let mut other = self.back();
            while let Some(place) = other.filter(|other| !comes_before(*other)) {
                other = self.before(place);
            }
            match other {
                Some(other) => self.insert_after(other, waiter),
                None => self.push_front(waiter),
            }
        }
    }

    /// # Safety
    /// `waiter` is pinned and on no list, and the object is locked.
    pub(crate) unsafe fn push_back(&mut self, waiter: NonNull<Waiter<A>>) {
        // SAFETY: the new waiter and its neighbour are alive, and the lock makes this the only
        // access to their links.
        unsafe {
            let links = Neighbours { next: None, previous: self.tail };
            waiter.as_ref().links.look_mut(|own| (*own).write(links));
            match self.tail {
                Some(tail) => tail
                    .as_ref()
                    .links
                    .look_mut(|last| (*last).assume_init_mut().next = Some(waiter)),
                None => self.head = Some(waiter),
            }
        }
        self.tail = Some(waiter);
    }

    /// # Safety
    /// `waiter` is pinned and on no list, and the object is locked.
    pub(crate) unsafe fn push_front(&mut self, waiter: NonNull<Waiter<A>>) {
        // SAFETY: as in `push_back`.
        unsafe {
            let links = Neighbours { next: self.head, previous: None };
            waiter.as_ref().links.look_mut(|own| (*own).write(links));
            match self.head {
                Some(head) => head
                    .as_ref()
                    .links
                    .look_mut(|first| (*first).assume_init_mut().previous = Some(waiter)),
                None => self.tail = Some(waiter),
            }
        }
        self.head = Some(waiter);
    }

    /// Takes a waiter off, wherever it stands.
    ///
    /// # Safety
    /// `waiter` is on this list, and the object is locked.
    #[inline]
    pub(crate) unsafe fn remove(&mut self, waiter: NonNull<Waiter<A>>) {
        // SAFETY: the waiter and its neighbours are on this list, hence alive, and the lock makes
        // this the only access to their links.
        unsafe {
            let (next, previous) = waiter.as_ref().links.look(|links| {
                let links = (*links).assume_init_ref();
                (links.next, links.previous)
            });
            match previous {
                Some(previous) => {
                    previous.as_ref().links.look_mut(|links| (*links).assume_init_mut().next = next)
                }
                None => self.head = next,
            }
            match next {
                Some(next) => next
                    .as_ref()
                    .links
                    .look_mut(|links| (*links).assume_init_mut().previous = previous),
                None => self.tail = previous,
            }
        }
    }
}

//! One owner, many times over.

use semaforo::Policy;
use semaforo::policy::{NotOwner, Owned, Owner, STATE_BITS};

use crate::explore::{Model, expelled_for_good, explore, outstanding_grants_can_be_given_back};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OwnedModel(Option<(u64, u32)>);

fn owner(number: u64) -> Owner {
    Owner::new(number).unwrap()
}

impl OwnedModel {
    fn is(number: u64, who: Owner) -> bool {
        owner(number) == who
    }
}

impl Model<Owned> for OwnedModel {
    fn acquire(&self, who: Owner) -> Option<Self> {
        match self.0 {
            None => {
                (1..=3).find(|number| Self::is(*number, who)).map(|number| Self(Some((number, 1))))
            }
            Some((number, holds)) => {
                Self::is(number, who).then_some(Self(Some((number, holds + 1))))
            }
        }
    }
    fn give(&self, who: Owner) -> Option<Self> {
        let (number, holds) = self.0.filter(|(number, _)| Self::is(*number, who))?;
        Some(Self((holds > 1).then_some((number, holds - 1))))
    }
    fn agrees(&self, state: u64) -> bool {
        let holds = self.0.map_or(0, |(_, holds)| holds);
        let who = self.0.map(|(number, _)| owner(number));
        Owned::owner(state) == who && Owned::holds(state) == holds
    }
    fn is_at_the_edge(&self) -> bool {
        self.0.is_some_and(|(_, holds)| holds > 4)
    }
}

#[test]
fn owned_in_every_state() {
    let owners = [1, 2, 3].map(owner);
    let states = explore(Owned, 0, OwnedModel(None), &owners, &owners);
    assert_eq!(states, 1 + 3 * 4);
    outstanding_grants_can_be_given_back(Owned, 0, &owners, &[], &[], 4);
    for who in owners {
        let held = Owned.acquire(0, who).unwrap();
        for other in owners {
            assert_eq!(Owned.overtakes(held, other), who == other);
        }
    }
}

#[test]
fn owners_are_numbers_that_fit() {
    assert!(Owner::new(0).is_none());
    assert!(Owner::new(u64::MAX).is_none());
    assert!(Owner::new(1 << 41).is_none());
    let last = Owner::new((1 << 41) - 1).unwrap();
    let held = Owned.acquire(0, last).unwrap();
    assert_eq!((held >> STATE_BITS, Owned::owner(held)), (0, Some(last)));
    assert_eq!(Owned.release(held, owner(1)), Err(NotOwner));
}

/// The state in which somebody holds as often as one can.
fn held_most_often(who: Owner) -> u64 {
    (0..Owned::MAX_HOLDS).fold(0, |state, _| Owned.acquire(state, who).unwrap())
}

#[test]
fn owned_ends_at_the_most_holds() {
    let (one, two) = (owner(1), owner(2));
    let most = held_most_often(one);
    assert_eq!(Owned::holds(most), Owned::MAX_HOLDS);
    assert_eq!(Owned.acquire(most, one), None);
    assert!(Owned.refuse(most, one).is_some());
    assert!(Owned.refuse(most, two).is_none(), "another only has to wait");
    assert_eq!(Owned::owner(most), Some(one));
    let unwound = (0..Owned::MAX_HOLDS).try_fold(most, |state, _| Owned.release(state, one));
    assert_eq!(unwound, Ok(0));
}

/// A request that waits is never refused: its owner will give something back.
#[test]
fn owned_expels_nobody() {
    let owners = [1, 2].map(owner);
    assert_eq!(Owned.expel(held_most_often(owners[0])), None);
    expelled_for_good(Owned, held_most_often(owners[0]), &owners, &owners, 1);
}

//! A driver may begin with any state: the crate's own policies never panic, whatever it is.

use semaforo::policy::{
    Access, CountDown, CountdownPolicy, Ending, Entry, Exclusive, Exit, Gate, Giving, Lanes,
    Opening, Owned, OwnedReadWrite, Owner, Permits, Phases, ReadWrite, STATE_BITS, Signal,
    SignalPolicy, Step,
};
use semaforo::{Policy, Synchronizer};

use crate::support::Random;

/// States of all kinds: random ones, small ones, ones with few bits, and ones with bits missing.
fn states() -> impl Iterator<Item = u64> {
    let mut random = Random::new(7);
    let all = (1_u64 << STATE_BITS) - 1;
    let mut number =
        move || u64::from(random.below(1 << 30)) << 31 | u64::from(random.below(1 << 31));
    let random = std::iter::repeat_with(move || number() & all).take(2000);
    let bits = (0..STATE_BITS).flat_map(move |bit| {
        (0..STATE_BITS).flat_map(move |other| {
            let some = 1 << bit | 1 << other;
            [some, all & !some, (1 << bit) - 1, all & !((1 << bit) - 1)]
        })
    });
    random.chain(bits).chain(0..300).chain([all])
}

/// Calls every function of a policy, in every state, with everything that can be asked and given.
fn every_function<P: Policy>(policy: P, asks: &[P::Ask], gives: &[P::Give]) {
    for state in states() {
        let lanes = (0..16).map(Lanes::from_bits);
        for lanes in lanes {
            policy.next_lane(state, None, lanes);
            for give in gives {
                policy.next_lane(state, Some(*give), lanes);
            }
        }
        policy.expel(state);
        policy.barges(state);
        for ask in asks {
            policy.acquire(state, *ask);
            policy.refuse(state, *ask);
            policy.overtakes(state, *ask);
            policy.lane(*ask);
            policy.undo(*ask);
            policy.give_up(state, *ask);
        }
        for give in gives {
            let _ = policy.release(state, *give);
        }
    }
}

#[test]
fn no_policy_panics_in_any_state() {
    let numbers = [0, 1, 2, 4, 5, 100, u32::MAX / 2, u32::MAX];
    let giving = |give: fn(u32) -> Giving| numbers.map(give);
    let mut gives =
        [Giving::Return, Giving::Add, Giving::Forget, Giving::Reduce].map(giving).concat();
    gives.push(Giving::Close);
    for maximum in [0, 1, 4, Permits::MAX] {
        for barging in [false, true] {
            every_function(Permits::new(maximum, barging), &numbers, &gives);
        }
    }
    every_function(Exclusive, &[()], &[()]);
    every_function(Gate, &[()], &[Opening::Open, Opening::Shut]);
    every_function(SignalPolicy, &[()], &[Signal::Set, Signal::Reset]);
    let counts = [CountDown::By, CountDown::Add, CountDown::Reset].map(|count| numbers.map(count));
    every_function(CountdownPolicy, &[()], &[counts.concat(), vec![CountDown::One]].concat());
    let access = [Access::Read, Access::Write];
    let endings = [Ending::Read, Ending::Write, Ending::Downgrade, Ending::Upgrade];
    every_function(ReadWrite, &access, &endings);
    let owners = [1, 2, (1 << 41) - 1].map(|number| Owner::new(number).unwrap());
    every_function(Owned, &owners, &owners);
    let entries = owners.map(|owner| [Entry::Read(owner), Entry::Write(owner)]).concat();
    let exits = owners.map(|owner| {
        let exits = [Exit::Read, Exit::Write, Exit::Downgrade, Exit::Upgrade, Exit::ReadAgain];
        exits.map(|exit| exit(owner))
    });
    every_function(OwnedReadWrite, &entries, &exits.concat());
    let steps = [
        &numbers.map(Step::Register)[..],
        &[Step::Arrive, Step::ArriveAndDeregister, Step::Terminate],
        &[Step::Advance { terminate: false }, Step::Advance { terminate: true }],
    ];
    for hooked in [false, true] {
        every_function(Phases::new(hooked), &numbers, &steps.concat());
    }
}

/// More than the maximum: nothing can be added, and what there is can be had.
#[test]
fn permits_that_begin_above_their_maximum() {
    let permits = Synchronizer::new(Permits::new(4, false), 100);
    let refused = permits.release(Giving::Add(1)).unwrap_err();
    assert_eq!((refused.released, refused.room), (1, 0));
    let held = permits.acquire(3).wait().unwrap();
    assert_eq!(permits.state() & ((1 << 30) - 1), 97);
    drop(held);
    assert_eq!(permits.state(), 100);
}

/// Fewer parties than have yet to arrive: none of them can.
#[test]
fn phases_that_begin_with_too_few_parties() {
    let phases = Synchronizer::new(Phases::new(false), 1);
    phases.release(Step::ArriveAndDeregister).unwrap_err();
    phases.release(Step::Arrive).unwrap_err();
    assert_eq!(phases.state(), 1);
}

//! Visiting every state that can be reached, and checking the laws of `Policy` on the way.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

use semaforo::Policy;
use semaforo::policy::STATE_BITS;

/// What a policy ought to do, in other words.
pub(crate) trait Model<P: Policy>: Clone + Eq + Hash + Debug {
    /// After the ask is granted; nothing if it has to wait.
    fn acquire(&self, ask: P::Ask) -> Option<Self>;
    /// After the give; nothing if that is misuse.
    fn give(&self, give: P::Give) -> Option<Self>;
    /// Whether the policy's state says the same.
    fn agrees(&self, state: u64) -> bool;
    /// Whether an ask can never be granted.
    fn refuses(&self, ask: P::Ask) -> bool {
        let _ = ask;
        false
    }
    /// Where exploring stops.
    fn is_at_the_edge(&self) -> bool {
        false
    }
}

/// Visits every state that can be reached, and checks the laws on the way. Returns how many.
pub(crate) fn explore<P, M>(
    policy: P,
    state: u64,
    model: M,
    asks: &[P::Ask],
    gives: &[P::Give],
) -> usize
where
    P: Policy<Ask: Debug, Give: Debug, Misuse: Debug>,
    M: Model<P>,
{
    let mut seen = HashSet::from([(state, model.clone())]);
    let mut frontier = vec![(state, model)];
    while let Some((state, model)) = frontier.pop() {
        assert!(model.agrees(state), "{model:?} is not {state:#x}");
        assert_eq!(state >> STATE_BITS, 0, "{state:#x} does not fit");
        assert_eq!(policy.barges(state), policy.barges(state));
        let mut next = Vec::new();
        for ask in asks.iter().copied() {
            let granted = policy.acquire(state, ask);
            assert_eq!(granted, policy.acquire(state, ask), "not pure: {ask:?}");
            let expected = model.acquire(ask);
            assert_eq!(granted.is_some(), expected.is_some(), "{ask:?} of {model:?}");
            assert!(policy.lane(ask) < P::LANES);
            let refused = policy.refuse(state, ask).is_some();
            if granted.is_none() {
                assert_eq!(refused, model.refuses(ask), "{ask:?} of {model:?}");
            }
            if let (Some(granted), Some(expected)) = (granted, expected) {
                if let Some(give) = policy.undo(ask) {
                    let undone = policy.release(granted, give).expect("a grant can be given back");
                    assert_eq!(undone, state, "{ask:?} of {model:?}");
                } else {
                    assert_eq!(granted, state, "what is final uses nothing up");
                }
                next.push((granted, expected));
            }
        }
        for give in gives.iter().copied() {
            let given = policy.release(state, give);
            let expected = model.give(give);
            assert_eq!(given.is_ok(), expected.is_some(), "{give:?} to {model:?}");
            if let (Ok(given), Some(expected)) = (given, expected) {
                next.push((given, expected));
            }
        }
        for (state, model) in next {
            if !model.is_at_the_edge() && seen.insert((state, model.clone())) {
                frontier.push((state, model));
            }
        }
    }
    seen.len()
}

/// Law: once everyone is expelled, everyone is from then on, and newcomers are refused.
pub(crate) fn expelled_for_good<P>(
    policy: P,
    state: u64,
    asks: &[P::Ask],
    gives: &[P::Give],
    depth: u32,
) where
    P: Policy<Ask: Debug, Give: Debug>,
{
    let expelled = policy.expel(state).is_some();
    for ask in asks.iter().copied() {
        let turned_away =
            policy.acquire(state, ask).is_some() || policy.refuse(state, ask).is_some();
        assert!(!expelled || turned_away, "{ask:?} would wait in {state:#x}, where nobody may");
    }
    if depth == 0 {
        return;
    }
    let acquired = asks.iter().filter_map(|ask| policy.acquire(state, *ask));
    let given = gives.iter().filter_map(|give| policy.release(state, *give).ok());
    for next in acquired.chain(given) {
        let still = policy.expel(next).is_some();
        assert!(!expelled || still, "expelled in {state:#x}, but not in {next:#x}");
        expelled_for_good(policy, next, asks, gives, depth - 1);
    }
}

/// A grant that its holder changes: before, how, and after, if anything is left.
type Conversion<P> = (<P as Policy>::Ask, <P as Policy>::Give, Option<<P as Policy>::Ask>);

/// Law: a grant can be given back also after other transitions. Visits every state together with the
/// grants that are out; `convert` says how holders change their grants.
pub(crate) fn outstanding_grants_can_be_given_back<P>(
    policy: P,
    state: u64,
    asks: &[P::Ask],
    third_parties: &[P::Give],
    convert: &[Conversion<P>],
    most: usize,
) -> usize
where
    P: Policy<Ask: Debug + PartialEq, Misuse: Debug>,
{
    let index = |ask: P::Ask| asks.iter().position(|other| *other == ask).unwrap();
    let mut seen = HashSet::from([(state, Vec::<usize>::new())]);
    let mut frontier: Vec<_> = seen.iter().cloned().collect();
    while let Some((state, out)) = frontier.pop() {
        let mut next = Vec::new();
        for (place, ask) in out.iter().map(|index| asks[*index]).enumerate() {
            let without = || {
                let mut out = out.clone();
                out.remove(place);
                out
            };
            let give =
                policy.undo(ask).expect("this is about policies whose grants use something up");
            let undone = policy.release(state, give).expect("a grant can always be given back");
            next.push((undone, without()));
            for (_, give, after) in convert.iter().filter(|(before, ..)| *before == ask) {
                if let Ok(changed) = policy.release(state, *give) {
                    let mut out = without();
                    out.extend(after.map(index));
                    next.push((changed, out));
                }
            }
        }
        if out.len() < most {
            for ask in asks.iter().copied() {
                let granted = policy.acquire(state, ask);
                next.extend(granted.map(|granted| {
                    let mut out = out.clone();
                    out.push(index(ask));
                    (granted, out)
                }));
            }
        }
        let given = third_parties.iter().filter_map(|give| policy.release(state, *give).ok());
        next.extend(given.map(|given| (given, out.clone())));
        for (state, mut out) in next {
            out.sort_unstable();
            if seen.insert((state, out.clone())) {
                frontier.push((state, out));
            }
        }
    }
    seen.len()
}

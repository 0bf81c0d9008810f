//! What opens and shuts: counts, gates and signals; and the sets of lanes.

use semaforo::Policy;
use semaforo::policy::{
    CountDown, CountError, CountdownPolicy, Gate, Lanes, MAX_LANES, Opening, Signal, SignalPolicy,
};

use crate::explore::{Model, explore, outstanding_grants_can_be_given_back};

impl Model<CountdownPolicy> for u64 {
    fn acquire(&self, (): ()) -> Option<Self> {
        (*self == 0).then_some(0)
    }
    fn give(&self, change: CountDown) -> Option<Self> {
        let most = u64::from(u32::MAX);
        match change {
            CountDown::One => Some(self.saturating_sub(1)),
            CountDown::By(count) if count > 0 => self.checked_sub(count.into()),
            CountDown::Add(count) if count > 0 && *self > 0 => {
                Some(self + u64::from(count)).filter(|sum| *sum <= most)
            }
            CountDown::Reset(count) => Some(count.into()),
            CountDown::By(_) | CountDown::Add(_) => None,
        }
    }
    fn agrees(&self, state: u64) -> bool {
        state == *self
    }
    fn is_at_the_edge(&self) -> bool {
        (6..u64::from(u32::MAX) - 6).contains(self)
    }
}

#[test]
fn counting_in_every_state() {
    let mut changes = vec![CountDown::One, CountDown::Reset(u32::MAX)];
    for count in (0..=5).chain([u32::MAX - 1, u32::MAX]) {
        changes.extend([CountDown::By(count), CountDown::Add(count), CountDown::Reset(count)]);
    }
    assert!(explore(CountdownPolicy, 2, 2, &[()], &changes) >= 12);
    assert_eq!(
        CountdownPolicy.release(1, CountDown::By(2)),
        Err(CountError::TooMany { counted: 2, left: 1 })
    );
    assert_eq!(CountdownPolicy.release(1, CountDown::By(0)), Err(CountError::Zero));
    assert_eq!(CountdownPolicy.release(0, CountDown::Add(1)), Err(CountError::Open));
    assert_eq!(CountdownPolicy.release(1, CountDown::Add(u32::MAX)), Err(CountError::Overflow));
}

impl Model<Gate> for bool {
    fn acquire(&self, (): ()) -> Option<Self> {
        self.then_some(true)
    }
    fn give(&self, opening: Opening) -> Option<Self> {
        Some(opening == Opening::Open)
    }
    fn agrees(&self, state: u64) -> bool {
        state == u64::from(*self)
    }
}

#[test]
fn gate_in_every_state() {
    assert_eq!(explore(Gate, 0, false, &[()], &[Opening::Open, Opening::Shut]), 2);
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Stored(bool);

impl Model<SignalPolicy> for Stored {
    fn acquire(&self, (): ()) -> Option<Self> {
        self.0.then_some(Self(false))
    }
    fn give(&self, signal: Signal) -> Option<Self> {
        Some(Self(signal == Signal::Set))
    }
    fn agrees(&self, state: u64) -> bool {
        state == u64::from(self.0)
    }
}

#[test]
fn signalling_in_every_state() {
    let signals = [Signal::Set, Signal::Reset];
    assert_eq!(explore(SignalPolicy, 0, Stored(false), &[()], &signals), 2);
    outstanding_grants_can_be_given_back(SignalPolicy, 0, &[()], &signals, &[], 3);
}

#[test]
fn lanes_are_a_set() {
    assert_eq!(Lanes::from_bits(0).first(), 0);
    for bits in 1..16_u8 {
        let lanes = Lanes::from_bits(bits);
        let members: Vec<_> = (0..MAX_LANES).filter(|lane| lanes.contains(*lane)).collect();
        assert_eq!(members.len() as u32, bits.count_ones());
        assert_eq!(lanes.first(), members[0]);
        assert!(!lanes.contains(MAX_LANES) && !lanes.contains(usize::MAX));
    }
}

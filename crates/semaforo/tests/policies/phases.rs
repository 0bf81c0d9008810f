//! Parties that go from phase to phase.

use semaforo::Policy;
use semaforo::policy::{PhaserError, Phases, Step};

use crate::explore::{Model, explore};

/// Who is registered, and who of them has yet to arrive, in words of their own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct PhaseModel {
    hooked: bool,
    phase: u32,
    arrived: u32,
    yet_to_arrive: u32,
    /// Registered while the hook was being asked.
    expected_next: u32,
    asking: bool,
    terminated: bool,
}

/// Where exploring stops.
const PARTIES: u32 = 3;
const PHASES: u32 = 3;

impl PhaseModel {
    fn new(hooked: bool, parties: u32, phase: u32) -> Self {
        Self {
            hooked,
            phase,
            arrived: 0,
            yet_to_arrive: parties,
            expected_next: 0,
            asking: false,
            terminated: false,
        }
    }

    fn parties(&self) -> u32 {
        self.arrived + self.yet_to_arrive + self.expected_next
    }

    fn next_phase(&self) -> Self {
        let next = if self.phase == Phases::MAX_PHASE { 0 } else { self.phase + 1 };
        Self::new(self.hooked, self.parties(), next)
    }

    /// Where a party is expected that registers now.
    fn registering_phase(&self) -> u32 {
        if self.asking { self.next_phase().phase } else { self.phase }
    }

    fn arrive(&self, stays: bool) -> Option<Self> {
        let mut next = self.clone();
        next.yet_to_arrive = next.yet_to_arrive.checked_sub(1)?;
        next.arrived += u32::from(stays);
        if next.yet_to_arrive > 0 {
            return Some(next);
        }
        if next.hooked {
            next.asking = true;
            return Some(next);
        }
        if next.parties() == 0 {
            next.terminated = true;
            return Some(next);
        }
        Some(next.next_phase())
    }
}

impl Model<Phases> for PhaseModel {
    fn acquire(&self, phase: u32) -> Option<Self> {
        (self.phase != phase || self.terminated).then(|| self.clone())
    }

    fn give(&self, step: Step) -> Option<Self> {
        if self.terminated {
            return None;
        }
        let mut next = self.clone();
        match step {
            Step::Register(more) => {
                if u64::from(self.parties()) + u64::from(more) > u64::from(Phases::MAX_PARTIES) {
                    return None;
                }
                if self.asking {
                    next.expected_next += more;
                } else {
                    next.yet_to_arrive += more;
                }
                Some(next)
            }
            Step::Arrive => self.arrive(true),
            Step::ArriveAndDeregister => self.arrive(false),
            Step::Advance { terminate: false } => Some(self.next_phase()),
            Step::Advance { terminate: true } | Step::Terminate => {
                next.terminated = true;
                Some(next)
            }
        }
    }

    fn agrees(&self, state: u64) -> bool {
        Phases::phase(state) == self.phase
            && Phases::parties(state) == self.parties()
            && Phases::unarrived(state) == self.yet_to_arrive
            && Phases::is_advancing(state) == self.asking
            && Phases::is_terminated(state) == self.terminated
            && (self.terminated || Phases::expected(state) == self.registering_phase())
    }

    fn is_at_the_edge(&self) -> bool {
        let many = (PARTIES + 1..Phases::MAX_PARTIES - PARTIES).contains(&self.parties());
        let arriving = self.arrived > PARTIES && self.yet_to_arrive > PARTIES;
        many || arriving || (PHASES..Phases::MAX_PHASE).contains(&self.phase)
    }
}

/// Steps that users can make; the hook's answer only while it is being asked.
fn steps() -> Vec<Step> {
    let mut steps = vec![
        Step::Arrive,
        Step::ArriveAndDeregister,
        Step::Advance { terminate: false },
        Step::Advance { terminate: true },
        Step::Terminate,
    ];
    let counts = [0, 1, 2, Phases::MAX_PARTIES - 1, Phases::MAX_PARTIES, u32::MAX];
    steps.extend(counts.map(Step::Register));
    steps
}

#[test]
fn phases_in_every_state() {
    let asks = [0, 1, 2, Phases::MAX_PHASE, Phases::MAX_PHASE + 1, u32::MAX];
    for hooked in [false, true] {
        for (parties, phase) in [(0, 0), (2, 0), (2, Phases::MAX_PHASE), (Phases::MAX_PARTIES, 0)] {
            let model = PhaseModel::new(hooked, parties, phase);
            let initial = Phases::initial(parties, phase);
            let states = explore(Phases::new(hooked), initial, model, &asks, &steps());
            assert!(states > 20, "{states}");
        }
    }
}

/// The reasons, which the model does not know.
#[test]
fn phases_say_why_not() {
    let plain = Phases::new(false);
    let none = Phases::initial(0, 0);
    assert_eq!(plain.release(none, Step::Arrive), Err(PhaserError::NotRegistered));
    assert_eq!(plain.release(none, Step::ArriveAndDeregister), Err(PhaserError::NotRegistered));
    let all = Phases::initial(Phases::MAX_PARTIES, 0);
    assert_eq!(plain.release(all, Step::Register(1)), Err(PhaserError::TooManyParties));
    let over = plain.release(all, Step::Terminate).unwrap();
    for step in steps() {
        assert_eq!(plain.release(over, step), Err(PhaserError::Terminated));
    }
    let hooked = Phases::new(true);
    let asking = hooked.release(Phases::initial(1, 0), Step::Arrive).unwrap();
    assert_eq!(hooked.release(asking, Step::Arrive), Err(PhaserError::Advancing));
    assert_eq!(hooked.release(asking, Step::ArriveAndDeregister), Err(PhaserError::Advancing));
}

/// Nobody who waits uses anything up, and nobody waits for another who waits.
#[test]
fn phases_keep_no_order() {
    let plain = Phases::new(false);
    for state in [Phases::initial(0, 0), Phases::initial(2, 7)] {
        for ask in [0, 7, u32::MAX] {
            assert!(plain.undo(ask).is_none() && plain.overtakes(state, ask));
            assert!(plain.refuse(state, ask).is_none() && plain.expel(state).is_none());
        }
    }
}

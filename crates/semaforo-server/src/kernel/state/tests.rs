use proptest::prelude::*;

use super::*;
use crate::kernel::event::tests::any_event;
use crate::kernel::{Kernel, Limits, Output};

fn dump(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    let dumped = state.dump(&mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    assert!(dumped.is_ok());
    bytes
}

/// Whatever could be folded can be dumped, folded again, and used.
fn check(state: State) {
    let bytes = dump(&state);
    let mut again = State::default();
    assert_eq!(again.apply_all(&bytes), Ok(()));
    assert_eq!(dump(&again), bytes);
    let mut kernel = Kernel::new(state, Limits::default(), 1_000, 1);
    let mut out = Output::default();
    kernel.tick(2_000, &mut out);
    kernel.tick(u64::MAX, &mut out);
    let mut again = State::default();
    assert_eq!(again.apply_all(&bytes), Ok(()));
    assert_eq!(again.apply_all(&out.events), Ok(()));
    assert_eq!(dump(&again), dump(kernel.state()));
    assert_eq!(kernel.state().session_count(), 0);
}

/// Beginnings that make it likely that what follows fits.
fn beginning() -> Vec<Event<'static>> {
    let queue = |capacity| Settings::Queue { capacity };
    vec![
        Event::FencesReserved { below: 1000 },
        Event::SessionOpened { session: SessionSlot(0), id: SessionId(10), ttl: 500, label: "" },
        Event::SessionOpened { session: SessionSlot(1), id: SessionId(11), ttl: 500, label: "" },
        Event::Created { object: ObjectId(0), name: "a", settings: queue(2), next: 1 },
        Event::Created {
            object: ObjectId(1),
            name: "a",
            settings: Settings::Semaphore { permits: 3 },
            next: 1,
        },
        Event::Created {
            object: ObjectId(2),
            name: "a",
            settings: Settings::Latch { count: 3 },
            next: 1,
        },
        Event::Created {
            object: ObjectId(3),
            name: "b",
            settings: Settings::OpenSemaphore { permits: 3, initial: 1 },
            next: 1,
        },
        Event::Put {
            queue: ObjectId(0),
            number: 1,
            priority: 0,
            due: 0,
            deliveries: 0,
            payload: b"1",
        },
        Event::Put {
            queue: ObjectId(0),
            number: 2,
            priority: 1,
            due: 5,
            deliveries: 0,
            payload: b"22",
        },
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    /// Each is applied or refused, in every order, also after one that was refused: nothing panics.
    #[test]
    fn events_that_contradict_the_state_are_refused(
        prepared in any::<bool>(),
        events in prop::collection::vec(any_event(), 1..60),
    ) {
        let mut state = State::default();
        let beginning = if prepared { beginning() } else { Vec::new() };
        for event in beginning {
            prop_assert_eq!(state.apply(&event), Ok(()));
        }
        // A journal ends at the first that is refused.
        let mut good = State::default();
        prop_assert_eq!(good.apply_all(&dump(&state)), Ok(()));
        let mut is_good = true;
        for event in &events {
            if state.apply(event).is_err() {
                is_good = false;
            } else if is_good {
                prop_assert_eq!(good.apply(event), Ok(()));
            }
        }
        dump(&state);
        check(good);
    }

    #[test]
    fn any_bytes_are_folded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
        let mut state = State::default();
        if state.apply_all(&bytes).is_ok() {
            check(state);
        }
    }

    /// A journal in which a byte was changed, although its checksum says otherwise.
    #[test]
    fn a_changed_byte_is_folded_or_refused(at in any::<prop::sample::Index>(), by in 1..=255_u8) {
        let mut bytes = Vec::new();
        for event in beginning() {
            event.encode(&mut bytes);
        }
        let grants = [
            Event::Granted { session: SessionSlot(0), fence: 7, kind: Kind::Semaphore, name: "a", mode: HoldMode::Permits(2) },
            Event::Granted { session: SessionSlot(1), fence: 8, kind: Kind::ReadWriteLock, name: "r", mode: HoldMode::Write },
            Event::Taken { queue: ObjectId(0), number: 1, priority: 0, by: Some(SessionSlot(1)) },
            Event::Resized { object: ObjectId(1), permits: 1 },
            Event::Counted { object: ObjectId(3), count: 2 },
            Event::Released { fence: 7, permits: 1 },
            Event::Converted { fence: 8, into: 8, mode: HoldMode::Read },
            Event::Returned { queue: ObjectId(0), number: 1, due: Some(99) },
            Event::Delayed { queue: ObjectId(0), number: 2, priority: 1, due: 99, deliveries: 1 },
            Event::NumbersUsed { queue: ObjectId(0), below: 9 },
            Event::NumbersRetired { below: 9 },
            Event::SessionEnded { session: SessionSlot(1) },
        ];
        for event in grants {
            event.encode(&mut bytes);
        }
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        let mut state = State::default();
        if state.apply_all(&bytes).is_ok() {
            check(state);
        }
    }
}

#[test]
fn nonsense_is_refused_one_by_one() {
    let reserve = Event::FencesReserved { below: 100 };
    let granted = |fence, kind, name, mode| Event::Granted {
        session: SessionSlot(0),
        fence,
        kind,
        name,
        mode,
    };
    let created = |object, settings, next| Event::Created {
        object: ObjectId(object),
        name: "c",
        settings,
        next,
    };
    let put = |number, priority| Event::Put {
        queue: ObjectId(0),
        number,
        priority,
        due: 0,
        deliveries: 0,
        payload: b"",
    };
    let lock = granted(1, Kind::Lock, "l", HoldMode::Permits(1));
    let kept = |seq| Event::OutcomeKept {
        session: SessionSlot(0),
        seq,
        digest: 0,
        answer: crate::kernel::Answer::done(),
    };
    let known = |upto| Event::OutcomesAcknowledged { session: SessionSlot(0), upto };
    let cases: Vec<Vec<Event<'_>>> = vec![
        vec![Event::FencesReserved { below: 999 }],
        vec![Event::FencesReserved { below: MAX_FENCE + 1 }],
        vec![granted(5000, Kind::Lock, "l", HoldMode::Permits(1))],
        vec![granted(1, Kind::Lock, "l", HoldMode::Permits(2))],
        vec![granted(1, Kind::Lock, "l", HoldMode::Read)],
        vec![granted(1, Kind::ReadWriteLock, "l", HoldMode::Permits(1))],
        vec![granted(1, Kind::Semaphore, "a", HoldMode::Permits(4))],
        vec![granted(1, Kind::Semaphore, "missing", HoldMode::Permits(1))],
        vec![granted(1, Kind::Latch, "a", HoldMode::Permits(1))],
        vec![lock.clone(), granted(2, Kind::Lock, "l", HoldMode::Permits(1))],
        vec![lock.clone(), granted(1, Kind::Lock, "other", HoldMode::Permits(1))],
        vec![lock.clone(), Event::Released { fence: 1, permits: 2 }],
        vec![lock.clone(), Event::Converted { fence: 1, into: 2, mode: HoldMode::Read }],
        vec![Event::Released { fence: 1, permits: 0 }],
        vec![created(1 << 31, Settings::Latch { count: 1 }, 0)],
        vec![created(1 << 30, Settings::Latch { count: 1 }, 0)],
        vec![created(0, Settings::Latch { count: 1 }, 0)],
        vec![created(7, Settings::Semaphore { permits: 0 }, 0)],
        vec![created(7, Settings::Semaphore { permits: u32::MAX }, 0)],
        vec![created(7, Settings::OpenSemaphore { permits: 0, initial: 0 }, 0)],
        vec![created(7, Settings::OpenSemaphore { permits: 2, initial: 3 }, 0)],
        vec![created(7, Settings::OpenSemaphore { permits: u32::MAX, initial: 0 }, 0)],
        vec![granted(1, Kind::Semaphore, "b", HoldMode::Permits(1))],
        vec![Event::Counted { object: ObjectId(3), count: 4 }],
        vec![Event::Resized { object: ObjectId(1), permits: 0 }],
        vec![Event::Resized { object: ObjectId(3), permits: u32::MAX }],
        vec![Event::Resized { object: ObjectId(0), permits: 1 }],
        vec![Event::Resized { object: ObjectId(2), permits: 1 }],
        vec![Event::Resized { object: ObjectId(9), permits: 1 }],
        vec![created(7, Settings::Queue { capacity: 0 }, u64::MAX)],
        vec![lock, Event::Deleted { object: ObjectId(1 << 31) }],
        vec![Event::Deleted { object: ObjectId(9) }],
        vec![Event::Counted { object: ObjectId(0), count: 0 }],
        vec![Event::Counted { object: ObjectId(1), count: 0 }],
        vec![Event::Counted { object: ObjectId(2), count: 1 << 32 }],
        vec![put(1, 0)],
        vec![put(u64::MAX, 0)],
        vec![Event::Taken { queue: ObjectId(0), number: 1, priority: 1, by: None }],
        vec![Event::Taken { queue: ObjectId(0), number: 1, priority: 0, by: Some(SessionSlot(9)) }],
        vec![Event::Acknowledged { queue: ObjectId(0), number: 1 }],
        vec![Event::Returned { queue: ObjectId(1), number: 1, due: None }],
        vec![Event::Delayed { queue: ObjectId(0), number: 1, priority: 1, due: 9, deliveries: 0 }],
        vec![Event::Delayed { queue: ObjectId(0), number: 3, priority: 0, due: 9, deliveries: 0 }],
        vec![Event::Delayed { queue: ObjectId(1), number: 1, priority: 0, due: 9, deliveries: 0 }],
        vec![Event::NumbersUsed { queue: ObjectId(0), below: 2 }],
        vec![Event::NumbersUsed { queue: ObjectId(0), below: u64::MAX }],
        vec![Event::NumbersUsed { queue: ObjectId(1), below: 9 }],
        vec![Event::NumbersRetired { below: u64::MAX }],
        vec![Event::NumbersRetired { below: 9 }, Event::NumbersRetired { below: 8 }],
        vec![Event::BarrierTripped { name: "b" }],
        vec![Event::BarrierOpened { name: "b", parties: 0, generation: 1 }],
        vec![Event::SessionOpened {
            session: SessionSlot(2),
            id: SessionId(10),
            ttl: 1,
            label: "",
        }],
        vec![Event::SessionEnded { session: SessionSlot(2) }],
        vec![kept(1), kept(1)],
        vec![known(2), kept(2)],
        vec![known(2), known(2)],
    ];
    for case in cases {
        let mut state = State::default();
        for event in beginning() {
            assert_eq!(state.apply(&event), Ok(()));
        }
        let (last, before) = case.split_last().expect("there is one");
        for event in before {
            assert_eq!(state.apply(event), Ok(()), "{event:?}");
        }
        assert!(state.apply(last).is_err(), "{last:?}");
    }
    assert_eq!(State::default().apply(&reserve), Ok(()));
}

/// Two messages of one number cannot be told apart, whatever their priorities.
#[test]
fn a_number_that_is_there_is_refused_in_every_lane() {
    let mut bytes = Vec::new();
    for event in beginning() {
        event.encode(&mut bytes);
    }
    let put = |number, priority, due| Event::Put {
        queue: ObjectId(0),
        number,
        priority,
        due,
        deliveries: 0,
        payload: b"",
    };
    for (number, priority, due) in [(1, -1, 1), (1, -1, 0), (1, 0, 0), (2, 7, 0), (2, 1, 5)] {
        let mut state = State::default();
        assert_eq!(state.apply_all(&bytes), Ok(()));
        assert!(state.apply(&put(number, priority, due)).is_err(), "{number} in {priority}");
        assert_eq!(state.apply(&put(3, priority, due)), Ok(()));
        check(state);
    }
}

use proptest::prelude::*;

use super::*;
use crate::kernel::{Header, Status};

const NAMES: [&str; 4] = ["", "a", "b", "a name/with \u{fc} and \u{1f980}"];
static PAYLOAD: [u8; 300] = [7; 300];

/// Small numbers, which are there in many events, and the largest.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0..6_u64,
        1 => any::<u64>(),
        1 => prop::sample::select(&[1 << 31, 1 << 32, 1 << 53, u64::MAX - 1, u64::MAX][..]),
    ]
}

fn small() -> impl Strategy<Value = u32> {
    let large = [1 << 22, 1 << 30, 1 << 31, (1 << 31) + 1, u32::MAX];
    prop_oneof![40 => 0..4_u32, 1 => prop::sample::select(large.to_vec())]
}

fn object() -> impl Strategy<Value = ObjectId> {
    small().prop_map(ObjectId)
}

fn session() -> impl Strategy<Value = SessionSlot> {
    small().prop_map(SessionSlot)
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn payload() -> impl Strategy<Value = &'static [u8]> {
    (0..PAYLOAD.len()).prop_map(|length| &PAYLOAD[..length])
}

fn any_mode() -> impl Strategy<Value = HoldMode> {
    prop_oneof![small().prop_map(HoldMode::Permits), Just(HoldMode::Read), Just(HoldMode::Write)]
}

fn any_settings() -> impl Strategy<Value = Settings> {
    prop_oneof![
        small().prop_map(|permits| Settings::Semaphore { permits }),
        (small(), small())
            .prop_map(|(permits, initial)| Settings::OpenSemaphore { permits, initial }),
        small().prop_map(|count| Settings::Latch { count }),
        any::<(bool, bool)>().prop_map(|(auto, set)| Settings::Event { auto, set }),
        number().prop_map(|capacity| Settings::Queue { capacity }),
    ]
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let headers = prop::collection::vec((prop::sample::select(&Header::ALL[..]), number()), 0..3);
    (headers, prop::option::of(payload())).prop_map(|(headers, payload)| {
        let answer =
            headers.into_iter().fold(Answer::plain(Status::Done), |answer, (header, value)| {
                answer.with(header, value)
            });
        match payload {
            Some(payload) => answer.containing(crate::kernel::Content::Message(payload.into())),
            None => answer,
        }
    })
}

/// Any event at all.
pub(in crate::kernel) fn any_event() -> impl Strategy<Value = Event<'static>> {
    let kind = prop::sample::select(&Kind::ALL[..]);
    let priority = prop_oneof![4 => 0..2_i32, 1 => any::<i32>()];
    let put = (object(), number(), priority.clone(), number(), small(), payload());
    let delayed = priority.clone();
    let due = prop::option::of(1..u64::MAX);
    prop_oneof![
        number().prop_map(|below| Event::FencesReserved { below }),
        (object(), name(), any_settings(), number()).prop_map(|(object, name, settings, next)| {
            Event::Created { object, name, settings, next }
        }),
        object().prop_map(|object| Event::Deleted { object }),
        (session(), (0..4_u128).prop_map(SessionId), number(), name()).prop_map(
            |(session, id, ttl, label)| { Event::SessionOpened { session, id, ttl, label } }
        ),
        session().prop_map(|session| Event::SessionEnded { session }),
        session().prop_map(|session| Event::SessionLeaves { session }),
        (session(), object(), number()).prop_map(|(session, queue, upto)| Event::LoansEnded {
            session,
            queue,
            upto
        }),
        (session(), number(), kind, name(), any_mode()).prop_map(
            |(session, fence, kind, name, mode)| Event::Granted {
                session,
                fence,
                kind,
                name,
                mode
            }
        ),
        (number(), small()).prop_map(|(fence, permits)| Event::Released { fence, permits }),
        (object(), small()).prop_map(|(object, permits)| Event::Resized { object, permits }),
        (number(), number(), any_mode()).prop_map(|(fence, into, mode)| Event::Converted {
            fence,
            into,
            mode
        }),
        (object(), number()).prop_map(|(object, count)| Event::Counted { object, count }),
        (name(), small(), number()).prop_map(|(name, parties, generation)| {
            Event::BarrierOpened { name, parties, generation }
        }),
        name().prop_map(|name| Event::BarrierTripped { name }),
        name().prop_map(|name| Event::BarrierBroken { name }),
        put.prop_map(|(queue, number, priority, due, deliveries, payload)| Event::Put {
            queue,
            number,
            priority,
            due,
            deliveries,
            payload
        }),
        (object(), number(), priority, prop::option::of(session()))
            .prop_map(|(queue, number, priority, by)| Event::Taken { queue, number, priority, by }),
        (object(), number(), due).prop_map(|(queue, number, due)| Event::Returned {
            queue,
            number,
            due
        }),
        (object(), number()).prop_map(|(queue, number)| Event::Acknowledged { queue, number }),
        (object(), number(), delayed, number(), small()).prop_map(
            |(queue, number, priority, due, deliveries)| Event::Delayed {
                queue,
                number,
                priority,
                due,
                deliveries
            }
        ),
        (object(), number()).prop_map(|(queue, below)| Event::NumbersUsed { queue, below }),
        number().prop_map(|below| Event::NumbersRetired { below }),
        (session(), number(), any::<u64>(), any_answer()).prop_map(
            |(session, seq, digest, answer)| Event::OutcomeKept { session, seq, digest, answer }
        ),
        (session(), number())
            .prop_map(|(session, upto)| Event::OutcomesAcknowledged { session, upto }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn every_event_comes_back(events in prop::collection::vec(any_event(), 1..4)) {
        let mut bytes = Vec::new();
        for event in &events {
            event.encode(&mut bytes);
        }
        let mut reader = Reader::new(&bytes);
        for event in &events {
            prop_assert_eq!(&Event::decode(&mut reader)?, event);
        }
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn an_event_that_is_cut_short_is_refused(event in any_event()) {
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        for length in 0..bytes.len() {
            prop_assert!(Event::decode(&mut Reader::new(&bytes[..length])).is_err());
        }
    }

    #[test]
    fn any_bytes_are_an_event_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut reader = Reader::new(&bytes);
        while !reader.is_empty() && Event::decode(&mut reader).is_ok() {}
    }
}

/// Journals that were written stay readable: the bytes of each kind of event are what they always
/// were.
#[test]
fn the_bytes_of_events_do_not_change() {
    let answer = Answer::done().with(Header::Message, 300).with(Header::Deliveries, 2);
    let content = crate::kernel::Content::Message(b"m"[..].into());
    let (object, queue, session) = (ObjectId(1), ObjectId(1), SessionSlot(1));
    let (number, priority) = (300, -2);
    let all = [
        Event::FencesReserved { below: 300 },
        Event::Created { object, name: "q", settings: Settings::Queue { capacity: 5 }, next: 7 },
        Event::Created { object, name: "s", settings: Settings::Semaphore { permits: 4 }, next: 0 },
        Event::Created { object, name: "l", settings: Settings::Latch { count: 4 }, next: 0 },
        Event::Created {
            object,
            name: "e",
            settings: Settings::Event { auto: true, set: false },
            next: 0,
        },
        Event::Deleted { object },
        Event::SessionOpened { session, id: SessionId(0x1234), ttl: 9, label: "l" },
        Event::SessionEnded { session },
        Event::Granted { session, fence: 300, kind: Kind::Lock, name: "l", mode: HoldMode::Write },
        Event::Released { fence: 300, permits: 2 },
        Event::Converted { fence: 300, into: 301, mode: HoldMode::Permits(3) },
        Event::Counted { object, count: 300 },
        Event::BarrierOpened { name: "b", parties: 2, generation: 300 },
        Event::BarrierTripped { name: "b" },
        Event::BarrierBroken { name: "b" },
        Event::Put { queue, number, priority, due: 9, deliveries: 1, payload: b"m" },
        Event::Taken { queue, number, priority, by: None },
        Event::Taken { queue, number, priority, by: Some(SessionSlot(4)) },
        Event::Returned { queue, number, due: Some(9) },
        Event::Returned { queue, number, due: None },
        Event::Acknowledged { queue, number },
        Event::OutcomeKept { session, seq: 2, digest: 3, answer: answer.containing(content) },
        Event::OutcomesAcknowledged { session, upto: 300 },
        Event::Delayed { queue, number, priority, due: 9, deliveries: 1 },
        Event::NumbersUsed { queue, below: 300 },
        Event::NumbersRetired { below: 300 },
        Event::Created {
            object,
            name: "o",
            settings: Settings::OpenSemaphore { permits: 4, initial: 0 },
            next: 0,
        },
        Event::Resized { object, permits: 300 },
    ];
    let mut text = String::new();
    for event in &all {
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        text.extend(bytes.iter().map(|byte| format!("{byte:02x}")));
        text.push('\n');
    }
    assert_eq!(text, GOLDEN);
}

const GOLDEN: &str = "\
01ac02
02010171030507
02010173000400
0201016c010400
0201016502010000
0301
04013412000000000000000000000000000009016c
0501
0601ac0200016c02
07ac0202
08ac02ad020003
0901ac02
0a02ac020162
0b0162
0c0162
0d01ac02030901016d
0e01ac0203
0f01ac020304
1001ac0209
1001ac0200
1101ac02
12010203000000000000000202ac02030201016d
1301ac02
1401ac02030901
1501ac02
16ac02
0201016f04040000
1e01ac02
";

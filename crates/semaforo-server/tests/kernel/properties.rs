//! Whatever happens, in whatever order.

use proptest::prelude::*;

use crate::runner::{CONNECTIONS, Runner, SESSIONS, Sender, Step, Target};
use crate::support::dump;

fn connection() -> impl Strategy<Value = usize> {
    0..CONNECTIONS
}

fn timeout() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![5 => Just(None), 2 => Just(Some(0)), 3 => (1..30_u64).prop_map(|tens| Some(tens * 10))]
}

fn sender() -> impl Strategy<Value = Sender> {
    let session = prop_oneof![Just(None), (0..SESSIONS).prop_map(Some)];
    (connection(), session, any::<bool>(), timeout()).prop_map(
        |(connection, session, numbered, timeout)| Sender {
            connection,
            session,
            numbered,
            timeout,
        },
    )
}

/// Mostly what happens concerns one object.
fn step(focus: Target) -> impl Strategy<Value = Step> {
    let target = prop_oneof![
        6 => Just(focus),
        1 => prop::sample::select(&Target::ALL[..]),
    ];
    let ask = (sender(), target, any::<u8>(), any::<u8>())
        .prop_map(|(sender, target, method, pick)| Step::Ask { sender, target, method, pick });
    let again = (connection(), timeout(), 0..6_u8, prop::bool::weighted(0.1)).prop_map(
        |(connection, timeout, pick, other)| Step::Again { connection, timeout, pick, other },
    );
    let keep_alive = (connection(), 0..SESSIONS, prop::option::of(0..4_u8))
        .prop_map(|(connection, session, but)| Step::KeepAlive { connection, session, but });
    let close = (connection(), 0..SESSIONS)
        .prop_map(|(connection, session)| Step::Close { connection, session });
    let time = prop_oneof![6 => 1..20_u64, 1 => 50..250_u64];
    prop_oneof![
        50 => ask,
        8 => again,
        4 => keep_alive,
        2 => (0..SESSIONS).prop_map(|session| Step::Open { session }),
        1 => close,
        4 => any::<u8>().prop_map(|pick| Step::Cancel { pick }),
        2 => connection().prop_map(|connection| Step::HalfClose { connection }),
        4 => connection().prop_map(|connection| Step::Disconnect { connection }),
        6 => (connection(), any::<bool>())
            .prop_map(|(connection, paused)| Step::Pause { connection, paused }),
        2 => any::<u8>().prop_map(|pick| Step::Undelivered { pick }),
        8 => (time, prop::bool::weighted(0.9)).prop_map(|(tens, told)| Step::Pass { tens, told }),
        1 => any::<bool>().prop_map(|snapshot| Step::Restart { snapshot }),
        2 => prop::sample::select(&[0, 20, usize::MAX][..]).prop_map(|budget| Step::Budget { budget }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::sample::select(&Target::ALL[..])
        .prop_flat_map(|focus| prop::collection::vec(step(focus), 1..80))
}

fn run(steps: &[Step], snapshot: usize) -> Runner {
    let mut runner = Runner::new();
    for (at, step) in steps.iter().enumerate() {
        if at == snapshot {
            runner.take_snapshot();
        }
        runner.step(step);
    }
    runner
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(config(400))]

    /// The kernel does what the model does, the folded events give its state, and nothing is left
    /// when all have gone.
    #[test]
    fn as_the_model_says(steps in steps(), snapshot in 0..80_usize, stop in any::<bool>()) {
        let runner = run(&steps, snapshot);
        if stop { runner.stop() } else { runner.leave() }
    }
}

proptest! {
    #![proptest_config(config(50))]

    /// The same commands at the same times: the same events, and the same answers in the same
    /// order.
    #[test]
    fn the_same_again(steps in steps()) {
        let (one, other) = (run(&steps, usize::MAX).world, run(&steps, usize::MAX).world);
        prop_assert_eq!(one.journal, other.journal);
        prop_assert_eq!(one.order, other.order);
        prop_assert_eq!(one.answers, other.answers);
        prop_assert_eq!(one.closed, other.closed);
        prop_assert_eq!(dump(one.kernel.state()), dump(other.kernel.state()));
    }
}

/// A history that was found once in ten thousand.
#[test]
fn a_message_that_becomes_due_while_others_are_postponed() {
    let steps = [
        Step::Budget { budget: 0 },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 156,
            pick: 11,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 36,
            pick: 11,
        },
        Step::Ask {
            sender: Sender { connection: 1, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 102,
            pick: 0,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 48,
            pick: 0,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 42,
            pick: 0,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 12,
            pick: 0,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 12,
            pick: 0,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 88,
            pick: 0,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 12,
            pick: 45,
        },
        Step::Ask {
            sender: Sender { connection: 2, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 200,
            pick: 0,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 162,
            pick: 0,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 78,
            pick: 0,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: Some(10) },
            target: Target::Queue,
            method: 186,
            pick: 0,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 76,
            pick: 0,
        },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 10,
            pick: 0,
        },
        Step::Pass { tens: 5, told: false },
        Step::Ask {
            sender: Sender { connection: 0, session: None, numbered: false, timeout: None },
            target: Target::Queue,
            method: 78,
            pick: 0,
        },
    ];
    run(&steps, 0).leave();
}
